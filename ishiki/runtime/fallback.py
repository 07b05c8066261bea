"""`FactKeeper`: a channel whose mind cannot be built still keeps what is said in it.

Where the log itself is what cannot be used, the facts wait in the channel's queue, and nothing is kept or answered.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from ishiki.contracts.events import ChannelRef, ChatEvent, fact_type
from ishiki.core.entries import message_entry
from ishiki.core.messages import CustomMessage
from ishiki.errors import ActivationError, StorageError
from ishiki.runtime.kit import RuntimeKit
from ishiki.runtime.paths import LOG_NAME, runtime_home
from ishiki.storage import EventLog

__all__ = ["FactKeeper"]

logger = logging.getLogger(__name__)

_COMPLAIN_EVERY_S = 3600.0
"""One error an hour and channel: the same fault meets every message."""

_MAX_COMPLAINTS = 1_000

_RETRY_S = 5.0
"""Until a disk that refuses is tried again. Source: design, full disk."""

_LOOK_AGAIN_S = 60.0
"""Until a log that a person has to mend is read again, which costs more than a refused write."""

_PASSING = frozenset({"storage_unwritable", "storage_unreadable", "storage_in_use"})
"""Codes of what may end by itself: a full disk, permissions, another owner."""


@dataclass(slots=True)
class FactKeeper:
    """Appends facts without a runtime."""

    kit: RuntimeKit
    _complained_at: dict[tuple[ChannelRef, str], float] = field(default_factory=dict[tuple[ChannelRef, str], float])

    async def keep(
        self, profile_id: str, address: ChannelRef, event: ChatEvent, *, because: Exception | None = None
    ) -> None:
        """Append `event` to its channel's log.

        Args:
            profile_id: the profile that owns the channel.
            address: whose log it is: the channel's, or in cross mode `MAIN`'s.
            event: the fact.
            because: why there is no runtime; logged once an hour and channel.

        Raises:
            StorageError: the log cannot be opened or written; see `stand_still`.
        """
        if because is not None:
            self._complain(event.channel, "nobody answers here, facts are kept", because)
        home = runtime_home(self.kit.data_dir, profile_id, address.sid, address.channel_id)
        message = CustomMessage(fact_type(event), event.to_data(), timestamp=event.timestamp)
        log = await EventLog.open(
            home / LOG_NAME,
            sid=address.sid,
            channel_id=address.channel_id,
            window_entries=1,
            reads_window=False,
            files=self.kit.log_files,
        )
        try:
            await log.append(message_entry(message, timestamp=self.kit.clock.now_ms()))
        finally:
            await log.aclose()

    async def stand_still(self, channel: ChannelRef, error: StorageError) -> None:
        """Wait before the log of `channel` is tried again, and say once an hour what is wrong with it."""
        self._complain(channel, "nothing is answered there, and facts wait in memory, until its log can be used", error)
        await self.kit.clock.sleep(_RETRY_S if error.code in _PASSING else _LOOK_AGAIN_S)

    def _complain(self, channel: ChannelRef, what: str, error: Exception) -> None:
        now = self.kit.clock.monotonic()
        last = self._complained_at.get((channel, what))
        if last is not None and now - last < _COMPLAIN_EVERY_S:
            return
        if len(self._complained_at) >= _MAX_COMPLAINTS:
            self._complained_at.clear()
        self._complained_at[channel, what] = now
        text = self.kit.redactor.redact(str(error))
        is_ours = isinstance(error, StorageError | ActivationError)
        logger.error("%s: %s: %s", channel, what, text, exc_info=None if is_ours else error)
