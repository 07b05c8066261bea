"""Requests and answers as files, for people who look for a fault: whole, without secrets, and not without end."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import cast

import anyio
import orjson
import pytest

from ishiki.core.messages import FilePart, TextPart, UserMessage
from ishiki.core.model import Finish, ModelPart, ModelRequest, RequestOrigin, TextDelta
from ishiki.errors import ModelError
from ishiki.gateway import Gateway
from ishiki.gateway.calls import Target, wire_call
from ishiki.gateway.litellm_wire import WireCall
from ishiki.gateway.transcripts import RequestDump
from ishiki.jsonvalue import JsonObject, read_object
from ishiki.testing import openai_replies as replies
from ishiki.testing.openai_server import OpenAIServer

from .kit import FINISH, EagerClock, answer, ask, one_server

KEY = "sk-main-key-0123456789"
HEADER = "header-secret-value-99"


@asynccontextmanager
async def dumping(folder: Path, server: OpenAIServer, *, debug_stream: bool = False) -> AsyncGenerator[Gateway]:
    """Open a gateway that writes requests into `folder/requests`."""
    file = one_server(folder, server.base_url, extra='    headers: {X-App: "${APP_SECRET}"}')
    gateway = Gateway.load(
        file,
        env={"MAIN_KEY": KEY, "APP_SECRET": HEADER},
        clock=EagerClock(),
        dump_folder=folder / "requests",
        debug_stream=debug_stream,
    )
    try:
        yield gateway
    finally:
        await gateway.aclose()


def written(folder: Path) -> list[JsonObject]:
    """Return the files, oldest first."""
    return [orjson.loads(file.read_bytes()) for file in sorted((folder / "requests").iterdir())]


async def test_a_request_and_its_answer_are_written_down_without_keys(tmp_path: Path) -> None:
    """Issue, gateway complete: ISHIKI_DUMP_REQUESTS without secrets, also where somebody says the key."""
    request = ModelRequest(
        "You are Neko.",
        [UserMessage([TextPart(f"my key is {KEY}"), FilePart("image/png", data=b"x" * 5000)])],
        [FINISH],
        origin=RequestOrigin("neko/onebot:1/group:5", "t1", 2),
    )
    async with OpenAIServer() as server, dumping(tmp_path, server) as gateway:
        call = replies.call("finish", {"reason": "done"})
        server.enqueue(replies.tool_calls([call], content=f"I know {KEY}", reasoning="because"))
        await answer(gateway.model("main:m"), request)
    (dump,) = written(tmp_path)
    assert (dump["format"], dump["version"], dump["ref"]) == ("ishiki.request", 1, "main:m")
    assert (dump["owner"], dump["turnId"], dump["step"]) == ("neko/onebot:1/group:5", "t1", 2)
    sent, said = read_object(dump, "request"), read_object(dump, "answer")
    assert "You are Neko." in str(sent["messages"])
    assert "finish" in str(sent["tools"])
    assert said["text"] == "I know ***"
    assert said["reasoning"] == "because"
    assert '"reason":"done"' in str(said["toolCalls"])
    assert said["finishReason"] == "tool-calls"
    assert read_object(said, "usage")["isEstimate"] is False
    raw = b"".join(file.read_bytes() for file in (tmp_path / "requests").iterdir())
    assert KEY.encode() not in raw
    assert HEADER.encode() not in raw
    assert b"api_key" not in raw
    assert len(raw) < 4_000


async def test_a_failed_call_is_written_down_with_its_error(tmp_path: Path) -> None:
    """Issue, gateway complete: the error is ours, and masked."""
    async with OpenAIServer() as server, dumping(tmp_path, server) as gateway:
        server.enqueue(replies.error(401, f"bad key {KEY}"))
        with pytest.raises(ModelError):
            await answer(gateway.model("main:m"))
    (dump,) = written(tmp_path)
    assert read_object(dump, "answer")["error"] == "main:m: HTTP 401: bad key ***"


async def test_a_call_that_hangs_is_there_before_it_ends(tmp_path: Path) -> None:
    """Our choice: that is the call somebody looks for."""
    async with OpenAIServer() as server, dumping(tmp_path, server) as gateway:
        server.enqueue(replies.Hang())
        model = gateway.model("main:m")
        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(answer, model)
                await server.wait_requests(1)
                assert [dump["answer"] for dump in written(tmp_path)] == [None]
                tasks.cancel_scope.cancel()
    (dump,) = written(tmp_path)
    assert read_object(dump, "answer")["error"] == "the call was cancelled"


async def test_a_reader_that_stops_at_the_finish_has_cancelled_nothing(tmp_path: Path) -> None:
    """Core, read_answer: the iterator is closed when the finish has come."""
    async with OpenAIServer() as server, dumping(tmp_path, server) as gateway:
        parts = cast("AsyncGenerator[ModelPart]", gateway.model("main:m").stream(ask()))
        async with aclosing(parts):
            async for part in parts:
                if isinstance(part, Finish):
                    break
    (dump,) = written(tmp_path)
    assert "error" not in read_object(dump, "answer")


async def test_the_oldest_files_leave_for_new_ones(tmp_path: Path) -> None:
    """Our choice: bounded, so that a switch that was forgotten fills no disk."""
    async with OpenAIServer() as server, dumping(tmp_path, server) as gateway:
        await answer(gateway.model("main:m"), ask("one"))
        (first,) = (tmp_path / "requests").iterdir()
        for number in range(8):
            (tmp_path / "requests" / f"20200101T000000.00{number}-x.json").write_text("{}", encoding="utf-8")
        clock = EagerClock()
        small = RequestDump(tmp_path / "requests", clock=clock, redact=str, max_files=3)
        call = _last_call(gateway)
        for _ in range(2):
            await small.begin(call)
    names = sorted(file.name for file in (tmp_path / "requests").iterdir())
    assert len(names) == 3
    assert first.name in names


def _last_call(gateway: Gateway) -> WireCall:
    """Return a call as the gateway's model would make it."""
    return wire_call(Target("main:m", "openai-completions", "m", gateway.model("main:m").info), ask("again"))


async def test_a_folder_that_cannot_be_written_is_a_warning_and_the_answer_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Our choice: looking for a fault must not make one."""
    (tmp_path / "requests").write_text("a file in the way", encoding="utf-8")
    async with OpenAIServer() as server, dumping(tmp_path, server) as gateway:
        parts = await answer(gateway.model("main:m"))
    assert any(isinstance(part, TextDelta) for part in parts)
    assert "is not written down" in caplog.text


@pytest.mark.parametrize("is_on", [True, False])
async def test_parts_of_a_stream_are_debug_lines_where_that_is_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_on: bool
) -> None:
    """Design, process settings: ISHIKI_DEBUG_STREAM; style: payload text at DEBUG only, 80 characters at most."""
    caplog.set_level(logging.DEBUG, logger="ishiki.gateway")
    async with OpenAIServer() as server, dumping(tmp_path, server, debug_stream=is_on) as gateway:
        server.enqueue(replies.text("word " * 100))
        await answer(gateway.model("main:m"), ask(owner="neko/onebot:1/group:5"))
    lines = [record for record in caplog.records if "TextDelta" in record.getMessage()]
    assert bool(lines) is is_on
    assert all(record.levelno == logging.DEBUG and len(record.getMessage()) < 130 for record in lines)
