"""Eight processes in several languages, one rate limit, one breaker; one Redis, killed and back again.

`cargo xtask demo fleet` calls it with the workers that it has built. See README.md beside this file.
"""

from __future__ import annotations

import argparse
import json
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plot_fleet import draw

if TYPE_CHECKING:
    from collections.abc import Iterator

PROCESSES = 8
BUCKET = 0.05
READY = 6
"""How long workers have until they all begin, in seconds."""
EXCHANGE = 0.25
"""The engine's `store_exchange`: how old what a process knows of the others may be, in seconds."""
RETRY = 7.6
"""The longest until a store that is back is tried, in seconds: 5 s and half of it, and the round trip."""
FAILS_AT = 0.15
"""Of the whole time: when the upstream of the first process begins to fail."""
Line = dict[str, Any]


def settings() -> argparse.Namespace:
    """What to run, and for how long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worker", action="append", required=True, help="language=command")
    parser.add_argument("--redis-server", default="redis-server")
    parser.add_argument("--out", type=Path, default=Path("target/demo"))
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--rate", type=int, default=400)
    parser.add_argument("--burst", type=int, default=100)
    parser.add_argument("--lease", type=int, default=20)
    parser.add_argument("--load", type=int, default=100, help="calls a second of each process")
    parser.add_argument("--store-timeout", type=int, help="milliseconds; 50 where it is not said")
    steady = "nothing fails: the rate alone, to 1 %% with a lease of 1, else to a lease of each process"
    parser.add_argument("--steady", action="store_true", help=steady)
    return parser.parse_args()


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def redis(program: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server that keeps nothing; killed at the end, whatever happens."""
    with tempfile.TemporaryDirectory() as folder:
        words = [program, "--port", str(port), "--save", "", "--bind", "127.0.0.1", "--dir", folder]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL) as server:
            try:
                until = time.monotonic() + 10
                while True:
                    try:
                        socket.create_connection(("127.0.0.1", port), 1).close()
                        break
                    except OSError:
                        if time.monotonic() > until or server.poll() is not None:
                            sys.exit(f"{program} does not answer on port {port}")
                        time.sleep(0.02)
                yield server
            finally:
                server.kill()


def perform(args: argparse.Namespace) -> tuple[list[Line], tuple[float, float]]:
    """The workers with the server's death and return; their lines, and when it was gone."""
    workers = [shlex.split(worker.partition("=")[2]) for worker in args.worker]
    port = free_port()
    gone = (args.seconds * 0.4, args.seconds * 0.6)
    start = time.time() + READY
    options = {"redis": f"127.0.0.1:{port}", "start": int(start * 1000), "breaker": int(not args.steady)}
    options |= {name: getattr(args, name) for name in ("seconds", "load", "rate", "burst", "lease")}
    if args.store_timeout is not None:
        options["store-timeout"] = args.store_timeout
    given = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    running: list[subprocess.Popen[str]] = []
    try:
        with redis(args.redis_server, port):
            for place in range(PROCESSES):
                fails = place == 0 and not args.steady
                failing = ["--failing", str(int(args.seconds * FAILS_AT * 1000))] if fails else []
                command = [*workers[place % len(workers)], *given, *failing]
                running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            if args.steady:
                lines = [worker.communicate(timeout=args.seconds + 30)[0] for worker in running]
            else:
                time.sleep(start + gone[0] - time.time())
        if not args.steady:
            time.sleep(max(start + gone[1] - time.time(), 0))
            with redis(args.redis_server, port):
                lines = [worker.communicate(timeout=args.seconds + 30)[0] for worker in running]
    finally:
        for worker in running:
            worker.kill()
    failed = [worker.args for worker in running if worker.returncode]
    if failed:
        sys.exit(f"a worker has failed: {failed}")
    return [json.loads(line.splitlines()[-1]) for line in lines], gone


def judge_steady(args: argparse.Namespace, lines: list[Line]) -> dict[str, Any]:
    """Nothing has failed: what was declared was granted, strictly to 1 %, else to a lease of each."""
    due, granted = args.rate * args.seconds + args.burst, sum(sum(line["starts"]) for line in lines)
    figures = {
        "processes": [line["language"] for line in lines],
        "wanted": sum(line["begun"] for line in lines),
        "declared": due,
        "granted": granted,
        "granted_each": [sum(line["starts"]) for line in lines],
        "off_percent": round((granted - due) * 100 / due, 3),
        "wait_p99_us": [line["wait_p99_us"] for line in lines],
        "wrong": [],
    }
    slack = due / 100 if args.lease == 1 else PROCESSES * args.lease
    if abs(granted - due) > slack:
        figures["wrong"].append(f"granted {granted}, declared {due} ± {slack:.0f}")
    if figures["wanted"] < due * 1.2:
        figures["wrong"].append(f"{figures['wanted']} calls do not put {due} to the test")
    figures["wrong"] += [f"{line['language']}: lost its store" for line in lines if line["degraded"]]
    return figures


def judge(args: argparse.Namespace, lines: list[Line], gone: tuple[float, float]) -> dict[str, Any]:
    """The figures, and what has to hold of them."""
    starts = [sum(counts) for counts in zip(*(line["starts"] for line in lines), strict=True)]

    def within(low: float, high: float) -> int:
        return sum(starts[round(low / BUCKET) : round(high / BUCKET)])

    span = round(1 / BUCKET)
    seconds = [sum(starts[at : at + span]) for at in range(round(gone[0] / BUCKET), len(starts) - span)]
    opened = [min((at for at, to in line["breaker"] if to == 1), default=None) for line in lines]
    known = [at / 1e6 for at in opened if at is not None]
    late = sum(max(at / 1e6 - gone[1], 0) for line in lines for at in line["recovered"])
    # Beyond the rate (10.6 of the design): a burst at first, a burst and the leases that were out for the one
    # loss, and the share of each process that has not found yet that the store is back, beside the whole rate
    # of the others.
    leases, shares = PROCESSES * args.lease, late * args.rate / PROCESSES
    most = args.rate * args.seconds + 2 * args.burst + leases + shares
    figures = {
        "processes": [line["language"] for line in lines],
        "declared": args.rate,
        "granted": sum(starts),
        "granted_at_most": round(most),
        "declared_before_loss": round(args.rate * gone[0] + args.burst),
        "granted_before_loss": within(0, gone[0]),
        # From when the breaker has closed again to the server's end.
        "rate_before": within(args.seconds * 0.25, gone[0]) / (gone[0] - args.seconds * 0.25),
        "rate_without_store": within(gone[0] + 0.5, gone[1]) / (gone[1] - gone[0] - 0.5),
        "rate_after": within(args.seconds * 0.85, args.seconds) / (args.seconds * 0.15),
        # Some find later than others that the store is back, and go on with their shares.
        "worst_second_since": max(seconds),
        "breakers_opened": len(known),
        "opened_within_ms": (max(known) - min(known)) * 1000 if known else None,
        "degraded_after_ms": [[round(at / 1e3 - gone[0] * 1e3) for at in line["degraded"]] for line in lines],
        "recovered_after_ms": [
            [round(at / 1e3 - gone[1] * 1e3) for at in line["recovered"]] for line in lines
        ],
        "wait_p99_us": [line["wait_p99_us"] for line in lines],
    }
    wrong = []
    if figures["granted"] > most:
        wrong.append(f"granted {figures['granted']}, at most {most:.0f}")
    if figures["granted_before_loss"] > figures["declared_before_loss"] * 1.01:
        wrong.append(f"granted {figures['granted_before_loss']} before the loss")
    for name in ("rate_before", "rate_after"):
        if not 0.9 * args.rate <= figures[name] <= 1.1 * args.rate:
            wrong.append(f"{name} = {figures[name]:.0f}/s, declared {args.rate}/s")
    if not 0.5 * args.rate <= figures["rate_without_store"] <= 1.1 * args.rate:
        wrong.append(f"without the store {figures['rate_without_store']:.0f}/s, declared {args.rate}/s")
    if len(known) < PROCESSES:
        wrong.append(f"{len(known)} of {PROCESSES} breakers have opened")
    # One exchange, one round trip, and what a busy machine adds.
    elif max(known) - min(known) > EXCHANGE + 0.15:
        wrong.append(f"the last breaker opened {figures['opened_within_ms']:.0f} ms after the first")
    if opened[0] is not None and opened[0] / 1e6 > min(known) + 0.01:
        wrong.append("the breaker of the process whose upstream fails is not the first to open")
    if any(at < args.seconds * FAILS_AT for at in known):
        wrong.append("a breaker opened before anything failed")
    wrong += [f"{line['language']}: ends with its breaker open" for line in lines if open_at_end(line)]
    for line in lines:
        down, up = ([at / 1e6 for at in line[name]] for name in ("degraded", "recovered"))
        # A lease, and the command that was out, may last a little.
        noticed = len(down) == 1 and gone[0] <= down[0] <= gone[0] + 0.6
        if not noticed or len(up) != 1 or not gone[1] <= up[0] <= gone[1] + RETRY:
            wrong.append(f"{line['language']}: gone at {down}, back at {up}")
    figures["wrong"] = wrong
    return figures


def open_at_end(line: Line) -> bool:
    """Is its last known state another than closed?"""
    return bool(line["breaker"]) and line["breaker"][-1][1] != 0


def main() -> None:
    """Runs, draws, judges."""
    args = settings()
    lines, gone = perform(args)
    figures = judge_steady(args, lines) if args.steady else judge(args, lines, gone)
    args.out.mkdir(parents=True, exist_ok=True)
    name = "fleet-steady.json" if args.steady else "fleet.json"
    (args.out / name).write_text(json.dumps({"figures": figures, "lines": lines, "gone": gone}))
    if not args.steady:
        draw(lines, gone, args, args.out)
    for name, value in figures.items():
        print(f"{name:20} {value}")
    if figures["wrong"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
