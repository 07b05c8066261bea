"""How a request is written for LiteLLM, by the api of its provider. Pure.

What differs between vendors is here and nowhere else: where a path begins, what a level is called, which fields go
where, and what has to be sent back of earlier reasoning. Measured with LiteLLM 1.110 against the servers of
`ishiki.testing`; sources of the vendors' own rules: Anthropic API reference (Messages, extended thinking), OpenAI API
reference (Responses), Gemini API reference (thinking).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from ishiki.core.messages import AssistantMessage
from ishiki.core.model import ModelInfo, ModelRequest
from ishiki.gateway.chat_request import ChatDialect, chat_messages, chat_tool_choice, chat_tools, replay_of
from ishiki.gateway.litellm_wire import NO_KEY, WireCall
from ishiki.gateway.schema import Api
from ishiki.gateway.wire_form import OPENAI_FORM, WireForm, changed_fields, in_form
from ishiki.jsonvalue import JsonObject, JsonValue, read_array

__all__ = ["BASE_URLS", "OPENAI_BASE_URL", "RESERVED_SETTINGS", "Target", "wire_call"]

OPENAI_BASE_URL = "https://api.openai.com/v1"
"""Where `openai-completions` and `openai-responses` go without a `base_url`."""

BASE_URLS: Mapping[Api, str] = {
    "openai-completions": OPENAI_BASE_URL,
    "openai-responses": OPENAI_BASE_URL,
    "anthropic-messages": "https://api.anthropic.com/v1",
    "google-generative-ai": "https://generativelanguage.googleapis.com/v1beta",
}
"""Where an api goes without a `base_url`. Said here, so that no variable of LiteLLM decides it."""

RESERVED_SETTINGS = frozenset(
    {
        "api_base", "api_key", "base_url", "extra_headers", "max_retries", "messages", "model", "num_retries",
        "stream", "stream_options", "timeout", "tool_choice", "tools",
    }
)  # fmt: skip
"""Settings that are ours to decide; explicit fields of models.yaml stand for some of them."""

_NOT_SENT = RESERVED_SETTINGS | {"include_usage", "includeUsage"}

_PREFIXES: Mapping[Api, str] = {
    # `custom_openai` and not `openai`: for the latter LiteLLM changes requests by the model's name.
    "openai-completions": "custom_openai/",
    "openai-responses": "openai/responses/",
    "anthropic-messages": "anthropic/",
    "google-generative-ai": "gemini/",
    "litellm": "",
}

_ANTHROPIC_MAX_TOKENS = 4_096
"""Of an answer, where nobody says more: the API demands a number, the least of its models takes this, and LiteLLM's
own guess for a name that it does not know (128,000) is refused by most."""

_ANTHROPIC_BUDGETS = {"minimal": 1_024, "low": 2_048, "medium": 4_096, "high": 8_192, "xhigh": 16_384, "max": 32_000}
"""Tokens to think with, by level. The API takes 1,024 at least. Our choice of steps."""

_ANTHROPIC_LEAST_BUDGET = 1_024
_ANTHROPIC_LEAST_WORDS = 512
"""Tokens that thinking leaves for words and calls."""

_GEMINI_LEVELS = {"xhigh": "high", "max": "high"}
"""What the API has no name for."""


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
    form: WireForm = OPENAI_FORM
    """What its server is known to take."""

    @property
    def place(self) -> str:
        """Its address and id: levels of one model share them."""
        return f"{self.base_url or self.api} {self.model_id}"


def wire_call(target: Target, request: ModelRequest, form: WireForm | None = None) -> WireCall:
    """Return the call of `target` that `request` asks for.

    Args:
        target: where it goes.
        request: what is asked.
        form: how it is written; None: as the target's server is known to take it.
    """
    form = target.form if form is None else form
    base_url = target.base_url or BASE_URLS.get(target.api)
    arguments = _head(target, request, base_url)
    own = {**(target.settings or {}), **request.settings.extra}
    fields = {key: value for key, value in own.items() if key not in _NOT_SENT}
    is_signed = target.api in ("anthropic-messages", "google-generative-ai") or form.signatures
    signer = target.model_id if is_signed else ""
    facts: JsonObject | None = None
    match target.api:
        case "openai-responses":
            facts = _responses(target, fields, arguments)
        case "anthropic-messages":
            base_url = _anthropic_url(base_url or "")
            if not _anthropic(target, request, fields, arguments):
                signer = ""
        case "google-generative-ai":
            facts = _gemini(target, fields, arguments)
        case "openai-completions":
            # Merged into the body as it is: LiteLLM neither renames nor refuses what stands here.
            arguments["extra_body"] = {**fields, **_effort(target)}
        case _:
            arguments = {**fields, **_effort(target), **arguments}
    arguments |= _conversation(request, _dialect(target, form, signer), form)
    arguments = changed_fields(arguments, form)
    if base_url is not None:
        arguments["api_base"] = base_url
    reads_raw = target.api == "openai-completions"
    return WireCall(target.ref, arguments, base_url, request, reads_raw_chunks=reads_raw, signer=signer, facts=facts)


def _head(target: Target, request: ModelRequest, base_url: str | None) -> dict[str, JsonValue]:
    """Return what every api takes under the same name."""
    settings, asked = target.settings or {}, request.settings
    arguments: dict[str, JsonValue] = {"model": _PREFIXES.get(target.api, "") + target.model_id}
    if settings.get("include_usage", settings.get("includeUsage", True)) is not False:
        arguments["stream_options"] = {"include_usage": True}
    if asked.temperature is not None:
        arguments["temperature"] = asked.temperature
    if asked.top_p is not None:
        arguments["top_p"] = asked.top_p
    # Unasked, the provider's own limit holds.
    if asked.max_output_tokens is not None:
        arguments[_limit_name(target.api, base_url)] = _limit(target, asked.max_output_tokens)
    if target.headers:
        arguments["extra_headers"] = dict(target.headers)
    if target.api_key is not None or target.api == "openai-completions":
        arguments["api_key"] = target.api_key or NO_KEY
    return arguments


def _effort(target: Target) -> JsonObject:
    return {} if target.level is None else {"reasoning_effort": target.level}


def _dialect(target: Target, form: WireForm, signer: str) -> ChatDialect:
    sends_reasoning = form.reasoning == "send" or (target.sends_reasoning and form.reasoning != "drop")
    return ChatDialect(
        input=target.info.input if form.media == "parts" else frozenset({"text"}),
        sends_reasoning=sends_reasoning,
        signer=signer,
        results=form.results,
        signatures=form.signatures,
    )


def _conversation(request: ModelRequest, dialect: ChatDialect, form: WireForm) -> dict[str, JsonValue]:
    arguments: dict[str, JsonValue] = {"messages": in_form(chat_messages(request, dialect), form)}
    if request.tools:
        arguments["tools"] = chat_tools(request.tools, form.schemas)
        if (choice := chat_tool_choice(request.tool_choice)) is not None:
            arguments["tool_choice"] = choice
    return arguments


def _limit(target: Target, asked: int | None) -> int | None:
    limits = [limit for limit in (asked, target.info.max_output_tokens) if limit is not None]
    return min(limits, default=None)


def _limit_name(api: Api, base_url: str | None) -> str:
    """Return how the answer's length is called. OpenAI's own reasoning models refuse the older name."""
    host = urlsplit(base_url or "").hostname or ""
    is_openai = api == "openai-completions" and host.endswith("api.openai.com")
    return "max_completion_tokens" if is_openai else "max_tokens"


def _responses(target: Target, fields: JsonObject, arguments: dict[str, JsonValue]) -> JsonObject:
    """Fill in what the Responses API takes, and return what LiteLLM has to be told of the model.

    Of a name that it does not know it believes that the model cannot stream, and asks for one piece.
    """
    arguments.update(_effort(target))
    if fields:
        arguments["extra_body"] = fields
    # By a model's name it knows that some take no temperature; an error would come before any request.
    arguments["drop_params"] = True
    return {
        "litellm_provider": "openai",
        "mode": "responses",
        "supports_native_streaming": True,
        "supports_reasoning": True,
        "supports_function_calling": True,
    }


def _anthropic_url(base_url: str) -> str:
    """Return the whole path: LiteLLM would put `/v1/messages` behind an address that ends in `/v1`."""
    return f"{base_url}/messages" if base_url.endswith("/v1") else base_url


def _anthropic(target: Target, request: ModelRequest, fields: JsonObject, arguments: dict[str, JsonValue]) -> bool:
    """Fill in what the Messages API takes, and return whether the model may think."""
    arguments.update(fields)
    limit = _limit(target, request.settings.max_output_tokens) or _ANTHROPIC_MAX_TOKENS
    arguments["max_tokens"] = limit
    budget = _ANTHROPIC_BUDGETS.get(target.level or "", 0)
    ceiling = target.info.max_output_tokens or limit + budget
    total = min(limit + budget, ceiling)
    budget = min(budget, total - _ANTHROPIC_LEAST_WORDS)
    if budget < _ANTHROPIC_LEAST_BUDGET or not _can_think(request, target.model_id):
        return "thinking" in fields
    arguments["max_tokens"] = total
    arguments["thinking"] = {"type": "enabled", "budget_tokens": budget}
    # It takes no other temperature then, and LiteLLM no thinking of a model whose name it does not know.
    arguments.pop("temperature", None)
    arguments.pop("top_p", None)
    arguments["allowed_openai_params"] = ["thinking"]
    return True


def _can_think(request: ModelRequest, signer: str) -> bool:
    """Whether the last calls, if there are any, can be sent with the signed reasoning that has to precede them."""
    asked = [message for message in request.messages if isinstance(message, AssistantMessage)]
    if not asked or not asked[-1].tool_calls:
        return True
    return bool(read_array(replay_of(asked[-1], signer), "thinkingBlocks"))


def _gemini(target: Target, fields: JsonObject, arguments: dict[str, JsonValue]) -> JsonObject:
    """Fill in what streamGenerateContent takes, and return what LiteLLM has to be told of the model.

    Of a name that it does not know it believes that the model takes no system prompt, and puts that among the lines.
    """
    if target.level is not None:
        arguments["reasoning_effort"] = _GEMINI_LEVELS.get(target.level, target.level)
        arguments["allowed_openai_params"] = ["reasoning_effort"]
    if fields:
        arguments["extra_body"] = fields
    return {
        "litellm_provider": "gemini",
        "mode": "chat",
        "supports_system_messages": True,
        "supports_reasoning": True,
        "supports_function_calling": True,
        "supports_tool_choice": True,
        "supports_vision": True,
    }
