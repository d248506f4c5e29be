"""The rules for adapters (`docs/python/http.md`) about requests and time, 1 to 7, each for every adapter.

8 to 14 are in `test_adapters_8_to_14.py`; `test_adapters_matrix.py` sees to it that no cell of that table is
missing.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import tidegate
from adapters import Adapter, bodies, dripping, ends, http
from conftest import Origin, quick
from tidegate.testing import FakeClock

__all__ = ["http"]

# Rule 1: replayability is judged before attempt 1.


@pytest.mark.parametrize("body", [b"bytes", "text"])
def test_1_whole_bodies_are_sent_again(
    http: Adapter, origin: Origin, engine: tidegate.Engine, body: Any
) -> None:
    origin.sequence(503, 503, 200)
    answer = http.open(quick(engine)).request("PUT", origin.url + "/x", body=body)
    assert (answer.status, answer.info["attempts"]) == (200, 3)
    assert bodies(origin) == [body if isinstance(body, str) else body.decode()] * 3


def test_1_a_seekable_body_rewinds_to_its_initial_offset(
    http: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence(503, 503, 200)
    file = http.file(b"0123456789")
    file.seek(3)
    assert http.open(quick(engine)).request("PUT", origin.url + "/x", body=file).status == 200
    assert bodies(origin) == ["3456789"] * 3


def test_1_a_file_is_rewound_after_an_attempt_that_was_stopped(
    http: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"fault": "hang"}, 200)
    often = {"max_attempts": 10, "backoff": {"base": 0.001, "max": 0.001}, "budget": None}
    client = http.open(quick(engine, attempt_timeout=0.15, retry=often))
    answer = client.request("PUT", origin.url + "/x", body=http.file(b"payload"))
    assert answer.status == 200 and answer.info["attempts"] >= 2  # more on a busy machine
    assert set(bodies(origin)) == {"payload"} and len(bodies(origin)) >= 2


def test_1_a_body_that_cannot_be_rewound_fails_closed(
    http: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence(503, 200)
    policy = quick(engine, retry={"backoff": {"base": 30, "max": 30}})
    started = time.monotonic()
    answer = http.open(policy).request("PUT", origin.url + "/x", body=http.file(b"abc", broken=True))
    assert (answer.status, answer.info["note"]) == (503, "tidegate: body cannot be replayed")
    assert time.monotonic() - started < 10, "found out before the wait, not after it"
    assert bodies(origin) == ["abc"]


def test_1_a_one_shot_body_is_sent_once(http: Adapter, origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence({"status": 503, "body": "the first failure"}, 200)
    answer = http.open(quick(engine)).request("PUT", origin.url + "/x", body=http.one_shot([b"a", b"b"]))
    assert (answer.status, answer.body) == (503, b"the first failure")
    assert isinstance(answer.info.pop("call"), int)
    assert answer.info == {
        "attempts": 1,
        "reason": "one_shot_body",
        "note": "tidegate: body cannot be replayed",
        "retry_at": None,
    }
    assert bodies(origin) == ["ab"]


def test_1_a_one_shot_body_leaves_the_original_exception(
    http: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"fault": "close"}, 200)
    with pytest.raises(http.error) as caught:
        http.open(quick(engine)).request("PUT", origin.url + "/x", body=http.one_shot([b"a"]))
    assert caught.value.__notes__ == ["tidegate: body cannot be replayed"]
    assert len(origin.log()) == 1


@pytest.mark.parametrize("kind", ["bytes", "iterable"])
def test_1_a_body_factory_makes_a_one_shot_body_retryable(
    http: Adapter, origin: Origin, engine: tidegate.Engine, kind: str
) -> None:
    origin.sequence(503, 503, 200)

    def factory() -> Any:
        return b"abc" if kind == "bytes" else http.one_shot([b"ab", b"c"])

    body = http.one_shot([b"a", b"bc"])
    answer = http.open(quick(engine)).request(
        "PUT", origin.url + "/x", body=body, tg={"body_factory": factory}
    )
    assert answer.status == 200
    assert bodies(origin) == ["abc"] * 3


# Rule 2: which requests retry.


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_2_a_method_that_is_not_idempotent_is_not_repeated(
    http: Adapter, origin: Origin, engine: tidegate.Engine, method: str
) -> None:
    origin.sequence(503, 200)
    answer = http.open(quick(engine)).request(method, origin.url + "/x", body=b"pay")
    assert (answer.status, answer.info["reason"]) == (503, "method")
    assert answer.info["note"].startswith("tidegate: not retried: a repeat could happen twice")
    assert len(origin.log()) == 1


def test_2_an_idempotency_key_makes_a_post_retryable_with_the_same_key(
    http: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    client = http.open(quick(engine))
    assert client.request("POST", origin.url + "/x", body=b"without").status == 200
    origin.sequence(503, {"fault": "reset"}, 200)
    answer = client.request("POST", origin.url + "/x", body=b"pay", headers={"Idempotency-Key": "k-1"})
    assert answer.status == 200
    assert [entry["headers"]["idempotency-key"] for entry in origin.log()] == ["k-1"] * 3


@pytest.mark.parametrize(("told", "attempts"), [(True, 2), (False, 1)])
def test_2_a_request_may_say_so_itself(
    http: Adapter, origin: Origin, engine: tidegate.Engine, told: bool, attempts: int
) -> None:
    origin.sequence(503, 200)
    http.open(quick(engine)).request("POST" if told else "GET", origin.url + "/x", tg={"idempotent": told})
    assert len(origin.log()) == attempts


def test_2_a_port_that_refuses_is_never_sent(http: Adapter, origin: Origin, engine: tidegate.Engine) -> None:
    origin.script(phases=[{"refuse": True}])
    with pytest.raises(http.error) as caught:
        http.open(quick(engine)).request("POST", origin.url + "/x", body=b"pay")
    assert caught.value.__notes__ == ["tidegate: gave up after 3 attempts"]


@pytest.mark.parametrize("fault", ["close", "reset", "garbage"])
def test_2_what_may_have_left_is_not_repeated_by_a_post(
    http: Adapter, origin: Origin, engine: tidegate.Engine, fault: str
) -> None:
    origin.sequence({"fault": fault}, 200)
    with pytest.raises(http.error) as caught:
        http.open(quick(engine)).request("POST", origin.url + "/x", body=b"pay")
    assert "could happen twice" in caught.value.__notes__[0]
    assert len(origin.log()) == 1


# Rule 3: the last response, or the original exception.


def test_3_the_last_response_is_returned_unread_and_intact(
    http: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence(503, 503, {"status": 503, "body_bytes": 200_000})
    client = http.open(quick(engine))
    response = client.stream("GET", origin.url + "/x")
    assert client.info(response)["note"] == "tidegate: gave up after 3 attempts"
    assert len(client.read(response)) == 200_000
    assert len(origin.log()) == 3


def test_3_the_original_exception_is_raised_with_a_note(
    http: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"fault": "close"})
    with pytest.raises(http.error) as caught:
        http.open(quick(engine)).request("GET", origin.url + "/x")
    assert not isinstance(caught.value, tidegate.TidegateError)
    assert caught.value.__notes__ == ["tidegate: gave up after 3 attempts"]
    assert len(origin.log()) == 3


def test_3_an_answer_that_was_drained_is_still_the_callers(
    http: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"status": 503, "body": "sorry", "retry_after": "1"})
    policy = quick(
        engine, retry={"max_attempts": 2, "max_retry_after": 60, "backoff": {"base": 0.5, "max": 1}}
    )
    client = http.open(policy)
    answer = client.request("GET", origin.url + "/x", tg={"deadline": 0.3})
    assert (answer.body, answer.info["reason"]) == (b"sorry", "would_outlive_deadline")
    # Stopped while it waits, when the first answer has been drained: that is what its caller gets.
    origin.sequence({"status": 503, "body": "sorry, later"})
    stop = threading.Timer(0.05, policy.force_open)
    stop.start()
    answer = client.request("GET", origin.url + "/x")
    stop.join()
    assert (answer.status, answer.body, answer.info["attempts"]) == (503, b"sorry, later", 1)


def test_3_no_note_where_nothing_was_held_back(
    http: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence(404)
    answer = http.open(quick(engine)).request("GET", origin.url + "/x")
    assert isinstance(answer.info.pop("call"), int)
    assert answer.info == {"attempts": 1, "reason": "not_retryable", "note": None, "retry_at": None}


def test_3_a_refusal_is_an_error_of_the_client(
    http: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    policy = quick(engine)
    client = http.open(policy)
    policy.force_open()
    with pytest.raises(http.error) as refused:
        client.request("GET", origin.url + "/x")
    assert isinstance(refused.value, tidegate.ForcedOpen)
    assert origin.log() == []


# Rule 4: a failed response is released before the next attempt.


@pytest.mark.parametrize("size", [100, 3_000_000])
def test_4_a_pool_of_one_connection_never_deadlocks(
    http: Adapter, origin: Origin, engine: tidegate.Engine, size: int
) -> None:
    origin.sequence(*[{"status": 503, "body_bytes": size}] * 2, 200)
    client = http.open(quick(engine), one_connection=True)
    assert client.request("GET", origin.url + "/x", timeout=3).status == 200  # a deadlock would be a timeout
    assert client.request("GET", origin.url + "/x", timeout=3).status == 200
    connections = {entry["connection"] for entry in origin.log()}
    assert len(connections) == (1 if size == 100 else 3)


def test_4_an_answer_that_drips_is_not_waited_for(
    http: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence(dripping(503, size=1000), 200)  # for a minute
    started = time.monotonic()
    answer = http.open(quick(engine, deadline=30.0)).request("GET", origin.url + "/x")
    assert (answer.status, answer.info["attempts"]) == (200, 2)
    assert time.monotonic() - started < 15


# Rule 5: Retry-After is never cut short.


def test_5_retry_after_is_never_early_in_1000_trials(http: Adapter, origin: Origin) -> None:
    clock = FakeClock(autojump=True)
    engine = tidegate.Engine(seed=7, clock=clock)
    policy = tidegate.Policy(engine=engine, retry={"max_attempts": 2, "max_retry_after": 120, "budget": None})
    at: list[float] = []
    answers: list[Any] = []
    for n in range(1000):
        answers += [{"status": 503, "retry_after": str(n % 90)}, 200]
    origin.sequence(*answers)
    client = http.open(policy, on_attempt=lambda: at.append(clock.now()))
    for _ in range(1000):
        assert client.request("GET", origin.url + "/x").status == 200
    waits = [later - earlier for earlier, later in zip(at[::2], at[1::2], strict=True)]
    assert len(waits) == 1000
    assert all(wait >= n % 90 for n, wait in enumerate(waits))
    assert any(wait > n % 90 for n, wait in enumerate(waits))


def test_5_a_wait_beyond_the_deadline_ends_at_once(
    http: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"status": 503, "retry_after": "3600", "body": "down"})
    policy = quick(engine, deadline=60, retry={"max_retry_after": 7200})
    started = time.monotonic()
    answer = http.open(policy).request("GET", origin.url + "/x")
    assert time.monotonic() - started < 15
    assert (answer.body, answer.info["reason"]) == (b"down", "would_outlive_deadline")
    note = "tidegate: not retried: the next wait (Retry-After 3600 s) would outlive the deadline"
    assert answer.info["note"] == note
    assert 3590 < answer.info["retry_at"].timestamp() - time.time() <= 3601


def test_5_a_wait_beyond_max_retry_after_ends_at_once(
    http: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence({"status": 503, "retry_after": "120"})
    answer = http.open(quick(engine)).request("GET", origin.url + "/x")
    assert answer.info["note"] == "tidegate: Retry-After 120 s exceeds max_retry_after 60 s"


# Rule 6: every wait can be left.


@pytest.mark.parametrize("where", ["attempt", "backoff", "queue"])
def test_6_a_caller_who_leaves_leaves_nothing_behind(
    http: Adapter, origin: Origin, engine: tidegate.Engine, where: str
) -> None:
    origin.sequence({"fault": "hang"} if where != "backoff" else 503)
    retry = {"max_attempts": 3, "backoff": {"base": 60, "max": 60}}
    policy = quick(
        engine, retry=retry, bulkhead={"max_concurrency": 1, "max_queue": 1, "acquire_timeout": 60}
    )
    if not http.is_async:
        # What can reach a thread is a signal, at any place: here at the start of an attempt.
        def interrupt() -> None:
            raise KeyboardInterrupt

        client = http.open(policy, on_attempt=interrupt)
        with pytest.raises(KeyboardInterrupt):
            client.request("GET", origin.url + "/x")
    else:
        client = http.open(policy)

        async def leave() -> None:
            async def get() -> Any:
                return await client.send("GET", origin.url + "/x")

            first = asyncio.ensure_future(get())
            await asyncio.sleep(0.05)
            waiting = [asyncio.ensure_future(get())] if where == "queue" else []
            await asyncio.sleep(0.05)
            assert engine.snapshot()["waiting"] == len(waiting)
            started = time.monotonic()
            for task in [*waiting, first]:
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert time.monotonic() - started < 5

        http.run(leave())
    view = engine.snapshot()
    assert (view["live"], view["waiting"], view["routes"][0]["pool"]["in_flight"]) == (0, 0, 0)
    assert set(ends(engine)) == {"cancelled"}


# Rule 7: two timeouts, two names; the deadline covers everything.


def test_7_an_attempt_timeout_is_retried(http: Adapter, origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence({"fault": "hang"}, 200)
    answer = http.open(quick(engine, attempt_timeout=0.4)).request("GET", origin.url + "/x")
    assert (answer.status, answer.info["attempts"]) == (200, 2)


def test_7_the_last_attempt_timeout_is_told(http: Adapter, origin: Origin, engine: tidegate.Engine) -> None:
    origin.sequence({"fault": "hang"})
    with pytest.raises(http.timeout_error) as caught:
        http.open(quick(engine, attempt_timeout=0.05)).request("GET", origin.url + "/x")
    assert caught.value.__notes__ == ["tidegate: gave up after 3 attempts"]


@pytest.mark.parametrize("given", ["policy", "around", "request"])
def test_7_the_deadline_ends_a_hanging_attempt(
    http: Adapter, origin: Origin, engine: tidegate.Engine, given: str
) -> None:
    origin.sequence({"fault": "hang"})
    client = http.open(quick(engine, deadline=0.2 if given == "policy" else 30))
    started = time.monotonic()
    with pytest.raises(http.timeout_error) as caught, tidegate.deadline(0.2 if given == "around" else 30):
        client.request("GET", origin.url + "/x", tg={"deadline": 0.2} if given == "request" else None)
    assert isinstance(caught.value, tidegate.DeadlineExceeded)
    assert 0.19 < time.monotonic() - started < 10


def test_7_the_deadline_covers_a_wait_for_a_connection(
    http: Adapter, origin: Origin, engine: tidegate.Engine
) -> None:
    origin.sequence(dripping(200, size=10_000))  # a large body may be in the buffers by now, this one is not
    client = http.open(quick(engine, deadline=0.3), one_connection=True)
    held = client.stream("GET", origin.url + "/x", tg={"policy": quick(engine, deadline=30.0)})
    started = time.monotonic()
    with pytest.raises(http.error):
        client.request("GET", origin.url + "/x", timeout=60)
    assert time.monotonic() - started < 15
    client.close_stream(held)


@pytest.mark.parametrize("status", [404, 503])
def test_7_the_deadline_holds_for_the_body_of_a_failed_answer(
    http: Adapter, origin: Origin, engine: tidegate.Engine, status: int
) -> None:
    origin.sequence(dripping(status, size=1000))
    once = quick(engine, deadline=0.3, retry={"max_attempts": 1})
    started = time.monotonic()
    with pytest.raises(tidegate.DeadlineExceeded):
        http.open(once).request("GET", origin.url + "/x")
    assert 0.28 < time.monotonic() - started < 15  # the body takes a minute
