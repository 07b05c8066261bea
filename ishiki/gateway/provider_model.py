"""One model of one provider as a `LanguageModel`, and how its calls are written for LiteLLM."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from urllib.parse import urlsplit

from ishiki.core.model import ModelInfo, ModelPart, ModelRequest
from ishiki.gateway.chat_request import ChatDialect, chat_messages, chat_tool_choice, chat_tools
from ishiki.gateway.limiter import CallLimiter
from ishiki.gateway.litellm_wire import NO_KEY, LiteLLMWire, WireCall
from ishiki.gateway.schema import Api
from ishiki.jsonvalue import JsonObject, JsonValue

__all__ = ["OPENAI_BASE_URL", "RESERVED_SETTINGS", "ProviderModel", "Target"]

OPENAI_BASE_URL = "https://api.openai.com/v1"
"""Where `openai-completions` goes without a `base_url`. Said here, so that no variable of LiteLLM decides it."""

RESERVED_SETTINGS = frozenset(
    {
        "api_base", "api_key", "base_url", "extra_headers", "max_retries", "messages", "model", "num_retries",
        "stream", "stream_options", "timeout", "tool_choice", "tools",
    }
)  # fmt: skip
"""Settings that are ours to decide; explicit fields of models.yaml stand for some of them."""

_PREFIXES: Mapping[Api, str] = {
    # `custom_openai` and not `openai`: for the latter LiteLLM changes requests by the model's name.
    "openai-completions": "custom_openai/",
    "openai-responses": "openai/responses/",
    "anthropic-messages": "anthropic/",
    "google-generative-ai": "gemini/",
    "litellm": "",
}


@dataclass(frozen=True, slots=True)
class Target:
    """Where a model is and what it takes."""

    ref: str
    """`provider:model[:level]`."""
    api: Api
    model_id: str
    info: ModelInfo
    level: str | None = None
    """How hard it is to think; None leaves that to the provider."""
    base_url: str | None = None
    api_key: str | None = None
    headers: Mapping[str, str] | None = None
    settings: JsonObject | None = None
    sends_reasoning: bool = False


class ProviderModel:
    """A model behind LiteLLM."""

    def __init__(self, target: Target, *, wire: LiteLLMWire, limiter: CallLimiter) -> None:
        """Call `target` through `wire`, as `limiter` allows."""
        self._target = target
        self._wire = wire
        self._limiter = limiter

    @property
    def ref(self) -> str:
        """`provider:model[:level]`."""
        return self._target.ref

    @property
    def info(self) -> ModelInfo:
        """What models.yaml declares."""
        return self._target.info

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPart, None]:
        """Answer `request`; waits for its turn where too many calls are in flight.

        Raises:
            ModelError: whatever went wrong, redacted.
        """
        call = wire_call(self._target, request)
        place = self._limiter.place(request.origin.owner, self.ref)
        async with place, aclosing(self._wire.stream(call)) as parts:
            async for part in parts:
                yield part


def wire_call(target: Target, request: ModelRequest) -> WireCall:
    """Return the call of `target` that `request` asks for."""
    is_chat = target.api == "openai-completions"
    base_url = target.base_url or (OPENAI_BASE_URL if is_chat else None)
    fields, arguments = _body_fields(target, request, base_url)
    dialect = ChatDialect(target.info.input, target.sends_reasoning)
    arguments |= {
        "model": _PREFIXES.get(target.api, "") + target.model_id,
        "messages": chat_messages(request, dialect),
    }
    if request.tools:
        arguments["tools"] = chat_tools(request.tools)
        if (choice := chat_tool_choice(request.tool_choice)) is not None:
            arguments["tool_choice"] = choice
    if base_url is not None:
        arguments["api_base"] = base_url
    if target.api_key is not None or is_chat:
        arguments["api_key"] = target.api_key or NO_KEY
    if target.headers:
        arguments["extra_headers"] = dict(target.headers)
    if is_chat:
        if fields:
            # Merged into the body as it is: LiteLLM neither renames nor refuses what stands here.
            arguments["extra_body"] = fields
    else:
        arguments = {**fields, **arguments}
    return WireCall(target.ref, arguments, base_url, request, reads_raw_chunks=is_chat)


def _body_fields(
    target: Target, request: ModelRequest, base_url: str | None
) -> tuple[dict[str, JsonValue], dict[str, JsonValue]]:
    """Return the provider's own fields, and the arguments that LiteLLM knows by name."""
    settings, asked = dict(target.settings or {}), request.settings
    wants_usage = settings.pop("include_usage", settings.pop("includeUsage", True)) is not False
    fields = {key: value for key, value in {**settings, **asked.extra}.items() if key not in RESERVED_SETTINGS}
    if target.level is not None:
        fields["reasoning_effort"] = target.level
    arguments: dict[str, JsonValue] = {}
    if wants_usage:
        arguments["stream_options"] = {"include_usage": True}
    if asked.temperature is not None:
        arguments["temperature"] = asked.temperature
    if asked.top_p is not None:
        arguments["top_p"] = asked.top_p
    limits = [limit for limit in (asked.max_output_tokens, target.info.max_output_tokens) if limit is not None]
    # Unasked, the provider's own limit holds; Anthropic has none and must be told.
    if asked.max_output_tokens is not None or (limits and target.api == "anthropic-messages"):
        arguments[_limit_name(base_url)] = min(limits)
    return fields, arguments


def _limit_name(base_url: str | None) -> str:
    """Return how the answer's length is called. OpenAI's own reasoning models refuse the older name."""
    host = urlsplit(base_url or "").hostname or ""
    return "max_completion_tokens" if host.endswith("api.openai.com") else "max_tokens"
