"""The vectors of the script of a fleet's cooldown (spec 16.7)."""

from __future__ import annotations

from fleet import MINUTE, SECOND
from fleet_vectors import HOUR, START, Case, Told, draws, jump


def cooldown_cases() -> list[Case]:
    """A command has one argument: the time left of a closing, and its closings in a row. No time: a read."""
    first = START // 1000
    stories = []

    def told_of(name: str) -> Told:
        return Told("cooldown", name)

    told = told_of("a closing lasts until its end, and a later one puts it off")
    told.expect("0 0 0", "0 3").expect(f"1000000 {first} 1", f"{SECOND} 1").wait(400_000)
    told.expect(f"600000 {first} 1", "0 0").expect(f"600000 {first} 1", "599999 9")
    told.expect(f"600000 {first} 1", "600000 9").expect(f"600001 {first + 400} 9", "600001 9")
    told.wait(600_000).expect(f"1 {first + 400} 9", "0 0").wait(1).expect(f"0 {first + 400} 0", "0 7")
    stories.append(told.expect(f"5 {first + 1000} 2", "5 2"))

    told = told_of("the row of a closing that is put off is the larger, and of the next its own")
    told.expect(f"100 {first} 3", "100 3").expect(f"200 {first + 1} 3", "200 1")
    stories.append(told.wait(SECOND).expect(f"50 {first + 1000} 1", "50 1"))

    told = told_of("an epoch never comes again, not even after the data was lost")
    for n in range(5):
        told.expect(f"{100 + n} {first + n} 1", f"{100 + n} 1")
    told.do("FLUSHALL").expect("0 0 0", "0 0").wait(10_000).expect(f"9 {first + 10} 1", "9 1")
    stories.append(told)

    told = told_of("forgotten a second after its end")
    told.run(f"{SECOND} 1")
    told.wait(2 * SECOND).expect(f"0 {first} 0", "0 0").wait(1_000).expect("0 0 0", "0 0")
    stories.append(told)

    told = told_of("a clock that runs back by hours leaves no closing of hours")
    told.run(f"{SECOND} 1")
    told.wait(-HOUR).expect(f"1000000 {first} 1", "0 0").wait(600_000).expect(f"400000 {first} 1", "0 0")
    told.wait(400_000).expect(f"0 {first} 0", "0 0")
    stories.append(told)

    told = told_of("keys of another type, contents that are none, and arguments that are none")
    told.do("HSET", 0, "mine", "1").expect("WRONGTYPE", "0 0").expect("WRONGTYPE", "5 1").do("DEL", 0)
    for bad in (
        "",
        "x",
        "1 2 3",
        f"1 {START + 9} 9 1 1",
        f"-1 {START + 9} 9 1",
        f"1 {START + 9} 9  1",
        "1 2 3 x",
    ):
        told.do("SET", 0, bad).expect("0 0 0", "0 0")
    told.do("SET", 0, f"7 {START + 9} {2**52} 1").expect("9 7 1", "0 0")
    told.do("SET", 0, f"7 {START + 9} {2**53} 1").expect("0 0 0", "0 0")
    for bad in (
        "",
        "1",
        "1 2 3",
        "-1 2",
        "1  2",
        " 1 2",
        "x 1",
        f"{2**53} 1",
        f"1 {2**53}",
        "1.5 1",
        "1e3 1",
    ):
        told.expect("ERR", bad)
    stories.append(told.expect("ERR").expect("0 0 0", "0 0"))

    for seed in (41, 42):
        told, draw = told_of(f"drawn from the seed {seed}"), draws(seed)
        for _ in range(60):
            told.wait(jump(draw, SECOND, MINUTE))
            told.run(f"{draw(0, 2) * draw(0, 2 * SECOND)} {draw(0, 32)}")
        stories.append(told)
    return [told.case() for told in stories]


def files() -> dict[str, Case]:
    """The file by its path, without its head."""
    spec = ["10.1", "10.2", "16.7"]
    return {"fleet/cooldown.json": {"kind": "cooldown", "spec": spec, "cases": cooldown_cases()}}
