"""What a call costs above a bare one: tidegate beside its peers, in one run, on one thread.

    pip install -r bench/python/requirements.txt      # the peers; those that are missing are named as not run
    python bench/python/happy_path.py [--calls 20000] [--repeats 9] [--markdown]

CPU time per call (`process_time`), median of the repeats, the bare call subtracted; beside each peer, how
many times the comparable row of tidegate it takes. Every row, the bare ones too, is one function without
arguments that makes the call: what that costs is in both and falls out. Absolute figures move from machine
to machine; the ratios, both sides in one run, are what is compared. Peers are set up to do what that row
does, as far as they can.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import platform
import statistics
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from importlib.metadata import version
from typing import Any

import tidegate

engine = tidegate.Engine(seed=1)
RETRY = tidegate.Retry(max_attempts=3)
PERMITS = tidegate.Bulkhead(max_concurrency=100)
retry = tidegate.Policy(retry=RETRY, engine=engine)
plain = tidegate.Policy(retry=RETRY, bulkhead=PERMITS, engine=engine)
full = tidegate.Policy(retry=RETRY, bulkhead=PERMITS, deadline=30.0, engine=engine)
timed = tidegate.Policy(retry=RETRY, bulkhead=PERMITS, deadline=30.0, attempt_timeout=5.0, engine=engine)
again = tidegate.Policy(
    retry={"max_attempts": 3, "backoff": {"base": 0, "max": 0}, "budget": None}, engine=engine
)

calls_made = itertools.count()


def work() -> int:
    """What is called."""
    return 1


async def awork() -> int:
    """What is awaited."""
    return 1


async def asuspends() -> int:
    """What is awaited, and waits for something: a future, as all input and output does."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_soon(future.set_result, 1)
    return int(await future)


def fails_once() -> int:
    """Fails every other time."""
    if next(calls_made) % 2 == 0:
        raise ConnectionError
    return 1


async def afails_once() -> int:
    """Fails every other time."""
    return fails_once()


def bare_retry() -> int:
    """The least that one retry can cost."""
    try:
        return fails_once()
    except ConnectionError:
        return fails_once()


async def bare_aretry() -> int:
    """The least that one retry can cost."""
    return bare_retry()


def through(fn: Callable[[], Any]) -> Callable[[], Any]:
    """A call of it from a function, as every row makes its call."""

    def run() -> Any:
        return fn()

    return run


def loop(attempts: Callable[[], Any], body: Callable[[], object]) -> Callable[[], None]:
    """A call as a loop over its attempts."""

    def run() -> None:
        for attempt in attempts():
            with attempt:
                body()

    return run


def aloop(
    attempts: Callable[[], Any], body: Callable[[], Awaitable[object]]
) -> Callable[[], Awaitable[None]]:
    """A call as a loop over its attempts, awaited."""

    async def run() -> None:
        async for attempt in attempts():
            with attempt:
                await body()

    return run


# Groups: a title, whether it is awaited, the bare call, and tidegate's rows. Peers add theirs below.
Row = tuple[str, Callable[[], Any], str]
GROUPS: dict[str, tuple[bool, Callable[[], Any], list[Row]]] = {
    "sync": (
        False,
        through(work),
        [
            ("tidegate: retry", lambda: retry.call(work), ""),
            ("tidegate: retry, bulkhead", lambda: plain.call(work), ""),
            ("tidegate: retry, bulkhead, deadline", lambda: full.call(work), ""),
            ("tidegate: retry, as a loop", loop(retry.attempts, work), ""),
        ],
    ),
    "asyncio": (
        True,
        through(awork),
        [
            ("tidegate: retry", lambda: retry.acall(awork), ""),
            ("tidegate: retry, bulkhead", lambda: plain.acall(awork), ""),
            ("tidegate: retry, bulkhead, deadline", lambda: full.acall(awork), ""),
            ("tidegate: … and attempt_timeout", lambda: timed.acall(awork), ""),
            ("tidegate: retry, as a loop", aloop(retry.attempts, awork), ""),
        ],
    ),
    "asyncio, suspended once": (
        True,
        through(asuspends),
        [
            ("tidegate: retry, bulkhead", lambda: plain.acall(asuspends), ""),
            ("tidegate: … and deadline, attempt_timeout", lambda: timed.acall(asuspends), ""),
        ],
    ),
    "one retry without a wait, sync": (
        False,
        through(bare_retry),
        [
            ("tidegate: retry", lambda: again.call(fails_once), ""),
            ("tidegate: retry, as a loop", loop(again.attempts, fails_once), ""),
        ],
    ),
    "one retry without a wait, asyncio": (
        True,
        through(bare_aretry),
        [
            ("tidegate: retry", lambda: again.acall(afails_once), ""),
            ("tidegate: retry, as a loop", aloop(again.attempts, afails_once), ""),
        ],
    ),
}
SYNC, ASYNC, SUSPENDED, SYNC_RETRY, ASYNC_RETRY = (rows for _, _, rows in GROUPS.values())


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

    made: dict[str, Any] = {}  # an AsyncBulkhead belongs to the loop that it was made in

    def awaiting(name: str, *more: Any) -> Callable[[], Any]:
        def call() -> Any:
            here = asyncio.get_running_loop()
            if made.get(name, (None,))[0] is not here:
                parts = (peer.AsyncBulkhead(max_concurrent=100), peer.AsyncRetry(), *(one() for one in more))
                made[name] = (here, chain.compose_async(parts, answers))
            return made[name][1](request)

        return call

    ASYNC.append(("httpware: retry, bulkhead", awaiting("plain"), both))
    ASYNC.append(
        (
            "httpware: retry, bulkhead, timeout",
            awaiting("timed", lambda: peer.AsyncTimeout(timeout=5.0)),
            "tidegate: … and attempt_timeout",
        )
    )
    no_wait = {"base_delay": 0.0, "max_delay": 0.0}
    retrying = chain.compose((peer.Retry(**no_wait, budget=rich(), _sleep=lambda _: None),), fails)
    aretrying = chain.compose_async((peer.AsyncRetry(**no_wait, budget=rich(), _sleep=nap),), afails)
    SYNC_RETRY.append(("httpware: retry", lambda: retrying(request), "tidegate: retry"))
    ASYNC_RETRY.append(("httpware: retry", lambda: aretrying(request), "tidegate: retry"))


def timed_sync(fn: Callable[[], object], calls: int) -> float:
    """CPU ns per call."""
    rounds = range(calls)
    started = time.process_time_ns()
    for _ in rounds:
        fn()
    return (time.process_time_ns() - started) / calls


def timed_async(fn: Callable[[], Awaitable[object]], calls: int) -> float:
    """CPU ns per awaited call."""

    async def main() -> float:
        rounds = range(calls)
        started = time.process_time_ns()
        for _ in rounds:
            await fn()
        return (time.process_time_ns() - started) / calls

    return asyncio.run(main())


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--markdown", action="store_true", help="print tables for docs/performance.md")
    options = parser.parse_args()
    found = []
    for peer in (tenacity, stamina, pyresilience, httpware):
        name = peer.__name__
        try:
            peer()
            found.append(f"{name} {version(name)}")
        except Exception as error:
            found.append(f"{name} NOT RUN ({type(error).__name__}: {error})")
    print(
        f"Python {platform.python_version()} ({platform.machine()}), tidegate {tidegate.__version__}; "
        + "; ".join(found)
    )
    print(f"CPU ns per call above the bare one, median of {options.repeats}")
    for title, (awaited, bare, rows) in GROUPS.items():
        measure: Callable[[Any, int], float] = timed_async if awaited else timed_sync
        figures: dict[str, list[float]] = {name: [] for name, _, _ in rows}
        bares = []
        for _ in range(options.repeats):
            bares.append(measure(bare, options.calls))
            for name, fn, _ in rows:  # side by side: what disturbs one disturbs all
                few = options.calls if name.startswith("tidegate") else max(options.calls // 10, 100)
                figures[name].append(measure(fn, few))
        floor = statistics.median(bares)
        above = {name: statistics.median(values) - floor for name, values in figures.items()}
        header = f"{title} (bare: {floor:,.0f} ns)"
        print(f"\n| {header} | ns above | ÷ tidegate |\n|---|--:|--:|" if options.markdown else f"\n{header}")
        for name, _, against in rows:
            ratio = f"{above[name] / above[against]:.1f} ×" if against else ""
            if options.markdown:
                print(f"| {name} | {above[name]:,.0f} | {ratio} |")
            else:
                print(f"  {name:42} {above[name]:9,.0f} ns   {ratio}")


if __name__ == "__main__":
    main()
