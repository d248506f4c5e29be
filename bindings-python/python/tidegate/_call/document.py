"""Policy documents: named policies from TOML or JSON, which core parses and validates."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tidegate._engine.engine import default_engine, engine_of
from tidegate._engine.errors import PolicyError
from tidegate._engine.frozen import Frozen
from tidegate._engine.options import POOLS, TABLE
from tidegate._engine.pool import Pool
from tidegate._native import Document

from .outcomes import check_classify
from .policy import Policy, _on

TARGETS: Final = "targets"
"""The kind of a group of targets, and its section of a document."""

if TYPE_CHECKING:
    from tidegate._engine.engine import Engine

    from .outcomes import Classify

    Retried: TypeAlias = type[Exception] | tuple[type[Exception], ...]


class UnknownPolicy(KeyError):
    """Raised for a policy name that is not in the document; the message lists the names that are."""

    def __str__(self) -> str:
        return str(self.args[0])


class Reloaded(Frozen):
    """Result of `Policies.reload`. Names are written as in the document: `policy.payments`, `pool.db`.

    Attributes:
        digest: Digest of the new document, as `Policies.digest`.
        added: Names that only the newer document has.
        changed: Names that both documents have, with different settings.
        removed: Names that only the older document has.
    """

    digest: str
    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]

    def __init__(
        self, digest: str, added: tuple[str, ...], changed: tuple[str, ...], removed: tuple[str, ...]
    ) -> None:
        self.__dict__.update(digest=digest, added=added, changed=changed, removed=removed)


class Policies(Mapping[str, Policy]):
    """The policies of a document, by name. Each is made at its first use, and kept.

    Attributes:
        pools: The document's pools, by name. They are made at once.

    Example:
        >>> policies = loads('''
        ... [policy.payments]
        ... preset = "http"
        ... deadline = "10s"
        ... ''')
        >>> policies["payments"]
        Policy('payments', deadline=10.0, retry={'max_attempts': 3, ...})

    Raises:
        UnknownPolicy: From `policies[name]`, for a name that the document does not have.
    """

    def __init__(
        self,
        document: Document,
        classify: Classify | None,
        engine: Engine | None,
        on: Retried | Mapping[str, Retried] | None = None,
    ) -> None:
        check_classify(classify)
        self._document = document
        self._classify = classify
        self._on = _checked(on, document.names())
        self._engine = None if engine is None else engine_of(engine)
        self._made: dict[str, Policy] = {}
        self.pools: dict[str, Pool] = {}
        for name, kind, pairs in document.pools():
            if kind == TARGETS:
                self._its_engine().native.pool(name, kind, pairs)
            else:
                self.pools[name] = Pool(name, engine=self._its_engine(), **{kind: _options(kind, pairs)})

    @property
    def digest(self) -> str:
        """Digest of the document's settings, as 16 hexadecimal digits. Equal settings have equal digests.

        The form (TOML or JSON), the order of keys and the notation of values do not matter. So processes that
        report the same digest use the same settings.
        """
        return self._document.digest()

    def reload(
        self,
        document: str | os.PathLike[str],
        *,
        form: str | None = None,
        on: Retried | Mapping[str, Retried] | None = None,
    ) -> Reloaded:
        """Replaces the document by a newer version while its policies are in use; all of it or nothing.

        Policies and pools in both versions get their new settings as by `retune`: they keep their counts, and
        calls in flight finish under the settings that they began with. New policies and pools become
        available by name. A removed policy keeps its settings for callers that still hold it.

        Args:
            document: Its text; or the path of a file, as a `pathlib.Path`.
            form: `"toml"` or `"json"`; for a file by the end of its name, else TOML, if left out.
            on: Exceptions to retry under the policies that this version adds, as in `loads`. Those that it
                does not name retry what `loads` was given for all policies. The other policies keep theirs.

        Raises:
            PolicyError: With all mistakes of the document and all changes that are not possible: a policy
                cannot change the pools that it names, nor a pool its kind, and a new name must not be that of
                another policy or pool of the engine. Also if `on` names no exceptions, or a policy that this
                version does not add. Nothing is changed then.
            OSError: If the file cannot be read.
            ValueError: If `form` is neither.
        """
        to = _read(document, form) if isinstance(document, str) else _read_file(document, form)
        engine, before = self._its_engine(), self._document
        added = [name for name in to.names() if name not in before.names()]
        given = {} if on is None else _checked(on, added, "this version adds no such policy; it adds")
        woken = before.reload(engine.native, to)
        try:
            self._document = to
            self._on.update(
                {name: given.get(name) or given[None] for name in added if {name, None} & {*given}}
            )
            engine.tunings += 1
            return self._taken_over(before)
        finally:
            engine.wake(woken)

    def _taken_over(self, before: Document) -> Reloaded:
        """Updates the Python objects of policies and pools, once the engine has reloaded the document."""
        to, engine = self._document, self._its_engine()
        old, new = _said(before), _said(to)
        for name in to.names():
            shared = engine.shared.get(name)
            if shared is not None:
                shared.config = nested(to.pairs(name))
        self._made = {name: policy for name, policy in self._made.items() if f"policy.{name}" in new}
        pools = {}
        for name, kind, pairs in to.pools():
            if kind == TARGETS:
                continue  # a group has no object: policies name it
            options = _options(kind, pairs)
            pools[name] = self.pools.get(name) or Pool(name, engine=engine, **{kind: options})
            pools[name]._options = options
        self.pools = pools
        return Reloaded(
            to.digest(),
            tuple(name for name in new if name not in old),
            tuple(name for name in new if name in old and old[name] != new[name]),
            tuple(name for name in old if name not in new),
        )

    def _its_engine(self) -> Engine:
        if self._engine is None:
            self._engine = default_engine()
        return self._engine

    def __getitem__(self, name: str) -> Policy:
        policy = self._made.get(name)
        if policy is None:
            try:
                config = nested(self._document.pairs(name))
            except KeyError as error:
                raise UnknownPolicy(*error.args) from None
            on = self._on.get(name) or self._on.get(None)
            policy = Policy._of_document(self._document, name, config, self._classify, self._its_engine(), on)
            policy = self._made.setdefault(name, policy)
        return policy

    def __iter__(self) -> Iterator[str]:
        return iter(self._document.names())

    def __len__(self) -> int:
        return len(self._document.names())


def loads(
    text: str,
    *,
    form: str = "toml",
    on: Retried | Mapping[str, Retried] | None = None,
    classify: Classify | None = None,
    engine: Engine | None = None,
) -> Policies:
    """Reads a policy document.

    Args:
        text: The document.
        form: `"toml"` (default) or `"json"`.
        on: Exceptions to retry, which a document cannot name: a class, a tuple of them, or a dict of these by
            policy; see `Policy`.
        classify: Passed to every policy of the document; see `Policy`.
        engine: The engine that keeps their state; the default engine of the process if left out.

    Raises:
        PolicyError: With all mistakes of all policies: for each the key, the value, the rule and the line.
            Also if `on` names no exceptions, or a policy that the document does not have.
        ValueError: If `form` is neither.
    """
    return Policies(_read(text, form), classify, engine, on)


def load(
    path: str | os.PathLike[str],
    *,
    on: Retried | Mapping[str, Retried] | None = None,
    classify: Classify | None = None,
    engine: Engine | None = None,
) -> Policies:
    """Reads a policy document from a file: JSON if its name ends in `.json`, else TOML.

    Args:
        path: The file.
        on: Exceptions to retry, which a document cannot name: a class, a tuple of them, or a dict of these by
            policy; see `Policy`.
        classify: Passed to every policy of the document; see `Policy`.
        engine: The engine that keeps their state; the default engine of the process if left out.

    Raises:
        PolicyError: With all mistakes of all policies: for each the key, the value, the rule and the line.
        OSError: If the file cannot be read.
    """
    return Policies(_read_file(path), classify, engine, on)


def _read(text: str, form: str | None) -> Document:
    """Returns a document, parsed and validated by core."""
    if form not in (None, "toml", "json"):
        raise ValueError(f"form = {form!r}: must be one of toml, json")
    return Document(text, form == "json")


def _read_file(path: str | os.PathLike[str], form: str | None = None) -> Document:
    """Returns the document in a file. Without `form`, the file's suffix decides the form."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return _read(text, form or ("json" if os.fspath(path).endswith(".json") else "toml"))


def _checked(
    given: Any, names: list[str], rule: str = "the document has no such policy; it has"
) -> dict[str | None, tuple[type[Exception], ...]]:
    """Returns the exceptions to retry by the policy's name, under None those of all policies."""
    by_name = given if isinstance(given, Mapping) else {None: given}
    mistakes = []
    checked: dict[str | None, tuple[type[Exception], ...]] = {}
    for name, kinds in by_name.items():
        if name is not None and name not in names:
            mistakes.append((f"on[{name!r}]", repr(kinds), f"{rule} {', '.join(names) or 'none'}"))
            continue
        try:
            checked[name] = _on(kinds) or ()
        except PolicyError as error:
            mistakes += error.mistakes
    if mistakes:
        raise PolicyError(mistakes)
    return checked


def _said(document: Document) -> dict[str, Any]:
    """Returns the settings of each policy and pool of a document, by name."""
    section = {TARGETS: TARGETS}
    said: dict[str, Any] = {
        f"{section.get(kind, 'pool')}.{name}": (kind, pairs) for name, kind, pairs in document.pools()
    }
    return said | {f"policy.{name}": document.pairs(name) for name in document.names()}


def _options(kind: str, pairs: list[tuple[str, float | str]]) -> dict[str, Any]:
    """Converts a pool's pairs to its options."""
    table = POOLS[kind]
    options: Any = nested([(f"{table}.{key}", value) for key, value in pairs])
    for folder in table.split("."):
        options = options[folder]
    return dict(options)


def nested(pairs: list[tuple[str, float | str]]) -> dict[str, Any]:
    """Converts pairs to the options of a policy: nested dicts, with spans in seconds and lists as lists."""
    options: dict[str, Any] = {}
    for path, plain in pairs:
        *folders, key = path.split(".")
        place = options
        for folder in folders:
            place = place.setdefault(folder, {})
        domain = TABLE[path][0]
        value: Any = plain
        if plain == "none" and domain in ("span", "count", "real"):
            value = None
        elif not isinstance(plain, str):
            value = {"span": plain / 1e6, "flag": plain == 1, "real": plain}.get(domain, int(plain))
        if domain == "kinds":
            name, _, base = str(plain).partition("=")
            place.setdefault(key, {})[name] = base
        elif domain == "list":
            place.setdefault(key, []).append(value)
        else:
            place[key] = value
    return options
