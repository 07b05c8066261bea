"""Completes a quote whose message the log does not have, by asking the platform once and not for long."""

from __future__ import annotations

import logging
from dataclasses import replace

import anyio

from ishiki.contracts.events import MessageCreated, Quote
from ishiki.contracts.platform import Platform

__all__ = ["fetch_quote"]

logger = logging.getLogger(__name__)


async def fetch_quote(event: MessageCreated, platform: Platform, limit_s: float) -> MessageCreated:
    """Return `event` with the quoted message as the platform has it, or as it is after `limit_s` seconds.

    The platform's side gives up sooner on an account whose end does not answer, so that a silent end costs a channel
    this wait twice and not with every quote.
    """
    quote = event.quote
    if quote is None:
        return event
    found: MessageCreated | None = None
    with anyio.move_on_after(limit_s):
        found = await platform.message(quote.id, account=event.channel.sid)
    if found is None:
        logger.debug("%s: the quoted message %s is not to be had", event.channel, quote.id)
        return event
    return replace(event, quote=Quote(quote.id, found.content, found.user))
