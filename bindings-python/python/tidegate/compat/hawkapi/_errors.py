"""The errors of the door: each is HawkAPI's class of that name too, where HawkAPI has been imported."""

from __future__ import annotations

from tidegate._engine.errors import BulkheadFull
from tidegate.compat._errors import DoorError


class BulkheadFullError(BulkheadFull, DoorError):
    """No slot was free, or none came free within `max_wait`.

    Attributes:
        name: The bulkhead's name.
        limit: Its limit.
        waited: Seconds that were waited for a slot.
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
    """The answer of an endpoint that is full; `hawkapi.HTTPException` too, where that is imported.

    Attributes:
        status_code: The answer's status.
        detail: What it says: `bulkhead_full`.
        headers: Its headers: `Retry-After`.
    """

    code = "http_exception"
    _twin = ("hawkapi.exceptions", "HTTPException")

    def __init__(self, status_code: int, detail: str = "", *, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status_code = status_code
        self.detail = detail
        self.headers = headers
