"""What an implementation answers to a send: what is read is never taken for refused, over a real WebSocket."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.contracts.platform import SendOutcome
from ishiki.jsonvalue import JsonObject
from ishiki.plugin.onebot_platform import PlatformLimits
from ishiki.plugin.send_answers import read_failure
from ishiki.testing.onebot_peer import OneBotPeer
from ishiki.testing.send_answers import SEND_ANSWERS

from .bot_kit import GROUP, Bot, running_bot

pytestmark = pytest.mark.timeout(20)


@asynccontextmanager
async def connected(monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[tuple[Bot, OneBotPeer]]:
    """Run a bot with a connected end that is in group 500."""
    limits = PlatformLimits(send_s=5, fetch_s=2)
    async with running_bot(monkeypatch, limits=limits) as bot, OneBotPeer(bot.url) as peer:
        peer.set_group(500)
        with anyio.fail_after(5):
            await bot.platform.wait_online()
        yield bot, peer


async def test_every_form_of_an_answer_is_what_people_have_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue, sends: a timeout of any form is `unknown`, which counts as said; a mute is one, and says so."""
    outcomes: dict[str, SendOutcome] = {}
    async with connected(monkeypatch) as (bot, peer):
        for name, form in SEND_ANSWERS.items():
            peer.script("send_group_msg", form.behaviour())
            outcomes[name] = await bot.platform.send(GROUP, name)
    expected = {True: "sent", None: "unknown", False: "refused"}
    assert {name: one.state for name, one in outcomes.items()} == {
        name: expected[form.is_read] for name, form in SEND_ANSWERS.items()
    }
    assert {name: one.bar for name, one in outcomes.items()} == {name: form.bar for name, form in SEND_ANSWERS.items()}
    nameless = {name for name, one in outcomes.items() if one.state == "sent" and not one.message_id}
    assert nameless == {"napcat id 0", "ok without data", "put off"}
    assert all(len(one.detail) <= 121 and "\n" not in one.detail for one in outcomes.values())


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        pytest.param({"wording": "line\none"}, SendOutcome("refused", detail="line one"), id="one line"),
        pytest.param({"retcode": 1200}, SendOutcome("refused", detail="retcode 1200"), id="a code alone"),
        pytest.param({}, SendOutcome("refused", detail="retcode unknown"), id="nothing"),
        pytest.param(
            {"retcode": 1200, "message": 'Timeout: EventRet: {"result": 120}'},
            SendOutcome("refused", detail="the account is muted there", bar="muted"),
            id="QQ's verdict counts more than the word",
        ),
        pytest.param(
            {"retcode": 100, "message": "the account is offline"},
            SendOutcome("refused", detail="the account is not logged in to the chat", bar="offline"),
            id="not logged in",
        ),
        pytest.param(
            {"retcode": 100, "message": "请先添加对方为好友"},
            SendOutcome(
                "refused", detail="they are no friend of the account, or take no messages from it", bar="not_friend"
            ),
            id="no friend",
        ),
        pytest.param(
            {"retcode": 100, "message": "the word banned is not welcome"},
            SendOutcome("refused", detail="the word banned is not welcome"),
            id="about the words",
        ),
    ],
)
def test_an_answer_is_read_by_what_it_says(answer: JsonObject, outcome: SendOutcome) -> None:
    """Our choice, where no implementation's form is in the table."""
    assert read_failure(answer) == outcome


@given(
    st.sampled_from(["timeout", "Timed out", "timed-out", "发送超时", "TIMEOUT", "deadline exceeded", "time out"]),
    st.sampled_from([-1, 0, 1, 100, 200, 500, 1200, 1400, 1500]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20).filter(
        lambda text: not any("一" <= c <= "鿿" for c in text)
    ),
    st.sampled_from(["message", "wording", "msg"]),
)
def test_a_timeout_of_any_form_may_have_been_read(words: str, retcode: int, around: str, key: str) -> None:
    """Issue, sends: the kind and not the one text."""
    said = read_failure({"status": "failed", "retcode": retcode, key: f"{around} {words} {around}"})
    assert said.state == "unknown"
