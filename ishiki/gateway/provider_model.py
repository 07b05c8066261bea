"""One model of one provider as a `LanguageModel`."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

from ishiki.core.messages import AssistantMessage
from ishiki.core.model import ModelInfo, ModelPart, ModelRequest, ResponseStart
from ishiki.gateway.calls import Target, wire_call
from ishiki.gateway.faults import BadRequestError
from ishiki.gateway.form_book import FormBook
from ishiki.gateway.limiter import CallLimiter
from ishiki.gateway.litellm_wire import LiteLLMWire, WireCall
from ishiki.gateway.transcripts import RequestDump
from ishiki.gateway.wire_form import OPENAI_FORM, WireForm

__all__ = ["ProviderModel", "Watching"]

logger = logging.getLogger(__name__)

_MAX_SHOWN_CHARS = 80
"""Characters of a part in a log line."""

_MOST_TRIES = 6
"""Of one request. The strictest server that we know asks for three things; one that always asks for more is not met."""

_PLAINEST = WireForm(roles="flat", schemas="subset", reasoning="drop")
"""What every server that takes a chat takes: one user message of text."""


@dataclass(frozen=True, slots=True)
class Watching:
    """What is shown of calls to people who look for a fault."""

    dump: RequestDump | None = None
    """Writes each request and its answer; None: nothing is written."""
    logs_parts: bool = False
    """Whether each part of a stream is logged at DEBUG."""


class ProviderModel:
    """A model behind LiteLLM."""

    def __init__(
        self,
        target: Target,
        *,
        wire: LiteLLMWire,
        limiter: CallLimiter,
        forms: FormBook,
        watching: Watching | None = None,
    ) -> None:
        """Call `target` through `wire`, as `limiter` allows, in the form that `forms` knows of its server."""
        self._target = target
        self._wire = wire
        self._limiter = limiter
        self._clock = forms.clock
        self._page = forms.page(target.ref, target.place, target.form)
        self._watching = watching or Watching()

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

        A request whose form is refused is written anew as the server's words ask for, and asked again: once for each
        thing that they ask for, and once as plain text where they ask for nothing. What is taken is remembered.

        Yields:
            One answer. A `ResponseStart` more before each further try, so that a reader's clock starts anew.

        Raises:
            ModelError: whatever went wrong, redacted.
        """
        place = self._limiter.place(request.origin.owner, self.ref)
        async with place:
            tries = _Tries(self._page.form(request.origin.turn_id, self._clock.monotonic()))
            while True:
                call = wire_call(self._target, request, tries.form)
                try:
                    async with aclosing(self._parts(call)) as parts:
                        async for part in parts:
                            if tries.take(part):
                                self._learn(tries, request)
                            if self._watching.logs_parts:
                                logger.debug("%s: %s: %.*s", request.origin.owner, self.ref, _MAX_SHOWN_CHARS, part)
                            yield part
                    return
                except BadRequestError as refusal:
                    if request.signal.cancelled or not tries.simplify(refusal, request):
                        raise tries.first_refusal(refusal) from None
                    logger.info("%s: a request is asked again in another form (%s)", self.ref, tries.form.described())
                yield ResponseStart()

    def _learn(self, tries: _Tries, request: ModelRequest) -> None:
        turn_id, now = request.origin.turn_id, self._clock.monotonic()
        if tries.asked_for != OPENAI_FORM:
            self._page.learn(tries.asked_for, tries.words)
        if tries.is_guess:
            self._page.suppose(tries.form, tries.words, turn_id, now)
        elif not tries.words:
            self._page.passed(turn_id, now)

    async def _parts(self, call: WireCall) -> AsyncGenerator[ModelPart, None]:
        dump = self._watching.dump
        if dump is None:
            async with aclosing(self._wire.stream(call)) as parts:
                async for part in parts:
                    yield part
            return
        record = await dump.begin(call)
        failure: BaseException | None = None
        try:
            async with aclosing(self._wire.stream(call)) as parts:
                async for part in parts:
                    record.take(part)
                    yield part
        except BaseException as error:
            # Of every kind: that a call was cancelled is what somebody who reads the file wants to know.
            failure = error if record.finish is None else None
            raise
        finally:
            await dump.end(record, failure)


class _Tries:
    """The forms in which one request is asked."""

    def __init__(self, form: WireForm) -> None:
        self.form = form
        self.asked_for = OPENAI_FORM
        """What the server's words have asked for so far."""
        self.is_guess = False
        """Whether the form was chosen although the words asked for nothing."""
        self.words = ""
        """The server's own, of the first refusal; "" while there is none."""
        self._first: BadRequestError | None = None
        self._has_begun = False
        self._count = 1

    def take(self, part: ModelPart) -> bool:
        """Note a part of the answer; return whether it is the first that shows that the request was taken."""
        if self._has_begun or isinstance(part, ResponseStart):
            return False
        self._has_begun = True
        return True

    def simplify(self, refusal: BadRequestError, request: ModelRequest) -> bool:
        """Choose the next form; return False where no other is worth a request."""
        if self._has_begun or self.is_guess or refusal.judgement.is_final or self._count == _MOST_TRIES:
            return False
        self._count += 1
        if self._first is None:
            self._first, self.words = refusal, refusal.words
        wanted = refusal.judgement.form
        if wanted is not None and wanted.roles != "free" and self.form.roles == "alternating":
            wanted = replace(wanted, roles="flat")  # turns are taken already, and it is not enough
        if wanted is not None and (asked := self.form.joined(wanted)) != self.form:
            self.asked_for, self.form = self.asked_for.joined(wanted), asked
            return True
        if self.form.roles == "flat" or not any(isinstance(one, AssistantMessage) for one in request.messages):
            return False
        self.is_guess = True
        self.form = self.form.joined(_PLAINEST)
        return True

    def first_refusal(self, last: BadRequestError) -> BadRequestError:
        """Return the refusal that tells most: that of the usual form, once a guess has not helped."""
        return self._first if self.is_guess and self._first is not None else last
