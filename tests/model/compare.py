"""Lets core and the model run the same random scripts and reports the first step in which they differ.

``python tests/model/compare.py --count 300`` builds and runs ``core/examples/traces.rs`` (or the program that
``--traces`` names). A script that differs is shrunk, event by event, as long as it differs still.
"""

from __future__ import annotations

import argparse
import copy
import json
import multiprocessing
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import run
import wire
from call import Step
from policy import Policy, build

ROOT = pathlib.Path(__file__).parents[2]
CARGO = ["cargo", "run", "--quiet", "--release", "-p", "tidegate", "--example", "traces", "--"]

Vector = dict[str, Any]


def other(entry: dict[str, Any], step: Step | None, wakes: list[str]) -> bool:
    """Has the model another step, or other wakes, than core?"""
    word = None if step is None else int(step["told"]) if "told" in step else wire.step_word(step)
    target = None if step is None else step.get("goes_to")
    return word != entry.get("step") or wakes != entry["wakes"] or target != entry.get("target")


def difference(vector: Vector) -> int | None:
    """The place of the first entry of a script whose step or wakes the model has otherwise."""
    world = run.World(vector)
    for place, entry in enumerate(vector["script"]):
        try:
            step, wakes = world.act(entry)
        except Exception as error:
            raise RuntimeError(f"{vector['name']}, entry {place}: {error!r}") from error
        if other(entry, step, wakes):
            return place
    return None


class Core:
    """The program that runs scripts on core."""

    def __init__(self, program: list[str]) -> None:
        self.process = subprocess.Popen(
            [*program, "--replay"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, vector: Vector) -> Vector:
        """The same script with core's steps."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(vector) + "\n")
        self.process.stdin.flush()
        answer: Vector = json.loads(self.process.stdout.readline())
        return answer


def names(entry: dict[str, Any]) -> list[str]:
    """The calls that an entry needs to exist."""
    if "on" in entry:
        return [str(entry["on"])]
    return [str(entry["begin"]["request"][2])] if "begin" in entry else []


def without(vector: Vector, place: int) -> Vector:
    """The script without one entry; without a call's begin, all its events go too."""
    script = copy.deepcopy(vector["script"])
    gone = script.pop(place).get("call")
    kept = [entry for entry in script if "on" not in entry or entry["on"] != gone]
    for entry in kept:
        if "begin" in entry and entry["begin"]["request"][2] == gone:
            entry["begin"]["request"][2] = 0
    return {**vector, "script": kept}


def simpler(vector: Vector) -> Iterator[Vector]:
    """Scripts and policies that are one thing smaller."""
    for place in reversed(range(len(vector["script"]))):
        yield without(vector, place)
    for at, policy in enumerate(vector["policies"]):
        for pair in range(len(policy["pairs"])):
            pairs = policy["pairs"][:pair] + policy["pairs"][pair + 1 :]
            if isinstance(build(policy["name"], pairs), Policy):
                policies = list(vector["policies"])
                policies[at] = {**policy, "pairs": pairs}
                yield {**vector, "policies": policies}


def shrink(vector: Vector, core: Core) -> Vector:
    """Drops one thing at a time while core and model differ still."""
    last = difference(vector)
    assert last is not None
    vector = {**vector, "script": vector["script"][: last + 1]}
    again = True
    while again:
        again = False
        for smaller in simpler(vector):
            try:
                tried = core.run(smaller)
            except (json.JSONDecodeError, BrokenPipeError):
                core = Core(core.process.args if isinstance(core.process.args, list) else [])
                continue
            if difference(tried) is not None:
                vector, again = tried, True
                break
    return vector


def compare(job: tuple[list[str], int, int, int]) -> tuple[int, int, Vector | None]:
    """Runs traces of one seed: how many agreed, with how many steps, and the first that did not."""
    program, seed, first, count = job
    command = [*program, "--seed", str(seed), "--first", str(first), "--count", str(count)]
    steps = 0
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for done, line in enumerate(process.stdout):
            vector: Vector = json.loads(line)
            if difference(vector) is not None:
                process.kill()
                return done, steps, vector
            steps += len(vector["script"])
        if process.wait() != 0 or done + 1 != count:
            raise SystemExit(f"the program that runs core ended early: {' '.join(command)}")
    return count, steps, None


def report(vector: Vector, program: list[str], shrinks: bool) -> None:
    """Prints a script that differs, shrunk where asked, and how to see it again."""
    small = shrink(vector, Core(program)) if shrinks else vector
    path = pathlib.Path(tempfile.gettempdir()) / f"{small['name'].replace(' ', '-')}.json"
    path.write_text(json.dumps(small) + "\n")
    print(f"\n{small['name']}: core and model differ. {len(small['script'])} entries:")
    for policy in small["policies"]:
        print(f"  policy {policy['name']}: {policy['pairs']}")
    for entry, (step, wakes) in zip(small["script"], run.replay(small), strict=True):
        print(run.told(entry, step, wakes))
        if other(entry, step, wakes):
            said = (
                wire.told(wire.read_step(entry["step"]))
                if "step" in entry and "settle" not in entry
                else entry.get("step", "")
            )
            print(f"{'':>15} core says: {said}  wakes {entry['wakes']}")
    print(f"\nAgain, in the model: python tests/model/run.py {path}")
    print(f"Again, in core: {' '.join(program)} --replay < {path}")


def main() -> None:
    """Compares."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=300, help="how many traces")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first trace")
    parser.add_argument("--traces", help="the program that runs core; built by cargo where it is not named")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--no-shrink", action="store_true", help="report a script that differs as it is")
    options = parser.parse_args()
    program = [options.traces] if options.traces else CARGO
    started = time.monotonic()
    share = max(1, min(1000, -(-options.count // options.jobs)))
    jobs = [
        (program, options.seed, first, min(share, options.first + options.count - first))
        for first in range(options.first, options.first + options.count, share)
    ]
    traces = steps = 0
    with multiprocessing.Pool(options.jobs) as pool:
        for agreed, stepped, different in pool.imap(compare, jobs):
            traces, steps = traces + agreed, steps + stepped
            if different is not None:
                pool.terminate()
                report(different, program, not options.no_shrink)
                sys.exit(1)
    print(f"{traces} traces, {steps} steps: core and model agree ({time.monotonic() - started:.1f} s)")


if __name__ == "__main__":
    main()
