"""Policy documents: named policies from TOML or JSON, read and checked by core."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tidegate._engine.engine import default_engine
from tidegate._engine.frozen import Frozen
from tidegate._engine.options import POOLS, TABLE
from tidegate._engine.pool import Pool
from tidegate._native import Document

from .policy import Policy

if TYPE_CHECKING:
    from tidegate._engine.engine import Engine

    from .outcomes import Classify


class UnknownPolicy(KeyError):
    """A name that a document does not have; the message lists those it has."""

    def __str__(self) -> str:
        return str(self.args[0])


class Reloaded(Frozen):
    """What `Policies.reload` has done. Names are as the document has them: `policy.payments`, `pool.db`.

    Attributes:
        digest: What the document says now, as `Policies.digest`.
        added: What only the newer document has.
        changed: What both have, with other settings.
        removed: What only the older document has.
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
    """The policies of a document, by name. Each is made when it is first asked for, and kept.

    Attributes:
        pools: The document's pools, by name. They are there from the start.

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

    def __init__(self, document: Document, classify: Classify | None, engine: Engine | None) -> None:
        self._document = document
        self._classify = classify
        self._engine = engine
        self._made: dict[str, Policy] = {}
        self.pools: dict[str, Pool] = {}
        for name, kind, pairs in document.pools():
            self.pools[name] = Pool(name, engine=self._its_engine(), **{kind: _options(kind, pairs)})

    @property
    def digest(self) -> str:
        """What the document says, as 16 hexadecimal digits: the same wherever a document says the same.

        Its form (TOML or JSON), the order of its keys and how it writes a value do not matter: processes
        that report the same digest go by the same settings.
        """
        return self._document.digest()

    def reload(self, document: str | os.PathLike[str], *, form: str | None = None) -> Reloaded:
        """Goes over to a newer version of the document, while its policies are in use: all of it, or nothing.

        Policies and pools of both versions get their new settings as `retune` gives them: what they have
        counted stays counted, and calls in flight finish under the settings that they began with. Those
        that are new are there by their names. A policy that is gone keeps its settings for the callers that
        still have it.

        Args:
            document: Its text; or the path of a file, as a `pathlib.Path`.
            form: `"toml"` or `"json"`; for a file by the end of its name, else TOML, if left out.

        Raises:
            PolicyError: With every mistake of the document, and everything that cannot go over; nothing has
                been changed. A policy keeps the pools that it names, and a pool its kind; a new name may not
                be that of another policy or pool of the engine.
            OSError: If the file cannot be read.
            ValueError: If `form` is neither.
        """
        to = _read(document, form) if isinstance(document, str) else _read_file(document, form)
        engine, before = self._its_engine(), self._document
        woken = before.reload(engine.native, to)
        try:
            self._document = to
            engine.tunings += 1
            return self._taken_over(before)
        finally:
            engine.wake(woken)

    def _taken_over(self, before: Document) -> Reloaded:
        """Renews what this half keeps of the policies and pools, once the engine has gone over."""
        to, engine = self._document, self._its_engine()
        old, new = _said(before), _said(to)
        for name in to.names():
            shared = engine.shared.get(name)
            if shared is not None:
                shared.config = nested(to.pairs(name))
        self._made = {name: policy for name, policy in self._made.items() if f"policy.{name}" in new}
        pools = {}
        for name, kind, pairs in to.pools():
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
            policy = Policy._of_document(self._document, name, config, self._classify, self._its_engine())
            policy = self._made.setdefault(name, policy)
        return policy

    def __iter__(self) -> Iterator[str]:
        return iter(self._document.names())

    def __len__(self) -> int:
        return len(self._document.names())


def loads(
    text: str, *, form: str = "toml", classify: Classify | None = None, engine: Engine | None = None
) -> Policies:
    """Reads a policy document.

    Args:
        text: The document.
        form: `"toml"` (default) or `"json"`.
        classify: Given to every policy of the document; see `Policy`.
        engine: The engine that keeps their state; the process's own if left out.

    Raises:
        PolicyError: With every mistake of every policy: the key, the value, the rule and the line.
        ValueError: If `form` is neither.
    """
    return Policies(_read(text, form), classify, engine)


def load(
    path: str | os.PathLike[str], *, classify: Classify | None = None, engine: Engine | None = None
) -> Policies:
    """Reads a policy document from a file: JSON if its name ends in `.json`, else TOML.

    Raises:
        PolicyError: With every mistake of every policy: the key, the value, the rule and the line.
        OSError: If the file cannot be read.
    """
    return Policies(_read_file(path), classify, engine)


def _read(text: str, form: str | None) -> Document:
    """A document that core has read and checked."""
    if form not in (None, "toml", "json"):
        raise ValueError(f"form = {form!r}: must be one of toml, json")
    return Document(text, form == "json")


def _read_file(path: str | os.PathLike[str], form: str | None = None) -> Document:
    """The same of a file; the end of its name says its form."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return _read(text, form or ("json" if os.fspath(path).endswith(".json") else "toml"))


def _said(document: Document) -> dict[str, Any]:
    """What a document says of each policy and pool, by name."""
    said: dict[str, Any] = {f"pool.{name}": (kind, pairs) for name, kind, pairs in document.pools()}
    return said | {f"policy.{name}": document.pairs(name) for name in document.names()}


def _options(kind: str, pairs: list[tuple[str, float | str]]) -> dict[str, Any]:
    """A pool's pairs as its options."""
    table = POOLS[kind]
    options: Any = nested([(f"{table}.{key}", value) for key, value in pairs])
    for folder in table.split("."):
        options = options[folder]
    return dict(options)


def nested(pairs: list[tuple[str, float | str]]) -> dict[str, Any]:
    """Pairs as the options of a policy: nested dicts, spans in seconds, lists as lists."""
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
