"""Policy documents: named policies from TOML or JSON, read and checked by core."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

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
        Policy('payments', preset='http', deadline=10.0)

    Raises:
        UnknownPolicy: From `policies[name]`, for a name that the document does not have.
    """

    def __init__(self, document: Document, classify: Classify | None, engine: Engine | None) -> None:
        self._document = document
        self._classify = classify
        self._engine = engine
        self._made: dict[str, Policy] = {}
        self.pools: dict[str, Pool] = {
            name: Pool(name, engine=engine, **{kind: _options(kind, pairs)})
            for name, kind, pairs in document.pools()
        }

    def __getitem__(self, name: str) -> Policy:
        policy = self._made.get(name)
        if policy is None:
            try:
                pairs = self._document.pairs(name)
            except KeyError as error:
                raise UnknownPolicy(*error.args) from None
            options = nested(pairs)
            policy = Policy(name, classify=self._classify, engine=self._engine, **options)
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
    if form not in ("toml", "json"):
        raise ValueError(f"form = {form!r}: must be one of toml, json")
    return Policies(Document(text, form == "json"), classify, engine)


def load(
    path: str | os.PathLike[str], *, classify: Classify | None = None, engine: Engine | None = None
) -> Policies:
    """Reads a policy document from a file: JSON if its name ends in `.json`, else TOML.

    Raises:
        PolicyError: With every mistake of every policy: the key, the value, the rule and the line.
        OSError: If the file cannot be read.
    """
    with open(path, encoding="utf-8") as file:
        text = file.read()
    form = "json" if os.fspath(path).endswith(".json") else "toml"
    return loads(text, form=form, classify=classify, engine=engine)


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
