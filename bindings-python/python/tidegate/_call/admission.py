"""`with policy.bulkhead():` — admission of a block of code, without retries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from .attempts import AsyncLoop, Attempt, SyncLoop, new_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType
    from typing import ParamSpec

    from .caller import Caller

    P = ParamSpec("P")
T = TypeVar("T")


class Admission:
    """Result of `Policy.bulkhead`: for `with` and `async with`, one block at a time, or as a decorator."""

    __slots__ = ("_caller", "_entered")

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._entered: tuple[Attempt, Any] | None = None

    def __enter__(self) -> Attempt:
        self._caller._check_sync('policy.at(pass_timeout="remaining").bulkhead() says that the body does,')
        self._check_free()
        loop = new_loop(SyncLoop, self._caller)
        attempt = loop.turn()
        assert attempt is not None  # noqa: S101 - a call that is not refused has an attempt
        self._entered = attempt.__enter__(), loop
        return attempt

    async def __aenter__(self) -> Attempt:
        self._check_free()
        loop = new_loop(AsyncLoop, self._caller)
        attempt = await loop.__anext__()
        self._check_free()
        self._entered = attempt.__enter__(), loop
        return attempt

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        entered, self._entered = self._entered, None
        if entered is not None:
            entered[0].__exit__(kind, error, traceback)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, traceback)

    def _check_free(self) -> None:
        if self._entered is not None:
            raise RuntimeError("tidegate: it has been entered; ask policy.bulkhead() for each `with`")

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, T]], /) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __call__(self, fn: Callable[P, T], /) -> Callable[P, T]: ...
    def __call__(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Decorates a function so that each call of it is admitted separately."""
        return self._caller(fn)
