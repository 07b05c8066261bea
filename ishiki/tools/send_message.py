"""`send_message`: the one way in which a mind speaks.

Source: specification, built-in tools, `send_message`; deliveries and outcomes are our design. The tool composes, types
and records; the platform sends. At most once: what may have been said is never said again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import anyio

from ishiki.content import TypingConfig, typing_delay_ms, visible_text
from ishiki.contracts.events import ChannelRef
from ishiki.contracts.host import ChannelDomain, Domain
from ishiki.contracts.platform import Platform, SendOutcome
from ishiki.core.clock import Random
from ishiki.core.tool import Tool, ToolContext
from ishiki.errors import StorageError
from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_bool, read_object, read_str
from ishiki.tools._speech import compose
from ishiki.tools.deliveries import PROBABLY_DELIVERED, SEND_MESSAGE, Delivery, DeliveryState
from ishiki.tools.speech_guard import SpeechGuard, SpeechRefusal, SpeechRefusalName

__all__ = ["MAX_CHARS", "SendErrorName", "send_message_tool"]

logger = logging.getLogger(__name__)

MAX_CHARS = 3_000
"""Characters of one platform message; more becomes several. Our choice: QQ takes about 4,500, and mentions and
emoticons weigh more there than they do here."""

_ONLINE_WAIT_S = 10.0
"""Seconds that a message waits for its account to come back. Source: design, `unreachable`."""

_RECORD_LIMIT_S = 5.0
"""Seconds that a call waits for an outcome to be on disk. It is queued by then and written whatever the call does."""

_LIMIT_S = 900.0
"""Typing and sending many messages takes minutes; the turn's own limit is what ends a call that hangs."""

SendErrorName: TypeAlias = (
    Literal["EmptyMessage", "InvalidTarget", "SendRefused", "SendUnreachable", "NotRecorded"] | SpeechRefusalName
)
"""`error.name` of a result that is not ok."""

_DELIVERY_STATES: Mapping[str, DeliveryState] = {
    "sent": "sent",
    "unknown": "unknown",
    "refused": "failed",
    "unreachable": "failed",
}


@dataclass(slots=True)
class _Report:
    """What has become of one call so far."""

    ids: list[str] = field(default_factory=list[str])
    dropped: list[str] = field(default_factory=list[str])
    said: int = 0
    unsure: list[int] = field(default_factory=list[int])
    failed: list[tuple[int, SendErrorName, str]] = field(default_factory=list[tuple[int, SendErrorName, str]])
    repeated: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """Messages that were passed over, by the reason; they are a failure only where nothing else was said."""
    is_over: bool = False
    """Whether nothing more may be said in this turn, which no leniency hides."""

    def result(self, *, is_lenient: bool) -> JsonValue:
        """Return the tool's result.

        Args:
            is_lenient: whether a call that said something is ok even though a message failed.
        """
        out: dict[str, JsonValue]
        failed = self.failed
        if not failed and not self.said and self.repeated:
            failed = [(positions[0], "AlreadySaid", reason) for reason, positions in self.repeated.items()]
        if failed and (self.is_over or not (is_lenient and self.said)):
            position, name, message = failed[0]
            error: JsonValue = {"name": name, "message": message}
            out = {"ok": False, "error": error, "sent": self.ids, "failedAt": position}
        else:
            out = {"ok": True, "ids": self.ids}
            if self.failed:
                out["failed"] = [f"message {position + 1}: {message}" for position, _, message in self.failed]
        if self.dropped:
            out["dropped"] = self.dropped
        if self.unsure:
            numbers = _numbers(self.unsure)
            out["note"] = f"message {numbers} was {PROBABLY_DELIVERED}: no confirmation came in time. Do not repeat it."
        if self.repeated and self.said:
            out["notSent"] = [f"message {_numbers(where)}: {reason}" for reason, where in self.repeated.items()]
        return out

    def take_refusal(self, position: int, refusal: SpeechRefusal) -> None:
        """Note a message that the guard kept back."""
        if refusal.name == "AlreadySaid":
            self.repeated.setdefault(refusal.reason, []).append(position)
        else:
            self.failed.append((position, refusal.name, refusal.reason))
        self.is_over = self.is_over or refusal.ends_turn


def _numbers(positions: Sequence[int]) -> str:
    return ", ".join(str(position + 1) for position in positions)


@dataclass(frozen=True, slots=True)
class _Sender:
    platform: Platform
    domain: Domain
    typing: TypingConfig
    random: Random
    plain_text: bool
    max_chars: int
    guard: SpeechGuard | None
    allows: Callable[[ChannelRef], bool]
    online_wait_s: float

    async def execute(self, arguments: JsonObject, context: ToolContext) -> JsonValue:
        report = _Report()
        target = self._target(arguments)
        if isinstance(target, str):
            report.failed.append((0, "InvalidTarget", target))
            return report.result(is_lenient=False)
        texts = [text for text in read_array(arguments, "messages") if isinstance(text, str)]
        is_raw = read_str(arguments, "mode") == "raw"
        speech = compose(
            texts,
            is_raw=is_raw,
            plain_text=self.plain_text,
            max_chars=self.max_chars,
            tools=context.tools,
            self_id=target.sid.rpartition(":")[2],
        )
        report.dropped.extend(speech.dropped)
        if not speech.messages:
            problem = "No message has anything to say. Write what the others are to read, or call finish."
            report.failed.append((0, "EmptyMessage", problem))
            return report.result(is_lenient=False)
        goes_on = read_bool(arguments, "continue")
        await self._say(speech.messages, target, context, report, skips_failed=goes_on)
        return report.result(is_lenient=goes_on)

    def _target(self, arguments: JsonObject) -> ChannelRef | str:
        """Return where to speak, or what is wrong with where the model wants to."""
        if isinstance(self.domain, ChannelDomain):
            return self.domain.channel
        data = read_object(arguments, "target")
        target = ChannelRef(read_str(data, "sid"), read_str(data, "channelId"))
        if target.sid and target.channel_id and self.allows(target):
            return target
        return f"{str(target)!r} is none of your channels. Copy target from the header above the lines you answer."

    async def _say(
        self, messages: Sequence[str], target: ChannelRef, context: ToolContext, report: _Report, *, skips_failed: bool
    ) -> None:
        for index, content in enumerate(messages):
            refusal = None if self.guard is None else self.guard.refusal(context.turn_id, target, content)
            if refusal is not None:
                report.take_refusal(index, refusal)
                if refusal.ends_turn:
                    return
                continue
            delay_ms = typing_delay_ms(visible_text(content), self.typing, self.random.random())
            await context.clock.sleep(delay_ms / 1000)
            if not await self._is_online(target.sid):
                detail = "the account is not connected to the chat; the turn ends here"
                report.failed.append((index, "SendUnreachable", detail))
                return
            delivery = Delivery(context.tool_call_id, index, target, content)
            try:
                outcome = await _deliver(self.platform, delivery, context)
            except StorageError:
                # The text holds a path of the host; the model has no use for it.
                logger.exception("a message is not sent, for it cannot be recorded first")
                problem = "it could not be written down first, so it was not sent"
                report.failed.append((index, "NotRecorded", problem))
                return
            if not self._note(report, index, outcome) and not skips_failed:
                return
            if outcome.state == "unreachable" or outcome.bar is not None:
                return

    async def _is_online(self, account: str) -> bool:
        if not self.platform.is_online(account):
            with anyio.move_on_after(self.online_wait_s):
                await self.platform.wait_online(account)
        return self.platform.is_online(account)

    @staticmethod
    def _note(report: _Report, index: int, outcome: SendOutcome) -> bool:
        """Take an outcome down and return whether the message counts as said."""
        report.dropped.extend(outcome.dropped)
        match outcome.state:
            case "refused" if outcome.bar is not None:
                detail = f"{outcome.detail or 'nothing can be said there'}; your turn ends here"
                report.failed.append((index, "CannotSpeak", detail))
                report.is_over = True
                return False
            case "refused":
                report.failed.append((index, "SendRefused", outcome.detail or "the chat refused the message"))
                return False
            case "unreachable":
                detail = outcome.detail or "the account is not connected to the chat"
                report.failed.append((index, "SendUnreachable", detail))
                return False
            case "unknown":
                report.unsure.append(index)
            case "sent":
                if not outcome.message_id:
                    logger.warning("the platform confirmed a message without giving it an id; it cannot be quoted")
        report.said += 1
        if outcome.message_id:
            report.ids.append(outcome.message_id)
        return True


async def _deliver(platform: Platform, delivery: Delivery, context: ToolContext) -> SendOutcome:
    """Send one message between two entries: a kill in between leaves `sending`, which counts as said.

    Raises:
        StorageError: the first entry could not be written, and nothing was sent.
    """

    async def record(state: DeliveryState, message_id: str = "", reason: str = "") -> None:
        entry = replace(delivery, state=state, message_id=message_id, reason=reason)
        await context.record(entry.to_entry(timestamp=context.clock.now_ms(), turn_id=context.turn_id))

    async def record_outcome(state: DeliveryState, message_id: str = "", reason: str = "") -> None:
        try:
            with anyio.move_on_after(_RECORD_LIMIT_S, shield=True):
                await record(state, message_id, reason)
        except StorageError:
            logger.exception("what became of a message cannot be recorded; the log shows it as possibly said")

    try:
        await record("sending")
    except anyio.get_cancelled_exc_class():
        # The entry is queued and will be written; this one behind it says that nothing followed.
        await record_outcome("failed")
        raise
    outcome = SendOutcome("unknown")
    # The platform has its own limit. Once it has begun, its answer is the one thing that cannot be had again.
    with anyio.CancelScope(shield=True):
        outcome = await platform.send(delivery.target, delivery.content)
        reason = (outcome.bar or outcome.state) if _DELIVERY_STATES[outcome.state] == "failed" else ""
        await record_outcome(_DELIVERY_STATES[outcome.state], outcome.message_id, reason)
    return outcome


def send_message_tool(
    platform: Platform,
    domain: Domain,
    *,
    random: Random,
    typing: TypingConfig | None = None,
    plain_text: bool = False,
    max_chars: int = MAX_CHARS,
    guard: SpeechGuard | None = None,
    allows: Callable[[ChannelRef], bool] = lambda target: True,
    online_wait_s: float = _ONLINE_WAIT_S,
) -> Tool:
    """Make the tool of one runtime.

    Before each platform message it waits as long as a person would type, by the clock of the call; the time that the
    model took is not counted (our choice: a reply that is typed faster because the model was slow looks odd).

    Args:
        platform: who sends.
        domain: where the runtime lives; in cross mode the model names a target.
        random: for the typing delay.
        typing: how fast it types.
        plain_text: whether Markdown becomes plain text.
        max_chars: characters of one platform message.
        guard: asked before each message; None lets everything out.
        allows: in cross mode, whether a target is one of the runtime's channels.
        online_wait_s: seconds to wait for an account that is away.
    """
    sender = _Sender(
        platform, domain, typing or TypingConfig(), random, plain_text, max_chars, guard, allows, online_wait_s
    )
    return Tool(
        name=SEND_MESSAGE,
        description=_DESCRIPTION,
        input_schema=_input_schema(is_cross=domain.mode == "cross"),
        execute=sender.execute,
        sequential=True,
        limit_s=_LIMIT_S,
    )


_DESCRIPTION = (
    "Say something in the chat. This is the only way anybody hears you. Your turn ends when everything was sent, "
    "unless you set `continue` or use another tool beside it. A result with ok true means that people have read it: do "
    "not say it again. If you have nothing to say, call finish instead."
)

_MESSAGES = (
    "What you say, in order. Each string is one chat message; write several short ones as a person would. Only what "
    "the others are to read: no thoughts, no time, no name in front."
)

_MODE = (
    'element (default): these tags work inside a message: <at id="42"/> mentions the user 42, <at type="all"/> '
    'everyone, <quote id="918"/> at the start replies to message 918, <face id="14"/> is an emoticon, <img src="…"/>, '
    '<audio src="…"/>, <video src="…"/> and <file src="…"/> send media by its URL. Everything else is text as it '
    "stands; to show such a tag itself write &lt; for its <. raw: every character is text, tags too."
)

_CONTINUE = (
    "true: your turn goes on after this, for example to look something up after saying that you will, and a message "
    "that cannot be sent is skipped. Default false."
)

_TARGET = "Where you say it: the target of the [channel …] header above the lines that you answer, copied as it is."


def _input_schema(*, is_cross: bool) -> JsonObject:
    properties: dict[str, JsonValue] = {
        "messages": {"type": "array", "items": {"type": "string"}, "minItems": 1, "description": _MESSAGES},
        "mode": {"type": "string", "enum": ["element", "raw"], "default": "element", "description": _MODE},
        "continue": {"type": "boolean", "default": False, "description": _CONTINUE},
    }
    required: list[JsonValue] = ["messages"]
    if is_cross:
        properties["target"] = {
            "type": "object",
            "properties": {"sid": {"type": "string"}, "channelId": {"type": "string"}},
            "required": ["sid", "channelId"],
            "additionalProperties": False,
            "description": _TARGET,
        }
        required.append("target")
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
