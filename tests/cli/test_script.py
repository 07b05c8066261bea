from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio.to_thread
import pytest

from ishiki.cli.arguments import ChatArguments
from ishiki.cli.chat import run_chat
from ishiki.cli.script import Expect, ScriptError, load_script, read_script
from ishiki.cli.typed import Group, Say
from ishiki.jsonvalue import JsonObject

from .bot_end import BotEnd, Reaction, bot_end, echo, plain_text

CI_SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "ci.chat"


class Played:
    """How a script went."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status = status
        self.out = out.splitlines()
        self.err = err


async def play(
    script: str | Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    react: Reaction = echo,
    *,
    timeout_s: float = 5.0,
) -> Played:
    """Run `chat --script` in this process against a bot that reacts by `react`."""
    if isinstance(script, str):
        file = tmp_path / "test.chat"
        file.write_text(script, encoding="utf-8")
    else:
        file = script
    async with bot_end(react) as bot:
        arguments = ChatArguments(url=bot.url, script=file, timeout_s=timeout_s)
        status = await anyio.to_thread.run_sync(lambda: run_chat(arguments, folder=tmp_path, environ={}))
    out, err = capsys.readouterr()
    return Played(status, out, err)


def test_a_script_is_read_with_the_numbers_of_its_lines() -> None:
    """Our choice; docs/guide/chat.md."""
    script = read_script(
        "# comment\n\n/group 5\n  @bot hi\n\\# hash\n\\expect nothing\nexpect yes\nexpect /y.s/\n", "f"
    )
    assert [(step.line, step.action) for step in script.steps[:4]] == [
        (3, Group(5)),
        (4, Say("@bot hi")),
        (5, Say("# hash")),
        (6, Say("expect nothing")),
    ]
    wanted = [step.action.shown for step in script.steps if isinstance(step.action, Expect)]
    assert wanted == ["'yes'", "/y.s/"]


def test_every_wrong_line_of_a_script_is_reported_before_anything_is_said() -> None:
    """Our choice."""
    with pytest.raises(ScriptError) as raised:
        read_script("hello\n/grup 5\nexpect /(/\nexpect-none now\nexpect hello\n", "bad.chat")
    lines = str(raised.value).splitlines()
    assert [line.partition(": ")[0] for line in lines] == ["bad.chat:2", "bad.chat:3", "bad.chat:4"]
    assert raised.value.code == "script_invalid"


@pytest.mark.parametrize("content", [b"", b"hello\n", "# 林".encode("gbk"), None])
def test_a_script_that_cannot_fail_or_be_read_is_an_error(content: bytes | None, tmp_path: Path) -> None:
    """Our choice: a script without an expectation would pass against any bot."""
    file = tmp_path / "x.chat"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ScriptError) as raised:
        load_script(file)
    assert raised.value.file == file


async def test_a_dialogue_that_goes_as_written_passes_and_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue: `--script FILE` runs a dialogue for tests."""
    played = await play("hello\nexpect you said: hello\n你好\nexpect /said: .{2}$/\n", tmp_path, capsys)
    assert (played.status, played.err) == (0, "")
    assert played.out[1:] == [
        "[private 42] Rin #1: hello",
        "[private 42] bot #2: you said: hello",
        "[private 42] Rin #3: 你好",
        "[private 42] bot #4: you said: 你好",
        f"- {tmp_path / 'test.chat'}: passed, 2 expectations met",
    ]


async def test_the_script_of_the_continuous_check_passes_against_an_echoing_bot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Issue: `.ci/run` holds one conversation; the offline demo repeats what it was told, as this bot does."""
    played = await play(CI_SCRIPT, tmp_path, capsys)
    assert (played.status, played.err) == (0, "")


async def test_a_missed_expectation_names_its_line_and_what_was_said_instead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Our choice."""
    played = await play("hello\nexpect hello\n\nbye\nexpect farewell\n", tmp_path, capsys, timeout_s=0.2)
    assert played.status == 1
    assert f"{tmp_path / 'test.chat'}:5: expected 'farewell' in private 42 within 0.2 s" in played.err
    assert "you said: bye" in played.err
    assert "you said: hello" not in played.err


async def test_an_answer_in_another_chat_does_not_meet_an_expectation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Our choice: a reply to the wrong place is what such a test is there to find."""

    async def to_private(bot: BotEnd, event: JsonObject) -> None:
        await bot.call("send_private_msg", user_id=event["user_id"], message=f"psst: {plain_text(event)}")

    played = await play("/group 5\n@bot hi\nexpect hi\n", tmp_path, capsys, to_private, timeout_s=0.2)
    assert played.status == 1
    assert "the bot said nothing in group 5 since; elsewhere it said:\n  [private 42] bot #2: psst: hi" in played.err


async def test_words_that_break_a_wanted_silence_fail_the_script_at_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Our choice: silence is proved by the answer to a later line in the same chat, never by waiting."""

    async def talkative(bot: BotEnd, event: JsonObject) -> None:
        await bot.send(event, {"type": "text", "data": {"text": f"oh, {plain_text(event)}!"}})

    played = await play("/group 5\nplain\nexpect-none\n@bot marker\nexpect marker\n", tmp_path, capsys, talkative)
    assert played.status == 1
    assert "test.chat:3: expected nothing before 'marker', and the bot said:" in played.err
    assert "oh, plain!" in played.err


async def test_a_silence_that_nothing_proves_fails_the_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Our choice: no test that cannot fail."""
    played = await play("hi\nexpect hi\n/group 5\nplain\nexpect-none\n", tmp_path, capsys)
    assert played.status == 1
    assert "test.chat:5: no `expect` follows in group 5" in played.err


async def test_a_command_that_cannot_be_done_fails_the_script_at_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Our choice."""
    played = await play("hi\n/recall 77\nexpect hi\n", tmp_path, capsys)
    assert played.status == 1
    assert "test.chat:2: there is no message #77 in private 42" in played.err


async def test_a_lost_connection_fails_the_script_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Our choice: far before the expectation's own time is up."""

    async def hang_up(bot: BotEnd, _event: JsonObject) -> None:
        await bot.connections.items[-1].close()

    with anyio.fail_after(20):
        played = await play("hi\nexpect hi\n", tmp_path, capsys, hang_up, timeout_s=600)
    assert played.status == 1
    assert "the connection to the bot was lost" in played.err


async def test_a_wrong_token_ends_the_chat_with_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Issue: it reads the token from `.env`."""
    (tmp_path / "bot.py").touch()
    script = tmp_path / "test.chat"
    script.write_text("hello\nexpect hello\n", encoding="utf-8")
    async with bot_end(token="right") as bot:
        statuses: list[int] = []
        run = partial(run_chat, ChatArguments(script=script), folder=tmp_path, environ={})
        for token in ("right", "other"):
            (tmp_path / ".env").write_text(f"PORT={bot.port}\nONEBOT_ACCESS_TOKEN={token}\n", encoding="utf-8")
            statuses.append(await anyio.to_thread.run_sync(run))
    assert statuses == [0, 1]
    assert "ONEBOT_ACCESS_TOKEN is not the bot's" in capsys.readouterr().err
