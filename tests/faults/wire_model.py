"""Toolcall engine `wire`: asks an OpenAI-compatible server by plain HTTP, without a model library.

A drop-in plugin of the bots in these tests, which start dozens of times: LiteLLM takes three seconds each time. In a
profile: `toolcall: {engine: wire, wire: {base_url: http://127.0.0.1:4000/v1}}`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import httpx
from pydantic import Field

from ishiki import (
    ConfigModel,
    ExtensionHost,
    ModelInfo,
    ModelMiddleware,
    ModelPart,
    ModelRequest,
    ToolcallEngine,
    ToolcallEngineInstance,
    provide,
)
from ishiki.core.messages import Usage
from ishiki.core.model import Finish, LanguageModel, TextDelta, ToolCall
from ishiki.errors import ModelError
from ishiki.gateway.chat_request import ChatDialect, chat_messages, chat_tools
from ishiki.jsonvalue import JsonObject, read_array, read_object, read_str


class WireConfig(ConfigModel):
    """What stands under `toolcall.wire`."""

    base_url: str = Field(description="Where the server is.")


class WireModel:
    """A model behind the server."""

    def __init__(self, base_url: str, client: httpx.AsyncClient) -> None:
        """Ask at `base_url`."""
        self._url = f"{base_url}/chat/completions"
        self._client = client
        self.ref = "wire"
        self.info = ModelInfo("wire", context_window=1_000_000)

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelPart]:
        """Answer in one piece."""
        body: JsonObject = {
            "model": "wire",
            "messages": chat_messages(request, ChatDialect()),
            "tools": chat_tools(request.tools),
        }
        try:
            answer = await self._client.post(self._url, json=body)
        except httpx.HTTPError as error:
            raise ModelError(str(error), kind="unavailable", retryable=True) from error
        if answer.is_error:
            raise ModelError(f"status {answer.status_code}", kind="unavailable", retryable=True)
        for part in _parts(answer.json()):
            yield part


def _parts(body: JsonObject) -> list[ModelPart]:
    choices = [choice for choice in read_array(body, "choices") if isinstance(choice, Mapping)]
    if not choices:
        raise ModelError("an answer without a choice", kind="unavailable", retryable=True)
    message = read_object(choices[0], "message")
    parts: list[ModelPart] = []
    if text := read_str(message, "content"):
        parts.append(TextDelta(text))
    for call in read_array(message, "tool_calls"):
        if isinstance(call, Mapping):
            function = read_object(call, "function")
            parts.append(ToolCall(read_str(call, "id"), read_str(function, "name"), read_str(function, "arguments")))
    has_calls = any(isinstance(part, ToolCall) for part in parts)
    return [*parts, Finish("tool-calls" if has_calls else "stop", Usage(is_estimate=True))]


class Wire(ToolcallEngineInstance):
    """The engine in one runtime."""

    def __init__(self, model: LanguageModel) -> None:
        """Let `model` answer, whatever the profile names."""
        self._model = model

    def middleware(self) -> ModelMiddleware | None:
        """Return None: nothing is rewritten."""
        return None

    def wrap(self, model: LanguageModel) -> LanguageModel:
        """Return the model behind the server."""
        return self._model


class WireEngine(ToolcallEngine[WireConfig]):
    """The provider; one connection pool per process."""

    name = "wire"
    Config = WireConfig

    def __init__(self) -> None:
        """Open nothing yet."""
        self._client = httpx.AsyncClient(timeout=None, trust_env=False, limits=httpx.Limits(max_connections=None))

    def create(self, host: ExtensionHost, config: WireConfig) -> Wire:
        """Make the engine of one runtime."""
        return Wire(WireModel(config.base_url, self._client))


provide(WireEngine())
