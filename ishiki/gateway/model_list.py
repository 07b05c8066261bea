"""The models that a provider lists. One request, by the api's own rules.

Sources: OpenAI API reference, models (list); Anthropic API reference, models (list); Gemini API reference, models.list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from ishiki.gateway.calls import BASE_URLS
from ishiki.gateway.litellm_wire import NO_KEY, is_loopback
from ishiki.gateway.schema import ProviderConfig
from ishiki.jsonvalue import JsonObject, JsonValue, read_array, read_str

__all__ = ["ModelList", "list_models"]

_ANTHROPIC_VERSION = "2023-06-01"
_LIST_TIMEOUT_S = 20.0
_MAX_LISTED = 1000
"""As many as a page of Anthropic or Gemini holds; the others know no pages."""


@dataclass(frozen=True, slots=True)
class ModelList:
    """What came of asking."""

    ids: tuple[str, ...] | None
    """The models by id, in the provider's order; None: there is no such list, or it could not be had."""
    status: int | None = None
    """The HTTP status; None: no answer came."""
    fault: str = ""
    """Why there is no list, in the provider's own words or those of the connection; unredacted."""


async def list_models(config: ProviderConfig) -> ModelList:
    """Ask a provider for its models, once. Raises nothing: a fault is part of the result."""
    base_url = (config.base_url or BASE_URLS.get(config.api) or "").rstrip("/")
    if not base_url:
        return ModelList(None, fault="this api has no list of models")
    url, headers = _request(config, base_url)
    headers |= {name: value.get_secret_value() for name, value in config.headers.items()}
    # A proxy cannot reach this machine's own servers.
    uses_proxies = not is_loopback(base_url)
    try:
        async with httpx.AsyncClient(timeout=_LIST_TIMEOUT_S, trust_env=uses_proxies) as client:
            response = await client.get(url, headers=headers)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as fault:
        return ModelList(None, fault=f"{type(fault).__name__}: {fault or 'no answer'}")
    if not response.is_success:
        return ModelList(None, response.status_code, response.text[:_MAX_LISTED])
    try:
        body: JsonValue = response.json()
    except ValueError:
        return ModelList(None, response.status_code, "the list is no JSON; is base_url right?")
    found = _ids(body) if isinstance(body, Mapping) else None
    return ModelList(found, response.status_code, "" if found is not None else "the list has another form")


def _request(config: ProviderConfig, base_url: str) -> tuple[str, dict[str, str]]:
    key = config.api_key.get_secret_value() if config.api_key is not None else NO_KEY
    match config.api:
        case "anthropic-messages":
            path = urlsplit(base_url).path
            root = base_url if path.endswith("/v1") else f"{base_url}/v1"
            return f"{root}/models?limit={_MAX_LISTED}", {"x-api-key": key, "anthropic-version": _ANTHROPIC_VERSION}
        case "google-generative-ai":
            return f"{base_url}/models?pageSize={_MAX_LISTED}", {"x-goog-api-key": key}
        case _:
            return f"{base_url}/models", {"authorization": f"Bearer {key}"}


def _ids(body: JsonObject) -> tuple[str, ...] | None:
    """Return the ids in a list of OpenAI's or Anthropic's form (`data[].id`), or of Gemini's (`models[].name`)."""
    if isinstance(body.get("data"), list):
        rows = [row for row in read_array(body, "data") if isinstance(row, Mapping)]
        return tuple(read_str(row, "id") for row in rows)
    if isinstance(body.get("models"), list):
        rows = [row for row in read_array(body, "models") if isinstance(row, Mapping)]
        return tuple(read_str(row, "name").removeprefix("models/") for row in rows)
    return None
