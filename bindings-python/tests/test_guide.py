"""`docs/python.md`, block by block as it stands, in one namespace."""

from __future__ import annotations

import pathlib
import re
import sys
from typing import Any

import pytest

from conftest import Origin

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "python.md"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the page shows __notes__ as 3.11 has them")
def test_every_block_of_the_guide_runs(origin: Origin) -> None:
    text = GUIDE.read_text(encoding="utf-8")
    blocks = [(match.start(), match[1]) for match in re.finditer(r"```python\n(.*?)```", text, re.DOTALL)]
    assert len(blocks) >= 9
    origin.sequence(503, 200)
    names: dict[str, Any] = {"URL": origin.url + "/x"}
    try:
        for start, block in blocks:
            lines = "\n" * text.count("\n", 0, start + 1)
            exec(compile(lines + block, str(GUIDE), "exec"), names)
    finally:
        if "client" in names:
            names["client"].close()
