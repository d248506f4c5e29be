"""`tests/findings.tsv`: each finding of the review has a test, a gate or a sentence, which is still there."""

from __future__ import annotations

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
TABLE = ROOT / "tests/findings.tsv"
ROWS = [
    tuple(line.split("\t"))
    for line in TABLE.read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]
NUMBERS = {"P": 19, "D": 7, "R": 16, "S": 18, "J": 21, "K": 16}
STATES = {"closed", "told", "measured", "accepted", "packaging"}


@pytest.mark.parametrize("row", ROWS, ids=" ".join)
def test_what_shows_a_finding_is_there(row: tuple[str, ...]) -> None:
    finding, state, file, text = row
    assert re.fullmatch("[PDRSJK][0-9]+", finding) and state in STATES
    assert text.replace("\\t", "\t") in (ROOT / file).read_text(encoding="utf-8"), (
        f"{file} no longer has {text!r}"
    )


def test_no_finding_is_left_out() -> None:
    wanted = {f"{section}{number}" for section, last in NUMBERS.items() for number in range(1, last + 1)}
    assert {row[0] for row in ROWS} == wanted


def test_a_finding_that_only_a_sentence_answers_says_so() -> None:
    """A page of the documentation shows no behaviour, so its row is not `closed`."""
    for finding, state, file, text in ROWS:
        if file.endswith(".md") and not file.startswith("docs/adr/"):
            assert state != "closed", f"{finding}: {text}"
