"""Streams of server-sent events (spec 15.4), read from the beginning for each piece."""

from __future__ import annotations

import json
import re
from typing import Any

import answers

UNCOUNTED = ["ping", "message_start", "response.created", "response.in_progress"]
FAILED = ("error", "response.failed")
Case = dict[str, Any]


def failure(name: str, data: str) -> str | None:
    """15.4.5, 15.4.6: what an event that has ended says about the answer."""
    try:
        document = json.loads(data)
    except ValueError:
        document = None
    top = document if isinstance(document, dict) else {}
    error = top.get("error")
    said = isinstance(error, (str, dict, list)) or top.get("type") in FAILED
    if name not in FAILED and not said:
        return None
    found = answers.failure(200, [], data)
    return found[0] if found else "transient"


def state(text: bytes, uncounted: list[str]) -> tuple[int, list[str]]:
    """How many bytes count, and what the events that have ended say of failures."""
    if b"\xef\xbb\xbf".startswith(text[:3]):
        text = text[3:]
    parts = re.split(rb"\r\n|\n|\r", text)
    counted, name = 0, ""
    failures: list[str] = []
    data: str | None = None
    for place, line in enumerate(parts):
        last = place == len(parts) - 1  # it has not ended
        if not line and not last:
            said = failure(name, data) if data is not None else None
            failures += [said] if said else []
            name, data = "", None
            continue
        field, colon, value = line.partition(b":")
        if not colon and last:
            continue
        value = value.removeprefix(b" ")
        if field == b"data":
            if name not in uncounted:
                counted += len(value)
            data = (data + "\n" if data is not None else "") + value.decode("utf-8", "replace")
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    return counted, failures


def case_of(pieces: list[str], uncounted: list[str]) -> Case:
    """A case: what each piece says."""
    text, before, said = b"", (0, 0), []
    for piece in pieces:
        text += piece.encode()
        counted, failures = state(text, uncounted)
        new = failures[before[1] :]
        said.append({"bytes": piece, "counts": counted > before[0], "meaning": new[-1] if new else None})
        before = counted, len(failures)
    return {"uncounted": uncounted, "pieces": said}


def cut(text: str, size: int) -> list[str]:
    """A text in pieces of so many characters."""
    return [text[at : at + size] for at in range(0, len(text), size)]


ANTHROPIC = (
    'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":25}}}\n\n'
    'event: ping\ndata: {"type": "ping"}\n\n'
    'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"Hello, an error"}}\n\n'
    'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
)
OPENAI = (
    'data: {"id":"chatcmpl-1","choices":[{"delta":{"content":"Hel"}}],"error":null}\r\n\r\n'
    ": keep-alive\r\n\r\n"
    'data: {"error":{"message":"The server had an error","type":"server_error"}}\r\n\r\ndata: [DONE]\r\n\r\n'
)
RESPONSES = (
    'event: response.created\ndata: {"type":"response.created",'
    '"response":{"error":null,"status":"in_progress"}}\n\n'
    'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"x"}\n\n'
    'event: response.failed\ndata: {"type":"response.failed",'
    '"response":{"error":{"code":"rate_limit_exceeded"}}}\n\n'
)


def cases() -> list[Case]:
    """Streams of services in several cuts, and what is odd."""
    whole = [(text, size) for text in (ANTHROPIC, OPENAI, RESPONSES) for size in (1_000, 60, 7)]
    found = [case_of(cut(text, size), UNCOUNTED) for text, size in whole]
    odd = [
        ["\ufeffdata: a\n\n"],
        ["data:", " ", " ", "\n\n"],
        ["data\n", "data:\n", "data: \n", "\n"],
        ["event: ping\r", "\ndata: a\r", "\n\r", "\ndata: a\r\n"],
        ["event: ping\r", "data: a\r", "\r", "data: a\r"],
        ["event: ping\nevent: pong\ndata: a\n\n", "event\ndata: a\n\n"],
        ["dat: a\n", "datas: a\n", " data: a\n", "Data: a\n", "\n"],
        ["event: error\n\n", "event: error\ndata\n\n", "event: error\ndata: gone\n\n"],
        ['data: {"error":', '\ndata: {"code":429}}', "\n\n"],
        [
            'data: {"choices":[{"error":{}}]}\n\n',
            'data: {"error":"gone"}\n\ndata: a\n\n',
            'data: {"error":[]}\n\n',
        ],
    ]
    found += [case_of(pieces, UNCOUNTED) for pieces in odd]
    return [*found, case_of(["event: ping\ndata: a\n\n", "event: mine\ndata: a\n\n"], ["mine"])]
