"""The vectors of the script of a fleet's cooldown (spec 16.7)."""

from __future__ import annotations

from fleet import MINUTE, SECOND
from fleet_vectors import HOUR, START, Case, Story, draws, jump


def cooldown_cases() -> list[Case]:
    """A command has one argument: the time left of a closing, and its closings in a row. No time: a read."""
    first = START // 1000
    stories = []

    def story_of(name: str) -> Story:
        return Story("cooldown", name)

    story = story_of("a closing lasts until its end, and a later one puts it off")
    story.expect("0 0 0", "0 3").expect(f"1000000 {first} 1", f"{SECOND} 1").wait(400_000)
    story.expect(f"600000 {first} 1", "0 0").expect(f"600000 {first} 1", "599999 9")
    story.expect(f"600000 {first} 1", "600000 9").expect(f"600001 {first + 400} 9", "600001 9")
    story.wait(600_000).expect(f"1 {first + 400} 9", "0 0").wait(1).expect(f"0 {first + 400} 0", "0 7")
    stories.append(story.expect(f"5 {first + 1000} 2", "5 2"))

    story = story_of("the row of a closing that is put off is the larger, and of the next its own")
    story.expect(f"100 {first} 3", "100 3").expect(f"200 {first + 1} 3", "200 1")
    stories.append(story.wait(SECOND).expect(f"50 {first + 1000} 1", "50 1"))

    story = story_of("an epoch never comes again, not even after the data was lost")
    for n in range(5):
        story.expect(f"{100 + n} {first + n} 1", f"{100 + n} 1")
    story.do("FLUSHALL").expect("0 0 0", "0 0").wait(10_000).expect(f"9 {first + 10} 1", "9 1")
    stories.append(story)

    story = story_of("forgotten a second after its end")
    story.run(f"{SECOND} 1")
    story.wait(2 * SECOND).expect(f"0 {first} 0", "0 0").wait(1_000).expect("0 0 0", "0 0")
    stories.append(story)

    story = story_of("a clock that runs back by hours leaves no closing of hours")
    story.run(f"{SECOND} 1")
    story.wait(-HOUR).expect(f"1000000 {first} 1", "0 0").wait(600_000).expect(f"400000 {first} 1", "0 0")
    story.wait(400_000).expect(f"0 {first} 0", "0 0")
    stories.append(story)

    story = story_of("keys of another type, contents that are none, and arguments that are none")
    story.do("HSET", 0, "mine", "1").expect("WRONGTYPE", "0 0").expect("WRONGTYPE", "5 1").do("DEL", 0)
    for bad in (
        "",
        "x",
        "1 2 3",
        f"1 {START + 9} 9 1 1",
        f"-1 {START + 9} 9 1",
        f"1 {START + 9} 9  1",
        "1 2 3 x",
    ):
        story.do("SET", 0, bad).expect("0 0 0", "0 0")
    story.do("SET", 0, f"7 {START + 9} {2**52} 1").expect("9 7 1", "0 0")
    story.do("SET", 0, f"7 {START + 9} {2**53} 1").expect("0 0 0", "0 0")
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
        story.expect("ERR", bad)
    stories.append(story.expect("ERR").expect("0 0 0", "0 0"))

    for seed in (41, 42):
        story, draw = story_of(f"drawn from the seed {seed}"), draws(seed)
        for _ in range(60):
            story.wait(jump(draw, SECOND, MINUTE))
            story.run(f"{draw(0, 2) * draw(0, 2 * SECOND)} {draw(0, 32)}")
        stories.append(story)
    return [story.case() for story in stories]


def files() -> dict[str, Case]:
    """The file by its path, without its head."""
    spec = ["10.1", "10.2", "16.7"]
    return {"fleet/cooldown.json": {"kind": "cooldown", "spec": spec, "cases": cooldown_cases()}}
