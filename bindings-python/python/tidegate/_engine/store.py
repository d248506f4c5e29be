"""Carries commands to a store and answers back: a worker thread per process, begun with the first command.

Commands belong to no call, so none is delayed or cancelled with one. A thread of its own serves threads,
asyncio and trio alike: a busy event loop holds up no answer, and no loop gets a task that is not its own.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias
from weakref import WeakSet

from tidegate._native import monotonic

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from tidegate import _native

    from .engine import Engine

Command: TypeAlias = "tuple[int, list[bytes], int, int]"
"""Its number, its words, the place of the word that a cluster routes by, and the microseconds that it has."""

Job: TypeAlias = "Callable[[bool], object]"

HELP: Final = dict.fromkeys(
    ("NOAUTH", "WRONGPASS"), "check the user and the password that the store's client was made with"
) | {"NOPERM": "give the store's user the commands that docs/fleet.md lists under ACL"}
"""What to do about a server's error, by its first word."""

THREAD: Final = "tidegate-store"

_MOST: Final = 10_000
"""Commands in line. Beyond, where a client never comes back, they are lost at once."""

_LEAVE: Final = 1.0
"""Seconds that the end of the program waits for a command that is out."""


class Lost(Exception):
    """There was no answer."""


class Refused(Exception):
    """The store answered with an error; its text, the word in front included, is the argument."""


Lost.__module__ = Refused.__module__ = "tidegate.fleet"  # where they are imported from


class Carrier(Protocol):
    """A store: `tidegate.fleet.RedisStore`, or `tidegate.testing.MemoryStore`."""

    @property
    def namespace(self) -> str:
        """What its keys begin with."""
        ...

    @property
    def scripts(self) -> bool:
        """Whether the server runs Lua scripts."""
        ...

    def carry(self, words: list[bytes], key: int, seconds: float) -> bytes:
        """The store's answer.

        Raises:
            Refused: If the answer is an error.
            Exception: If there is none.
        """
        ...


class Link:
    """An engine and its store."""

    __slots__ = ("answers", "carrier", "native")

    def __init__(self, carrier: Carrier, native: _native.Fleet) -> None:
        self.carrier = carrier
        self.native = native
        self.answers = True

    def send(self, engine: Engine) -> None:
        """Sends the commands that the engine's steps have made."""
        for command in self.native.take():
            if getattr(self.carrier, "inline", False):
                run(engine, self, command, True)
            else:
                worker.put(partial(run, engine, self, command), command[3])


def run(engine: Engine, link: Link, command: Command, in_time: bool) -> None:
    """Runs one command if it is still in time; tells the engine what came of it. No failure goes further."""
    number, words, key, us = command
    answer: bytes | None = None
    failed = False
    try:
        if in_time:
            answer = _checked(link.carrier.carry(words, key, us / 1e6))
            link.answers = True
    except Refused as error:
        answer, failed = _text(error).encode("utf-8", "replace"), True
        _say(engine, link, error)
    except Exception as error:  # no answer, whatever the reason
        _say(engine, link, error)
    finally:  # also where it is SystemExit: the engine hears of every command
        woken = link.native.reply(number, answer, failed)
        if woken is not None:
            engine.wake(woken)


def _checked(answer: Any) -> bytes:
    if not isinstance(answer, bytes):
        raise TypeError(f"a store has answered with {type(answer).__name__}: must be bytes")
    return answer


def _text(error: BaseException) -> str:
    """What an error says; its type where it cannot say it."""
    try:
        return str(error)
    except Exception:
        return type(error).__name__


def _say(engine: Engine, link: Link, error: Exception) -> None:
    """Logs why there is no answer, once until there is one: the engine only knows that there is none.

    The kind of error, its number and the server's first word; its text could quote a URL with a password.
    """
    text = _text(error)
    word = text.split(" ", 1)[0] if isinstance(error, Refused) else ""
    if link.answers and engine.logs and word != "NOSCRIPT":
        link.answers = False
        import logging

        number = getattr(error, "errno", None)
        said = text if isinstance(error, Lost) else word if word.isalpha() and word.isupper() else None
        more = [part for part in (said, number) if part]
        what = ": ".join(map(str, (type(error).__name__, *more)))
        there = isinstance(error, (Lost, Refused))
        advice = HELP.get(word, "") if there else "check its address, and that it is up"
        said = f"{what}; {advice}" if advice else what
        logging.getLogger("tidegate").warning("the fleet's store has not answered: %s", said)


def ask(carrier: Carrier, words: list[bytes], seconds: float) -> Future[bytes]:
    """Runs a command that is no engine's, in the store's thread."""
    from concurrent.futures import Future

    future: Future[bytes] = Future()

    def job(in_time: bool) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            if not in_time:
                raise Lost("the store's thread was busy for too long")
            future.set_result(carrier.carry(words, 3, seconds))
        except Exception as error:
            future.set_exception(error)

    if getattr(carrier, "inline", False):
        job(True)
    else:
        worker.put(job, int(seconds * 1e6))
    return future


class Worker:
    """The thread, and what it has to do."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begins anew: in the child of a fork the thread is the parent's, and so are its commands."""
        self._changed = threading.Condition()
        self._queue: deque[tuple[Job, int]] = deque()
        self._thread: threading.Thread | None = None
        self._ends = False

    def put(self, job: Job, us: int) -> None:
        """Has something run that has so much time, from now on: it is told whether it is still in time."""
        with self._changed:
            fits = len(self._queue) < _MOST and not self._ends and self._runs()
            if fits:
                self._queue.append((job, monotonic() + us))
                self._changed.notify()
        if not fits:
            job(False)

    def _runs(self) -> bool:
        """Starts the thread where there is none yet; false where it cannot be, as at the end of a program."""
        if self._thread is None:
            thread = threading.Thread(target=self._work, name=THREAD, daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
            atexit.register(self.end)
        return True

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._ends:
                    self._changed.wait()
                if self._ends:
                    return
                job, due = self._queue.popleft()
            try:
                job(monotonic() < due)
            except BaseException:  # a hook's SystemExit, say: the thread is everybody's
                import logging

                logging.getLogger("tidegate").exception("the store's answer could not be told")
            del job  # an engine that nobody else knows ends here

    def end(self) -> None:
        """Ends the thread, at the end of the program: what it has not sent yet is not sent."""
        with self._changed:
            self._ends = True
            self._queue.clear()
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_LEAVE)


worker: Final = Worker()
stores: Final[WeakSet[Any]] = WeakSet()
"""Those with connections, which a fork has to drop."""


def after_fork() -> None:
    """In the child of a fork."""
    worker.forget()
    for store in list(stores):
        store.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)
