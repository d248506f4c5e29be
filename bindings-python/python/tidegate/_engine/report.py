"""What an adapter says of a response that it delivered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, cast

if TYPE_CHECKING:
    from datetime import datetime


class _Call(TypedDict, total=False):
    call: int


class Report(_Call):
    """What happened to the request of a response.

    Attributes:
        attempts: How many were made.
        reason: The verdict: `ok`, `attempts`, `budget` …
        note: Why there was no further attempt; None where nothing was held back.
        retry_at: When another try would make sense; None where nobody said.
        call: The call's number, for `Engine.explain`; absent where the first attempt just worked.
    """

    attempts: int
    reason: str
    note: str | None
    retry_at: datetime | None


def report(response: Any) -> Report:
    """What happened to the request of a response, typed; the same for every client.

    Args:
        response: What httpx, httpx2, requests, urllib3 or aiohttp gave, through a Tidegate adapter.

    Raises:
        TypeError: If no adapter of Tidegate delivered it.

    Example:
        ```python
        response = client.get("https://api.example/orders")
        tidegate.report(response)["attempts"]
        ```
    """
    for of in (response, getattr(response, "raw", None)):
        extensions = getattr(of, "extensions", None)
        told = extensions.get("tidegate") if isinstance(extensions, dict) else getattr(of, "tidegate", None)
        if isinstance(told, dict):
            return cast("Report", told)
    raise TypeError(f"report({response!r}): must be a response that an adapter of Tidegate delivered")
