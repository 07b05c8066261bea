"""`FactKeeper`: a channel whose mind cannot be built still keeps what is said in it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from ishiki.contracts.events import MESSAGE_CREATED, MESSAGE_DELETED, ChannelRef, ChatEvent, MessageCreated
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


@dataclass(slots=True)
class FactKeeper:
    """Appends facts without a runtime."""

    kit: RuntimeKit
    _complained_at: dict[ChannelRef, float] = field(default_factory=dict[ChannelRef, float])

    async def keep(self, profile_id: str, event: ChatEvent, *, because: Exception | None = None) -> None:
        """Append `event` to its channel's log.

        Args:
            profile_id: the profile that owns the channel.
            event: the fact.
            because: why there is no runtime; logged once an hour and channel.
        """
        if because is not None:
            self._complain(event.channel, "nobody answers here, facts are kept", because)
        home = runtime_home(self.kit.data_dir, profile_id, event.channel.sid, event.channel.channel_id)
        kind = MESSAGE_CREATED if isinstance(event, MessageCreated) else MESSAGE_DELETED
        message = CustomMessage(kind, event.to_data(), timestamp=event.timestamp)
        try:
            log = await EventLog.open(
                home / LOG_NAME,
                sid=event.channel.sid,
                channel_id=event.channel.channel_id,
                window_entries=1,
                files=self.kit.log_files,
            )
            try:
                await log.append(message_entry(message, timestamp=self.kit.clock.now_ms()))
            finally:
                await log.aclose()
        except StorageError as error:
            self._complain(event.channel, "a fact could not be kept", error)

    def _complain(self, channel: ChannelRef, what: str, error: Exception) -> None:
        now = self.kit.clock.monotonic()
        last = self._complained_at.get(channel)
        if last is not None and now - last < _COMPLAIN_EVERY_S:
            return
        if len(self._complained_at) >= _MAX_COMPLAINTS:
            self._complained_at.clear()
        self._complained_at[channel] = now
        text = self.kit.redactor.redact(str(error))
        is_ours = isinstance(error, StorageError | ActivationError)
        logger.error("%s: %s: %s", channel, what, text, exc_info=None if is_ours else error)
