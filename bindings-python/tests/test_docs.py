"""The pages under `docs/`: links, the rooms of the architecture, the index of decisions, the drawings."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*/README.md")])


def anchors(page: pathlib.Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: pathlib.Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    broken = []
    for link in re.findall(r"\]\(((?!https?:|mailto:)[^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def test_the_index_of_decisions_has_a_line_for_each_record() -> None:
    adr = ROOT / "docs/adr"
    listed = re.findall(
        r"^\| \[\d{4}\]\((\d{4}-[^)]*\.md)\)", (adr / "README.md").read_text("utf-8"), re.MULTILINE
    )
    assert listed == sorted(path.name for path in adr.glob("[0-9]*.md"))


def test_the_architecture_names_every_module_of_core_and_every_folder() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    core = ROOT / "core/src"
    modules = {path.stem for folder in (core, core / "engine") for path in folder.glob("*.rs")}
    missing = {name for name in modules - {"lib", "engine"} if not re.search(rf"`{name}(`|/|\.rs)", page)}
    folders = {path.name for path in ROOT.iterdir() if (path / "Cargo.toml").exists()} - {"target"}
    missing |= {name for name in folders if f"`{name}/`" not in page}
    assert not missing, "docs/architecture.md has a table for each kind of room: add these"
    gone = [
        path
        for path in re.findall(r"`((?:core|xtask|tests)/[\w/]+\.rs)`", page)
        if not (ROOT / path).exists()
    ]
    assert not gone


def test_each_line_of_the_start_page_is_in_a_tutorial() -> None:
    """The blocks of tutorials are tests."""
    tutorials = "\n".join(page.read_text("utf-8") for page in (ROOT / "docs/tutorial").glob("*.md"))
    page = (ROOT / "docs/index.md").read_text("utf-8")
    blocks = re.findall(r"^    ```\w+\n(.*?)^    ```", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 5
    lines = [line.strip().rpartition(" = try await ")[2] for block in blocks for line in block.splitlines()]
    assert [line for line in lines if line not in tutorials] == []


def test_the_drawings_are_what_their_script_draws() -> None:
    subprocess.run([sys.executable, ROOT / "docs/drawings/draw.py", "--check"], check=True)
