"""The peers of `happy_path.py` and `contended.py`: each function adds its rows, set up to do what ours do."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from typing import Any

from rows import (
    ASYNC,
    ASYNC_RETRY,
    SUSPENDED,
    SYNC,
    SYNC_RETRY,
    afails_once,
    aloop,
    asuspends,
    awork,
    calls_made,
    fails_once,
    loop,
    running,
    through,
    work,
)


def found() -> str:
    """Adds the rows of every peer that is here; the versions, and which were not run."""
    lines = []
    for peer in (tenacity, stamina, backoff, pyresilience, hyx, httpware):
        name = peer.__name__
        try:
            peer()
            lines.append(f"{name} {version(name)}")
        except Exception as error:
            lines.append(f"{name} NOT RUN ({type(error).__name__}: {error})")
    return "; ".join(lines)


def tenacity() -> None:
    """Retry alone."""
    peer = import_module("tenacity")
    stop = {"stop": peer.stop_after_attempt(3), "wait": peer.wait_none()}
    calling, awaiting = peer.Retrying(**stop), peer.AsyncRetrying(**stop)
    one, each = "tidegate: retry", "tidegate: retry, as a loop"
    SYNC.append(("tenacity: retry", lambda: calling(work), one))
    SYNC.append(("tenacity: retry, as a loop", loop(lambda: peer.Retrying(**stop), work), each))
    ASYNC.append(("tenacity: retry", lambda: awaiting(awork), one))
    SUSPENDED.append(("tenacity: retry", lambda: awaiting(asuspends), "tidegate: retry, bulkhead"))
    ASYNC.append(("tenacity: retry, as a loop", aloop(lambda: peer.AsyncRetrying(**stop), awork), each))
    SYNC_RETRY.append(("tenacity: retry", lambda: calling(fails_once), one))
    ASYNC_RETRY.append(("tenacity: retry", lambda: awaiting(afails_once), one))


def stamina() -> None:
    """Retry alone; its log line for each retry is switched off."""
    peer = import_module("stamina")
    peer.instrumentation.set_on_retry_hooks([])
    stop = {"attempts": 3, "wait_initial": 0, "wait_max": 0, "wait_jitter": 0}
    calling = peer.RetryingCaller(**stop).on(ConnectionError)
    awaiting = peer.AsyncRetryingCaller(**stop).on(ConnectionError)

    def attempts() -> Any:
        return peer.retry_context(on=ConnectionError, **stop)

    one, each = "tidegate: retry", "tidegate: retry, as a loop"
    SYNC.append(("stamina: retry", lambda: calling(work), one))
    SYNC.append(("stamina: retry, as a loop", loop(attempts, work), each))
    ASYNC.append(("stamina: retry", lambda: awaiting(awork), one))
    ASYNC.append(("stamina: retry, as a loop", aloop(attempts, awork), each))
    SYNC_RETRY.append(("stamina: retry", lambda: calling(fails_once), one))
    ASYNC_RETRY.append(("stamina: retry", lambda: awaiting(afails_once), one))


def backoff() -> None:
    """Retry alone; its log line for each retry is switched off."""
    peer = import_module("backoff")

    def around(fn: Any) -> Callable[[], Any]:
        settings = {"max_tries": 3, "interval": 0, "jitter": None, "logger": None}
        return through(peer.on_exception(peer.constant, ConnectionError, **settings)(fn))

    one = "tidegate: retry"
    SYNC.append(("backoff: retry", around(work), one))
    ASYNC.append(("backoff: retry", around(awork), one))
    SUSPENDED.append(("backoff: retry", around(asuspends), "tidegate: retry, bulkhead"))
    SYNC_RETRY.append(("backoff: retry", around(fails_once), one))
    ASYNC_RETRY.append(("backoff: retry", around(afails_once), one))


def per_loop(make: Callable[[], Callable[[], Any]]) -> Callable[[], Any]:
    """For what belongs to the loop that it was made in: made anew in each."""
    made: list[Any] = [None, None]

    def call() -> Any:
        if (
            made[0] is not running[0]
        ):  # `asyncio.get_running_loop` asks the system for the process: 300 ns here
            made[:] = running[0], make()
        return made[1]()

    return call


def hyx() -> None:
    """Its components are asynchronous only, and stacked as decorators."""
    retries, bulkheads, timeouts = (import_module(f"hyx.{name}") for name in ("retry", "bulkhead", "timeout"))

    def around(fn: Any, *parts: str) -> Callable[[], Any]:
        def make() -> Callable[[], Any]:
            inner = timeouts.timeout(5.0)(fn) if "timeout" in parts else fn
            if "bulkhead" in parts:
                inner = bulkheads.bulkhead(max_concurrency=100, max_capacity=1000)(inner)
            return retries.retry(on=ConnectionError, attempts=3, backoff=0)(inner)

        return per_loop(make)

    both, all_of_it = "tidegate: retry, bulkhead", "tidegate: … and deadline, attempt_timeout"
    limited = ("bulkhead", "timeout")
    ASYNC.append(("hyx: retry, bulkhead", around(awork, "bulkhead"), both))
    ASYNC.append(
        ("hyx: retry, bulkhead, timeout", around(awork, *limited), "tidegate: … and attempt_timeout")
    )
    SUSPENDED.append(("hyx: retry, bulkhead", around(asuspends, "bulkhead"), both))
    SUSPENDED.append(("hyx: retry, bulkhead, timeout", around(asuspends, *limited), all_of_it))
    ASYNC_RETRY.append(("hyx: retry", around(afails_once), "tidegate: retry"))


def pyresilience() -> None:
    """Retry and bulkhead; its timeouts of sync functions need a thread, and are left out."""
    peer = import_module("pyresilience")
    parts = {"retry": peer.RetryConfig(max_attempts=3), "bulkhead": peer.BulkheadConfig(max_concurrent=100)}
    no_wait = peer.RetryConfig(max_attempts=3, delay=0, jitter=False)
    timeout = peer.TimeoutConfig(seconds=5, per_attempt=True)
    breaker = peer.CircuitBreakerConfig()
    both, all_of_it = "tidegate: retry, bulkhead", "tidegate: … and deadline, attempt_timeout"

    def around(fn: Any, **settings: Any) -> Callable[[], Any]:
        return through(peer.resilient(**settings)(fn))

    SYNC.append(("pyresilience: retry, bulkhead", around(work, **parts), both))
    breaks = around(work, **parts, circuit_breaker=breaker)
    SYNC.append(("pyresilience: retry, bulkhead, breaker", breaks, "tidegate: retry, bulkhead, deadline"))
    ASYNC.append(("pyresilience: retry, bulkhead", around(awork, **parts), both))
    limited = around(awork, **parts, timeout=timeout)
    ASYNC.append(("pyresilience: retry, bulkhead, timeout", limited, "tidegate: … and attempt_timeout"))
    SUSPENDED.append(("pyresilience: retry, bulkhead", around(asuspends, **parts), both))
    limited = around(asuspends, **parts, timeout=timeout)
    SUSPENDED.append(("pyresilience: retry, bulkhead, timeout", limited, all_of_it))
    SYNC_RETRY.append(("pyresilience: retry", around(fails_once, retry=no_wait), "tidegate: retry"))
    ASYNC_RETRY.append(("pyresilience: retry", around(afails_once, retry=no_wait), "tidegate: retry"))


def httpware() -> None:
    """Its middleware around a terminal that answers at once: no client, no transport."""
    peer, chain, client = (
        import_module(name) for name in ("httpware", "httpware.middleware.chain", "httpx2")
    )
    request, response = client.Request("GET", "http://bench/"), client.Response(200)

    async def answers(_: object) -> object:
        return response

    def fails(_: object) -> object:
        if next(calls_made) % 2 == 0:
            raise peer.NetworkError("once")
        return response

    async def afails(_: object) -> object:
        return fails(_)

    def rich() -> Any:
        return peer.RetryBudget(percent_can_retry=1.0, min_retries_per_sec=1e6)

    async def nap(_: float) -> None:
        """It hands a delay of zero to asyncio.sleep otherwise."""

    both = "tidegate: retry, bulkhead"
    calling = chain.compose((peer.Bulkhead(max_concurrent=100), peer.Retry()), lambda _: response)
    SYNC.append(("httpware: retry, bulkhead", lambda: calling(request), both))

    def awaiting(*more: Any) -> Callable[[], Any]:
        def make() -> Callable[[], Any]:  # an AsyncBulkhead belongs to the loop that it was made in
            parts = (peer.AsyncBulkhead(max_concurrent=100), peer.AsyncRetry(), *(one() for one in more))
            through = chain.compose_async(parts, answers)
            return lambda: through(request)

        return per_loop(make)

    ASYNC.append(("httpware: retry, bulkhead", awaiting(), both))
    ASYNC.append(
        (
            "httpware: retry, bulkhead, timeout",
            awaiting(lambda: peer.AsyncTimeout(timeout=5.0)),
            "tidegate: … and attempt_timeout",
        )
    )
    no_wait = {"base_delay": 0.0, "max_delay": 0.0}
    retrying = chain.compose((peer.Retry(**no_wait, budget=rich(), _sleep=lambda _: None),), fails)
    aretrying = chain.compose_async((peer.AsyncRetry(**no_wait, budget=rich(), _sleep=nap),), afails)
    SYNC_RETRY.append(("httpware: retry", lambda: retrying(request), "tidegate: retry"))
    ASYNC_RETRY.append(("httpware: retry", lambda: aretrying(request), "tidegate: retry"))
