"""What holds for every text protocol, whatever a model writes and however it arrives."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ishiki.engines.toolcall._protocol import TextProtocol
from ishiki.jsonvalue import JsonObject

from .protocols import NASTY, PROTOCOLS, SEARCH, calls, read, said, search_arguments, through, written

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
budget = settings(max_examples=60, deadline=None)

answers = st.lists(
    st.one_of(
        st.sampled_from(NASTY),
        st.sampled_from([said(protocol, ("search", {"query": "q"})) for protocol in PROTOCOLS]),
        st.sampled_from([said(protocol, ("send_message", {"messages": ["a", "b"]})) for protocol in PROTOCOLS]),
        st.sampled_from(
            ["<tool_call>", '{"name": "search"', ', "arguments": {', "<send_message>", "<messages>", "<finish/>"]
        ),
        st.sampled_from(["<think>", "</think>", '{"actions": [', '"function": "finish"', "query: a\n", "  - b\n"]),
        st.text(max_size=5),
    ),
    max_size=14,
).map("".join)


@every_protocol
@given(call=calls)
@budget
async def test_a_call_that_is_rendered_and_parsed_is_the_same_call(
    protocol: TextProtocol, call: tuple[str, JsonObject]
) -> None:
    """Issue, toolcall: render then parse gives the same call."""
    name, arguments = call
    assert await read(protocol, said(protocol, (name, arguments))) == [(name, arguments)]


@every_protocol
@given(first=calls, second=calls)
@example(first=("finish", {}), second=("search", {"query": "</tool_call>..."}))
@settings(max_examples=20, deadline=None)
async def test_calls_in_a_row_come_in_their_order(
    protocol: TextProtocol, first: tuple[str, JsonObject], second: tuple[str, JsonObject]
) -> None:
    """Reference, toolcall: several calls."""
    assert await read(protocol, said(protocol, first, second)) == [first, second]


@given(arguments=search_arguments)
@budget
async def test_v3_understands_a_model_that_imitates_its_history(arguments: JsonObject) -> None:
    """Our choice: the history shows elements, so models write elements."""
    protocol = PROTOCOLS[0]
    assert await read(protocol, written(protocol, "search", arguments)) == [("search", arguments)]


@every_protocol
@given(answer=answers, cuts=st.lists(st.integers(1, 7), min_size=1, max_size=6), is_cut=st.booleans())
@example(answer="İ <think>x</think>", cuts=[1], is_cut=False)
@settings(max_examples=150, deadline=None)
async def test_any_chunking_gives_the_same_result(
    protocol: TextProtocol, answer: str, cuts: list[int], is_cut: bool
) -> None:
    """Issue, toolcall: any chunking gives the same result, and no input raises."""
    reason = "length" if is_cut else "stop"
    pieces: list[str] = []
    position = turn = 0
    while position < len(answer):
        size = cuts[turn % len(cuts)]
        pieces.append(answer[position : position + size])
        position += size
        turn += 1
    whole, _ = await through(protocol, [answer], reason=reason)
    cut, _ = await through(protocol, pieces, reason=reason)
    assert cut == whole


@every_protocol
@given(call=calls, cut=st.integers(0, 400))
@settings(max_examples=80, deadline=None)
async def test_a_call_that_was_cut_off_at_the_length_limit_is_no_call(
    protocol: TextProtocol, call: tuple[str, JsonObject], cut: int
) -> None:
    """Our choice: half a message must not be sent."""
    text = said(protocol, call)
    outcome, _ = await through(protocol, [text[:cut]], reason="length")
    assert [part for part in outcome.parts if not isinstance(part, str)] in ([], [call])


FRAMED = ("hermes", "qwen3coder")
ELEMENTS = ("morph-xml", "yaml-xml")
HOSTILE: dict[str, tuple[str, tuple[str, ...]]] = {
    "opening tags": ("<tool_call>", FRAMED),
    "named tags": ("<function=search><parameter=query>", ("qwen3coder",)),
    "closing tags": ("</tool_call></search>", ("qwen3coder", "morph-xml")),
    "tools": ("<search>", ELEMENTS),
    "tools and parameters": ("<search><query>", ELEMENTS),
    "self-closing": ("<search/>", ELEMENTS),
    "brackets": ("<", ("hermes", "morph-xml")),
    "long tag": ("<search aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", ELEMENTS),
    "cdata": ("<search><![CDATA[", ("qwen3coder", "morph-xml")),
    "json opened": ('<tool_call>{"name":"search","arguments":{"query":"', ("hermes",)),
    "json broken": ('<tool_call>{"name":"search","arguments":{"query":"a "b" c}}</tool_call>', FRAMED),
    "quotes": ('<tool_call>"</tool_call>', ("hermes",)),
    "braces": ("{", ("v3",)),
    "fences": ("```json\n{", ("v3",)),
    "actions": ('{"actions": [{"function": "search", "params": {"query": "a "b" c"}}] ', ("v3",)),
    "action elements": ("<action><function>search</function><params>", ("v3",)),
    "yaml nesting": ("<search>\nquery: " + "[" * 50 + "\n</search>", ("yaml-xml",)),
    "yaml keys": ("<search>\n" + "? a\n" * 20 + "</search>", ("yaml-xml",)),
    "yaml aliases": ("<search>\na: &a [1]\nb: [*a, *a]\n</search>", ("yaml-xml",)),
    "entities": ("<search><query>&amp;&lt;&#x110000;</query>", ("morph-xml",)),
    "space": (" \n\t", ("v3", "hermes")),
    "think": ("<think>", ("v3", "hermes")),
}
HOSTILE_CASES = [
    pytest.param(protocol, unit, id=f"{protocol.name}-{shape.replace(' ', '-')}")
    for shape, (unit, names) in HOSTILE.items()
    for protocol in PROTOCOLS
    if protocol.name in names
]


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("protocol", "unit"), HOSTILE_CASES)
async def test_hostile_text_of_200_kb_is_read_to_its_end(protocol: TextProtocol, unit: str) -> None:
    """Issue, toolcall: no input raises. What grows with the square of its length would run into the time limit."""
    text = unit * (200_000 // len(unit))
    outcome, _ = await through(protocol, [text])
    if not any(isinstance(part, tuple) for part in outcome.parts) and "</" not in unit:
        said_text = "".join(part for part in outcome.parts if isinstance(part, str))
        assert said_text.rstrip().endswith(text.rstrip()[-100:])


@pytest.mark.timeout(20)
@every_protocol
async def test_a_long_call_that_comes_one_character_at_a_time_is_read(protocol: TextProtocol) -> None:
    """Issue, toolcall: what is held back is not copied for every piece."""
    arguments: JsonObject = {"messages": ['你好 <at id="42"/> ' * 1_500]}
    outcome, _ = await through(protocol, list(said(protocol, ("send_message", arguments))))
    assert outcome.parts == [("send_message", arguments)]


@every_protocol
@pytest.mark.parametrize("depth", [10, 1_000, 60_000])
async def test_deep_nesting_ends_as_text_or_as_a_call(protocol: TextProtocol, depth: int) -> None:
    """Our choice: 64 levels are read, and no depth reaches the interpreter's stack."""
    nested = "[" * depth + "]" * depth
    body = {
        "v3": f'{{"actions": [{{"function": "search", "params": {{"any": {nested}}}}}]}}',
        "hermes": f'<tool_call>{{"name": "search", "arguments": {{"any": {nested}}}}}</tool_call>',
        "qwen3coder": f"<tool_call><function=search><parameter=any>{nested}</parameter></function></tool_call>",
        "morph-xml": f"<search><any>{nested}</any></search>",
        "yaml-xml": f"<search>\nany: {nested}\n</search>",
    }[protocol.name]
    parts = await read(protocol, body)
    assert len(parts) == 1
    if depth == 10:
        assert parts == [("search", {"any": json.loads(nested)})]


def test_the_catalogue_names_every_parameter_of_a_tool() -> None:
    """Reference, toolcall: the catalogue."""
    for protocol in PROTOCOLS:
        contract = protocol.contract({"search": SEARCH})
        assert all(name in contract for name in ("search", "Finds something.", "query", "limit", "where"))
