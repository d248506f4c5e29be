"""The list of the plan's sentences (`tests/sentences/llm.md`): each has a test, or a reason why not."""

from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
LIST = ROOT / "tests/sentences/llm.md"
SHORT = {"core": "core/tests", "py": "bindings-python/tests", "js": "bindings-wasm/tests"}
SENTENCES = {0: 3, 1: 10, 2: 14, 3: 6, 4: 4, 5: 10, 6: 7}
"""How many sentences each section of the plan has; 7 is one."""

ROWS = [
    [cell.strip() for cell in line.split("|")[1:-1]]
    for line in LIST.read_text("utf-8").splitlines()
    if re.match(r"\| \d", line)
]
NAMES = [row[0].split(" ", 1)[0] for row in ROWS]


def path_of(name: str) -> pathlib.Path:
    """The file of a test, whose folder may have a short name."""
    first, _, rest = name.partition("/")
    folder = SHORT.get(first)
    short = folder is not None and not (ROOT / name).exists()
    return ROOT / folder / rest if short and folder else ROOT / name


def has(text: str, test: str) -> bool:
    """Whether a file has a test (or another sign) of this name."""
    if re.fullmatch(r"\w+_\w+", test):
        return re.search(rf"\b(?:fn|def) {test}\b", text) is not None
    return test in text


def test_every_sentence_of_the_plan_has_a_row() -> None:
    assert [f"{part}.{n + 1}" for part, most in SENTENCES.items() for n in range(most)] + ["7"] == NAMES


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_its_tests_and_its_numbers_exist(row: list[str]) -> None:
    _, numbers, tests, *rest = row
    spec = (ROOT / "docs/spec.md").read_text("utf-8")
    for number in filter(None, numbers.split(", ")):
        assert f"\n- {number} " in spec, f"docs/spec.md has no {number}"
    for told in filter(None, tests.split("; ")):
        parts = re.fullmatch(r"`([^`]+)` (.+)", told)
        assert parts, told
        name, test = parts.groups()
        assert has(path_of(name).read_text("utf-8"), test), f"{name} has no {test!r}"
    if not tests:
        assert rest and rest[0].startswith("not built"), "no test, and no reason"
    for link in re.findall(r"\]\(([^)]+)\)", " ".join(rest)):
        assert (LIST.parent / link).exists(), link


def test_a_row_without_its_test_would_be_found(tmp_path: pathlib.Path) -> None:
    assert has("def test_one() -> None:", "test_one") and not has("def test_one_more():", "test_one")
    assert path_of("core/limits.rs") == ROOT / "core/tests/limits.rs"
    assert path_of("core/src/cooldown.rs") == ROOT / "core/src/cooldown.rs"
    with pytest.raises(AssertionError, match="has no 'test_gone'"):
        test_its_tests_and_its_numbers_exist(["1.1 x", "7.7.1", "`py/test_sentences.py` test_gone", ""])
