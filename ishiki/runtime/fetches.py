"""`Fetches`: the waits on a protocol end that stand between a fact and its log, and can be cut short.

A fact without what it quotes is better than none: when the process stops, nothing may keep a fact in its queue.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio

__all__ = ["Fetches"]


@dataclass(slots=True)
class Fetches:
    """Every fetch of one process that a queue waits for."""

    _scopes: set[anyio.CancelScope] = field(default_factory=set[anyio.CancelScope])
    _is_over: bool = False

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Wait in the body, unless and until `end` is called; then go on behind it without a result."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            if self._is_over:
                scope.cancel()
            try:
                yield
            finally:
                self._scopes.discard(scope)

    def end(self) -> None:
        """Cut all waits short, now and from now on."""
        self._is_over = True
        for scope in self._scopes:
            scope.cancel()
