"""Policies for whole ports and operations, assigned once by name."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ._errors import exc
from ._executor import ResilienceExecutor, reject_blanket_ambiguous_retry
from ._stores import PARTS, FleetPart, Shared

if TYPE_CHECKING:
    from tidegate._engine.engine import Engine

    from ._executor import OnEvent
    from ._strategies import ResilienceSpec

Port = TypeVar("Port")


def _name_of(key: Any) -> str:
    return str(getattr(key, "name", key))


@dataclass(frozen=True, kw_only=True)
class PortPolicy:
    """Runs the methods of a port under a policy.

    Args:
        key: The key by which the port is resolved; any hashable object, for example a name.
        policy: The policy's name.
        route: The key that state is kept under; the route given to `resolve` if left out.
        methods: The methods to wrap; all public coroutine methods if left out.

    Raises:
        CoreException: Of the kind `configuration`, if an argument is invalid.
    """

    key: Any
    policy: str
    route: str | None = None
    methods: Iterable[str] | None = None

    def __post_init__(self) -> None:
        if not str(self.policy):
            raise exc.configuration("Port policy must name a resilience policy")
        if self.methods is None:
            return
        methods = tuple(self.methods)
        object.__setattr__(self, "methods", methods)
        if not methods:
            raise exc.configuration(
                f"Port policy for {_name_of(self.key)!r} declares an empty methods tuple"
                " (use None to wrap all coroutine methods)"
            )
        hidden = sorted(method for method in methods if not method or method.startswith("_"))
        if hidden:
            raise exc.configuration(
                f"Port policy for {_name_of(self.key)!r} may only wrap public methods: "
                + ", ".join(map(repr, hidden))
            )


class _PortProxy:
    """A port whose public coroutine methods run under a policy; other attributes are those of the port."""

    def __init__(
        self, port: Any, executor: ResilienceExecutor, policy: str, route: str | None, methods: Any
    ) -> None:
        self._port = port
        self._executor = executor
        self._policy = policy
        self._route = route
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._port, name)
        wanted = not name.startswith("_") and (self._methods is None or name in self._methods)
        if not wanted or not inspect.iscoroutinefunction(attribute):
            return attribute

        @wraps(attribute)
        async def guarded(*args: Any, **kwargs: Any) -> Any:
            return await self._executor.run(
                lambda: attribute(*args, **kwargs), policy=self._policy, route=self._route
            )

        return guarded

    def __repr__(self) -> str:
        return f"<{self._port!r} under policy {self._policy!r}>"


@dataclass(frozen=True, kw_only=True)
class ResilienceDepsModule:
    """An executor, and the ports that run under its policies.

    Args:
        spec: The policies; they take precedence over built-in ones of the same name.
        port_policies: At most one for each key.
        breaker_store: Result of `redis_circuit_breaker_store`: a breaker that opens in one replica opens in
            all. With None each process has breakers of its own; the same holds for the next two.
        rate_limit_store: Result of `redis_rate_limit_store`: the declared rate applies to the whole fleet.
        latency_digest_store: Result of `redis_latency_digest_store`: bulkheads with a `latency_quantile` use
            the latencies of all replicas. All three stores must have the same client and namespace.
        engine: The engine that keeps the state; a new one if left out.
        on_event: As in `ResilienceExecutor`.

    Attributes:
        executor: The executor.

    Raises:
        CoreException: Of the kind `configuration`, for a duplicate key, an unknown policy, an invalid store,
            or a policy that retries ambiguous failures for all methods of a port
            (`resilience.blanket_write_retry`).
    """

    spec: ResilienceSpec | None = None
    port_policies: tuple[PortPolicy, ...] = ()
    breaker_store: FleetPart | None = None
    rate_limit_store: FleetPart | None = None
    latency_digest_store: FleetPart | None = None
    engine: Engine | None = None
    on_event: OnEvent | None = None
    executor: ResilienceExecutor = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "port_policies", tuple(self.port_policies))
        given = {part: getattr(self, part) for part in PARTS}
        shared = Shared({part: store for part, store in given.items() if store is not None})
        seen: set[Any] = set()
        for port in self.port_policies:
            if port.key in seen:
                raise exc.configuration(f"Duplicate port policy for dependency key {_name_of(port.key)!r}")
            seen.add(port.key)
        executor = ResilienceExecutor(self.spec, engine=self.engine, on_event=self.on_event, shared=shared)
        object.__setattr__(self, "executor", executor)
        unknown = sorted(
            {port.policy for port in self.port_policies if str(port.policy) not in executor.policies}
        )
        if unknown:
            raise exc.configuration(
                "Port policies reference unknown resilience policies: " + ", ".join(unknown)
            )
        for port in self.port_policies:
            if port.methods is None:
                reject_blanket_ambiguous_retry(executor.policies[str(port.policy)], _name_of(port.key))
                executor._blanket.setdefault(str(port.policy), []).append(_name_of(port.key))

    def resolve(self, key: Any, port: Port, *, route: str | None = None) -> Port:
        """Wraps a port in the policy of its key; returns the port unchanged if the key has no policy.

        Args:
            key: The key by which the port is resolved.
            port: The port.
            route: The default route, for example the name of its spec.

        Raises:
            CoreException: Of the kind `configuration`, if a named method cannot be wrapped.
        """
        found = next((policy for policy in self.port_policies if policy.key == key), None)
        if found is None:
            return port
        for method in found.methods or ():
            if not inspect.iscoroutinefunction(getattr(port, method, None)):
                raise exc.configuration(
                    f"Port policy for {_name_of(key)!r} names {method!r}, which is no coroutine method"
                    " (streams are never wrapped)"
                )
        bound = found.route if found.route is not None else route
        return cast("Port", _PortProxy(port, self.executor, str(found.policy), bound, found.methods))


_defaults: list[ResilienceExecutor] = []


def default_resilience_executor() -> ResilienceExecutor:
    """Returns the executor of the process, with the built-in policies; makes it at the first use."""
    if not _defaults:
        _defaults.append(ResilienceExecutor())
    return _defaults[0]


@dataclass(frozen=True, kw_only=True)
class MiddlewareStep:
    """A step of an operation's plan.

    Attributes:
        id: Its name.
        factory: Makes the middleware from a context.
        priority: Position in the plan; steps with smaller numbers are further out.
    """

    id: str
    factory: Callable[[Any], Callable[..., Awaitable[Any]]]
    priority: int


@dataclass(frozen=True, kw_only=True)
class ResilienceWrap:
    """Runs a whole operation under a policy. A retry repeats the whole operation.

    Args:
        policy: The policy's name.
        route: The key that state is kept under.

    Example:
        ```python
        wrap = ResilienceWrap(policy="transient")
        answer = await wrap(context)(operation, arguments)
        ```
    """

    policy: str
    route: str | None = None

    def __call__(self, ctx: Any = None) -> Callable[..., Awaitable[Any]]:
        """Makes the middleware `await middleware(next, args)`; uses `ctx.resilience()` or the default."""
        resolve = getattr(ctx, "resilience", default_resilience_executor)

        async def middleware(next: Callable[[Any], Awaitable[Any]], args: Any) -> Any:  # noqa: A002 - forze's name
            return await resolve().run(lambda: next(args), policy=self.policy, route=self.route)

        return middleware

    def to_step(self, *, step_id: str = "resilience", priority: int = 20) -> MiddlewareStep:
        """Converts the wrap to a step of a plan."""
        return MiddlewareStep(id=step_id, factory=self, priority=priority)
