"""The vectors of the limiters (spec 3 and 4.2 to 4.4). A limit is a text, exact to the last bit."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import rng
from aimd import Aimd
from codel import Facebook, Queue, Rfc8289
from gradient2 import VARIANTS
from rate import NEVER, Bucket, Gcra

Case = dict[str, Any]
SECOND = 1_000_000


def draw(seed: int, n: int, low: int, high: int) -> int:
    """A number of a stream."""
    return rng.uniform(rng.bits(seed, n, rng.BACKOFF, 1), low, high)


# ---- rate (3) ----

RATES = [
    (1, SECOND, 3),
    (3, SECOND, 2),
    (1_000, 7, 40),
    (7, 1_000_003, 1),
    (2**32 - 1, 31_536_000_000_000, 2**32 - 1),
]


def rate_moments(seed: int, origin: int) -> list[int]:
    """Small steps, an hour's silence, an hour back, the way forward again."""
    now, found = origin, []
    for n in range(40):
        now += draw(seed, n, 0, SECOND) if n % 3 else 0
        now += 3_600 * SECOND if n == 20 else -3_600 * SECOND if n == 25 else 0
        found.append(now)
    return found


def bucket_case(settings: tuple[int, int, int], origin: int) -> Case:
    """Takes, looks and retunes."""
    permits, per, burst = settings
    bucket = Bucket(permits, per, burst, origin)
    steps: list[Case] = []
    for n, at in enumerate(rate_moments(per + burst, origin)):
        cost = draw(burst, n, 0, min(burst + 1, 4))
        step: Case = {"at": at, "op": "take", "cost": cost}
        if n == 33:
            permits, per, burst = permits // 2 + 1, max(1, per // 3), max(1, burst // 2) + 5
            step = {"at": at, "op": "retune", "permits": permits, "per": per, "burst": burst}
            bucket.retune(permits, per, burst, at)
        elif n % 7 == 6:
            tokens = draw(9, n, 0, 3 * burst)
            step = {"at": at, "op": "wait_for", "tokens": tokens, "wait": bucket.wait_for(tokens, at)}
        else:
            wait = bucket.take(cost, at)
            step |= (
                {"granted": True}
                if wait is None
                else {"granted": False, "wait": wait if wait < NEVER else "never"}
            )
        steps.append({**step, "level": bucket.level(at)})
    settings_ = {"permits": settings[0], "per": settings[1], "burst": settings[2]}
    return {"settings": settings_, "origin": origin, "steps": steps}


def gcra_case(settings: tuple[int, int, int]) -> Case:
    """Takes only; the moments are those of the bucket."""
    permits, per, burst = settings
    limit = Gcra(permits, per, burst)
    steps: list[Case] = []
    for n, at in enumerate(rate_moments(per + burst, 7_200 * SECOND)):
        cost = draw(burst, n, 0, min(burst + 1, 4))
        wait = limit.take(cost, at)
        said: Case = (
            {"granted": True}
            if wait is None
            else {"granted": False, "wait": wait if wait < NEVER else "never"}
        )
        steps.append({"at": at, "op": "take", "cost": cost, **said})
    return {"settings": {"permits": permits, "per": per, "burst": burst}, "steps": steps}


# ---- limit (4.2, 4.3) ----


def aimd_case(settings: Case, seed: int, retune: Case | None = None) -> Case:
    """A server that becomes slow for a while, now and then a failure or a timeout."""
    limit = Aimd(settings)
    steps: list[Case] = []
    now = 1
    for n in range(120):
        now += draw(seed, n, 1, 200_000)
        slow = 40 <= n < 80
        latency = draw(seed + 1, n, 60_000, 140_000 if slow else 101_000)
        op = {7: "failure", 11: "timeout"}.get(draw(seed + 2, n, 0, 12), "latency")
        step: Case = {"at": now, "op": op}
        if retune and n == 60:
            step |= {"op": "retune", "settings": retune}
            limit.retune(retune)
        elif op == "timeout":
            limit.timeout(now)
        else:
            step["latency"] = latency
            (limit.failure if op == "failure" else limit.latency)(latency, now)
        steps.append({**step, "limit": int(limit.limit), "exact": repr(limit.limit)})
    return {"settings": settings, "steps": steps}


def loss_case(settings: Case, seed: int, cap: int, retune: Case | None = None) -> Case:
    """A server that refuses what is above its cap: as many at once as the limit allows (4.6)."""
    limit = Aimd(settings)
    steps: list[Case] = []
    now = 1
    for n in range(400):
        now += draw(seed, n, 1, 20_000)
        refused = int(limit.limit) > cap and draw(seed + 1, n, 0, 3) == 0
        step: Case = {"at": now, "op": "throttled" if refused else "good"}
        if retune and n == 200:
            step |= {"op": "retune", "settings": retune}
            limit.retune(retune)
        elif draw(seed + 2, n, 0, 60) == 0:
            step["op"] = "timeout"
            limit.timeout(now)
        elif refused:
            step["started"] = max(0, now - draw(seed + 3, n, 0, 30_000))
            limit.throttled(step["started"], now)
        else:
            step["latency"] = draw(seed + 4, n, 60_000, 101_000)
            step["in_flight"] = int(limit.limit) // (3 if n % 17 == 0 else 1)
            limit.latency(step["latency"], now, step["in_flight"])
        steps.append({**step, "limit": int(limit.limit), "exact": repr(limit.limit)})
    return {"settings": settings, "steps": steps}


def loss_cases() -> list[Case]:
    """Small caps and large ones, both signals, and changes of settings."""
    base: Case = {
        "signal": "loss",
        "max_concurrency": 300,
        "min_concurrency": 1,
        "latency_threshold": 100_000,
        "increase_step": 1.0,
        "backoff_ratio": 0.9,
        "cut_interval": SECOND,
        "latency_quantile": None,
    }
    return [
        loss_case(base, 11, 7),
        loss_case(base, 12, 150, {**base, "max_concurrency": 60}),
        loss_case({**base, "signal": "both", "cut_interval": 100_000}, 13, 30),
        loss_case({**base, "backoff_ratio": 0.5, "increase_step": 2.5, "min_concurrency": 4}, 14, 40),
        loss_case({**base, "max_concurrency": 10}, 15, 5, {**base, "signal": "both", "max_concurrency": 40}),
    ]


def aimd_cases() -> list[Case]:
    """Thresholds and quantiles; a range of one; a cut interval of nothing."""
    base: Case = {
        "max_concurrency": 30,
        "min_concurrency": 1,
        "latency_threshold": 100_000,
        "increase_step": 1.0,
        "backoff_ratio": 0.9,
        "cut_interval": SECOND,
        "latency_quantile": None,
    }
    wide = {**base, "max_concurrency": 60, "min_concurrency": 25, "latency_quantile": 0.5}
    return [
        aimd_case(base, 1),
        aimd_case({**base, "backoff_ratio": 0.5, "increase_step": 2.5, "min_concurrency": 4}, 2, wide),
        aimd_case({**base, "cut_interval": 0}, 3, {**base, "max_concurrency": 5}),
        aimd_case({**base, "latency_quantile": 0.9, "cut_interval": 100_000}, 4),
        aimd_case(
            {**base, "latency_quantile": 0.5, "cut_interval": 100_000}, 5, {**base, "max_concurrency": 12}
        ),
        aimd_case({**base, "max_concurrency": 1}, 6),
    ]


def gradient2_case(variant: str, settings: Case, name: str, rtts: list[int], drops: bool = False) -> Case:
    """As many in flight as the limit allows (with `busy` of 0 less than half), each RTT as told."""
    limit = VARIANTS[variant](settings)
    steps: list[Case] = []
    now = 10**9
    for n, rtt in enumerate(rtts):
        now += draw(3, n, 1, 4_000)
        started = max(0, now - rtt)
        in_flight = int(limit.limit)
        in_flight = in_flight // 2 - draw(4, n, 0, 1) if n % 17 == 5 else in_flight
        step: Case = {"at": now, "started": started, "in_flight": max(0, in_flight)}
        if drops and n % 19 == 7:
            limit.drop(started, step["in_flight"], now)
            step["op"] = "drop"
        else:
            limit.latency(rtt, started, step["in_flight"], now)
            step |= {"op": "latency", "rtt": rtt}
        steps.append({**step, "limit": int(limit.limit), "exact": repr(limit.limit)})
    return {"name": name, "variant": variant, "settings": settings, "steps": steps}


def gradient2_cases() -> list[Case]:
    """Each variant with the seeds' defects (11) and with ordinary noise."""
    base: Case = {
        "max_concurrency": 200,
        "min_concurrency": 1,
        "long_window": 600,
        "rtt_tolerance": 1.5,
        "headroom": 4.0,
    }
    small = {**base, "max_concurrency": 16}
    odd = {**base, "min_concurrency": 3, "long_window": 7, "rtt_tolerance": 1.1, "headroom": 0.3}
    noise = [draw(5, n, 500, 1_500) * (3 if 60 <= n < 100 else 1) for n in range(160)]
    stories = {
        "noise, slower for a while, drops": (base, noise, True),
        "odd settings": (odd, noise[::-1], True),
        "seed: never below 2 × headroom, back up under sustained slowness": (
            small,
            [1_000] * 40 + [10_000] * 160,
            False,
        ),
        "reference: a first RTT of 0": (base, [0] * 3 + [1_000] * 60, False),
        "a baseline from a bad time recovers": (base, [90_000] * 15 + [1_000] * 80, False),
    }
    cases = [
        gradient2_case(variant, settings, name, rtts, drops)
        for name, (settings, rtts, drops) in stories.items()
        for variant in VARIANTS
    ]
    slower = [100] * 120 + [180] * 700 + [100] * 150
    return [*cases, gradient2_case("steady", base, "museum 77: slower whatever the limit", slower)]


# ---- codel (4.4) ----

SCALES = ["0.25", "0.5", "1", "2"]


def codel_case(
    kind: type[Queue], target: int, interval: int, seed: int, mixed: bool, script: list[tuple[int, int, int]]
) -> Case:
    """Phases of (length, a waiter every …, a dequeue every …), in µs; a `dequeue` sheds until it grants."""
    now = 10 * SECOND
    queue = kind(target, interval, now)
    steps: list[Case] = []
    n = 0
    for length, arrive, serve in script:
        comes, goes, end = now + arrive, now + serve, now + length
        while min(comes, goes) < end:
            n += 1
            if comes <= goes:
                now, comes = comes, comes + draw(seed, n, arrive // 2, arrive * 3 // 2)
                scale = SCALES[draw(seed + 1, n, 0, 3)] if mixed else "1"
                queue.enqueue(now, Fraction(scale))
                steps.append({"at": now, "op": "enqueue", "scale": scale})
            else:
                now, goes = goes, goes + serve
                congested = queue.congested(now)
                shed, granted = queue.dequeue(now)
                steps.append(
                    {"at": now, "op": "dequeue", "congested": congested, "shed": shed, "granted": granted}
                )
        now = end
    return {"target": target, "interval": interval, "origin": 10 * SECOND, "steps": steps}


def codel_cases(kind: type[Queue]) -> list[Case]:
    """A burst, an overload that comes and goes and comes again, a jump of an hour with a long queue."""
    calm, busy, drain = (200_000, 6_000, 5_000), (700_000, 4_000, 6_000), (300_000, 20_000, 5_000)
    jump = [(100_000, 400, 10_000), (3_600 * SECOND, 4_000 * SECOND, 4_000 * SECOND), (40_000, 10_000, 1_000)]
    return [
        codel_case(kind, 5_000, 100_000, 1, False, [calm, busy, drain, busy, drain]),
        codel_case(kind, 5_000, 100_000, 2, True, [busy, drain, busy, calm]),
        codel_case(kind, 20_001, 50_000, 3, True, [busy, busy, calm]),
        codel_case(kind, 5_000, 100_000, 4, False, [busy, *jump]),
    ]


def files() -> dict[str, Case]:
    """The files by path, without their heads."""
    buckets = [bucket_case(settings, origin) for settings in RATES for origin in (7_200 * SECOND, 2**52)]
    return {
        "rate/bucket.json": {"kind": "bucket", "spec": ["3.1", "3.2"], "cases": buckets},
        "rate/gcra.json": {"kind": "gcra", "spec": ["3.3"], "cases": [gcra_case(rate) for rate in RATES]},
        "limit/aimd.json": {"kind": "aimd", "spec": ["4.2"], "cases": aimd_cases()},
        "limit/loss.json": {"kind": "loss", "spec": ["4.6"], "cases": loss_cases()},
        "limit/gradient2.json": {"kind": "gradient2", "spec": ["4.3", "11"], "cases": gradient2_cases()},
        "codel/facebook.json": {"kind": "facebook", "spec": ["4.4"], "cases": codel_cases(Facebook)},
        "codel/rfc8289.json": {"kind": "rfc8289", "spec": ["4.4"], "cases": codel_cases(Rfc8289)},
    }
