"""Values off the wire that parsers disagree about."""

from __future__ import annotations

import pytest

from ishiki.plugin.wire import decode

_HUGE = 10**20 + 1


@pytest.mark.parametrize("spaced", [f'{{"a": [{{"id": -{_HUGE}}}]}}', f'{{"a":[{{"id":-{_HUGE}}}]}}'])
@pytest.mark.parametrize("is_bytes", [False, True])
def test_a_number_of_more_than_64_bits_keeps_all_its_digits(spaced: str, is_bytes: bool) -> None:
    """Issue, odd frames; bug: a huge id was rounded, so that two messages could be one."""
    assert decode(spaced.encode() if is_bytes else spaced) == {"a": [{"id": -_HUGE}]}


def test_a_number_in_a_frame_that_only_the_fast_parser_reads_is_rounded_and_the_frame_is_not_lost() -> None:
    """Our choice: the standard parser ends at Python's own depth."""
    value = decode(f'{{"id": {_HUGE}, "deep": {"[" * 1_010}{"]" * 1_010}}}')
    assert isinstance(value, dict)
    assert value["id"] == float(_HUGE)
