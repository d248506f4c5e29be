"""Prints the public interface of crates from the pages that rustdoc has written: `python rust.py <target/doc> <crate> …`.

One line for each declaration, inherent function, function of a trait, and implementation of a trait. Automatic and blanket
implementations are left out.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path

VOID = {"br", "img", "hr", "link", "meta", "input", "wbr"}
LISTS = {
    "implementations-list": True,
    "trait-implementations-list": False,
    "synthetic-implementations-list": None,
    "blanket-implementations-list": None,
    "implementors-list": None,
}
"""Sections of a page, and whether the functions in them are taken; `None` takes nothing."""


class Page(HTMLParser):
    """The declarations of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.stack: list[tuple[str, bool | None]] = [("", True)]
        self.taken: tuple[int, list[str]] | None = None
        """The depth of the element whose text is being taken, and its text."""
        self.hidden = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag in VOID:
            return
        about = dict(attributes)
        section = LISTS.get(about.get("id") or "", self.stack[-1][1])
        if tag == "details" and self.taken is None:
            kind = about.get("class") or ""
            if "implementors-toggle" in kind and section is True and self.stack[-1][1] is not True:
                section = False
        self.stack.append((tag, section))
        kind = (about.get("class") or "").split()
        if self.taken is not None:
            # Links to the source, and what is only shown on hover.
            self.hidden += "src" in kind or "since" in kind or self.hidden > 0
            return
        wanted = (tag == "pre" and "item-decl" in kind) or (tag == "h4" and "code-header" in kind and section is True)
        wanted = wanted or (tag == "h3" and "code-header" in kind and section is not None)
        if wanted:
            self.taken = (len(self.stack), [])

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID or tag not in (name for name, _ in self.stack):
            return
        while self.stack[-1][0] != tag:
            self.stack.pop()
        if self.taken is not None and len(self.stack) == self.taken[0]:
            text = " ".join("".join(self.taken[1]).split())
            if text:
                self.found.append(text)
            self.taken, self.hidden = None, 0
        self.hidden -= self.hidden > 0
        self.stack.pop()

    def handle_data(self, data: str) -> None:
        if self.taken is not None and not self.hidden:
            self.taken[1].append(data)


def main() -> None:
    """Prints all declarations, each with the path of its page."""
    root, lines = Path(sys.argv[1]), set()
    for crate in sys.argv[2:]:
        for file in sorted((root / crate).rglob("*.html")):
            if file.name in ("all.html", "index.html", "sidebar-items.html"):
                continue
            page = Page()
            page.feed(file.read_text("utf-8"))
            kind, _, name = file.stem.partition(".")
            path = "::".join([*file.relative_to(root).parts[:-1], name])
            lines |= {f"{path}: {line}" for line in page.found if kind and name}
    sys.stdout.write("\n".join(sorted(lines)) + "\n")


if __name__ == "__main__":
    main()
