"""The vectors of the script of a fleet's sets of limits (spec 10.14)."""

from __future__ import annotations

from fleet import MINUTE, SECOND
from fleet_vectors import HOUR, START, Case, Story, draws, jump

# Ten a second, four at once; a thousand a second of which five hundred may be owed.
RPM = "rpm 10 1000000 4 0"
TPM = "tpm 1000 1000000 2000 500"


def limit_cases() -> list[Case]:
    """A command: the process, whether it is noted and the number of its charge; then each limit."""
    stories = []
    one, noted = "00aa 0 0", "00aa 1 0"

    story = Story("limits", "a call gets its tokens of all limits or none, and the reply names the last")
    story.expect("0 0 1 1 0 1500 0", noted, f"{RPM} 1 1 0 0", f"{TPM} 1500 1500 0 0")
    story.expect("100000 2 1 0 0 0 0", one, f"{RPM} 1 1 0 0", f"{TPM} 600 600 0 0")
    story.expect("0 0 1 3 0 500 0", one, f"{RPM} 9 1 0 0", f"{TPM} 600 400 0 0")
    story.expect("100000 1 1 0 0 0 0", one, f"{RPM} 1 1 0 0", f"{TPM} 1 0 0 0")
    story.expect("200000 2 1 0 0 0 0", one, f"{RPM} 1 1 0 0", f"{TPM} 200 200 0 0")
    stories.append(story.wait(200_000).expect("0 0 1 2 0 200 0", one, f"{RPM} 2 1 0 0", f"{TPM} 200 200 0 0"))

    story = Story("limits", "tokens that come back, never more than the burst")
    story.run(one, f"{TPM} 2000 1 0 0")
    story.expect("0 0 0 700 0", one, f"{TPM} 900 1 700 0").expect("0 0 0 0 0", one, f"{TPM} 0 0 9000 0")
    stories.append(story.expect("0 0 0 2000 0", one, f"{TPM} 9000 1 0 0"))

    story = Story("limits", "a charge counts once; the level falls below 0, as far as the largest debt")
    story.run(one, f"{TPM} 1900 1 0 0")
    story.expect("0 0 0 0 0", "00aa 0 7", f"{TPM} 0 0 0 300").expect(
        "0 0 0 0 0", "00aa 0 7", f"{TPM} 0 0 0 300"
    )
    story.expect("300000 1 0 0 0", one, f"{TPM} 100 100 0 0").expect(
        "0 0 0 0 0", "00aa 0 6", f"{TPM} 0 0 0 99"
    )
    story.wait(100_500).expect("0 0 0 0 401", "00aa 0 8", f"{TPM} 0 0 0 801")
    story.expect("501000 1 0 0 0", one, f"{TPM} 1 1 0 0").expect("0 0 0 0 0", one, f"{TPM} 5 0 0 0")
    stories.append(story.wait(700_000).expect("0 0 0 200 0", one, f"{TPM} 900 1 0 0"))

    story = Story("limits", "what comes back pays a debt; a smaller largest debt cuts it")
    story.run("00aa 0 1", f"{TPM} 2000 1 0 0")
    story.run("00aa 0 2", f"{TPM} 0 0 0 400")
    story.expect("100000 1 0 0 0", one, f"{TPM} 100 100 400 0")
    story.run("00aa 0 3", f"{TPM} 0 0 0 450")
    stories.append(story.expect("11000 1 0 0 0", one, "tpm 1000 1000000 2000 10 1 1 0 0"))

    story = Story("limits", "processes are noted, and forgotten after five seconds")
    story.expect("0 0 1 1 0", noted, f"{RPM} 1 1 0 0").expect("0 0 2 1 0", "00bb 1 0", f"{RPM} 1 1 0 0")
    story.wait(4 * SECOND).expect("0 0 2 1 0", "00bb 1 0", f"{RPM} 1 1 0 0")
    stories.append(story.wait(SECOND).expect("0 0 1 1 0", "00bb 1 0", f"{RPM} 1 1 0 0"))

    story = Story("limits", "a clock that runs back mints nothing, and lost data is full limits")
    story.run(noted, f"{RPM} 4 4 0 0")
    story.wait(-HOUR).expect("100000 1 1 0 0", one, f"{RPM} 1 1 0 0").wait(100_000)
    story.expect("0 0 1 1 0", one, f"{RPM} 1 1 0 0").wait(-500_000)
    story.expect("600000 1 1 0 0", one, f"{RPM} 1 1 0 0").do("FLUSHALL")
    stories.append(story.expect("0 0 0 4 0", one, f"{RPM} 9 1 0 0"))

    story = Story("limits", "settings that change keep tokens and debts")
    story.run("00aa 0 1", f"{TPM} 2000 1 0 0")
    story.run("00aa 0 2", f"{TPM} 0 0 0 100")
    story.expect("6060000 1 0 0 0", one, f"tpm 1000 {MINUTE} 2000 500 1 1 0 0")
    story.wait(1_500).expect("6058500 1 0 0 0", one, f"tpm 1000 {MINUTE} 2000 500 1 1 0 0")
    story.wait(MINUTE).expect("0 0 0 900 0", one, f"tpm 1000 {MINUTE} 2000 500 999 1 0 0")
    story.expect("0 0 0 4 0", one, f"{RPM} 9 1 0 0")
    stories.append(story.expect("0 0 0 1 0", one, "rpm 10 1000000 5 0 9 1 1 0"))

    far = 365 * 24 * HOUR
    story = Story("limits", "the farthest settings: a level in parts takes more than 2^53")
    most = 2**51
    story.expect(f"0 0 0 {most} 0", one, f"a {most} {far} {most} {most} {most} 1 0 0").wait(1)
    story.expect("0 0 0 71 0", one, f"a {most} {far} {most} {most} 99 71 0 0").wait(10**9)
    story.run(one, f"a {most} {far} {most} {most} {most} 1 0 0")
    story.run("00aa 0 9", f"a {most} {far} {most} {most} 0 0 0 {most}")
    story.run("00aa 0 10", f"a {most} {far} {most} {most} 0 0 0 {most}")
    story.wait(far // 3).run(one, f"a {most} {far} {most} {most} 0 0 0 0")
    story.wait(far).run("00aa 0 11", f"a {most} {far} {most} {most} {most} 0 0 1")
    story.run(one, f"b 7 {far} 3 0 3 3 0 0")
    story.wait(far // 7).run(one, f"b 7 {far} 3 0 3 1 0 0")
    stories.append(story)

    story = Story("limits", "keys of another type, contents that are none, and arguments that are none")
    for place in (1, 2):
        story.do("HSET", place, "mine", "1").expect("WRONGTYPE", "00aa 1 3", f"{RPM} 1 1 0 0").do(
            "DEL", place
        )
    story.do("SET", 0, "mine").expect("WRONGTYPE", one, f"{RPM} 1 1 0 0").do("DEL", 0)
    for bad in ("", "x", "1 2 3", f"-x {START} 0 5", f"1 {START} 5 5", f"+1 {START} 0 5", f"--1 {START} 0 5"):
        story.do("HSET", 0, "rpm", bad).expect("0 0 0 4 0", one, f"{RPM} 9 1 0 0")
    story.do("HSET", 0, "rpm", f"-3 {START} 0 {SECOND}").expect("100000 1 0 0 0", one, f"{RPM} 1 1 0 0")
    story.do("SET", 2, "many").expect("0 0 0 0 3", "00aa 0 3", f"{RPM} 0 0 0 3")
    for bad in (
        "",
        "00aa",
        "00aa 0",
        "00aa 2 0",
        "00aa 0 -1",
        "00aa 0 0 0",
        " 0 0",
        "a_a 0 0",
        f"00aa 0 {2**53}",
    ):
        story.expect("ERR", bad, f"{RPM} 1 1 0 0")
    for bad in (
        "",
        "rpm",
        "rpm 1 1 1 1 1 1 1",
        f"{RPM} 1 1 0 x",
        f"{RPM} 1 1 0 0 0",
        f"r.m {RPM[4:]} 1 1 0 0",
    ):
        story.expect("ERR", one, bad)
    story.expect("ERR", one, f"rpm 1 {2**45 + 1} 1 0 1 1 0 0").expect(
        "ERR", one, f"rpm 1 1 {2**53} 0 1 1 0 0"
    )
    story.expect("ERR", one).expect("ERR").expect("ERR", one, *[f"{RPM} 1 1 0 0"] * 5)
    stories.append(story.expect("0 0 0 1 0 1 0 1 0 1 0", one, *[f"{n} 1 1 1 0 1 1 0 0" for n in "abcd"]))

    for seed in (51, 52, 53):
        story, draw = Story("limits", f"drawn from the seed {seed}"), draws(seed)
        charge = 0
        for _ in range(50):
            story.wait(jump(draw, 300_000, MINUTE))
            charge += draw(0, 1)
            calls, tokens = draw(0, 2), draw(0, 900)
            story.run(
                f"00aa {draw(0, 1)} {charge * draw(0, 1)}",
                f"{RPM} {calls + draw(0, 3)} {calls} {draw(0, 9) // 9} 0",
                f"{TPM} {tokens + draw(0, 100)} {tokens} {draw(0, 3) // 3 * draw(0, 500)} {draw(0, 400)}",
            )
        stories.append(story)
    return [story.case() for story in stories]


def files() -> dict[str, Case]:
    """The file by its path, without its head."""
    spec = ["10.1", "10.2", "10.14", "3.4", "3.6"]
    return {"fleet/limits.json": {"kind": "limits", "spec": spec, "cases": limit_cases()}}
