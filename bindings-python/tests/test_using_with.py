"""`docs/python/using-with.md`: each recipe runs, block by block, in a namespace of its own.

Addresses at `api.example` are the faulty server's. A block inside an HTML comment prepares what the recipe
meets, or looks at what it has done.
"""

from __future__ import annotations

import importlib
import json
import os
import pathlib
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

import tidegate
from conftest import Origin
from tidegate._engine.engine import use

PAGE = pathlib.Path(__file__).parents[2] / "docs/python/using-with.md"
TEXT = PAGE.read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL))
VARIABLES = sorted(set(re.findall(r'"([A-Z]+_[A-Z_]+)"', TEXT)))
NEEDS = {
    "MongoDB": "pymongo",
    "SQLAlchemy": "sqlalchemy",
}
"""What does not install for each Python that we support."""


class Tcp:
    """A server that closes its first connections, and talks to the others."""

    def __init__(self, refusals: int, talk: Callable[[socket.socket], None] | None) -> None:
        self.left = refusals
        self.talk = talk
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.threads = [threading.Thread(target=self.serve)]
        self.threads[0].start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.left -= 1
            if self.left >= 0 or self.talk is None:
                connection.close()
            else:
                self.threads.append(threading.Thread(target=self.one, args=(connection,)))
                self.threads[-1].start()

    def one(self, connection: socket.socket) -> None:
        assert self.talk is not None
        with closing(connection):
            try:
                self.talk(connection)
            except OSError:
                pass  # the client has closed it

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(10)


def redis_talk(connection: socket.socket) -> None:
    """Greets, and answers GET."""
    with connection.makefile("rb") as lines:
        while head := lines.readline():
            words = [lines.read(int(lines.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:]))]
            if words[0] == b"GET":
                connection.sendall(b"$2\r\n42\r\n")
            else:
                hello = b"%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n"
                connection.sendall(hello if words[0] == b"HELLO" else b"+OK\r\n")


def postgres_talk(connection: socket.socket) -> None:
    """Lets everyone in, and answers each statement with nothing."""
    connection.recv(4096)
    ready = b"Z\x00\x00\x00\x05I"
    connection.sendall(b"R\x00\x00\x00\x08\x00\x00\x00\x00" + ready)
    while connection.recv(4096)[:1] not in (b"", b"X"):
        connection.sendall(b"I\x00\x00\x00\x04" + ready)


@pytest.fixture
def tcp() -> Iterator[Callable[..., Tcp]]:
    made: list[Tcp] = []

    def tcp(**how: Any) -> Tcp:
        made.append(Tcp(**how))
        return made[-1]

    yield tcp
    for one in made:
        one.close()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the page shows __notes__ as 3.11 has them")
@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the SDKs
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # urllib's unread HTTPError
def test_a_recipe_does_what_the_page_says(
    name: str,
    origin: Origin,
    tcp: Callable[..., Tcp],
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)  # so that a recipe's own is taken back afterwards

    def fails_then(answer: Any, path: str, status: int = 503, **more: Any) -> None:
        headers = {"content-type": "application/json", **more.pop("headers", {})}
        good = {"status": 200, "body": json.dumps(answer), "headers": headers}
        origin.sequence({"status": status, **more}, good, path=path)

    def attempts(policy: tidegate.Policy) -> int:
        return policy.snapshot()["attempts"]

    names = {
        "origin": origin,
        "tcp": tcp,
        "fails_then": fails_then,
        "attempts": attempts,
        "folder": tmp_path,
        "redis_talk": redis_talk,
        "postgres_talk": postgres_talk,
        "os": os,
        "json": json,
    }
    before = use(tidegate.Engine(logs=False))
    offset = TEXT.index(f"## {name}\n")
    try:
        for block in re.finditer(r"```python\n(.*?)```", RECIPES[name], re.DOTALL):
            code = block[1].replace("https://api.example", origin.url).replace("…", "key")
            lines = "\n" * TEXT.count("\n", 0, offset + len(f"## {name}\n") + block.start() + 1)
            exec(compile(lines + code, str(PAGE), "exec"), names)
    finally:
        use(before)


def test_the_table_lists_each_recipe_once_in_order() -> None:
    rows = re.findall(r"^\| \[(.*?)\]\(#(.*?)\) \|", TEXT, re.MULTILINE)
    assert [row[0] for row in rows] == list(RECIPES)
    assert len(rows) >= 12


def test_nothing_of_the_page_needs_what_is_not_installed_for_the_tests() -> None:
    for module in ("stripe", "elasticsearch", "slack_sdk", "azure.core", "google.auth", "hvac", "openai"):
        assert importlib.import_module(module)
