"""Eight processes in several languages, one rate limit, one breaker, one Redis, which is killed and comes back.

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
    start = time.time() + 4
    told = {"redis": f"127.0.0.1:{port}", "start": int(start * 1000), "breaker": 1}
    told |= {name: getattr(args, name) for name in ("seconds", "load", "rate", "burst", "lease")}
    given = [word for name, value in told.items() for word in (f"--{name}", str(value))]
    running: list[subprocess.Popen[str]] = []
    try:
        with redis(args.redis_server, port):
            for place in range(PROCESSES):
                failing = ["--failing", str(int(args.seconds * 150))] if place == 0 else []
                command = [*workers[place % len(workers)], *given, *failing]
                running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            time.sleep(start + gone[0] - time.time())
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


def judge(args: argparse.Namespace, lines: list[Line], gone: tuple[float, float]) -> dict[str, Any]:
    """The figures, and what has to hold of them."""
    starts = [sum(counts) for counts in zip(*(line["starts"] for line in lines), strict=True)]

    def within(low: float, high: float) -> int:
        return sum(starts[int(low / BUCKET) : int(high / BUCKET)])

    opened = [min((at for at, to in line["breaker"] if to == 1), default=None) for line in lines]
    known = [at for at in opened if at is not None]
    figures = {
        "processes": [line["language"] for line in lines],
        "declared": args.rate,
        "attempts": sum(starts),
        # From when the breaker has closed again to the server's end.
        "rate_before": within(args.seconds * 0.25, gone[0]) / (gone[0] - args.seconds * 0.25),
        "rate_without_store": within(gone[0] + 0.5, gone[1]) / (gone[1] - gone[0] - 0.5),
        "rate_after": within(args.seconds * 0.85, args.seconds) / (args.seconds * 0.15),
        "breakers_opened": len(known),
        "opened_within_ms": (max(known) - min(known)) / 1000 if known else None,
        "degraded": [line["degraded"] for line in lines],
        "recovered": [line["recovered"] for line in lines],
        "wait_p99_us": [line["wait_p99_us"] for line in lines],
    }
    wrong = []
    for name in ("rate_before", "rate_after"):
        if not 0.9 * args.rate <= figures[name] <= 1.1 * args.rate:
            wrong.append(f"{name} = {figures[name]:.0f}/s, declared {args.rate}/s")
    if not 0.5 * args.rate <= figures["rate_without_store"] <= 1.1 * args.rate:
        wrong.append(f"without the store {figures['rate_without_store']:.0f}/s, declared {args.rate}/s")
    if len(known) < PROCESSES:
        wrong.append(f"{len(known)} of {PROCESSES} breakers have opened")
    for line in lines:
        if not line["degraded"] or len(line["degraded"]) != len(line["recovered"]):
            wrong.append(f"{line['language']}: gone at {line['degraded']}, back at {line['recovered']}")
    figures["wrong"] = wrong
    return figures


def main() -> None:
    """Runs, draws, judges."""
    args = settings()
    lines, gone = perform(args)
    figures = judge(args, lines, gone)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "fleet.json").write_text(json.dumps({"figures": figures, "lines": lines, "gone": gone}))
    draw(lines, gone, args, args.out)
    for name, value in figures.items():
        print(f"{name:20} {value}")
    if figures["wrong"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
