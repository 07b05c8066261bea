"""Each request to a provider and what came of it, as a file: `ISHIKI_DUMP_REQUESTS`. For people who look for a fault.

A file is written before the request goes out and again when its answer is over, so that a call that hangs is there too.
Keys and headers are never in it, known secrets are masked, media are shortened, and old files leave for new ones.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import anyio
import anyio.to_thread

from ishiki.core.clock import Clock
from ishiki.core.model import Finish, ModelPart, ReasoningDelta, ResponseStart, TextDelta, ToolCall
from ishiki.gateway.litellm_wire import WireCall
from ishiki.jsonvalue import JsonObject, JsonValue

__all__ = ["FORMAT", "MAX_FILES", "CallRecord", "RequestDump"]

logger = logging.getLogger(__name__)

FORMAT = "ishiki.request"
VERSION = 1

MAX_FILES = 500
"""Files that are kept; at 50 KB each that is 25 MB. Our choice."""

_MAX_DATA_CHARS = 120
"""Characters of a `data:` URL that are kept: enough to see what it is."""

_WRITE_LIMIT_S = 2.0
"""How long the last write may keep a call that is over."""

_LEFT_OUT = frozenset({"api_key", "extra_headers"})
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(slots=True)
class CallRecord:
    """One call while it is under way."""

    path: Path
    call: WireCall
    began_at_ms: int
    began_s: float
    """By the monotonic clock."""
    model: str = ""
    text: list[str] = field(default_factory=list[str])
    reasoning: list[str] = field(default_factory=list[str])
    calls: list[ToolCall] = field(default_factory=list[ToolCall])
    finish: Finish | None = None

    def take(self, part: ModelPart) -> None:
        """Note a part of the answer."""
        match part:
            case ResponseStart(model):
                self.model = model
            case TextDelta(text):
                self.text.append(text)
            case ReasoningDelta(text):
                self.reasoning.append(text)
            case ToolCall():
                self.calls.append(part)
            case Finish():
                self.finish = part
            case _:
                pass  # the pieces of a call, which comes whole as well


class RequestDump:
    """The folder of the files. Whatever goes wrong with it is a warning and nothing more."""

    def __init__(self, folder: Path, *, clock: Clock, redact: Callable[[str], str], max_files: int = MAX_FILES) -> None:
        """Write into `folder`, which is made at the first request.

        Args:
            folder: where.
            clock: for names and times.
            redact: takes secrets out of a text.
            max_files: files that are kept, the newest.
        """
        self._folder = folder
        self._clock = clock
        self._redact = redact
        self._max_files = max_files
        self._count = 0

    async def begin(self, call: WireCall) -> CallRecord:
        """Write down that `call` goes out."""
        self._count += 1
        now = self._clock.now_ms()
        stamp = datetime.fromtimestamp(now / 1000, UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3]
        name = f"{stamp}-{self._count:06}-{_UNSAFE.sub('_', call.ref)[:60]}.json"
        record = CallRecord(self._folder / name, call, now, self._clock.monotonic())
        await anyio.to_thread.run_sync(self._write, record, None)
        return record

    async def end(self, record: CallRecord, error: BaseException | None) -> None:
        """Write down what came of it; also when the caller is being cancelled."""
        with anyio.move_on_after(_WRITE_LIMIT_S, shield=True):
            await anyio.to_thread.run_sync(self._write, record, self._outcome(record, error))

    def _outcome(self, record: CallRecord, error: BaseException | None) -> JsonObject:
        out: dict[str, JsonValue] = {
            "seconds": round(self._clock.monotonic() - record.began_s, 3),
            "model": record.model,
            "reasoning": "".join(record.reasoning),
            "text": "".join(record.text),
            "toolCalls": [
                {"id": call.tool_call_id, "name": call.tool_name, "arguments": call.arguments} for call in record.calls
            ],
        }
        if record.finish is not None:
            usage = record.finish.usage
            out["finishReason"] = record.finish.reason
            out["usage"] = {
                "inputTokens": usage.input_tokens,
                "outputTokens": usage.output_tokens,
                "cachedInputTokens": usage.cached_input_tokens,
                "reasoningTokens": usage.reasoning_tokens,
                "isEstimate": usage.is_estimate,
            }
        if error is not None:
            out["error"] = str(error) if isinstance(error, Exception) else "the call was cancelled"
        return out

    def _write(self, record: CallRecord, outcome: JsonObject | None) -> None:
        origin = record.call.request.origin
        arguments = {name: value for name, value in record.call.arguments.items() if name not in _LEFT_OUT}
        body: JsonObject = {
            "format": FORMAT,
            "version": VERSION,
            "ref": record.call.ref,
            "at": datetime.fromtimestamp(record.began_at_ms / 1000, UTC).isoformat(),
            "owner": origin.owner,
            "turnId": origin.turn_id,
            "step": origin.step,
            "request": _shortened(arguments),
            "answer": outcome,
        }
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            text = json.dumps(self._masked(body), ensure_ascii=False, indent=1)
            record.path.write_bytes(text.encode("utf-8", "replace"))
            if outcome is None:
                self._drop_oldest()
        except OSError as error:
            logger.warning("a request to %s is not written down: %s", record.call.ref, error)

    def _drop_oldest(self) -> None:
        names = sorted(path.name for path in self._folder.glob("*.json"))
        for name in names[: -self._max_files]:
            (self._folder / name).unlink(missing_ok=True)

    def _masked(self, value: JsonValue) -> JsonValue:
        """Mask secrets in each text by itself, so that what is left is JSON."""
        match value:
            case str():
                return self._redact(value)
            case Mapping():
                return {name: self._masked(item) for name, item in value.items()}
            case Sequence():
                return [self._masked(item) for item in value]
            case _:
                return value


def _shortened(value: JsonValue) -> JsonValue:
    match value:
        case str() if value.startswith("data:") and len(value) > _MAX_DATA_CHARS:
            return f"{value[:_MAX_DATA_CHARS]}… ({len(value)} characters)"
        case str():
            return value
        case Mapping():
            return {name: _shortened(item) for name, item in value.items()}
        case Sequence():
            return [_shortened(item) for item in value]
        case _:
            return value
