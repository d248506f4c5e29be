"""What a test has left open: files, sockets, threads and tasks of event loops that are new since it began."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

HANDLES = "/proc/self/fd"
"""The system's list of open files; on macOS and Windows only threads and tasks are counted."""

PATIENCE = 10.0
"""Seconds that closing may take, as where a server learns of its client's end. Only a leak waits so long."""

IDLE = (("tidegate/_call/race_threads.py", "_run"), ("trio/_core/_thread_cache.py", "_work"))
"""Where a thread of a pool that every thread shares waits for work, until ten seconds have passed."""

_loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()


def watch_loops() -> None:
    """Remembers every event loop that is made from now on, so that its tasks can be listed."""
    make = asyncio.BaseEventLoop.__init__
    if make.__name__ == "remembered":
        return

    def remembered(loop: asyncio.BaseEventLoop, *args: Any) -> None:
        make(loop, *args)
        _loops.add(loop)

    asyncio.BaseEventLoop.__init__ = remembered  # type: ignore[method-assign, assignment]


class Opened:
    """What the process has open: descriptions, by identities that no two things share."""

    def __init__(self) -> None:
        frames = sys._current_frames()
        self.found: dict[Any, str] = {
            thread: f"thread {thread.name}"
            for thread in threading.enumerate()
            if not _is_idle(frames.get(thread.ident or 0))
        }
        for loop in list(_loops):
            for task in asyncio.all_tasks(loop):
                self.found[task] = f"task {task.get_name()}: {task.get_coro()}"
        if os.path.isdir(HANDLES):
            for number in os.listdir(HANDLES):
                with contextlib.suppress(OSError):  # the listing's own handle
                    link = os.readlink(f"{HANDLES}/{number}")
                    self.found[number, link] = link

    def beyond(self, before: Opened) -> list[str]:
        """What is open now and was not before."""
        return [self._described(what, text) for what, text in self.found.items() if what not in before.found]

    def _described(self, what: Any, text: str) -> str:
        if not isinstance(what, tuple):
            return text
        kind = text.partition(":[")[0]
        if kind == "socket":
            return f"socket {_peers().get(text[8:-1], 'without an address')}"
        return f"file {text}"


def _is_idle(frame: FrameType | None) -> bool:
    """Does a thread wait in a pool for work?"""
    return frame is not None and any(
        frame.f_code.co_name == name and frame.f_code.co_filename.endswith(file) for file, name in IDLE
    )


def warm() -> None:
    """Starts what the first use of a store opens for good: the thread of all stores, and its loop."""
    fleet = sys.modules.get("tidegate.fleet")
    if fleet is None or fleet._loop:
        return

    def job(_: bool) -> None:
        if not fleet._loop:
            fleet._loop.append(asyncio.new_event_loop())
        loop = fleet._loop[0]
        loop.run_until_complete(loop.run_in_executor(None, int))
        done.set()

    done = threading.Event()
    sys.modules["tidegate._engine.store"].worker.put(job, 10_000_000)
    assert done.wait(PATIENCE)


def left(before: Opened, patience: float | None = None) -> list[str]:
    """What is open beyond `before`, after at most so many seconds; `PATIENCE` by default."""
    until = time.monotonic() + (PATIENCE if patience is None else patience)
    pause = 0.0
    while more := Opened().beyond(before):
        # Takes a tenth of a second, so only where something is open; again, as what holds a cycle may end.
        gc.collect()
        if not (more := Opened().beyond(before)) or time.monotonic() > until:
            break
        time.sleep(pause := min(2 * pause + 0.01, 0.5))
    return more


@pytest.fixture(autouse=True)
def nothing_stays_open() -> Iterator[None]:
    """After a test no file, socket, thread or task is open that was not before it.

    Fixtures of sessions and modules are set up before this one; those of the test are torn down before its
    check.
    """
    warm()
    before = Opened()
    yield
    more = left(before)
    assert not more, f"the test leaves open: {more}"


def _peers() -> dict[str, str]:
    """Both ends of each TCP socket, by the number of its inode."""
    found = {}
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"/proc/self/net/{table}", encoding="ascii") as lines:
            for line in list(lines)[1:]:
                words = line.split()
                here, there = (int(end.rpartition(":")[2], 16) for end in words[1:3])
                found[words[9]] = f"port {here} to {there}" if there else f"listening on port {here}"
    return found
