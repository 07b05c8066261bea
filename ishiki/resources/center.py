"""The resource centre of one runtime: routes a URL to the handler of its scheme, and to no other."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ishiki.contracts.resources import RESERVED_SCHEMES, FileScheme, ResourcePayload, SchemeHandler
from ishiki.core.disposer import dispose_once, resolved
from ishiki.errors import ResourceError
from ishiki.resources.file_reading import read_file_scheme

__all__ = ["SchemeRouter"]

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")


class SchemeRouter:
    """Implements `ResourceCenter` over the schemes that extensions register."""

    def __init__(self) -> None:
        """Start without schemes."""
        self._handlers: dict[str, SchemeHandler] = {}

    def attach(self, handler: SchemeHandler) -> Callable[[], None]:
        """Register `handler`; its scheme is compared without case.

        Raises:
            ValueError: the scheme is no scheme, is reserved, or is taken.
        """
        scheme = handler.scheme.lower()
        if not _SCHEME.fullmatch(scheme):
            raise ValueError(f"{handler.scheme!r} is no URL scheme; use letters and digits, such as 'clock'")
        if scheme in RESERVED_SCHEMES:
            raise ValueError(f"the scheme {scheme!r} is reserved for the kernel; choose another name")
        if scheme in self._handlers:
            raise ValueError(f"the scheme {scheme!r} is registered already; detach the other handler first")
        self._handlers[scheme] = handler
        return dispose_once(lambda: self._detach(scheme, handler))

    def schemes(self) -> Sequence[str]:
        """Return the registered schemes in order of registration."""
        return tuple(self._handlers)

    async def resolve(self, url: str) -> ResourcePayload:
        """Return what stands behind `url`.

        Raises:
            ResourceError: `invalid_resource_uri`, `resource_unavailable`, or what the handler says; an error of its own
                becomes `resource_read_failed`.
        """
        scheme, separator, _ = url.partition(":")
        scheme = scheme.lower()
        if not separator or not _SCHEME.fullmatch(scheme):
            raise ResourceError("invalid_resource_uri", f"{url!r} is no URL; it starts with a scheme and a colon")
        handler = self._handlers.get(scheme)
        if handler is None:
            known = ", ".join(self._handlers) or "none"
            raise ResourceError("resource_unavailable", f"nothing reads {scheme!r} URLs here; schemes: {known}")
        try:
            if isinstance(handler, FileScheme):
                return await read_file_scheme(handler, url)
            return await resolved(handler.resolve(url))
        except ResourceError:
            raise
        except Exception as error:
            raise ResourceError("resource_read_failed", f"{url!r}: {type(error).__name__}: {error}") from error

    def _detach(self, scheme: str, handler: SchemeHandler) -> None:
        if self._handlers.get(scheme) is handler:
            del self._handlers[scheme]
