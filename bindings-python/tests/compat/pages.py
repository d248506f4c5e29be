"""The sentences of a page that a door follows, each with the tests that show it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any


class Page:
    """Numbered sentences; `says` marks a test with those that it shows, `unshown` tells what is missing."""

    def __init__(self, sentences: dict[int, str]) -> None:
        self.sentences = sentences
        self.shown: dict[int, list[str]] = {number: [] for number in sentences}

    def says(self, *numbers: int) -> Callable[[Any], Any]:
        def mark(test: Any) -> Any:
            for number in numbers:
                self.shown[number].append(test.__name__)
            return test

        return mark

    def unshown(self) -> dict[int, str]:
        return {number: self.sentences[number] for number, tests in self.shown.items() if not tests}


def page_of(docstring: str | None) -> Page:
    """The page whose sentences are the numbered lines of a docstring: number, two blanks, sentence."""
    lines = re.findall(r"^ *(\d+)  (.+)$", docstring or "", re.MULTILINE)
    numbered = {int(number): text for number, text in lines}
    assert len(numbered) == len(lines), "a number stands twice"
    return Page(numbered)
