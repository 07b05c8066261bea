"""Forms that are known before a server has refused anything: by the name of a dialect, or by a vendor's address.

`dialect:` of a provider names one; without it the address decides. Checked in November and December 2026 against
public documents and issue trackers, as each row says; what is not listed is learnt from the server's own words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from ishiki.gateway.wire_form import WireForm

__all__ = ["DIALECTS", "Dialect", "dialect_form"]

Dialect: TypeAlias = Literal["openai", "mistral", "gemini-openai", "deepseek-reasoner", "vllm-template", "lmstudio"]
"""How strict a server of chat completions is."""

DIALECTS: Mapping[Dialect, WireForm] = {
    # OpenAI API reference, chat completions.
    "openai": WireForm(),
    # Mistral API: error 3230 for a user behind a tool; call ids of nine letters and digits (mistral-common).
    "mistral": WireForm(roles="bridged", call_ids="nine", reasoning="drop"),
    # Gemini API, OpenAI compatibility and function calling: declarations have a part of JSON Schema, a response is a
    # Struct, Gemini 3 wants the signature of a call back.
    "gemini-openai": WireForm(schemas="subset", results="object", signatures="google", reasoning="drop"),
    # DeepSeek API, thinking mode with tool calls: reasoning_content stands in every assistant message.
    "deepseek-reasoner": WireForm(reasoning="send"),
    # Chat templates of Mistral, Gemma and Llama 2 models as vLLM and TGI apply them.
    "vllm-template": WireForm(roles="alternating", filled=True),
    # LM Studio and llama.cpp: the same templates; Qwen's also want a user message that is no tool's result.
    "lmstudio": WireForm(roles="alternating", filled=True, single_calls=True),
}
"""What each dialect restricts."""

_OF_HOST: tuple[tuple[str, Dialect], ...] = (
    ("mistral.ai", "mistral"),
    ("generativelanguage.googleapis.com", "gemini-openai"),
)
"""Vendors that have one dialect for all their models. DeepSeek's depends on whether the model thinks, and is learnt."""


def dialect_form(dialect: Dialect | None, base_url: str | None) -> WireForm:
    """Return the form of a named dialect, else of a vendor's address, else OpenAI's."""
    if dialect is not None:
        return DIALECTS[dialect]
    host = urlsplit(base_url or "").hostname or ""
    for end, known in _OF_HOST:
        if host == end or host.endswith(f".{end}"):
            return DIALECTS[known]
    return WireForm()
