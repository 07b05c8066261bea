"""Whatever a provider's client raises, as a `ModelError`.

LiteLLM's exceptions are recognised by the names of their classes and by their status, so that this module imports
neither LiteLLM nor a vendor's SDK. Texts are redacted and shortened: they reach logs and entries.
"""

from __future__ import annotations

import email.utils
import json
import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, cast

from ishiki.errors import ModelError
from ishiki.gateway.refusals import Judgement, judge

__all__ = ["BadRequestError", "Phase", "model_error"]

Phase: TypeAlias = Literal["opening", "streaming"]
"""`opening`: before the response began. `streaming`: while it is read."""

_MAX_TEXT = 300
"""Characters of a provider's own words that are shown; some answer with a whole page."""

_MAX_READ = 4_000
"""Characters of them that are redacted and looked at."""

_CONNECTION_FAULTS = {"APIConnectionError", "TransportError", "ClientError", "OSError", "MidStreamFallbackError"}
"""Of the SDK, of httpx, of aiohttp, of Python, and what LiteLLM wraps them in."""

_NO_WORDS = re.compile(r"(?:Error code: \d+)?\s*")
"""What the SDK says of a body that it cannot read."""

_LITELLM_LEAD = re.compile(r"^.*?[A-Za-z_]*Exception - ", re.DOTALL)


class BadRequestError(ModelError):
    """A request that was not taken as it is.

    Attributes:
        judgement: what the server's words ask for.
        words: the server's own, redacted and short.
    """

    def __init__(self, message: str, *, judgement: Judgement, words: str, status: int | None) -> None:
        """Keep the fields; the kind is `bad_request`."""
        super().__init__(message, kind="bad_request", retryable=True, status=status)
        self.judgement = judgement
        self.words = words


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
    judgement = _judgement(names, status, f"{words}\n{_body(fault)}", phase)
    kind = judgement.kind
    text = redact(" ".join(words[:_MAX_READ].split()))
    text = text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"
    said = (f"HTTP {status}: {text}" if status is not None else text) or type(fault).__name__
    message = f"{ref}: {said}" + (f" ({judgement.advice})" if judgement.advice else "")
    if kind == "bad_request":
        return BadRequestError(message, judgement=judgement, words=said, status=status)
    return ModelError(
        message,
        kind=kind,
        retryable=kind not in ("refused", "context_length"),
        retry_after_s=_retry_after(fault, now_s),
        status=status,
    )


def _judgement(names: set[str], status: int | None, words: str, phase: Phase) -> Judgement:
    if "ContextWindowExceededError" in names:
        return Judgement("context_length")
    if names & {"APITimeoutError", "Timeout", "TimeoutException", "TimeoutError"}:
        return Judgement("timeout")
    judgement = judge(status, words)
    if "ContentPolicyViolationError" in names and judgement.kind == "bad_request" and judgement.form is None:
        return Judgement("refused")
    if status is None and judgement.kind == "unavailable" and names & _CONNECTION_FAULTS and phase == "streaming":
        # Nobody has judged the request: the connection was no good.
        return Judgement("cut")
    return judgement


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


def _body(fault: BaseException) -> str:
    """Return the error's body: its code may be all that tells, and Gemini's is a list that clients do not read."""
    body: object = getattr(fault, "body", None)
    if isinstance(body, Mapping | list) and body:
        return json.dumps(body, ensure_ascii=False, default=str)[:_MAX_READ]
    return body[:_MAX_READ] if isinstance(body, str) else ""


def _words(fault: BaseException) -> str:
    """Return the provider's own words, without LiteLLM's names of classes before them."""
    said: object = getattr(fault, "message", None)
    text = _LITELLM_LEAD.sub("", said if isinstance(said, str) and said else str(fault), count=1)
    return _body(fault) or text if _NO_WORDS.fullmatch(text) else text
