"""
Tidegate's core, for the Python half. No part of the public API.
"""

from typing import Final, SupportsIndex, final

__all__ = ["Document", "Engine", "keys", "monotonic"]

@final
class Document:
    """
    A policy document that has been read and checked.
    """
    def __new__(cls, /, text: str, json: bool) -> Document:
        """
        Reads a document: TOML, or JSON where `json` says so.

        Raises `PolicyError` with every mistake of every policy, each with its line.
        """
    def names(self, /) -> "list[str]":
        """
        The names of its policies.
        """
    def pairs(self, /, name: str) -> "list[tuple[str, float | str]]":
        """
        The pairs of a policy, its preset spelled out. Raises `KeyError` with the known names.
        """

@final
class Engine:
    """
    The engine of the core behind one short lock.

    Without `manual_clock` it reads the system's monotonic clock itself, so that a call costs two crossings.
    """
    version: Final[str]
    """
    The version of the core.
    """
    def __new__(cls, /, seed: SupportsIndex, manual_clock: bool = False) -> Engine: ...
    def after_fork(self, /, seed: SupportsIndex) -> None:
        """
        In the child of a fork: drops the parent's calls and takes a seed of its own.
        """
    def begin(self, /, route: SupportsIndex, flags: SupportsIndex, remaining: SupportsIndex, parent: SupportsIndex, target: SupportsIndex) -> "tuple[int, int] | tuple[int, int, list[int]]":
        """
        Begins a call: its id and its first step, and the calls that can go on now where the step says so.
        """
    def classify(self, /, policy: SupportsIndex, status: SupportsIndex, headers: "list[tuple[bytes, bytes]]", wall_us: SupportsIndex) -> "int":
        """
        The outcome of an HTTP answer, at its place in the word of a Finished event.
        """
    def now(self, /) -> int:
        """
        Microseconds on this engine's clock.
        """
    def on(self, /, call: SupportsIndex, event: SupportsIndex) -> "int | tuple[int, list[int]]":
        """
        Tells a call what happened: its next step, paired with the calls that can go on now where the step says so.
        """
    def policy(self, /, name: str, pairs: "list[tuple[str, float | str]]") -> "int":
        """
        Takes a policy in: pairs of dotted keys and numbers or words, spans in microseconds.

        Raises `PolicyError` with every mistake there is.
        """
    def retries_method(self, /, policy: SupportsIndex, method: str) -> bool:
        """
        May a request of this method be repeated without an idempotency key?
        """
    def route(self, /, policy: SupportsIndex, key: str) -> int:
        """
        The route of a key under a policy.
        """
    def set_now(self, /, us: SupportsIndex) -> None:
        """
        Sets the manual clock, in microseconds.
        """
    def setting(self, /, policy: SupportsIndex, key: str) -> "float | str | None":
        """
        The value of a policy's key that is in force: a number (spans in microseconds), a word, or None.
        """
    def snapshot(self, /) -> "dict[str, object]":
        """
        The state of everything, as plain dictionaries and lists.
        """

def keys() -> "dict[str, tuple[str, str]]":
    """
    Core's table of keys: what each takes (`span`, `count`, `real`, `flag`, `choice`, `list`) and its default, as a
    document would write it; empty where there is none.
    """

def monotonic() -> int:
    """
    Microseconds on the process's monotonic clock, which every engine without a manual clock shares.
    """
