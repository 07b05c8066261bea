"""Log lines of Ishiki go to NoneBot's log, with known secrets taken out."""

from __future__ import annotations

import logging

from nonebot.log import logger as host_logger

from ishiki.config import Redactor
from ishiki.config.output import escape_unwritable

__all__ = ["bridge_logs"]


class _Redacting(logging.Filter):
    """Takes secrets out of a record's text before any handler sees it."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        redacted = self._redactor.redact(text)
        if redacted != text:
            record.msg, record.args = redacted, ()
        return True


class _HostHandler(logging.Handler):
    """Writes records to NoneBot's log under the name `ishiki`; by itself it would call some of them `plugin`."""

    def emit(self, record: logging.LogRecord) -> None:
        write = host_logger.opt(exception=record.exc_info).patch(lambda line: line.update(name="ishiki"))
        write.log(record.levelname, record.getMessage())


def bridge_logs(level: str | int, redactor: Redactor) -> None:
    """Send everything below the logger `ishiki` to NoneBot's log, on whatever console. Idempotent.

    Args:
        level: NoneBot's `LOG_LEVEL`; its own TRACE and SUCCESS are known to the standard library as DEBUG and INFO.
        redactor: what takes secrets out.
    """
    escape_unwritable()  # for a bot.py of one's own
    root = logging.getLogger("ishiki")
    for handler in list(root.handlers):
        root.removeHandler(handler)
    handler = _HostHandler()
    handler.addFilter(_Redacting(redactor))
    root.addHandler(handler)
    root.propagate = False
    known = {"TRACE": logging.DEBUG, "SUCCESS": logging.INFO}
    root.setLevel(known.get(level, level) if isinstance(level, str) else level)
