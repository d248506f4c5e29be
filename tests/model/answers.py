"""What a metered service's answer says beyond its status (spec 15): quotas, and why it failed."""

from __future__ import annotations

import datetime
import json
import re
from decimal import ROUND_CEILING, Decimal
from typing import Any

SATURATED = (1 << 53) - 1
MEASURES = "requests tokens input-tokens output-tokens".split()
MEANINGS = (
    "quota_spent unauthorized too_long content_refused throttled overloaded transient permanent".split()
)
NANOS = {
    "ns": 1,
    "us": 10**3,
    "\u00b5s": 10**3,
    "\u03bcs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
NUMBER = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
PART = rf"({NUMBER})(ns|us|\u00b5s|\u03bcs|ms|s|m|h)"
FIRST_EPOCH = 1_704_067_200


def rounded_up(nanos: Decimal) -> int:
    """15.1: "parts of a microsecond round up"; saturates."""
    return min(int((nanos / 1000).to_integral_value(ROUND_CEILING)), SATURATED)


def go_duration(text: str) -> int | None:
    """15.1: a span as Go prints it, in µs."""
    if len(text.encode()) > 64:
        return None
    sign, rest = re.fullmatch(r"([-+]?)(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
    if rest == "0":
        return 0
    if not re.fullmatch(rf"(?:{PART})+", rest):
        return None
    nanos = sum((Decimal(number) * NANOS[unit] for number, unit in re.findall(PART, rest)), Decimal(0))
    return 0 if sign == "-" else rounded_up(nanos)


def moment(text: str) -> int | None:
    """15.1: a moment of RFC 3339, in µs since 1970."""
    form = r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d):(\d\d)(?:\.(\d{1,64}))?(?:[Zz]|([-+])(\d\d):(\d\d))"
    found = re.fullmatch(form, text, re.ASCII)
    if not found:
        return None
    date, clock, seconds, part, sign, hours, minutes = found.groups()
    if int(seconds) > 60 or (sign and (int(hours) > 23 or int(minutes) > 59)):
        return None
    try:
        at = datetime.datetime.fromisoformat(f"{date}T{clock}:00+00:00")
    except ValueError:
        return None
    if at.year < 1970:
        return None
    micros = (round(at.timestamp()) + int(seconds)) * 1_000_000 + rounded_up(
        Decimal(f"0.{part or 0}") * 10**9
    )
    if sign:
        shift = (int(hours) * 60 + int(minutes)) * 60_000_000
        micros += -shift if sign == "+" else shift
    return micros if micros >= 0 else None


def seconds_of(text: str) -> int | None:
    """A decimal number of seconds, in µs."""
    if len(text) > 64 or not re.fullmatch(NUMBER, text, re.ASCII):
        return None
    return rounded_up(Decimal(text) * 10**9)


def reset(value: str, wall: int) -> int | None:
    """15.2: a Go duration, a moment, or seconds (an epoch from 1704067200 on)."""
    span = go_duration(value)
    if span is not None:
        return span
    at = moment(value)
    if at is not None:
        return max(0, at - wall)
    span = seconds_of(value)
    return max(0, span - wall) if span is not None and span >= FIRST_EPOCH * 1_000_000 else span


def whole(value: str) -> int | None:
    """15.2: at most 16 digits; a negative number is 0."""
    found = re.fullmatch(r"(-?)([0-9]{1,16})", value, re.ASCII)
    return None if not found else 0 if found[1] else int(found[2])


def quotas(headers: list[tuple[str, str]], wall: int) -> dict[str, dict[str, int]]:
    """15.2: measure → limit, remaining, reset in µs; what is absent is left out."""
    found: dict[str, dict[str, int]] = {}
    for name, value in headers:
        for measure in MEASURES:
            for field in ("limit", "remaining", "reset"):
                if name.lower() not in (
                    f"x-ratelimit-{field}-{measure}",
                    f"anthropic-ratelimit-{measure}-{field}",
                ):
                    continue
                number = reset(value.strip(), wall) if field == "reset" else whole(value.strip())
                quota = found.setdefault(measure, {})
                if number is not None:
                    choose = max if field == "reset" else min
                    quota[field] = choose(number, quota.get(field, number))
    return {measure: quota for measure, quota in found.items() if quota}


def wait(found: dict[str, dict[str, int]]) -> int | None:
    """15.2: the longest reset of a quota of which nothing is left."""
    return max(
        (quota["reset"] for quota in found.values() if "reset" in quota and not quota.get("remaining")),
        default=None,
    )


# ---- why it failed ----

WORDS = {
    "quota_spent": "insufficient_quota billing_hard_limit_reached billing_not_active"
    " billing_error dailylimitexceeded servicequotaexceededexception",
    "unauthorized": "invalid_api_key account_deactivated authentication_error"
    " permission_error unauthenticated permission_denied api_key_invalid accessdeniedexception"
    " unrecognizedclientexception expiredtokenexception invalidsignatureexception",
    "too_long": "context_length_exceeded string_above_max_length request_too_large",
    "content_refused": "content_filter content_policy_violation responsibleaipolicyviolation",
    "throttled": "rate_limit_exceeded tokens requests rate_limit_error resource_exhausted ratelimitexceeded"
    " userratelimitexceeded throttlingexception toomanyrequestsexception rate_limited",
    "overloaded": "slow_down engine_overloaded overloaded_error service_tier_capacity_exceeded",
    "transient": "server_error api_error timeout_error unavailable internal"
    " deadline_exceeded modelnotreadyexception modeltimeoutexception"
    " serviceunavailableexception internalserverexception",
    "permanent": "invalid_request_error not_found_error invalid_argument not_found failed_precondition"
    " validationexception resourcenotfoundexception",
}
PHRASES = {
    "quota_spent": [
        "credit balance is too low",
        "too many tokens per day",
        "insufficient balance",
        "free-models-per-day",
        "your daily rate limit",
    ],
    "too_long": [
        "prompt is too long",
        "input is too long",
        "exceeds the maximum number of tokens",
        "maximum context length",
        "request too large for",
    ],
    "unauthorized": ["api key not valid"],
}
ENTERED = "error response errors details violations innererror metadata".split()
PER_DAY = re.compile("perday|per_day|per day", re.IGNORECASE)
TOLD = re.compile(
    rf"(?:try again in|retry after|retry in) (?:((?:{NUMBER}(?:ns|us|ms|s|m|h))+)|({NUMBER}) second)",
    re.IGNORECASE,
)


def of_status(status: int) -> str | None:
    """15.3: what a status says by itself."""
    if status < 400:
        return None
    named = {
        401: "unauthorized",
        403: "unauthorized",
        402: "quota_spent",
        413: "too_long",
        429: "throttled",
        529: "overloaded",
    }
    return named.get(status) or ("transient" if status == 408 or status >= 500 else "permanent")


def members(key: str, value: Any, depth: int = 0) -> list[tuple[str, Any]]:
    """15.3: the members that are looked at, in the order of the text."""
    if isinstance(value, list):
        return [pair for element in value for pair in members(key, element, depth + 1)] if depth < 8 else []
    if isinstance(value, dict):
        if depth >= 8:
            return []
        inside = []
        for name, member in value.items():
            if name in ENTERED or not isinstance(member, (dict, list)):
                inside += members(name, member, depth + 1)
        return inside
    return [(key, value)]


def failure(status: int, headers: list[tuple[str, str]], body: str) -> tuple[str, int | None] | None:
    """15.3: why an answer failed, and the wait that its body names in µs."""
    said: set[str] = set()
    number = None
    daily = per_day = False
    info: list[int] = []
    spans: list[int] = []
    words = [value for name, value in headers if name.lower() == "x-amzn-errortype"]
    try:
        document = json.loads(body)
    except ValueError:
        document = None
    for key, value in members("", document):
        if key in ("type", "code", "status", "reason", "__type") and isinstance(value, str):
            words.append(value)
        elif key in ("code", "status") and isinstance(value, int) and not isinstance(value, bool):
            number = number or of_status(value)
        elif key in ("message", "Message") and isinstance(value, str):
            said |= {
                meaning for meaning, texts in PHRASES.items() if any(text in value.lower() for text in texts)
            }
            per_day |= bool(PER_DAY.search(value))
            for span, seconds in TOLD.findall(value):
                spans.append((go_duration(span) if span else seconds_of(seconds)) or 0)
        elif key in ("quotaId", "quotaMetric") and isinstance(value, str):
            daily |= bool(PER_DAY.search(value))
        elif key == "retryDelay" and isinstance(value, str):
            info += [span for span in [go_duration(value)] if span is not None]
        elif key == "retry_after" and isinstance(value, (int, float)) and not isinstance(value, bool):
            info += [span for span in [seconds_of(str(value))] if span is not None]
    for word in words:
        plain = word.strip().split(":")[0].split("#")[-1].lower()
        said |= {meaning for meaning, known in WORDS.items() if plain in known.split()}
    meaning = min(said, key=MEANINGS.index) if said else None
    if daily or (per_day and not spans):
        meaning = "quota_spent"
    if meaning in (None, "permanent"):
        meaning = of_status(status) or number or meaning
    waits = info or spans
    return None if meaning is None else (meaning, max(waits) if waits else None)
