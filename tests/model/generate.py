"""Writes ``tests/vectors`` and ``tests/scenarios`` from the model; ``--check``: are they current?"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import answer_vectors
import backoff
import budgets
import classify
import error_vectors
import fleet_closings
import fleet_limits
import fleet_vectors
import limit_vectors
import policy_vectors
import protection
import quantile_vectors
import retry_after
import rng
import scenarios
import script_vectors
import scripts
import usages
import wire
from keys import Pair
from policy import Policy, build, new_budget

VECTORS = pathlib.Path(__file__).parents[1] / "vectors"
Case = dict[str, Any]


# ---- the parts ----

EDGES = [0, 1, 2, 41, 2**32, 2**53 - 1, 2**63, 2**64 - 1]


def rng_cases() -> Case:
    """Draws for the edges of every argument, and of every range. Words above 2^53 are written as texts."""
    draws = [
        {
            "seed": str(seed),
            "ordinal": str(ordinal),
            "purpose": purpose,
            "attempt": attempt,
            "bits": str(rng.bits(seed, ordinal, purpose, attempt)),
        }
        for seed in EDGES
        for ordinal in EDGES[:6]
        for purpose in (1, 2)
        for attempt in (1, 2, 255)
    ]
    ranges = [
        (0, 0),
        (7, 7),
        (0, 1),
        (10, 20),
        (0, 2**53 - 1),
        (0, 2**64 - 1),
        (2**64 - 1, 2**64 - 1),
        (9, 3),
    ]
    uniform = [
        {"bits": str(x), "low": str(low), "high": str(high), "value": str(rng.uniform(x, low, high))}
        for low, high in ranges
        for x in [*EDGES, rng.bits(1, 2, 1, 3)]
    ]
    return {"spec": ["2.5", "R7"], "draws": draws, "uniform": uniform}


def backoff_cases() -> Case:
    """Every growth with every jitter, at the ends and in the middle of its range."""
    growths: list[Case] = [
        {"kind": "constant", "base": 70_000, "max": 5_000_000},
        {"kind": "linear", "base": 500_001, "max": 1_600_000},
        {"kind": "exponential", "base": 100_000, "multiplier": 2.0, "max": 5_000_000},
        {"kind": "exponential", "base": 99_999, "multiplier": 1.1, "max": 5_000_000},
        {"kind": "exponential", "base": 1, "multiplier": 1000.0, "max": 31_536_000_000_000},
        {"kind": "exponential", "base": 0, "multiplier": 2.0, "max": 5_000_000},
        {"kind": "polynomial", "base": 3_000_000, "exponent": 2, "max": 180_000_000},
        {"kind": "polynomial", "base": 1_000, "exponent": 8, "max": 31_536_000_000_000},
    ]
    jitters: list[Case] = [
        {"jitter": name} for name in ("none", "full", "full_floor", "equal", "decorrelated")
    ]
    jitters += [{"jitter": "bounded", "jitter_ratio": ratio} for ratio in (0.0, 0.2, 0.33, 1.0)]
    cases = []
    for place, (growth, jitter) in enumerate((g, j) for g in growths for j in jitters):
        settings = backoff.Backoff(**growth, **jitter)
        for n in (1, 2, 3, 7, 254):
            xs = [rng.bits(place, 0, rng.BACKOFF, i) for i in range(1, n + 1)]
            case = {
                **growth,
                **jitter,
                "seed": place,
                "n": n,
                "ceiling": backoff.growth(settings, settings.base, n),
            }
            cases.append({**case, "delay": backoff.draw(settings, settings.base, xs)})
        for x in (0, 2**64 - 1):
            delay = backoff.draw(settings, settings.base, [x])
            cases.append({**growth, **jitter, "bits": str(x), "n": 1, "delay": delay})
    return {"spec": ["2.4", "2.5"], "cases": cases}


def budget_cases(kind: str, settings: Case, ops: list[tuple[Any, ...]]) -> Case:
    """One budget, told one thing after another."""
    budget = new_budget({"kind": kind, **settings})
    charges: list[budgets.Charge] = []
    steps = []
    for at, op, *more in ops:
        step: Case = {"at": at, "op": op}
        if op in ("refund", "end") and not charges:
            continue
        if op == "deposit":
            budget.deposit(at)
        elif op == "withdraw":
            outcome, calls = (more[0], 0) if kind == "quota" else ("transient", more[0] if more else 0)
            step |= {"class": outcome} if kind == "quota" else {}
            step |= {"calls": calls} if kind == "share" else {}
            charge = budget.withdraw(at, outcome, calls)
            step["granted"] = charge is not None
            charges += [charge] if charge else []
        elif op == "refund":
            charge = charges.pop(more[0])
            step["charged_at"], step["cost"] = charge.at, charge.cost
            budget.refund(charge, at)
        elif op == "success":
            last = charges.pop() if charges and kind == "quota" else None
            charges.clear()
            step["cost"] = 0 if last is None else last.cost
            budget.success(last)
        elif op == "failure":
            budget.failure()
        elif op == "end":
            budget.retry_over(charges.pop())
        if isinstance(budget, budgets.Window):
            step["balance"] = budget.balance(at)
        elif isinstance(budget, (budgets.Ratio, budgets.Quota)):
            step["balance"] = budget.balance // (budgets.MICRO if kind == "ratio" else 1)
        elif isinstance(budget, budgets.Share):
            step["in_flight"] = budget.flying
        steps.append(step)
    return {"settings": settings, "steps": steps}


def budget_files() -> dict[str, list[Case]]:
    """A few stories for each kind."""
    w: list[tuple[Any, ...]] = [(5, "deposit")] * 5 + [(5, "withdraw")] * 3 + [(5, "refund", 0)]
    w += [(at, "withdraw") for at in (99_999, 100_004, 100_005, 899_999, 1_000_004, 1_000_005, 1_100_005)]
    w += [(2_000_000, "refund", 0), (2_000_000, "withdraw"), (9_000_000, "deposit"), (9_000_000, "withdraw")]
    window = [
        budget_cases(
            "window",
            {
                "ttl": 1_000_000,
                "min_retries_per_sec": floor,
                "percent_can_retry": percent,
                "rounding": rounding,
            },
            w,
        )
        for floor in (0.0, 1.0, 2.5)
        for percent in (0.0, 0.2, 0.34, 1.0)
        for rounding in ("floor", "ceil")
    ]
    window.append(
        budget_cases(
            "window",
            {"ttl": 95, "min_retries_per_sec": 0.0, "percent_can_retry": 1.0},
            [(7, "deposit"), *((at, "withdraw") for at in range(92, 104)), (103, "deposit")],
        )
    )
    earn: list[tuple[Any, ...]] = [(0, "deposit")] * 9 + [(0, "withdraw"), (0, "deposit"), (0, "withdraw")]
    earn += [(0, "refund", 0)] + [(0, "deposit")] * 30 + [(0, "withdraw")] * 3
    ratio = [
        budget_cases("ratio", {"ratio": part, "min_throughput": least}, earn[: 11 if least else None])
        for part in (0.1, 1 / 3, 1.0)
        for least in (0, 40)
    ]
    flights: list[tuple[Any, ...]] = (
        [(0, "withdraw", 1)] * 4 + [(0, "withdraw", 15)] * 2 + [(0, "withdraw", 20)] * 2
    )
    flights += [(0, "end"), (0, "refund", 0), (0, "withdraw", 20), (0, "withdraw", 100)]
    share = [
        budget_cases("share", {"share": 0.2, "min_retries": least}, flights[3 if not least else 0 :])
        for least in (0, 3)
    ]
    half: list[tuple[Any, ...]] = [(0, "withdraw"), *[(0, "failure"), (0, "withdraw")] * 6]
    half += [(0, "success"), (0, "withdraw")] * 12
    tokens = [
        budget_cases("tokens", {"max": most, "ratio": part}, half) for most in (3, 10) for part in (0.1, 1.0)
    ]
    # The published walk of the AWS SDKs' quota: 500 → 458 after three retries → 472 → 473.
    costs: list[tuple[Any, ...]] = [(0, "withdraw", "transient")] * 3 + [(0, "success")] * 2
    quota = [
        budget_cases("quota", {"capacity": 500, "cost": 14, "timeout_cost": 14, "throttled_cost": 5}, costs)
    ]
    costs = [(0, "withdraw", kind) for kind in ("timeout", "throttled", "transient", "timeout", "never_sent")]
    quota.append(
        budget_cases("quota", {"capacity": 20}, [*costs, (0, "refund", 0), (0, "success"), (0, "success")])
    )
    return {"window": window, "ratio": ratio, "share": share, "tokens": tokens, "quota": quota}


def retry_after_cases() -> Case:
    """Values beside the published ones, against one wall clock."""
    wall = 784_111_770_500_000
    flat = [
        "0",
        "1",
        "007",
        " 5",
        "5 ",
        "\t7\t",
        "  ",
        "-0",
        "-5",
        "--5",
        "- 5",
        "+1",
        "5,7",
        "5;",
        "0x10",
        "1_000",
        "9007199254",
        "9007199255",
        "18446744073709551616",
        "Sun, 06 Nov 1994 08:49:31 GMT",
        "Sun, 06 Nov 1994 08:49:30 GMT",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        " Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 8:49:37 GMT",
        "Sun 06 Nov 1994 08:49:37 GMT",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "Wed, 31 Dec 1969 23:59:59 GMT",
        "Saturday, 31-Dec-69 23:59:59 GMT",
        "Sunday, 06-Nov-94 08:49:37",
        "Tue, 29 Feb 2000 00:00:00 GMT",
        "Thu, 29 Feb 1900 00:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:00 GMT",
        "Sun Nov 06 08:49:37 1994",
        "Tuesday, 29-Feb-00 00:00:00 GMT",
        "Sun, 06 NOV 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT junk",
        "never",
        "null",
        "true",
    ]
    flat += ["1" * 64, "1" * 65, "0" * 65, "-" + "1" * 64, "1" * 64 + "s", "é", " " * 70 + "3"]
    cases = [
        {"value": value, "delay_us": retry_after.retry_after(value.encode("latin-1"), wall)} for value in flat
    ]
    return {"spec": ["2.8"], "wall_us": wall, "cases": cases}


def classify_cases() -> Case:
    """Statuses, hints and their order."""
    wall = 1_800_000_000_000_000
    none: list[list[str]] = []
    given: list[tuple[int, list[list[str]]]] = [
        (status, none)
        for status in (
            200,
            204,
            301,
            304,
            399,
            400,
            401,
            404,
            408,
            409,
            418,
            425,
            429,
            499,
            500,
            501,
            502,
            503,
            504,
            505,
            599,
        )
    ]
    heads: list[list[list[str]]] = [
        [["Retry-After", "7"]],
        [["retry-after", "1.5"]],
        [["retry-after-ms", "1500"]],
        [["x-ms-retry-after-ms", "20"]],
        [["x-amz-retry-after", "750"], ["x-ratelimit-reset", "9"]],
        [["retry-after-ms", "1500"], ["Retry-After", "1"]],
        [["Retry-After", "nonsense"], ["retry-after-ms", "3"]],
        [["Retry-After", "1"], ["Retry-After", "3"], ["Retry-After", "2"]],
        [["retry-after-ms", "1.5"]],
        [["RateLimit", '"default";r=0;t=30']],
        [["RateLimit", '"a";r=5;t=60, "b";r=0;t=9']],
        [["RateLimit-Reset", "12"]],
        [["X-RateLimit-Reset", "12"]],
        [["X-RateLimit-Reset", "1800000060"]],
        [["X-RateLimit-Reset", "1704067200"]],
        [["X-RateLimit-Reset", "1704067199"]],
        [["RateLimit-Reset", "12"], ["retry-after-ms", "3"]],
        [["x-should-retry", "true"]],
        [["x-should-retry", "false"]],
        [["x-should-retry", "maybe"]],
        [["grpc-retry-pushback-ms", "250"]],
        [["grpc-retry-pushback-ms", "-1"]],
        [["grpc-retry-pushback-ms", "x"]],
        [["grpc-retry-pushback-ms", "-1"], ["x-should-retry", "true"]],
        [["x-should-retry", "true"], ["grpc-retry-pushback-ms", "-1"]],
        [["Retry-After", "99999999999999"]],
        [["Retry-After", "Fri, 15 Jan 2027 08:00:30 GMT"]],
    ]
    given += [(status, head) for head in heads for status in (404, 429, 500, 503)]
    policies: dict[str, list[Pair]] = {
        "default": [("preset", "http")],
        "listed": [("preset", "http"), ("retry.statuses", 500), ("retry.statuses", 429)],
        "bare": [("attempt_timeout", 1)],
    }
    cases = []
    for name, pairs in policies.items():
        for status, head in given if name == "default" else given[:21]:
            cases.append(classified(name, pairs, wall, status, head))
    listed = [{"name": name, "pairs": pairs} for name, pairs in policies.items()]
    return {"spec": ["1.4", "2.2", "2.8", "ADR 0006"], "wall_us": wall, "policies": listed, "cases": cases}


def classified(
    name: str, pairs: list[Pair], wall: int, status: int, head: list[list[str]], body: str | None = None
) -> Case:
    """One answer under a policy."""
    policy = build(name, pairs)
    assert isinstance(policy, Policy)
    raw = [(key.encode(), value.encode()) for key, value in head]
    outcome = classify.classify(policy, status, raw, wall, body or "")
    names = [*classify.CLASSES, *policy.kinds]
    kind = names.index(outcome.name or outcome.kind)
    event = {"event": "finished", "attempt": 0, "kind": kind, "opinion": outcome.opinion}
    word = wire.event_word({**event, "retry_after_us": outcome.retry_after}) - wire.EVENTS.index("finished")
    says = {
        "kind": outcome.name or outcome.kind,
        "opinion": outcome.opinion,
        "retry_after_us": outcome.retry_after,
    }
    case = {"policy": name, "status": status, "headers": head, "word": word, "says": says}
    return case if body is None else {**case, "body": body}


def listed_cases() -> Case:
    """Statuses that a policy calls throttled, and 409 among those that it retries."""
    wall = 1_800_000_000_000_000
    statuses = [("retry.statuses", status) for status in (409, 429, 500, 529)]
    policies: dict[str, list[Pair]] = {
        "conflicts": [("retry.statuses", 409)],
        "throttled": [("retry.throttled_statuses", 429), ("retry.throttled_statuses", 529), *statuses],
        "only 503": [("preset", "http"), ("retry.throttled_statuses", 503)],
        "a conflict that throttles": [("retry.throttled_statuses", 409), ("retry.statuses", 409)],
    }
    quota = [["RateLimit-Reset", "12"]]
    cases = [
        classified(name, pairs, wall, status, head)
        for name, pairs in policies.items()
        for status in (200, 400, 402, 409, 429, 500, 503, 529)
        for head in ([], quota)
    ]
    listed = [{"name": name, "pairs": pairs} for name, pairs in policies.items()]
    return {"spec": ["1.4.7", "1.4.8"], "wall_us": wall, "policies": listed, "cases": cases}


def read_cases() -> Case:
    """Failed answers of metered services, under policies that read why they failed and one that does not."""
    wall = answer_vectors.WALL
    statuses = (408, 409, 429, 500, 502, 503, 504, 529)
    metered: list[Pair] = [
        ("retry.read_errors", 1),
        ("retry.throttled_statuses", 429),
        ("retry.throttled_statuses", 529),
        *[("retry.statuses", status) for status in statuses],
    ]
    policies: dict[str, list[Pair]] = {
        "metered": metered,
        "own": [
            ("kinds", "slow=transient"),
            ("kinds", "too_long=conflict"),
            ("retry.read_errors", 1),
            ("retry.retry_on", "throttled"),
            ("retry.retry_on", "too_long"),
        ],
        "unread": [pair for pair in metered if pair[0] != "retry.read_errors"],
    }
    given = [
        (case["status"], [list(pair) for pair in case["headers"]], case["body"])
        for case in answer_vectors.cases()["failures"]
        if case["status"] >= 400
    ]
    quota = [["x-ratelimit-remaining-tokens", "0"], ["x-ratelimit-reset-tokens", "6m0s"]]
    wait = '{"error": {"message": "Please try again in 1.5s."}}'
    error = '{"type": "error", "error": {"type": "%s"}}'
    given += [
        (status, head, body)
        for status in (400, 401, 402, 403, 404, 409, 413, 429, 500, 501, 529)
        for head, body in (
            ([], ""),
            (quota, ""),
            (quota, wait),
            ([["retry-after", "3"], *quota], wait),
            ([["x-should-retry", "true"]], error % "overloaded_error"),
            ([["x-should-retry", "false"]], error % "overloaded_error"),
            ([], error % "overloaded_error"),
            ([], error % "api_error"),
            ([["x-amzn-errortype", "ThrottlingException"]], ""),
        )
    ]
    cases = [
        classified(name, pairs, wall, status, head, body)
        for name, pairs in policies.items()
        for status, head, body in given
    ]
    listed = [{"name": name, "pairs": pairs} for name, pairs in policies.items()]
    return {"spec": ["15.5"], "wall_us": wall, "policies": listed, "cases": cases}


# ---- files ----


def dump(value: Any, depth: int) -> str:
    """JSON with one line for what lies deeper than `depth`."""
    if depth == 0 or not isinstance(value, (dict, list)) or not value:
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        if not any(isinstance(item, (dict, list)) for item in value):
            return json.dumps(value, ensure_ascii=False)
        return "[\n" + ",\n".join(dump(item, depth - 1) for item in value) + "\n]"
    return (
        "{\n"
        + ",\n".join(f"{json.dumps(key)}: {dump(item, depth - 1)}" for key, item in value.items())
        + "\n}"
    )


def files() -> dict[str, str]:
    """Path and text of every file that the model writes."""

    def head(family: str) -> Case:
        return {"family": family, "origin": "model", "source": "python tests/model/generate.py"}

    found = {"wire/words.json": wire.text()}
    for path, case in (
        ("rng/draws.json", rng_cases()),
        ("backoff/delays.json", backoff_cases()),
        ("retry_after/values.json", retry_after_cases()),
        ("classify/answers.json", classify_cases()),
        ("classify/statuses.json", listed_cases()),
        ("classify_read/answers.json", read_cases()),
        ("errors/chains.json", error_vectors.cases()),
        ("policy/pairs.json", policy_vectors.cases(core=False)),
        ("policy_core/pairs.json", policy_vectors.cases(core=True)),
        ("answer/services.json", answer_vectors.cases()),
        ("answer/usage.json", usages.cases()),
    ):
        found[path] = dump(head(path.split("/")[0]) | case, 2) + "\n"
    for kind, cases in budget_files().items():
        found[f"budget/{kind}.json"] = dump(head("budget") | {"kind": kind, "cases": cases}, 4) + "\n"
    for path, case in (
        limit_vectors.files() | fleet_vectors.files() | fleet_closings.files() | fleet_limits.files()
    ).items():
        found[path] = dump(head(path.split("/")[0]) | case, 4) + "\n"
    for name, case in quantile_vectors.files().items():
        found[f"quantile/{name}.json"] = dump(head("quantile") | case, 3) + "\n"
    for path, case in protection.files().items():
        found[path] = dump(head(path.split("/")[0]) | case, 4) + "\n"
    engine: dict[str, list[Case]] = {}
    for script in scripts.read():
        engine.setdefault(script.family, []).append(script_vectors.vector(script))
    for name, vectors in engine.items():
        found[f"engine/{name}.json"] = dump(head("engine") | {"vectors": vectors}, 4) + "\n"
    return found


def main() -> None:
    """Writes the files, or compares them."""
    stale = []
    written = {VECTORS / name: text for name, text in files().items()}
    for path, text in {**written, scenarios.FILE: scenarios.text()}.items():
        if "--check" in sys.argv:
            if not path.exists() or path.read_text() != text:
                stale.append(path.name)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if stale:
        raise SystemExit(
            f"not as the model has them: {', '.join(stale)}; run: python tests/model/generate.py"
        )


if __name__ == "__main__":
    main()
