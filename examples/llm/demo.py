"""Two hundred chats over three failing providers of language models. README.md explains it."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import time
from dataclasses import replace
from pathlib import Path

from arms import NAMES, Arm, Chat
from providers import Provider, World, running
from report import Run, draw, figures, p99, table


async def user(arm: Arm, world: World, number: int, zero: float, chats: list[Chat]) -> None:
    """One user: asks, reads, asks again, until the run's time is over."""
    dice = random.Random(1000 * world.seed + number)
    await asyncio.sleep(dice.random() * world.think)
    while time.perf_counter() - zero < world.span:
        question = "What does the tide do? " * dice.randint(1, 8)
        chats.append(await arm.chat(question, zero))
        await asyncio.sleep(world.think * (0.5 + dice.random()))


async def perform(name: str, providers: list[Provider], world: World) -> Run:
    """One arm against providers that begin anew, after a chat that does not count: it loads modules."""
    warm = Arm(name, providers, world)
    for provider in providers:
        provider.ask("PUT", "/script", {"provider": {}})
    await warm.chat("Hello.", time.perf_counter())
    await warm.close()
    for number, provider in enumerate(providers):
        provider.ask("PUT", "/script", world.script(number))
    cpu = time.process_time()
    zero = time.perf_counter()
    arm = Arm(name, providers, world)
    chats: list[Chat] = []

    async def cut() -> None:
        begin, end = world.cut
        for moment, share in ((begin, 0.1), (end, 1.0)):
            await asyncio.sleep(max(0.0, zero + moment - time.perf_counter()))
            await asyncio.to_thread(providers[1].ask, "PUT", "/provider", {"limits": world.limits(share)})

    late: list[float] = []

    async def clock() -> None:
        while time.perf_counter() - zero < world.span:
            asleep = time.perf_counter()
            await asyncio.sleep(0.05)
            late.append(time.perf_counter() - asleep - 0.05)

    await asyncio.gather(
        cut(), clock(), *(user(arm, world, number, zero, chats) for number in range(world.chats))
    )
    cpu = time.process_time() - cpu
    await arm.close()
    return Run(name, chats, [provider.counted() for provider in providers], cpu, p99(late))


def main() -> None:
    """Runs all arms, prints the table, draws the plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--origin", type=Path, default=os.environ.get("TIDEGATE_ORIGIN"))
    parser.add_argument("--quick", action="store_true", help="40 chats for 15 s an arm")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plot", type=Path, default=Path("llm.png"))
    asked = parser.parse_args()
    if not asked.origin:
        parser.error("--origin: the program tidegate-origin (cargo build --release -p tidegate-origin)")
    world = World(seed=asked.seed)
    if asked.quick:
        world = replace(world, chats=40, span=15.0, think=4.0)
    runs = []
    with running(asked.origin) as providers:
        for name in NAMES:
            print(f"{world.chats} chats for {world.span:g} s: {NAMES[name]} …", flush=True)
            runs.append(asyncio.run(perform(name, providers, world)))
    print("\n" + table(runs, world))
    if max(run.late for run in runs) > 0.25:
        print("\nWARNING  this machine was too busy to keep the users' times: do not trust the figures")
    draw(runs, world, asked.plot)
    print(f"\nplot: {asked.plot}")
    assert all(figures(run, world)["chats"] for run in runs)


if __name__ == "__main__":
    main()
