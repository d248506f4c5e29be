"""Documents: named policies from text, every mistake at once."""

from __future__ import annotations

import json
import pathlib
import pickle

import pytest

import tidegate

TEXT = """
[policy.payments]
preset = "http"
deadline = "10s"
retry = { max_attempts = 3, statuses = [429, 503], budget = { kind = "window", ttl = "10s" } }
bulkhead = { kind = "fixed", max_concurrency = 10, max_queue = "none", acquire_timeout = "250ms" }

[policy.search]
attempt_timeout = "1500ms"
retry.respect_retry_after = false
"""


def test_a_document_gives_its_policies_by_name(engine: tidegate.Engine) -> None:
    policies = tidegate.loads(TEXT, engine=engine)
    assert sorted(policies) == ["payments", "search"]
    payments = policies["payments"]
    assert payments is policies["payments"]
    assert payments.call(lambda: 3) == 3
    assert payments._seconds("deadline") == 10.0
    assert payments._seconds("retry.max_retry_after") == 60.0, "the preset's"
    assert payments._count("bulkhead.max_queue") is None
    assert payments._seconds("bulkhead.acquire_timeout") == 0.25
    assert policies["search"]._seconds("attempt_timeout") == 1.5
    assert policies["search"]._setting("retry.respect_retry_after") == 0


def test_the_same_policies_in_json(engine: tidegate.Engine, tmp_path: pathlib.Path) -> None:
    document = {"policy": {"payments": {"deadline": "10s", "retry": {"statuses": [503]}}}}
    path = tmp_path / "policies.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    policies = tidegate.load(path, engine=engine)
    assert repr(policies["payments"]) == "Policy('payments', deadline=10.0, retry={'statuses': [503]})"
    (tmp_path / "policies.toml").write_text(TEXT, encoding="utf-8")
    assert len(tidegate.load(tmp_path / "policies.toml", engine=tidegate.Engine(seed=1))) == 2


def test_five_mistakes_are_five_errors_with_their_lines() -> None:
    wrong = """
    [policy.a]
    deadline = 10
    retry.max_attempts = 0
    retry.bakoff.base = "1s"
    [policy.b]
    attempt_timeout = "soon"
    bulkhead.max_queue = 3
    """
    with pytest.raises(tidegate.PolicyError) as error:
        tidegate.loads(wrong)
    found = {key: rule for key, _, rule in error.value.mistakes}
    assert len(error.value.mistakes) == 5, error.value
    assert found["policy.a.deadline"].endswith("(line 3)")
    assert "did you mean" in "".join(found.values())
    assert "policy.b.bulkhead.max_concurrency" in found


def test_an_unknown_name_lists_the_known_ones(engine: tidegate.Engine) -> None:
    policies = tidegate.loads(TEXT, engine=engine)
    with pytest.raises(tidegate.UnknownPolicy, match=r"did you mean payments.*payments, search"):
        policies["paymnts"]
    assert policies.get("nothing") is None
    assert "search" in policies


def test_a_policy_of_a_document_pickles(engine: tidegate.Engine) -> None:
    again = pickle.loads(pickle.dumps(tidegate.loads(TEXT, engine=engine)["search"]))
    assert (again.name, again._seconds("attempt_timeout")) == ("search", 1.5)


def test_only_the_two_forms_are_read() -> None:
    with pytest.raises(ValueError, match="form = 'yaml': must be one of toml, json"):
        tidegate.loads("", form="yaml")


class Busy(Exception):
    """The warehouse asks for patience."""


class Late(Exception):
    """So does the carrier."""


def tries(policy: tidegate.Policy, error: type[Exception]) -> int:
    made: list[int] = []

    def work() -> None:
        made.append(1)
        raise error

    with pytest.raises(error):
        policy.call(work)
    return len(made)


RETRYING = """
[policy.warehouse]
retry = { max_attempts = 2, backoff = { base = "1ms" } }
[policy.carrier]
retry = { max_attempts = 3, backoff = { base = "1ms" } }
"""


def test_code_says_which_exceptions_the_policies_of_a_document_retry(
    engine: tidegate.Engine, tmp_path: pathlib.Path
) -> None:
    both = tidegate.loads(RETRYING, on=(Busy, Late), engine=engine)
    assert (tries(both["warehouse"], Busy), tries(both["carrier"], Late)) == (2, 3)
    both.reload(RETRYING + "[policy.new]\nretry = { max_attempts = 2, backoff = { base = '1ms' } }")
    assert tries(both["new"], Busy) == 2, "a policy of a newer version too"

    path = tmp_path / "policies.toml"
    path.write_text(RETRYING, encoding="utf-8")
    one = tidegate.load(path, on={"warehouse": Busy}, engine=tidegate.Engine(seed=2))
    assert (tries(one["warehouse"], Busy), tries(one["carrier"], Busy)) == (2, 1)
    assert tries(one["warehouse"], Late) == 1
    assert tries(one["carrier"].replace("copy", on=Late), Late) == 3


def test_a_newer_version_says_which_exceptions_its_new_policies_retry(engine: tidegate.Engine) -> None:
    new = RETRYING + "".join(
        f"[policy.{name}]\nretry = {{ max_attempts = 4, budget = {{ kind = 'none' }} }}\n" for name in "xy"
    )
    policies = tidegate.loads(RETRYING, on=Busy, engine=engine)
    for wrong, rule in (
        ({"carrier": Late}, "this version adds no such policy; it adds x, y"),
        ("x", "class"),
    ):
        with pytest.raises(tidegate.PolicyError, match=rule):
            policies.reload(new, on=wrong)  # type: ignore[arg-type]
        assert "x" not in policies, "nothing is changed"
    policies.reload(new, on={"x": (Late, Busy)})
    assert (tries(policies["x"], Late), tries(policies["x"], Busy)) == (4, 4)
    assert (tries(policies["y"], Late), tries(policies["y"], Busy)) == (1, 4), "it is not named"
    assert (tries(policies["carrier"], Late), tries(policies["carrier"], Busy)) == (1, 3), "as before"
    policies.reload(RETRYING)
    policies.reload(new, on=(Late,))
    assert (tries(policies["y"], Late), tries(policies["y"], Busy)) == (4, 1), "it is new again"
    policies.reload(RETRYING)
    with pytest.raises(tidegate.PolicyError, match="it adds none"):
        policies.reload(RETRYING, on={"x": Late})


def test_mistakes_in_what_a_document_retries_are_told_at_once() -> None:
    with pytest.raises(tidegate.PolicyError) as raised:
        tidegate.loads(RETRYING, on={"warehose": Busy, "carrier": "Late"})  # type: ignore[dict-item]
    keys = [key for key, _, _ in raised.value.mistakes]
    assert keys == ["on['warehose']", "on"]
    assert "the document has no such policy; it has carrier, warehouse" in str(raised.value)
