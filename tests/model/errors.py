"""From an error of a plain function, with its causes, to an outcome (spec 1.5, docs/errors.md).

An error is a list of nodes, the error first and its causes after it. A node is what is known of one error:

    type        the class that the table gives its type; `wraps_…` for a type that is listed as a wrapper
    status, retry_after    an attribute, and a header beside it
    aws         an error code of AWS
    grpc, pushback    a code of gRPC, and `grpc-retry-pushback-ms` beside it
    sqlstate, errno
    ours        the end of an inner policy
    members     the errors of a group, each a list of nodes
    raises      the error's attributes raise when they are read
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import classify
from classify import Outcome
from policy import Policy

Node = dict[str, Any]

DEEPEST = 8
MEMBERS = 8

ERRNOS = {
    "never_sent": "ECONNREFUSED EHOSTUNREACH ENETUNREACH ENETDOWN EHOSTDOWN EADDRNOTAVAIL",
    "transient": "ECONNRESET ECONNABORTED EPIPE ENOTCONN ENETRESET ESHUTDOWN EAGAIN EWOULDBLOCK EINTR "
    "EBUSY ENOBUFS",
    "timeout": "ETIMEDOUT",
}
SQLSTATES = {
    "08001": "never_sent",
    "08004": "never_sent",
    "53300": "never_sent",
    "57P03": "never_sent",
    "57P01": "transient",
    "57P02": "transient",
    "HYT00": "timeout",
    "HYT01": "timeout",
    "55P03": "conflict",
    "08": "transient",
    "53": "transient",
    "58": "transient",
    "40": "conflict",
}
THROTTLING = """BandwidthLimitExceeded EC2ThrottledException LimitExceededException PriorRequestNotComplete
    ProvisionedThroughputExceededException RequestLimitExceeded RequestThrottled RequestThrottledException
    SlowDown ThrottledException Throttling ThrottlingException TooManyRequestsException
    TransactionInProgressException""".split()
GRPC: list[int | str] = [
    "ok", "ignored", 500, 400, 504, 404, 409, 403, 429, 400, "conflict", 400, "permanent", 500, 503, 500, 401,
]  # fmt: skip
OURS = {
    "rate_limited": "throttled",
    "throttled": "throttled",
    "bulkhead_full": "conflict",
    "breaker_open": "conflict",
    "forced_open": "conflict",
    "attempt_timeout": "timeout",
    "deadline_exceeded": "timeout",
    "cost_above_burst": "permanent",
    "call_lost": "permanent",
}


def answered(policy: Policy, status: int, headers: list[tuple[bytes, bytes]]) -> Outcome:
    """1.5.5: a status is judged as an answer is."""
    return classify.classify(policy, status, headers, 0)


def alone(node: Node, policy: Policy) -> tuple[Outcome | None, bool]:
    """1.5.2: what one error says without its causes, and whether it needs a note if permanent (1.5.16)."""
    if "ours" in node:
        return Outcome(OURS[node["ours"]]), False
    wait = node.get("retry_after")
    headers = [] if wait is None else [(b"retry-after", str(wait).encode())]
    status = None if node.get("raises") else node.get("status")
    if node.get("aws") in THROTTLING:
        return answered(policy, 429, headers), False
    if type(status) is int and 400 <= status <= 599:
        return answered(policy, status, headers), False
    if "grpc" in node:
        meaning = GRPC[node["grpc"]]
        if isinstance(meaning, str):
            return Outcome(meaning), False
        pushed = node.get("pushback")
        return answered(
            policy, meaning, [] if pushed is None else [(b"grpc-retry-pushback-ms", str(pushed).encode())]
        ), False
    state = node.get("sqlstate", "")
    if len(state) == 5:
        return Outcome(SQLSTATES.get(state) or SQLSTATES.get(state[:2]) or "permanent"), True
    listed = node.get("type", "")
    if listed and not listed.startswith("wraps_"):
        return Outcome(listed), True
    if "errno" in node and not listed:
        found = [kind for kind, names in ERRNOS.items() if node["errno"] in names.split()]
        return Outcome(found[0] if found else "permanent"), True
    return None, True


def by_causes(chain: list[Node], policy: Policy, grouped: bool) -> tuple[Outcome | None, bool]:
    """1.5.8 and 1.5.12: the first error that says something; else the innermost wrapper of these."""
    wrapper = None
    for node in chain:
        said, note = alone(node, policy)
        if said is not None:
            return said, note
        if node.get("type", "").startswith("wraps_"):
            wrapper = Outcome(node["type"].removeprefix("wraps_"))
        if "members" in node and not grouped:
            members = [by_causes(looked_at(each), policy, True)[0] for each in node["members"][:MEMBERS]]
            known = [each for each in members if each is not None and each.kind in classify.RETRYABLE]
            if members and len(known) == len(members):
                forbids = any(each.opinion == "do_not" for each in known)  # 1.6.4
                return replace(known[0], opinion="do_not") if forbids else known[0], True
    return wrapper, True


def looked_at(chain: list[Node]) -> list[Node]:
    """1.5.13: at most 8 errors, each once; so a cycle ends there."""
    return chain[:DEEPEST]


def judge(chain: list[Node], policy: Policy, on: bool) -> tuple[Outcome, bool]:
    """The outcome of an error, and whether its report has a note (1.5.15)."""
    said, may_note = by_causes(looked_at(chain), policy, False)
    found = said or Outcome("permanent")
    if on:  # 1.5.17
        passes = found.kind in classify.RETRYABLE
        opinion = "none" if found.opinion == "do_not" else found.opinion
        return Outcome(found.kind if passes else "transient", opinion, found.retry_after), False
    return found, may_note and found.kind == "permanent"
