"""Compatibility layer for the retry handler of kiota and Microsoft Graph.

    client = httpx.AsyncClient(transport=AsyncRetryTransport(options=RetryHandlerOption(max_retries=5)))

Requests with a response of 429, 503 or 504 are retried, with any method, if the body can be sent again. The
wait is the server's Retry-After, else `delay`·n². Repeats carry `Retry-Attempt: n`. New requests to a path
wait while another request to it waits. The caller gets the last response. Exceptions are raised without
retries.

`RetryTransport` and `AsyncRetryTransport` are transports of httpx and httpx2; `RetryHandler` replaces kiota's
own in its pipeline. A request can have its own option, ours or kiota's, in kiota's notation:

    extensions={"kiota_request_options": {"RetryHandlerOption": RetryHandlerOption(max_retries=0)}}
"""

from __future__ import annotations

from ._option import RetryHandlerOption
from ._transport import AsyncRetryTransport, RetryHandler, RetryTransport

__all__ = ["AsyncRetryTransport", "RetryHandler", "RetryHandlerOption", "RetryTransport"]
