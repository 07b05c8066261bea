import pytest

from ishiki.content import TypingConfig, typing_delay_ms


@pytest.mark.parametrize(
    ("text", "random", "expected"),
    [
        ("字" * 5, 0.5, 1500),  # 500 + 5 / 5 s
        ("字" * 5, 0.0, 1000),  # spread 0.5: typed * (1 - 0.5)
        ("字" * 5, 1.0, 2000),
        ("a" * 15, 0.5, 2500),  # 500 + 15 / (1.5 * 5) s
        ("a" * 15, 0.0, 1900),  # spread 0.3: typed * (1 - 0.3)
        ("字a", 0.0, 800),  # clamped from below
        ("字" * 100, 0.5, 4000),  # clamped from above
        ("", 0.9, 800),
    ],
)
def test_typing_takes_as_long_as_the_formula_says(text: str, random: float, expected: float) -> None:
    """Specification, built-in tools, send_message: the typing delay; the numbers are worked out by hand."""
    assert typing_delay_ms(text, TypingConfig(), random) == pytest.approx(expected)


def test_no_speed_means_the_least_delay() -> None:
    """Specification, built-in tools, send_message."""
    assert typing_delay_ms("字" * 50, TypingConfig(char_per_second=0, min_delay_ms=100), 0.5) == 100


def test_the_upper_bound_wins() -> None:
    """Our choice: with bounds in the wrong order nobody waits longer than the most."""
    assert typing_delay_ms("", TypingConfig(max_delay_ms=0), 0.5) == 0
    assert typing_delay_ms("x", TypingConfig(max_delay_ms=0), 0.5) == 0
