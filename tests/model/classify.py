"""From an HTTP answer to an outcome (spec 1.4, 2.2, 2.8, 15.5, ADR 0006)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import answers
import keys
import retry_after as reader
from policy import Policy

CLASSES = "ok transient throttled timeout never_sent conflict permanent ignored cancelled".split()
RETRYABLE = "transient throttled timeout never_sent conflict".split()


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended: its class, what was said about a retry, the server's wait in µs; its own kind."""

    kind: str
    opinion: str = "none"
    retry_after: int | None = None
    name: str = ""

    def among(self, names: tuple[str, ...]) -> bool:
        """Is it named, by its class or by its kind?"""
        return self.kind in names or self.name in names


def class_of(status: int) -> str:
    """1.4: "2xx and 3xx ok · 429 throttled · 408 and 5xx transient · other 4xx permanent"."""
    if status < 400:
        return "ok"
    if status == 429:
        return "throttled"
    if status == 408 or status >= 500:
        return "transient"
    return "permanent"


def class_under(policy: Policy, status: int) -> str:
    """1.4.7, 1.4.8: what a status means under the policy's own lists."""
    if status >= 400 and status in policy.throttled_statuses:
        return "throttled"
    if status == 409 and status in policy.statuses:
        return "conflict"
    return "transient" if status == 429 else class_of(status)


def longest(waits: list[int | None]) -> int | None:
    """ADR 0006: "of one header on several lines the longest readable wait counts"."""
    readable = [wait for wait in waits if wait is not None]
    return max(readable) if readable else None


def rate_limit(value: bytes) -> int | None:
    """ADR 0006: of a list, quotas with something left do not count; of the rest the longest `t` does."""
    waits: list[int | None] = []
    for item in value.split(b","):
        fields = dict(re.findall(rb";\s*([a-z]+)=(-?[0-9]+)", item))
        if b"t" in fields and int(fields.get(b"r", b"0")) <= 0:
            waits.append(reader.scaled(fields[b"t"], 1_000_000))
    return longest(waits)


def epoch_or_delta(value: bytes, wall: int) -> int | None:
    """2.8: "`X-RateLimit-Reset` (an epoch from 1704067200 on, else a delta)"."""
    seconds = reader.integer(value) if len(value.strip(b" \t")) <= reader.LONGEST else None
    if seconds is not None and seconds >= reader.FIRST_EPOCH:
        return min(max(0, seconds * 1_000_000 - wall), reader.SATURATED)
    return reader.scaled(value, 1_000_000)


def told(
    policy: Policy, status: int, headers: list[tuple[bytes, bytes]], body: str
) -> tuple[str, str, int | None]:
    """15.5: class, kind and the body's wait, where the policy reads why an answer failed."""
    usual = class_under(policy, status)
    texts = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
    found = answers.failure(status, texts, body) if policy.read_errors else None
    if found is None:
        return usual, "", None
    meaning, wait = found
    if meaning in keys.READ_KINDS:
        return "permanent", meaning, wait
    if meaning == answers.of_status(status):
        return usual, "", wait
    return {"overloaded": "throttled"}.get(meaning, meaning), "", wait


def classify(
    policy: Policy, status: int, headers: list[tuple[bytes, bytes]], wall: int, body: str = ""
) -> Outcome:
    """What an answer with this status, these headers and this body means, at wall-clock time `wall` in µs."""
    kind, own, body_wait = class_of(status), "", None
    if status >= 400:
        kind, own, body_wait = told(policy, status, headers, body)

    def lines(name: str) -> list[bytes]:
        return [value for key, value in headers if key.lower() == name.encode()]

    if kind == "ok":
        return Outcome(kind)
    waits = [longest([reader.retry_after(value, wall) for value in lines("retry-after")])]
    for name in ("retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after"):
        waits.append(longest([reader.scaled(value, 1_000) for value in lines(name)]))

    said = {value.strip(b" \t") for value in lines("x-should-retry")}
    opinion = "retry" if b"true" in said else "none"
    if b"false" in said:  # of several opinions "do not" wins
        opinion = "do_not"
    pushback: list[int | None] = []
    for value in lines("grpc-retry-pushback-ms"):  # ADR 0006: "negative or unreadable means do not retry"
        wait = None if b"-" in value else reader.scaled(value, 1_000)
        opinion = "do_not" if wait is None else opinion
        pushback.append(wait)
    waits += [longest(pushback), body_wait]
    if kind == "throttled":  # ADR 0006: "the quota headers count only for answers of class `throttled`"
        waits.append(longest([rate_limit(value) for value in lines("ratelimit")]))
        waits.append(longest([epoch_or_delta(value, wall) for value in lines("ratelimit-reset")]))
        waits.append(longest([epoch_or_delta(value, wall) for value in lines("x-ratelimit-reset")]))
        if policy.read_errors:
            texts = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
            waits.append(answers.wait(answers.quotas(texts, wall)))

    # 1.4: "a 500 that is not listed is … not retried"; the server's own word stands above the list
    # … 15.5: but the list is of statuses, and says nothing of a class that the answer's words have given
    if opinion == "none" and kind in RETRYABLE and status not in policy.statuses:
        opinion = "do_not" if kind == class_under(policy, status) else "none"
    # 2.8: "Retry-After wins when several are present", then the most authoritative
    found = [wait for wait in waits if wait is not None]
    return Outcome(kind, opinion, found[0] if found else None, own)
