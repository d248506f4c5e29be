"""`docs/python.md`, the pages of `docs/python/` and the tutorial, each in one namespace, block by block.

A block inside an HTML comment runs too: that is where a page has what only tests want to see. Addresses at
`api.example` are the faulty server's.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
from typing import Any

import pytest
import tenacity

import tidegate
import tidegate.fleet  # so that its thread is there before the first page
from conftest import Origin
from redis_server import redis_server
from tidegate._engine.engine import use
from tidegate.testing import FakeClock

__all__ = ["redis_server"]

DOCS = pathlib.Path(__file__).parents[2] / "docs"
TUTORIAL = DOCS / "tutorial/python.md"
PAGES = [DOCS / "python.md", TUTORIAL, *sorted((DOCS / "python").glob("*.md"))]
PAGES.remove(DOCS / "python/using-with.md")  # its recipes run in `test_using_with.py`


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the pages show __notes__ as 3.11 has them")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name + "-" + page.stem)
def test_every_block_of_a_page_runs(
    page: pathlib.Path, origin: Origin, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tidegate._engine.engine._default", []
    )  # pages may give their policies the same names
    text = page.read_text(encoding="utf-8")
    blocks = [(match.start(), match[1]) for match in re.finditer(r"```python\n(.*?)```", text, re.DOTALL)]
    assert len(blocks) >= (9 if page.stem == "python" else 1)
    if page.stem == "grpc":
        # On a busy machine grpc.aio may hear of a closed connection after the page's loop has ended; it
        # loses that event, and keeps its poller for good.
        code = "\n".join(block for _, block in blocks)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return
    if page.stem == "language-models":
        origin.script(provider={"faults": [{"fault": "unavailable", "first": 1}]})
    else:
        origin.sequence(503, 200)
    names: dict[str, Any] = {"URL": origin.url + "/x"}
    if page.stem == "fleet":
        names["REDIS"] = request.getfixturevalue("redis_server").url
    before = use(tidegate.Engine())  # pages may give their policies the same names
    try:
        for turn in range(5, -1, -1):
            try:
                run(page, text, blocks, names)
                return
            except tidegate.StoreUnavailable:  # a busy machine was too slow for the page
                if turn == 0 or page.stem != "fleet":
                    raise
                use(tidegate.Engine())
    finally:
        use(before)
        if "client" in names:
            names["client"].close()


def run(page: pathlib.Path, text: str, blocks: list[tuple[int, str]], names: dict[str, Any]) -> None:
    """Runs the blocks of a page, in their places."""
    for start, block in blocks:
        lines = "\n" * text.count("\n", 0, start + 1)
        block = re.sub(r'"https://api\.example[^"]*"', lambda _: repr(names["URL"]), block)
        exec(compile(lines + block, str(page), "exec"), names)


TENACITY = (DOCS / "python/migrate-tenacity.md").read_text(encoding="utf-8")
WAITS = re.findall(r"^\| `(wait_\w+\(.*?\))` \| `(Backoff\(.*?jitter=\"none\"\))`", TENACITY, re.MULTILINE)


def broken() -> None:
    raise ConnectionError("refused")


def test_the_page_has_waits_to_compare() -> None:
    assert len(WAITS) == 3


@pytest.mark.parametrize(("theirs", "ours"), WAITS)
def test_a_backoff_waits_as_the_strategy_of_tenacity_that_it_replaces(theirs: str, ours: str) -> None:
    expected: list[float] = []
    retrying = tenacity.Retrying(
        wait=eval(theirs, vars(tenacity)),
        stop=tenacity.stop_after_attempt(9),
        sleep=expected.append,
        reraise=True,
    )
    with pytest.raises(ConnectionError):
        retrying(broken)
    backoff = eval(ours, {"Backoff": tidegate.Backoff})
    policy = tidegate.Policy(
        "waits",
        retry=tidegate.Retry(max_attempts=9, backoff=backoff, budget=None),
        engine=tidegate.Engine(seed=1, clock=FakeClock()),
    )
    waits: list[float] = []
    with (
        policy.on_event(lambda it: waits.append(it.wait_s), types=["retry_scheduled"]),
        pytest.raises(ConnectionError),
    ):
        policy.call(broken)
    assert waits == pytest.approx(expected)
