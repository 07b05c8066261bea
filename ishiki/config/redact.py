"""Hides secrets in texts that leave the process: errors, log lines, entries.

Owns the known secret values and the shapes of well-known keys. A shape catches a key that nobody registered; a
registered value is caught in any shape it is written in here (plain, JSON, URL).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from urllib.parse import quote

__all__ = ["MASK", "MIN_SECRET_CHARS", "Redactor"]

MASK = "***"
"""What stands for a secret."""

MIN_SECRET_CHARS = 4
"""Shorter values are not replaced: they would hit half of every text, and protect nothing."""

_SHAPES = re.compile(
    r"(?P<name>\b(?:x-)?(?:api[_-]?key|access[_-]?token|auth[_-]?token|authorization|client[_-]?secret|password)"
    r"[\"']?\s*[=:]\s*[\"']?(?:(?:bearer|basic)\s+)?)(?!\*\*\*)[^\s\"'&,;}\]]{4,}"
    r"|(?P<scheme>\b(?:bearer|basic)\s+)(?=\S*\d)[A-Za-z0-9._~+/=-]{8,}"
    r"|(?P<user>\b[a-z][a-z0-9+.-]*://)[^\s/@:]*:[^\s/@]+(?=@)"
    r"|\b(?:sk|pk|rk|gsk|xai|ghp|hf)[-_](?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{8,}"
    r"|\bAIza[A-Za-z0-9_-]{20,}",
    re.IGNORECASE,
)
"""Authorization headers, `api_key=…` pairs, `user:password@` in URLs, and keys by their vendors' prefixes.

A bare `Bearer` or prefix counts only before something with a digit, so that words ("basic information") stay."""


class Redactor:
    """Replaces secrets by `MASK`. One per process; it learns new values when configuration is read again."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: frozenset[str] = frozenset()
        self._values: re.Pattern[str] | None = None
        self.add(secrets)

    def add(self, secrets: Iterable[str]) -> None:
        """Hide these values too, from now on. What was hidden stays hidden: old logs may quote old keys."""
        wanted = self._secrets | {secret for secret in secrets if len(secret) >= MIN_SECRET_CHARS}
        if wanted == self._secrets:
            return
        self._secrets = wanted
        forms = {form for secret in wanted for form in _written_forms(secret)}
        # The longest first: a secret that contains another one is replaced as a whole.
        self._values = re.compile(
            "|".join(re.escape(form) for form in sorted(forms, key=lambda form: (-len(form), form)))
        )

    def redact(self, text: str) -> str:
        """Return `text` with every known value and every text shaped like a key replaced."""
        if self._values is not None:
            text = self._values.sub(MASK, text)
        return _SHAPES.sub(_mask_shape, text)


def _written_forms(secret: str) -> tuple[str, ...]:
    return (
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        quote(secret, safe=""),
        quote(secret),
    )


def _mask_shape(match: re.Match[str]) -> str:
    lead = match["scheme"] or match["name"] or match["user"] or ""
    return lead + MASK
