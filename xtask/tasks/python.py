# The ten tasks of a new user in Python. `cargo xtask install-check` puts the blocks of the guide in place of the
# lines that begin with `#@`, indented as they are, the address of a server in place of `https://api.example`, and
# runs this with the wheel.

from __future__ import annotations

import asyncio
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout

SERVER = "https://api.example"
os.environ["ANTHROPIC_BASE_URL"] = SERVER

#@ docs/python.md: import httpx, tidegate, tidegate.httpx


def wrap_the_client() -> None:
    assert response.status_code == 200
    assert response.extensions["tidegate"]["attempts"] == 2, "the first answer was a 503"
    catalogue()


def catalogue() -> None:
    with redirect_stdout(io.StringIO()) as printed:
        #@ docs/python.md: print(response.extensions["tidegate"])
    assert "'attempts': 1" in printed.getvalue(), printed.getvalue()
    assert "catalogue" in orders.snapshot()["routes"]


def wrap_a_function() -> None:
    #@ docs/python.md: def place_order():
    before = orders.snapshot()["attempts"]
    assert orders.call(place_order)["id"] == "1"
    assert orders.snapshot()["attempts"] == before + 2, "the first answer was a 503"

    @orders
    def place_another():
        return place_order()

    assert place_another()["id"] == "1"
    assert orders.snapshot()["attempts"] == before + 3


def wrap_an_sdk() -> None:
    #@ docs/python/language-models.md: chats = tidegate.Policy("chats", preset="llm")
    assert answer.choices[0].message.content == "hi"
    assert chats.snapshot()["attempts"] == 2, "the first answer was a 503"
    #@ docs/python/language-models.md: claude = anthropic.Anthropic(
    assert message.content[0].text == "hi"
    assert chats.snapshot()["attempts"] == 4, "so was the first one here"
    stream_of(client)


def stream_of(client) -> None:
    #@ docs/python/language-models.md: words = []
    assert len(words) == 3, words


def limit() -> None:
    #@ docs/python.md: strict = tidegate.Policy("strict"
    assert [strict.call(int), strict.call(int)] == [0, 0]
    try:
        strict.call(int)
        raise AssertionError("the third call of a second was admitted")
    except tidegate.RateLimited as error:
        assert error.http_status == 429 and 0 < error.retry_in <= 0.5, error.retry_in
    started = time.monotonic()
    big.call(int)
    big.call(int)
    assert time.monotonic() - started > 0.9, "the second one waits for two tokens"


def set_a_deadline() -> None:
    #@ docs/python.md: with tidegate.deadline(2.0):
    assert response.status_code == 200
    started = time.monotonic()
    try:
        with tidegate.deadline(0.3):
            client.get(f"{SERVER}/slow")
        raise AssertionError("it has answered")
    except tidegate.DeadlineExceeded as error:
        assert isinstance(error, httpx.TimeoutException)
    assert time.monotonic() - started < 5


def stream() -> None:
    with redirect_stdout(io.StringIO()) as printed:
        #@ docs/python.md: def pages():
    assert printed.getvalue() == "an order\n", printed.getvalue()
    import httpx2, openai  # the first block of the page has done so

    #@ docs/python/language-models.md: first_byte_timeout=30.0
    assert text == "high tide is at six in the evening", text


def cancel() -> None:
    #@ docs/python/shapes.md: async def buy(client):
    #@ docs/python/shapes.md: asyncio.wait_for(

    async def main() -> None:
        started = time.monotonic()
        async with httpx.AsyncClient(base_url=SERVER) as client:
            assert await read_soon(client, "/slow", 0.1) is None
        transport = tidegate.httpx.AsyncTransport(httpx.AsyncHTTPTransport(), shop)
        async with httpx.AsyncClient(base_url=SERVER, transport=transport) as client:
            call = asyncio.create_task(client.get("/slow"))
            await asyncio.sleep(0.1)
            assert shop.engine.snapshot()["live"] == 1
            call.cancel()
            await asyncio.wait([call])
            assert call.cancelled()
        assert time.monotonic() - started < 5

    asyncio.run(main())
    assert shop.engine.snapshot()["live"] == 0, "a call is left"
    assert shop.snapshot()["ends"] == {"cancelled": 2}, shop.snapshot()["ends"]


def see_why() -> None:
    #@ docs/python.md: def log_retry(it: tidegate.Retrying):

    def refuse() -> None:
        raise ConnectionError("refused")

    with redirect_stdout(io.StringIO()) as printed:
        try:
            careful.call(refuse)
        except ConnectionError as error:
            explained = tidegate.explain(error)
    assert (explained.reason, explained.attempts) == ("attempts", 2), explained
    assert printed.getvalue().startswith("attempt 1 failed (transient): "), printed.getvalue()
    with redirect_stdout(io.StringIO()) as printed:
        #@ docs/python/telemetry.md: engine = tidegate.Engine(journal=True)
    assert "ended as attempts: All attempts are used up." in printed.getvalue(), printed.getvalue()
    assert printed.getvalue().count("retry_scheduled") == 2, printed.getvalue()


def measure() -> None:
    with redirect_stderr(io.StringIO()) as logged:
        #@ docs/python/telemetry.md: import logging
        answers = iter([ConnectionError("reset"), "paid"])
        assert payments.call(next_of, answers) == "paid"
    assert "retry 1 of " in logged.getvalue() and "policy payments" in logged.getvalue(), logged.getvalue()
    #@ docs/python/telemetry.md: registry = prometheus_client.CollectorRegistry()
    payments.call(lambda: "paid")
    labels = {"policy": "payments", "route": "default", "outcome": "ok"}
    assert registry.get_sample_value("tidegate_calls_total", labels) == 1


def next_of(answers):
    answer = next(answers)
    if isinstance(answer, Exception):
        raise answer
    return answer


TESTS = '''
#@ docs/python/testing.md: def test_a_503_is_retried(tidegate_clock):
'''


def test_with_time_under_control() -> None:
    #@ docs/python.md: patient = tidegate.Policy("patient"
    answers = iter([TimeoutError(), TimeoutError(), TimeoutError(), "at last"])
    started = time.monotonic()
    assert patient.call(next_of, answers) == "at last"
    assert clock.now() > 40 and time.monotonic() - started < 5


def test_with_switches() -> None:
    #@ docs/python/testing.md: from tidegate.testing import FakeClock, assert_idle, set_active
    #@ docs/python/testing.md: with set_testing(attempts=2):
    with set_active(False):
        try:
            policy.call(next_of, iter([ConnectionError("reset"), "done"]))
            raise AssertionError("an inactive policy has retried")
        except ConnectionError:
            pass
    assert policy.call(next_of, iter([ConnectionError("reset"), "done"])) == "done"
    #@ docs/python/testing.md: assert_idle(engine)


def test_with_pytest() -> None:
    with open("test_orders.py", "w", encoding="utf-8") as file:
        file.write(TESTS)
    pytest = [sys.executable, "-m", "pytest", "-q", "test_orders.py"]
    tested = subprocess.run(pytest, capture_output=True, text=True)
    assert tested.returncode == 0 and "1 passed" in tested.stdout, tested.stdout + tested.stderr


def task(name: str, work: Callable[[], None]) -> None:
    work()
    print("done:", name)


task("wrap the client", wrap_the_client)
task("wrap a function", wrap_a_function)
task("wrap an SDK", wrap_an_sdk)
task("limit", limit)
task("set a deadline", set_a_deadline)
task("stream", stream)
task("cancel", cancel)
task("see why", see_why)
task("measure", measure)
task("test with time under control", test_with_time_under_control)
task("test with switches", test_with_switches)
task("test with pytest", test_with_pytest)
