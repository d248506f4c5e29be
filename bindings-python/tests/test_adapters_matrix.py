"""Rules × adapters: every cell has a test in one of `FILES` that runs, or a reason why it cannot."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

from adapters import NAMES

RULES = {
    1: "replayability is judged before attempt 1",
    2: "which requests retry is decided from the request",
    3: "the last response, or the original exception, is what the user gets",
    4: "a failed response is released before the next attempt",
    5: "Retry-After is never cut short",
    6: "every wait can be left, and nothing stays behind",
    7: "two timeouts, two names; the deadline covers everything",
    8: "slots and deadlines span the body",
    9: "nested policies do not multiply",
    10: "clocks are injected",
    11: "repeats carry their number",
    12: "finite, safe, on by default",
    13: "every suppressed retry has a reason",
    14: "nothing leaks",
}
NOT_APPLICABLE: dict[tuple[int, str], str] = {}
"""(rule, adapter): why the rule cannot apply there. None needs one: also a thread can be interrupted (6)."""

HERE = pathlib.Path(__file__).parent
FILES = [HERE / "test_adapters_1_to_7.py", HERE / "test_adapters_8_to_14.py"]


@pytest.fixture(scope="module")
def cells() -> dict[tuple[int, str], int]:
    """How many tests pytest collects for each rule and adapter."""
    files = [str(file) for file in FILES]
    command = [sys.executable, "-m", "pytest", *files, "--collect-only", "-q", "-p", "no:cacheprovider"]
    root = ["--rootdir", str(HERE.parents[1]), "-c", str(HERE.parents[1] / "pyproject.toml")]
    found = subprocess.run([*command, *root], capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    cells: dict[tuple[int, str], int] = {}
    for line in found.stdout.splitlines():
        # `…::test_1_whole_bodies_are_sent_again[httpx sync-bytes]`
        match = re.search(r"::test_(\d+)_\w+\[([^\]]*)\]$", line)
        adapters = [name for name in NAMES if match and match[2].split("-")[0] == name]
        if match and adapters:
            cell = int(match[1]), adapters[0]
            cells[cell] = cells.get(cell, 0) + 1
    return cells


@pytest.mark.parametrize("adapter", NAMES)
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_has_a_test_in_an_adapter(cells: dict[tuple[int, str], int], rule: int, adapter: str) -> None:
    reason = NOT_APPLICABLE.get((rule, adapter))
    if reason is None:
        assert cells.get((rule, adapter), 0) > 0, f"rule {rule} ({RULES[rule]}) has no test for {adapter}"
    else:
        assert (rule, adapter) not in cells, f"rule {rule} applies to {adapter} after all: {reason}"


def test_no_cell_is_skipped() -> None:
    for file in FILES:
        assert not re.search(r"\b(skip|skipif|xfail|importorskip)\b", file.read_text(encoding="utf-8"))


def test_each_rule_counts_the_same_for_all(cells: dict[tuple[int, str], int]) -> None:
    for rule in RULES:
        counts = {adapter: cells.get((rule, adapter), 0) for adapter in NAMES}
        assert len(set(counts.values())) == 1, counts
