"""The vectors of the families `breaker` and `throttle`: stories, told to the models line by line.

`breaker.txt` and `throttle.txt` hold them as people write them, each line with what its author expects; the
generator stops where the model says otherwise. Random scripts come after.
"""

from __future__ import annotations

import pathlib
import re
from dataclasses import dataclass, replace
from typing import Any

import breaker
import rng
import throttle

Case = dict[str, Any]
UNITS = {"h": 3_600_000_000, "m": 60_000_000, "s": 1_000_000, "ms": 1_000, "us": 1}
FORGED = {"zero": (0, False), "far": (40_000, False), "probe": (40_000, True), "none": (0, True)}
TOP = (1 << 64) - 1
SPEC = {"breaker": ["0.6", "5", "7.1", "11", "R9", "R10"], "throttle": ["0.6", "6", "R10"]}


def micros(text: str) -> int:
    """``250ms`` and its like in µs."""
    found = re.fullmatch(r"(\d+)([a-z]+)", text)
    assert found, text
    return int(found[1]) * UNITS[found[2]]


def value(text: str) -> Any:
    """A setting as it is written."""
    if text == "none":
        return None
    if re.fullmatch(r"\d+(h|m|s|ms|us)", text):
        return micros(text)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def pairs(words: list[str]) -> Case:
    """Settings as they are written."""
    return {key: value(text) for key, _, text in (word.partition("=") for word in words)}


def written(settings: Any) -> Case:
    """Settings as they stand in a vector: all of them, without those that are off."""
    return {key: given for key, given in vars(settings).items() if given is not None}


@dataclass
class Story:
    """Lines are a moment, words, and what the author expects."""

    file: str
    name: str
    settings: Case
    lines: list[tuple[int, list[str], str]]


def stories(family: str) -> list[Story]:
    """All that stand in a family's text."""
    found: list[Story] = []
    _, *texts = (pathlib.Path(__file__).parent / f"{family}.txt").read_text().split("\n== ")
    for text in texts:
        file, *lines = text.splitlines()
        for line in filter(None, lines):
            if line.startswith("# "):
                name, _, settings = line[2:].partition(" |")
                found.append(Story(file, name, pairs(settings.split()), []))
                continue
            for part in line.split(";"):
                said, _, expected = part.partition(" -> ")
                at, *words = said.split()
                found[-1].lines.append((micros(at), words, expected.strip()))
    return found


class BreakerTeller:
    """Tells a breaker line by line, and writes down what it says."""

    def __init__(self, settings: breaker.Settings) -> None:
        self.breaker = breaker.Breaker(settings)
        self.tickets: dict[str, breaker.Ticket] = {}
        self.draws = 0

    def tell(self, at: int, words: list[str]) -> Case | None:
        """One step of the vector; None where it would report a ticket that was never given."""
        step: Case = {"at": at, "op": words[0]}
        given = pairs([word for word in words[1:] if "=" in word])
        if words[0] == "admit":
            self.admit(step, words[1])
        elif words[0] in ("ok", "fail", "neutral", "body", "forge"):
            forged = words[0] == "forge"
            if not forged and words[1] not in self.tickets:
                return None
            op = words[2] if forged else words[0]
            ticket = None if forged else self.tickets[words[1]]
            bits = given.get("bits", TOP)
            step["op"] = "body" if op == "body" else "record"
            step |= {"forged": list(FORGED[words[1]])} if forged else {"call": words[1]}
            if op == "body":
                changed = self.breaker.body_failure(ticket, bits, at)
            else:
                step["evidence"] = {"ok": "success", "fail": "failure", "neutral": "neutral"}[op]
                changed = self.breaker.record(ticket, step["evidence"], bits, at)
            step["bits"] = str(bits)
            step["transition"] = list(changed) if changed else None
        elif words[0] == "retune":
            step["settings"] = written(replace(self.breaker.settings, **given))
            self.breaker.retune(replace(self.breaker.settings, **given), at)
        elif words[0] == "reset":
            self.breaker.reset()
        elif words[0] == "fork":
            self.breaker.fork()
        else:
            assert words == ["look"], words
        failures, throughput = self.breaker.counts(at)
        step |= {"state": self.breaker.state, "failures": failures, "throughput": throughput}
        step["fresh"] = self.breaker.fresh(at)
        until = self.breaker.open_until()
        return step if until is None else step | {"open_until": until}

    def admit(self, step: Case, name: str) -> None:
        """A ticket under this name, or a refusal."""
        answer = self.breaker.admit(step["at"])
        step["call"] = name
        if isinstance(answer, int):
            step["retry_in"] = answer
        else:
            self.tickets[name] = answer
            step["probe"] = answer.probe


def breaker_says(step: Case) -> str:
    """A step's answer as people write it."""
    if step["op"] == "admit":
        if "retry_in" in step:
            return f"refused {step['retry_in']}"
        return "probe" if step["probe"] else "call"
    changed = step.get("transition")
    return f"{changed[0]} to {changed[1]}" if changed else "nothing"


def breaker_story(story: Story) -> Case:
    """One case; the model and the author have to agree."""
    teller = BreakerTeller(breaker.Settings(**story.settings))
    steps = []
    for at, words, expected in story.lines:
        step = teller.tell(at, words)
        assert step is not None, (story.name, words)
        wanted = re.sub(r"^refused (.*)", lambda found: f"refused {micros(found[1])}", expected)
        assert not wanted or breaker_says(step) == wanted, (story.name, at, words, breaker_says(step))
        steps.append(step)
    return {"name": story.name, "settings": written(breaker.Settings(**story.settings)), "steps": steps}


class ThrottleTeller:
    """Tells a throttle line by line."""

    def __init__(self, settings: throttle.Settings, at: int) -> None:
        self.throttle = throttle.Throttle(settings, at)

    def tell(self, at: int, words: list[str]) -> Case:
        """One step of the vector."""
        step: Case = {"at": at, "op": words[0]}
        if words[0] == "admit":
            bits = TOP if words[1] == "TOP" else int(words[1])
            step |= {"bits": str(bits), "admitted": self.throttle.admit(bits, at)}
        elif words[0] == "record":
            step |= {"times": int(words[1]), "accepted": words[2] == "yes"}
            for _ in range(step["times"]):
                self.throttle.record(step["accepted"], at)
        elif words[0] == "retune":
            to = replace(self.throttle.settings, **pairs(words[1:]))
            step["settings"] = written(to)
            self.throttle.retune(to)
        else:
            assert words == ["look"], words
        requests, accepts = self.throttle.counts(at)
        # As a text: readers of JSON may lose the last bit of a number.
        step |= {"requests": requests, "accepts": accepts, "p": repr(self.throttle.probability(at))}
        return step


def throttle_story(story: Story) -> Case:
    """One case; the model and the author have to agree."""
    teller = ThrottleTeller(throttle.Settings(**story.settings), story.lines[0][0])
    steps = []
    for at, words, expected in story.lines:
        step = teller.tell(at, words)
        said = {True: "through", False: "refused"}.get(step.get("admitted", ""), "")
        assert not expected or said == expected, (story.name, at, words, said)
        steps.append(step)
    return {"name": story.name, "settings": written(throttle.Settings(**story.settings)), "steps": steps}


class Dice:
    """Draws of one story."""

    def __init__(self, seed: int) -> None:
        self.seed, self.n = seed, 0

    def bits(self) -> int:
        """64 of them."""
        self.n += 1
        return rng.bits(self.seed, self.n, rng.BACKOFF, 1)

    def below(self, limit: int) -> int:
        """A number from 0 on."""
        return rng.uniform(self.bits(), 0, limit - 1)

    def one(self, choices: list[Any]) -> Any:
        """One of these."""
        return choices[self.below(len(choices))]


def random_moment(dice: Dice, now: int) -> int:
    """Mostly a little later; at times the same, hours later, or hours back."""
    roll = dice.below(40)
    if roll == 0:
        return now + dice.below(10 * UNITS["h"])
    if roll == 1:
        return max(0, now - dice.below(10 * UNITS["h"]))
    if roll == 2:
        return max(0, now - dice.below(20_000))
    gap: int = dice.one([0, 0, 1, dice.below(1_000), dice.below(200_000), dice.below(2_000_000)])
    return now + gap


def random_breaker(seed: int) -> Case:
    """Settings and a script that nobody thought of."""
    dice = Dice(seed)
    settings = breaker.Settings(
        failure_ratio=dice.one([None, 0.1, 0.5, 0.9, 1.0]),
        window=dice.one([100, 99_999, 1_000_000, 3_000_000]),
        min_throughput=dice.one([1, 2, 5]),
        window_kind=dice.one(["sliding", "sliding", "tumbling"]),
        consecutive=dice.one([None, 1, 3, 4]),
        break_duration=dice.one([1, 300_000, 1_000_000]),
        break_factor=dice.one([1.0, 1.1, 2.0, 3.7]),
        max_break_duration=dice.one([1_000_000, 2_500_000, 10_000_000]),
        half_open_max_calls=dice.one([1, 1, 2, 4]),
        successes_to_close=dice.one([1, 1, 2, 3]),
        probe_lease=dice.one([1, 200_000, 2_000_000]),
    )
    teller, now, steps = BreakerTeller(settings), dice.below(1 << 40), []
    for n in range(48):
        now = random_moment(dice, now)
        bits = f"bits={dice.bits()}"
        known = list(teller.tickets)
        late, recent = (dice.one(known), dice.one(known[-3:])) if known else ("-", "-")
        words = dice.one(
            [["admit", f"t{n}"]] * 6
            + [["fail", recent, bits]] * 4
            + [["ok", recent, bits]] * 4
            + [["fail", late, bits], ["neutral", late, bits], ["body", late, bits], ["look"]]
            + [["forge", dice.one([*FORGED]), dice.one(["ok", "fail", "neutral", "body"]), bits]]
            + (
                [["retune", f"window={dice.one([100, 3_000_000])}us", "consecutive=2"], ["fork"]]
                if n % 7 == 0
                else []
            )
            + ([["reset"]] if n % 23 == 0 else [])
        )
        step = teller.tell(now, words)
        steps += [step] if step else []
    return {"name": f"random script {seed}", "settings": written(settings), "steps": steps}


def random_throttle(seed: int) -> Case:
    """Settings and a script that nobody thought of."""
    dice = Dice(seed + 1_000)
    settings = throttle.Settings(
        k=dice.one([1.0, 1.5, 2.0, 2.7]),
        window=dice.one([100, 99_999, 3_000_000, 120_000_000]),
        window_kind=dice.one(["sliding", "sliding", "tumbling"]),
        min_throughput=dice.one([1, 2, 10]),
        max_reject=dice.one([None, 0.5, 0.9, 1.0]),
        probe_interval=dice.one([None, 50_000, 1_000_000]),
    )
    now = dice.below(1 << 40)
    teller, start, steps = ThrottleTeller(settings, now), now, []
    for n in range(40):
        now = random_moment(dice, now) if n else now
        words = dice.one(
            [["admit", str(dice.bits())]] * 5
            + [
                ["admit", "0"],
                ["record", str(1 + dice.below(4)), "yes"],
                ["record", str(1 + dice.below(9)), "no"],
            ]
            * 2
            + ([["retune", f"k={dice.one(['1.0', '1.25'])}"]] if n % 9 == 0 else [])
        )
        steps.append(teller.tell(now, words))
    assert steps[0]["at"] == start
    return {"name": f"random script {seed}", "settings": written(settings), "steps": steps}


def files() -> dict[str, Case]:
    """Path and content of every file of the two families, without its head."""
    found: dict[str, Case] = {}
    for family, tell in (("breaker", breaker_story), ("throttle", throttle_story)):
        for story in stories(family):
            file = found.setdefault(f"{family}/{story.file}.json", {"spec": SPEC[family], "cases": []})
            file["cases"].append(tell(story))
    found["breaker/classes.json"] = {"spec": ["1.2"], "classes": breaker.EVIDENCE, "cases": []}
    found["breaker/random.json"] = {
        "spec": SPEC["breaker"],
        "cases": [random_breaker(seed) for seed in range(48)],
    }
    found["throttle/classes.json"] = {"spec": ["1.2"], "classes": throttle.ACCEPTED, "cases": []}
    found["throttle/random.json"] = {
        "spec": SPEC["throttle"],
        "cases": [random_throttle(seed) for seed in range(32)],
    }
    return found
