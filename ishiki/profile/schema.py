"""The keys of profile.yaml: what each one is, its unit, default and bounds.

Owns the models only; reading is `loader`'s. The blocks of engines (`wakeup.standard: {…}`) are not here: each engine
validates its own. Source of keys and defaults: specification, profiles; bounds and what is marked so are ours.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, field_validator, model_validator

from ishiki.config import ConfigModel, IdText, check_zone

__all__ = [
    "CodemodeConfig",
    "ContextChoice",
    "ExtensionEntry",
    "FailoverConfig",
    "GuardsConfig",
    "LimitsConfig",
    "ProfileConfig",
    "ResourcesConfig",
    "ToolcallChoice",
    "ToolsearchConfig",
    "TypingSection",
    "WakeupChoice",
]

_MIB = 1024 * 1024
_BYTES_MAX = 1024 * _MIB
_DAY_S = 86_400

_Bytes = Annotated[int, Field(ge=1, le=_BYTES_MAX)]
_Seconds = Annotated[float, Field(ge=0.1, le=3_600)]
_ToolName = Annotated[str, Field(min_length=1)]


class ExtensionEntry(ConfigModel):
    """One entry of `extends`."""

    enable: bool = Field(default=True, description="Whether the extension is used; false keeps its settings for later.")
    config: dict[str, JsonValue] = Field(
        default_factory=dict[str, JsonValue],
        description="Settings of the extension; its own documentation lists them.",
    )


class FailoverConfig(ConfigModel):
    """How often and when another model of the group is tried."""

    attempts: int | None = Field(
        default=None, ge=1, le=20, description="Tries in all, cycling through the group; unset: each member once."
    )
    backoff_ms: int = Field(
        default=500,
        ge=0,
        le=60_000,
        description="Milliseconds before the second try; doubled for each further one, at most 8 s, with some chance.",
    )
    failover_on: Literal["unavailable", "any"] = Field(
        default="unavailable",
        description="Which failures go on to the next model: only those that another one may not have, or any.",
    )


class ContextChoice(ConfigModel):
    """What the model sees."""

    engine: str = Field(
        default="standard", min_length=1, description="The engine; its settings stand beside this key, under its name."
    )


class WakeupChoice(ConfigModel):
    """When the mind speaks up."""

    engine: str = Field(
        default="standard", min_length=1, description="The engine; its settings stand beside this key, under its name."
    )


class ToolcallChoice(ConfigModel):
    """How the model writes tool calls."""

    engine: str = Field(
        default="native", min_length=1, description="The engine; its settings stand beside this key, under its name."
    )


class CodemodeConfig(ConfigModel):
    """Code mode: the model calls its tools from one small program."""

    enable: bool = Field(default=False, description="Whether the tools stand behind the one tool `codemode`.")
    direct: tuple[_ToolName, ...] = Field(default=(), description="Tools that are still called directly, by name.")
    timeout_ms: int = Field(default=30_000, ge=100, le=600_000, description="Milliseconds that one program may run.")
    max_tool_input_bytes: _Bytes = Field(default=32 * _MIB, description="Bytes that a program may hand to one tool.")
    max_tool_output_bytes: _Bytes = Field(default=32 * _MIB, description="Bytes that one tool may hand back.")
    max_result_bytes: _Bytes = Field(default=32 * _MIB, description="Bytes of the program's own result.")
    memory_limit_bytes: _Bytes = Field(default=256 * _MIB, description="Bytes of memory that a program may use.")


class ToolsearchConfig(ConfigModel):
    """Tool search: rarely used tools are hidden until the model looks for them."""

    enable: bool = Field(default=False, description="Whether tools are hidden behind the tool `search`.")
    resident: tuple[_ToolName, ...] = Field(default=(), description="Tools that stay visible, by name.")
    max_results: int = Field(default=5, ge=1, le=100, description="Tools that one search may find.")


class TypingSection(ConfigModel):
    """The pause before each message, as if it were typed."""

    base_delay: int = Field(default=500, ge=0, le=60_000, description="Milliseconds before the first key.")
    char_per_second: float = Field(
        default=5,
        ge=0,
        le=10_000,
        description="Chinese characters per second, Latin letters half as many again; 0 always takes min_delay.",
    )
    min_delay: int = Field(default=800, ge=0, le=60_000, description="Milliseconds, the least.")
    max_delay: int = Field(default=4_000, ge=0, le=60_000, description="Milliseconds, the most; at least min_delay.")

    @model_validator(mode="after")
    def _least_before_most(self) -> Self:
        if self.min_delay > self.max_delay:
            raise ValueError(f"min_delay ({self.min_delay}) is greater than max_delay ({self.max_delay}); swap them")
        return self


class ResourcesConfig(ConfigModel):
    """Images that the model may see."""

    image_input: bool = Field(
        default=False, description="Whether images are shown to the model; every model of the group must take them."
    )
    max_image_bytes: _Bytes = Field(default=5 * _MIB, description="Bytes of one image; larger ones are only named.")
    max_total_image_bytes: _Bytes = Field(default=10 * _MIB, description="Bytes of all images of one request.")
    max_image_count: int = Field(
        default=4, ge=1, le=64, description="Images that a request holds; the newest are kept."
    )
    max_image_dimension: int = Field(default=8_000, ge=16, le=65_535, description="Pixels of the longer side.")


class LimitsConfig(ConfigModel):
    """How long and how much. All of it is ours."""

    stale_after: float = Field(
        default=300,
        ge=1,
        le=_DAY_S,
        description="Seconds; a message that arrives later than this is kept and wakes nobody.",
    )
    idle_minutes: float = Field(
        default=120, ge=1, le=10_080, description="Minutes without a message after which a channel leaves memory."
    )
    window_entries: int = Field(
        default=5_000, ge=100, le=100_000, description="Entries of a channel that are held in memory for the engines."
    )
    first_part_s: _Seconds = Field(default=60, description="Seconds until a model must have begun to answer.")
    between_parts_s: _Seconds = Field(default=30, description="Seconds that a model may pause within an answer.")
    call_s: _Seconds = Field(default=180, description="Seconds that one answer of a model may take.")
    tool_s: _Seconds = Field(default=60, description="Seconds that one tool call may take.")
    send_s: _Seconds = Field(default=20, description="Seconds until the protocol end must have confirmed a message.")
    fetch_s: _Seconds = Field(default=2, description="Seconds that a message waits for the text of the one it quotes.")
    hook_s: _Seconds = Field(default=5, description="Seconds that a hook of an extension or engine may take.")
    turn_s: _Seconds = Field(default=600, description="Seconds that one turn may take, with all its steps.")


class GuardsConfig(ConfigModel):
    """What keeps the mind from talking too much. All of it is ours."""

    turns_per_hour: int = Field(
        default=60, ge=0, le=100_000, description="Turns per hour and channel; 0 sets no bound."
    )
    tokens_per_day: int = Field(
        default=0, ge=0, le=10**12, description="Tokens per day, over the profile's channels; 0 sets no bound."
    )
    messages_per_turn: int = Field(default=8, ge=1, le=100, description="Messages that one turn may send.")
    max_message_chars: int = Field(
        default=4_000,
        ge=100,
        le=1_000_000,
        description="Characters of an incoming message that the model reads; the log has all.",
    )
    bots: tuple[IdText, ...] = Field(
        default=(),
        description="User ids of other bots: together they wake six turns in a channel, then none for ten minutes.",
    )

    @field_validator("bots")
    @classmethod
    def _plain_ids(cls, ids: tuple[str, ...]) -> tuple[str, ...]:
        for one in ids:
            if not one or re.search(r"[\s:*]|^0[0-9]", one):
                raise ValueError(f"{one!r} can be no user id; write the number alone, without zeros before it")
        return ids


class ProfileConfig(ConfigModel):
    """One profile. Engine blocks are taken out before it is validated."""

    model: str = Field(
        min_length=1,
        description="The model: `provider:model`, `provider:model:level`, or the name of a group; see models.yaml.",
    )
    mode: Literal["channel", "cross"] = Field(
        default="channel", description="channel: a mind of its own in each channel. cross: one mind for all of them."
    )
    channels: dict[str, tuple[str, ...]] = Field(
        description="Account -> patterns of the channels that the profile owns; the more specific claim wins.",
    )
    fallback: bool = Field(
        default=False, description="Whether the profile only takes channels that no profile without this key claims."
    )
    extends: dict[str, ExtensionEntry | None] = Field(
        default_factory=dict[str, "ExtensionEntry | None"],
        description="Extension -> its entry; a name alone enables it. Tools and instructions come in this order.",
    )
    instruction: str = Field(
        default="", max_length=100_000, description="Text of the system prompt right behind persona.md."
    )
    plain_text: bool = Field(default=False, description="Whether Markdown in what the model says becomes plain text.")
    timezone: str | None = Field(
        default=None, description="Time zone by its IANA name, such as Asia/Shanghai; unset: that of ISHIKI_TIMEZONE."
    )
    failover: FailoverConfig = Field(default=FailoverConfig(), description="When a model fails.")
    context: ContextChoice = Field(default=ContextChoice(), description="What the model sees.")
    wakeup: WakeupChoice = Field(default=WakeupChoice(), description="When the mind speaks up.")
    toolcall: ToolcallChoice = Field(default=ToolcallChoice(), description="How the model writes tool calls.")
    codemode: CodemodeConfig = Field(default=CodemodeConfig(), description="Tools behind one program.")
    toolsearch: ToolsearchConfig = Field(default=ToolsearchConfig(), description="Tools behind a search.")
    typing: TypingSection = Field(default=TypingSection(), description="The pause before each message.")
    resources: ResourcesConfig = Field(default=ResourcesConfig(), description="Images for the model.")
    limits: LimitsConfig = Field(default=LimitsConfig(), description="How long and how much.")
    guards: GuardsConfig = Field(default=GuardsConfig(), description="What keeps it from talking too much.")

    @field_validator("model")
    @classmethod
    def _reference(cls, reference: str) -> str:
        if re.search(r"\s", reference) or reference.startswith(":") or reference.endswith(":"):
            raise ValueError("a model is written 'provider:model', 'provider:model:level', or as the name of a group")
        return reference

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, name: str | None) -> str | None:
        return name if name is None else check_zone(name)
