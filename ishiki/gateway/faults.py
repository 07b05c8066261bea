"""Whatever a provider's client raises, as a `ModelError`.

LiteLLM's exceptions are recognised by the names of their classes and by their status, so that this module imports
neither LiteLLM nor a vendor's SDK. Texts are redacted and shortened: they reach logs and entries.
"""

from __future__ import annotations

import email.utils
import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, cast

from ishiki.errors import ModelError, ModelErrorKind

__all__ = ["Phase", "model_error"]

Phase: TypeAlias = Literal["opening", "streaming"]
"""`opening`: before the response began. `streaming`: while it is read."""

_MAX_TEXT = 300
"""Characters of a provider's own words; some answer with a whole page."""

_OF_STATUS: dict[int, ModelErrorKind] = {
    401: "auth",
    402: "auth",  # an empty account: nothing that another wording of the request would cure
    403: "auth",
    404: "not_found",
    405: "not_found",
    407: "unavailable",
    408: "timeout",
    409: "unavailable",
    410: "not_found",
    413: "context_length",
    425: "unavailable",
    429: "rate",
    499: "unavailable",
}
"""Statuses below 500 that do not blame the request's content; the other 4xx do. Source: reference, FailoverModel."""

_CONNECTION_FAULTS = {"APIConnectionError", "TransportError", "ClientError", "OSError", "MidStreamFallbackError"}
"""Of the SDK, of httpx, of aiohttp, of Python, and what LiteLLM wraps them in."""

_TOO_LONG = re.compile(
    r"context_length_exceeded|context[ _](?:length|window)|maximum context|prompt is too long|too many tokens"
    r"|input (?:token count|length).{0,40}exceed|exceeds? the (?:model'?s )?max(?:imum)?.{0,20}(?:length|tokens)",
    re.IGNORECASE,
)
_LITELLM_LEAD = re.compile(r"^.*?[A-Za-z_]*Exception - ", re.DOTALL)


def model_error(
    fault: BaseException, *, ref: str, phase: Phase, now_s: float, redact: Callable[[str], str]
) -> ModelError:
    """Return `fault` as an error of ours.

    Args:
        fault: what was raised.
        ref: the model that was asked, for the text.
        phase: when it was raised.
        now_s: epoch seconds, for a `Retry-After` that is a date.
        redact: takes secrets out of a text.
    """
    names = {parent.__name__ for parent in type(fault).__mro__}
    status = _status(fault)
    words = _words(fault)
    kind = _kind(names, status, words, phase)
    text = redact(" ".join(words.split()))
    text = text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"
    said = f"HTTP {status}: {text}" if status is not None else text
    return ModelError(
        f"{ref}: {said or type(fault).__name__}",
        kind=kind,
        retryable=kind not in ("refused", "context_length"),
        retry_after_s=_retry_after(fault, now_s),
        status=status,
    )


def _kind(names: set[str], status: int | None, words: str, phase: Phase) -> ModelErrorKind:
    # LiteLLM derives these two from its BadRequestError.
    if "ContextWindowExceededError" in names:
        return "context_length"
    if "ContentPolicyViolationError" in names:
        return "refused"
    if names & {"APITimeoutError", "Timeout", "TimeoutException", "TimeoutError"}:
        return "timeout"
    if status is None:
        # Nobody has judged the request: the connection, or the answer, was no good.
        return "cut" if phase == "streaming" and names & _CONNECTION_FAULTS else "unavailable"
    if status >= 500 or status < 400:
        return "unavailable"
    if status in _OF_STATUS:
        return _OF_STATUS[status]
    return "context_length" if _TOO_LONG.search(words) else "refused"


def _status(fault: BaseException) -> int | None:
    """Return the HTTP status that really came; LiteLLM writes 500 where there was no response at all."""
    body: object = getattr(fault, "body", None)
    code = cast("Mapping[str, object]", body).get("code") if isinstance(body, Mapping) else None
    status: object = getattr(fault, "status_code", None)
    for one in (status, code):
        if isinstance(one, str) and one.isdigit():
            one = int(one)
        if isinstance(one, int) and 400 <= one < 600:
            return None if one == 500 and one is status and not _headers(fault) else one
    return None


def _headers(fault: BaseException) -> Mapping[str, str]:
    for holder in (getattr(fault, "response", None), fault):
        for name in ("headers", "litellm_response_headers"):
            headers: object = getattr(holder, name, None)
            if isinstance(headers, Mapping) and headers:
                items = cast("Mapping[object, object]", headers).items()
                return {str(key).lower(): str(value) for key, value in items}
    return {}


def _retry_after(fault: BaseException, now_s: float) -> float | None:
    """Return the seconds that the provider asks to wait. Source: RFC 9110, Retry-After (seconds, or a date)."""
    value = _headers(fault).get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - now_s
        except (TypeError, ValueError, OverflowError):
            return None
    return max(0.0, seconds) if seconds < 1e9 else None


def _words(fault: BaseException) -> str:
    """Return the provider's own words, without LiteLLM's names of classes before them."""
    said: object = getattr(fault, "message", None)
    text = said if isinstance(said, str) and said else str(fault)
    return _LITELLM_LEAD.sub("", text, count=1)
