"""A server of the bench's own, and worker processes in any language that decide on it, all at once."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

SETUP = 30.0
"""Seconds that sixteen processes on two cores may take to be ready, and to end."""


WINDOW = 1.2
"""Seconds after which what was leased or counted before the start is no longer there."""


class Spent(NamedTuple):
    """What a server has done so far."""

    trips: int
    """Reads from connections: a round trip each, unless commands came together."""
    commands: int
    """Commands, those that scripts call included."""
    cpu: float
    """Seconds of CPU."""

    def since(self, before: Spent) -> Spent:
        """The difference, but for the question itself."""
        return Spent(
            self.trips - before.trips - 1, self.commands - before.commands - 1, self.cpu - before.cpu
        )


class Server:
    """A Redis or Valkey that keeps nothing, on a port that was free a moment ago."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = f"{address[0]}:{address[1]}"
        self._socket = socket.create_connection(address, 5)
        self._file = self._socket.makefile("rb")

    def ask(self, command: str) -> str:
        """The answer to a command that answers a status or a bulk string."""
        self._socket.sendall(command.encode() + b"\r\n")
        head = self._file.readline()
        if head[:1] == b"$":
            return self._file.read(int(head[1:]) + 2).decode()
        if head[:1] != b"+":
            raise RuntimeError(f"{command}: {head!r}")
        return head[1:].decode()

    def info(self) -> dict[str, str]:
        """All that it tells of itself."""
        lines = (line.partition(":") for line in self.ask("INFO all").splitlines())
        return {name: value for name, mark, value in lines if mark}

    def spent(self) -> Spent:
        """What it has done so far."""
        info = self.info()
        calls = [value for name, value in info.items() if name.startswith("cmdstat_")]
        return Spent(
            int(info["total_reads_processed"]),
            sum(int(value.partition(",")[0].removeprefix("calls=")) for value in calls),
            float(info["used_cpu_user"]) + float(info["used_cpu_sys"]),
        )


@contextmanager
def serving(program: str) -> Iterator[Server]:
    """Such a server; killed at the end, whatever happens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address = listener.getsockname()
    with tempfile.TemporaryDirectory() as folder:
        words = ["--bind", address[0], "--port", str(address[1]), "--save", "", "--dir", folder]
        with subprocess.Popen([program, *words], stdout=subprocess.DEVNULL) as running:
            try:
                until = time.monotonic() + 10
                while True:
                    try:
                        server = Server(address)
                        break
                    except OSError:
                        if time.monotonic() > until or running.poll() is not None:
                            sys.exit(f"{program} does not answer on port {address[1]}")
                        time.sleep(0.02)
                yield server
            finally:
                running.kill()


@dataclass(frozen=True)
class Load:
    """What workers are told to do."""

    rate: int
    """Permits a second of the whole fleet, and as many at once after a quiet time."""
    seconds: float
    """How long decisions are counted."""
    sample: float = 0.0
    """How long each of them is timed, after that."""
    at_once: int = 1
    """Calls in flight in each process."""
    pause: int = 0
    """Microseconds that a caller waits after a refusal."""

    def words(self) -> list[str]:
        """As arguments."""
        named = vars(self).items()
        return [word for name, value in named for word in (f"--{name.replace('_', '-')}", str(value))]


@dataclass
class Result:
    """What came of a load."""

    lines: list[dict[str, Any]]
    spent: Spent
    load: Load
    processes: int = field(init=False)

    def __post_init__(self) -> None:
        self.processes = len(self.lines)

    def sum(self, name: str) -> float:
        """Of all processes."""
        return sum(line[name] for line in self.lines)

    @property
    def decisions(self) -> float:
        """How many were made."""
        return self.sum("decisions")

    @property
    def per_second(self) -> float:
        """Decisions a second, all processes together."""
        return sum(line["decisions"] / line["wall_s"] for line in self.lines)

    @property
    def declared(self) -> float:
        """What the fleet may be admitted at most: the rate for the time, and what was there at first."""
        return self.load.rate * (max(line["wall_s"] for line in self.lines) + 1)

    @property
    def worst_second(self) -> int:
        """The most that were admitted in any second, in steps of a tenth."""
        bins = [sum(counts) for counts in zip(*(line["admits"] for line in self.lines), strict=True)]
        return max(sum(bins[at : at + 10]) for at in range(max(len(bins) - 9, 1)))


def perform(server: Server, commands: list[list[str]], load: Load) -> Result:
    """Has each of these commands do this, all at once on an empty store.

    Raises:
        RuntimeError: If one of them fails, or says something else than was agreed.
    """
    server.ask("FLUSHALL")
    words = ["--redis", server.address, *load.words()]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    workers: list[subprocess.Popen[str]] = []
    late = threading.Event()

    def kill() -> None:
        late.set()
        for worker in workers:
            worker.kill()

    # Reading a line waits as long as it takes; this does not.
    watch = threading.Timer(2 * SETUP + load.seconds + load.sample, kill)
    watch.start()
    try:
        workers += [subprocess.Popen([*command, *words], **pipes) for command in commands]  # type: ignore[call-overload]
        hear(workers, "ready")
        time.sleep(WINDOW if load.pause else 0)
        before = server.spent()
        say(workers, str(int(time.time() * 1000) + 100 + 10 * len(workers)))
        hear(workers, "counted")
        spent = server.spent().since(before)
        say(workers, "sample")
        lines = [json.loads(line) for line in hear(workers)]
        return Result(lines, spent, load)
    except (OSError, RuntimeError, ValueError) as error:
        raise RuntimeError("it took too long" if late.is_set() else str(error)) from error
    finally:
        watch.cancel()
        kill()
        for worker in workers:
            worker.communicate()


def hear(workers: list[subprocess.Popen[str]], what: str | None = None) -> list[str]:
    """A line of each."""
    lines = []
    for worker in workers:
        assert worker.stdout is not None
        line = worker.stdout.readline().strip()
        if not line or (what is not None and line != what):
            raise RuntimeError(f"{worker.args}: said {line!r}, not {what or 'its figures'}")
        lines.append(line)
    return lines


def say(workers: list[subprocess.Popen[str]], line: str) -> None:
    """A line to each."""
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(line + "\n")
        worker.stdin.flush()
