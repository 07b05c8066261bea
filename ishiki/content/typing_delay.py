"""How long a person would have typed.

Source: specification, built-in tools (`send_message`); a pure function, its randomness is given.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TypingConfig", "typing_delay_ms"]

_LATIN_SPEEDUP = 1.5
"""Latin letters are typed this much faster than CJK characters."""

_CJK_SPREAD = 0.5
_LATIN_SPREAD = 0.3


@dataclass(frozen=True, slots=True)
class TypingConfig:
    """The numbers of the formula; a profile's `typing` section gives them."""

    base_delay_ms: float = 500
    """Milliseconds before the first key."""

    char_per_second: float = 5
    """CJK characters per second; zero or less types at once."""

    min_delay_ms: float = 800
    """Milliseconds, the least."""

    max_delay_ms: float = 4000
    """Milliseconds, the most; wins over the least."""


def typing_delay_ms(text: str, config: TypingConfig, random: float) -> float:
    """Return the milliseconds to wait before sending `text`.

    Args:
        text: what a reader sees (`visible_text`), without markup.
        config: the numbers.
        random: uniform in [0, 1); 0.5 gives the middle.
    """
    lower, upper = config.min_delay_ms, config.max_delay_ms
    if not text or config.char_per_second <= 0:
        return min(lower, upper)
    cjk = sum(1 for character in text if "\u4e00" <= character <= "\u9fa5")
    latin = len(text) - cjk
    typed = (cjk + latin / _LATIN_SPEEDUP) / config.char_per_second * 1000
    spread = (_CJK_SPREAD * cjk + _LATIN_SPREAD * latin) / len(text)
    delay = config.base_delay_ms + typed * (1 + (random - 0.5) * 2 * spread)
    return min(max(delay, lower), upper)
