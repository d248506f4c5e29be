"""A door for people who come from kiota's, and Microsoft Graph's, retry handler.

    client = httpx.AsyncClient(transport=AsyncRetryTransport(options=RetryHandlerOption(max_retries=5)))

Answers of 429, 503 and 504 are repeated, whatever the method, where the body can be sent again: after what
the server says in Retry-After, else after `delay`·n². Repeats carry `Retry-Attempt: n`. New requests to a
path that is waiting wait too. The caller gets the last answer; exceptions are passed on, and not repeated.

`RetryTransport` and `AsyncRetryTransport` are transports of httpx and httpx2; `RetryHandler` takes the place
of kiota's own in its pipeline. A request may bring an option of its own, ours or kiota's, as kiota has it:

    extensions={"kiota_request_options": {"RetryHandlerOption": RetryHandlerOption(max_retries=0)}}
"""

from __future__ import annotations

from ._option import RetryHandlerOption
from ._transport import AsyncRetryTransport, RetryHandler, RetryTransport

__all__ = ["AsyncRetryTransport", "RetryHandler", "RetryHandlerOption", "RetryTransport"]
