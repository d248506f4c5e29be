"""Plays the arms: each in a process of its own, with a server of its own, all at the same time."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import NamedTuple, TypeAlias

from arms import ARMS, Counting
from load import OK, Driver, poisson
from origin import running
from report import BUCKET, Run
from world import World


class Ready(NamedTuple):
    """From an arm: server and client are up."""


class Tick(NamedTuple):
    """From an arm, about twice a second: what happened in the last second."""

    t: float
    calls: int
    """Calls started."""
    ok: int
    """Calls that ended well."""
    attempts: int
    """Attempts sent."""


class Failed(NamedTuple):
    """From an arm: it cannot go on."""

    why: str


Message: TypeAlias = Ready | Tick | Failed | Run


class ArmFailed(Exception):
    """An arm ended without a result."""


def perform(
    keys: Sequence[str], binary: Path, world: World, on_tick: Callable[[str, Tick], None]
) -> list[Run]:
    """Runs the arms side by side, so that a busy machine is busy for all of them; returns their records.

    Raises:
        ArmFailed: with the traceback of the arm that failed.
    """
    spawn = multiprocessing.get_context("spawn")
    processes = []
    pipes: dict[Connection, str] = {}
    try:
        for key in keys:
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=arm_process, args=(key, binary, world, theirs), daemon=True)
            process.start()
            theirs.close()
            processes.append(process)
            pipes[ours] = key
        for pipe, key in pipes.items():
            receive(pipe, key)
        for pipe in pipes:
            pipe.send("begin")
        runs: dict[str, Run] = {}
        while len(runs) < len(pipes):
            heard = wait([pipe for pipe, key in pipes.items() if key not in runs])
            for pipe, key in pipes.items():
                message = receive(pipe, key) if pipe in heard else None
                if isinstance(message, Run):
                    runs[key] = message
                elif isinstance(message, Tick):
                    on_tick(key, message)
        return [runs[key] for key in keys]
    finally:
        for process in processes:
            process.terminate()
            process.join()


def receive(pipe: Connection, key: str) -> Message:
    """The next message of an arm."""
    try:
        message: Message = pipe.recv()
    except EOFError:
        raise ArmFailed(f"arm {key}: its process died") from None
    if isinstance(message, Failed):
        raise ArmFailed(f"arm {key}:\n{message.why}")
    return message


def arm_process(key: str, binary: Path, world: World, parent: Connection) -> None:
    """The whole life of an arm's process."""
    try:
        parent.send(asyncio.run(play(key, binary, world, parent)))
    except KeyboardInterrupt:
        pass  # the demo itself says so
    except Exception:
        parent.send(Failed(traceback.format_exc()))


async def play(key: str, binary: Path, world: World, parent: Connection) -> Run:
    """One arm from start to end: its own server, its own client, the common schedule."""
    arm = ARMS[key]
    schedule = poisson(world.offered, world.end, world.seed)
    async with running(binary) as server:
        client, counting = arm.client(server.url, world)
        async with client:
            await server.stats()  # imports and connections that a first request would have to wait for
            driver = Driver(schedule, lambda: arm.call(client, world))
            gc.freeze()
            parent.send(Ready())
            await asyncio.to_thread(parent.recv)  # the word to begin: the same moment for all arms
            zero = await server.play(world.script())
            cpu = time.process_time()
            ticking = asyncio.create_task(ticks(driver, counting, parent))
            await driver.run(zero)
            ticking.cancel()
            cpu_share = (time.process_time() - cpu) / driver.now
            series = await server.series(BUCKET)
            stats = await server.stats()
    return Run(key, arm.title, arm.logic, driver.calls, counting.attempts, stats, series, cpu_share)


async def ticks(driver: Driver, counting: Counting, parent: Connection) -> None:
    """Reports the last second twice a second."""

    def now() -> tuple[int, int, int]:
        return driver.started, sum(call.outcome == OK for call in driver.calls), counting.attempts

    history = [now()] * 3
    while True:
        await asyncio.sleep(0.5)
        history = [*history[1:], now()]
        parent.send(Tick(driver.now, *(new - old for new, old in zip(history[-1], history[0], strict=True))))
