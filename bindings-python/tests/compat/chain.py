"""Middlewares of both colours, called with a chain that answers from a script."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

httpware = pytest.importorskip("httpware", reason="httpware needs Python 3.11")
import httpx2  # noqa: E402 - httpware's own dependency
from httpware.middleware import resilience  # noqa: E402

__all__ = ["Chain", "Colour", "Events", "httpware", "httpx2", "notes", "request", "resilience"]

URL = "http://user:secret@api.test/a?token=hidden"


def request(method: str = "GET", url: str = URL, **rest: Any) -> Any:
    return httpx2.Request(method, url, **rest)


class Chain:
    """The rest of a chain: each answer a status, an exception, or a function of the request."""

    def __init__(self, *answers: Any, **headers: str | bytes) -> None:
        self.answers = list(answers)
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.seen: list[Any] = []

    def _answer(self, asked: Any) -> Any:
        self.seen.append(asked)
        answer = self.answers.pop(0) if self.answers else 200
        if callable(answer) and not isinstance(answer, type):
            answer = answer(asked)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, int):
            response = httpx2.Response(answer, headers=self.headers, request=asked)
            if answer >= 400:
                base = httpware.ClientStatusError if answer < 500 else httpware.ServerStatusError
                raise httpware.STATUS_TO_EXCEPTION.get(answer, base)(response)
            return response
        return answer


class Colour:
    """Sync or async: the classes of that colour, and how to call them."""

    def __init__(self, name: str, door: Any) -> None:
        self.name = name
        self.is_async = name == "async"
        self.door = door
        self.sleeps: list[float] = []

    def make(self, kind: str, **settings: Any) -> Any:
        """A `Retry`, `Bulkhead` … of this colour; retries record their sleeps."""
        if kind == "Retry" and "engine" not in settings:
            settings.setdefault("_sleep", self.asleep if self.is_async else self.sleeps.append)
        return getattr(self.door, "Async" * self.is_async + kind)(**settings)

    async def asleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)

    def call(self, middleware: Any, asked: Any, chain: Any) -> Any:
        """Sends a request through middlewares, outermost first."""
        stack = middleware if isinstance(middleware, list) else [middleware]
        if self.is_async:
            return asyncio.run(self.acall(stack, asked, chain))

        def step(rest: list[Any], asked: Any) -> Any:
            if not rest:
                return chain._answer(asked)
            return rest[0](asked, lambda onward: step(rest[1:], onward))

        return step(stack, asked)

    async def acall(self, stack: list[Any], asked: Any, chain: Any) -> Any:
        async def step(rest: list[Any], asked: Any) -> Any:
            if not rest:
                answer = chain._answer(asked)
                return await answer if asyncio.iscoroutine(answer) else answer
            return await rest[0](asked, lambda onward: step(rest[1:], onward))

        return await step(stack, asked)

    def fails(self, middleware: Any, asked: Any, chain: Any) -> BaseException:
        """The exception that a call ends with."""
        with pytest.raises(BaseException) as caught:  # noqa: PT011 - what it is, is looked at
            self.call(middleware, asked, chain)
        return caught.value


def notes(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", []))


class Events:
    """The door's log records."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "httpware")
        self._caplog = caplog

    def names(self) -> list[str]:
        return [record.__dict__["event"] for record in self._records()]

    def last(self) -> dict[str, Any]:
        return dict(self._records()[-1].__dict__)

    def _records(self) -> list[logging.LogRecord]:
        return [record for record in self._caplog.records if record.name.startswith("httpware.")]
