"""Backends, which keep the slots of named bulkheads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final, Literal

from tidegate._call.policy import Policy
from tidegate._engine.engine import Engine, default_engine
from tidegate._engine.pool import Pool
from tidegate._engine.store import ask
from tidegate.compat._call import Start
from tidegate.compat._checks import named, number, whole
from tidegate.fleet import RedisStore, attach

if TYPE_CHECKING:
    from ._bulkhead import Bulkhead

_LONGEST: Final = 90
_MOST_STARTS: Final = 1024
"""Most pairs of a name and a `max_wait` that a backend keeps: programs may compute a `max_wait` per call."""


class LocalBulkheadBackend:
    """Slots in this process: one pool for each name, for all threads and event loops.

    All `Bulkhead`s of a backend with the same name share its slots. Bulkheads without an explicit backend
    use the default backend of the process. Waiters are served in order.

    Args:
        engine: The engine that keeps the slots; a new one by default. Tests pass one with a fake clock.

    Example:
        >>> apart = LocalBulkheadBackend()
        >>> Bulkhead("stripe", limit=2, backend=apart).limit
        2
    """

    __slots__ = ("_engine", "_entered", "_limits", "_lock", "_starts")

    def __init__(self, engine: Engine | None = None) -> None:
        self._engine = engine
        self._limits: dict[str, int] = {}
        self._starts: dict[tuple[str, float], Start] = {}
        self._entered: dict[str, list[Bulkhead]] = {}
        self._lock = threading.Lock()

    def register(self, name: str, limit: int, max_wait: float) -> Start:
        """Registers a bulkhead and returns the object that begins its calls.

        Raises:
            ValueError: If the name is already registered with another limit.
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
                if len(self._starts) >= _MOST_STARTS:
                    del self._starts[next(iter(self._starts))]  # bulkheads that have it go on with it
                start = self._starts[name, max_wait] = self._made(name, limit, max_wait)
                self._limits[name] = limit
        return start

    async def acquire(self, name: str, limit: int, max_wait: float) -> None:
        """Takes a slot, as entering a `Bulkhead` of this backend does, and leaves it to `release`.

        Args:
            name: The name of a bulkhead; 1 to 90 bytes.
            limit: Its slots; 1 or more.
            max_wait: Seconds to wait for a slot; 0 fails fast.

        Raises:
            BulkheadFullError: If no slot came free.
            ValueError: If an argument is out of range, or the name is already registered with another limit.
        """
        from ._bulkhead import Bulkhead

        slots = Bulkhead(name, limit, max_wait, backend=self)
        await slots.__aenter__()
        self._entered.setdefault(name, []).append(slots)

    async def release(self, name: str, token: object = None) -> None:
        """Gives back a slot that `acquire` took. Slots of a name are interchangeable, so no token is needed.

        Raises:
            RuntimeError: If no slot of the name is held.
        """
        try:
            slots = self._entered[name].pop()
        except (KeyError, IndexError):
            raise RuntimeError(f"unpaired release of bulkhead {name!r}: no slot of it is held") from None
        await slots.__aexit__(None, None, None)

    def _slots(self) -> dict[str, Any]:
        """Returns further options of its pools, besides their limit."""
        return {}

    def _made(self, name: str, limit: int, max_wait: float) -> Start:
        if self._engine is None:
            self._engine = default_engine() if self is default else Engine()
        pool = Pool(
            _pool(name),
            bulkhead={"max_concurrency": limit, "max_queue": None, **self._slots()},
            engine=self._engine,
        )
        patience = None if max_wait == float("inf") else max_wait
        policy = Policy(
            f"hawkapi:{name} (max_wait={max_wait!r})",
            bulkhead={"pool": pool, "acquire_timeout": patience},
            engine=self._engine,
        )
        # Inside a call of the same engine, the bulkhead observes that call's deadline. A nested entry still
        # takes a second slot, since the bulkhead's own calls set no scope.
        return Start(policy, nested=True)


class RedisBulkheadBackend(LocalBulkheadBackend):
    """Slots of a fleet: processes with a backend on the same server share the slots of each name.

    A slot is a lease, which its holder renews. If the holder disappears, the slot is free after `lease_ttl`.
    A request for a slot waits at most 50 ms for the server's answer. While the server is unavailable, each
    process has its share of the slots. Waiters are served in order within a process, not across processes.

    Args:
        client: A client of redis-py or valkey-py, or any other argument of `tidegate.fleet.RedisStore`; or a
            store.
        key_prefix: Prefix of the keys.
        lease_ttl: Seconds after which the slot of a lost holder is free; 1 or more.
        poll_interval: Validated, but not used: waiters are woken, so there is no polling.
        on_loss: Behaviour while the server is unavailable: `"local"` (a share of the slots), `"open"` (the
            full limit in each process), `"closed"` (all entries are refused: `tidegate.StoreUnavailable`).
        engine: The engine that keeps the slots, which must not have a store; a new one by default.

    Raises:
        TypeError: If `client` is not a client.
        ValueError: If an argument is out of range.

    Example:
        >>> from tidegate.testing import MemoryStore
        >>> fleet = RedisBulkheadBackend(MemoryStore(), lease_ttl=30.0)
        >>> with Bulkhead("stripe", limit=2, backend=fleet):
        ...     pass
    """

    __slots__ = ("_lease_ttl", "_link", "_on_loss")

    def __init__(
        self,
        client: Any,
        *,
        key_prefix: str = "hawkapi:bulkhead",
        lease_ttl: float = 30.0,
        poll_interval: float = 0.01,
        on_loss: Literal["local", "open", "closed"] = "local",
        engine: Engine | None = None,
    ) -> None:
        number("lease_ttl", lease_ttl)
        if lease_ttl < 1:
            raise ValueError(f"lease_ttl = {lease_ttl!r}: must be 1 or more")
        if not poll_interval > 0:
            raise ValueError(f"poll_interval = {poll_interval!r}: must be more than 0")
        if on_loss not in ("local", "open", "closed"):
            raise ValueError(f"on_loss = {on_loss!r}: must be local, open or closed")
        store = (
            client if callable(getattr(client, "carry", None)) else RedisStore(client, namespace=key_prefix)
        )
        engine = Engine() if engine is None else engine
        attach(store, engine=engine)
        super().__init__(engine)
        self._lease_ttl = lease_ttl
        self._on_loss = on_loss

    async def reap_expired_leases(self, name: str) -> int:
        """Frees the slots of a name whose leases have expired; returns their number.

        Calling it is optional: each request for a slot first frees expired ones.

        Args:
            name: The name of a bulkhead of this backend.

        Raises:
            ValueError: If the backend has no bulkhead of this name.
            Exception: The client's own, if the server does not answer.
        """
        import asyncio

        engine = self._engine
        link = None if engine is None else engine.link
        words = None if link is None else link.native.reaping(_pool(name))
        if link is None or words is None:
            raise ValueError(f"no bulkhead {name!r} has been made with this backend")
        answer = await asyncio.wrap_future(ask(link.carrier, words, _REAPING))
        return int(answer.split()[0])

    def _slots(self) -> dict[str, Any]:
        return {"store": "fleet", "lease_ttl": self._lease_ttl, "on_loss": self._on_loss}


def _pool(name: str) -> str:
    return f"hawkapi:{name}"


_REAPING: Final = 1.0
"""Time limit for the server's answer, in seconds."""

default: Final = LocalBulkheadBackend()
"""The default backend of the process."""
