"""Reads attributes of errors and answers of any library."""

from __future__ import annotations

from typing import Any

from . import errors_gen as table


def read(value: Any, name: str) -> Any:
    """Returns an attribute or an item; None if it is absent or reading it raises."""
    try:
        return value.get(name) if isinstance(value, dict) else getattr(value, name, None)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        return None


def at(value: Any, path: str) -> Any:
    """Returns what is at the end of a path of attributes or items; None if a part of it is absent."""
    for name in path.split("."):
        if value is None:
            return None
        value = read(value, name)
    return value


def status_of(value: Any) -> int | None:
    """Returns the status of a failure that an error or an answer has (semantics 1.5.2)."""
    for path in table.STATUS_PATHS:
        status = at(value, path)
        if isinstance(status, int) and not isinstance(status, bool) and 400 <= status < 600:
            return int(status)
    return None
