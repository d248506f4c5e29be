"""What Prometheus shows of attempts is what the server has read, faults and all."""

from __future__ import annotations

import os
import random
import threading
from typing import Any

import httpx
import prometheus_client

import tidegate
import tidegate.httpx
import tidegate.prometheus
from conftest import Origin

CALLS = int(os.environ.get("TIDEGATE_CALLS", "10000"))
"""The full size is 50,000 (`TIDEGATE_CALLS=50000`): the same check, for longer."""


def total(registry: prometheus_client.CollectorRegistry, name: str, **labels: str) -> float:
    """The sum of a counter's series with these labels."""
    found = 0.0
    for family in registry.collect():
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                found += sample.value
    return found


def test_attempts_shown_are_requests_read(origin: Origin) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    origin.script(
        seed=seed,
        rules=[
            {"probability": 0.1, "respond": {"status": 503}},
            {"probability": 0.05, "respond": {"status": 429, "retry_after": "0"}},
            {"probability": 0.05, "respond": {"status": 404}},
            {"probability": 0.03, "respond": {"fault": "reset"}},
            {"probability": 0.03, "respond": {"fault": "close"}},
            {"probability": 0.02, "respond": {"fault": "truncate"}},
            {"probability": 0.02, "respond": {"fault": "garbage"}},
        ],
    )
    engine = tidegate.Engine(seed=seed, logs=False)
    registry = prometheus_client.CollectorRegistry()
    tidegate.prometheus.instrument(engine, registry=registry)
    policy = tidegate.Policy(
        "all",
        retry={"max_attempts": 3, "backoff": {"base": 0, "max": 0}, "max_retry_after": 1},
        bulkhead={"max_concurrency": 3, "max_queue": 10, "acquire_timeout": 60},
        deadline=60,
        engine=engine,
    )
    nobody = f"http://127.0.0.1:{_closed_port()}"
    ends = {"answers": 0, "errors": 0}
    lock = threading.Lock()

    def work(calls: int) -> None:
        with httpx.Client(transport=tidegate.httpx.Transport(httpx.HTTPTransport(), policy)) as client:
            for number in range(calls):
                url = (
                    nobody if number % 50 == 49 else origin.url + "/x"
                )  # where nobody listens, nothing is read
                options: dict[str, Any] = {"route": "nobody" if url is nobody else f"r{number % 30}"}
                try:
                    client.get(url, extensions={"tidegate": options})
                    end = "answers"
                except httpx.TransportError:
                    end = "errors"
                with lock:
                    ends[end] += 1

    threads = [threading.Thread(target=work, args=(CALLS // 4,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    calls = CALLS // 4 * 4
    assert sum(ends.values()) == calls
    assert total(registry, "tidegate_calls_total") == calls
    assert total(registry, "tidegate_call_duration_seconds_count") == calls
    attempts = total(registry, "tidegate_attempts_total")
    never_sent = total(registry, "tidegate_attempts_total", outcome="never_sent")
    assert never_sent > calls / 50
    read = origin.stats()["requests"]
    assert attempts - never_sent == read
    assert attempts == engine.snapshot()["policies"]["all"]["attempts"], "and core's own count"
    retries = total(registry, "tidegate_retries_total")
    assert retries == engine.snapshot()["policies"]["all"]["retries"]
    assert retries > calls / 20
    unhappy = calls - total(registry, "tidegate_calls_total", outcome="ok")
    assert total(registry, "tidegate_retries_suppressed_total") == unhappy


def _closed_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
