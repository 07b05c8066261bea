"""Proves that a model answers: its provider's list, one word, and one tool call, with one request each.

Owns what is asked, and what each way of failing means to the owner. Asks through the gateway itself, so that what is
proved is what a mind will use.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

import anyio

from ishiki.config import nearest
from ishiki.core.messages import UserMessage
from ishiki.core.model import (
    Finish,
    LanguageModel,
    ModelPart,
    ModelRequest,
    RequestOrigin,
    TextDelta,
    ToolCall,
    ToolSpec,
)
from ishiki.errors import IshikiError, ModelError
from ishiki.gateway.addresses import address_advice
from ishiki.gateway.catalogue import Catalogue, ProviderEntry, Reference
from ishiki.gateway.gateway import Gateway
from ishiki.gateway.model_list import ModelList, list_models

__all__ = ["Proof", "Prover"]

_ANSWER_S = 90.0
"""Seconds that an answer may take; a model on a small machine is loaded first."""

_MAX_NEAREST = 3
_TOOL = ToolSpec(
    "report",
    "Reports that you can call tools.",
    {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)

_NO_CREDIT = re.compile(
    r"insufficient|balance|credit|quota|arrear|billing|payment|overdue|recharge|欠费|余额|充值|额度", re.IGNORECASE
)
_BAD_KEY = re.compile(
    r"(?:api|access)[ _-]?key.{0,20}(?:not valid|invalid|incorrect|expired)"
    r"|(?:invalid|incorrect|wrong|expired).{0,20}(?:api|access)[ _-]?key",
    re.IGNORECASE,
)
_NO_TOOLS = re.compile(r"\btools?\b|tool_choice|function", re.IGNORECASE)
_NO_MODEL = re.compile(r"model.{0,60}(?:not (?:exist|found)|does not exist|invalid|unknown|unsupported)", re.IGNORECASE)
_NO_MODEL_BEFORE = re.compile(r"(?:no such|unknown|invalid|not a valid) model|模型不存在", re.IGNORECASE)

Severity: TypeAlias = Literal["error", "warning"]


@dataclass(slots=True)
class Proof:
    """What was proved of one model."""

    ref: str
    done: list[str] = field(default_factory=list[str])
    """What went well, in order, in words."""
    problems: list[tuple[Severity, str]] = field(default_factory=list[tuple[Severity, str]])
    """What is wrong and what to do, redacted."""
    tokens: int = 0
    """Used by the answers, of request and answer together."""
    is_estimate: bool = False
    """Whether the provider counted none of them, or not all."""

    @property
    def has_failed(self) -> bool:
        """Whether a mind could not use the model."""
        return any(severity == "error" for severity, _ in self.problems)


class Prover:
    """Proves models one after the other; a provider is asked for its list once."""

    def __init__(self, catalogue: Catalogue, gateway: Gateway) -> None:
        """Ask nothing yet; `gateway` serves `catalogue`."""
        self._catalogue = catalogue
        self._gateway = gateway
        self._lists: dict[str, ModelList] = {}

    async def prove(self, reference: Reference, *, with_tool: bool = True) -> Proof:
        """Ask for the list, a word and a tool call; what cannot go well any more is not asked.

        Args:
            reference: a model of a configured provider; a demo needs no proof.
            with_tool: whether a tool call is wanted; text engines want none.
        """
        proof = Proof(reference.ref)
        listed = await self._list(reference.provider)
        is_refused = listed.status in (401, 403) or (listed.status == 400 and _BAD_KEY.search(listed.fault))
        is_silent = listed.ids is None and listed.status is None and reference.provider.config.api != "litellm"
        if is_refused or is_silent:
            self._fail(proof, reference, listed.status, listed.fault, "")
            return proof
        model_id = reference.model.config.id
        if listed.ids is not None:
            is_there = model_id in listed.ids
            proof.done.append(f"is one of {len(listed.ids)} models" if is_there else "is not in the list of models")
        try:
            model = self._gateway.model(reference.ref)
            words = await self._ask(model, proof, "Answer with the one word: ready", ())
            proof.done.append(f"answered {_shown(words[0])}" if words[0] else "answered without words")
            if with_tool and reference.model.config.tool_call:
                await self._ask_for_call(model, proof)
        except ModelError as fault:
            self._fail(proof, reference, fault.status, str(fault), fault.kind)
        except IshikiError as fault:
            proof.problems.append(("error", str(fault)))
        return proof

    async def _ask_for_call(self, model: LanguageModel, proof: Proof) -> None:
        try:
            text, calls = await self._ask(model, proof, "Call the tool `report` with the word ready.", (_TOOL,))
        except ModelError as fault:
            if fault.kind not in ("auth", "rate", "timeout", "unavailable", "cut") and _NO_TOOLS.search(str(fault)):
                how = "choose another model, or a toolcall engine that needs none: toolcall: {engine: hermes}"
                proof.problems.append(("error", f"it takes no tools ({fault}); {how} in profile.yaml"))
                return
            raise
        if any(call.tool_name == _TOOL.name for call in calls):
            proof.done.append("called the tool")
            return
        what = f"wrote {_shown(text)} instead" if text else "did not call it"
        how = "if it does so again, choose a toolcall engine for models without calls: toolcall: {engine: hermes}"
        proof.problems.append(("warning", f"it was offered a tool and {what}; {how} in profile.yaml"))

    async def _ask(
        self, model: LanguageModel, proof: Proof, text: str, tools: Sequence[ToolSpec]
    ) -> tuple[str, list[ToolCall]]:
        """Return the words and the calls of one answer."""
        request = ModelRequest("", [UserMessage(text)], tools, origin=RequestOrigin("check"))
        words: list[str] = []
        calls: list[ToolCall] = []
        try:
            with anyio.fail_after(_ANSWER_S):
                async with aclosing(cast("AsyncGenerator[ModelPart, None]", model.stream(request))) as parts:
                    async for part in parts:
                        match part:
                            case TextDelta():
                                words.append(part.text)
                            case ToolCall():
                                calls.append(part)
                            case Finish():
                                proof.tokens += (part.usage.input_tokens or 0) + (part.usage.output_tokens or 0)
                                proof.is_estimate |= part.usage.is_estimate
                            case _:
                                pass
        except TimeoutError:
            raise ModelError(
                f"{model.ref}: no whole answer within {_ANSWER_S:.0f} s", kind="timeout", retryable=True
            ) from None
        return "".join(words).strip(), calls

    async def _list(self, provider: ProviderEntry) -> ModelList:
        found = self._lists.get(provider.provider_id)
        if found is None:
            if provider.config.api == "litellm":
                found = ModelList(None, fault="this api has no list of models")
            else:
                found = await list_models(provider.config)
            self._lists[provider.provider_id] = found
        return found

    def _fail(self, proof: Proof, reference: Reference, status: int | None, said: str, kind: str) -> None:
        """Note a failure with what to do."""
        text = self._gateway.redactor.redact(" ".join(said.split()))[:300]
        text = text.removeprefix(f"{reference.ref}: ")
        with_status = f"HTTP {status}: {text}" if status is not None and f"HTTP {status}" not in text else text
        proof.problems.append(("error", f"{self._what(reference, status, text, kind)} ({with_status})"))

    def _what(self, reference: Reference, status: int | None, said: str, kind: str) -> str:
        """Return what a failure means and what to do, by its status and the provider's words."""
        provider = reference.provider
        key = ", ".join(self._catalogue.document.variables.get(("providers", provider.provider_id, "api_key"), ()))
        if status == 402 or (status in (401, 403, 429) and _NO_CREDIT.search(said)):
            return "the account has no credit; top it up with the provider"
        if status in (401, 403) or _BAD_KEY.search(said):
            where = f"the value of {key} in .env" if key else "api_key in models.yaml"
            return f"the key is not valid there; check {where}, and that it belongs to this address"
        if status == 429 or kind == "rate":
            return "the provider refuses for now; try again later, or raise the limits of the account"
        if (
            _NO_MODEL.search(said)
            or _NO_MODEL_BEFORE.search(said)
            or (status in (404, 410) and self._is_named(provider))
        ):
            return f"there is no such model; {self._there_are(reference)}"
        advice = address_advice(provider.config.api, provider.config.base_url or "https://")
        if status in (404, 405, 410):
            right = f"base_url {advice}" if provider.config.base_url and advice else "check base_url and api"
            return f"nothing answers at this address; {right}"
        if status is None or kind in ("timeout", "unavailable", "cut"):
            right = f"base_url {advice}; " if provider.config.base_url and advice else ""
            return f"the server does not answer; {right}check base_url, the network, and HTTPS_PROXY and NO_PROXY"
        if _NO_TOOLS.search(said):
            return "it takes no tools; choose a toolcall engine for such models: toolcall: {engine: hermes}"
        return "the provider refuses the request"

    def _is_named(self, provider: ProviderEntry) -> bool:
        """Whether the provider's list was there, so that its address is right."""
        return self._lists[provider.provider_id].ids is not None

    def _there_are(self, reference: Reference) -> str:
        ids = list(self._lists[reference.provider.provider_id].ids or ())
        close: list[str] = []
        while len(close) < _MAX_NEAREST and (found := nearest(reference.model.config.id, set(ids) - set(close))):
            close.append(found)
        names = close or ids[:_MAX_NEAREST]
        if not names:
            return "see the provider's documents for its models, and name one in models.yaml"
        more = "" if len(ids) <= len(names) else f" (the provider lists {len(ids)})"
        return f"write one that there is in models.yaml, such as {', '.join(names)}{more}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:39]}…")
