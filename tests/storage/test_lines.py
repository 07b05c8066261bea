"""Lines: what is written for values that are not plain JSON."""

from __future__ import annotations

from collections import UserList
from types import MappingProxyType
from typing import cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.core.entries import Entry, entry_from_json, entry_to_json
from ishiki.jsonvalue import JsonObject, JsonValue
from ishiki.storage.format import MIGRATIONS, VERSION, encode_entries, parse_entry

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=12,
)


@given(data=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), json_values))
def test_any_json_is_one_line_that_reads_back_equal(data: dict[str, JsonValue]) -> None:
    """Specification, events.jsonl: unknown types survive; one entry, one line."""
    entry = Entry("someone.else", data, 1, "id", "parent", "turn", 3, "turn/2")
    [line] = encode_entries([entry])
    assert line.is_exact
    assert line.raw.count(b"\n") == 1
    assert entry_from_json(parse_entry(line.raw)) == entry


@given(text=st.text())
def test_any_text_is_written_with_lone_surrogates_replaced(text: str) -> None:
    """Specification, events.jsonl: lone surrogates become U+FFFD and break nothing."""
    [line] = encode_entries([Entry("x", {"text": text}, 1, "id")])
    expected = "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
    if not any("\ud800" <= char <= "\udbff" for char in text):  # a high one may pair with the low one behind it
        assert entry_to_json(entry_from_json(parse_entry(line.raw)))["data"] == {"text": expected}
    assert line.is_exact is (expected == text)


def test_read_only_mappings_and_sequences_are_written_as_objects_and_arrays() -> None:
    """Our choice: JSON as a type is a read-only view, whatever stands behind it."""
    data: JsonObject = MappingProxyType({"a": MappingProxyType({"b": (1, UserList([2, 3]))})})
    [line] = encode_entries([Entry("x", data, 1, "id")])
    assert orjson.loads(line.raw)["data"] == {"a": {"b": [1, [2, 3]]}}
    [line] = encode_entries([Entry("x", {"a": "\ud800", "b": data}, 1, "id")])
    assert orjson.loads(line.raw)["data"] == {"a": "\ufffd", "b": {"a": {"b": [1, [2, 3]]}}}


@pytest.mark.parametrize("value", [b"x", bytearray(b"x"), memoryview(b"x"), {1, 2}, {1: 2}, object()])
def test_a_value_without_a_json_form_is_refused(value: object) -> None:
    """Our choice: a guess would be read back as something else."""
    with pytest.raises(ValueError, match="'the-id'"):
        encode_entries([Entry("x", {"a": [cast("JsonValue", value)]}, 1, "the-id")])


@pytest.mark.parametrize(
    "raw", [b"", b"{}", b"1", b'{"type":"","data":{}}', b'{"type":"x"}', b'{"type":"x","data":[]}']
)
def test_a_line_that_is_no_entry_is_refused(raw: bytes) -> None:
    """Specification, events.jsonl: `type` and `data` are what every entry has."""
    with pytest.raises(ValueError, match=r"."):
        parse_entry(raw)


def test_each_older_version_has_its_migration() -> None:
    """Our choice: forward migrations as pure functions, one a version."""
    assert len(MIGRATIONS) == VERSION
