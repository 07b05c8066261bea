"""Entries: their form on disk, the original's shapes, and the place of what joined a step."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ishiki.core.entries import (
    EVENT,
    MESSAGE,
    Entry,
    closing_key,
    entry_from_json,
    entry_to_json,
    message_entry,
    place_joined,
)
from ishiki.core.messages import (
    AssistantMessage,
    AssistantPart,
    CustomMessage,
    FilePart,
    FinishReason,
    Message,
    OpaquePart,
    ReasoningPart,
    SystemMessage,
    TextPart,
    ToolCallPart,
    ToolMessage,
    ToolOutput,
    ToolOutputType,
    ToolResultPart,
    Usage,
    UserMessage,
    file_data_url,
    message_from_json,
    message_to_json,
)
from ishiki.core.store import MemoryStore
from ishiki.jsonvalue import JsonObject, JsonValue

JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
OBJECTS: st.SearchStrategy[JsonObject] = st.dictionaries(st.text(max_size=5), JSON, max_size=3)
WORD = st.text("abc", min_size=1, max_size=4)
TEXT_PARTS = st.builds(TextPart, st.text(max_size=5))
OPAQUE = OBJECTS.map(lambda data: OpaquePart({**data, "type": "hologram"}))
FILES = st.builds(FilePart, WORD, url=WORD.map("asset://{}".format), filename=st.none() | WORD)
OUTPUTS = st.builds(ToolOutput, st.sampled_from(ToolOutputType.__args__), JSON)
RESULTS = st.builds(ToolResultPart, WORD, WORD, OUTPUTS)
ASSISTANT_PARTS: st.SearchStrategy[AssistantPart] = st.one_of(
    TEXT_PARTS,
    st.builds(ReasoningPart, st.text(max_size=5), OBJECTS),
    st.builds(ToolCallPart, WORD, WORD, JSON, st.booleans()),
    RESULTS,
    FILES,
    OPAQUE,
)
COUNT = st.integers(0, 10**6)
USAGES = st.builds(Usage, COUNT, COUNT, COUNT, COUNT, st.booleans())
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(UserMessage, st.text() | st.lists(st.one_of(TEXT_PARTS, FILES, OPAQUE), max_size=3), COUNT, WORD),
    st.builds(SystemMessage, st.text(), COUNT, WORD),
    st.builds(
        AssistantMessage,
        st.lists(ASSISTANT_PARTS, max_size=4),
        COUNT,
        st.none() | USAGES,
        st.none() | st.sampled_from(FinishReason.__args__),
        OBJECTS,
        WORD,
    ),
    st.builds(ToolMessage, st.lists(RESULTS, max_size=3), COUNT, WORD),
    st.builds(CustomMessage, WORD, OBJECTS, COUNT, WORD),
)


@given(MESSAGES)
def test_every_message_reads_back_as_it_was(message: Message) -> None:
    """Our choice: what the log holds is what was said."""
    assert message_from_json(json.loads(json.dumps(message_to_json(message)))) == message


@given(
    message=MESSAGES,
    turn_id=st.none() | WORD,
    step=st.none() | st.integers(0, 20),
    joins=st.none() | WORD,
    parent_id=st.none() | WORD,
)
def test_every_entry_reads_back_as_it_was(
    message: Message, turn_id: str | None, step: int | None, joins: str | None, parent_id: str | None
) -> None:
    """Our choice; absent fields are left out."""
    entry = replace(message_entry(message, timestamp=1, turn_id=turn_id, step=step), joins=joins, parent_id=parent_id)
    data = entry_to_json(entry)
    assert None not in data.values()
    assert entry_from_json(json.loads(json.dumps(data))) == entry


@given(kind=WORD, data=OBJECTS)
def test_entries_of_unknown_types_keep_their_data(kind: str, data: JsonObject) -> None:
    """Design, section 3: unknown entry types survive."""
    entry = Entry(kind if kind != MESSAGE else "other", data, 5)
    again = entry_from_json(entry_to_json(entry))
    assert again == entry
    assert again.message is None
    assert again.json_data == data


GOLDEN: Sequence[str] = (
    '{"id":"e1","type":"message","data":{"id":"m1","timestamp":1764500000123,"role":"custom",'
    '"type":"ishiki.message.created","data":{"timestamp":1764500000000,"platform":"onebot","selfId":"30001",'
    '"channelId":"group:8001","isDirect":false,"guildId":"8001","messageId":"77",'
    '"content":"<at id=\\"30001\\"/> hello","user":{"id":"9","name":"Aki"}}},"timestamp":1764500000124}',
    '{"id":"e2","type":"event","data":{"type":"turn.start","turnId":"t-5"},"timestamp":1764500000200,"turnId":"t-5"}',
    '{"id":"e3","type":"message","data":{"id":"m2","timestamp":1764500003000,"role":"assistant","content":'
    '[{"type":"tool-call","toolCallId":"c1","toolName":"send_message","input":{"messages":["good day"]}}],'
    '"usage":{"inputTokens":812,"outputTokens":29},"finishReason":"tool-calls"},"timestamp":1764500003001,'
    '"turnId":"t-5"}',
    '{"id":"e4","type":"message","data":{"id":"m3","timestamp":1764500003002,"role":"tool","content":'
    '[{"type":"tool-result","toolCallId":"c1","toolName":"send_message",'
    '"output":{"type":"json","value":{"ok":true,"ids":["78"]}}}]},"timestamp":1764500003002,"turnId":"t-5"}',
    '{"id":"e5","type":"event","data":{"type":"turn.done","turnId":"t-5","usage":{"inputTokens":812,'
    '"outputTokens":29}},"timestamp":1764500003050,"turnId":"t-5"}',
    '{"id":"e6","type":"ishiki.compact","data":{"summary":"greetings","lastEntryId":"e1"},"timestamp":1764500003900}',
    '{"id":"e7","type":"message","data":{"id":"m4","timestamp":1764500009500,"role":"user",'
    '"content":"look after the kettle"},"timestamp":1764500009500,"turnId":"t-6"}',
    '{"id":"e8","type":"message","data":{"id":"m5","timestamp":1764500009600,"role":"oracle","content":"?"},'
    '"timestamp":1764500009600}',
)


@pytest.mark.parametrize("line", GOLDEN)
def test_lines_of_the_original_read_and_write_back_the_same(line: str) -> None:
    """Reference, events.jsonl: field names and shapes; the last line is of a role that nobody knows."""
    assert entry_to_json(entry_from_json(json.loads(line))) == json.loads(line)


def test_a_plain_string_is_an_assistants_text() -> None:
    """Reference, messages: the original's assistant content may be a string."""
    read = message_from_json({"role": "assistant", "id": "m", "timestamp": 1, "content": "hello"})
    assert read == AssistantMessage([TextPart("hello")], 1, id="m")
    assert message_from_json({"role": "assistant", "id": "m", "content": ""}) == AssistantMessage([], id="m")


def test_parts_of_unknown_types_survive_and_what_is_no_part_is_left_out() -> None:
    """Design, section 3: written by another version."""
    data: JsonObject = {"role": "user", "id": "m", "content": [{"type": "hologram", "depth": 3}, "stray", {"no": 1}]}
    message = message_from_json(data)
    assert message == UserMessage([OpaquePart({"type": "hologram", "depth": 3}), OpaquePart({"no": 1})], id="m")


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "image", "image": "asset://1"}, FilePart("image/*", url="asset://1")),
        (
            {"type": "file", "mediaType": "image/png", "data": "aGk="},
            FilePart("image/png", url="data:image/png;base64,aGk="),
        ),
        ({"type": "file", "mediaType": "image/png", "data": "data:,x"}, FilePart("image/png", url="data:,x")),
        ({"type": "file"}, FilePart("application/octet-stream")),
    ],
)
def test_the_originals_file_parts_keep_their_address(part: JsonObject, expected: FilePart) -> None:
    """Reference, messages: user content is text, file or image."""
    assert message_from_json({"role": "user", "id": "m", "content": [part]}) == UserMessage([expected], id="m")


@pytest.mark.parametrize("role", ["system", "oracle", 7, None])
def test_a_message_of_another_shape_is_kept_as_data_that_no_model_reads(role: JsonValue) -> None:
    """Our choice: a system message needs a text; an unknown role is not guessed at."""
    data: JsonObject = {"role": role, "content": ["x"]}
    assert message_from_json(data) is None
    entry = entry_from_json({"type": "message", "data": data})
    assert entry.message is None
    assert entry.json_data == data


def test_odd_fields_of_a_message_read_as_what_is_safe() -> None:
    """Our choice: the log may have been written by another version."""
    data: JsonObject = {"role": "assistant", "id": "m", "finishReason": "bored", "usage": "much", "content": 5}
    assert message_from_json(data) == AssistantMessage([], finish_reason="other", id="m")
    result: JsonObject = {"type": "tool-result", "toolCallId": "c", "toolName": "t", "output": {"type": "smell"}}
    read = message_from_json({"role": "tool", "id": "m", "content": [result]})
    assert read == ToolMessage([ToolResultPart("c", "t", ToolOutput("json", {"type": "smell"}))], id="m")


def test_bytes_are_refused_because_media_live_in_resources() -> None:
    """Design, section 3: bytes never enter the log."""
    part = FilePart("image/png", b"\x00")
    with pytest.raises(ValueError, match="resource"):
        message_to_json(UserMessage([part]))
    assert file_data_url(part) == "data:image/png;base64,AA=="
    assert file_data_url(FilePart("image/png")) == ""


@pytest.mark.parametrize("data", [{"data": {}}, {"type": "", "data": {}}, {"type": "x"}, {"type": "x", "data": "text"}])
def test_what_is_no_entry_is_refused(data: JsonObject) -> None:
    """Reference: a malformed line is no silent skip."""
    with pytest.raises(ValueError, match="an entry needs"):
        entry_from_json(data)


def test_an_entry_without_an_id_gets_one_and_a_step_is_a_number() -> None:
    """Our choice."""
    one, other = (entry_from_json({"type": "x", "data": {}, "step": True}) for _ in range(2))
    assert one.id != other.id
    assert one.step is None


# -- the place of what joined ----------------------------------------------------------------------------------------


@st.composite
def logs(draw: st.DrawFn) -> list[Entry]:
    """Return a file of several turns: batches of one or more lines, ends that may be missing, joined facts anywhere."""
    keys = ["t1/0", "t1/1", "t1/end", "t2/0", "t2/end", "other/0"]
    entries: list[Entry] = []
    for number in range(draw(st.integers(0, 14))):
        name = f"e{number}"
        kind = draw(st.sampled_from(["fact", "joined", "batch", "end"]))
        turn_id = draw(st.sampled_from(["t1", "t2"]))
        match kind:
            case "fact":
                entries.append(Entry(MESSAGE, UserMessage(name), 1, id=name))
            case "joined":
                entries.append(Entry(MESSAGE, UserMessage(name), 1, id=name, joins=draw(st.sampled_from(keys))))
            case "batch":
                step = draw(st.integers(0, 1))
                entries.append(Entry(MESSAGE, AssistantMessage([]), 1, id=name, turn_id=turn_id, step=step))
            case _:
                event = draw(st.sampled_from(["turn.start", "turn.done", "turn.failed", "turn.aborted"]))
                entries.append(Entry(EVENT, {"type": event}, 1, id=name, turn_id=turn_id))
    return entries


def ids(entries: Sequence[Entry]) -> list[str]:
    """Return the ids of `entries`."""
    return [entry.id for entry in entries]


def moves(entry: Entry, index: int, source: Sequence[Entry]) -> bool:
    """Whether the batch that `entry` joins ends behind it."""
    return entry.joins is not None and any(closing_key(later) == entry.joins for later in source[index + 1 :])


@given(logs())
def test_placing_loses_nothing_doubles_nothing_and_is_done_after_one_time(source: list[Entry]) -> None:
    """Design, section 3: joined facts."""
    placed = place_joined(source)
    assert Counter(ids(placed)) == Counter(ids(source))
    assert place_joined(placed) == placed


@given(logs())
def test_joined_entries_stand_behind_their_batch_in_order_of_arrival_and_others_keep_theirs(
    source: list[Entry],
) -> None:
    """Design, section 3; what joins a batch that never came stays in its place."""
    placed = ids(place_joined(source))
    moving = [entry for index, entry in enumerate(source) if moves(entry, index, source)]
    staying = [entry.id for entry in source if entry not in moving]
    assert [name for name in placed if name in staying] == staying
    for key in {entry.joins for entry in moving}:
        joined = [entry.id for entry in moving if entry.joins == key]
        last = max(index for index, entry in enumerate(source) if closing_key(entry) == key)
        position = placed.index(source[last].id)
        assert placed[position + 1 : position + 1 + len(joined)] == joined


@given(logs())
def test_a_log_that_grows_changes_only_the_place_of_what_its_newest_line_closes(source: list[Entry]) -> None:
    """Our choice: a window can be kept line by line."""
    placed: list[Entry] = []
    for entry in source:
        key = closing_key(entry)
        joined = [one for one in placed if key is not None and one.joins == key]
        arrived = [one for one in source if one in joined]
        placed = [*(one for one in placed if one not in joined), entry, *arrived]
    assert placed == place_joined(source)


async def test_the_store_in_memory_shows_history_order_and_gives_older_entries_newest_first() -> None:
    """`EntryStore`: the window, and history before an entry."""
    fact = Entry(MESSAGE, UserMessage("fact"), 1, id="fact", joins="t/0")
    batch = Entry(MESSAGE, AssistantMessage([]), 1, id="batch", turn_id="t", step=0)
    store = MemoryStore([Entry(MESSAGE, UserMessage("old"), 1, id="old")])
    await store.append(fact)
    await store.append(batch)
    assert ids(store.window()) == ["old", "batch", "fact"]
    assert [entry.id async for entry in store.history(before="fact")] == ["batch", "old"]
    assert [entry.id async for entry in store.history()] == []
    assert [entry.id async for entry in store.history(before="nobody")] == []


def test_the_text_and_calls_of_an_answer_are_its_parts_of_that_kind() -> None:
    """Our choice."""
    call = ToolCallPart("c", "t", {})
    message = AssistantMessage([TextPart("a"), call, ReasoningPart("thought"), TextPart("b")])
    assert message.text == "ab"
    assert message.tool_calls == [call]
    assert [ToolOutput(kind, None).is_error for kind in ("text", "error-json", "execution-denied")] == [
        False,
        True,
        True,
    ]
    assert cast("object", entry_from_json({"type": "x", "data": {"a": 1}}).json_data) == {"a": 1}
    assert message_entry(message, timestamp=1).json_data == {}


def test_what_is_optional_in_a_message_is_written_only_where_it_is_there() -> None:
    """Reference, messages: field names of the parts; the log holds nothing empty."""
    message = AssistantMessage(
        [
            ReasoningPart("hm", {"signature": "s"}),
            ReasoningPart("hm"),
            ToolCallPart("c1", "search", {"q": 1}, provider_executed=True),
            ToolResultPart("c1", "search", ToolOutput("execution-denied", "not now")),
            FilePart("image/png", url="asset://1", filename="a.png"),
        ],
        1,
        Usage(9, 8, 7, 6, is_estimate=True),
        "stop",
        {"p": 1},
        "m",
    )
    assert message_to_json(message) == {
        "id": "m",
        "timestamp": 1,
        "role": "assistant",
        "content": [
            {"type": "reasoning", "text": "hm", "providerOptions": {"signature": "s"}},
            {"type": "reasoning", "text": "hm"},
            {
                "type": "tool-call",
                "toolCallId": "c1",
                "toolName": "search",
                "input": {"q": 1},
                "providerExecuted": True,
            },
            {
                "type": "tool-result",
                "toolCallId": "c1",
                "toolName": "search",
                "output": {"type": "execution-denied", "reason": "not now"},
            },
            {"type": "file", "mediaType": "image/png", "url": "asset://1", "filename": "a.png"},
        ],
        "usage": {
            "inputTokens": 9,
            "outputTokens": 8,
            "cachedInputTokens": 7,
            "reasoningTokens": 6,
            "isEstimate": True,
        },
        "finishReason": "stop",
        "providerOptions": {"p": 1},
    }
    assert message_from_json(message_to_json(message)) == message
