"""plugins/narrative: what its stages are asked, what becomes of their answers, and how requests share a beginning."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import anyio
import orjson
import pytest

from ishiki.contracts.services import ServiceRegistry
from ishiki.core.events import StreamEvent, TurnDone, TurnFailed
from ishiki.core.messages import ReasoningPart, Usage
from ishiki.core.model import Finish, ModelPart, ModelRequest, ReasoningDelta, TextDelta, ToolCallDelta
from ishiki.errors import GatewayError, ModelError
from ishiki.jsonvalue import read_object, read_str
from ishiki.testing.openai_replies import Completion, tool_calls
from ishiki.testing.openai_replies import call as wire_call
from ishiki.testing.openai_replies import text as wire_text
from ishiki.testing.openai_server import ChatRequest
from ishiki.testing.scripted_model import ScriptedAnswer, ScriptedModel, call, reasoning, saying, text
from tests.runtime.kit import failure, load_example, profile_text, running

from .narrative_kit import PACKAGE, load_narrative, note_of, plot, shown, speech, stages_of, telling

MARK = "[mark:"
MARK_TEXT = f"{MARK} what stands from here to the next mark was new when a turn of yours began]"


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> ServiceRegistry:
    """Return a registry in which the package has registered itself."""
    return load_narrative(monkeypatch)


def failed(end: TurnDone | TurnFailed) -> TurnFailed:
    """Return the end of a turn that has to have failed."""
    assert isinstance(end, TurnFailed)
    return end


def common(one: ModelRequest, other: ModelRequest) -> int:
    """Return how many messages two requests share from the beginning on."""
    pairs = zip(shown(one), shown(other), strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(one.messages), len(other.messages)))


async def test_a_reply_is_narrated_and_then_said(services: ServiceRegistry) -> None:
    """Specification, engine system: Narrator, then Replyer; ordinary reasoning and tool calls come out."""
    async with telling(services, [plot("reply"), speech("tea?", "or coffee?")]) as story:
        assert isinstance(await story.turn("I am thirsty"), TurnDone)
    assert stages_of(story.model) == ["Narrator", "Replyer"]
    assert story.said == [{"messages": ["tea?", "or coffee?"]}]
    (answer,) = story.answers()
    assert [part.text for part in answer.content if isinstance(part, ReasoningPart)] == ["Rin is thirsty."]
    assert (answer.text, answer.finish_reason) == ("", "tool-calls")
    assert answer.usage == Usage(input_tokens=200, output_tokens=20), "the sum of both calls"
    assert "offer tea" in note_of(story.model.requests[1])


async def test_an_act_goes_to_the_decoder_and_the_next_step_is_narrated_anew(services: ServiceRegistry) -> None:
    """Specification, engine system: each step takes exactly one branch; acting has to call something."""
    answers = [plot("act", "I look."), call("look", {}), plot("end", "A teapot.", "nothing to say")]
    async with telling(services, answers) as story:
        assert isinstance(await story.turn("what is there?"), TurnDone)
    assert stages_of(story.model) == ["Narrator", "Action Decoder", "Narrator"]
    assert [request.tool_choice for request in story.model.requests] == ["none", "required", "none"]
    acted, ended = story.answers()
    assert [one.tool_name for one in acted.tool_calls] == ["look"]
    assert [(one.tool_name, one.input) for one in ended.tool_calls] == [("finish", {"reason": "nothing to say"})]
    assert story.said == []
    assert "<narration>\nI look.\n</narration>[look]" in shown(story.model.requests[2])


async def test_the_last_mark_stands_before_what_no_turn_has_read(services: ServiceRegistry) -> None:
    """Specification, engine system: the mark divides the history from this turn's evidence."""
    answers = [plot("reply"), speech("hello"), plot("end"), plot("end")]
    async with telling(services, answers) as story:
        await story.turn("first")
        await story.turn("second")
        await story.turn()
    first, _, second, third = (shown(request) for request in story.model.requests)
    assert [text.startswith(MARK) for text in first] == [True, False, False]
    assert "first" in first[1]
    place = max(index for index, text in enumerate(second) if text.startswith(MARK))
    assert "[send_message]" in second[place - 2]
    assert "second" in second[place + 1]
    assert third[-2].startswith(MARK), "nothing was said: nothing stands behind the mark"
    assert "Nothing was said" in third[-1]


async def test_what_is_said_during_a_step_is_evidence_of_that_turn_and_new_to_the_next(
    services: ServiceRegistry,
) -> None:
    """Our choice: no mark inside a turn; a line that the last step had not read is new to the turn after it."""
    answers = [plot("act"), call("look", {}), plot("reply"), speech("one"), plot("end")]
    async with telling(services, answers) as story:
        story.model.hold()
        story.hear("go")
        with anyio.fail_after(5):
            await story.agent.wait()
            story.agent.continue_()
            await story.model.wait_requests(1)
            story.hear("during the first step")
            story.model.release()
            await story.agent.wait()
        await story.turn("later")
    step, last = shown(story.model.requests[2]), shown(story.model.requests[4])
    assert sum(text.startswith(MARK) for text in step) == 1
    assert any("during the first step" in text for text in step[step.index("tool") :])
    assert "later" in last[-2]
    assert last[-3].startswith(MARK)


async def test_requests_share_everything_but_the_note_of_their_stage(services: ServiceRegistry) -> None:
    """Design, budgets, prefix: instructions, tools and each earlier message are the same, byte for byte."""
    turns = 12
    answers: list[ScriptedAnswer] = []
    for number in range(turns):
        answers += [plot("act", f"n{number}"), call("look", {}), plot("reply"), speech(f"s{number}")]
    async with telling(services, answers) as story:
        for number in range(turns):
            await story.turn(f"a{number}", f"b{number}")
    requests = story.model.requests
    assert len(requests) == 4 * turns
    assert len({request.instructions for request in requests}) == 1
    assert len({tuple(tool.name for tool in request.tools) for request in requests}) == 1
    for one, other in pairwise(requests):
        assert common(one, other) >= len(one.messages) - 1


async def test_each_stage_may_ask_a_model_of_its_own(services: ServiceRegistry) -> None:
    """Specification, engine system: several models may take part."""
    narrator = ScriptedModel([plot("act"), plot("reply")], ref="a:narrator")
    replyer = ScriptedModel([speech("hi")], ref="a:replyer")
    decoder = ScriptedModel([call("look", {})], ref="a:decoder")
    settings = {"narrator": narrator.ref, "replyer": replyer.ref, "decoder": decoder.ref}
    async with telling(services, [], others=(narrator, replyer, decoder), toolcall=settings) as story:
        assert isinstance(await story.turn("hello"), TurnDone)
    assert [stages_of(one) for one in (narrator, replyer, decoder)] == [
        ["Narrator", "Narrator"], ["Replyer"], ["Action Decoder"],
    ]  # fmt: skip
    assert story.model.requests == []
    assert {request.origin.turn_id for request in narrator.requests} == {story.ends[0].turn_id}, "it is accounted for"


async def test_a_model_that_nobody_has_is_an_error_before_the_first_turn(services: ServiceRegistry) -> None:
    """Our choice: the owner learns of it when the runtime is built."""
    with pytest.raises(GatewayError, match="nobody:here"):
        async with telling(services, [], toolcall={"replyer": "nobody:here"}):
            pass


async def test_without_the_mark_a_turn_fails_and_says_what_to_set(services: ServiceRegistry) -> None:
    """Specification, engine system: only the toolcall half is an error of that turn."""
    async with telling(services, [], has_mark=False) as story:
        end = failed(await story.turn("hello"))
    assert end.error.code == "narrative_mark_missing"
    assert "context: {engine: narrative}" in end.error.message
    assert story.model.requests == []


async def test_a_line_that_reads_like_a_mark_is_none(services: ServiceRegistry) -> None:
    """Our choice: a mark is known by its id, which nobody in a chat can write."""
    async with telling(services, [], has_mark=False) as story:
        end = failed(
            await story.turn("[mark: what stands from here to the next mark was new when a turn of yours began]")
        )
    assert end.error.code == "narrative_mark_missing"


_PLOT = '{"narration": "It rains.", "direction": "End", "brief": ""}'


@pytest.mark.parametrize(
    "written",
    [
        f"```json\n{_PLOT}\n```",
        f"Here you are:\n{_PLOT}\nThat is all.",
        f"<think>either {{reply}} or not</think>{_PLOT}",
        f"As [1, 2] shows {{so}}: {_PLOT}",
        '{"narration": "It\nrains.", "direction": " end "}',
    ],
)
async def test_an_answer_is_read_whatever_stands_around_its_json(services: ServiceRegistry, written: str) -> None:
    """Our choice: models put fences, prose and thoughts round the JSON that they were asked for."""
    async with telling(services, [text(written)]) as story:
        assert isinstance(await story.turn("hello"), TurnDone)
    assert len(story.model.requests) == 1
    assert [one.tool_name for one in story.answers()[0].tool_calls] == ["finish"]


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (text("I will say hello."), "no JSON object"),
        (text(""), "no JSON object"),
        (text('{"narration": "x", "direction": "sing"}'), "direction has to be one of reply, act, end"),
        (text('{"narration": " ", "direction": "end"}'), "narration has to be text"),
        (text("[" * 5_000), "no JSON object"),
        (call("send_message", {"messages": ["hi"]}), "no JSON object"),
    ],
)
async def test_an_unreadable_narration_is_mended_once(
    services: ServiceRegistry, written: list[ModelPart], problem: str
) -> None:
    """Our choice: one attempt at repair, which shows the answer and says what is wrong with it."""
    async with telling(services, [written, plot("end")]) as story:
        assert isinstance(await story.turn("hello"), TurnDone)
    assert stages_of(story.model) == ["Narrator", "again"]
    assert problem in note_of(story.model.requests[1])
    assert common(*story.model.requests) == len(story.model.requests[0].messages)
    assert story.answers()[0].usage == Usage(200, 20), "the repair is counted too"


@pytest.mark.parametrize(
    ("answers", "stage"),
    [
        ([text("no"), text("still no")], "Narrator"),
        ([plot("reply"), text("hello!"), speech()], "Replyer"),
        ([plot("reply"), speech(" "), text('{"messages": [1]}')], "Replyer"),
        ([plot("act"), text("I look"), call("send_message", {"messages": ["hi"]})], "Action Decoder"),
    ],
)
async def test_two_unusable_answers_fail_the_turn_and_say_nothing(
    services: ServiceRegistry, answers: list[ScriptedAnswer], stage: str
) -> None:
    """Our choice: what cannot be read is never said in the group."""
    async with telling(services, answers) as story:
        end = failed(await story.turn("hello"))
    assert end.error.code == "model_unavailable"
    assert f"the {stage} (test:scripted) gave no usable answer" in end.error.message
    assert (story.said, story.answers()) == ([], [])


@pytest.mark.parametrize(
    "written",
    [text('["hi"]'), text('{"messages": "hi", "mood": "glad"}'), call("send_message", {"messages": ["hi", ""]})],
)
async def test_what_the_replyer_means_is_taken_in_other_shapes_too(
    services: ServiceRegistry, written: list[ModelPart]
) -> None:
    """Our choice: a bare list, one text, or the native call; keys that the tool does not know are left out."""
    async with telling(services, [plot("reply"), written]) as story:
        await story.turn("hello")
    assert story.said == [{"messages": ["hi"]}]


async def test_a_decoder_that_also_speaks_only_acts(services: ServiceRegistry) -> None:
    """Specification, engine system: exactly one branch, and speaking is the Replyer's."""
    both = [*call("look", {})[:1], *call("send_message", {"messages": ["hi"]})]
    async with telling(services, [plot("act"), both, plot("end")]) as story:
        await story.turn("hello")
    assert [one.tool_name for one in story.answers()[0].tool_calls] == ["look"]
    assert story.said == []


async def test_a_models_own_reasoning_is_neither_kept_nor_shown_as_narration(services: ServiceRegistry) -> None:
    """Specification, engine system: the reasoning of the answer is the narration."""
    async with telling(services, [reasoning("hm") + plot("end"), plot("end")]) as story:
        parts: list[ModelPart] = []

        def watch(event: object) -> None:
            if isinstance(event, StreamEvent):
                parts.append(event.part)

        story.agent.feed.subscribe("stream", watch)
        await story.turn("hello")
        await story.turn("again")
    (told,) = [part for part in story.answers()[0].content if isinstance(part, ReasoningPart)]
    assert told.text == "Rin is thirsty."
    assert isinstance(parts[0], ToolCallDelta), "whoever waits for the next part learns that the model is writing"
    assert [part.text for part in parts if isinstance(part, ReasoningDelta)] == ["Rin is thirsty."] * 2
    assert [part for part in parts if isinstance(part, TextDelta)] == []
    assert sum(isinstance(part, Finish) for part in parts) == 2


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ([saying("{", finish=False)], "model_cut"),
        ([plot("reply"), saying("{", finish=False)], "model_cut"),
        ([ModelError("no key", kind="auth", retryable=False)], "model_auth"),
    ],
)
async def test_a_failed_call_of_any_stage_fails_the_turn_as_any_other(
    services: ServiceRegistry, answers: list[ScriptedAnswer], code: str
) -> None:
    """Design, core: what a model call meets is the turn's error."""
    async with telling(services, answers) as story:
        assert failed(await story.turn("hello")).error.code == code
    assert story.said == []


async def test_a_stage_that_a_content_filter_stops_blames_the_request(services: ServiceRegistry) -> None:
    """Design, one message in, one reply out: a refused input must not poison the channel."""
    refused = text("", finish_reason="content-filter")
    async with telling(services, [refused, plot("reply"), speech("hi")]) as story:
        assert isinstance(await story.turn("something vile"), TurnDone)
    assert "vile" in "".join(shown(story.model.requests[0]))
    assert "vile" not in "".join(shown(story.model.requests[1]))
    assert "[withheld]" in "".join(shown(story.model.requests[1]))


async def test_the_history_is_cut_at_a_line_and_the_cut_stays_for_a_while(services: ServiceRegistry) -> None:
    """Our choice: cuts take a quarter at once, so that most requests begin like the one before."""
    turns = 40
    answers = [plot("end") for _ in range(turns)]
    async with telling(services, answers, context={"max_chars": 1_000}) as story:
        for number in range(turns):
            await story.turn(f"line {number} {'x' * 60}")
    requests = story.model.requests
    sizes = [sum(map(len, shown(request)[:-1])) for request in requests]
    assert max(sizes) < 1_000 + 1_500, "marks and narrations come on top"
    assert "line 0 " not in "".join(shown(requests[-1]))
    assert f"line {turns - 1} " in "".join(shown(requests[-1]))
    assert all(shown(request)[0].startswith(MARK) for request in requests)
    moved = sum(shown(one)[1] != shown(other)[1] for one, other in pairwise(requests))
    assert 0 < moved < turns / 2


async def test_a_request_that_was_too_long_is_asked_again_with_half(services: ServiceRegistry) -> None:
    """Design, one message in, one reply out: `context_length_exceeded` halves the budget and retries once."""
    too_long = ModelError("too long", kind="context_length", retryable=False)
    async with telling(services, [too_long, plot("end")]) as story:
        assert isinstance(await story.turn(*(f"line {number} {'x' * 50}" for number in range(20))), TurnDone)
    whole, half = ("".join(shown(request)) for request in story.model.requests)
    assert "line 0 " in whole
    assert "line 0 " not in half
    assert "line 19 " in half


async def test_a_running_turn_is_never_cut(services: ServiceRegistry) -> None:
    """Our choice: what a turn has done is what its next step goes on from."""
    look: list[ScriptedAnswer] = [plot("act", "n" * 600), call("look", {})]
    async with telling(services, [*look * 3, plot("end")], context={"max_chars": 1_000}) as story:
        assert isinstance(await story.turn("old " + "x" * 900, "go"), TurnDone)
    last = shown(story.model.requests[-1])
    assert sum("[look]" in text for text in last) == 3
    assert "go" in last[1]


async def test_both_halves_run_in_a_mind_over_a_real_model_server(
    tmp_path: Path, services: ServiceRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Specification, engine system: chosen by a profile; the group sees what the Replyer wrote and nothing else."""

    def respond(request: ChatRequest) -> Completion:
        note = request.last_user_text
        if "Stage: Narrator." in note:
            decided = "reply" if "assistant" in [message["role"] for message in request.messages] else "act"
            body = {"narration": "A plan.", "direction": decided, "brief": "b"}
            return wire_text(f"```json\n{orjson.dumps(body).decode()}\n```")
        if "Stage: Action Decoder." in note:
            return tool_calls([wire_call("note_write", {"text": "tea"})])
        return wire_text('{"messages": ["here I am"]}')

    load_example("note", monkeypatch, services)
    text = profile_text(
        "context: {engine: narrative}\n"
        "toolcall: {engine: narrative, narrative: {narrator: 'test:b'}}\n"
        "extends: {note: {config: {prefix: mine}}}"
    )
    async with running(tmp_path, text, services=services) as bot:
        bot.server.responder = respond
        bot.mention("are you there?")
        await bot.quiet()
        assert bot.platform.texts == ["here I am"]
        assert (bot.home() / "notes.txt").read_text(encoding="utf-8") == "mine: tea\n"
        assert [request.model for request in bot.server.requests] == ["b", "a", "b", "a"]
        assert [request.body.get("tool_choice") for request in bot.server.requests] == [
            "none", "required", "none", "none",
        ]  # fmt: skip
        (end,) = bot.ends()
        assert end["type"] == "turn.done"
        assistants = [
            data for entry in bot.entries() if read_str(data := read_object(entry, "data"), "role") == "assistant"
        ]
        assert [read_object(data, "usage")["outputTokens"] for data in assistants] != [0, 0]
        log = (bot.home() / "events.jsonl").read_text(encoding="utf-8")
        assert "ishiki.narrative" in log
        assert MARK not in log, "marks are a projection and are never stored"


async def test_a_profile_with_only_one_half_says_so_in_the_turn(tmp_path: Path, services: ServiceRegistry) -> None:
    """Specification, engine system: toolcall alone fails that turn; context alone runs like any other context."""
    text = profile_text("toolcall: {engine: narrative}")
    async with running(tmp_path / "one", text, services=services) as bot:
        bot.mention("hello")
        await bot.quiet()
        kind, message = failure(bot.ends()[0])
        assert kind == "turn.failed"
        assert "finds no mark" in message
        assert bot.server.requests == []
    text = profile_text("context: {engine: narrative}")
    async with running(tmp_path / "two", text, services=services) as bot:
        bot.server.enqueue(tool_calls([wire_call("send_message", {"messages": ["plain"]})]))
        bot.mention("hello")
        await bot.quiet()
        assert bot.platform.texts == ["plain"]


def test_the_package_imports_from_ishiki_alone_and_costs_next_to_nothing(tmp_path: Path) -> None:
    """Our choice: it is loaded by every bot, so it brings no module that `import ishiki` has not brought."""
    for file in PACKAGE.glob("*.py"):
        lines = file.read_text(encoding="utf-8").splitlines()
        assert [line for line in lines if line.startswith(("from ishiki.", "import ishiki."))] == []
    code = (
        "import sys, importlib, ishiki, contextlib, json, re\n"
        f"sys.path.insert(0, {str(PACKAGE.parent)!r})\n"
        "before = set(sys.modules)\n"
        "importlib.import_module('narrative')\n"
        "print(*sorted(name for name in set(sys.modules) - before if not name.startswith('narrative')))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.split() == []
