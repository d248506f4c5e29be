"""Errors: each is also an instance of HawkAPI's class of the same name, if HawkAPI has been imported."""

from __future__ import annotations

from tidegate._engine.errors import BulkheadFull
from tidegate.compat._errors import DoorError


class BulkheadFullError(BulkheadFull, DoorError):
    """No slot was free, or none came free within `max_wait`.

    Attributes:
        name: The bulkhead's name.
        limit: Its limit.
        waited: Seconds spent waiting for a slot.
    """

    _twin = ("hawkapi.middleware.bulkhead", "BulkheadFullError")

    def __init__(self, name: str, limit: int, waited: float) -> None:
        super().__init__(
            f"bulkhead {name!r} full (limit={limit}, waited={waited:.3f}s)",
            max_concurrency=limit,
            reason="acquire_timeout",
        )
        self.name = name
        self.limit = limit
        self.waited = waited


class HTTPException(DoorError):
    """The response of a full endpoint; also a `hawkapi.HTTPException`, if that has been imported.

    Attributes:
        status_code: The response's status.
        detail: The reason: `bulkhead_full`.
        headers: Its headers: `Retry-After`.
    """

    code = "http_exception"
    _twin = ("hawkapi.exceptions", "HTTPException")

    def __init__(self, status_code: int, detail: str = "", *, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status_code = status_code
        self.detail = detail
        self.headers = headers
