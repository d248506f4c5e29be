"""What an answer has used, and what a request is going to use (spec 15.6, 15.7), read from the whole text."""

from __future__ import annotations

import json
import re
import struct
import zlib
from fractions import Fraction
from math import ceil
from typing import Any

Case = dict[str, Any]
LARGEST = (1 << 53) - 1
NUMBERS = {
    "prompt": "prompt_tokens promptTokenCount",
    "input": "input_tokens inputTokens",
    "cache_read": "cache_read_input_tokens cacheReadInputTokens",
    "cache_write": "cache_creation_input_tokens cacheWriteInputTokens",
    "tools": "toolUsePromptTokenCount",
    "cached": "prompt_cache_hit_tokens cachedContentTokenCount",
    "output": "completion_tokens output_tokens candidatesTokenCount outputTokens",
    "thoughts": "thoughtsTokenCount",
}
FACTORS = [(1000, 1000, 1000), (2500, 1250, 10_000), (0, 0, 5000), (1, 0, 0)]


def texts(body: bytes) -> list[str]:
    """15.6.1 to 15.6.3: the JSON texts of an answer."""
    body = body.lstrip(b" \t\r\n\xef\xbb\xbf")
    if body[:1] in (b"{", b"["):
        return [body.decode("utf-8", "replace")]
    if body[:1] == b"\0":
        found = []
        while len(body) >= 12:
            length, headers = struct.unpack(">II", body[:8])
            if length < 16 + headers:
                break
            found.append(body[12 + headers : min(length - 4, len(body))].decode("utf-8", "replace"))
            body = body[length:]
        return found
    events: list[list[str]] = [[]]
    for line in re.split(r"\r\n|\n|\r", body.decode("utf-8", "replace")):
        if not line:
            events.append([])
        elif line == "data" or line.startswith("data:"):
            events[-1].append(line[5:].removeprefix(" "))
    return ["\n".join(lines) for lines in events if lines]


def objects(text: str) -> list[dict[str, Any]]:
    """15.6.4: the top objects of a text; one that is cut off is closed behind its last whole member."""
    cut = re.sub(r',?\s*"[^"]*"\s*:\s*[-+.eE0-9]*$', "", text)
    for tail in ("", *[" " + closed for closed in ("}", "}}", "}}}", "}}}}", "]", "}]", "}}]")]):
        try:
            document = json.loads((cut if tail else text) + tail)
        except ValueError:
            continue
        return [
            one for one in (document if isinstance(document, list) else [document]) if isinstance(one, dict)
        ]
    return []


def usage(body: bytes) -> dict[str, int | None]:
    """15.6: input, cached and output."""
    most: dict[str, int] = {}

    def note(kind: str, value: Any) -> None:
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**16:
            most[kind] = max(most.get(kind, 0), min(value, LARGEST))

    for text in texts(body):
        for top in objects(text):
            for carrier in (top, top.get("message"), top.get("response")):
                for name in ("usage", "usageMetadata"):
                    used = carrier.get(name) if isinstance(carrier, dict) else None
                    if not isinstance(used, dict):
                        continue
                    for kind, names in NUMBERS.items():
                        for one in names.split():
                            note(kind, used.get(one))
                    for details in ("prompt_tokens_details", "input_tokens_details"):
                        if isinstance(used.get(details), dict):
                            note("cached", used[details].get("cached_tokens"))

    def total(*kinds: str) -> int | None:
        there = [most[kind] for kind in kinds if kind in most]
        return min(sum(there), LARGEST) if there else None

    cached = [most[kind] for kind in ("cached", "cache_read") if kind in most]
    return {
        "input": total("prompt", "tools")
        if "prompt" in most
        else total("input", "cache_read", "cache_write"),
        "cached": max(cached, default=None),
        "output": total("output", "thoughts"),
    }


def weight(used: dict[str, int | None], factors: tuple[int, int, int]) -> int | None:
    """15.6.9: what a usage counts against a limit."""
    if used["input"] is None and used["output"] is None:
        return None
    whole = used["input"] or 0
    cached = min(used["cached"] or 0, whole)
    parts = zip((whole - cached, cached, used["output"] or 0), factors, strict=True)
    return min(ceil(Fraction(sum(tokens * factor for tokens, factor in parts), 1000)), LARGEST)


TEXTS = ("content", "text", "input", "instructions", "system", "prompt")
ENTERED = """messages content input system contents parts systemInstruction system_instruction prompt
 generationConfig generation_config inferenceConfig""".split()
LONGEST = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "maxTokens")


def estimate(path: str, body: str) -> Case:
    """15.7: what a request is going to use."""
    length, longest, stream = 0, [], False

    def look(key: str, value: Any, depth: int) -> None:
        nonlocal length, stream
        if isinstance(value, dict) and depth < 8:
            for name, member in value.items():
                if name in ENTERED or not isinstance(member, (dict, list)):
                    look(name, member, depth + 1)
        elif isinstance(value, list) and depth < 8:
            for element in value:
                look(key, element, depth + 1)
        elif isinstance(value, str) and key in TEXTS:
            length += len(json.dumps(value, ensure_ascii=False).encode()) - 2
        elif isinstance(value, bool):
            stream |= key == "stream" and value
        elif isinstance(value, int) and key in LONGEST and value >= 0:
            longest.append(min(value, LARGEST))

    try:
        look("", json.loads(body), 0)
    except ValueError:
        pass
    ends = (":streamGenerateContent", "/converse-stream", "/invoke-with-response-stream")
    return {
        "input": max(ceil(length / 4), 1),
        "output": max(longest, default=None),
        "stream": stream or path.split("?")[0].endswith(ends),
    }


def frame(kind: str, payload: str) -> bytes:
    """A frame of Amazon's event stream."""
    headers = b"".join(
        struct.pack(">B", len(name))
        + name.encode()
        + b"\x07"
        + struct.pack(">H", len(value))
        + value.encode()
        for name, value in (
            (":event-type", kind),
            (":content-type", "application/json"),
            (":message-type", "event"),
        )
    )
    prelude = struct.pack(">II", 16 + len(headers) + len(payload.encode()), len(headers))
    prelude += struct.pack(">I", zlib.crc32(prelude))
    whole = prelude + headers + payload.encode()
    return whole + struct.pack(">I", zlib.crc32(whole))


CHAT = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": 'He said "usage": {"prompt_tokens": 9}'}}
    ],
    "usage": {
        "prompt_tokens": 1117,
        "completion_tokens": 46,
        "total_tokens": 1163,
        "prompt_tokens_details": {"cached_tokens": 1024, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 32, "accepted_prediction_tokens": 0},
    },
}
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}],
    "usage": {
        "input_tokens": 36,
        "input_tokens_details": {"cached_tokens": 12},
        "output_tokens": 87,
        "output_tokens_details": {"reasoning_tokens": 64},
        "total_tokens": 123,
    },
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "content": [{"type": "tool_use", "name": "n", "input": {"usage": {"input_tokens": 7}, "x": "}"}}],
    "usage": {
        "input_tokens": 25,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 2000,
        "cache_creation": {"ephemeral_5m_input_tokens": 100},
        "output_tokens": 503,
    },
}
GEMINI = {
    "candidates": [
        {"content": {"parts": [{"functionCall": {"args": {"usageMetadata": {"promptTokenCount": 1}}}}]}}
    ],
    "usageMetadata": {
        "promptTokenCount": 1000,
        "cachedContentTokenCount": 400,
        "candidatesTokenCount": 80,
        "thoughtsTokenCount": 120,
        "toolUsePromptTokenCount": 30,
        "totalTokenCount": 1230,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1000}],
    },
}
BEDROCK = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Hi"}]}},
    "usage": {"inputTokens": 30, "outputTokens": 628, "totalTokens": 758, "cacheReadInputTokens": 100},
}


def sse(*events: tuple[str, Any], end: str = "\n") -> bytes:
    """A stream of events."""
    lines = ""
    for name, data in events:
        text = data if isinstance(data, str) else json.dumps(data)
        lines += (f"event: {name}{end}" if name else "") + f"data: {text}{end}{end}"
    return lines.encode()


def bodies() -> list[bytes]:
    """Answers of services, plain and streamed, and what is odd."""
    chunk = {"choices": [{"delta": {"content": "x"}}], "usage": None}
    start = {
        "type": "message_start",
        "message": {"id": "m", "usage": {"input_tokens": 25, "output_tokens": 1}},
    }
    delta = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 15}}
    found = [json.dumps(one).encode() for one in (CHAT, RESPONSE, MESSAGE, GEMINI, BEDROCK, [GEMINI, GEMINI])]
    found += [
        json.dumps(CHAT, indent=1).encode(),
        sse(("", chunk), ("", {"choices": [], "usage": CHAT["usage"]}), ("", "[DONE]")),
        sse(("", chunk), ("", "[DONE]"), end="\r\n"),
        sse(
            ("response.created", {"type": "response.created", "response": {"usage": None}}),
            ("response.completed", {"type": "response.completed", "response": RESPONSE}),
        ),
        sse(("message_start", start), ("ping", {"type": "ping"}), ("message_delta", delta)),
        sse(("message_start", start)),
        sse(
            ("", {"usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 1}}),
            ("", GEMINI),
            end="\r",
        ),
        frame("messageStart", '{"role":"assistant"}')
        + frame("contentBlockDelta", '{"delta":{"text":"\\"usage\\""}}')
        + frame("metadata", json.dumps({"usage": BEDROCK["usage"], "metrics": {"latencyMs": 5}})),
        frame("metadata", '{"usage":{"inputTokens":1}}')[:-9],
        # services that follow OpenAI
        b'{"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_cache_hit_tokens":8,"prompt_cache_miss_tokens":2}}',
        b'{"usage":{"prompt_tokens":100,"completion_tokens":5,"cache_read_input_tokens":80,"cache_creation_input_tokens":9}}',
        # odd
        b"",
        b"<html>",
        b'\xef\xbb\xbf \n{"usage":{"input_tokens":3,"output_tokens":4}}',
        b'{"usage":{"input_tokens":-3,"output_tokens":4.5}}',
        b'{"usage":{"input_tokens":"3","output_tokens":true,"cached_tokens":1}}',
        b'{"usage":{"input_tokens":12345678901234567,"output_tokens":9999999999999999}}',
        b'{"usage":{"input_tokens":9007199254740991,"cache_read_input_tokens":9007199254740991}}',
        b'{"usage":{"input_tokens":3,"nested":{"output_tokens":4},"list":[{"output_tokens":4}]}}',
        b'{"a":{"usage":{"input_tokens":3}},"choices":[{"usage":{"input_tokens":3}}]}',
        b'{"usage":[{"input_tokens":3}],"message":[{"usage":{"input_tokens":3}}]}',
        b'{"x":"\\\\","y":"\\"","usage":{"input_tokens":3}}',
        b'{"usage":{"input_tokens":3,"output_tokens":4',
        b'{"usage":{"input_tokens":3 ,"output_tokens": 4 }',
        b'data: {"usage":\ndata: {"input_tokens":3}}\n\n',
        b'data:{"usage":{"input_tokens":3}}\n\nevent: x\n'
        b'data: {"usage":{"input_tokens":2,"output_tokens":0}}\n\n',
        b': hello\n\ndata: {"usage":{"input_tokens"\n\ndata: {"usage":{"output_tokens":5}}\n\n',
        b'\0\0\0\x10\0\0\0\x01abcd{"usage":{"input_tokens":3}}',
    ]
    return found


REQUESTS: list[tuple[str, Any]] = [
    (
        "/v1/chat/completions",
        {"model": "m", "messages": [{"role": "user", "content": "twelve bytes"}], "stream": True},
    ),
    (
        "/v1/chat/completions",
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What is this?"},
                        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400}},
                    ],
                },
            ],
            "max_tokens": 100,
            "max_completion_tokens": 200,
            "stream": False,
        },
    ),
    (
        "/v1/responses",
        {"model": "m", "input": "Say hi.", "instructions": "In Thai: สวัสดี", "max_output_tokens": 9},
    ),
    ("/v1/responses", {"input": [{"role": "user", "content": [{"type": "input_text", "text": 'a "b"\n'}]}]}),
    (
        "/v1/messages",
        {
            "max_tokens": 1024,
            "stream": True,
            "system": [{"type": "text", "text": "You are a pilot."}],
            "messages": [{"role": "user", "content": "When?"}],
            "tools": [{"name": "n", "input_schema": {"max_tokens": 5, "stream": True}}],
        },
    ),
    (
        "/v1beta/models/gemini:streamGenerateContent?alt=sse",
        {"contents": [{"parts": [{"text": "Hello"}]}], "generationConfig": {"maxOutputTokens": 64}},
    ),
    ("/v1beta/models/gemini:generateContent?x=:streamGenerateContent", {"contents": []}),
    (
        "/model/claude/converse-stream",
        {"messages": [{"content": [{"text": "Hello you"}]}], "inferenceConfig": {"maxTokens": 7}},
    ),
    ("/model/claude/invoke-with-response-stream", {"prompt": "Hi", "max_tokens": -1}),
    ("/", {"max_tokens": 10**17, "stream": "true"}),
    ("/", []),
    ("/", "text"),
]


def cases() -> Case:
    """Usages and estimates."""
    usages = []
    for body in bodies():
        used = usage(body)
        weights = [weight(used, factors) for factors in FACTORS]
        text = body.decode("utf-8", "strict") if b"\0" not in body else None
        shown = {"hex": body.hex()} if text is None else {"text": text}
        usages.append({**shown, **used, "weights": weights})
    estimates = []
    for path, request in REQUESTS:
        sent = json.dumps(request, ensure_ascii=False)
        found = estimate(path, sent)
        output = found["output"] if found["output"] is not None else 256
        used = {"input": found["input"], "cached": None, "output": output}
        estimates.append(
            {"path": path, "body": sent, **found, "weights": [weight(used, one) for one in FACTORS]}
        )
    return {
        "spec": ["15.6", "15.7"],
        "factors": [list(factors) for factors in FACTORS],
        "default_output": 256,
        "usages": usages,
        "estimates": estimates,
    }
