"""Chains of errors that every language judges alike (`tests/vectors/errors`, semantics 1.5)."""

from __future__ import annotations

import errno
import itertools
import json
import pathlib
from typing import Any

import pytest

import tidegate
from tidegate import Policy
from tidegate._call.judge import UNLISTED, judge
from tidegate._engine.wire import KINDS, pack_outcome

FOLDER = pathlib.Path(__file__).parents[2] / "tests" / "vectors" / "errors"
TYPES = {
    "never_sent": ("httpx", "ConnectError"),
    "timeout": ("httpx", "TimeoutException"),
    "transient": ("httpx", "TransportError"),
    "conflict": ("sqlalchemy.orm.exc", "StaleDataError"),
    "permanent": ("httpx", "InvalidURL"),
    "ignored": ("concurrent.futures._base", "CancelledError"),
    "wraps_transient": ("requests.exceptions", "ConnectionError"),
    "wraps_timeout": ("openai", "APITimeoutError"),
    "wraps_never_sent": ("requests.exceptions", "ProxyError"),
}
OURS = {
    kind.code: kind
    for kind in (
        tidegate.RateLimited,
        tidegate.Throttled,
        tidegate.BulkheadFull,
        tidegate.BreakerOpen,
        tidegate.ForcedOpen,
        tidegate.AttemptTimeout,
        tidegate.DeadlineExceeded,
        tidegate.CostAboveBurst,
        tidegate.CallLost,
    )
}
GRPC = """OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED
    RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS
    UNAUTHENTICATED""".split()


class Plain(Exception):
    """An error of a type that no table lists."""


class Raises(Exception):
    """An error whose status cannot be read."""

    @property
    def status(self) -> int:
        raise RuntimeError


class Group(Exception):
    """A group as `ExceptionGroup` is one; Python 3.10 has none."""

    def __init__(self, members: list[Exception]) -> None:
        super().__init__("several")
        self.exceptions = tuple(members)


class Code:
    """A code of gRPC."""

    def __init__(self, number: int) -> None:
        self.name = GRPC[number]


def error_of(node: dict[str, Any]) -> Exception:
    """An error as the node describes it."""
    error: Any
    if "ours" in node:
        return OURS[node["ours"]]("ended")
    if "members" in node:
        return Group([built(each) for each in node["members"]])
    if "errno" in node:
        error = OSError(getattr(errno, node["errno"]), node["errno"])
    elif node.get("raises"):
        return Raises()
    elif "grpc" in node:
        error = type("RpcError", (Exception,), {"__module__": "grpc"})()
        error.code = lambda: Code(node["grpc"])
        pairs = [("grpc-retry-pushback-ms", node["pushback"])] if "pushback" in node else []
        error.trailing_metadata = lambda: pairs
    elif "type" in node:
        module, name = TYPES[node["type"]]
        error = type(name, (Exception,), {"__module__": module})()
    else:
        error = Plain()
    if "sqlstate" in node:
        error.sqlstate = node["sqlstate"]
    headers = {"Retry-After": str(node["retry_after"])} if "retry_after" in node else {}
    if "aws" in node:
        about = {"HTTPStatusCode": node["status"], "HTTPHeaders": headers}
        error.response = {"Error": {"Code": node["aws"]}, "ResponseMetadata": about}
    elif "status" in node:
        error.status_code = node["status"]
        error.headers = headers
    return error


def built(chain: list[dict[str, Any]], cycle: int | None = None) -> Exception:
    """The first error of a chain, with its causes."""
    errors = [error_of(node) for node in chain]
    for error, cause in itertools.pairwise(errors):
        error.__cause__ = cause
    if cycle is not None:
        errors[-1].__cause__ = errors[cycle]
    return errors[0]


def files() -> list[dict[str, Any]]:
    """All files of the family."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))]
    assert found
    return found


@pytest.mark.parametrize("file", files(), ids=lambda file: f"{len(file['cases'])} chains")
def test_chains_of_errors_are_judged_by_one_rule(file):
    statuses = {"default": None, "listed": [500, 429]}
    played = 0
    for case in file["cases"]:
        if "python" not in case["hosts"]:
            continue
        played += 1
        error = built(case["chain"], case.get("cycle"))
        listed = statuses[case["policy"]]
        retry = {} if listed is None else {"statuses": listed}
        on = {"on": (type(error),)} if case["on"] else {}
        said = judge(error, Policy(preset="http", retry=retry, **on))
        word = pack_outcome(KINDS["permanent"]) if said == UNLISTED else said
        assert (word, said == UNLISTED) == (case["word"], case["note"]), (case, said)
    assert played > 300
