"""Dataclasses that are not made by the module of that name.

Its decorator imports `inspect`, and writes and compiles source for each class; that took longer than all the
rest of `import tidegate`. Its functions take these classes for its own all the same (`fields`, `replace`,
`asdict`): what they look for is made when they first do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform  # the type checkers' own: nothing is installed
else:

    def dataclass_transform(**_: bool) -> Any:
        """From Python 3.11 on it is in `typing`; it does nothing there either."""
        return lambda decorated: decorated


class _Unset:
    """Left to core's table."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "..."

    def __reduce__(self) -> str:
        return "UNSET"


UNSET: Final[Any] = _Unset()


class _Twin:
    """An attribute that a real dataclass of the same fields has, made when it is asked for."""

    __slots__ = ("_name",)

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type[Frozen]) -> Any:
        if self._name == "__signature__" and (instance is not None or not owner._names):
            raise AttributeError(self._name)  # an instance is not callable, and a base class takes no options
        from dataclasses import field, make_dataclass
        from inspect import signature

        defaults = {name: {"default": getattr(owner, name)} for name in owner._names if hasattr(owner, name)}
        fields = [(name, owner._types[name], field(**defaults.get(name, {}))) for name in owner._names]
        twin = make_dataclass(owner.__name__, fields, frozen=True, kw_only=issubclass(owner, Options))
        return signature(twin) if self._name == "__signature__" else getattr(twin, self._name)


@dataclass_transform(frozen_default=True)
class Frozen:
    """Equal to another where all fields are, and never changed. Annotations name a subclass's fields."""

    _names: ClassVar[tuple[str, ...]] = ()
    _types: ClassVar[dict[str, Any]] = {}
    __dataclass_fields__: ClassVar[Any] = _Twin()
    __dataclass_params__: ClassVar[Any] = _Twin()

    def __init_subclass__(cls) -> None:
        own = {name: kind for name, kind in cls.__annotations__.items() if "ClassVar" not in str(kind)}
        cls._types = {**cls._types, **own}
        cls._names = tuple(cls._types)

    def fields(self) -> dict[str, Any]:
        """All fields with their values, in the order of the class."""
        return {name: getattr(self, name) for name in self._names}

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.fields().items() if value is not UNSET)
        return f"{type(self).__name__}({shown})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Frozen) or type(other) is not type(self):
            return NotImplemented
        return self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash(tuple(self.fields().values()))

    def __replace__(self, **changes: Any) -> Any:
        return type(self)(**{**self.fields(), **changes})

    def __setattr__(self, name: str, value: Any) -> None:
        self._refuse("assign to", name)

    def __delattr__(self, name: str) -> None:
        self._refuse("delete", name)

    def _refuse(self, what: str, name: str) -> None:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot {what} field {name!r}")


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Options(Frozen):
    """Keyword arguments alone, all of them `UNSET` unless given.

    Raises:
        TypeError: If there is no such option.
    """

    __signature__: ClassVar[Any] = _Twin()

    def __init__(self, **given: Any) -> None:
        for name, value in given.items():
            if name not in self._names:
                # As Python says it of any function.
                raise TypeError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword argument {name!r}"
                )
            if value is not UNSET:
                self.__dict__[name] = value
