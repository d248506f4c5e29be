"""The report of a call that an adapter attaches to its response."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, cast

if TYPE_CHECKING:
    from datetime import datetime


class _Call(TypedDict, total=False):
    call: int


class Report(_Call):
    """Report of the call that produced a response.

    Attributes:
        attempts: Number of attempts made.
        reason: The verdict: `ok`, `attempts`, `budget` …
        note: Why there was no further attempt; None if no retry was suppressed.
        retry_at: When another try would make sense; None if unknown.
        call: The call's number, for `Engine.explain`; absent if the first attempt succeeded.
    """

    attempts: int
    reason: str
    note: str | None
    retry_at: datetime | None


def report(response: Any) -> Report:
    """Returns the typed report of the call that produced a response; the same for every client library.

    Args:
        response: A response of httpx, httpx2, requests, urllib3 or aiohttp, from a Tidegate adapter.

    Raises:
        TypeError: If the response does not come from a Tidegate adapter.

    Example:
        ```python
        response = client.get("https://api.example/orders")
        tidegate.report(response)["attempts"]
        ```
    """
    for of in (response, getattr(response, "raw", None)):
        extensions = getattr(of, "extensions", None)
        report = extensions.get("tidegate") if isinstance(extensions, dict) else getattr(of, "tidegate", None)
        if isinstance(report, dict):
            return cast("Report", report)
    raise TypeError(f"report({response!r}): must be a response that an adapter of Tidegate delivered")
