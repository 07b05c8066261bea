"""Every segment type over the socket, in both message formats: the line that the model reads."""

from __future__ import annotations

import hashlib
import re
from html import unescape

import pytest

from ishiki.plugin.segments import SEGMENTS
from ishiki.testing.onebot_frames import MessageFormat, reply, segment, text
from tests.plugin.segment_table import BEYOND, STANDARD, TABLE

from .stage import GROUP, SharedBot, bodies_of, lines_of, on_stage

_SOURCE = re.compile(r'(<(?:img|audio|video)) src="([^"]*)"')


def captured(markup: str) -> str:
    """Return markup with its media as assets. Specification, resources: named by the SHA-256 of the source."""

    def name(source: re.Match[str]) -> str:
        digest = hashlib.sha256(unescape(source[2]).encode()).hexdigest()[:32]
        return f'{source[1]} src="asset://{digest}"'

    return _SOURCE.sub(name, markup)


@pytest.mark.parametrize("message_format", ["array", "string"])
async def test_the_model_reads_each_segment_type_as_the_table_says(
    shared: SharedBot, message_format: MessageFormat
) -> None:
    """Issue, must hold: the table of OneBot v11's segments and of those that ends send besides."""
    async with on_stage(shared, message_format=message_format) as stage:
        for kind, data, _ in TABLE:
            await stage.peer.say([segment(kind, **data)], group_id=GROUP)
        await stage.kept(len(TABLE), stage.group())
        await stage.peer.mention("marker", group_id=GROUP)
        request = await stage.asked_with("marker")
        assert bodies_of(request)[:-1] == [captured(markup) for _, _, markup in TABLE]
        await stage.sent()


@pytest.mark.parametrize("message_format", ["array", "string"])
async def test_the_model_reads_a_reply_as_a_note_before_the_line(
    shared: SharedBot, message_format: MessageFormat
) -> None:
    """Issue, must hold: `reply` is the one type that is no element of the content."""
    async with on_stage(shared, message_format=message_format) as stage:
        quoted = await stage.peer.say("who has the key?", group_id=GROUP, user_id=41)
        await stage.peer.say([reply(quoted), text("me")], group_id=GROUP, user_id=42)
        await stage.peer.mention("marker", group_id=GROUP)
        line = lines_of(await stage.asked_with("marker"))[1]
        assert (line.user_id, line.reply, line.content) == ("42", f"#{quoted} user 41: who has the key?", "me")
        await stage.sent()


def test_the_table_names_every_type() -> None:
    """Issue, must hold: a test fails when a name is missing."""
    assert {kind for kind, _, _ in TABLE} | {"reply"} >= {*STANDARD, *BEYOND, *SEGMENTS}
