"""What the gateway's tests share: a clock and dice that the test owns, and short ways to ask."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from ishiki.core.messages import UserMessage
from ishiki.core.model import (
    Finish,
    LanguageModel,
    ModelPart,
    ModelRequest,
    ReasoningDelta,
    RequestOrigin,
    TextDelta,
    ToolCall,
    ToolSpec,
)
from ishiki.gateway import Gateway

SPEAK = ToolSpec(
    "send_message",
    "Say something.",
    {
        "type": "object",
        "properties": {"messages": {"type": "array", "items": {"type": "string"}}},
        "required": ["messages"],
    },
)
FINISH = ToolSpec("finish", "End the turn.", {"type": "object", "properties": {"reason": {"type": "string"}}})


class OwnClock:
    """A clock that moves only when the test says so; `sleeps` holds what was slept."""

    def __init__(self, *, sleeps_at_once: bool = True) -> None:
        self.time = 1_000.0
        self.sleeps: list[float] = []
        self._sleeps_at_once = sleeps_at_once
        self._moved = anyio.Event()

    def now_ms(self) -> int:
        return int(self.time * 1000)

    def monotonic(self) -> float:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += seconds
        self._moved.set()
        self._moved = anyio.Event()

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        due = self.time + seconds
        while not self._sleeps_at_once and self.time < due:
            await self._moved.wait()


class Dice:
    """Rolls the given numbers in turn, again and again."""

    def __init__(self, *rolls: float) -> None:
        self._rolls = rolls or (0.0,)
        self._position = 0

    def random(self) -> float:
        self._position += 1
        return self._rolls[(self._position - 1) % len(self._rolls)]


def ask(*texts: str, tools: Sequence[ToolSpec] = (), owner: str = "", instructions: str = "") -> ModelRequest:
    """Return a request of user messages."""
    return ModelRequest(
        instructions, [UserMessage(text) for text in texts or ("hi",)], tools, origin=RequestOrigin(owner)
    )


async def answer(model: LanguageModel, request: ModelRequest | None = None) -> list[ModelPart]:
    """Return all parts of one answer."""
    with anyio.fail_after(20):
        return [part async for part in model.stream(request or ask())]


def text_of(parts: Sequence[ModelPart]) -> str:
    """Return the whole text."""
    return "".join(part.text for part in parts if isinstance(part, TextDelta))


def reasoning_of(parts: Sequence[ModelPart]) -> str:
    """Return the whole reasoning."""
    return "".join(part.text for part in parts if isinstance(part, ReasoningDelta))


def calls_of(parts: Sequence[ModelPart]) -> list[ToolCall]:
    """Return the whole tool calls, in order."""
    return [part for part in parts if isinstance(part, ToolCall)]


def finish_of(parts: Sequence[ModelPart]) -> Finish:
    """Return the finish, which is the last part and the only one of its kind."""
    assert [part for part in parts if isinstance(part, Finish)] == [parts[-1]]
    last = parts[-1]
    assert isinstance(last, Finish)
    return last


def write_models(folder: Path, text: str) -> Path:
    """Write a models.yaml into `folder`."""
    file = folder / "models.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def one_server(folder: Path, base_url: str, *, extra: str = "", model: str = "") -> Path:
    """Write a models.yaml with one provider `main` that has one model `m`."""
    return write_models(
        folder,
        f"""
providers:
  main:
    api: openai-completions
    base_url: {base_url}
    api_key: "${{MAIN_KEY}}"
{extra}
    models:
      - {{id: m, input: [text, image]{model}}}
""",
    )


@asynccontextmanager
async def served(file: Path, *, clock: OwnClock | None = None, max_calls: int = 16) -> AsyncGenerator[Gateway]:
    """Open the gateway of `file`, with a key set, and close its connections at the end."""
    gateway = Gateway.load(
        file,
        env={"MAIN_KEY": "sk-main-key-0123456789", "SIDE_KEY": "sk-side-key-0123456789"},
        clock=clock or OwnClock(),
        random=Dice(),
        max_calls=max_calls,
    )
    try:
        yield gateway
    finally:
        await gateway.aclose()
