"""Groups of targets as they are declared (spec 17.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import check
import keys
from keys import Pair

if TYPE_CHECKING:
    from policy import Policy

MOST = 16


@dataclass
class Member:
    """One target as it is declared: a policy with its components alone."""

    name: str
    share: int
    policy: Policy


@dataclass
class Keys:
    """A group as it is declared."""

    pick: str
    members: list[Member] = field(default_factory=list)


FOREIGN = [
    *[
        "max_queue",
        "acquire_timeout",
        "unit",
        "queue_target",
        "queue_interval",
        "codel",
        "queue_adaptive_lifo",
    ],
    *["prioritized", "pool"],
]
"""What a target's bulkhead lacks: a queue, and what belongs to the policies (17.1.5)."""


def own(key: str) -> bool:
    """17.1.3."""
    table, _, name = key.partition(".")
    if table == "rate_limit":
        return name in check.POOLED["rate_limit"]
    if table == "cooldown":
        return name in ("base", "max", "quota_wait")
    return (table == "bulkhead" and name not in FOREIGN) or (table == "breaker" and name != "unit")


def read(name: str, pairs: list[Pair]) -> Keys | list[str]:
    """A group from its pairs, or the keys that are wrong; pairs before the first `member` are the default."""
    from policy import Policy, build  # which reads groups with this

    wrong: list[str] = []
    picks = [value for key, value in pairs if key == "pick"]
    if len(picks) != 1 or picks[0] not in ("ladder", "balanced"):
        wrong.append("pick")
    default: list[Pair] = []
    members: list[tuple[str, list[Pair]]] = []
    for key, value in pairs:
        if key == "member":
            twice = any(value == other for other, _ in members)
            if not isinstance(value, str) or not value or len(name) + len(value) > 99 or twice:
                wrong.append(key)
            members.append((str(value), []))
        elif key != "pick":
            if key == "share":
                if not keys.whole(value) or not 1 <= float(value) <= 1000:
                    wrong.append(key)
            elif not own(key):
                wrong.append(key)
            (members[-1][1] if members else default).append((key, value))
    if not 1 <= len(members) <= MOST:
        wrong.append("members")
    if wrong:
        return sorted(set(wrong))
    group = Keys(str(picks[0]))
    for member, given in members:
        replaced = {key for key, _ in given}
        both = [pair for pair in default if pair[0] not in replaced] + given
        share = next((int(float(value)) for key, value in reversed(both) if key == "share"), 1)
        parts = [("retry.max_attempts", 1), *[pair for pair in both if pair[0] != "share"]]
        named = {key for key, _ in parts}
        if any(key.startswith("cooldown.") for key in named):  # 17.5.1
            usual: list[Pair] = [
                ("cooldown.max", 60 * keys.SECOND),
                ("cooldown.quota_wait", 300 * keys.SECOND),
            ]
            parts += [pair for pair in usual if pair[0] not in named]
        policy = build(f"{name}/{member}", parts)
        if not isinstance(policy, Policy):
            return policy
        group.members.append(Member(member, share, policy))
    return group
