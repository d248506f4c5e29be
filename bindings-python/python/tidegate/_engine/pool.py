"""Pools: components that several policies share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from .engine import engine_of
from .errors import PolicyError
from .options import POOLS, pairs_of_pool
from .places import place, warn_again

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .engine import Engine
    from .options import Budget, Bulkhead, RateLimit
    from .snapshot import PoolView


class Pool:
    """A component that several policies share: one queue, one bucket or one budget for all their routes.

    Exactly one of `bulkhead`, `rate_limit` and `budget` must be given. Policies refer to the pool by its name
    or by the object. Settings of waiting (`acquire_timeout`, `wait`, `max_wait`, `max_waiters`) and `unit`
    remain those of each policy.

    Example:
        >>> db = Pool("db", bulkhead=Bulkhead(max_concurrency=10, max_queue=50))
        >>> reads = Policy("reads", bulkhead=Bulkhead(pool=db, acquire_timeout=0.1))
        >>> writes = Policy("writes", bulkhead=Bulkhead(pool="db"))

    Args:
        name: Its name, unique in the engine. The same name with other settings is an error. A definition
            outside functions that runs again (a notebook cell, a reloaded module) retunes it and warns.
        bulkhead: The limit and the queue, or a dict of their keys.
        rate_limit: The rate, or a dict of its keys.
        budget: The retry budget, or a dict of its keys.
        engine: The engine that keeps its state and that of its policies; the default engine of the process if
            left out.

    Raises:
        PolicyError: With all mistakes at once: for each the key, the value and the rule.
    """

    __slots__ = ("_options", "engine", "kind", "name")

    def __init__(
        self,
        name: str,
        *,
        bulkhead: Bulkhead | Mapping[str, Any] | None = None,
        rate_limit: RateLimit | Mapping[str, Any] | None = None,
        budget: Budget | Mapping[str, Any] | None = None,
        engine: Engine | None = None,
    ) -> None:
        kind, options = _only({"bulkhead": bulkhead, "rate_limit": rate_limit, "budget": budget})
        if not isinstance(name, str):
            raise PolicyError([("pool", repr(name), "a name is a string")])
        self.name: Final[str] = name
        self.kind: Final[str] = kind
        self.engine: Final = engine_of(engine)
        self._options: Any = options
        here, places = place(1), self.engine.pool_places
        try:
            self.engine.native.pool(name, kind, pairs_of_pool(kind, options))
        except PolicyError:
            if here is None or not here.replaces(places.get(name)):
                raise
            self.retune(bulkhead=bulkhead, rate_limit=rate_limit, budget=budget)
            warn_again(f"pool {name!r}", here, 1)
        places[name] = here

    def retune(
        self,
        *,
        bulkhead: Bulkhead | Mapping[str, Any] | None = None,
        rate_limit: RateLimit | Mapping[str, Any] | None = None,
        budget: Budget | Mapping[str, Any] | None = None,
    ) -> None:
        """Replaces all settings of the pool.

        Counts are kept, and calls in flight are not interrupted. A larger limit admits waiting calls at once.

        Raises:
            PolicyError: With all mistakes at once, or if the pool is of another kind.
        """
        kind, options = _only({"bulkhead": bulkhead, "rate_limit": rate_limit, "budget": budget})
        woken = self.engine.native.retune_pool(self.name, kind, pairs_of_pool(kind, options))
        try:
            self._options = options
            self.engine.tunings += 1  # shells keep settings of pools, too: whether limits learn
        finally:
            self.engine.wake(woken)

    def snapshot(self) -> PoolView:
        """Returns its state now: its `kind`, and the one of `pool`, `rate` and `budget` for that kind."""
        return self.engine.snapshot()["pools"][self.name]

    def __repr__(self) -> str:
        return f"Pool({self.name!r}, {self.kind}={self._options!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.name, self.kind, self._options)


def _only(given: Mapping[str, Any]) -> tuple[str, Any]:
    """Returns the kind and the options of the only component given."""
    kinds = [kind for kind, options in given.items() if options is not None]
    if len(kinds) != 1:
        shown = ", ".join(kinds) or "(nothing)"
        raise PolicyError([("pool", shown, f"a pool is one of {', '.join(POOLS)}")])
    return kinds[0], given[kinds[0]]


def _rebuild(name: str, kind: str, options: Any) -> Pool:
    return Pool(name, **{kind: options})
