"""Per-adapter state that is kept between requests: policy, routes by origin, methods. Begins the calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tidegate._call.caller import limit_of
from tidegate._call.deadline import criticality_of, current, inherited
from tidegate._call.policy import Policy
from tidegate._engine.wire import (
    IDEMPOTENT,
    MAY_PARK,
    REPLAYABLE,
    SLOT_UNTIL_BODY,
    SOLO,
    STREAM,
    criticality_in,
    is_stale_route,
    with_criticality,
)

from .options import NONE, NORMAL, flags_of
from .silence import NONE as NO_LIMITS
from .silence import Limits, limits_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidegate._call.usage import Used, Weigh

    from .run import HttpRun

Origin = tuple[str, str, "int | None"]
"""Scheme, host and port of a URL; a port of None means the scheme's default port."""

_MOST_ROUTES: Final = 10_000
_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}


class Front:
    """State of one adapter that all its calls share.

    Args:
        policy: The policy; a new one from the preset `http` if None.
        policies: Further policies by name, for requests that select a policy by name.
        retry_header: Whether repeats carry `Retry-Attempt: n`.
        weigh: Makes the weights of a request from its estimate.
        usage: Makes the totals that an attempt settles from what its answer has used.

    Raises:
        TypeError: If `policy` is not a Policy, or `weigh` or `usage` is not callable.
    """

    __slots__ = ("_counts", "_facts", "_limits", "_methods", "_routes", "policies", "policy", "retry_header",
                 "usage", "weigh")  # fmt: skip

    def __init__(
        self,
        policy: Policy | None,
        policies: Mapping[str, Policy] | None,
        retry_header: bool,
        weigh: Weigh | None = None,
        usage: Used | None = None,
    ) -> None:
        if policy is not None and not isinstance(policy, Policy):
            raise TypeError(f"tidegate: policy = {policy!r}: must be a Policy")
        for name, given in (("weigh", weigh), ("usage", usage)):
            if given is not None and not callable(given):
                raise TypeError(f"tidegate: {name} = {given!r}: must be callable")
        self.weigh, self.usage = weigh, usage
        self._counts: dict[Policy, tuple[int, bool]] = {}
        self.policy = Policy(preset="http") if policy is None else policy
        self.policies: Mapping[str, Policy] = {} if policies is None else policies
        self.retry_header = retry_header
        self._routes: dict[tuple[Policy, Any], tuple[int, str]] = {}
        self._methods: dict[tuple[Policy, str], tuple[int, bool]] = {}
        self._facts: dict[Policy, tuple[int, int | None, int]] = {}
        self._limits: dict[Policy, tuple[int, Limits | None]] = {}

    def policy_of(self, options: Mapping[str, Any]) -> Policy:
        """Returns the policy of one request.

        Raises:
            ValueError: If the request names a policy that the adapter does not know.
        """
        asked = options.get("policy")
        if asked is None:
            return self.policy
        if isinstance(asked, Policy):
            return asked
        if asked in self.policies:
            return self.policies[asked]
        if asked == self.policy.name:
            return self.policy
        known = ", ".join([*self.policies, self.policy.name])
        raise ValueError(f"tidegate: policy = {asked!r}: the adapter's policies are {known}")

    def begin(self, run: HttpRun, options: Mapping[str, Any]) -> int:
        """Begins the call of a request and returns the call's first step."""
        policy, engine = run.policy, run.engine
        native = engine.native
        flags, limit = MAY_PARK, 0
        if options is NONE:
            flags |= NORMAL
        else:
            flags |= flags_of(options)
            limit = limit_of(options.get("deadline"))
        replayable, run.file, run.offset = run.replay()
        run.factory = options.get("body_factory")
        if run.factory is not None:
            replayable, run.file = True, None
        if replayable:
            flags |= REPLAYABLE
        if run.file is not None or not run.can_race:
            flags |= SOLO  # a file has a single position, so two attempts cannot read it at once
        given = options.get("idempotent")
        if self.retries(policy, run.method()) or run.keyed() if given is None else given:
            flags |= IDEMPOTENT
        own, slot = self.facts(policy)
        run.limits = limits = self.limits_of(policy)
        told_weights = options.get("weights")
        weights = None if told_weights is None else dict(told_weights)
        if (self.weigh is not None or self.usage is not None) and self.counts(policy):
            if self.weigh is not None:
                weights = run.weighed(self.weigh, weights)
            run.usage = self.usage
            run.limits = limits = limits or NO_LIMITS
        if limits is not None and limits.first_byte and options.get("stream", run.asks_for_stream()):
            run.holds = True
            flags |= STREAM
        flags |= slot
        run.until_body = slot != 0
        run.header = options.get("retry_header", self.retry_header)
        run.predicate = options.get("predicate")
        run.races = policy._races(flags)
        scope = run.scope = current()
        parent = 0
        if scope is not None:
            around, parent = inherited(scope, engine)
            limit = min(limit, around) if limit and around else limit or around
            if "criticality" not in options:
                flags = with_criticality(flags, criticality_of(scope, criticality_in(flags)))
        while True:
            route, run.route = self.route_of(policy, options.get("route"), run)
            # The query is cut off: holds ignore it, and it may contain a secret (S6).
            target = native.target(route, run.path().partition("?")[0]) if policy._holds else 0
            run.call, step = engine.begun(native.begin(route, flags, limit, parent, target, weights))
            if not is_stale_route(step):
                break
            self._routes.clear()
        run.races = policy._races(flags)
        if limits is not None and limits.until_delivery:
            return step
        if limit or own is not None:
            run.until = native.now() + min(limit - 1 if limit else 1 << 53, 1 << 53 if own is None else own)
        return step

    def facts(self, policy: Policy) -> tuple[int | None, int]:
        """Returns the policy's deadline in microseconds (None without one) and its body flag.

        Both are cached until the next `retune`.
        """
        tunings = policy.engine.tunings
        facts = self._facts.get(policy)
        if facts is None or facts[0] != tunings:
            own = policy._setting("deadline")
            slot = SLOT_UNTIL_BODY if policy._setting("slot_until") == "body" else 0
            facts = tunings, int(own) if isinstance(own, (int, float)) else None, slot
            self._facts[policy] = facts
        return facts[1], facts[2]

    def counts(self, policy: Policy) -> bool:
        """Returns whether a policy has limits that may count weights."""
        tunings = policy.engine.tunings
        known = self._counts.get(policy)
        if known is None or known[0] != tunings:
            keys = ("rate_limit.limits", "rate_limit.pool")
            known = tunings, any(policy._setting(key) is not None for key in keys)
            self._counts[policy] = known
        return known[1]

    def limits_of(self, policy: Policy) -> Limits | None:
        """Returns the timeouts that a policy has for streams; None without any."""
        tunings = policy.engine.tunings
        known = self._limits.get(policy)
        if known is None or known[0] != tunings:
            known = self._limits[policy] = tunings, limits_of(policy)
        return known[1]

    def retries(self, policy: Policy, method: str) -> bool:
        """Returns whether the policy retries requests with this HTTP method."""
        tunings = policy.engine.tunings
        known = self._methods.get((policy, method))
        if known is None or known[0] != tunings:
            if len(self._methods) >= _MOST_ROUTES:
                self._methods.clear()
            known = tunings, policy.engine.native.retries_method(policy._number, method)
            self._methods[policy, method] = known
        return known[1]

    def route_of(self, policy: Policy, given: str | None, run: HttpRun) -> tuple[int, str]:
        """Returns the number of a request's route, and the route's key."""
        name: Any = run.origin() if given is None else given
        route = self._routes.get((policy, name))
        if route is None:
            if len(self._routes) >= _MOST_ROUTES:
                self._routes.clear()
            key = name if isinstance(name, str) else key_of(name)
            route = self._routes[policy, name] = policy.engine.native.route(policy._number, key), key
        return route


def key_of(origin: Origin) -> str:
    """Formats an origin as a route key: `https://host:443`."""
    scheme, host, port = origin
    host = f"[{host}]" if ":" in host and host[:1] != "[" else host
    return f"{scheme}://{host}:{port or _PORTS.get(scheme, 0)}"
