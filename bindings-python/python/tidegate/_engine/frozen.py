"""Classes that behave like dataclasses, without the cost of importing `dataclasses`.

Its decorator imports `inspect`, and generates and compiles source for each class. That took longer than the
rest of `import tidegate`. The functions `fields`, `replace` and `asdict` still accept these classes: the
attributes that they look up are made at the first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform  # for type checkers only, so not a dependency
else:

    def dataclass_transform(**_: bool) -> Any:
        """Does nothing, as `typing.dataclass_transform` of Python 3.11 does."""
        return lambda decorated: decorated


class _Unset:
    """Type of `UNSET`: a setting that is not given, so that core's default applies."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "..."

    def __reduce__(self) -> str:
        return "UNSET"


UNSET: Final[Any] = _Unset()


class _Twin:
    """An attribute of a real dataclass with the same fields, which is made at the first access."""

    __slots__ = ("_name",)

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type[Frozen]) -> Any:
        if self._name == "__signature__" and (instance is not None or not owner._names):
            raise AttributeError(self._name)  # instances are not callable, and base classes take no options
        from dataclasses import field, make_dataclass
        from inspect import signature

        defaults = {name: {"default": getattr(owner, name)} for name in owner._names if hasattr(owner, name)}
        fields = [(name, owner._types[name], field(**defaults.get(name, {}))) for name in owner._names]
        twin = make_dataclass(owner.__name__, fields, frozen=True, kw_only=issubclass(owner, Options))
        return signature(twin) if self._name == "__signature__" else getattr(twin, self._name)


@dataclass_transform(frozen_default=True)
class Frozen:
    """Immutable base class, compared by its fields. A subclass declares its fields by annotations."""

    _names: ClassVar[tuple[str, ...]] = ()
    _types: ClassVar[dict[str, Any]] = {}
    __dataclass_fields__: ClassVar[Any] = _Twin()
    __dataclass_params__: ClassVar[Any] = _Twin()

    def __init_subclass__(cls) -> None:
        own = {name: kind for name, kind in cls.__annotations__.items() if "ClassVar" not in str(kind)}
        cls._types = {**cls._types, **own}
        cls._names = tuple(cls._types)

    def fields(self) -> dict[str, Any]:
        """Returns all fields with their values, in the order of the class."""
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
    """Base class of option tables: keyword arguments only, each `UNSET` unless given.

    Raises:
        TypeError: If an option does not exist.
    """

    __signature__: ClassVar[Any] = _Twin()

    def __init__(self, **given: Any) -> None:
        for name, value in given.items():
            if name not in self._names:
                # The same wording as Python's own error.
                raise TypeError(
                    f"{type(self).__name__}.__init__() got an unexpected keyword argument {name!r}"
                )
            if value is not UNSET:
                self.__dict__[name] = value
