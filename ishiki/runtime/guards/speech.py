"""What was said in this turn and in the last minutes. Pure: the log tells it, `send_message` asks it."""

from __future__ import annotations

import hashlib
import unicodedata
from collections import deque
from dataclasses import dataclass, field

from ishiki.content import Text, parse, serialise
from ishiki.contracts.events import ChannelRef
from ishiki.core.clock import SteadyTime
from ishiki.jsonvalue import JsonObject, JsonValue, read_array
from ishiki.tools.deliveries import Delivery
from ishiki.tools.speech_guard import SpeechRefusal

__all__ = ["SpeechMemory", "text_key"]

_WINDOW_MS = 600_000
_MOST_IN_WINDOW = 3
"""The same text at most once a turn and three times in ten minutes. Source: design, guards."""

_REMEMBERED = 1_000
"""Messages of the window that are remembered; no channel is spoken to that fast for long."""


def text_key(target: ChannelRef, content: str) -> str:
    """Return what two messages share that read the same in one channel.

    Spaces, letter case, forms of one character and what is quoted make no difference; who is mentioned, and which media
    there are, does.
    """
    seen = "".join(
        node.value if isinstance(node, Text) else serialise([node])
        for node in parse(content)
        if isinstance(node, Text) or node.name != "quote"
    )
    words = " ".join(unicodedata.normalize("NFKC", seen).casefold().split())
    return hashlib.blake2b(f"{target}\n{words}".encode("utf-8", "replace"), digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True)
class _Said:
    key: str
    at_ms: int
    place: tuple[str, int] = ("", 0)
    """Tool call and index, by which a failed one is taken back."""


@dataclass(slots=True)
class SpeechMemory:
    """The messages of one runtime. One that the platform refused was not said, but was one of its turn's messages.

    Times are steady ones, in milliseconds.
    """

    per_turn: int
    """Messages that one turn may send."""
    _turn_id: str = ""
    _places: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    _in_turn: list[_Said] = field(default_factory=list[_Said])
    _recent: deque[_Said] = field(default_factory=lambda: deque[_Said](maxlen=_REMEMBERED))

    def note(self, delivery: Delivery, turn_id: str, at_ms: int) -> None:
        """Take in what the log tells of a message."""
        self._begin(turn_id)
        place = delivery.tool_call_id, delivery.index
        if delivery.state == "failed":
            self._in_turn = [said for said in self._in_turn if said.place != place]
            self._recent = deque((said for said in self._recent if said.place != place), maxlen=_REMEMBERED)
        elif place not in self._places:
            said = _Said(text_key(delivery.target, delivery.content), at_ms, place)
            self._in_turn.append(said)
            self._recent.append(said)
        self._places.add(place)

    def refusal(self, turn_id: str, target: ChannelRef, content: str, now_ms: int) -> SpeechRefusal | None:
        """Return why a message may not be sent now, in words for the model; None where it may."""
        self._begin(turn_id)
        if len(self._places) >= self.per_turn:
            most = "1 message" if self.per_turn == 1 else f"{self.per_turn} messages"
            reason = f"One turn may send {most}. This one and what follows it were not sent, and your turn ends here."
            return SpeechRefusal("MessageLimit", reason, ends_turn=True)
        key = text_key(target, content)
        if any(said.key == key for said in self._in_turn):
            return SpeechRefusal("AlreadySaid", "You have said this already in this turn, so it was not sent again.")
        while self._recent and self._recent[0].at_ms + _WINDOW_MS <= now_ms:
            self._recent.popleft()
        if sum(said.key == key for said in self._recent) >= _MOST_IN_WINDOW:
            reason = "You have said this three times within ten minutes, so it was not sent again."
            return SpeechRefusal("AlreadySaid", reason)
        return None

    def checkpoint(self, steady: SteadyTime) -> JsonValue:
        """Return what was said lately, oldest first, as the wall dates it; the running turn ends with the process."""
        return [[said.key, steady.to_wall(said.at_ms)] for said in self._recent]

    def restore(self, guards: JsonObject, steady: SteadyTime) -> None:
        """Take over what a checkpoint holds."""
        for item in read_array(guards, "said"):
            match item:
                case [str(key), int(at_ms)]:
                    self._recent.append(_Said(key, steady.of_past(at_ms)))
                case _:
                    pass

    def _begin(self, turn_id: str) -> None:
        if turn_id != self._turn_id:
            self._turn_id = turn_id
            self._places.clear()
            self._in_turn = []
