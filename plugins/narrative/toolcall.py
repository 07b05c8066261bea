"""The toolcall half: one model call of the agent becomes a Narrator and then exactly one branch.

The stages of a step share instructions, tools and history byte for byte and differ in their last message, so that a
provider which caches prefixes reads the history once.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

from pydantic import Field

from ishiki import (
    AgentError,
    AssistantMessage,
    ConfigModel,
    ExtensionHost,
    Finish,
    JsonObject,
    LanguageModel,
    ModelInfo,
    ModelMessage,
    ModelPart,
    ModelRequest,
    ReasoningDelta,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolcallEngine,
    ToolcallEngineInstance,
    ToolSpec,
    UserMessage,
)

from .answers import SPEECH_TOOLS, Direction, Plot, StageAnswer, read_acts, read_plot, read_speech, required_keys
from .mark import evidence
from .prompts import CONVENTION, decoder_note, narrator_note, replyer_note
from .stages import Stage, usage_sum

__all__ = ["NarrativeModel", "NarrativeToolcall", "NarrativeToolcallConfig", "NarrativeToolcallEngine", "StageModels"]

_NARRATED: JsonObject = {"ishiki.narrative": True}
"""Tells our narrations apart from a model's own reasoning, in the log and when they are read again."""

_Call: TypeAlias = tuple[str, str]
"""The name of a tool, and its arguments as JSON text."""

_MODEL = "The model that {does}; unset: the profile's own."


class NarrativeToolcallConfig(ConfigModel):
    """What stands under `toolcall.narrative`."""

    narrator: str | None = Field(default=None, min_length=1, description=_MODEL.format(does="tells the story"))
    replyer: str | None = Field(default=None, min_length=1, description=_MODEL.format(does="writes what is said"))
    decoder: str | None = Field(default=None, min_length=1, description=_MODEL.format(does="calls tools"))


@dataclass(frozen=True, slots=True)
class StageModels:
    """Whom each stage asks, looked up at each call: models.yaml may have been edited."""

    narrator: Callable[[], LanguageModel]
    replyer: Callable[[], LanguageModel]
    decoder: Callable[[], LanguageModel]


class NarrativeToolcall(ToolcallEngineInstance):
    """The engine in one runtime."""

    def __init__(self, host: ExtensionHost, config: NarrativeToolcallConfig) -> None:
        """Keep the host.

        Raises:
            GatewayError: a setting names no usable model.
        """
        self._host = host
        self._config = config
        for ref in (config.narrator, config.replyer, config.decoder):
            if ref is not None:
                host.model(ref)

    def middleware(self) -> None:
        """Return nothing: this engine asks several times for one call, which no middleware can."""

    def wrap(self, model: LanguageModel) -> LanguageModel:
        """Return the model that runs the stages; those without a model of their own ask `model`."""

        def chosen(ref: str | None) -> Callable[[], LanguageModel]:
            return (lambda: model) if ref is None else partial(self._host.model, ref)

        config = self._config
        models = StageModels(chosen(config.narrator), chosen(config.replyer), chosen(config.decoder))
        return NarrativeModel(model, models)


class NarrativeModel:
    """A model whose answer is a narration and the calls of one branch."""

    def __init__(self, model: LanguageModel, models: StageModels) -> None:
        """Go by the name of `model`, and ask `models`."""
        self._model = model
        self._models = models
        self._count = 0

    @property
    def ref(self) -> str:
        """The wrapped model's reference."""
        return self._model.ref

    @property
    def info(self) -> ModelInfo:
        """The wrapped model's info."""
        return self._model.info

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        """Run the Narrator and one branch.

        Yields:
            Signs of life, the narration as reasoning, the branch's calls, and a finish with the usage of all stages.

        Raises:
            AgentError: no mark divides the history (`narrative_mark_missing`), or a stage's model takes no tools.
            ModelError: a call failed, or a stage gave no usable answer.
        """
        news = evidence(request.messages)
        if news is None:
            raise AgentError(
                "toolcall narrative finds no mark in the request: set context: {engine: narrative} in the profile as "
                "well, or another toolcall engine",
                code="narrative_mark_missing",
            )
        step = _step_of(request)
        narrator = step.narrator(self._models.narrator(), has_evidence=bool(news))
        async with aclosing(narrator.parts()) as parts:
            async for part in parts:
                yield part
        plot, usage = narrator.result, narrator.usage
        yield ReasoningDelta(plot.narration, _NARRATED)
        branch = step.branch(self._models, plot)
        calls: Sequence[_Call] = ()
        if branch is None:
            calls = step.end(plot)
        else:
            async with aclosing(branch.parts()) as parts:
                async for part in parts:
                    yield part
            calls, usage = branch.result, usage_sum(usage, branch.usage)
        for name, arguments in calls:
            self._count += 1
            yield ToolCall(f"narrative-{self._count}", name, arguments)
        yield Finish("tool-calls" if calls else "stop", usage)


@dataclass(frozen=True, slots=True)
class _Step:
    """One call of the agent, ready to be put to stages."""

    request: ModelRequest
    """With the convention, and with earlier narrations readable; what all stages have in common."""
    tools: Mapping[str, ToolSpec]
    """Those that the step may call, by name; the models are shown all."""

    @property
    def acts(self) -> Sequence[str]:
        return [name for name in self.tools if name not in SPEECH_TOOLS]

    @property
    def directions(self) -> Sequence[Direction]:
        found: list[Direction] = []
        if "send_message" in self.tools:
            found.append("reply")
        if self.acts:
            found.append("act")
        # Without tools there is nothing but an end; where one tool is demanded, an end may be what is not.
        return [*found, "end"] if not found or "finish" in self.tools else found

    def narrator(self, model: LanguageModel, *, has_evidence: bool) -> Stage[Plot]:
        directions = self.directions
        note = narrator_note(directions, self.acts, has_evidence=has_evidence)
        return Stage("Narrator", model, self._noted(note), lambda answer: read_plot(answer, directions))

    def branch(self, models: StageModels, plot: Plot) -> Stage[Sequence[_Call]] | None:
        """Return the one stage that carries out `plot`; None where nothing is left to do."""
        match plot.direction:
            case "reply":
                return self._replyer(models.replyer(), plot)
            case "act":
                return self._decoder(models.decoder(), plot)
            case "end":
                return None

    def _replyer(self, model: LanguageModel, plot: Plot) -> Stage[Sequence[_Call]]:
        tool = self.tools["send_message"]
        note = replyer_note(plot.narration, plot.brief, required_keys(tool))
        return Stage(
            "Replyer", model, self._noted(note), lambda answer: [(tool.name, _compact(read_speech(answer, tool)))]
        )

    def _decoder(self, model: LanguageModel, plot: Plot) -> Stage[Sequence[_Call]]:
        if not model.info.tool_call:
            raise AgentError(
                f"{model.ref} takes no tools, so it cannot be the Action Decoder: set toolcall.narrative.decoder to a "
                "model that does",
                code="narrative_no_tools",
            )
        request = self._noted(decoder_note(plot.narration, plot.brief))
        # A demanded tool is the only one left.
        choice = next(iter(self.tools.values())) if len(self.tools) == 1 else "required"

        def read(answer: StageAnswer) -> Sequence[_Call]:
            return [(call.tool_name, call.arguments) for call in read_acts(answer)]

        return Stage("Action Decoder", model, replace(request, tool_choice=choice), read)

    def end(self, plot: Plot) -> Sequence[_Call]:
        tool = self.tools.get("finish")
        if tool is None:
            return ()
        properties = tool.input_schema.get("properties")
        has_reason = isinstance(properties, Mapping) and "reason" in properties and bool(plot.brief)
        return [(tool.name, _compact({"reason": plot.brief} if has_reason else {}))]

    def _noted(self, note: str) -> ModelRequest:
        return replace(self.request, messages=[*self.request.messages, UserMessage(note)])


def _step_of(request: ModelRequest) -> _Step:
    shared = replace(
        request,
        instructions="\n\n".join(text for text in (request.instructions, CONVENTION) if text),
        messages=[_readable(message) for message in request.messages],
        tool_choice="none" if request.tools else "auto",
    )
    match request.tool_choice:
        case "auto" | "required":
            tools = {tool.name: tool for tool in request.tools}
        case "none":
            tools = {}
        case ToolSpec() as tool:
            tools = {tool.name: tool}
    return _Step(shared, tools)


def _readable(message: ModelMessage) -> ModelMessage:
    """Return `message` with its narration as text: models are not shown reasoning of earlier answers.

    The reasoning itself stays too; some providers demand some between a model's calls.
    """
    if not isinstance(message, AssistantMessage):
        return message
    told = [
        part.text for part in message.content if isinstance(part, ReasoningPart) and part.provider_options == _NARRATED
    ]
    if not told:
        return message
    texts = [TextPart(f"<narration>\n{text}\n</narration>") for text in told]
    return replace(message, content=[*texts, *message.content])


def _compact(value: JsonObject) -> str:
    return json.dumps(value, ensure_ascii=False, default=dict)


class NarrativeToolcallEngine(ToolcallEngine[NarrativeToolcallConfig]):
    """The provider; one per process."""

    name = "narrative"
    Config = NarrativeToolcallConfig

    def create(self, host: ExtensionHost, config: NarrativeToolcallConfig) -> NarrativeToolcall:
        """Make the engine of one runtime."""
        return NarrativeToolcall(host, config)
