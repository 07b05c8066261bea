"""The form of a request: what a server takes beyond, or short of, what OpenAI's own API takes. Pure.

A form is a set of restrictions, and two of them can be joined. `dialects` names the forms that are known beforehand,
`refusals` tells from a server's words which one it would have taken, `form_book` remembers it.
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal, TypeAlias

from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_object, read_str

__all__ = ["LEAD", "OPENAI_FORM", "WireForm", "changed_fields", "in_form"]

Roles: TypeAlias = Literal["free", "bridged", "alternating", "flat"]

_ROLES: tuple[Roles, ...] = ("free", "bridged", "alternating", "flat")

LEAD = "(The conversation goes on here.)"
"""A user message where one has to stand and nobody has said anything."""

_BRIDGE = "(noted)"
"""An assistant message where one has to stand and the model has said nothing."""

_FILLER = "(empty)"
"""The text of a message that may not be without."""

_NO_REASONING = " "
"""Reasoning of an answer that had none, or another model's. DeepSeek wants the field, other servers text in it."""

_ID_LETTERS = string.ascii_letters + string.digits
_SHORT_ID_LENGTH = 9

_TEXT_PARTS = ("text", "refusal")


@dataclass(frozen=True, slots=True)
class WireForm:
    """What one server takes. The defaults are OpenAI's."""

    roles: Roles = "free"
    """In which order roles may stand.

    `bridged`: no user message directly behind a tool's result, and none of the model's own at the end.
    `alternating`: user and assistant take turns, a user begins, and calls with their results count for nothing.
    `flat`: one user message that tells everything as text.
    """
    system: Literal["own", "user"] = "own"
    """Whether there is a system message, or its text begins the first user message."""
    schemas: Literal["full", "subset"] = "full"
    """Which part of JSON Schema tools may use; `subset`: what Gemini's function declarations have."""
    results: Literal["text", "object"] = "text"
    """Whether a tool's result may be any text, or has to be a JSON object."""
    reasoning: Literal["own", "send", "drop"] = "own"
    """`own`: as the model's configuration says. `send`: with every assistant message. `drop`: never."""
    signatures: Literal["", "google"] = ""
    """Whether calls carry a signature that has to come back: Gemini's `thought_signature`."""
    call_ids: Literal["any", "nine"] = "any"
    """`nine`: exactly nine letters and digits."""
    media: Literal["parts", "text"] = "parts"
    """`text`: a line of text stands for each picture and file."""
    single_calls: bool = False
    """Whether an assistant message may hold one call only."""
    filled: bool = False
    """Whether every message needs a text."""
    limit_name: Literal["", "max_completion_tokens"] = ""
    """What the length of the answer is called; "" for what the api and address say."""
    dropped: frozenset[str] = frozenset()
    """Fields of the request that are left out."""

    def joined(self, other: WireForm) -> WireForm:
        """Return the form that holds the restrictions of both; where they contradict each other, those of `other`."""
        changes: dict[str, object] = {}
        for name, value, default in ((f.name, getattr(other, f.name), f.default) for f in fields(other)):
            if value != default:
                changes[name] = value
        changes["roles"] = max(self.roles, other.roles, key=_ROLES.index)
        changes["dropped"] = self.dropped | other.dropped
        return replace(self, **changes)

    def described(self) -> str:
        """Return what differs from OpenAI's, as `roles: alternating, filled`; "" for nothing."""
        words: list[str] = []
        for name, value, default in ((f.name, getattr(self, f.name), f.default) for f in fields(self)):
            if name == "dropped" or value == default:
                continue
            words.append(name if value is True else f"{name}: {value}")
        return ", ".join([*words, *(f"without {name}" for name in sorted(self.dropped))])


OPENAI_FORM = WireForm()
"""No restriction at all."""


def changed_fields(arguments: JsonObject, form: WireForm) -> dict[str, JsonValue]:
    """Return a call's fields beside its messages and tools as `form` has them."""
    changed = {name: value for name, value in arguments.items() if name not in form.dropped}
    extra = read_object(changed, "extra_body")
    if form.dropped.intersection(extra):
        changed["extra_body"] = {name: value for name, value in extra.items() if name not in form.dropped}
    if form.limit_name and "max_tokens" in changed:
        changed[form.limit_name] = changed.pop("max_tokens")
    return changed


def in_form(messages: Sequence[JsonObject], form: WireForm) -> list[JsonObject]:
    """Return chat-completions messages as `form` wants them. They are well-formed by OpenAI's rules, and stay so."""
    found = list(messages)
    if form.single_calls:
        found = list(_with_single_calls(found))
    match form.roles:
        case "bridged":
            found = list(_bridged(found))
        case "alternating":
            found = _alternating(found)
        case "flat":
            found = _flat(found)
        case "free":
            pass
    if form.system == "user":
        found = _without_system(found)
    if form.reasoning == "send":
        found = [_with_reasoning(message) for message in found]
    if form.filled:
        found = [_filled(message) for message in found]
    if form.call_ids == "nine":
        found = [_with_short_ids(message) for message in found]
    return found


def _role(message: JsonObject) -> str:
    return read_str(message, "role")


def _calls(message: JsonObject) -> list[JsonObject]:
    return [call for call in read_array(message, "tool_calls") if isinstance(call, Mapping)]


def _bridged(messages: Sequence[JsonObject]) -> Iterator[JsonObject]:
    previous = ""
    for message in messages:
        if previous == "tool" and _role(message) in ("user", "system"):
            yield {"role": "assistant", "content": _BRIDGE}
        yield message
        previous = _role(message)
    if previous == "assistant":
        yield {"role": "user", "content": LEAD}  # else the server goes on with the model's own words, or refuses


def _alternating(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Let user and assistant take turns: neighbours become one, and a bridge stands where the other is missing."""
    head = 1 if messages and _role(messages[0]) == "system" else 0
    found: list[JsonObject] = []
    for message in _bridged([_as_user(message) for message in messages[head:]]):
        if found and _can_join(found[-1], message):
            found[-1] = _join(found[-1], message)
        else:
            found.append(message)
    if not found or _role(found[0]) != "user":
        found.insert(0, {"role": "user", "content": LEAD})
    return [*messages[:head], *found]


def _as_user(message: JsonObject) -> JsonObject:
    return {**message, "role": "user"} if _role(message) == "system" else message


def _can_join(first: JsonObject, second: JsonObject) -> bool:
    return _role(first) == _role(second) and _role(first) in ("user", "assistant") and not _calls(first)


def _join(first: JsonObject, second: JsonObject) -> JsonObject:
    joined: dict[str, JsonValue] = {**first, **second}
    joined["content"] = _joined_content(first.get("content"), second.get("content"))
    reasoning = [text for one in (first, second) if (text := read_str(one, "reasoning_content"))]
    if reasoning:
        joined["reasoning_content"] = "\n\n".join(reasoning)
    return joined


def _joined_content(first: JsonValue, second: JsonValue) -> JsonValue:
    if isinstance(first, str | None) and isinstance(second, str | None):
        return "\n\n".join(text for text in (first, second) if text) or None
    return [*_parts(first), *_parts(second)]


def _parts(content: JsonValue) -> list[JsonValue]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return list(content) if isinstance(content, Sequence) else []


def _with_single_calls(messages: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Let each call stand in a message of its own, its result directly behind it."""
    results = {read_str(message, "tool_call_id"): message for message in messages if _role(message) == "tool"}
    parted: set[str] = set()
    for message in messages:
        calls = _calls(message)
        if len(calls) < 2:
            if read_str(message, "tool_call_id") not in parted:
                yield message
            continue
        for position, call in enumerate(calls):
            rest = message if position == 0 else {"role": "assistant", "content": None}
            yield {**rest, "tool_calls": [call]}
            if (result := results.get(read_str(call, "id"))) is not None:
                parted.add(read_str(call, "id"))
                yield result


def _flat(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Tell the whole conversation in one user message: calls and results as text, in the order in which they were."""
    head = 1 if messages and _role(messages[0]) == "system" else 0
    names: dict[str, str] = {}
    content: JsonValue = None
    for message in messages[head:]:
        content = _joined_content(content, _told(message, names))
    return [*messages[:head], {"role": "user", "content": content or LEAD}]


def _told(message: JsonObject, names: dict[str, str]) -> JsonValue:
    content = message.get("content")
    match _role(message):
        case "assistant":
            told = [f"(You thought aloud: {_text(content)})"] if _text(content) else []
            for call in _calls(message):
                function = read_object(call, "function")
                names[read_str(call, "id")] = read_str(function, "name")
                told.append(f"(You called {read_str(function, 'name')} with {read_str(function, 'arguments')})")
            return "\n".join(told)
        case "tool":
            name = names.get(read_str(message, "tool_call_id"), "The tool")
            return f"({name} returned: {_text(content)})"
        case _:
            return content


def _text(content: JsonValue) -> str:
    if isinstance(content, str):
        return content
    parts = (part for part in _parts(content) if isinstance(part, Mapping))
    return "\n".join(text for part in parts for name in _TEXT_PARTS if (text := read_str(part, name)))


def _without_system(messages: Sequence[JsonObject]) -> list[JsonObject]:
    if not messages or _role(messages[0]) != "system":
        return list(messages)
    first = {**messages[0], "role": "user"}
    if len(messages) > 1 and _role(messages[1]) == "user":
        return [_join(first, messages[1]), *messages[2:]]
    return [first, *messages[1:]]


def _with_reasoning(message: JsonObject) -> JsonObject:
    if _role(message) != "assistant" or read_str(message, "reasoning_content"):
        return message
    return {**message, "reasoning_content": _NO_REASONING}


def _filled(message: JsonObject) -> JsonObject:
    content = message.get("content")
    return message if _text(content).strip() or _parts(content) else {**message, "content": _FILLER}


def _with_short_ids(message: JsonObject) -> JsonObject:
    if _role(message) == "tool":
        return {**message, "tool_call_id": _short_id(read_str(message, "tool_call_id"))}
    if not (calls := _calls(message)):
        return message
    return {**message, "tool_calls": [{**call, "id": _short_id(read_str(call, "id"))} for call in calls]}


def _short_id(call_id: str) -> str:
    """Return nine letters and digits that stand for `call_id`: the same for the same one, so that prefixes stay."""
    if len(call_id) == _SHORT_ID_LENGTH and all(letter in _ID_LETTERS for letter in call_id):
        return call_id
    number = int.from_bytes(hashlib.sha256(call_id.encode()).digest()[:8], "big")
    letters: list[str] = []
    for _ in range(_SHORT_ID_LENGTH):
        number, position = divmod(number, len(_ID_LETTERS))
        letters.append(_ID_LETTERS[position])
    return "".join(letters)
