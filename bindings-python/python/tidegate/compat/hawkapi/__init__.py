"""HawkAPI's named bulkheads on Tidegate's engine.

    from tidegate.compat.hawkapi import Bulkhead, BulkheadFullError, bulkhead     # hawkapi.middleware

    stripe = Bulkhead("stripe", limit=10, max_wait=0.5)
    async with stripe: ...

    @bulkhead("payments", limit=10, status_code=503, retry_after=1.0)
    async def pay(request): ...

`docs/python/migrate-hawkapi.md` lists the differences from HawkAPI, with reasons.
"""

from __future__ import annotations

from ._backend import LocalBulkheadBackend, RedisBulkheadBackend
from ._bulkhead import Bulkhead, bulkhead
from ._errors import BulkheadFullError, HTTPException

__all__ = [
    "Bulkhead",
    "BulkheadFullError",
    "HTTPException",
    "LocalBulkheadBackend",
    "RedisBulkheadBackend",
    "bulkhead",
]
