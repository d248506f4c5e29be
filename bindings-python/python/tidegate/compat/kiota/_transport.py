"""The retry handler of kiota as transports of httpx, and as a middleware of kiota's own pipeline."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any, Final

from tidegate._call.outcomes import Outcome, not_awaitable
from tidegate._call.policy import Policy
from tidegate._http.httpx_run import module_of
from tidegate.httpx import AsyncTransport, Transport

from ._option import OPTIONS, RetryHandlerOption, Settings, settings_of

if TYPE_CHECKING:
    from types import ModuleType

    from tidegate._engine.engine import Engine

_ASKED: Final = "tidegate.kiota"
"""The extension of a request and of its response that contains the option for its retries."""
_PIPELINE: Final = "tidegate.kiota.transport"
_NO_LIMIT: Final = 365 * 86_400.0
"""The longest span, in seconds, used as "no limit", since the preset's limit cannot be removed."""
_MOST_SETTINGS: Final = 256
"""Maximum number of different settings of a client; each is a policy with its own state."""


def _opinion(answer: Any) -> Outcome | None:
    """Classifies what the statuses leave open: no retries of exceptions, and the user's `should_retry`."""
    if isinstance(answer, Exception):
        return Outcome("permanent")
    option, request = answer.extensions.pop(_ASKED, (None, None))
    if answer.status_code not in RETRIED or not callable(getattr(option, "should_retry", None)):
        return None
    repeat = int(request.headers.get("retry-attempt", "0")) + 1
    try:
        again = not_awaitable(option.should_retry(repeat, request, answer))
        return None if again else Outcome("transient", "do_not")
    except Exception as error:
        _warn_about(option.should_retry, error)
        return None


def _warn_about(should_retry: object, error: Exception) -> None:
    """Warns about a callable that raised, without breaking the request."""
    try:
        warnings.warn(
            f"tidegate: should_retry={should_retry!r} failed, and the request is repeated as if it were not"
            f" there: {type(error).__name__}: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
    except RuntimeWarning:
        pass  # the same if warnings are turned into errors


RETRIED: Final = frozenset({429, 503, 504})
"""Too many requests; server unavailable; gateway timeout."""


class Policies:
    """The policies of a client: one for each settings in use."""

    def __init__(self, options: Any, name: str, queue: bool, engine: Engine | None) -> None:
        self.option = RetryHandlerOption() if options is None else options
        self._name = name
        self._queue = queue
        self._engine = engine
        self._made: dict[Settings, Policy] = {}
        self.of(self.option)

    def of(self, option: Any) -> Policy:
        """Returns the policy for an option."""
        settings = settings_of(option)
        policy = self._made.get(settings)
        if policy is None:
            if len(self._made) >= _MOST_SETTINGS:
                raise ValueError(
                    f"RetryHandlerOption: a client may go by {_MOST_SETTINGS} different ones, and {option!r}"
                    " is one more"
                )
            policy = self._made[settings] = self._policy(settings)
        return policy

    def _policy(self, settings: Settings) -> Policy:
        delay, retries, limit = settings
        retry: dict[str, Any] = {
            "max_attempts": retries + 1,
            "hold": self._queue,
            "backoff": {"base": delay, "max": RetryHandlerOption.MAX_DELAY},
            "retry_time_limit": limit or _NO_LIMIT,
        }
        spelt = f"{delay:g} s, {retries} retries, {limit:g} s"
        return Policy(
            f"{self._name} ({spelt}{', no queue' if not self._queue else ''})",
            preset="graph",
            retry=retry,
            classify=_opinion,
            engine=self._engine,
        )

    def sent(self, request: Any) -> Any:
        """Returns a copy of the request with its policy; the caller's request is not changed."""
        own = request.extensions.get(OPTIONS)
        option = own.get(RetryHandlerOption.get_key(), self.option) if own else self.option
        said = request.extensions.get("tidegate") or {}
        copy = object.__new__(type(request))
        copy.__dict__.update(request.__dict__)
        copy.extensions = {
            **request.extensions,
            "tidegate": {"policy": self.of(option), **said},
            _ASKED: option,
        }
        return copy


def _module_of(transport: Any) -> ModuleType:
    """Returns the module of a transport: httpx or httpx2."""
    module = module_of(transport)
    assert module is not None  # noqa: S101 - `__new__` has made it a transport of one of them
    return module


class _Watched:
    """The inner transport, which adds the request and its option to each response."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def handle_request(self, request: Any) -> Any:
        option = request.extensions[_ASKED]
        response = self._inner.handle_request(request)
        response.extensions[_ASKED] = (option, request)
        return response

    async def handle_async_request(self, request: Any) -> Any:
        option = request.extensions[_ASKED]
        response = await self._inner.handle_async_request(request)
        response.extensions[_ASKED] = (option, request)
        return response

    def close(self) -> None:
        self._inner.close()

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __enter__(self) -> Any:
        return self._inner.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._inner.__exit__(*error)

    async def __aenter__(self) -> Any:
        return await self._inner.__aenter__()

    async def __aexit__(self, *error: Any) -> None:
        await self._inner.__aexit__(*error)


class RetryTransport(Transport):
    """The retry handler as a transport for `httpx.Client` and `httpx2.Client`.

    Args:
        inner: The transport that sends; `HTTPTransport()` if left out.
        options: The option of requests without their own; `RetryHandlerOption()` if left out.
        module: `httpx` or `httpx2`, if neither `inner` nor the imported modules decide which is meant.
        queue: Whether new requests to a path wait while another request to it waits for the server.
        name: Name of its policies. Clients with the same name and engine share their state.
        engine: The engine that keeps their state; the default engine of the process if left out.

    Raises:
        TypeError: If it is ambiguous whether httpx or httpx2 is meant.
    """

    def __new__(cls, inner: Any = None, options: Any = None, **how: Any) -> Any:
        del options
        return super().__new__(cls, inner, module=how.get("module"))

    def __init__(
        self,
        inner: Any = None,
        options: Any = None,
        *,
        module: ModuleType | None = None,
        queue: bool = True,
        name: str = "kiota",
        engine: Engine | None = None,
    ) -> None:
        self._policies = Policies(options, name, queue, engine)
        module = _module_of(self) if module is None else module
        watched = _Watched(module.HTTPTransport() if inner is None else inner)
        super().__init__(watched, self._policies.of(self._policies.option), module=module)

    def handle_request(self, request: Any) -> Any:
        """Sends a request, and retries it according to its option."""
        return super().handle_request(self._policies.sent(request))


class AsyncRetryTransport(AsyncTransport):
    """The retry handler as a transport for `httpx.AsyncClient` and `httpx2.AsyncClient`.

    Waiting requests do not block the event loop.

    Args:
        inner: The transport that sends; `AsyncHTTPTransport()` if left out.
        options: The option of requests without their own; `RetryHandlerOption()` if left out.
        module: `httpx` or `httpx2`, if neither `inner` nor the imported modules decide which is meant.
        queue: Whether new requests to a path wait while another request to it waits for the server.
        name: Name of its policies. Clients with the same name and engine share their state.
        engine: The engine that keeps their state; the default engine of the process if left out.

    Raises:
        TypeError: If it is ambiguous whether httpx or httpx2 is meant.
    """

    def __new__(cls, inner: Any = None, options: Any = None, **how: Any) -> Any:
        del options
        return super().__new__(cls, inner, module=how.get("module"))

    def __init__(
        self,
        inner: Any = None,
        options: Any = None,
        *,
        module: ModuleType | None = None,
        queue: bool = True,
        name: str = "kiota",
        engine: Engine | None = None,
    ) -> None:
        self._policies = Policies(options, name, queue, engine)
        module = _module_of(self) if module is None else module
        watched = _Watched(module.AsyncHTTPTransport() if inner is None else inner)
        super().__init__(watched, self._policies.of(self._policies.option), module=module)

    async def handle_async_request(self, request: Any) -> Any:
        """Sends a request, and retries it according to its option."""
        return await super().handle_async_request(self._policies.sent(request))


class _Rest:
    """The rest of the pipeline after the handler, as a transport: the next middleware, or the network."""

    def __init__(self, handler: RetryHandler) -> None:
        self._handler = handler

    async def handle_async_request(self, request: Any) -> Any:
        transport = request.extensions[_PIPELINE]
        if self._handler.next is not None:
            return await self._handler.next.send(request, transport)
        request.extensions.pop(OPTIONS, None)
        return await transport.handle_async_request(request)


class RetryHandler:
    """The retry handler as a middleware of kiota's pipeline, in place of kiota's own.

    Args:
        options: The option of requests without their own; `RetryHandlerOption()` if left out.
        queue: Whether new requests to a path wait while another request to it waits for the server.
        name: Name of its policies. Handlers with the same name and engine share their state.
        engine: The engine that keeps their state; the default engine of the process if left out.

    Attributes:
        next: The middleware after this one; the pipeline sets it.
        parent_span: Set by kiota, but not used; this handler makes no spans.

    Example:
        ```python
        from kiota_http.kiota_client_factory import KiotaClientFactory

        middleware = KiotaClientFactory.get_default_middleware(None)
        middleware[1] = RetryHandler(RetryHandlerOption(max_retries=5))
        client = KiotaClientFactory.create_with_custom_middleware(middleware)
        ```
    """

    def __init__(
        self,
        options: Any = None,
        *,
        queue: bool = True,
        name: str = "kiota",
        engine: Engine | None = None,
    ) -> None:
        self.next: Any = None
        self.parent_span: Any = None
        self.options = RetryHandlerOption() if options is None else options
        self._how: dict[str, Any] = {"queue": queue, "name": name, "engine": engine}
        self._transport: AsyncRetryTransport | None = None

    async def send(self, request: Any, transport: Any) -> Any:
        """Sends a request through the rest of the pipeline, and retries it according to its option."""
        door = self._transport
        if door is None:
            module = sys.modules[type(request).__module__.partition(".")[0]]
            door = self._transport = AsyncRetryTransport(
                _Rest(self), self.options, module=module, **self._how
            )
        extensions = request.extensions
        request.extensions = {**extensions, _PIPELINE: transport}
        try:
            return await door.handle_async_request(request)
        finally:
            request.extensions = extensions
