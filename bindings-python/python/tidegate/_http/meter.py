"""Reads the usage of an answer while its body passes by (semantics 15.6)."""

from __future__ import annotations

import zlib
from typing import Any, Final

from tidegate._call.usage import Usage
from tidegate._native import UsageReader

from .beginning import INFLATED

_AT_ONCE: Final = 64 * 1024
"""Bytes that are unpacked at once."""
_END: Final = b"[DONE]"
"""The last event of OpenAI's streams, after which SDKs close the answer."""


class Meter:
    """The usage of one body, which is read as it comes from the connection.

    Attributes:
        whole: Whether the body has been read to its end.
    """

    __slots__ = ("_inflate", "_reader", "_tail", "whole")

    def __init__(self, encoding: str = "identity") -> None:
        encoding = encoding.strip().lower()
        self.whole = False
        self._tail = b""
        self._inflate: Any = None
        self._reader: UsageReader | None = None
        if encoding in ("", "identity"):
            self._reader = UsageReader()
        elif encoding in INFLATED:
            self._reader = UsageReader()
            self._inflate = zlib.decompressobj(INFLATED[encoding])

    def read(self, piece: bytes) -> None:
        """Reads the next piece."""
        if self._reader is None:
            return
        if self._inflate is None:
            self._take(piece)
            return
        try:
            while piece:
                self._take(self._inflate.decompress(piece, _AT_ONCE))
                piece = self._inflate.unconsumed_tail
        except zlib.error:
            self._reader = None

    def _take(self, text: bytes) -> None:
        if self._reader is not None:
            self._reader.read(text)
            self._tail = (self._tail + text)[-32:]

    def usage(self) -> Usage | None:
        """Returns the usage; None if the body was not read to its end, or tells none."""
        if self._reader is None or not (self.whole or _END in self._tail):
            return None
        prompt, cached, output = self._reader.tokens()
        return None if prompt is None and output is None else Usage(prompt or 0, cached or 0, output or 0)
