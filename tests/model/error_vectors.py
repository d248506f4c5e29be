"""Vectors of the rule for errors of plain functions (spec 1.5): chains as data, for every host to walk."""

from __future__ import annotations

from typing import Any

import classify
import errors
import wire
from policy import Policy, build

Node = dict[str, Any]

PLAIN: Node = {}
POLICIES: dict[str, list[tuple[str, Any]]] = {
    "default": [("preset", "http")],
    "listed": [("preset", "http"), ("retry.statuses", 500), ("retry.statuses", 429)],
}
TYPES = ("never_sent", "timeout", "transient", "conflict", "permanent", "ignored")
WRAPPERS = ("wraps_transient", "wraps_timeout", "wraps_never_sent")


def word(outcome: classify.Outcome) -> int:
    """The outcome as it crosses the border, without the event that carries it."""
    kind = classify.CLASSES.index(outcome.kind)
    event = {"event": "finished", "attempt": 0, "kind": kind, "opinion": outcome.opinion}
    packed = wire.event_word({**event, "retry_after_us": outcome.retry_after})
    return packed - wire.EVENTS.index("finished")


def can(host: str, case: Node) -> bool:
    """Whether errors of this language can look like that."""
    chain: list[Node] = case["chain"]
    nodes = chain + [node for each in chain for member in each.get("members", []) for node in member]
    last = len(nodes) - 1
    if host in ("python", "javascript"):
        # A code and a name of a type are one and the same in JavaScript.
        apart = all(not ("type" in node and "errno" in node) for node in nodes)
        return host == "python" or apart
    if any("members" in node or ("raises" in node and host != "kotlin") for node in nodes):
        return False
    if host == "kotlin":
        kinds = [node.get("type") for node in nodes if "status" in node or "aws" in node]
        typed = [node.get("type") for node in nodes if "sqlstate" in node]
        return (
            not case["on"]
            and all("errno" not in node and "grpc" not in node for node in nodes)
            and all(node.get("type") != "wraps_timeout" for node in nodes)
            and all(kind in (None, "timeout") for kind in kinds)
            and all(kind in (None, "transient") for kind in typed)
            and ("cycle" not in case or last > 0)  # no throwable is its own cause
        )
    if host == "swift":
        plain = all(not {"aws", "grpc", "sqlstate"} & node.keys() for node in nodes)
        alone = all(len({"type", "status", "errno", "ours"} & node.keys()) < 2 for node in nodes)
        listed = all(
            not node.get("type", "").startswith("wraps") and node.get("type") != "conflict" for node in nodes
        )
        return plain and alone and listed and not case["on"] and "cycle" not in case
    leaves = {"type", "status", "errno", "grpc", "ours"}
    ends = (None, "breaker_open", "forced_open", "attempt_timeout", "deadline_exceeded", "cost_above_burst")
    return (  # Rust: errors of libraries have the causes that the library gives them
        "cycle" not in case
        and not case["on"]  # the type that `on` names is a parameter
        and all("aws" not in node and "sqlstate" not in node and "retry_after" not in node for node in nodes)
        and all(node.get("type") not in ("never_sent", "ignored", *WRAPPERS[1:]) for node in nodes)
        and all(not leaves & node.keys() or node.get("type") == "wraps_transient" for node in nodes[:-1])
        and all(len(leaves & node.keys()) < 2 and node.get("ours") in ends for node in nodes)
        and nodes[-1].get("type") != "wraps_transient"
        and (len(nodes) < 7 or nodes[0].get("type") != "wraps_transient")  # the wrapper itself is two errors
        and all(node.get("errno") not in ("ENOSPC", "EPERM") for node in nodes)
        and all(
            type(node.get("status", 400)) is int and 400 <= node.get("status", 400) < 600 for node in nodes
        )
    )


def chains() -> list[Node]:
    """The chains, with a policy and `on` where they differ from the default."""
    found: list[Node] = []

    def add(*chain: Node, **more: Any) -> None:
        found.append({"policy": "default", "on": False, "chain": list(chain), **more})

    unlisted_errnos = ("ENOENT", "EACCES", "EINVAL", "EPERM", "ENOSPC")
    errnos = " ".join(errors.ERRNOS.values()).split()
    add(PLAIN)
    for kind in (*TYPES, *WRAPPERS):
        add({"type": kind})
        add(PLAIN, {"type": kind})
        add({"type": kind}, {"status": 503})
        add({"type": kind}, {"status": 404})
    for status in (400, 401, 404, 408, 409, 425, 429, 499, 500, 502, 503, 504, 599):
        for policy in POLICIES:
            add({"status": status}, policy=policy)
        add({"status": status, "retry_after": 7})
        add({"status": status}, on=True)
    for strange in (0, 200, 399, 600, -503, "503", True, None, 503.5):
        add({"status": strange})
        add({"status": strange}, {"type": "timeout"})
    add(PLAIN, PLAIN, {"status": 429, "retry_after": 3})
    add({"type": "timeout", "status": 404})
    add({"type": "timeout", "status": 429, "retry_after": 2})
    add({"type": "permanent", "status": 503})
    add({"status": 404, "errno": "ECONNRESET"})
    for name in (*errnos, *unlisted_errnos):
        add({"errno": name})
        add(PLAIN, {"errno": name})
    add({"errno": "EPIPE"}, {"type": "never_sent"})
    add({"errno": "EINVAL"}, {"type": "never_sent"})
    add({"errno": "ENOENT"}, {"status": 503})
    for wrapper in WRAPPERS:
        add({"type": wrapper}, PLAIN)
        for kind in (*TYPES, *WRAPPERS):
            add({"type": wrapper}, {"type": kind})
        add({"type": wrapper}, PLAIN, {"type": "timeout"})
        add({"type": wrapper}, {"errno": "ECONNREFUSED"})
        add({"type": wrapper}, {"errno": "EINVAL"})
        add({"type": wrapper, "status": 404}, {"type": "timeout"})
        add(*[{"type": wrapper}, *[PLAIN] * 6, {"type": "timeout"}])
        add(*[{"type": wrapper}, *[PLAIN] * 7, {"type": "permanent"}])
        add({"type": wrapper}, {"ours": "breaker_open"})
    for deep in (6, 7, 8, 20):
        add(*[*[PLAIN] * deep, {"status": 503}])
        add(*[*[PLAIN] * deep, {"type": "timeout"}])
        add(*[*[PLAIN] * deep, {"errno": "ECONNRESET"}])
    add(PLAIN, cycle=0)
    add(PLAIN, PLAIN, cycle=0)
    add(PLAIN, PLAIN, PLAIN, cycle=1)
    add({"type": "wraps_transient"}, PLAIN, cycle=0)
    for word in ("Throttling", "SlowDown", "RequestLimitExceeded", "ValidationException", "AccessDenied"):
        for status in (400, 503):
            add({"aws": word, "status": status})
        add({"aws": word, "status": 400, "retry_after": 4})
    for code in range(1, len(errors.GRPC)):
        add({"grpc": code})
        add(PLAIN, {"grpc": code})
    for pushback in ("250", "-1"):
        add({"grpc": 14, "pushback": pushback})
    states = "08001 08006 53100 53300 57P01 57P03 58030 HYT00 40001 40P01 55P03".split()
    for state in (*states, "23505", "42601", "57014", "22012"):
        add({"sqlstate": state})
        add({"sqlstate": state, "type": "transient"})
        add({"sqlstate": state}, {"type": "timeout"})
    for ours in errors.OURS:
        add({"ours": ours})
        add(PLAIN, {"ours": ours})
        add({"ours": ours}, {"status": 404})
    for kind in TYPES:
        add({"type": kind}, on=True)
    add(PLAIN, on=True)
    add(PLAIN, {"status": 503}, on=True)
    add(PLAIN, {"status": 404}, on=True)
    add({"status": 429, "retry_after": 5}, on=True)
    timeout, broken, bad = [{"type": "timeout"}], [PLAIN, {"type": "transient"}], [{"status": 404}]
    for members in ([timeout, broken], [broken, timeout], [timeout, bad], [bad, timeout], [[PLAIN], timeout]):
        add({"members": members})
        add(PLAIN, {"members": members})
    add({"members": [timeout] * 8 + [bad]})
    add({"members": [timeout] * 7 + [bad]})
    add({"members": [[{"members": [timeout, broken]}], timeout]})
    add({"raises": True, "status": 503})
    add({"raises": True, "status": 503}, {"type": "timeout"})
    return found


def cases() -> Node:
    """The contents of `errors/chains.json`."""
    policies = {name: build(name, pairs) for name, pairs in POLICIES.items()}
    done = []
    for case in chains():
        policy = policies[case["policy"]]
        assert isinstance(policy, Policy)
        outcome, note = errors.judge(case["chain"], policy, case["on"])
        hosts = [host for host in ("python", "javascript", "kotlin", "swift", "rust") if can(host, case)]
        says = {"kind": outcome.kind, "opinion": outcome.opinion, "retry_after_us": outcome.retry_after}
        done.append(case | {"word": word(outcome), "note": note, "says": says, "hosts": hosts})
    listed = [{"name": name, "pairs": pairs} for name, pairs in POLICIES.items()]
    return {"spec": ["1.5"], "policies": listed, "cases": done}
