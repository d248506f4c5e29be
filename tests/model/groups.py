"""Groups of targets as they are declared (spec 17.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import check
import keys
from keys import Pair

if TYPE_CHECKING:
    from policy import Policy

MOST = 16
SHORT = re.compile("(?!(ok|cancelled)$)[a-z][a-z0-9_]{0,49}")


@dataclass
class Member:
    """One target as it is declared: a policy with its components alone."""

    name: str
    share: int
    policy: Policy
    only_after: list[str] = field(default_factory=list)


@dataclass
class Keys:
    """A group as it is declared."""

    pick: str
    max_queue: int = 0
    max_wait: int = keys.SECOND
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
    if key == "attempt_timeout":
        return True
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
    queue: dict[str, int] = {}
    for key, value in pairs:
        if key in ("max_queue", "max_wait"):  # 17.6.1, 17.6.2
            least, most = (0, 10**7) if key == "max_queue" else (1, 365 * 86_400 * keys.SECOND)
            span = key == "max_wait"
            number = value if isinstance(value, (int, float)) and (span or keys.whole(value)) else -1
            if key in queue or not least <= float(number) <= most:
                wrong.append(key)
            queue[key] = int(number)
    if "max_wait" in queue and not queue.get("max_queue"):
        wrong.append("max_wait")
    after: dict[str, list[str]] = {}
    default: list[Pair] = []
    members: list[tuple[str, list[Pair]]] = []
    for key, value in pairs:
        if key == "member":
            twice = any(value == other for other, _ in members)
            if not isinstance(value, str) or not value or len(name) + len(value) > 99 or twice:
                wrong.append(key)
            members.append((str(value), []))
        elif key not in ("pick", "max_queue", "max_wait"):
            if key == "only_after":  # 17.7.1
                if not members or not isinstance(value, str) or not SHORT.fullmatch(value):
                    wrong.append(key)
                else:
                    after.setdefault(members[-1][0], []).append(value)
                continue
            if key == "share":
                if not keys.whole(value) or not 1 <= float(value) <= 1000:
                    wrong.append(key)
            elif not own(key) or (key == "attempt_timeout" and float(value) > 3600 * keys.SECOND):
                wrong.append(key)
            (members[-1][1] if members else default).append((key, value))
    if not 1 <= len(members) <= MOST or all(name in after for name, _ in members):
        wrong.append("members")
    if wrong:
        return sorted(set(wrong))
    group = Keys(str(picks[0]), queue.get("max_queue", 0), queue.get("max_wait", keys.SECOND))
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
        group.members.append(Member(member, share, policy, after.get(member, [])))
    return group
