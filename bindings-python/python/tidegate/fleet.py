"""A fleet: state that many processes share through Redis or Valkey (`docs/python/fleet.md`).

    import redis, tidegate
    from tidegate.fleet import RedisStore, attach

    attach(RedisStore(redis.Redis(host="cache")))
    limit = tidegate.Policy("partner", rate_limit={"permits": 100, "per": 1, "store": "fleet"})

Importing this imports no client. The store is off the way of calls: tokens are leased ahead, breakers and
latencies are exchanged in the background; while the store is gone each component does what `on_loss` says.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final
from weakref import finalize

from ._engine.engine import default_engine
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
"""The word in front of an error's text, which redis-py takes off where it has a class for it."""


class RedisStore:
    """Carries an engine's commands to Redis or Valkey, over a client that the program has.

    Args:
        client: A client of redis-py 5 or newer or of valkey-py, synchronous or of its `asyncio` half; or any
            object with one method `execute(words)`, where `words` is a list of bytes, that answers bytes, an
            integer or None (or awaits them), raises `Refused` with the text of a server's error, and anything
            else if there was no answer.

            Of a client of a single node, or behind Sentinel, only the settings are used: the store makes
            connections of its own, to the sentinels too, with the time that a command has as their timeout,
            or with up to four times it if there are such already, and without retries.
            A cluster's client is used as it is, and so is one with a class of connections of your own: give
            it a `socket_timeout`, and no retries; if it is asynchronous, it is the store's alone.
        namespace: What keys begin with. Fleets that share a server and nothing else have different ones.
        scripts: Whether the server runs Lua scripts. Without them (some managed services forbid them) rates
            are kept in fixed windows, up to twice the permits around a window's edge, and bulkheads and
            latencies are not shared.

    Raises:
        TypeError: If `client` is none of these, or `namespace` is no string.

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

    def forget(self) -> None:
        """Lets connections go, unclosed: in the child of a fork they are the parent's."""
        _left.append((self._own.copy(), _loop.copy()))
        self._own.clear()
        _loop.clear()

    def close(self) -> None:
        """Closes the store's own connections; the next command makes new ones. The client stays open."""
        _close(self._own, self._given)

    def __repr__(self) -> str:
        return f"RedisStore({self._given!r}, namespace={self.namespace!r}, scripts={self.scripts!r})"

    def _execute(self, seconds: float) -> Callable[[list[bytes]], Any]:
        """What runs a command within a time: a client of our own where one can be made."""
        own = getattr(self._given, "execute", None)
        if callable(own):
            return own  # type: ignore[no-any-return]
        client = self._own.get(seconds)
        if client is None:
            # What is left of a time is never twice the same, and each client has connections of its own.
            near = min((it for it in list(self._own) if seconds <= it <= _NEAR * seconds), default=seconds)
            client = self._own.get(near)
            if client is None:
                client = self._own[near] = twin(self._given, near)
        return partial(_call, client)

    def _awaited(self, answer: Any, seconds: float) -> Any:
        """Awaits on the loop of all stores, which no other code runs on."""
        import asyncio

        if not _loop:
            _loop.append(asyncio.new_event_loop())
            finalize(_loop[0], _loop[0].close)
        most = seconds + (CONNECTS if self._own else 0.0)

        async def within() -> Any:
            try:
                return await asyncio.wait_for(answer, most)
            except asyncio.CancelledError:  # by the client: nobody else can
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
    # The command's name as text: that is how the client's tables know it.
    return client.execute_command(words[0].decode("ascii"), *words[1:])


def attach(store: Any, *, engine: Engine | None = None) -> None:
    """Attaches a store to an engine, before its first policy that says `store = "fleet"`. Once and for all.

    Args:
        store: A `RedisStore`, or a `tidegate.testing.MemoryStore`.
        engine: The engine; the process's own if left out. `Engine(store=...)` does the same.

    Raises:
        TypeError: If it is no store.
        ValueError: If the engine has one already.
    """
    (default_engine() if engine is None else engine).attach(store)


_USUAL: Final = 0.05
"""`store_timeout` where nobody says another: its client is made at once, with all that it imports."""

_NEAR: Final = 4
"""A client with up to so many times the time that a command has left is taken for it: calls go by the
engine's clock anyway."""

_loop: Final[list[Any]] = []
"""The loop of clients that need one, in the thread of stores; made when it is first needed."""

_left: Final[list[Any]] = []
"""What a fork has left of the parent's connections: closing or collecting them could disturb the parent's."""


def _can(client: Any) -> bool:
    return any(callable(getattr(client, name, None)) for name in ("execute", "execute_command"))


def _close(own: dict[float, Any], given: Any) -> None:
    """Closes clients of ours; the given one may be among them, and is not ours."""
    clients = [client for client in own.values() if client is not given]
    own.clear()
    for client in [*clients, *chain.from_iterable(map(sentinels, clients))]:
        close = getattr(client, "aclose", None) or client.close
        for end in (close, client.connection_pool.disconnect):
            try:
                ended = end()
                if hasattr(ended, "__await__"):
                    _loop[0].run_until_complete(ended)
            except Exception:  # noqa: S112 - a connection that cannot be closed is closed
                continue


def _refusal(error: Exception) -> str | None:
    """The text of an answer that is an error, with the word in front; None where there was no answer."""
    names = [kind.__name__ for kind in type(error).__mro__]
    word = next((_WORDS[name] for name in names if name in _WORDS), None)
    if word is None and "ResponseError" not in names:
        return None
    text = str(error)
    head = text.split(" ", 1)[0]
    if (
        word == "NOAUTH" and "invalid" in text.lower()
    ):  # of a password that is not right there is one class, too
        word = "WRONGPASS"
    if word is None:
        return text if head.isupper() else f"ERR {text}"
    return text if head == word else f"{word} {text}"


def _bytes(answer: Any, command: bytes) -> bytes:
    """An answer as the engine reads it: text as it came, an integer in decimals, nil as nothing."""
    if answer is None:
        return b""
    if isinstance(answer, bool):  # redis-py makes it of the OK of SET, and of the 1 and 0 of PEXPIRE
        return b"OK" if answer and command == b"SET" else b"%d" % answer
    if isinstance(answer, (bytes, bytearray, memoryview)):
        return bytes(answer)
    if isinstance(answer, (int, str)):
        return str(answer).encode()
    return repr(answer).encode("utf-8", "replace")  # the engine says that it is garbled
