"""Transport of commands to a store: one worker thread per process, started with the first command.

A command belongs to no call, so cancelling a call does not cancel or delay it. A dedicated thread serves
threads, asyncio and trio alike: a busy event loop does not delay answers, and no loop runs our tasks.
"""

from __future__ import annotations

import atexit
import os
import threading
from _thread import allocate_lock
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast
from weakref import WeakSet

from tidegate._native import monotonic

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from tidegate import _native

    from .engine import Engine

Command: TypeAlias = "tuple[int, list[bytes], int, int]"
"""Number, words, index of the word that a cluster routes by, and the time limit in microseconds."""

Job: TypeAlias = "Callable[[bool], object]"

HELP: Final = dict.fromkeys(
    ("NOAUTH", "WRONGPASS"), "check the user and the password that the store's client was made with"
) | {"NOPERM": "give the store's user the commands that docs/fleet.md lists under ACL"}
"""Advice about a server's error, by its first word."""

THREAD: Final = "tidegate-store"

_MOST: Final = 10_000
"""Capacity of the command queue. Once a hanging client has filled it, further commands are lost at once."""

_TOGETHER: Final = 64
"""Most commands in one round trip, since the first answer arrives no earlier than the last."""

_LEAVE: Final = 1.0
"""Seconds that the end of the program waits for a command in flight."""


class Lost(Exception):
    """Raised when the store gave no answer."""


class Refused(Exception):
    """Raised when the store answered with an error. The argument is its text, including the first word."""


Lost.__module__ = Refused.__module__ = "tidegate.fleet"  # where users import them from


class Carrier(Protocol):
    """A store: `tidegate.fleet.RedisStore`, or `tidegate.testing.MemoryStore`."""

    @property
    def namespace(self) -> str:
        """Prefix of its keys."""
        ...

    @property
    def scripts(self) -> bool:
        """Whether the server runs Lua scripts."""
        ...

    def carry(self, words: list[bytes], key: int, seconds: float) -> bytes:
        """Runs a command within `seconds` and returns the store's answer.

        Raises:
            Refused: If the answer is an error.
            Exception: If there is no answer.
        """
        ...


class Pipeline(Carrier, Protocol):
    """A store that can run several commands in one round trip."""

    @property
    def pipelines(self) -> bool:
        """Whether it can, with the client that it has."""
        ...

    def carry_all(self, commands: list[list[bytes]], seconds: float) -> list[bytes | Exception]:
        """Runs commands in order within `seconds`, and returns an answer or an error for each.

        Raises:
            Exception: If there is no answer to any of them.
        """
        ...


class Link:
    """Connection of an engine to its store."""

    __slots__ = ("answers", "carrier", "native")

    def __init__(self, carrier: Carrier, native: _native.Fleet) -> None:
        self.carrier = carrier
        self.native = native
        self.answers = True

    def send(self, engine: Engine) -> None:
        """Sends the commands that the engine's steps have produced."""
        for command in self.native.take():
            queued = QueuedCommand(engine, self, command)
            if getattr(self.carrier, "inline", False):
                queued(True)
            else:
                worker.put(queued, queued.us)


class QueuedCommand:
    """One command of an engine, as a job. It reports its answer or failure to the engine."""

    __slots__ = ("carrier", "engine", "key", "link", "number", "us", "words")

    def __init__(self, engine: Engine, link: Link, command: Command) -> None:
        self.engine = engine
        self.link = link
        self.carrier = link.carrier
        self.number, self.words, self.key, self.us = command

    def __call__(self, in_time: bool) -> None:
        """Runs the command if it is still in time. An `Exception` is not passed on."""
        answer: bytes | Exception | None = None
        try:
            if in_time:
                answer = _checked(self.carrier.carry(self.words, self.key, self.us / 1e6))
        except Exception as error:
            answer = error
        finally:  # also for SystemExit, since the engine waits for the reply to every command
            self.reply(answer)

    def reply(self, answer: bytes | Exception | None) -> None:
        """Reports an answer: bytes, a server's error as `Refused`, or why there was none."""
        reply, failed = None, False
        if isinstance(answer, bytes):
            reply = answer
            self.link.answers = True
        elif answer is not None:
            if isinstance(answer, Refused):
                reply, failed = _text(answer).encode("utf-8", "replace"), True
            _say(self.engine, self.link, answer)
        woken = self.link.native.reply(self.number, reply, failed)
        if woken is not None:
            self.engine.wake(woken)

    def can_share(self, first: QueuedCommand) -> bool:
        """Returns whether it can share the round trip of `first`: same store, and a similar time limit."""
        return self.carrier is first.carrier and first.us <= 2 * self.us <= 4 * first.us


def run_all(commands: list[QueuedCommand]) -> None:
    """Runs commands for one store in one round trip; all of them are still in time."""
    answers: list[Any] = [None] * len(commands)
    try:
        carrier = cast("Pipeline", commands[0].carrier)
        seconds = min(command.us for command in commands) / 1e6
        answers = carrier.carry_all([command.words for command in commands], seconds)
    except Exception as error:
        answers = [error] * len(commands)
    finally:
        for command, answer in zip(commands, answers, strict=True):
            try:
                command.reply(answer)
            except BaseException:  # each engine waits for its replies
                _log_undelivered()


def _log_undelivered() -> None:
    """Logs the exception that kept an answer from its engine."""
    import logging

    logging.getLogger("tidegate").exception("the store's answer could not be delivered")


def _checked(answer: Any) -> bytes:
    if not isinstance(answer, bytes):
        raise TypeError(f"a store has answered with {type(answer).__name__}: must be bytes")
    return answer


def _text(error: BaseException) -> str:
    """Returns an error's text; the name of its type if `str` of it raises."""
    try:
        return str(error)
    except Exception:
        return type(error).__name__


def _say(engine: Engine, link: Link, error: Exception) -> None:
    """Logs why the store did not answer, once until its next answer; the engine does not know the reason.

    The line contains the type of the error, its number and the server's first word. It leaves out the text,
    which could quote a URL with a password.
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
    """Runs a command that does not come from an engine, in the store's thread."""
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
        except BaseException as error:  # SystemExit, for example: whoever awaits the answer must not hang
            future.set_exception(Lost(f"the store's client has raised {type(error).__name__}"))
            raise

    if getattr(carrier, "inline", False):
        job(True)
    else:
        worker.put(job, int(seconds * 1e6))
    return future


class Worker:
    """The worker thread and its queue."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Resets the state. In the child of a fork, thread and queued commands still belong to the parent."""
        self._queue: deque[tuple[Job, int]] = deque()
        self._wakeup = allocate_lock()  # each new job releases it; the idle thread waits to acquire it
        self._wakeup.acquire()
        self._starting = threading.RLock()  # reentrant, for a signal handler that makes a call
        self._thread: threading.Thread | None = None
        self._ends = False

    def put(self, job: Job, us: int) -> None:
        """Queues a job that has `us` microseconds from now; the job receives whether it is still in time."""
        if len(self._queue) >= _MOST or not (self._thread or self._start()):
            job(False)
            return
        self._queue.append((job, monotonic() + us))
        self._notify()
        if self._ends:  # the thread no longer takes jobs
            self._drop()

    def _start(self) -> bool:
        """Starts the thread; returns False if that fails, as at the end of a program."""
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._work, name=THREAD, daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    return False
                self._thread = thread
                atexit.register(self.end)
        return True

    def _notify(self) -> None:
        try:
            self._wakeup.release()
        except RuntimeError:
            pass  # released by an earlier job already

    def _work(self) -> None:
        queue = self._queue
        while not self._ends:
            try:
                job, due = queue.popleft()
            except IndexError:
                self._wakeup.acquire()
                continue
            try:
                self._run(job, due)
            except BaseException:  # a hook's SystemExit, for example: all engines share the thread
                _log_undelivered()
            del job  # drops the last reference to an engine that is no longer in use

    def _run(self, job: Job, due: int) -> None:
        """Runs a job. A command takes along the queued commands that can share its round trip."""
        now = monotonic()
        pipelines = isinstance(job, QueuedCommand) and getattr(job.carrier, "pipelines", False)
        if not (pipelines and self._queue and now < due):
            job(now < due)
            return
        first = cast("QueuedCommand", job)
        commands = [first]
        while self._queue and len(commands) < _TOGETHER:
            next_job, until = entry = self._queue.popleft()
            if not (isinstance(next_job, QueuedCommand) and next_job.can_share(first) and now < until):
                self._queue.appendleft(entry)
                break
            commands.append(next_job)
        if len(commands) > 1:
            run_all(commands)
        else:
            first(True)

    def _drop(self) -> None:
        """Fails all queued jobs."""
        while True:
            try:
                job, _ = self._queue.popleft()
            except IndexError:
                return
            job(False)

    def end(self) -> None:
        """Ends the thread at the end of the program; queued commands are dropped."""
        self._ends = True
        self._queue.clear()
        self._notify()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_LEAVE)


worker: Final = Worker()
stores: Final[WeakSet[Any]] = WeakSet()
"""Stores with connections, which the child of a fork must drop."""


def after_fork() -> None:
    """Resets worker and stores in the child of a fork."""
    worker.forget()
    for store in list(stores):
        store.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=after_fork)
