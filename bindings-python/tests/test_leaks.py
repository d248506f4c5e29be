"""What counts leaks finds one of each kind, and nothing where nothing is left."""

from __future__ import annotations

import asyncio
import os
import pathlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from leaks import HANDLES, Opened, left

ON_LINUX = pytest.mark.skipif(not os.path.isdir(HANDLES), reason="the system does not list open files")


def opened_file() -> tuple[str, Callable[[], object]]:
    handle = open(os.devnull, "rb")  # noqa: SIM115 - it is a leak
    return f"file {os.devnull}", handle.close


def opened_socket() -> tuple[str, Callable[[], object]]:
    listening = socket.create_server(("127.0.0.1", 0))
    return f"socket listening on port {listening.getsockname()[1]}", listening.close


def opened_connection() -> tuple[str, Callable[[], object]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        server.accept()[0].close()
    return f"socket port {client.getsockname()[1]} to {port}", client.close


def opened_thread() -> tuple[str, Callable[[], object]]:
    ends = threading.Event()
    thread = threading.Thread(target=ends.wait, name="a leak")
    thread.start()

    def end() -> None:
        ends.set()
        thread.join()

    return "thread a leak", end


def opened_task() -> tuple[str, Callable[[], object]]:
    loop = asyncio.new_event_loop()
    task = loop.create_task(asyncio.sleep(60), name="a leak")

    def end() -> None:
        task.cancel()
        loop.run_until_complete(asyncio.wait([task]))
        loop.close()

    return "task a leak", end


@pytest.mark.parametrize(
    "leak",
    [
        pytest.param(opened_file, marks=ON_LINUX),
        pytest.param(opened_socket, marks=ON_LINUX),
        pytest.param(opened_connection, marks=ON_LINUX),
        opened_thread,
        opened_task,
    ],
)
def test_each_kind_of_leak_is_found(leak: Callable[[], tuple[str, Callable[[], object]]]) -> None:
    before = Opened()
    assert left(before, 0.0) == []
    name, end = leak()
    found = left(before, 0.0)
    assert any(text.startswith(name) for text in found), found
    end()
    assert left(before) == []


def test_what_closes_a_little_later_is_none() -> None:
    before = Opened()
    thread = threading.Timer(0.05, int)
    thread.start()
    assert left(before) == []
    assert not thread.is_alive()


LEAKY = """
import threading

import leaks
import pytest

leaks.PATIENCE = 0.0
nothing_stays_open = leaks.nothing_stays_open

def test_leaves_a_thread():
    threading.Thread(target=threading.Event().wait, args=(60,), name="a leak", daemon=True).start()

def test_leaves_nothing():
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
"""


def test_the_test_that_leaks_fails_and_the_next_one_does_not(tmp_path: pathlib.Path) -> None:
    (tmp_path / "test_leaky.py").write_text(LEAKY)
    (tmp_path / "conftest.py").write_text(
        f"import sys\nsys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})\n"
    )
    command = [sys.executable, "-I", "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "2 passed, 1 error" in run.stdout, run.stdout
    assert "AssertionError: the test leaves open: ['thread a leak']" in run.stdout
