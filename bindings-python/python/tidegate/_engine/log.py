"""Logs each retry, refusal and change of a breaker as a line: to structlog if configured, else to logging."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from .hooks import QUIET, loaded

if TYPE_CHECKING:
    from .record import Record

_logger: Final = logging.getLogger("tidegate")
_logger.addHandler(logging.NullHandler())  # no lines on stderr in programs that have not configured logging
_LONGEST_NAME: Final = 256
"""Maximum number of characters of a key or name in a log line."""
_LONGEST_LINE: Final = 2048


def log(record: Record) -> None:
    """Logs a record. Names and numbers only: no arguments, no URLs, no texts of exceptions."""
    level = logging.INFO if record.type in QUIET else logging.WARNING
    structlog = loaded("structlog")
    # If it is not configured, another library has imported it, and it would print to stdout.
    if structlog is not None and structlog.is_configured():
        fields = {
            key: _plain(value) if isinstance(value, str) else value
            for key, value in record._asdict().items()
            if value not in (None, False, 0)
        }
        del fields["type"]
        structlog.get_logger("tidegate").log(level, f"tidegate.{record.type}", **fields)
    elif _logger.isEnabledFor(level):
        _logger.log(level, "%s", text(record), extra={"tidegate": record._asdict()})


def text(record: Record) -> str:
    """Formats a record as one line. Keys and names are escaped, since they often come from requests."""
    return _plain(_words(record), _LONGEST_LINE)


def _words(record: Record) -> str:
    about: list[str] = [] if record.policy is None else [f"policy {record.policy}"]
    about += [] if record.route is None else [f"route {_plain(record.route)}"]
    where = f" ({', '.join(about)})" if about else ""
    if record.type == "retry_scheduled":
        what = f"retry {record.attempt - 1}" + (f" of {record.function}" if record.function else "")
        cause = _cause(record)
        return f"{what}{where} in {_seconds(record.wait_s)} after {cause}"
    if record.type == "rejected":
        more = f", and {record.suppressed} like it before" if record.suppressed else ""
        again = "" if record.wait_s is None else f", another try makes sense in {_seconds(record.wait_s)}"
        what = "call" if record.attempt == 0 else f"attempt {record.attempt}"
        return f"{what} refused{where}: {record.reason}{again}{more}"
    if record.type == "breaker_changed":
        span = "" if record.wait_s is None else f" for {_seconds(record.wait_s)}"
        return f"breaker {record.before} → {record.after}{span}{where}"
    return f"{record.type.replace('_', ' ')}{where}"


def _cause(record: Record) -> str:
    """Describes the failure before a retry: its kind, and the exception type and status if known."""
    more: list[Any] = [record.error, None if record.status is None else f"status {record.status}"]
    known = ", ".join(str(part) for part in more if part is not None)
    return f"{record.kind}: {known}" if known else str(record.kind)


def _plain(text: str, longest: int = _LONGEST_NAME) -> str:
    """Escapes line ends, control sequences and direction marks, which can forge log lines (S8)."""
    if len(text) > longest:
        text = text[:longest] + "…"
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _seconds(span: float | None) -> str:
    return "0 s" if span is None else f"{span:.3g} s"
