"""What servers have been found to take, by model: learnt from a refusal, kept as long as the process lives.

What a server's own words asked for stays. A form that was only guessed, because the words told nothing, is put to the
test again: the refusal may have been a passing fault in a request's clothes.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ishiki.core.clock import Clock
from ishiki.gateway.dialects import DIALECTS
from ishiki.gateway.wire_form import OPENAI_FORM, WireForm

__all__ = ["FormBook", "FormPage"]

logger = logging.getLogger(__name__)

_RETEST_S = 6 * 3600.0
"""After how long a guess that was confirmed is tested again: at most four vain requests a day for a model."""


@dataclass(slots=True)
class FormPage:
    """What one model was found to take."""

    ref: str
    declared: WireForm
    """By its dialect or address; each request has at least that."""
    asked_for: WireForm = OPENAI_FORM
    """What the server's words asked for."""
    guess: WireForm | None = None
    """A form that was taken where another was refused without a reason that we understand."""
    retest_at: float = 0.0
    """Monotonic seconds from which the guess is tested; 0: by the next turn."""
    guessed_in: str = ""
    """The turn that made the guess."""

    def form(self, turn_id: str, now: float) -> WireForm:
        """Return the form of a turn's next request."""
        form = self.declared.joined(self.asked_for)
        if self.guess is None or (now >= self.retest_at and turn_id != self.guessed_in):
            return form
        return form.joined(self.guess)

    def learn(self, asked_for: WireForm, words: str) -> None:
        """Keep what the server's words asked for, now that a request in that form was taken. Says it once."""
        if self.asked_for == (joined := self.asked_for.joined(asked_for)):
            return
        self.asked_for = joined
        logger.warning(
            "%s: the server refused the usual form of a request and gets another one from now on (%s; %s). "
            "Its words: %s",
            self.ref, joined.described(), _spared_by(joined), words,
        )  # fmt: skip

    def suppose(self, guess: WireForm, words: str, turn_id: str, now: float) -> None:
        """Keep a form that was taken where another was refused for no reason that we understand."""
        if self.guess is None:
            logger.warning(
                "%s: the server refused a request without saying why, and took it in a simpler form (%s); the next "
                "turn tries the usual one again. Its words: %s",
                self.ref, guess.described(), words,
            )  # fmt: skip
            self.retest_at = 0.0
        else:
            self.retest_at = now + _RETEST_S
        self.guess, self.guessed_in = guess, turn_id

    def passed(self, turn_id: str, now: float) -> None:
        """Note that a request was taken in the form of `form`: a guess that was tested by it was wrong."""
        if self.guess is not None and now >= self.retest_at and turn_id != self.guessed_in:
            logger.info("%s: the server takes the usual form of a request again", self.ref)
            self.guess = None


def _spared_by(form: WireForm) -> str:
    """Return what an owner can write so that the next start need not learn `form`."""
    for name, known in DIALECTS.items():
        if known.joined(form) == known:
            return f"`dialect: {name}` in models.yaml spares the refusal"
    return "it is learnt anew at each start"


class FormBook:
    """A page for each model of each provider."""

    def __init__(self, clock: Clock) -> None:
        """Start empty."""
        self.clock = clock
        self._pages: dict[tuple[str, str], FormPage] = {}

    def page(self, ref: str, place: str, declared: WireForm) -> FormPage:
        """Return the page of a model; a new one where its place or what is declared of it has changed.

        Args:
            ref: the model, as it is asked for.
            place: its provider's address and its id: levels of one model share a page.
            declared: what is known of it beforehand.
        """
        page = self._pages.get((place, declared.described()))
        if page is None:
            page = FormPage(ref, declared)
            self._pages[(place, declared.described())] = page
        return page
