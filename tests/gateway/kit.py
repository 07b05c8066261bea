"""What the gateway's tests share: a clock without pauses, and short ways to ask."""

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
from ishiki.testing.clock import FakeClock, FixedRandom

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


class EagerClock(FakeClock):
    """A fake clock on which every sleep passes at once; `slept` holds how long each was."""

    async def sleep(self, seconds: float) -> None:
        """Note the sleep and return."""
        self.slept.append(seconds)
        await anyio.lowlevel.checkpoint()


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
async def served(file: Path, *, max_calls: int = 16) -> AsyncGenerator[Gateway]:
    """Open the gateway of `file`, with a key set, and close its connections at the end."""
    gateway = Gateway.load(
        file,
        env={"MAIN_KEY": "sk-main-key-0123456789", "SIDE_KEY": "sk-side-key-0123456789"},
        clock=EagerClock(),
        random=FixedRandom([0.0]),
        max_calls=max_calls,
    )
    try:
        yield gateway
    finally:
        await gateway.aclose()
