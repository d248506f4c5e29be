"""Where the slots of named bulkheads are kept."""

from __future__ import annotations

import threading
from typing import Any, Final

from tidegate._engine import Engine, default_engine
from tidegate._errors import Unsupported
from tidegate._policy import Policy
from tidegate._pool import Pool
from tidegate.compat._call import Start
from tidegate.compat._checks import named, whole

_LONGEST: Final = 90


class LocalBulkheadBackend:
    """Slots in this process: one pool for each name, for all threads and event loops.

    Every `Bulkhead` of a backend with the same name shares its slots. Without a backend of their own, all
    share the one of the process. Those who wait are served in order.

    Args:
        engine: The engine that keeps them; one of its own by default. A test gives one with a fake clock.

    Example:
        >>> apart = LocalBulkheadBackend()
        >>> Bulkhead("stripe", limit=2, backend=apart).limit
        2
    """

    __slots__ = ("_engine", "_limits", "_lock", "_starts")

    def __init__(self, engine: Engine | None = None) -> None:
        self._engine = engine
        self._limits: dict[str, int] = {}
        self._starts: dict[tuple[str, float], Start] = {}
        self._lock = threading.Lock()

    def register(self, name: str, limit: int, max_wait: float) -> Start:
        """What begins the calls of a bulkhead of this name.

        Raises:
            ValueError: If the name is there with another limit.
        """
        named("name", name, _LONGEST)
        whole("limit", limit, 1)
        with self._lock:
            known = self._limits.get(name, limit)
            if known != limit:
                raise ValueError(
                    f"bulkhead {name!r} already registered with limit={known}, got limit={limit}"
                )
            start = self._starts.get((name, max_wait))
            if start is None:
                start = self._starts[name, max_wait] = self._made(name, limit, max_wait)
                self._limits[name] = limit
        return start

    def _made(self, name: str, limit: int, max_wait: float) -> Start:
        if self._engine is None:
            self._engine = default_engine() if self is default else Engine()
        pool = Pool(
            f"hawkapi:{name}",
            bulkhead={"max_concurrency": limit, "max_queue": None},
            engine=self._engine,
        )
        patience = None if max_wait == float("inf") else max_wait
        policy = Policy(
            f"hawkapi:{name} (max_wait={max_wait!r})",
            bulkhead={"pool": pool, "acquire_timeout": patience},
            engine=self._engine,
        )
        # Inside a call of the same engine it keeps to that call's deadline. A slot is never part of another
        # one for it: a bulkhead's own calls are not seen from inside.
        return Start(policy, nested=True)


class RedisBulkheadBackend:
    """Slots of a fleet in Redis: not there yet. Making one is an error, whatever the arguments.

    Raises:
        Unsupported: Always.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        del args, options
        raise Unsupported(
            [("backend", "RedisBulkheadBackend", "state that processes share is not there yet; leave it out")]
        )


default: Final = LocalBulkheadBackend()
"""The one of the process."""
