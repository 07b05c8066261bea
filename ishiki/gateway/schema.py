"""The shape of models.yaml.

Owns keys, kinds and bounds of single values. What depends on more than one of them (references, keys that an api
requires) is `catalogue`'s. Source: design, configuration; reference, models.yaml, for the keys.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, SecretStr, StringConstraints

from ishiki.config import ConfigModel, IdText
from ishiki.gateway.dialects import Dialect

__all__ = [
    "LEVELS",
    "Api",
    "CircuitBreakerConfig",
    "GroupConfig",
    "ModelConfig",
    "ModelType",
    "ModelsFile",
    "ProviderConfig",
    "Strategy",
    "ThinkingConfig",
]

Api: TypeAlias = Literal[
    "openai-completions", "openai-responses", "anthropic-messages", "google-generative-ai", "litellm", "demo"
]
"""How a provider is spoken to."""

ModelType: TypeAlias = Literal["language", "embedding", "image", "speech", "transcription", "reranking"]
"""What a model is for; a mind thinks with `language` only."""

Strategy: TypeAlias = Literal["failover", "round-robin", "random"]
"""In which order a group's members are tried."""

Level: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Modality: TypeAlias = Literal["text", "image", "audio", "video", "pdf"]

LEVELS: tuple[Level, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Every level that a reference may end in, the least thinking first."""


class ThinkingConfig(ConfigModel):
    """How a model is told to think."""

    mode: Literal["effort"] = Field(default="effort", description="How the level is sent; effort: as reasoning_effort.")
    efforts: tuple[Level, ...] = Field(default=(), description="Levels that the model takes; empty: any.")
    send_back: bool = Field(
        default=False,
        description="Whether earlier reasoning is sent back; some models demand it between their tool calls.",
    )


class ModelConfig(ConfigModel):
    """One model of a provider."""

    id: IdText = Field(min_length=1, description="The model's id as the provider knows it.")
    type: ModelType = Field(default="language", description="What the model is for.")
    name: str = Field(default="", description="Name for people; empty: the id.")
    tool_call: bool = Field(default=True, description="Whether the model takes tools.")
    reasoning: bool = Field(default=False, description="Whether the model reasons before it answers.")
    thinking: ThinkingConfig | None = Field(default=None, description="How the model is told to think.")
    input: frozenset[Modality] = Field(default=frozenset({"text"}), description="What the model reads.")
    context_window: int | None = Field(default=None, ge=1, description="Tokens of request and answer together.")
    max_tokens: int | None = Field(default=None, ge=1, description="Most tokens of one answer.")
    dimensions: int | None = Field(default=None, ge=1, description="Length of the vectors of an embedding model.")


class ProviderConfig(ConfigModel):
    """One place that serves models."""

    api: Api = Field(description="How the provider is spoken to.")
    base_url: Annotated[str, StringConstraints(strip_whitespace=True)] | None = Field(
        default=None, description="Address of the API, up to and with its version, such as https://host/v1."
    )
    api_key: SecretStr | None = Field(default=None, min_length=1, description="Key, by reference: ${NAME}.")
    headers: dict[str, SecretStr] = Field(default={}, description="Further HTTP headers of every request.")
    dialect: Dialect | None = Field(
        default=None,
        description="What the server takes that OpenAI's does not, or does not take that it does; absent: by the "
        "address, and learnt from what it refuses.",
    )
    settings: dict[str, object] = Field(
        default={},
        description="Further fields of every request; include_usage: false for servers that refuse stream_options.",
    )
    models: tuple[ModelConfig, ...] = Field(
        default=(), description="The models that may be named; no other is passed through."
    )


class CircuitBreakerConfig(ConfigModel):
    """When a failing member is left alone."""

    failure_threshold: int = Field(default=3, ge=1, description="Failures in a row after which a member is left out.")
    cooldown_seconds: float = Field(
        default=60.0, ge=0, description="Seconds after the latest failure until it is tried again."
    )


class GroupConfig(ConfigModel):
    """Models that stand in for each other."""

    strategy: Strategy = Field(default="failover", description="In which order the members are tried.")
    models: tuple[str, ...] = Field(min_length=1, description="The members, as provider:model[:level].")
    circuit_breaker: CircuitBreakerConfig = Field(
        default=CircuitBreakerConfig(), description="When a failing member is left alone."
    )


class ModelsFile(ConfigModel):
    """The whole of models.yaml."""

    providers: dict[str, ProviderConfig] = Field(default={}, description="Providers by id.")
    groups: dict[str, GroupConfig] = Field(default={}, description="Groups by name.")
