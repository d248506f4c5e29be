"""Failures by kind, in forze's vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Final


class ExceptionKind(str, Enum):
    """The kind of a failure. Only `concurrency`, `infrastructure` and `throttled` can be retried."""

    INTERNAL = "internal"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    CONCURRENCY = "concurrency"
    VALIDATION = "validation"
    DOMAIN = "domain"
    PRECONDITION = "precondition"
    AUTHENTICATION = "authentication"
    AUTHORIZATION = "authorization"
    CONFIGURATION = "configuration"
    INFRASTRUCTURE = "infrastructure"
    THROTTLED = "throttled"
    TIMEOUT = "timeout"

    def __str__(self) -> str:
        return str(self.value)


RETRYABLE: Final = frozenset(
    {ExceptionKind.CONCURRENCY, ExceptionKind.INFRASTRUCTURE, ExceptionKind.THROTTLED}
)

_STATUSES: Final = {
    ExceptionKind.THROTTLED: 429,
    ExceptionKind.TIMEOUT: 504,
    ExceptionKind.CONCURRENCY: 409,
    ExceptionKind.CONFLICT: 409,
    ExceptionKind.VALIDATION: 422,
    ExceptionKind.DOMAIN: 400,
    ExceptionKind.PRECONDITION: 400,
    ExceptionKind.NOT_FOUND: 404,
    ExceptionKind.AUTHENTICATION: 401,
    ExceptionKind.AUTHORIZATION: 403,
}


class CoreException(Exception):
    """A failure with a kind. `exc.throttled("…")` makes one of the kind `throttled`.

    Args:
        kind: Its kind.
        summary: What happened.
        code: A more specific code than the kind; `core.<kind>` if left out.
        details: Further details. In a throttled failure, `retry_after` is the requested wait in seconds.

    Example:
        >>> error = exc.throttled("slow down", code="rate_limited")
        >>> error.kind.value, error.code, error.http_status
        ('throttled', 'rate_limited', 429)
    """

    def __init__(
        self,
        kind: ExceptionKind,
        summary: str,
        *,
        code: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(summary)
        self.kind = ExceptionKind(kind)
        self.summary = summary
        self.code = code or f"core.{self.kind}"
        self.details = details

    @property
    def http_status(self) -> int:
        """A suitable status for the response of an HTTP server to its own caller."""
        return _STATUSES.get(self.kind, 500)

    def __str__(self) -> str:
        return f"{str(self.kind).capitalize()} exception occurred ({self.code}): {self.summary}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(cls: type[CoreException], args: tuple[Any, ...], state: dict[str, Any]) -> CoreException:
    error = cls.__new__(cls, *args)  # a subclass may have another constructor
    error.__dict__.update(state)
    return error


class _Maker:
    """Makes failures of one kind."""

    def __init__(self, kind: ExceptionKind) -> None:
        self._kind = kind

    def __call__(
        self, summary: str, *, code: str | None = None, details: Mapping[str, Any] | None = None
    ) -> CoreException:
        return CoreException(self._kind, summary, code=code, details=details)


class exc:  # noqa: N801 - forze's name
    """Makes a `CoreException` of a kind: `raise exc.not_found("no such order")`."""

    internal: Final = _Maker(ExceptionKind.INTERNAL)
    not_found: Final = _Maker(ExceptionKind.NOT_FOUND)
    conflict: Final = _Maker(ExceptionKind.CONFLICT)
    concurrency: Final = _Maker(ExceptionKind.CONCURRENCY)
    validation: Final = _Maker(ExceptionKind.VALIDATION)
    domain: Final = _Maker(ExceptionKind.DOMAIN)
    precondition: Final = _Maker(ExceptionKind.PRECONDITION)
    authentication: Final = _Maker(ExceptionKind.AUTHENTICATION)
    authorization: Final = _Maker(ExceptionKind.AUTHORIZATION)
    configuration: Final = _Maker(ExceptionKind.CONFIGURATION)
    infrastructure: Final = _Maker(ExceptionKind.INFRASTRUCTURE)
    throttled: Final = _Maker(ExceptionKind.THROTTLED)
    timeout: Final = _Maker(ExceptionKind.TIMEOUT)


def kind_of(error: object) -> ExceptionKind | None:
    """Returns the kind of a failure of any class with a `kind` of forze's; None for other failures."""
    try:
        return ExceptionKind(str(getattr(error, "kind", None)))
    except Exception:  # no kind of forze's, or an attribute that raises
        return None
