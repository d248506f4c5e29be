"""`policy.wrap(client)`: runs the methods of an object under a policy."""

from __future__ import annotations

import inspect
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any, Final, SupportsIndex, TypeVar, cast
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .caller import Caller
    from .policy import Policy

T = TypeVar("T")

_OWN: Final = frozenset(
    (
        "__class__ __new__ __init__ __getattribute__ __getattr__ __setattr__ __delattr__ __dict__ __dir__"
        " __slots__ __init_subclass__ __subclasshook__ __class_getitem__ __del__ __reduce__ __reduce_ex__"
        " __getstate__ __setstate__ __getnewargs__ __getnewargs_ex__ __copy__ __deepcopy__ __repr__"
    ).split()
)
"""Special methods that are not forwarded to the wrapped object."""


def wrap(policy: Policy, client: T, methods: Iterable[str] | None, route: str | None) -> T:
    """Wraps an object so that its methods run under the policy; see `Policy.wrap`."""
    if isinstance(methods, str):
        raise ValueError(f"methods = {methods!r}: must be names of methods, in a list")
    if methods is None:
        _check_repeats(policy, client)
        names = _public(client)
        if not names:
            raise ValueError(f"client = {client!r}: has no public method to put behind a policy")
    else:
        names = list(methods)
        for name in names:
            _check_method(client, name)
    caller: Caller = policy if route is None else policy.at(route=route)
    return cast("T", _wrapped(client, names, caller))


def _wrapped(client: object, names: list[str], caller: Caller) -> _Wrapped:
    """Wraps the methods with these names. Pickles and copies of a wrapper call it."""
    calls = {name: caller(getattr(client, name)) for name in names}
    return _kind_of(type(client))(client, calls, caller)


def _public(client: object) -> list[str]:
    """Returns the names of public coroutine methods, else of all public methods; streams are left out."""
    found: dict[str, bool] = {}
    for name in dir(client):
        if name.startswith("_"):
            continue
        static = inspect.getattr_static(client, name)
        if isinstance(static, property):
            continue  # reading a property could have side effects
        method = getattr(client, name)
        if inspect.isroutine(method) and not _streams(method):
            found[name] = inspect.iscoroutinefunction(method)
    awaited = any(found.values())
    return [name for name, awaits in found.items() if awaits == awaited]


def _streams(method: Any) -> bool:
    """Returns whether the method is a generator, sync or async, or a context manager made of one."""
    inner = inspect.unwrap(method)
    return inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner)


def _check_method(client: object, name: str) -> None:
    method = getattr(client, name, None)
    if not callable(method):
        raise ValueError(f"methods: {name!r} is no method of {type(client).__name__}")
    if _streams(method):
        raise ValueError(f"methods: {name!r} of {type(client).__name__} is a stream, which is never wrapped")


def _check_repeats(policy: Policy, client: object) -> None:
    """Raises if the policy retries after ambiguous failures, since a repeated write may happen twice."""
    if policy._engine.native.may_do_twice(policy._number):
        raise ValueError(
            f"methods = None: policy {policy.name!r} repeats calls, and what a method of"
            f" {type(client).__name__} writes may happen twice; name the methods that may be repeated,"
            " or retry_on only conflict, never_sent, throttled"
        )


class _Wrapped:
    """An object with some of its methods under a policy. Everything else is forwarded to the object."""

    __slots__ = ("__weakref__", "_tidegate_caller", "_tidegate_calls", "_tidegate_client")

    def __init__(self, client: object, calls: dict[str, Callable[..., Any]], caller: Caller) -> None:
        object.__setattr__(self, "_tidegate_client", client)
        object.__setattr__(self, "_tidegate_calls", calls)
        object.__setattr__(self, "_tidegate_caller", caller)

    def __getattribute__(self, name: str) -> Any:
        if name in ("__class__", "__repr__", "__deepcopy__", "__reduce_ex__"):
            return object.__getattribute__(self, name)
        calls = object.__getattribute__(self, "_tidegate_calls")
        if name in calls:
            return calls[name]
        return getattr(object.__getattribute__(self, "_tidegate_client"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(object.__getattribute__(self, "_tidegate_client"), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(object.__getattribute__(self, "_tidegate_client"), name)

    def __dir__(self) -> Iterable[str]:
        return dir(object.__getattribute__(self, "_tidegate_client"))

    def __repr__(self) -> str:
        client, _, caller = _parts(self)
        return f"<{client!r} behind {caller._policy.name!r}>"

    def __copy__(self) -> _Wrapped:
        client, names, caller = _parts(self)
        return _wrapped(copy(client), names, caller)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Wrapped:
        client, names, caller = _parts(self)
        return _wrapped(deepcopy(client, memo), names, caller)

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return _wrapped, _parts(self)


def _parts(wrapped: _Wrapped) -> tuple[Any, list[str], Caller]:
    """Returns the arguments with which `_wrapped` has made this object."""
    own = object.__getattribute__
    calls = own(wrapped, "_tidegate_calls")
    return own(wrapped, "_tidegate_client"), list(calls), own(wrapped, "_tidegate_caller")


def _class_of(wrapped: _Wrapped) -> type:
    return type(object.__getattribute__(wrapped, "_tidegate_client"))


_kinds: Final[WeakKeyDictionary[type, type[_Wrapped]]] = WeakKeyDictionary()
"""Wrapper classes by class; weak, because botocore makes a class for each client."""


def _kind_of(kind: type) -> type[_Wrapped]:
    """Returns the wrapper class for objects of a class; it has the same special methods."""
    made = _kinds.get(kind)
    if made is None:
        names = [name for name in dir(kind) if name[:2] == name[-2:] == "__" and name not in _OWN]
        found = {name: getattr(kind, name, None) for name in names}  # some names of modules are not readable
        special: dict[str, Any] = {
            name: _forwarded(name)
            for name, method in found.items()
            if callable(method) and method is not getattr(object, name, None)
        }
        # `__class__` reports the class of the object, as mocks do; type checkers reject such a property.
        special |= {"__slots__": (), "__class__": property(_class_of)}
        made = _kinds[kind] = type(f"Wrapped{kind.__name__}", (_Wrapped,), special)
    return made


def _forwarded(name: str) -> Callable[..., Any]:
    def forward(self: _Wrapped, *args: Any, **kwargs: Any) -> Any:
        client = object.__getattribute__(self, "_tidegate_client")
        answer = getattr(client, name)(*args, **kwargs)
        if name == "__aenter__":
            return _entered(self, client, answer)
        return self if answer is client else answer

    forward.__name__ = name
    return forward


async def _entered(wrapped: _Wrapped, client: object, entering: Any) -> Any:
    """Result of `async with wrapped as it`: the wrapper, if the object returns itself."""
    answer = await entering
    return wrapped if answer is client else answer
