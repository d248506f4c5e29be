"""The vectors that every language shares (`tests/README.md`), through the native half and nothing else."""

import json
from pathlib import Path

import pytest

from tidegate import PolicyError
from tidegate._native import Engine

VECTORS = Path(__file__).parents[2] / "tests" / "vectors"


def load(family):
    return [json.loads(path.read_text("utf-8")) for path in sorted((VECTORS / family).glob("*.json"))]


def pairs_of(pairs):
    return [(key, value if isinstance(value, str) else float(value)) for key, value in pairs]


def take_in(engine, policies):
    return {policy["name"]: engine.policy(policy["name"], pairs_of(policy["pairs"])) for policy in policies}


POOLS = {
    "bulkhead.pool": ("bulkhead", [("max_concurrency", 1.0)]),
    "rate_limit.pool": ("rate_limit", [("permits", 1.0), ("per", 1e6)]),
    "retry.budget.pool": ("budget", [("kind", "window")]),
}
"""What a case takes for granted: the pools that its policy names."""

FAMILIES = "wire rng backoff budget breaker throttle retry_after classify errors policy engine".split()
FAMILIES += ["classify_read", "policy_core"]


@pytest.mark.parametrize("family", FAMILIES)
def test_files_are_as_the_schema_says(family):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((VECTORS / "schema.json").read_text("utf-8"))
    files = load(family)
    assert files
    for file in files:
        jsonschema.Draft202012Validator({**schema, "oneOf": [{"$ref": f"#/$defs/{family}"}]}).validate(file)


SCRIPTS = [vector for file in load("engine") for vector in file["vectors"]]


def test_there_are_scripts():
    assert len(SCRIPTS) > 40


@pytest.mark.parametrize("vector", SCRIPTS, ids=lambda vector: vector["name"])
def test_engine_script(vector):
    engine = Engine(vector["seed"], manual_clock=True)
    for pool in vector.get("pools", ()):
        table = "retry.budget." if pool["kind"] == "budget" else f"{pool['kind']}."
        pairs = [(key.removeprefix(table), value) for key, value in pairs_of(pool["pairs"])]
        engine.pool(pool["name"], pool["kind"], pairs)
    policies, calls = take_in(engine, vector["policies"]), {}
    for entry in vector["script"]:
        engine.set_now(entry["at"])
        if "force" in entry:
            force = entry["force"]
            number = policies[force["policy"]]
            route = None if force["route"] is None else engine.route(number, force["route"])
            woken = [engine.force_open(number, route, force["on"])]
            step = entry.get("step")
        elif "begin" in entry:
            begin = entry["begin"]
            flags, remaining, parent, target = begin["request"]
            route = 0 if begin["route"] is None else engine.route(policies[begin["policy"]], begin["route"])
            if begin.get("path") is not None:
                target = engine.target(route, begin["path"])
            call, step, *woken = engine.begin(route, flags, remaining, calls.get(parent, 0), target)
            calls[entry["call"]] = call
        else:
            answer = engine.on(calls[entry["on"]], entry["event"])
            step, *woken = answer if isinstance(answer, tuple) else (answer,)
        assert step == entry.get("step"), entry["says"]
        assert (woken[0] if woken else []) == [calls[name] for name in entry["wakes"]], entry["says"]


def test_answers_are_classified():
    for file in load("classify"):
        engine = Engine(0, manual_clock=True)
        policies = take_in(engine, file["policies"])
        for case in file["cases"]:
            headers = [(name.encode(), value.encode()) for name, value in case["headers"]]
            word = engine.classify(policies[case["policy"]], case["status"], headers, file["wall_us"])
            assert word == case["word"], case


def test_answers_are_classified_by_what_was_read_of_them():
    for file in load("classify_read"):
        engine = Engine(0, manual_clock=True)
        policies = take_in(engine, file["policies"])
        for case in file["cases"]:
            headers = [(name.encode(), value.encode()) for name, value in case["headers"]]
            body = case["body"].encode()
            policy = policies[case["policy"]]
            word = engine.classify_read(policy, case["status"], headers, body, file["wall_us"])
            assert word == case["word"], case


def test_policies_and_their_mistakes():
    for file in load("policy"):
        for case in file["cases"]:
            engine = Engine(0, manual_clock=True)
            for key, name in case["pairs"]:
                if key in POOLS and name:
                    engine.pool(name, *POOLS[key])
            try:
                engine.policy("p", pairs_of(case["pairs"]))
                wrong = []
            except PolicyError as error:
                wrong = sorted({key for key, _, _ in error.mistakes})
            assert wrong == case["wrong"], case
