"""Forze's stores: which parts of the policies' state a fleet shares, and through which Redis client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from tidegate.compat._checks import number
from tidegate.fleet import RedisStore, attach

from ._errors import exc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate._engine.engine import Engine
    from tidegate.testing import MemoryStore

PARTS: Final[Mapping[str, str]] = {
    "breaker_store": "redis_circuit_breaker_store",
    "rate_limit_store": "redis_rate_limit_store",
    "latency_digest_store": "redis_latency_digest_store",
}
"""The parts that can be shared, and the functions that make their stores."""


@dataclass(frozen=True, kw_only=True)
class FleetPart:
    """A part of the state that a fleet shares.

    Attributes:
        part: The part: `breaker_store`, `rate_limit_store` or `latency_digest_store`.
        client: The Redis client, or a store.
        namespace: Prefix of the keys.
        exchange: Seconds between two exchanges with the fleet; None if there are none.
    """

    part: str
    client: Any
    namespace: str
    exchange: float | None = None


def redis_rate_limit_store(client: Any, *, namespace: str = "tidegate") -> FleetPart:
    """Shares rate limits in the fleet, for `ResilienceDepsModule(rate_limit_store=...)`.

    Args:
        client: A client of redis-py or valkey-py, or any other argument of `tidegate.fleet.RedisStore`; or
            such a store itself.
        namespace: Prefix of the keys.
    """
    return FleetPart(part="rate_limit_store", client=client, namespace=namespace)


def redis_circuit_breaker_store(
    client: Any, *, namespace: str = "tidegate", local_cache_ttl: float = 0.25
) -> FleetPart:
    """Shares breakers in the fleet, for `ResilienceDepsModule(breaker_store=...)`.

    Args:
        client: As in `redis_rate_limit_store`.
        namespace: Prefix of the keys.
        local_cache_ttl: Maximum seconds between two reads of the fleet's state; an opening is written at
            once.
    """
    number("local_cache_ttl", local_cache_ttl)
    return FleetPart(part="breaker_store", client=client, namespace=namespace, exchange=local_cache_ttl)


def redis_latency_digest_store(
    client: Any, *, namespace: str = "tidegate", local_cache_ttl: float = 0.25
) -> FleetPart:
    """Shares latencies in the fleet, for `ResilienceDepsModule(latency_digest_store=...)`.

    Adaptive bulkheads with a `latency_quantile` use them.

    Args:
        client: As in `redis_rate_limit_store`.
        namespace: Prefix of the keys.
        local_cache_ttl: Maximum seconds between two exchanges.
    """
    number("local_cache_ttl", local_cache_ttl)
    return FleetPart(
        part="latency_digest_store", client=client, namespace=namespace, exchange=local_cache_ttl
    )


class Shared:
    """The parts of the policies' state that the fleet shares."""

    def __init__(self, parts: Mapping[str, FleetPart]) -> None:
        for name, part in parts.items():
            given: object = part
            if not isinstance(given, FleetPart) or given.part != name:
                raise exc.configuration(f"{name} = {given!r}: must be made by {PARTS[name]}")
        self.parts: Final = frozenset(parts)
        given = sorted(parts.values(), key=lambda part: part.part)
        self._first: Final = given[0] if given else None
        for part in given:
            if part.client is not given[0].client or part.namespace != given[0].namespace:
                raise exc.configuration(
                    f"{part.part} = {part!r}: must be of the same client and namespace as {given[0].part}"
                )
        self._exchange = min((part.exchange for part in given if part.exchange is not None), default=None)

    def attach(self, engine: Engine) -> None:
        """Attaches the store unless the engine already has it."""
        if self._first is None:
            return
        try:
            store = _store(self._first)
            if engine.link is None or engine.link.carrier is not store:
                attach(store, engine=engine)
        except (TypeError, ValueError) as error:
            raise exc.configuration(f"{self._first.part}: {error}") from error

    def within(self, options: dict[str, Any]) -> dict[str, Any]:
        """Returns the options of a policy with the fleet as the store of the shared parts."""
        bulkhead = options.get("bulkhead", {})
        of = {
            "rate_limit": ("rate_limit_store", "store", True),
            "breaker": ("breaker_store", "store", True),
            "bulkhead": (
                "latency_digest_store",
                "latency_store",
                bulkhead.get("kind") == "aimd" and bulkhead.get("latency_quantile") is not None,
            ),
        }
        shared = {
            table: {**options[table], key: "fleet"}
            for table, (part, key, can) in of.items()
            if table in options and part in self.parts and can
        }
        if not shared:
            return options
        exchange = {} if self._exchange is None else {"store_exchange": max(self._exchange, 0.001)}
        return {**options, **shared, **exchange}


NOTHING: Final = Shared({})


def _store(part: FleetPart) -> RedisStore | MemoryStore:
    """Returns the store of a client, one per client and namespace, so that they share connections."""
    client = part.client
    if callable(getattr(client, "carry", None)):
        return client  # type: ignore[no-any-return]
    key = (id(client), part.namespace)
    store = _stores.get(key)
    if store is None:
        store = _stores[key] = RedisStore(client, namespace=part.namespace)
    return store


_stores: Final[WeakValueDictionary[tuple[int, str], RedisStore]] = WeakValueDictionary()
"""Stores in use, by id of the client and namespace. A store keeps its client, so an id is not reused."""
