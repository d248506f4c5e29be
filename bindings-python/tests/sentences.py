"""A document's sentences, numbered; tests say which they show, and none may be missing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Sentences:
    """The numbered lines of a test module's docstring."""

    def __init__(self, docstring: str | None) -> None:
        lines = re.findall(r"^ *(\d+)  (.+)$", docstring or "", re.MULTILINE)
        self.all = {int(number): text for number, text in lines}
        self.shown: dict[int, list[str]] = {}

    def __call__(self, *numbers: int) -> Callable[[F], F]:
        """Marks a test that shows these sentences."""

        def mark(test: F) -> F:
            for number in numbers:
                assert number in self.all, f"there is no sentence {number}"
                self.shown.setdefault(number, []).append(test.__name__)
            return test

        return mark

    def missing(self) -> dict[int, str]:
        """The sentences that no test shows."""
        return {number: text for number, text in self.all.items() if number not in self.shown}
