"""Copies of Redis clients, which `RedisStore` uses: the settings of a given client with our time limits.

The copies are always synchronous, even of an asyncio client, since the store's thread has no event loop.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

CONNECTS: Final = 1.0
"""Time limit in seconds for our connections to open, and for a sentinel to answer. No call waits for it."""

_NOT_COPIED: Final = ("connection_pool", "health_check", "himport", "maint_", "orig_", "oss_", "retry")
"""Prefixes of settings that are not copied: they belong to the pool itself, or they cause retries."""


def twin(client: Any, seconds: float) -> Any:
    """Returns a client with the same settings and our timeouts; the client itself if it has no usual pool."""
    pool: Any = getattr(client, "connection_pool", None)
    settings = getattr(pool, "connection_kwargs", None)
    theirs = getattr(pool, "connection_class", None)
    if not isinstance(settings, dict) or theirs is None:
        return client
    library, behind = _library(type(client)), hasattr(pool, "sentinel_manager")
    module = import_module(f"{library}.sentinel" if behind else f"{library}.connection")
    ours = getattr(module, theirs.__name__, None)
    if ours is None:
        return client  # a connection class defined outside the library
    given = {name: value for name, value in settings.items() if not name.startswith(_NOT_COPIED)}
    given |= {"connection_class": ours, "socket_timeout": seconds, "retry": _never(library)}
    if "Unix" not in ours.__name__:
        given["socket_connect_timeout"] = max(seconds, CONNECTS)
    if ours is not theirs:  # the given client is asynchronous, so these settings do not fit
        for name in ("parser_class", "redis_connect_func", "event_dispatcher"):
            given.pop(name, None)
    made = next(kind for kind in type(client).__mro__ if kind.__module__.split(".")[0] == library).__name__
    if behind:
        given |= {"is_master": pool.is_master, "check_connection": pool.check_connection}
        manager = _manager(module.Sentinel, pool.sentinel_manager)
        ours = module.SentinelConnectionPool(pool.service_name, manager, **given)
    else:
        ours = module.ConnectionPool(**given)
    return getattr(import_module(library), made)(connection_pool=ours)


def sentinels(client: Any) -> list[Any]:
    """Returns the sentinel clients that a client uses; they have their own connections."""
    return list(getattr(getattr(client.connection_pool, "sentinel_manager", None), "sentinels", ()))


def _manager(kind: Any, given: Any) -> Any:
    """Copies a Sentinel manager with sentinels of ours: the given ones may be asynchronous, or may hang."""
    kind = type(given) if isinstance(given, kind) else kind
    made = kind.__new__(kind)
    vars(made).update(vars(given), sentinels=[twin(one, CONNECTS) for one in given.sentinels])
    return made


def _library(client: type) -> str:
    """Returns `redis` or `valkey`, also for a subclass of their clients."""
    modules = [kind.__module__.split(".")[0] for kind in client.__mro__]
    return next((name for name in ("redis", "valkey") if name in modules), modules[0])


def _never(library: str) -> Any:
    """Returns the library's retry object for no retries: a command is sent once (semantics 10.3)."""
    retry = import_module(f"{library}.retry").Retry
    return retry(import_module(f"{library}.backoff").NoBackoff(), 0)
