"""Policies: a named set of components, and the callers made from it."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from tidegate._engine.engine import engine_of
from tidegate._engine.errors import PolicyError
from tidegate._engine.hooks import wanted
from tidegate._engine.options import UNSET, pairs_of
from tidegate._engine.options_gen import SETTINGS
from tidegate._engine.places import Shared, place, warn_again
from tidegate._engine.wire import (
    CRITICALITIES,
    IDEMPOTENT,
    KINDS,
    REPLAYABLE,
    cost_rule,
    may_hedge,
    pack_request,
    weights_rule,
)

from .caller import Caller, limit_of
from .deadline import criticality_number
from .outcomes import check_classify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from typing_extensions import Unpack  # for type checkers only, so not a dependency

    from tidegate._engine.clock import Span
    from tidegate._engine.engine import Engine
    from tidegate._engine.explain import PolicyExplanation
    from tidegate._engine.hooks import Hook, Retrying
    from tidegate._engine.options_gen import PolicyOptions
    from tidegate._engine.places import Place
    from tidegate._engine.record import Record
    from tidegate._engine.snapshot import PolicySnapshot
    from tidegate._native import Document

    from .deadline import Criticality
    from .fallback import Fallback, On
    from .outcomes import Classify, Outcome

T = TypeVar("T")

_numbers: Final = count(1)
"""Numbers for policies without a name. Not a generator, because two threads cannot advance one at once."""


class _Signature:
    """Signature of `Policy` that lists each option by name, for `help` and for editors."""

    def __get__(self, instance: object, owner: Any) -> Any:
        if instance is not None:  # the signature of an instance is that of its `__call__`
            raise AttributeError("__signature__")
        from inspect import Parameter, Signature, signature

        _, name, *own, _ = signature(owner.__init__).parameters.values()
        options = [Parameter(option, Parameter.KEYWORD_ONLY, default=None) for option in SETTINGS]
        return Signature([name, *options, *own])


class Policy(Caller):
    """A named set of components: what happens around a call.

    Args:
        name: Its name in errors and telemetry; a generated one if left out. The same name with other settings
            is an error while a reference to the existing policy is held. A definition outside functions that
            runs again (a notebook cell, a reloaded module) retunes the existing policy and warns.
        preset: The built-in policy to start from: `"http"` (3 attempts, 0.1 to 5 s, budget, 30 s
            deadline), or one of those in `docs/reference.md`.
        deadline: Time for the whole call, including queueing, backoff and reading the body: seconds or
            `timedelta`.
        attempt_timeout: Time for one attempt: seconds or `timedelta`. An attempt that exceeds it is
            retryable.
        slot_until: When a streamed response releases its slot and its deadline: after the `"body"` (default)
            or after the `"headers"`.
        kinds: Custom kinds of failure: name → the class that it is based on. `classify` may return them;
            `retry_on`, `failure_on` and `ignore_on` may name them.
        retry: A `Retry`, or a dict of its keys; one attempt if left out.
        cooldown: A `Cooldown`, or a dict of its keys: after a throttled attempt no attempt starts until the
            time that the server names. None if left out. Not beside `hold`.
        rate_limit: A `RateLimit`, or a dict of its keys; no limit if left out.
        bulkhead: A `Bulkhead`, or a dict of its keys; no limit if left out.
        breaker: A `Breaker`, or a dict of its keys; none if left out.
        throttle: A `Throttle`, or a dict of its keys; none if left out. Not beside a breaker.
        hedge: A `Hedge`, or a dict of its keys: a further attempt in parallel to a slow one, for calls that
            are idempotent and replayable. None if left out.
        store_timeout: For components with `store="fleet"`: how long a call waits for the store's answer, and
            the engine for any answer; then `on_loss` applies. Seconds or `timedelta`; 50 ms if left out.
        store_exchange: Shortest interval at which breaker and latencies are exchanged with the fleet: seconds
            or `timedelta`; 250 ms if left out.
        on: Exceptions to retry, besides those that are retryable by default: a class, or a tuple of classes.
            Their instances keep their failure class if it is retryable, else they are `transient`.
        classify: Called with the result or the exception of every attempt of a plain callable, and with the
            response or the exception of every attempt of an HTTP client. Returns the name of a class or of
            one of `kinds`, an HTTP status (or a status and headers) to be judged like a response, an
            `Outcome`, or None for the default.
        fallback: What callers of `call`, `acall` and decorated functions get in place of an error: a value,
            or a callable (also async, for `acall`) that takes the final error. It runs outside all
            components. If it raises, its own error is raised from the original one.
        fallback_on: The errors that the fallback replaces: an exception class, a tuple of them, or a callable
            that takes the error. If left out: Tidegate's own refusals and timeouts, and errors that
            `classify` or the default judges a failure (`transient`, `throttled`, `timeout`, `never_sent`,
            `conflict`). A `permanent` failure, by default a bug, is replaced only if `classify` returned that
            class. A cancellation is never replaced.
        on_retry: Called before each wait for a further attempt, with a `Retrying`: error, attempt, wait,
            reason. It hears of the retries of all calls under this name in the engine, also of those that
            another `Policy` object of the same name makes: where two of them have an `on_retry`, each retry
            calls both. An exception from it is logged once and does not reach the call.
        engine: The engine that keeps its state; the default engine of the process if left out.

    Raises:
        PolicyError: With all mistakes at once: for each the key, the value and the rule.

    Pickling keeps the settings, not the state: the receiver makes the policy in its own default engine.
    `copy.copy` and `copy.deepcopy` return the policy itself.
    """

    __slots__ = (
        "__weakref__",
        "_classify_by",
        "_fallback_by",
        "_named",
        "_number",
        "_on",
        "_on_retry",
        "_seen",
        "_shared",
        "engine",
        "name",
    )

    __signature__: ClassVar[Any] = _Signature()
    engine: Engine
    name: str

    def __init__(
        self,
        name: str | None = None,
        *,
        on: type[Exception] | tuple[type[Exception], ...] | None = None,
        classify: Classify | None = None,
        fallback: Any = None,
        fallback_on: On | None = None,
        on_retry: Callable[[Retrying], object] | None = None,
        engine: Engine | None = None,
        **options: Unpack[PolicyOptions],
    ) -> None:
        self._on = _on(on)
        self._fallback_by = _fallback(fallback, fallback_on)
        self._on_retry = None
        if on_retry is not None and not callable(on_retry):
            raise TypeError(f"on_retry = {on_retry!r}: must be a function that takes a tidegate.Retrying")
        check_classify(classify)
        config = _config("Policy.__init__", options)
        engine = engine_of(engine)
        pairs = pairs_of(config)
        if not isinstance(name, str | None):
            raise PolicyError([("policy", repr(name), "a name is a string")])
        self._named = name is not None
        name = f"unnamed-{next(_numbers)}" if name is None else name
        here = place(1)
        try:
            number = engine.native.policy(name, pairs)
        except PolicyError:
            shared = engine.shared.get(name)
            if shared is None or here is None or not here.replaces(shared.place):
                raise
            self._retune(engine, name, config)
            number = engine.native.policy(name, pairs)
            shared.place = here
            warn_again(f"policy {name!r}", here, 1)
        self._taken(engine, name, number, config, classify, here)
        if on_retry is not None:
            self._on_retry = on_retry, engine.hooks.add_on_retry(self)

    @classmethod
    def _of_document(
        cls,
        document: Document,
        name: str,
        config: dict[str, Any],
        classify: Classify | None,
        engine: Engine,
        on: tuple[type[Exception], ...] | None = None,
    ) -> Policy:
        """Makes the policy of this name from a document, which core has already validated."""
        policy = cls.__new__(cls)
        policy._fallback_by = policy._on_retry = None
        policy._on = on or None
        policy._named = True
        policy._taken(engine, name, document.take(engine.native, name), config, classify)
        return policy

    def _taken(
        self,
        engine: Engine,
        name: str,
        number: int,
        config: dict[str, Any],
        classify: Classify | None,
        here: Place | None = None,
    ) -> None:
        """Initialises the attributes, once the engine has registered the policy under `number`."""
        self.engine = engine
        self.name = name
        self._number = number
        self._classify_by = classify
        shared = engine.shared.get(name)
        if shared is None or shared.number != number:
            shared = engine.shared[name] = Shared(number, config, here)
        self._shared = shared
        self._learn()
        self._bind(
            self,
            "default",
            pack_request(CRITICALITIES["normal"]) | IDEMPOTENT | REPLAYABLE,
            0,
            None,
            fallback=self._fallback_by,
        )

    def _learn(self) -> tuple[bool, dict[str, int], int, bool, bool, bool]:
        """Caches settings that shells need for every call, until the next `retune`.

        They are: whether the policy has a hold, its kinds of failure, the engine's retune count at this time,
        whether it hedges, whether it reads why an answer failed, and whether its limits learn from answers.
        """
        own = enumerate(self.engine.native.kinds(self._number), len(KINDS))
        kinds = {**KINDS, **{kind: number for number, (kind, _) in own}}
        hedges = self._setting("hedge.max_attempts") is not None
        reads = self.engine.native.reads_errors(self._number)
        learns = self._setting("rate_limit.learn") == "down"
        self._seen = (self._setting("retry.hold") == 1, kinds, self.engine.tunings, hedges, reads, learns)
        return self._seen

    @property
    def _holds(self) -> bool:
        seen = self._seen
        return (seen if seen[2] == self.engine.tunings else self._learn())[0]

    @property
    def _reads_errors(self) -> bool:
        seen = self._seen
        return (seen if seen[2] == self.engine.tunings else self._learn())[4]

    @property
    def _learns(self) -> bool:
        seen = self._seen
        return (seen if seen[2] == self.engine.tunings else self._learn())[5]

    def _races(self, flags: int) -> bool:
        """Returns whether attempts of a call with these flags may run concurrently."""
        seen = self._seen
        hedges = (seen if seen[2] == self.engine.tunings else self._learn())[3]
        return hedges and may_hedge(flags)

    @property
    def _kinds(self) -> dict[str, int]:
        seen = self._seen
        return (seen if seen[2] == self.engine.tunings else self._learn())[1]

    @property
    def _config(self) -> dict[str, Any]:
        """Options given to the policy or to the last `retune`. Policies with the same name share them."""
        return self._shared.config

    def retune(self, **options: Unpack[PolicyOptions]) -> None:
        """Replaces the policy's settings while it is in use.

        The arguments are those of `Policy`. They replace all settings: one that is left out returns to its
        default.

        Calls in flight finish under the settings that they began with, except for state that calls share:
        the limit of a bulkhead and a retry budget change at once. A larger limit admits waiting calls at
        once. A smaller limit lets calls in flight finish, and admits no further call while their number is
        at or above it. Callers made with `at`, and all policies of the same name in this engine, use the new
        settings.

        Raises:
            PolicyError: With all mistakes at once; the policy is then unchanged.
        """
        self._retune(self.engine, self.name, _config("Policy.retune", options))

    @staticmethod
    def _retune(engine: Engine, name: str, config: dict[str, Any]) -> None:
        shared = engine.shared[name]
        woken = engine.native.retune(shared.number, name, pairs_of(config))
        try:
            shared.config = config
            engine.tunings += 1
        finally:
            engine.wake(woken)

    def __del__(self) -> None:
        try:
            release, number = self.engine.native.release, self._number
        except AttributeError:
            return  # `__init__` failed before the engine registered it
        if self._on_retry is not None:
            self._on_retry[1].close()
        release(number, self._named)

    @property
    def _policy(self) -> Policy:  # type: ignore[override] # no slot: a policy that names itself is freed late
        return self

    def at(
        self,
        *,
        route: str = "default",
        idempotent: bool = True,
        replayable: bool = True,
        criticality: Criticality | None = None,
        deadline: Span | None = None,
        cost: int = 1,
        weights: Mapping[str, int] | None = None,
        pass_timeout: str | None = None,
        fallback: Any = UNSET,
        fallback_on: On | None = None,
    ) -> Caller:
        """Makes a caller with its own settings. Make it once and keep it: making one costs more than a call.

        Args:
            route: The key that state is kept under: an origin, an endpoint, a tenant.
            idempotent: Whether a repeat is harmless. If not, the call is retried only after a failure that
                proves that the request was never sent.
            replayable: Whether the call can be made a second time at all.
            criticality: Importance of the calls, which queues use; if left out, the level set by
                `tidegate.criticality` around the call, or normal.
            deadline: Time for each call, seconds or `timedelta`; the earlier of this and the policy's wins.
            cost: Rate limit tokens that a call takes, 0 to 65,535.
            weights: What a call will use of the limits that count a weight, such as `{"tokens": 1800}`; each
                attempt reserves it. Report what was used with `Attempt.settle`.
            pass_timeout: The name of a keyword parameter that receives the time of each attempt in seconds
                (None: no limit). A number that the call itself passes holds if it is smaller. A synchronous
                function under an `attempt_timeout` needs it, since a thread cannot be interrupted.
            fallback: What callers get in place of an error, as in `Policy`; None for no fallback, the
                policy's own if left out.
            fallback_on: The errors that `fallback` replaces, as in `Policy`.

        Raises:
            ValueError: If an argument is out of range.
        """
        broken = cost_rule(cost)
        if broken is not None:
            raise ValueError(f"cost = {cost!r}: must be {broken}")
        if not isinstance(pass_timeout, str | None):
            raise ValueError(f"pass_timeout = {pass_timeout!r}: must be the name of a parameter")
        broken = None if weights is None else weights_rule(weights)
        if broken is not None:
            raise ValueError(f"weights = {weights!r}: must be {broken}")
        urgent = criticality is not None
        flags = pack_request(criticality_number(criticality if urgent else "normal"), cost)
        flags |= (IDEMPOTENT if idempotent else 0) | (REPLAYABLE if replayable else 0)
        made = self._fallback_by if fallback is UNSET else _fallback(fallback, fallback_on)
        caller = Caller()
        own = None if weights is None else dict(weights)
        caller._bind(
            self, route, flags, limit_of(deadline), pass_timeout, fallback=made, urgent=urgent, weights=own
        )
        return caller

    def replace(self, name: str | None = None, **changes: Any) -> Policy:
        """Makes another policy with the settings of this one and the given changes; None removes a setting.

        Args:
            name: Its name; a generated one if left out, since the same name with other settings is an error.
            **changes: Arguments of `Policy`. Tables such as `retry` are replaced as a whole.

        Raises:
            PolicyError: With all mistakes at once.
            TypeError: If `Policy` has no such argument, or the policy has targets, which only a document
                declares.

        Example:
            ```python
            patient = policy.replace("patient", deadline=60)
            ```
        """
        self._check_targets("replace")
        own = self._fallback_by
        kept = {} if own is None else {"fallback": own.given, "fallback_on": own.on}
        if self._on_retry is not None:
            kept["on_retry"] = self._on_retry[0]
        kept |= {"on": self._on, "classify": self._classify_by, "engine": self.engine, **self._config}
        return Policy(name, **{**kept, **changes})

    def wrap(self, client: T, methods: Iterable[str] | None = None, route: str | None = None) -> T:
        """Wraps an object so that calls of its methods run under the policy; other attributes are unchanged.

        Args:
            client: Any object. It is not changed.
            methods: The names of the methods, async or not. If left out: all its public coroutine methods, or
                all public methods of an object that has no coroutine methods. Streams (generators, async
                generators, and context managers made of them) are never wrapped.
            route: The key that state is kept under; `"default"` if left out.

        Raises:
            ValueError: If a name is not that of a method, or is that of a stream. Also if `methods` is left
                out and the policy may repeat a call that had an effect, so that a write could happen twice:
                it hedges, or retries other classes than `never_sent`, `throttled` and `conflict`.

        Example:
            ```python
            reader = policy.wrap(s3, methods=["get_object", "head_object"], route="s3")
            ```
        """
        from .wrap import wrap

        return wrap(self, client, methods, route)

    def outcome_of(
        self,
        status: int,
        headers: Mapping[str, str]
        | Mapping[bytes, bytes]
        | Iterable[tuple[str | bytes, str | bytes]]
        | None = None,
    ) -> Outcome:
        """Returns the outcome that an HTTP answer has under this policy, for a `classify` of your own.

        The status is judged by the policy's lists of statuses. The headers say when to try again
        (`Retry-After` and its relatives) and whether to (`x-should-retry`).

        Args:
            status: The status of the answer, 100 to 999. One below 400 is `ok`.
            headers: Its headers, names in any case: a mapping, or pairs of names and values.

        Raises:
            TypeError: If the status is not a whole number, or the headers are neither of these.
            ValueError: If no HTTP answer has such a status.

        Example:
            ```python
            policy = tidegate.Policy("shop", preset="http")
            busy = policy.outcome_of(429, {"Retry-After": "2"})
            assert busy == tidegate.Outcome("throttled", retry_after=2.0)
            ```
        """
        from .judge import outcome_of

        return outcome_of(status, headers, self)

    @property
    def kinds(self) -> dict[str, str]:
        """Custom kinds of failure that the policy declares: name → the class that each is based on."""
        return dict(self.engine.native.kinds(self._number))

    def force_open(self, route: str | None = None, *, on: bool = True) -> None:
        """Refuses all calls with `ForcedOpen`, before any other check, until `force_open(on=False)`.

        Calls that wait for their first attempt are refused too. Calls that have started finish without
        further attempts. `on=False` also resets the breaker.

        Args:
            route: The route whose calls are refused; all routes if left out.
            on: True to refuse from now on, False to stop refusing.
        """
        native = self.engine.native
        which = None if route is None else native.route(self._number, route)
        self.engine.wake(native.force_open(self._number, which, on))

    def force_target(self, target: str, *, on: bool = True) -> None:
        """Refuses all attempts at one of the policy's targets, until `force_target(target, on=False)`.

        This holds for all policies with this group of targets. Running attempts finish, and calls go to the
        other targets. `on=False` also resets the target's breaker.

        Args:
            target: The name of the target, as in the document.
            on: True to refuse from now on, False to stop refusing.

        Raises:
            PolicyError: If the policy has no such target.

        Example:
            >>> from tidegate import loads, target
            >>> policies = loads('''
            ... [targets.chat]
            ... pick = "ladder"
            ... members = ["large", "small"]
            ... [policy.chat]
            ... targets = "chat"
            ... ''')
            >>> policies["chat"].force_target("large")
            >>> policies["chat"].call(target)
            'small'
        """
        native = self.engine.native
        native.force_target(str(native.setting(self._number, "targets") or ""), target, on)

    def snapshot(self) -> PolicySnapshot:
        """Returns its current numbers: `attempts`, `retries`, `hedges`, calls by verdict as `ends`, `routes`.

        A route has `active` and `forced`, and for the components that the policy has: `pool` (permits),
        `rate`, `send`, `breaker`, `throttle`, `budget`, `hedge`, `hold` and `cooldown`.
        """
        view = self.engine.snapshot()
        routes = (route for route in view["routes"] if route["policy"] == self.name)
        return {**view["policies"][self.name], "routes": {route["key"]: route for route in routes}}

    def explain(self) -> PolicyExplanation:
        """Explains the policy: components in order with the values in force, bounds, warnings.

        Example:
            >>> explained = Policy("quick", deadline=2.0).explain()
            >>> explained.max_attempts, explained.max_time
            (1, 2.0)
        """
        from tidegate._engine.explain import PolicyExplanation

        explanation = self.engine.inspector.explain_policy(self._number)
        assert explanation is not None  # noqa: S101 - the engine has registered the policy
        return PolicyExplanation._of(explanation)

    def on_event(self, callback: Callable[[Record], object], types: Iterable[str] | None = None) -> Hook:
        """Calls a function with every record about this policy; see `Engine.on_event` for details.

        Records about no single policy, such as the loss of the fleet's store, go to `Engine.on_event` alone.

        Raises:
            ValueError: If a type does not exist.
        """
        return self.engine.hooks.add(callback, wanted(types), self.name)

    def __repr__(self) -> str:
        given = (f"{key}={value!r}" for key, value in self._config.items())
        return f"Policy({', '.join([repr(self.name), *given])})"

    def _check_targets(self, what: str) -> None:
        """Raises if the policy has targets, which its document declares and `Policy` does not take."""
        if "targets" in self._config:
            rule = "has targets, which only a document declares: use `load`"
            raise TypeError(f"{what}: policy {self.name!r} {rule}")

    def __reduce__(self) -> tuple[Any, ...]:
        self._check_targets("pickle")
        own = self._fallback_by
        fallback = (None, None) if own is None else (own.given, own.on)
        on_retry = None if self._on_retry is None else self._on_retry[0]
        name = self.name if self._named else None
        return _rebuild, (name, self._config, self._classify_by, *fallback, self._on, on_retry)

    def _setting(self, key: str) -> float | str | None:
        """Returns the value in force as core stores it: spans in microseconds, None if unset."""
        return self.engine.native.setting(self._number, key)

    def _seconds(self, key: str) -> float | None:
        """Returns a span in force, in seconds; None if unset."""
        value = self._setting(key)
        return None if value is None or isinstance(value, str) else value / 1e6

    def _count(self, key: str) -> int | None:
        """Returns a whole number in force; None if unset."""
        value = self._setting(key)
        return None if value is None or isinstance(value, str) else int(value)


def _config(where: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options that are set, in the order of `SETTINGS`.

    Raises:
        TypeError: If an option does not exist.
    """
    for name in options:
        if name not in SETTINGS:  # the same wording as Python's own error
            raise TypeError(f"{where}() got an unexpected keyword argument {name!r}")
    return {name: options[name] for name in SETTINGS if options.get(name) is not None}


def _rebuild(
    name: str | None,
    config: dict[str, Any],
    classify: Classify | None,
    fallback: Any = None,
    fallback_on: On | None = None,
    on: tuple[type[Exception], ...] | None = None,
    on_retry: Callable[[Retrying], object] | None = None,
) -> Policy:
    more: dict[str, Any] = {"fallback": fallback, "fallback_on": fallback_on, "on_retry": on_retry}
    return Policy(name, on=on, classify=classify, **more, **config)


def _on(given: Any) -> tuple[type[Exception], ...] | None:
    """Validates `on` and returns its exception classes as a tuple."""
    if given is None:
        return None
    types = given if isinstance(given, tuple) else (given,)
    if not types or not all(isinstance(kind, type) and issubclass(kind, Exception) for kind in types):
        rule = "must be an exception class or a tuple of them, as on=(MyError,)"
        raise PolicyError([("on", repr(given), rule)])
    return types


def _fallback(given: Any, on: On | None) -> Fallback | None:
    if given is None:
        if on is not None:
            raise ValueError(f"fallback_on = {on!r}: says when, but no fallback says what")
        return None
    from .fallback import Fallback

    return Fallback(given, on)
