"""Policies, and the callers bound to them. The happy path is native; the shells do the rest."""

from __future__ import annotations

import os
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeVar, cast, overload

from . import _async_lazy as lazy
from . import _native
from ._attempts import Attempts
from ._clock import to_us
from ._deadline import current, inherited
from ._engine import default_engine
from ._errors import PolicyError, Unsupported
from ._hooks import wanted
from ._options import pairs_of
from ._run import Run, abandon, awaited, not_async, nothing
from ._sync import drive, resume
from ._wire import (
    ABORTABLE,
    COST_SHIFT,
    CRITICALITIES,
    DONE,
    IDEMPOTENT,
    KINDS,
    MAY_PARK,
    REPLAYABLE,
    STALE_ROUTE,
    pack_remaining,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping

    from ._classify import Classify
    from ._clock import Span
    from ._deadline import Scope
    from ._engine import Engine
    from ._explain import PolicyExplanation
    from ._hooks import Hook
    from ._options import Breaker, Bulkhead, Hedge, RateLimit, Retry, Throttle
    from ._options_gen import Base, Preset
    from ._snapshot import PolicySnapshot
    from ._timers import Timers
    from .events import Record

P = ParamSpec("P")
T = TypeVar("T")

Criticality = Literal["best_effort", "degraded", "normal", "critical"]

NO_HEDGES: Final = "this package does not race attempts yet; take the hedge out, or call from Rust"
_Made = TypeVar("_Made")
_Method = TypeVar("_Method")
FAST: Final = not os.environ.get("TIDEGATE_NO_FAST")
"""Whether the native half makes first attempts. Without, the shells make all: tests compare the two."""


def _native_method(documented: _Method) -> _Method:
    """The native method that this function documents."""
    return cast("_Method", _native.native_method(documented))


_names: Final = (f"unnamed-{number}" for number in count(1))


class Caller(_native.Runner):
    """Makes calls under a policy: as a function, as a coroutine, as a decorator.

    `Policy` is one, with the defaults; `Policy.at` makes others. One caller serves threads and any number of
    event loops at once.
    """

    __slots__ = (
        "_aflags",
        "_begin",
        "_classify",
        "_engine",
        "_flags",
        "_limit",
        "_passing",
        "_policy",
        "_route",
        "_route_key",
    )

    _policy: Policy

    if TYPE_CHECKING:

        def __new__(cls: type[_Made], *args: Any, **kwargs: Any) -> _Made: ...

    def _bind(
        self,
        policy: Policy,
        route: str,
        flags: int,
        limit: int,
        passing: str | None,
    ) -> None:
        engine = policy.engine
        self._policy = policy
        self._engine = engine
        self._begin = engine.native.begin
        self._route_key = route
        self._route = engine.native.route(policy._number, route)
        self._flags = flags | MAY_PARK
        self._aflags = flags | MAY_PARK | ABORTABLE
        self._limit = limit
        self._classify = policy._classify_by
        self._passing = passing
        plain = FAST and self._classify is None and passing is None
        self._settle(engine.native, engine, policy._number, self._route, self._flags, limit, plain)

    @_native_method
    def call(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a function under the policy, in this thread.

        Returns:
            What the function returned.

        Raises:
            Rejected: If the policy refused the call before any attempt.
            DeadlineExceeded: If the deadline passed before the call, or while it waited.
            TypeError: If the policy has an `attempt_timeout`: blocking code cannot be interrupted.
                Tell it its time with `policy.at(pass_timeout="timeout")`, or use `acall`.
            BaseException: The function's own exception, the same object, with a note that says why we
                stopped.
        """
        raise NotImplementedError  # native: `src/fast.rs`; what is no happy path comes back below

    @_native_method
    async def acall(self, fn: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Awaits an async function under the policy, inline in the running task (asyncio).

        Returns:
            What the function returned.

        Raises:
            Rejected: If the policy refused the call before any attempt.
            AttemptTimeout: If the last attempt ran out of `attempt_timeout`.
            DeadlineExceeded: If the deadline passed.
            asyncio.CancelledError: If the caller was cancelled; nothing is counted, and a slot goes on at
            once.
            BaseException: The function's own exception, the same object, with a note that says why we
                stopped.
        """
        raise NotImplementedError  # native: `src/awaitable.rs`; what is no happy path comes back below

    # What the native half asks for. It gives a call back up whenever one of these raises.

    def _begun(
        self,
        scope: Scope | None,
        call: int,
        step: int,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
    ) -> Any:
        """Carries out a call from its first step on."""
        self._check_sync()
        return drive(*self._fresh(scope, call, step, self._flags, fn, args, kwargs))

    def _failed(
        self,
        scope: Scope | None,
        call: int,
        failure: BaseException,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None,
    ) -> Any:
        """Goes on after a first attempt that has failed."""
        try:
            return resume(self._run(scope, call, fn, args, kwargs), failure)
        finally:
            del failure  # no cycle: exception, traceback, frame, exception

    def _abegun(
        self,
        scope: Scope | None,
        call: int,
        step: int,
        fn: Callable[..., Any],
        args: tuple[Any, ...] | None,
        kwargs: dict[str, Any] | None,
    ) -> Coroutine[Any, Any, Any]:
        """Carries out a call from its first step on, awaited."""
        return lazy.drive(*self._fresh(scope, call, step, self._aflags, fn, args or (), kwargs))

    def _afailed(
        self,
        scope: Scope | None,
        call: int,
        ok: bool,
        value: Any,
        fn: Callable[..., Any],
        args: tuple[Any, ...] | None,
        kwargs: dict[str, Any] | None,
        timers: Timers | None,
    ) -> Coroutine[Any, Any, Any]:
        """Goes on after a first attempt that has failed, or has ended well although it was stopped."""
        return lazy.resume(self._run(scope, call, fn, args or (), kwargs), ok, value, timers)

    _not_async = staticmethod(not_async)
    _awaited = staticmethod(awaited)

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, T]], /) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __call__(self, fn: Callable[P, T], /) -> Callable[P, T]: ...
    def __call__(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Puts a function or an async function behind the policy, as a decorator.

        A generator function, async or not, is a call from its first item to its end: see
        `docs/python.md`.
        """
        import functools
        import inspect

        inner = fn
        while isinstance(inner, functools.partial):
            inner = inner.func
        if not (inspect.isfunction(inner) or inspect.ismethod(inner)):
            inner = getattr(inner, "__call__", inner)  # noqa: B004 - the bound method is what is looked at
        if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
            from ._generators import agenerating, generating

            return (generating if inspect.isgeneratorfunction(inner) else agenerating)(self, fn)
        if inspect.iscoroutinefunction(inner):

            @functools.wraps(fn)
            async def awaiting(*args: Any, **kwargs: Any) -> Any:
                return await self.acall(fn, *args, **kwargs)

            return awaiting

        @functools.wraps(fn)
        def calling(*args: Any, **kwargs: Any) -> Any:
            return self.call(fn, *args, **kwargs)

        return calling

    def attempts(self) -> Attempts:
        """A call as a loop over its attempts, for a body that is no function.

        Each loop is one call; an exception inside `with attempt` is judged as a plain callable's is:
        swallowed if a retry follows, else raised, the same object, with a note that says why.

            for attempt in policy.attempts():           # async for attempt in policy.attempts():
                with attempt:                           #     with attempt:
                    order = charge(cart)                #         order = await charge(cart)

        `attempt.num` counts from 1; `attempt.remaining` is the time left in seconds, or None;
        `attempt.result(value)` shows `value` to the policy's `classify`. A body that ends normally without it
        is ok, also by a `break` or `return` inside `with attempt`. Leaving the loop anywhere else before its
        end cancels the call: its permit goes on, and nothing is counted.

        In `async for` an `attempt_timeout` and the deadline cancel the body, inside `with attempt`. In a
        `for` loop nothing can interrupt it, so that a policy with an `attempt_timeout` is refused before the
        first attempt, as `call` does; `policy.at(pass_timeout="remaining").attempts()` says that the body
        takes its time from `attempt.remaining`.

        Raises:
            Rejected: From the loop, if the policy refused the call before any attempt.
            AttemptTimeout: From `with attempt`, if the last attempt ran out of `attempt_timeout`.
            DeadlineExceeded: If the deadline passed.
            TypeError: From a `for` loop, if the policy has an `attempt_timeout` that nobody takes.
        """
        return Attempts(self)

    def _check_sync(
        self, way: str = 'name the parameter that takes its time, policy.at(pass_timeout="timeout"),'
    ) -> None:
        if self._passing is None and self._is_timed():
            raise TypeError(
                f"policy {self._policy.name!r} has an attempt_timeout, and blocking code cannot be"
                f" interrupted: {way} or go async"
            )

    def _start(self, awaits: bool, more: int = 0) -> tuple[Run, int]:
        """Begins a call whose attempts somebody else makes: its run and its first step."""
        scope = current()
        flags = (self._aflags if awaits else self._flags) | more
        limit, parent = (self._limit, 0) if scope is None else self._inherit(scope)
        call, step = self._engine.begun(self._begin(self._route, flags, limit, parent, 0))
        try:
            return self._fresh(scope, call, step, flags, nothing, (), {})
        except BaseException:
            abandon(self._engine, call, 1)
            raise

    def _run(self, scope: Scope | None, call: int, fn: Any, args: Any, kwargs: Any) -> Run:
        policy = self._policy
        return Run(
            self._engine,
            policy,
            self._route_key,
            scope,
            call,
            fn,
            args,
            kwargs,
            self._classify,
            self._passing,
        )

    def _fresh(
        self, scope: Scope | None, call: int, step: int, flags: int, fn: Any, args: Any, kwargs: Any
    ) -> tuple[Run, int]:
        """A run from its first step on. A route that has been evicted is asked for again."""
        while step & 3 == DONE and step >> 12 & 63 == STALE_ROUTE:
            self._route = self._engine.native.route(self._policy._number, self._route_key)
            self._reroute(self._route)
            limit, parent = (self._limit, 0) if scope is None else self._inherit(scope)
            call, step = self._engine.begun(self._begin(self._route, flags, limit, parent, 0))
        return self._run(scope, call, fn, args, kwargs), step

    def _inherit(self, scope: Scope) -> tuple[int, int]:
        limit, parent = inherited(scope, self._engine)
        if self._limit:
            limit = min(limit, self._limit) if limit else self._limit
        return limit, parent


class Policy(Caller):
    """A named set of components: what happens around a call.

    Args:
        name: Its name in errors and telemetry; the same name with other settings is an error. A fresh one if
            left out.
        preset: The built-in policy to start from: `"http"` (3 attempts, 0.1 to 5 s, budget, 30 s
            deadline), or one of those in `docs/reference.md`.
        deadline: Time for the whole call, with queueing, backoff and reading the body: seconds or
            `timedelta`.
        attempt_timeout: Time for one attempt: seconds or `timedelta`. Running out of it is retryable.
        slot_until: How long a streamed answer keeps its slot and its deadline: `"body"` (default) or
            `"headers"`.
        kinds: Kinds of failure of your own: name → the class that it is based on. `classify` may answer
            them; `retry_on`, `failure_on` and `ignore_on` may name them.
        retry: A `Retry`, or a dict of its keys; one attempt if left out.
        rate_limit: A `RateLimit`, or a dict of its keys; no limit if left out.
        bulkhead: A `Bulkhead`, or a dict of its keys; no limit if left out.
        breaker: A `Breaker`, or a dict of its keys; none if left out.
        throttle: A `Throttle`, or a dict of its keys; none if left out. Not beside a breaker.
        hedge: Not there yet: it is refused.
        classify: Called with the result or the exception of every attempt of a plain callable (and of an
            HTTP client with its response or exception); answers the name of a class or of one of `kinds`,
            an `Outcome`, or None for the default.
        engine: The engine that keeps its state; the process's own if left out.

    Raises:
        PolicyError: With every mistake there is: the key, the value and the rule.
        Unsupported: If it is to hedge.

    Pickling keeps the settings, never the state: the other side makes the policy in its own default engine.
    """

    __slots__ = (
        "__weakref__",
        "_classify_by",
        "_named",
        "_number",
        "_seen",
        "engine",
        "name",
    )

    def __init__(
        self,
        name: str | None = None,
        *,
        preset: Preset | None = None,
        deadline: Span | None = None,
        attempt_timeout: Span | None = None,
        slot_until: Literal["body", "headers"] = "body",
        kinds: Mapping[str, Base] | None = None,
        retry: Retry | Mapping[str, Any] | None = None,
        rate_limit: RateLimit | Mapping[str, Any] | None = None,
        bulkhead: Bulkhead | Mapping[str, Any] | None = None,
        breaker: Breaker | Mapping[str, Any] | None = None,
        throttle: Throttle | Mapping[str, Any] | None = None,
        hedge: Hedge | Mapping[str, Any] | None = None,
        classify: Classify | None = None,
        engine: Engine | None = None,
    ) -> None:
        if hedge is not None:
            raise Unsupported([("hedge", repr(hedge), NO_HEDGES)])
        config = _config(
            preset=preset,
            deadline=deadline,
            attempt_timeout=attempt_timeout,
            slot_until=slot_until,
            kinds=kinds,
            retry=retry,
            rate_limit=rate_limit,
            bulkhead=bulkhead,
            breaker=breaker,
            throttle=throttle,
        )
        self._named = name is not None
        self._classify_by = classify
        self.engine: Final = default_engine() if engine is None else engine
        pairs = pairs_of(config)
        if not isinstance(name, str | None):
            raise PolicyError([("policy", repr(name), "a name is a string")])
        self.name: Final[str] = next(_names) if name is None else name
        self._number = self.engine.native.policy(self.name, pairs)
        self.engine.configs.setdefault(self._number, config)
        self._learn()
        self._bind(self, "default", IDEMPOTENT | REPLAYABLE | 2 | 1 << COST_SHIFT, 0, None)

    def _learn(self) -> tuple[bool, dict[str, int], int]:
        """What adapters ask of the settings in force until the next `retune`: does it hold, and its kinds."""
        own = enumerate(self.engine.native.kinds(self._number), len(KINDS))
        kinds = {**KINDS, **{kind: number for number, (kind, _) in own}}
        self._seen = (self._setting("retry.hold") == 1, kinds, self.engine.tunings)
        return self._seen

    @property
    def _holds(self) -> bool:
        seen = self._seen
        return (seen if seen[2] == self.engine.tunings else self._learn())[0]

    @property
    def _kinds(self) -> dict[str, int]:
        seen = self._seen
        return (seen if seen[2] == self.engine.tunings else self._learn())[1]

    @property
    def _config(self) -> dict[str, Any]:
        """What was given: to the policy, or to the last `retune`. Policies of one name share it."""
        return self.engine.configs[self._number]

    def retune(
        self,
        *,
        preset: Preset | None = None,
        deadline: Span | None = None,
        attempt_timeout: Span | None = None,
        slot_until: Literal["body", "headers"] = "body",
        kinds: Mapping[str, Base] | None = None,
        retry: Retry | Mapping[str, Any] | None = None,
        rate_limit: RateLimit | Mapping[str, Any] | None = None,
        bulkhead: Bulkhead | Mapping[str, Any] | None = None,
        breaker: Breaker | Mapping[str, Any] | None = None,
        throttle: Throttle | Mapping[str, Any] | None = None,
    ) -> None:
        """Gives the policy other settings, while it is in use.

        The arguments are those of `Policy`, and say all of it: what is left out is not kept but has its
        default again.

        Calls in flight finish under the settings that they began with, except for what calls share: the
        limit of a bulkhead and a retry budget change at once. A limit that grows admits waiting calls
        now; one that shrinks lets calls in flight finish, and admits nobody until they have. Every caller
        made with `at`, and every policy of the same name in this engine, goes by the new settings.

        Raises:
            PolicyError: With every mistake there is; the policy stays as it was.
        """
        config = _config(
            preset=preset,
            deadline=deadline,
            attempt_timeout=attempt_timeout,
            slot_until=slot_until,
            kinds=kinds,
            retry=retry,
            rate_limit=rate_limit,
            bulkhead=bulkhead,
            breaker=breaker,
            throttle=throttle,
        )
        woken = self.engine.native.retune(self._number, self.name, pairs_of(config))
        try:
            self.engine.configs[self._number] = config
            self.engine.tunings += 1
        finally:
            self.engine.wake(woken)

    def at(
        self,
        *,
        route: str = "default",
        idempotent: bool = True,
        replayable: bool = True,
        criticality: Criticality = "normal",
        deadline: Span | None = None,
        cost: int = 1,
        pass_timeout: str | None = None,
    ) -> Caller:
        """A caller with settings of its own. Make it once and keep it: making one costs more than a call.

        Args:
            route: The key that state is kept under: an origin, an endpoint, a tenant.
            idempotent: Whether a repeat is harmless; if not, only what provably never left is tried again.
            replayable: Whether the call can be made a second time at all.
            criticality: How much it matters to a queue.
            deadline: Time for each call, seconds or `timedelta`; the earlier of this and the policy's wins.
            cost: Tokens of a rate limit that a call takes, 0 to 65,535.
            pass_timeout: The name of a keyword parameter that takes the time of each attempt, in seconds
                (None without end). A synchronous function under an `attempt_timeout` needs it, since nothing
                can interrupt it.

        Raises:
            ValueError: If an argument is out of range.
        """
        if criticality not in CRITICALITIES:
            raise ValueError(f"criticality = {criticality!r}: must be one of {', '.join(CRITICALITIES)}")
        if not 0 <= cost <= 0xFFFF:
            raise ValueError(f"cost = {cost!r}: must be a whole number from 0 to 65535")
        flags = CRITICALITIES[criticality] | cost << COST_SHIFT
        flags |= (IDEMPOTENT if idempotent else 0) | (REPLAYABLE if replayable else 0)
        caller = Caller()
        caller._bind(self, route, flags, limit_of(deadline), pass_timeout)
        return caller

    @property
    def kinds(self) -> dict[str, str]:
        """The kinds of failure that it declares: name → the class that each is based on."""
        return dict(self.engine.native.kinds(self._number))

    def force_open(self, route: str | None = None, *, on: bool = True) -> None:
        """Refuses all calls with `ForcedOpen`, before anything else is asked, until `on=False`.

        Calls that wait for their first attempt are refused too, and those that have started finish without
        further attempts. Clearing it resets the breaker.

        Args:
            route: Only the calls of this route; all of them if left out.
            on: Whether to refuse from now on, or no longer.
        """
        native = self.engine.native
        which = None if route is None else native.route(self._number, route)
        self.engine.wake(native.force_open(self._number, which, on))

    def snapshot(self) -> PolicySnapshot:
        """Its figures now: `attempts`, `retries`, `hedges`, how calls ended (`ends`), its `routes` by key.

        A route has `active`, `forced`, and what there is of `pool` (permits), `rate`, `send`, `breaker`,
        `throttle`, `budget`, `hedge` and `hold`.
        """
        view = self.engine.snapshot()
        routes = (route for route in view["routes"] if route["policy"] == self.name)
        return {**view["policies"][self.name], "routes": {route["key"]: route for route in routes}}

    def explain(self) -> PolicyExplanation:
        """What it comes to: components in their order with the values in force, bounds, warnings.

        Example:
            >>> explained = Policy("quick", deadline=2.0).explain()
            >>> explained.max_attempts, explained.max_time
            (1, 2.0)
        """
        from ._explain import PolicyExplanation

        told = self.engine.inspector.explain_policy(self._number)
        assert told is not None  # noqa: S101 - the engine has taken it in
        return PolicyExplanation._of(told)

    def on_event(self, callback: Callable[[Record], object], types: Iterable[str] | None = None) -> Hook:
        """Calls a function with every record about this policy: `Engine.on_event`, which says more.

        Raises:
            ValueError: If a type does not exist.
        """
        return self.engine.hooks.add(callback, wanted(types), self.name)

    def __repr__(self) -> str:
        given = (
            f"{key}={value!r}"
            for key, value in self._config.items()
            if (key, value) != ("slot_until", "body")
        )
        return f"Policy({', '.join([repr(self.name), *given])})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self.name if self._named else None, self._config, self._classify_by)

    def _setting(self, key: str) -> float | str | None:
        """The value in force, as core has it: spans in microseconds, None where there is none."""
        return self.engine.native.setting(self._number, key)

    def _seconds(self, key: str) -> float | None:
        """A span in force, in seconds; None where there is none."""
        value = self._setting(key)
        return None if value is None or isinstance(value, str) else value / 1e6

    def _count(self, key: str) -> int | None:
        """A whole number in force; None where there is none."""
        value = self._setting(key)
        return None if value is None or isinstance(value, str) else int(value)


def _config(**given: Any) -> dict[str, Any]:
    """What is said of a policy, without what is not."""
    return {key: value for key, value in given.items() if value is not None}


def limit_of(deadline: Span | None) -> int:
    """A span as `begin` takes it: 0 for none."""
    if deadline is None:
        return 0
    us = to_us(deadline)
    if isinstance(us, str) or us != us:
        raise ValueError(f"deadline = {deadline!r}: must be a number of seconds or a timedelta")
    return pack_remaining(int(min(max(us, 0.0), 2.0**53)))


def _rebuild(name: str | None, config: dict[str, Any], classify: Classify | None) -> Policy:
    return Policy(name, classify=classify, **config)
