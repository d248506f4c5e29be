"""`Policies.reload`: a document that is edited while its policies are in use."""

from __future__ import annotations

import json
import pathlib
import threading
from collections.abc import Iterator

import pytest

import tidegate
from tidegate import testing

OLD = """
[pool.db]
bulkhead = { max_concurrency = 1, max_queue = 9 }
[policy.charges]
deadline = "10s"
retry = { max_attempts = 3, backoff = { base = "0s", max = "0s" }, budget = { kind = "none" } }
[policy.reads]
bulkhead.pool = "db"
[policy.gone]
retry.max_attempts = 2
"""
NEW = """
[pool.db]
bulkhead = { max_concurrency = 2, max_queue = 9 }
[policy.charges]
deadline = "4s"
retry = { max_attempts = 2, backoff = { base = "0s", max = "0s" }, budget = { kind = "none" } }
[policy.reads]
bulkhead.pool = "db"
[policy.search]
retry.max_attempts = 2
"""


def failing() -> None:
    raise ConnectionError


def test_everything_goes_over_and_what_is_counted_stays(engine: tidegate.Engine) -> None:
    policies = tidegate.loads(OLD, engine=engine)
    charges, gone = policies["charges"], policies["gone"]
    with pytest.raises(ConnectionError):
        charges.call(failing)
    assert charges.snapshot()["attempts"] == 3
    before = policies.digest
    done = policies.reload(NEW)
    assert (done.added, done.changed) == (("policy.search",), ("pool.db", "policy.charges"))
    assert done.removed == ("policy.gone",)
    assert done.digest == policies.digest == tidegate.loads(NEW, engine=tidegate.Engine()).digest != before
    assert policies["charges"] is charges
    assert (charges._seconds("deadline"), charges._count("retry.max_attempts")) == (4.0, 2)
    assert "deadline=4.0" in repr(charges)
    with pytest.raises(ConnectionError):
        charges.call(failing)
    assert charges.snapshot()["attempts"] == 5
    assert sorted(policies) == ["charges", "reads", "search"]
    assert policies["search"].call(lambda: 1) == 1
    with pytest.raises(tidegate.UnknownPolicy):
        policies["gone"]
    assert gone.call(lambda: 2) == 2, "its callers still have it"
    assert repr(policies.pools["db"]) == "Pool('db', bulkhead={'max_concurrency': 2, 'max_queue': 9})"
    again = policies.reload(NEW)
    assert (again.added, again.changed, again.removed, again.digest) == ((), (), (), done.digest)


def test_a_limit_that_grows_admits_who_waits(engine: tidegate.Engine) -> None:
    policies = tidegate.loads(OLD, engine=engine)
    reads, inside, leave = policies["reads"], threading.Semaphore(0), threading.Event()

    def read() -> None:
        inside.release()
        assert leave.wait(60)

    threads = [threading.Thread(target=reads.call, args=(read,)) for _ in range(2)]
    try:
        for thread in threads:
            thread.start()
        assert inside.acquire(timeout=60)
        policies.reload(NEW)
        assert inside.acquire(timeout=60), "the second one has been admitted"
    finally:
        leave.set()
        for thread in threads:
            thread.join(60)


@pytest.mark.parametrize(
    ("text", "mistakes"),
    [
        ("policy.charges.retry.max_attempts = 0", [("policy.charges.retry.max_attempts", "0")]),
        ("policy.charges.deadline = '1s'\npolicy.mine.deadline = '1s'", [("policy", '"mine"')]),
        (
            "pool.db.rate_limit = { permits = 1, per = '1s' }\npolicy.reads.deadline = '1s'",
            [("pool", '"db"'), ("policy", '"reads"')],
        ),
        ("policy.new.rate_limit = { permits = 1, per = '1s', store = 'fleet' }", [("policy", '"new"')]),
    ],
)
def test_or_nothing_does(text: str, mistakes: list[tuple[str, str]], engine: tidegate.Engine) -> None:
    policies = tidegate.loads(OLD, engine=engine)
    mine = tidegate.Policy("mine", deadline=7, engine=engine)
    charges, reads = policies["charges"], policies["reads"]
    digest, view = policies.digest, engine.snapshot()
    with pytest.raises(tidegate.PolicyError) as caught:
        policies.reload(text)
    assert [(key, value) for key, value, _ in caught.value.mistakes] == mistakes
    assert all(rule for _, _, rule in caught.value.mistakes)
    assert (policies.digest, engine.snapshot(), sorted(policies)) == (
        digest,
        view,
        ["charges", "gone", "reads"],
    )
    assert (charges._seconds("deadline"), mine._seconds("deadline")) == (10.0, 7.0)
    assert reads.call(lambda: 1) == 1


def test_a_file_is_read_again(tmp_path: pathlib.Path, engine: tidegate.Engine) -> None:
    path = tmp_path / "policies.toml"
    path.write_text(OLD, encoding="utf-8")
    policies = tidegate.load(path, engine=engine)
    path.write_text(NEW, encoding="utf-8")
    assert policies.reload(path).added == ("policy.search",)
    written = tmp_path / "policies.json"
    written.write_text(json.dumps({"policy": {"charges": {"deadline": "3s"}}}), encoding="utf-8")
    done = policies.reload(written)
    assert done.changed == ("policy.charges",)
    assert (
        policies.reload('{"policy": {"charges": {"deadline": "3000ms"}}}', form="json").digest == done.digest
    )
    with pytest.raises(ValueError, match="form = 'yaml'"):
        policies.reload("a: b", form="yaml")
    with pytest.raises(FileNotFoundError):
        policies.reload(tmp_path / "none.toml")


def test_policies_that_are_tested_stay_so(engine: tidegate.Engine) -> None:
    policies = tidegate.loads(OLD, engine=engine)
    made: list[int] = []

    def count() -> None:
        made.append(1)
        raise ConnectionError

    with testing.set_testing(attempts=1):
        policies.reload(NEW)
        with pytest.raises(ConnectionError):
            policies["charges"].call(count)
        assert len(made) == 1
    with pytest.raises(ConnectionError):
        policies["charges"].call(count)
    assert len(made) == 3, "the new document's two attempts"


def test_it_is_in_the_journal() -> None:
    engine = tidegate.Engine(seed=1, journal=True)
    policies = tidegate.loads(OLD, engine=engine)
    policies["charges"].call(lambda: 1)
    policies.reload(NEW)
    policies["search"].call(lambda: 1)
    assert tidegate.Engine.replay(engine.journal()).snapshot() == engine.snapshot()


def test_a_generator_of_a_documents_policy_keeps_its_slot(engine: tidegate.Engine) -> None:
    policies = tidegate.loads("policy.rows.bulkhead = { max_concurrency = 1, max_queue = 0 }", engine=engine)

    @policies["rows"]
    def rows() -> Iterator[int]:
        yield from range(3)

    reading = rows()
    assert next(reading) == 0
    with pytest.raises(tidegate.BulkheadFull):
        next(rows())
    assert list(reading) == [1, 2]
    assert list(rows()) == [0, 1, 2]
