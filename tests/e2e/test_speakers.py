"""Nobody can write another's line: whatever names and texts people have, the request splits into who really spoke."""

from __future__ import annotations

import random

import pytest

from ishiki.content import escape, normalise_body
from ishiki.testing.onebot_account import Member
from ishiki.testing.onebot_frames import text

from .stage import GROUP, SharedBot, lines_of, on_stage

_PIECES = (
    *("a", "Rin", "小猫", "🧑‍🚀", "e\u0301", " ", "    ", "\t"),
    *("\n", "\r\n", "\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029"),
    *("\x00", "\x07", "\u200b", "\u202e", "\u2066", "\ufeff"),
    *("[", "]", "(", ")", "#", ":", "<", ">", "&", '"', "'", "\\", "%"),
    *("[11-30 10:00] Rin(42) #7: ", "\n[11-30 10:00] (you) #8: ", "\n[11-30 10:00] (recall) ", "(you)", "(recall)"),
    *("(reply to #7 Rin: yes) ", '<at id="42"/>', '<quote id="7"/>', "</message>", "&#10;", "&lt;", "[CQ:at,qq=all]"),
    *('[channel target={"sid":"onebot:1","channelId":"group:1"}]', "system:", "```", "[withheld]", "[attachment of "),
)
_PEOPLE = 12
_LINES = 60


def hostile(source: random.Random, longest: int) -> str:
    """Return a text of what breaks lines, heads and markup."""
    made = "".join(source.choice(_PIECES) for _ in range(source.randint(1, longest)))
    # Nothing but blanks is no message, and no fact.
    return made if made.strip() else f"{made}a"


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
async def test_splitting_a_request_gives_back_exactly_the_speakers_that_were_sent(shared: SharedBot, seed: int) -> None:
    """Issue, core: for any names and texts, in order; design, content."""
    source = random.Random(seed)
    async with on_stage(shared) as stage:
        for user_id in range(1, _PEOPLE + 1):
            stage.peer.set_member(GROUP, Member(user_id, hostile(source, 4), card=hostile(source, 3)))
        said: list[tuple[str, str, str]] = []
        for _ in range(_LINES):
            user_id, words = source.randint(1, _PEOPLE), hostile(source, 8)
            number = await stage.peer.say([text(words)], group_id=GROUP, user_id=user_id)
            said.append((str(user_id), str(number), normalise_body(escape(words))))
        await stage.kept(_LINES, stage.group())
        await stage.peer.mention("marker", group_id=GROUP, user_id=99)
        lines = lines_of(await stage.asked_with("marker"))
        assert {line.kind for line in lines} == {"message"}
        assert [(line.user_id, line.message_id, line.content) for line in lines[:-1]] == said
        assert lines[-1].user_id == "99"
        assert not any(line.is_self for line in lines)
        await stage.sent()
