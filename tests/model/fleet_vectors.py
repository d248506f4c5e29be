"""The vectors of the fleet's scripts (spec 10): what each answers, and what is stored afterwards."""

from __future__ import annotations

from typing import Any

import rng
from fleet import MINUTE, SCRIPTS, SECOND, Key, Refused, Store

Case = dict[str, Any]
NAMES = {
    "rate": ("rl", "rl:p"),
    "breaker": ("br", "br:v"),
    "slots": ("bh", "bh:f", "bh:w"),
    "digest": ("dd:0", "dd:1"),
    "cooldown": ("cd",),
    "limits": ("ws", "ws:p", "ws:c:00aa"),
}
TAGS = {
    "rate": "{r|api|eu}",
    "breaker": "{r|api|eu}",
    "slots": "{p|db}",
    "digest": "{p|db}",
    "cooldown": "{r|api|eu}",
    "limits": "{p|keys}",
}
# A moment as servers have it, and not a whole millisecond.
START = 1_800_000_000_000_123
HOUR = 3_600 * SECOND


def keys(script: str) -> list[str]:
    """The keys of a script."""
    return [f"tidegate:{TAGS[script]}:{name}" for name in NAMES[script]]


class Story:
    """One story: commands, and what the model makes of them."""

    def __init__(self, script: str, name: str) -> None:
        """Nothing is stored yet."""
        self.script, self.name, self.store = script, name, Store()
        self.at = START
        self.steps: list[Case] = []

    def wait(self, micros: int) -> Story:
        """Time passes; a negative time is a clock that runs back."""
        self.at += micros
        return self

    def run(self, *args: int | str) -> str:
        """A command of ours."""
        texts = [str(arg) for arg in args]
        if self.script == "rate":
            # Six numbers in one argument. The process follows where it is to be noted.
            texts = [" ".join(texts[1:7]), *(texts[:1] if texts[7:] == ["1"] else [])]
        self.store.now = self.at
        step: Case = {"at": self.at, "args": texts}
        try:
            step["reply"] = SCRIPTS[self.script](self.store, keys(self.script), texts)
        except Refused as refused:
            step["error"] = str(refused)
        self.steps.append({**step, "state": self.store.lines()})
        return str(step.get("reply", step.get("error")))

    def expect(self, reply: str, *args: int | str) -> Story:
        """A command whose answer the author of the story knows."""
        found = self.run(*args)
        assert found == reply, f"{self.script}: {self.name}, at {self.at}: {args} → {found}, not {reply}"
        return self

    def do(self, *words: int | str) -> Story:
        """What somebody else does: `SET`, `HSET` and `DEL` of a key named by its place, or `FLUSHALL`."""
        texts = [keys(self.script)[word] if isinstance(word, int) else word for word in words]
        self.store.now = self.at
        match texts:
            case ["SET", name, value]:
                self.store.keys[name] = Key("string", {"text": value})
            case ["HSET", name, field, value]:
                self.store.make(name, "hash").held[field] = value
            case ["DEL", name]:
                self.store.keys.pop(name, None)
            case ["FLUSHALL"]:
                self.store.keys.clear()
            case _:
                raise AssertionError(f"nobody does {texts}")
        self.steps.append({"at": self.at, "do": texts, "state": self.store.lines()})
        return self

    def case(self) -> Case:
        """As it is written down."""
        return {"name": self.name, "keys": keys(self.script), "steps": self.steps}


def draws(seed: int) -> Any:
    """Numbers of a stream, one after the other."""
    count = 0

    def draw(low: int, high: int) -> int:
        nonlocal count
        count += 1
        return rng.uniform(rng.bits(seed, count, rng.BACKOFF, 1), low, high)

    return draw


def jump(draw: Any, short: int, long: int) -> int:
    """Mostly a short step; now and then none, a long one, or a way back."""
    kind = draw(0, 5) if draw(0, 3) == 0 else 0
    step: int = draw(0, long if kind in {3, 5} else short)
    return 0 if kind == 2 else -step if kind > 3 else step


# ---- rate ----


def rate_cases() -> list[Case]:
    """Ten tokens a second and a burst of four, unless the story says otherwise."""
    ten = (10, SECOND, 4)
    stories = []

    story = Story("rate", "what is there is granted, down to what is needed; else the wait")
    story.expect("3 0 1", "a", *ten, 3, 1, 0, 1).expect("1 0 1", "a", *ten, 3, 1, 0, 1)
    story.expect("0 100000 1", "a", *ten, 1, 1, 0, 1).wait(99_999).expect("0 1 1", "a", *ten, 1, 1, 0, 1)
    story.wait(1).expect("1 0 1", "a", *ten, 4, 1, 0, 1).expect("0 400000 1", "a", *ten, 4, 4, 0, 1)
    stories.append(story.wait(HOUR).expect("4 0 1", "a", *ten, 9, 1, 0, 1))

    story = Story("rate", "what is put back counts first, and never beyond a full bucket")
    story.expect("4 0 1", "a", *ten, 4, 4, 0, 1).expect("2 0 1", "a", *ten, 2, 2, 2, 1)
    story.expect("0 0 1", "a", *ten, 0, 0, 3, 1).expect("3 0 1", "a", *ten, 9, 1, 0, 1)
    stories.append(story.expect("4 0 1", "a", *ten, 9, 1, 1_000_000, 1))

    story = Story("rate", "who asked within five seconds is a process")
    for name in ("a", "b", "c"):
        story.run(name, *ten, 1, 1, 0, 1)
    story.wait(2 * SECOND).expect("1 0 3", "a", *ten, 1, 1, 0, 1)
    story.wait(3 * SECOND - 1).expect("1 0 3", "a", *ten, 1, 1, 0, 1)
    stories.append(story.wait(1).expect("1 0 1", "a", *ten, 1, 1, 0, 1))

    story = Story("rate", "a refusal writes nothing, and who does not say that it is there is not counted")
    story.expect("1 0 0", "a", *ten, 1, 1, 0, 0).expect("3 0 1", "a", *ten, 9, 1, 0, 1)
    story.expect("0 100000 1", "b", *ten, 1, 1, 0, 0).wait(60_000).expect("0 40000 1", "b", *ten, 1, 1, 0, 0)
    story.wait(40_000).expect("1 0 1", "b", *ten, 1, 1, 0, 0).expect("0 100000 2", "b", *ten, 1, 1, 0, 1)
    # What is missing is a full bucket; how many there are the set of processes says.
    story.do("DEL", 0).expect("0 1 2", "c", *ten, 6, 6, 0, 0).expect("0 0 2", "c", *ten, 0, 0, 0, 0)
    story.wait(6 * SECOND).expect("4 0 2", "a", *ten, 9, 1, 0, 0)
    # A clock that has run back is written down by a refusal too, or time would stand still.
    story.wait(-HOUR).expect("0 100000 2", "a", *ten, 1, 1, 0, 0)
    story.wait(60_000).expect("0 40000 2", "a", *ten, 1, 1, 0, 0)
    # Time since the last write flows by the settings of who asks; other parts of a token are written down.
    story.wait(-60_000).expect("0 50000 2", "a", 20, SECOND, 4, 1, 1, 0, 0)
    story.expect("0 50000 2", "a", 1, 50_000, 4, 1, 1, 0, 0)
    stories.append(story.wait(50_000).expect("1 0 2", "a", 1, 50_000, 4, 9, 1, 0, 0))

    story = Story("rate", "a clock that runs back by less than a second mints nothing, and is waited for")
    story.expect("4 0 1", "a", *ten, 4, 1, 0, 1).wait(-400_000).expect("0 500000 1", "a", *ten, 1, 1, 0, 1)
    story.wait(400_000).expect("0 100000 1", "a", *ten, 1, 1, 0, 1)
    stories.append(story.wait(100_000).expect("1 0 1", "a", *ten, 1, 1, 0, 1))

    story = Story("rate", "a clock that runs back by hours mints nothing, and nobody waits for hours")
    story.expect("4 0 1", "a", *ten, 4, 1, 0, 1).run("b", *ten, 1, 1, 0, 1)
    story.wait(-HOUR).expect("0 100000 1", "a", *ten, 1, 1, 0, 1)
    story.wait(100_000).expect("1 0 1", "a", *ten, 1, 1, 0, 1)
    stories.append(story.wait(HOUR).expect("4 0 1", "a", *ten, 4, 1, 0, 1))

    story = Story("rate", "lost data is a full bucket, once")
    story.expect("4 0 1", "a", *ten, 4, 1, 0, 1).do("FLUSHALL").expect("4 0 1", "a", *ten, 4, 1, 0, 1)
    story.expect("0 100000 1", "a", *ten, 4, 1, 0, 1).do("DEL", 0).expect("4 0 1", "a", *ten, 4, 1, 0, 1)
    stories.append(story)

    story = Story("rate", "a key of another type is an error, and nothing has changed")
    story.run("a", *ten, 1, 1, 0, 1)
    story.do("SET", 1, "mine").expect("WRONGTYPE", "a", *ten, 1, 1, 0, 1).do("DEL", 1)
    story.do("DEL", 0).do("HSET", 0, "mine", "1").expect("WRONGTYPE", "a", *ten, 1, 1, 0, 1).do("DEL", 0)
    stories.append(story.expect("4 0 1", "a", *ten, 4, 1, 0, 1))

    story = Story("rate", "contents that no script of ours has written are as if they were missing")
    for bad in (
        "",
        "x",
        "-1",
        "1.5",
        "1e3",
        "0x10",
        "nan",
        "inf",
        " 7",
        "9007199254740992",
        "12345678901234567",
    ):
        story.run("a", *ten, 4, 1, 0, 1)
        words = ["7", str(START), str(SECOND), "1"]
        words[len(story.steps) % 4] = bad
        story.do("SET", 0, " ".join(words)).expect("4 0 1", "a", *ten, 4, 1, 0, 1)
    for bad in ("", "7", "7 8 9", f"7 {START} 1  1", f" 7 {START} 1 1", f"7 {START} 1 1 1", f"7 {START} 0 1"):
        story.do("SET", 0, bad).expect("4 0 1", "a", *ten, 4, 1, 0, 1)
    story.do("SET", 0, f"4503599627370496 {START} {SECOND} 7").expect("4 0 7", "a", *ten, 9, 1, 0, 0)
    stories.append(story)

    story = Story("rate", "arguments that are none are an error")
    story.expect("ERR", "a", *ten, 1, 1).expect("ERR", "a", *ten, "x", 1, 0, 1).expect(
        "ERR", "a", *ten, -1, 1, 0, 1
    )
    story.expect("ERR", "a", *ten, 1, 1, " 0").expect("ERR", "a", *ten, 1, 1, "0 0").expect("ERR", "a")
    story.expect("ERR", "a", 1, 2**26, 2**26 + 1, 1, 1, 0, 1).expect("ERR", "a", 1, 2**53, 1, 1, 1, 0, 1)
    stories.append(story)

    story = Story("rate", "settings that change keep the tokens")
    story.expect("2 0 1", "a", *ten, 2, 1, 0, 1).expect("1 0 1", "a", 600, MINUTE, 4, 1, 1, 0, 1)
    story.expect("1 0 1", "a", *ten, 9, 1, 0, 1).wait(50_000).expect(
        "0 5950000 1", "a", 10, MINUTE, 40, 1, 1, 0, 1
    )
    story.wait(3 * SECOND).run("a", 10, MINUTE, 40, 1, 1, 0, 1)
    story.expect("0 492 1", "a", 1_000, SECOND, 4, 1, 1, 0, 1)
    stories.append(story.wait(HOUR).expect("4 0 1", "a", *ten, 9, 1, 0, 1))

    story = Story("rate", "the farthest settings")
    story.expect(f"{2**26} 0 1", "a", 1, 2**26, 2**26, 2**40, 1, 0, 1)
    story.expect(f"0 {2**26} 1", "a", 1, 2**26, 2**26, 1, 1, 0, 1)
    story.expect(f"0 {2**52} 1", "a", 1, 2**26, 2**26, 2**26, 2**26, 0, 1)
    story.do("FLUSHALL").expect("1 0 1", "a", 1, 2**52, 1, 1, 1, 0, 1).wait(2**32)
    story.expect(f"0 {2**52 - 2**32} 1", "a", 1, 2**52, 1, 1, 1, 0, 1)
    story.do("FLUSHALL").expect("1 0 1", "a", 2**32 - 1, 2**52, 1, 1, 1, 0, 1).wait(2**20 - 1)
    story.run("a", 2**32 - 1, 2**52, 1, 1, 1, 0, 1)
    story.wait(2).expect("1 0 1", "a", 2**32 - 1, 2**52, 1, 1, 1, 0, 1)
    story.do("FLUSHALL").expect("5 0 1", "a", 0, 0, 5, 9, 1, 0, 1).expect("0 1 1", "a", 0, 0, 5, 9, 1, 0, 1)
    story.expect("0 1 1", "a", *ten, 9, 8, 9, 1)
    stories.append(story)

    for seed, (permits, per, burst) in enumerate(
        [ten, (7, 1_000_003, 1), (1_000, SECOND, 40), (2**32 - 1, 31_536_000_000, 142_000)]
    ):
        story, draw = Story("rate", f"drawn from the seed {seed}"), draws(seed)
        for _ in range(60):
            story.wait(jump(draw, 3 * per // permits + 1, 20 * SECOND))
            want = draw(0, min(2 * burst, 2**20))
            story.run(
                "abc"[draw(0, 2)],
                permits,
                per,
                burst,
                want,
                min(draw(0, want), burst),
                draw(0, 5) // 5,
                draw(0, 1),
            )
        stories.append(story)
    return [story.case() for story in stories]


# ---- breaker ----


def breaker_cases() -> list[Case]:
    """Breaks of a second; votes count for half a second."""
    second, look, opening, closing = (SECOND, 1, SECOND // 2), 0, 1, 2
    first = START // 1000
    stories = []

    story = Story("breaker", "one process opens it for all; a probe closes it")
    story.expect("0 0 0 0", look, "a", 0, *second).expect(f"1 1000000 {first} 1", opening, "a", 0, *second)
    story.wait(400_000).expect(f"1 600000 {first} 0", look, "b", 0, *second)
    story.expect(f"1 600000 {first} 0", opening, "b", 0, *second)
    story.expect(f"1 600000 {first} 0", closing, "b", first, *second)
    story.wait(599_999).expect(f"1 1 {first} 0", look, "b", 0, *second)
    story.wait(1).expect(f"2 0 {first} 0", look, "b", 0, *second)
    story.expect(f"2 0 {first} 0", closing, "b", first - 1, *second)
    story.expect(f"0 0 {first} 0", closing, "b", first, *second)
    stories.append(story.expect(f"0 0 {first} 0", closing, "a", first, *second))

    story = Story(
        "breaker", "a failed probe opens it again, with another epoch; late ones of the old do nothing"
    )
    story.run(opening, "a", 0, *second)
    story.wait(SECOND).expect(f"1 3000000 {first + 1000} 0", opening, "a", first, 3 * SECOND, 1, SECOND)
    story.wait(3 * SECOND).expect(f"2 0 {first + 1000} 0", opening, "b", first, *second)
    story.expect(f"2 0 {first + 1000} 0", closing, "b", first, *second)
    story.expect(f"0 0 {first + 1000} 0", closing, "b", first + 1000, *second)
    stories.append(story)

    story = Story("breaker", "a quorum of different processes within the window")
    three = (SECOND, 3, SECOND // 2)
    story.expect("0 0 0 1", opening, "a", 0, *three).expect("0 0 0 1", opening, "a", 0, *three)
    story.wait(250_000).expect("0 0 0 2", opening, "b", 0, *three).expect("0 0 0 2", look, "c", 0, *three)
    story.wait(250_000).expect("0 0 0 1", look, "c", 0, *three).expect("0 0 0 2", opening, "c", 0, *three)
    stories.append(story.expect(f"1 1000000 {first + 500} 3", opening, "d", 0, *three))

    story = Story("breaker", "an epoch never comes again, not even after the data was lost")
    story.run(opening, "a", 0, 100, 1, 1)
    for n in range(1, 4):
        story.wait(100).expect(f"1 100 {first + n} 0", opening, "a", first + n - 1, 100, 1, 1)
    story.do("FLUSHALL").wait(10_000).expect(f"1 100 {first + 10} 1", opening, "a", 0, 100, 1, 1)
    stories.append(story)

    story = Story("breaker", "the data is lost while it is open: closed, and an old probe does nothing")
    story.run(opening, "a", 0, *second)
    story.do("FLUSHALL").wait(SECOND).expect("0 0 0 0", closing, "a", first, *second)
    stories.append(story.expect(f"1 1000000 {first + 1000} 1", opening, "a", first, *second))

    story = Story("breaker", "forgotten ten breaks, or a minute, after it was half-open")
    story.run(opening, "a", 0, *second)
    story.wait(61 * SECOND).expect(f"2 0 {first} 0", look, "a", 0, *second)
    story.wait(1_000).expect("0 0 0 0", look, "a", 0, *second).run(opening, "a", 0, MINUTE, 1, 1)
    stories.append(story.wait(11 * MINUTE).expect(f"2 0 {first + 61_001} 0", look, "a", 0, *second))

    story = Story("breaker", "a clock that runs back by hours leaves no break of hours, and no votes")
    story.run(opening, "a", 0, *second)
    story.wait(-HOUR).expect(f"1 1000000 {first} 0", look, "a", 0, *second)
    story.wait(600_000).expect(f"1 400000 {first} 0", look, "a", 0, 9 * SECOND, 1, SECOND)
    story.wait(400_000).expect(f"0 0 {first} 0", closing, "a", first, *second)
    story.expect(f"0 0 {first} 1", opening, "b", 0, SECOND, 2, MINUTE).wait(-HOUR)
    story.expect(f"0 0 {first} 0", look, "a", 0, SECOND, 2, MINUTE)
    story.expect(f"0 0 {first} 1", opening, "a", 0, SECOND, 2, MINUTE)
    stories.append(story.expect(f"1 1000000 {first + 1} 2", opening, "c", 0, SECOND, 2, MINUTE))

    story = Story(
        "breaker", "keys of another type, contents that are no numbers, and arguments that are none"
    )
    story.do("SET", 0, "mine").expect("WRONGTYPE", look, "a", 0, *second).do("DEL", 0)
    story.do("SET", 1, "mine").expect("WRONGTYPE", opening, "a", 0, *second).do("DEL", 1)
    story.run(opening, "a", 0, *second)
    story.do("HSET", 0, "u", "soon").expect(f"2 0 {first} 0", look, "a", 0, *second)
    story.do("HSET", 0, "d", "-1").do("HSET", 0, "s", "yes").expect(f"0 0 {first} 0", look, "a", 0, *second)
    story.do("HSET", 0, "e", "nan").expect(f"1 1000000 {first} 1", opening, "a", 0, *second)
    story.expect("ERR", look, "a", 0, *second[:2]).expect("ERR", "open", "a", 0, *second)
    stories.append(story.expect(f"1 1000000 {first} 0", 7, "a", 0, *second))

    for seed, quorum in [(11, 1), (12, 2), (13, 3)]:
        story, draw = Story("breaker", f"drawn from the seed {seed}"), draws(seed)
        epoch = 0
        for _ in range(80):
            story.wait(jump(draw, 700_000, 2 * MINUTE))
            old = draw(0, 3) == 0
            reply = story.run(draw(0, 2), "abcd"[draw(0, 3)], max(epoch - old, 0), *(SECOND, quorum, SECOND))
            epoch = int(reply.split()[2])
        stories.append(story)
    return [story.case() for story in stories]


# ---- slots ----


def slots_cases() -> list[Case]:
    """Three slots, leases of half a minute."""
    acquire, release, renew, reap = range(4)
    ttl = 30 * SECOND
    stories = []

    story = Story("slots", "as many as there are, with fences in a row; back when they are released")
    story.expect(f"2 {START} 2 0 3", acquire, "a", 3, ttl, 2, 0).expect(
        f"1 {START + 2} 3 0 3", acquire, "b", 3, ttl, 2, 0
    )
    story.expect("0 0 3 0 0", acquire, "c", 3, ttl, 1, 0)
    story.expect("1 2", release, "a", 3, ttl, 0, 0, START, START + 2, 7).expect(
        "0 2", release, "a", 3, ttl, 0, 0, START
    )
    story.wait(5).expect(f"1 {START + 5} 3 0 1", acquire, "c", 3, ttl, 9, 0)
    story.expect("0 0 3 0 0", acquire, "c", 2, ttl, 1, 0).expect("0 3", reap, "c", 3, ttl, 0, 0)
    story.expect("1 2", release, "a", 3, ttl, 0, 0, START + 1).expect(
        "1 1", release, "b", 3, ttl, 0, 0, START + 2
    )
    stories.append(story.expect("1 0", release, "c", 3, ttl, 0, 0, f"00{START + 5}"[-16:]))

    story = Story("slots", "a lease that nobody renews ends; one that is renewed goes on")
    story.run(acquire, "a", 3, ttl, 2, 0)
    story.wait(20 * SECOND).expect("1 2", renew, "a", 3, ttl, 0, 0, START)
    story.wait(10 * SECOND).expect(f"2 {START + ttl} 3 1 3", acquire, "b", 3, ttl, 3, 0)
    story.expect(f"1 3 {START + 1}", renew, "a", 3, ttl, 0, 0, START, START + 1)
    story.wait(29 * SECOND).expect("0 3", renew, "c", 3, ttl, 0, 0).expect(
        "0 3 5 4", renew, "c", 3, ttl, 0, 0, 5, 4
    )
    story.wait(SECOND).expect("3 0", reap, "c", 3, ttl, 0, 0)
    stories.append(story.expect(f"0 0 {START}", renew, "a", 3, ttl, 0, 0, START))

    story = Story("slots", "who comes late renews a lease that nobody has wanted")
    story.run(acquire, "a", 1, ttl, 1, 0)
    story.wait(ttl + 500_000).expect("1 1", renew, "a", 1, ttl, 0, 0, START)
    story.expect("0 0 1 0 1", acquire, "b", 1, ttl, 1, 0)
    stories.append(story.wait(ttl + 1_002_000).expect(f"0 0 {START}", renew, "a", 1, ttl, 0, 0, START))

    story = Story("slots", "lost data: one limit more, and no fence comes again")
    story.run(acquire, "a", 3, ttl, 3, 0)
    story.do("FLUSHALL").wait(100).expect(f"3 {START + 100} 3 0 3", acquire, "b", 3, ttl, 3, 0)
    story.expect(
        f"0 3 {START} {START + 1} {START + 2}", renew, "a", 3, ttl, 0, 0, START, START + 1, START + 2
    )
    story.do("DEL", 1).wait(100).run(release, "b", 3, ttl, 0, 0, START + 100)
    stories.append(story.expect(f"1 {START + 200} 3 0 3", acquire, "c", 3, ttl, 1, 0))

    story = Story("slots", "a clock that runs back leaves no lease longer than declared, and no fence twice")
    story.run(acquire, "a", 3, ttl, 1, 0)
    story.wait(-HOUR).expect(f"1 {START + 1} 2 0 3", acquire, "b", 3, ttl, 1, 0)
    stories.append(story.wait(ttl).expect("2 0", reap, "b", 3, ttl, 0, 0))

    story = Story("slots", "a lease is as long as its holder was promised, whatever others have been")
    story.run(acquire, "a", 3, ttl, 1, 0)
    story.wait(SECOND).expect(f"1 {START + SECOND} 2 0 3", acquire, "b", 3, 5 * SECOND, 1, 0)
    story.wait(5 * SECOND).expect("1 1", reap, "b", 3, 5 * SECOND, 0, 0)
    story.wait(19 * SECOND).expect("1 1", renew, "a", 3, ttl, 0, 0, START)
    story.wait(29 * SECOND).expect(f"2 {START + 54 * SECOND} 3 0 3", acquire, "b", 3, 5 * SECOND, 3, 0)
    story.expect("1 3", renew, "b", 3, 90 * SECOND, 0, 0, START + 54 * SECOND)
    story.wait(SECOND).expect("1 2", reap, "b", 3, 5 * SECOND, 0, 0)
    story.wait(-HOUR).expect("0 2", reap, "b", 3, 5 * SECOND, 0, 0)
    stories.append(story.wait(90 * SECOND).expect("2 0", reap, "b", 3, 5 * SECOND, 0, 0))

    story = Story("slots", "what was the longest lease is forgotten with the last of them")
    story.run(acquire, "a", 3, ttl, 1, 0)
    story.run(release, "a", 3, ttl, 0, 0, START)
    story.expect(f"1 {START + 1} 1 0 3", acquire, "b", 3, 5 * SECOND, 1, 0).wait(-HOUR)
    story.expect("0 1", reap, "a", 3, SECOND, 0, 0)
    stories.append(story.wait(5 * SECOND).expect("1 0", reap, "a", 3, SECOND, 0, 0))

    story = Story("slots", "who has more than the fair level is not given more, and is told what it may keep")
    story.expect(f"4 {START} 4 0 4", acquire, "a", 4, ttl, 8, 0)
    story.wait(50_000).expect("0 0 4 0 2", acquire, "b", 4, ttl, 8, 0)
    story.wait(10_000).expect("0 0 4 0 2", acquire, "a", 4, ttl, 8, 4)
    story.run(release, "a", 4, ttl, 1, 3, START)
    story.wait(10_000).expect("0 0 3 0 2", acquire, "a", 4, ttl, 8, 3)
    story.wait(10_000).expect(f"1 {START + 80_000} 4 0 2", acquire, "b", 4, ttl, 8, 0)
    story.run(release, "a", 4, ttl, 1, 2, START + 1)
    story.wait(10_000).expect(f"1 {START + 90_000} 4 0 2", acquire, "b", 4, ttl, 7, 1)
    story.wait(10_000).expect("0 0 4 0 2", acquire, "a", 4, ttl, 8, 2)
    # Nobody asks again: what they wanted is forgotten, and one that wants little leaves the rest.
    story.wait(250_000).expect("0 0 4 0 4", acquire, "a", 4, ttl, 8, 2)
    story.wait(10_000).run(release, "b", 4, ttl, 2, 0, START + 80_000, START + 90_000)
    story.expect(f"2 {START + 370_000 - 10_000} 4 0 4", acquire, "a", 4, ttl, 8, 2)
    stories.append(story.wait(10_000).expect("0 0 4 0 3", acquire, "b", 4, ttl, 1, 0))
    assert story.run(acquire, "a", 4, ttl, 8, 4).endswith(" 3"), "b wants one and no more"

    story = Story("slots", "what cannot be divided goes round, a quarter of a second each")
    story.expect(f"1 {START} 1 0 1", acquire, "a", 1, ttl, 3, 0)
    story.wait(100_000).expect("0 0 1 0 0", acquire, "b", 1, ttl, 3, 0)
    story.expect("0 0 1 0 1", acquire, "a", 1, ttl, 3, 1)
    story.wait(149_999).expect("0 0 1 0 1", acquire, "a", 1, ttl, 3, 1)
    story.wait(1).expect("0 0 1 0 0", acquire, "a", 1, ttl, 3, 1)
    story.run(release, "a", 1, ttl, 1, 0, START)
    story.expect("0 0 0 0 0", acquire, "a", 1, ttl, 3, 0).wait(20_000)
    story.expect(f"1 {START + 270_000} 1 0 1", acquire, "b", 1, ttl, 3, 0)
    story.expect("0 0 1 0 0", acquire, "a", 1, ttl, 3, 0).wait(1_000)
    story.expect("0 0 1 0 0", acquire, "c", 1, ttl, 1, 0)
    story.do("HSET", 2, "b", "x").do("HSET", 2, "c", "1 2 3").expect("0 0 1 0 1", acquire, "a", 1, ttl, 3, 0)
    story.do("SET", 2, "mine").expect("WRONGTYPE", acquire, "a", 1, ttl, 1, 0).do("DEL", 2)
    stories.append(story.expect("0 0 1 0 1", acquire, "c", 1, ttl, 1, 0))

    story = Story("slots", "keys of another type, and arguments that are none")
    story.do("SET", 0, "mine").expect("WRONGTYPE", acquire, "a", 3, ttl, 1, 0).do("DEL", 0)
    story.do("HSET", 1, "mine", "1").expect("WRONGTYPE", acquire, "a", 3, ttl, 1, 0).do("DEL", 1)
    story.do("SET", 1, "mine").expect(f"1 {START} 1 0 3", acquire, "a", 3, ttl, 1, 0)
    story.do("SET", 1, f"{2**52 - 511} {ttl}").expect(f"2 {START} 3 0 3", acquire, "b", 3, ttl, 2, 0)
    story.expect("2 1", release, "b", 3, ttl, 0, 0, START, START + 1)
    story.expect("ERR", acquire, "a", 3, ttl, 1).expect("ERR", release, "a", 3, ttl, 0, 0, "x")
    story.expect("ERR", 4, "a", 3, ttl, 0, 0).expect("ERR", release, "a", 3, ttl, 0, 0, *range(513))
    story.expect("0 1", release, "a", 3, ttl, 0, 0, *range(512))
    for bad in ("", " ", "7", "7 ", " 7", "7  8", "7 8 9", "7 x", "-7 8", "7 12345678901234567"):
        story.do("SET", 1, bad).expect("1 1", renew, "a", 3, ttl, 0, 0, START)
    stories.append(story)

    for seed, limit, gap in [(31, 1, 100), (32, 4, 50), (33, 7, 50), (34, 20, 30)]:
        story, draw = Story("slots", f"many want more, drawn from the seed {seed}"), draws(seed)
        leased: dict[str, list[int]] = {name: [] for name in "abcd"}
        for _ in range(80):
            name = "abcd"[draw(0, 3)]
            mine = leased[name]
            story.wait(draw(0, gap * 1_000))
            if mine and draw(0, 2) == 0:
                count = draw(1, len(mine))
                story.run(release, name, limit, ttl, count, len(mine) - count, *mine[:count])
                del mine[:count]
            else:
                reply = story.run(acquire, name, limit, ttl, draw(1, limit + 2), len(mine)).split()
                mine.extend(range(int(reply[1]), int(reply[1]) + int(reply[0])))
        stories.append(story)

    for seed, limit in [(21, 1), (22, 4), (23, 20)]:
        story, draw = Story("slots", f"drawn from the seed {seed}"), draws(seed)
        held: dict[str, list[int]] = {"a": [], "b": []}
        for _ in range(60):
            story.wait(jump(draw, 15 * SECOND, 4 * MINUTE))
            name, op = "ab"[draw(0, 1)], [acquire, acquire, release, renew, reap][draw(0, 4)]
            mine = held[name]
            fences = mine[: draw(0, 3)] if op == release else mine if op == renew else []
            lease = ttl if limit < 20 or name == "a" else 5 * SECOND
            numbers = [
                int(text)
                for text in story.run(
                    op, name, limit + draw(0, 1), lease, draw(0, 4), len(mine), *fences
                ).split()
            ]
            if op == acquire:
                mine.extend(range(numbers[1], numbers[1] + numbers[0]))
            if op == release:
                del mine[: len(fences)]
            if op == renew:
                held[name] = [fence for fence in mine if fence not in numbers[2:]]
        stories.append(story)
    return [story.case() for story in stories]


# ---- digest ----


def digest_cases() -> list[Case]:
    """Slices of ten seconds, the median unless the story says otherwise."""
    ten, half = 10 * SECOND, 500_000
    start = -START % ten
    stories = []

    story = Story("digest", "a quantile of what all processes have sent").wait(start)
    story.expect("0 0", "a", ten, half).expect("3 5", "a", ten, half, 5, 3)
    story.expect("6 5", "b", ten, half, -7, 1, 9, 2).expect("6 9", "c", ten, 1_000_000)
    story.expect("6 -7", "c", ten, 0).expect("6 -7", "c", ten, 199_999).expect("6 5", "c", ten, 200_000)
    stories.append(story.expect("6 5", "c", ten, 799_999).expect("6 9", "c", ten, 800_000))

    story = Story("digest", "two slices count, and what is older is forgotten").wait(start)
    story.expect("4 1", "a", ten, half, 1, 4).wait(ten - 1).expect("5 1", "a", ten, half, 2, 1)
    story.wait(1).expect("5 1", "a", ten, half).expect("14 3", "a", ten, half, 3, 9)
    story.wait(ten).expect("9 3", "a", ten, half).expect("10 3", "b", ten, half, 4, 1)
    story.wait(2 * ten).expect("0 0", "a", ten, half)
    stories.append(story.wait(-2 * ten).expect("1 4", "a", ten, half))

    story = Story("digest", "a clock that runs back begins a new slice").wait(start)
    story.run("a", ten, half, 1, 4)
    stories.append(
        story.wait(-4 * ten).expect("1 8", "b", ten, half, 8, 1).wait(HOUR).expect("0 0", "a", ten, half)
    )

    story = Story("digest", "what lies below the highest 2,048 buckets shares the lowest of them").wait(start)
    story.expect("3 -47", "a", ten, half, -900, 2, 2_000, 1).expect("3 2000", "a", ten, 1_000_000)
    story.expect("4 -47", "a", ten, 0, -47, 1).expect("4 -47", "a", ten, half)
    story.expect("5 -46", "a", ten, 750_000, -46, 1).expect(
        "8 8191", "a", ten, 900_000, 8_190, 1, 9_999_999, 2
    )
    stories.append(story.expect("9 6144", "a", ten, 0, "-9999999", 1).expect("10 6144", "a", ten, 0, "-0", 1))

    story = Story(
        "digest", "keys of another type, contents that are no counts, and arguments that are none"
    ).wait(start)
    story.do("SET", 0, "mine").expect("WRONGTYPE", "a", ten, half, 1, 1).do("DEL", 0)
    story.do("SET", 1, "mine").expect("WRONGTYPE", "a", ten, half, 1, 1).do("DEL", 1)
    story.run("a", ten, half, 1, 1)
    place = (START + start) // ten % 2
    story.do("HSET", place, "mine", "9").do("HSET", place, "2", "-4").expect("1 1", "a", ten, half)
    story.do("HSET", place, "4", str(2**52)).expect(f"{2**38 + 1} 4", "a", ten, half)
    story.do("HSET", place, "n", "x").expect("0 0", "a", ten, half).expect("2 3", "a", ten, half, 3, 2)
    story.expect("ERR", "a", ten).expect("ERR", "a", ten, half, 1).expect("ERR", "a", ten, half, "x", 1)
    story.expect("ERR", "a", ten, half, 1, -1).expect("ERR", "a", ten, half, "--1", 1).expect(
        "ERR", "a", ten, half, "-", 1
    )
    story.expect("ERR", "a", ten, half, *range(1026)).expect("0 0", "a", 0, half)
    stories.append(story)

    story = Story("digest", "as many pairs as one command may carry").wait(start)
    stories.append(story.expect("512 255", "a", ten, half, *[n for pair in range(512) for n in (pair, 1)]))

    for seed in (31, 32):
        story, draw = Story("digest", f"drawn from the seed {seed}"), draws(seed)
        for _ in range(40):
            story.wait(jump(draw, 4 * SECOND, MINUTE))
            pairs = [(draw(0, 60) - 30) * (100 if draw(0, 5) == 0 else 1) for _ in range(draw(0, 4))]
            story.run("a", ten, draw(0, 1_000_000), *[n for bucket in pairs for n in (bucket, draw(0, 50))])
        stories.append(story)
    return [story.case() for story in stories]


def files() -> dict[str, Case]:
    """The files by path, without their heads."""
    spec = ["10.1", "10.2"]
    return {
        "fleet/rate.json": {"kind": "rate", "spec": [*spec, "3.1", "3.2"], "cases": rate_cases()},
        "fleet/breaker.json": {"kind": "breaker", "spec": spec, "cases": breaker_cases()},
        "fleet/slots.json": {"kind": "slots", "spec": spec, "cases": slots_cases()},
        "fleet/digest.json": {"kind": "digest", "spec": [*spec, "9.3"], "cases": digest_cases()},
    }
