"""The README's example, run as it stands but for the address."""

from __future__ import annotations

import contextlib
import io
import pathlib
import re
from typing import Any

import pytest

from conftest import Origin

README = pathlib.Path(__file__).parents[2] / "README.md"


def test_the_example_on_the_first_screen_runs(origin: Origin) -> None:
    text = README.read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert example is not None
    code = example[1]
    assert len([line for line in code.splitlines() if line.strip()]) <= 6, "six lines at most"
    assert "https://api.example/charges" in code
    good = {"status": 200, "headers": {"content-type": "application/json"}, "body": '{"charges": 3}'}
    origin.sequence(503, good)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = code.replace("https://api.example/charges", origin.url + "/x")
        names: dict[str, Any] = {}
        exec(compile(code, str(README), "exec"), names)
        names["client"].close()
    assert printed.getvalue() == "{'charges': 3}\n"
    assert len(origin.log()) == 2


def test_the_readme_names_files_that_exist() -> None:
    text = README.read_text(encoding="utf-8")
    links = re.findall(r"\]\(((?!https?:)[^)#]+)\)", text)
    assert len(links) > 5
    missing = [link for link in links if not (README.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize(
    "page", ["README.md", "bindings-python/PYPI.md", "bindings-wasm/README.md", "bindings-tokio/README.md"]
)
def test_a_bulkhead_on_a_first_page_has_a_queue(page: str) -> None:
    """P11: without one the 17th call was refused at once, and `acquire_timeout` had no effect."""
    text = (README.parent / page).read_text(encoding="utf-8")
    bulkheads = re.findall(r"max_?[cC]oncurrency\"?: \d+.*|Bulkhead::fixed\(\d+\).*", text)
    assert bulkheads
    assert all(re.search(r"max_?[qQ]ueue", bulkhead) for bulkhead in bulkheads), bulkheads
