"""Fleets: processes that share state through Redis or Valkey (`docs/python/fleet.md`).

    import redis, tidegate
    from tidegate.fleet import RedisStore, attach

    attach(RedisStore(redis.Redis(host="cache")))
    limit = tidegate.Policy("partner", rate_limit={"permits": 100, "per": 1, "store": "fleet"})

Importing this module imports no client. Calls rarely wait for the store: tokens are leased ahead, breakers
and latencies are exchanged in the background. While the store is unavailable, each component follows its
`on_loss`.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final
from weakref import finalize

from ._engine.engine import engine_of
from ._engine.redis_twin import CONNECTS, sentinels, twin
from ._engine.store import Lost, Refused, stores

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._engine.engine import Engine

__all__ = ["Lost", "RedisStore", "Refused", "attach"]

_WORDS: Final = {
    "AskError": "ASK",
    "AuthenticationError": "NOAUTH",
    "BusyLoadingError": "LOADING",
    "ClusterDownError": "CLUSTERDOWN",
    "ClusterCrossSlotError": "CROSSSLOT",
    "ExecAbortError": "EXECABORT",
    "MasterDownError": "MASTERDOWN",
    "MovedError": "MOVED",
    "NoPermissionError": "NOPERM",
    "NoScriptError": "NOSCRIPT",
    "OutOfMemoryError": "OOM",
    "ReadOnlyError": "READONLY",
    "TryAgainError": "TRYAGAIN",
}
"""First word of a server's error by exception class. redis-py removes it from the text of these classes."""


class RedisStore:
    """Sends an engine's commands to Redis or Valkey through a client of the program.

    Args:
        client: A client of redis-py 5 or newer or of valkey-py, synchronous or asyncio; or any object with a
            method `execute(words)`, where `words` is a list of bytes. The method returns bytes, an integer or
            None (or an awaitable of these). It raises `Refused` with the text of a server's error, and any
            other exception if there was no answer.

            Of a client of a single node, or behind Sentinel, only the settings are used. The store makes its
            own connections, to the sentinels too, without retries. Their timeout is the time limit of a
            command; existing ones with up to four times that limit are reused.
            A cluster's client is used directly, and so is one with a custom connection class: give it a
            `socket_timeout`, and no retries. If it is asynchronous, no other code may use it.
        namespace: Prefix of the keys. Separate fleets on one server need different prefixes.
        scripts: Whether the server runs Lua scripts. Without them (some managed services forbid them) rate
            limits use fixed windows, with up to twice the permits around a window's edge, and bulkheads and
            latencies are not shared.

    Raises:
        TypeError: If `client` is none of these, or `namespace` is not a string.

    Example:
        >>> class Nobody:
        ...     def execute(self, words):
        ...         raise OSError("no server")
        >>> store = RedisStore(Nobody(), namespace="shop")
    """

    def __init__(self, client: Any, *, namespace: str = "tidegate", scripts: bool = True) -> None:
        if not isinstance(namespace, str):
            raise TypeError(f"namespace = {namespace!r}: must be a string")
        if not _can(client):
            raise TypeError(
                f"client = {client!r}: must be a client of redis-py or valkey-py, or have execute(words)"
            )
        self._given = client
        own = callable(getattr(client, "execute", None))
        self._own: dict[float, Any] = {} if own else {_USUAL: twin(client, _USUAL)}
        ours = self._own.get(_USUAL, client) is not client
        kind = type(self)
        sees_all = kind.carry is RedisStore.carry or kind.carry_all is not RedisStore.carry_all
        self.pipelines: Final = ours and sees_all
        finalize(self, _close, self._own, client)
        self.namespace: Final = namespace
        self.scripts: Final = scripts
        stores.add(self)

    def carry(self, words: list[bytes], key: int, seconds: float) -> bytes:
        """Runs one command of an engine; engines call this, in the store's thread.

        Raises:
            Refused: If the server answered with an error.
            Exception: If there was no answer.
        """
        del key  # clients find the key of a command themselves
        try:
            answer = self._execute(seconds)(words)
            if hasattr(answer, "__await__"):
                answer = self._awaited(answer, seconds)
        except Refused:
            raise
        except Exception as error:
            text = _refusal(error)
            if text is None:
                raise
            raise Refused(text) from None
        return _bytes(answer, words[0])

    def carry_all(self, commands: list[list[bytes]], seconds: float) -> list[bytes | Exception]:
        """Runs commands in one round trip; engines call this, in the store's thread, if `pipelines` is true.

        Returns:
            An answer for each command, or the server's error as `Refused`.

        Raises:
            Exception: If there was no answer.
        """
        pipeline = self._client(seconds).pipeline(transaction=False)
        for words in commands:
            _call(pipeline, words)
        answers = pipeline.execute(raise_on_error=False)
        return [_answer(answer, words[0]) for answer, words in zip(answers, commands, strict=True)]

    def forget(self) -> None:
        """Drops connections without closing them: in the child of a fork they belong to the parent."""
        _left.append((self._own.copy(), _loop.copy()))
        self._own.clear()
        _loop.clear()

    def close(self) -> None:
        """Closes the store's own connections; the next command makes new ones. The client stays open."""
        _close(self._own, self._given)

    def __repr__(self) -> str:
        # redis-py's client has a repr of a thousand characters, and another client's may have the password.
        client = type(self._given).__name__
        return f"RedisStore({client}(…), namespace={self.namespace!r}, scripts={self.scripts!r})"

    def _execute(self, seconds: float) -> Callable[[list[bytes]], Any]:
        """Returns a function that runs a command within `seconds`, on a client of our own if possible."""
        own = getattr(self._given, "execute", None)
        if callable(own):
            return own  # type: ignore[no-any-return]
        return partial(_call, self._client(seconds))

    def _client(self, seconds: float) -> Any:
        """Returns a client of our own with a suitable timeout. The time left hardly ever repeats."""
        client = self._own.get(seconds)
        if client is None:
            # Each client opens its own connections: reuse a close one.
            near = min((it for it in list(self._own) if seconds <= it <= _NEAR * seconds), default=seconds)
            client = self._own.get(near)
            if client is None:
                client = self._own[near] = twin(self._given, near)
        return client

    def _awaited(self, answer: Any, seconds: float) -> Any:
        """Awaits on the event loop of all stores, which runs no other code."""
        import asyncio

        if not _loop:
            _loop.append(asyncio.new_event_loop())
            finalize(_loop[0], _loop[0].close)
        most = seconds + (CONNECTS if self._own else 0.0)

        async def within() -> Any:
            try:
                return await asyncio.wait_for(answer, most)
            except asyncio.CancelledError:  # only the client can have cancelled it
                raise Lost("the client has cancelled the command") from None

        task = _loop[0].create_task(within())
        try:
            return _loop[0].run_until_complete(task)
        finally:
            if not task.done():  # the client has stopped the loop
                task.cancel()
                with suppress(Lost):
                    _loop[0].run_until_complete(task)


def _call(client: Any, words: list[bytes]) -> Any:
    # The command's name must be text, which is the key in the client's tables.
    return client.execute_command(words[0].decode("ascii"), *words[1:])


def attach(store: Any, *, engine: Engine | None = None) -> None:
    """Attaches a store to an engine, before its first policy with `store = "fleet"`. It cannot be replaced.

    Args:
        store: A `RedisStore`, or a `tidegate.testing.MemoryStore`.
        engine: The engine; the default engine of the process if left out. `Engine(store=...)` does the same.

    Raises:
        TypeError: If `store` is not a store.
        ValueError: If the engine already has a store.
    """
    engine_of(engine).attach(store)


_USUAL: Final = 0.05
"""Default of `store_timeout`, in seconds. Its client is made in advance, with all imports that it needs."""

_NEAR: Final = 4
"""A client is reused if its timeout is at most this many times the time that a command has left. A longer
timeout does no harm, since the engine's clock limits the wait of calls."""

_loop: Final[list[Any]] = []
"""The event loop for asynchronous clients, in the thread of stores; made at the first use."""

_left: Final[list[Any]] = []
"""The parent's connections in the child of a fork, kept since closing them could disturb the parent."""


def _can(client: Any) -> bool:
    return any(callable(getattr(client, name, None)) for name in ("execute", "execute_command"))


def _close(own: dict[float, Any], given: Any) -> None:
    """Closes our own clients, but not the given one, which may be among them."""
    clients = [client for client in own.values() if client is not given]
    own.clear()
    for client in [*clients, *chain.from_iterable(map(sentinels, clients))]:
        close = getattr(client, "aclose", None) or client.close
        for end in (close, client.connection_pool.disconnect):
            try:
                ended = end()
                if hasattr(ended, "__await__"):
                    _loop[0].run_until_complete(ended)
            except Exception:  # noqa: S112 - a connection that fails to close counts as closed
                continue


def _refusal(error: Exception) -> str | None:
    """Returns the text of a server's error, including its first word; None if there was no answer."""
    names = [kind.__name__ for kind in type(error).__mro__]
    word = next((_WORDS[name] for name in names if name in _WORDS), None)
    if word is None and "ResponseError" not in names:
        return None
    text = str(error)
    head = text.split(" ", 1)[0]
    if word == "NOAUTH" and "invalid" in text.lower():  # the client uses the same class for a wrong password
        word = "WRONGPASS"
    if word is None:
        return text if head.isupper() else f"ERR {text}"
    return text if head == word else f"{word} {text}"


def _answer(answer: Any, command: bytes) -> bytes | Exception:
    """Converts an answer in a pipeline, which may be an error."""
    if not isinstance(answer, Exception):
        return _bytes(answer, command)
    text = _refusal(answer)
    return answer if text is None else Refused(text)


def _bytes(answer: Any, command: bytes) -> bytes:
    """Converts an answer to bytes for the engine: text unchanged, integers in decimal, nil as empty."""
    if answer is None:
        return b""
    if isinstance(answer, bool):  # redis-py converts the OK of SET, and the 1 and 0 of PEXPIRE
        return b"OK" if answer and command == b"SET" else b"%d" % answer
    if isinstance(answer, (bytes, bytearray, memoryview)):
        return bytes(answer)
    if isinstance(answer, (int, str)):
        return str(answer).encode()
    return repr(answer).encode("utf-8", "replace")  # the engine rejects it as garbled
