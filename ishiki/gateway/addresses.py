"""Addresses of model servers as people write them, and the right one.

Owns the table of well-known vendors. A client appends its own path to `base_url`, so a whole endpoint, a page of a
console or the vendor's door for another protocol answer nothing but 404. Sources: the vendors' API references, as far
as docs/reference/models.md says when and where they were read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from ishiki.gateway.schema import Api

__all__ = ["address_advice"]

_ENDPOINTS = ("/chat/completions", "/completions", "/responses", "/messages", "/models", "/embeddings")
"""What a client appends itself."""

_OPENAI: tuple[Api, ...] = ("openai-completions", "openai-responses")


@dataclass(frozen=True, slots=True)
class _Vendor:
    name: str
    host: str
    """Of its API."""
    openai: str = ""
    """The path of its OpenAI-compatible API; "": it has none."""
    anthropic: str | None = None
    """The path of its Anthropic-compatible API."""
    google: str | None = None
    further: tuple[str, ...] = ()
    """Further paths that are right."""
    pages: tuple[str, ...] = ()
    """Hosts of its web site."""

    def paths(self, api: Api) -> tuple[str, ...]:
        """Return the right paths for an api, the usual one first; empty where it does not speak that."""
        match api:
            case "openai-completions" | "openai-responses":
                return (self.openai, *self.further) if self.openai else ()
            case "anthropic-messages" if self.anthropic is not None:
                return (self.anthropic, f"{self.anthropic}/v1", self.anthropic.removesuffix("/v1"))
            case "google-generative-ai" if self.google is not None:
                return (self.google,)
            case _:
                return ()


_VENDORS = (
    _Vendor("DeepSeek", "api.deepseek.com", "/v1", "/anthropic", further=("", "/beta"),
            pages=("deepseek.com", "platform.deepseek.com", "chat.deepseek.com", "api-docs.deepseek.com")),
    _Vendor("Alibaba Cloud", "dashscope.aliyuncs.com", "/compatible-mode/v1", "/apps/anthropic",
            further=("/api/v2/apps/protocols/compatible-mode/v1",),
            pages=("bailian.console.aliyun.com", "bailian.aliyun.com", "help.aliyun.com", "tongyi.aliyun.com")),
    _Vendor("Alibaba Cloud", "dashscope-intl.aliyuncs.com", "/compatible-mode/v1", "/apps/anthropic",
            further=("/api/v2/apps/protocols/compatible-mode/v1",), pages=("modelstudio.console.alibabacloud.com",)),
    _Vendor("Zhipu", "open.bigmodel.cn", "/api/paas/v4", "/api/anthropic", further=("/api/coding/paas/v4", "/api/v1"),
            pages=("bigmodel.cn", "docs.bigmodel.cn", "chatglm.cn")),
    _Vendor("Z.ai", "api.z.ai", "/api/paas/v4", "/api/anthropic", further=("/api/coding/paas/v4", "/api/v1"),
            pages=("z.ai", "docs.z.ai", "chat.z.ai")),
    _Vendor("Moonshot", "api.moonshot.cn", "/v1", "/anthropic",
            pages=("platform.moonshot.cn", "moonshot.cn", "kimi.com", "platform.kimi.com", "kimi.moonshot.cn")),
    _Vendor("Moonshot", "api.moonshot.ai", "/v1", "/anthropic", pages=("platform.moonshot.ai", "platform.kimi.ai")),
    _Vendor("Volcengine Ark", "ark.cn-beijing.volces.com", "/api/v3", "/api/compatible",
            further=("/api/coding/v3",), pages=("console.volcengine.com", "volcengine.com", "doubao.com")),
    _Vendor("SiliconFlow", "api.siliconflow.cn", "/v1", "",
            pages=("cloud.siliconflow.cn", "siliconflow.cn", "docs.siliconflow.cn")),
    _Vendor("SiliconFlow", "api.siliconflow.com", "/v1", "", pages=("cloud.siliconflow.com", "siliconflow.com")),
    _Vendor("OpenRouter", "openrouter.ai", "/api/v1", "/api"),
    _Vendor("OpenAI", "api.openai.com", "/v1", pages=("platform.openai.com", "openai.com", "chatgpt.com")),
    _Vendor("Anthropic", "api.anthropic.com", "/v1", "/v1",
            pages=("console.anthropic.com", "platform.claude.com", "anthropic.com", "claude.ai", "claude.com")),
    _Vendor("Google", "generativelanguage.googleapis.com", "/v1beta/openai", google="/v1beta",
            pages=("aistudio.google.com", "ai.google.dev", "gemini.google.com")),
    _Vendor("Mistral", "api.mistral.ai", "/v1", pages=("console.mistral.ai", "mistral.ai", "chat.mistral.ai")),
)  # fmt: skip


def address_advice(api: Api, base_url: str) -> str | None:
    """Return what is most likely wrong with an address and the one to write; None where nothing seems wrong.

    Args:
        api: how the provider is spoken to.
        base_url: an http or https address.
    """
    if api in ("litellm", "demo"):
        return None
    parts = urlsplit(base_url.strip())
    host, path = (parts.hostname or "").lower(), parts.path.rstrip("/")
    site = host.removeprefix("www.")
    for vendor in _VENDORS:
        if site in vendor.pages:
            return f"is a page of {vendor.name}'s web site; {_write(vendor, api)}"
        if host == vendor.host:
            return None if path in vendor.paths(api) else f"{_what(path, api)}; {_write(vendor, api)}"
    origin = f"{parts.scheme}://{parts.netloc}"
    return _of_unknown(api, origin, path)


def _of_unknown(api: Api, origin: str, path: str) -> str | None:
    cut = _without_endpoint(path)
    if api in _OPENAI and cut.endswith("/anthropic"):
        return f"is an address for Anthropic's protocol; write api: anthropic-messages, or {origin}/v1"
    if cut != path:
        # With the endpoint a version may be missing, too.
        return (
            f"ends in the endpoint {path[len(cut) :]}, which is appended anyway; write {origin}{_versioned(api, cut)}"
        )
    if (versioned := _versioned(api, path)) != path:
        return f"has no version; most servers want one: write {origin}{versioned}"
    return None


def _versioned(api: Api, path: str) -> str:
    """Return the path with a version where it has no path at all; Anthropic's client appends its own."""
    if path or api == "anthropic-messages":
        return path
    return "/v1beta" if api == "google-generative-ai" else "/v1"


def _without_endpoint(path: str) -> str:
    if ":" in path and "/models/" in path:  # Gemini's: /v1beta/models/<id>:generateContent
        return path.partition("/models/")[0]
    cut = next((path.removesuffix(end) for end in _ENDPOINTS if path.endswith(end)), path)
    return path if cut == path else _without_endpoint(cut)


def _what(path: str, api: Api) -> str:
    cut = _without_endpoint(path)
    if cut != path:
        return f"ends in the endpoint {path[len(cut) :]}, which is appended anyway"
    if api in _OPENAI and "anthropic" in path:
        return "is the address for Anthropic's protocol, not for OpenAI's"
    return "is not where this vendor answers" if path else "has no path"


def _write(vendor: _Vendor, api: Api) -> str:
    """Return what to write, another api where the vendor does not speak this one."""
    if paths := vendor.paths(api):
        return f"write https://{vendor.host}{paths[0]}"
    known: Mapping[Api, str | None] = {
        "openai-completions": vendor.openai or None,
        "anthropic-messages": vendor.anthropic,
        "google-generative-ai": vendor.google,
    }
    other, path = next((name, path) for name, path in known.items() if path is not None)
    return f"it does not speak {api}: write api: {other} and https://{vendor.host}{path}"
