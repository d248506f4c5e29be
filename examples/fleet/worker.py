"""One process of a fleet, in Python: a steady load under a fleet-wide rate limit and breaker.

Takes the arguments that every worker takes (README.md), and prints one line of JSON at its end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import time

import redis

import tidegate
from tidegate.fleet import RedisStore, attach

STATES = {"closed": 0, "open": 1, "half_open": 2}
BUCKET = 0.05


def settings() -> argparse.Namespace:
    """Settings that the demo gives the worker."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--redis", required=True)
    for name in ("start", "seconds", "load", "rate", "burst", "lease", "breaker"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--failing", type=int)
    parser.add_argument("--store-timeout", type=int, default=50)
    return parser.parse_args()


async def main() -> None:
    """Calls at a steady rate, each in a task of its own."""
    args = settings()
    logging.disable()  # of each refusal; the picture has them
    host, _, port = args.redis.rpartition(":")
    engine = tidegate.Engine()
    attach(RedisStore(redis.asyncio.Redis(host=host, port=int(port))), engine=engine)
    rate = {"permits": args.rate, "per": 1, "burst": args.burst, "lease": args.lease, "store": "fleet"}
    breaker = {"consecutive": 5, "break_duration": 1, "store": "fleet"} if args.breaker else None
    patience = args.store_timeout / 1000
    policy = tidegate.Policy("api", rate_limit=rate, breaker=breaker, store_timeout=patience, engine=engine)
    call = policy.at(route="eu")
    line: dict[str, list[int] | list[list[int]]] = {"breaker": [], "degraded": [], "recovered": []}
    starts = [0] * (int(args.seconds / BUCKET) + 1)
    ends = {"rate_limited": 0, "breaker_open": 0}
    waits: list[float] = []  # of every call, until its attempt or its refusal

    # Not when this process wakes: all measure from the same moment, or their figures are not comparable.
    wait = args.start / 1000 - time.time()
    if wait < 0:
        sys.exit(f"--start {args.start}: has passed, {-wait:.3f} s ago")
    zero = time.monotonic() + wait
    await asyncio.sleep(wait)

    def now() -> int:
        return int((time.monotonic() - zero) * 1e6)

    def seen(record: tidegate.events.Record) -> None:
        if record.type == "breaker_changed":
            line["breaker"].append([now(), STATES[str(record.after)]])
        elif record.type in {"store_degraded", "store_recovered"}:
            line[record.type.removeprefix("store_")].append(now())

    async def one(begun: float) -> None:
        async def attempt() -> None:
            at = time.monotonic()
            waits.append(at - begun)
            starts[min(int((at - zero) / BUCKET), len(starts) - 1)] += 1
            if args.failing is not None and 0 <= at - zero - args.failing / 1000 < 0.3:
                raise ConnectionError("the upstream fails")

        try:
            await call.acall(attempt)
        except tidegate.RateLimited:
            ends["rate_limited"] += 1
            waits.append(time.monotonic() - begun)
        except tidegate.BreakerOpen:
            ends["breaker_open"] += 1
            waits.append(time.monotonic() - begun)
        except ConnectionError:
            pass

    with engine.on_event(seen, types=["breaker_changed", "store_degraded", "store_recovered"]):
        tasks = set()
        begun = 0
        while (at := begun / args.load) < args.seconds:
            await asyncio.sleep(max(zero + at - time.monotonic(), 0))
            task = asyncio.create_task(one(time.monotonic()))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            begun += 1
        await asyncio.gather(*tasks)
    waits.sort()
    p99 = int(waits[len(waits) * 99 // 100] * 1e6) if waits else None
    print(
        json.dumps(
            {"language": "python", "begun": begun, "starts": starts, **ends, **line, "wait_p99_us": p99}
        )
    )


asyncio.run(main())
