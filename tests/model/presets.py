"""The built-in policies (spec 0.7)."""

from __future__ import annotations

from keys import SECOND, Pair

# 0.7
PRESETS: dict[str, list[Pair]] = {
    "http": [
        ("deadline", 30 * SECOND),
        ("retry.max_attempts", 3),
        ("retry.backoff.base", SECOND // 10),
        ("retry.backoff.multiplier", 2),
        ("retry.backoff.max", 5 * SECOND),
        ("retry.backoff.jitter", "full_floor"),
        ("retry.retry_after", "floor"),
        ("retry.max_retry_after", 60 * SECOND),
    ],
    "httpware": [
        ("retry.max_attempts", 3),
        ("retry.backoff.base", SECOND // 10),
        ("retry.backoff.multiplier", 2),
        ("retry.backoff.max", 5 * SECOND),
        ("retry.backoff.jitter", "full"),
        ("retry.retry_after", "exact"),
        ("retry.budget.kind", "window"),
    ],
    "aws_standard": [
        ("retry.max_attempts", 3),
        ("retry.backoff.base", SECOND),
        ("retry.backoff.max", 20 * SECOND),
        ("retry.backoff.jitter", "full"),
        ("retry.budget.kind", "quota"),
        ("retry.budget.cost", 5),
        ("retry.budget.timeout_cost", 10),
    ],
    "aws_2026": [
        ("retry.max_attempts", 3),
        ("retry.backoff.base", 50_000),
        ("retry.backoff.throttled_base", SECOND),
        ("retry.backoff.max", 20 * SECOND),
        ("retry.backoff.jitter", "full"),
        ("retry.retry_after", "clamp_5s"),
        ("retry.budget.kind", "quota"),
        ("retry.budget.cost", 14),
        ("retry.budget.timeout_cost", 14),
        ("retry.budget.throttled_cost", 5),
    ],
    "transient": [
        ("attempt_timeout", 30 * SECOND),
        ("retry.max_attempts", 3),
        ("retry.retry_on", "infrastructure"),
        ("retry.retry_on", "timeout"),
        ("retry.backoff.base", SECOND // 10),
        ("retry.backoff.max", 5 * SECOND),
        ("retry.backoff.jitter", "decorrelated"),
    ],
    "occ": [
        ("retry.max_attempts", 3),
        ("retry.retry_on", "concurrency"),
        ("retry.backoff.base", 50_000),
        ("retry.backoff.max", 2 * SECOND),
        ("retry.backoff.jitter", "decorrelated"),
        ("retry.budget.kind", "window"),
    ],
    "llm": [
        ("deadline", 600 * SECOND),
        ("retry.max_attempts", 4),
        *[("retry.methods", method) for method in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE", "POST")],
        *[("retry.statuses", status) for status in (408, 409, 429, 500, 502, 503, 504, 529)],
        *[("retry.throttled_statuses", status) for status in (429, 529)],
        ("retry.read_errors", 1),
        ("retry.max_retry_after", 120 * SECOND),
        ("retry.backoff.base", SECOND // 2),
        ("retry.backoff.max", 8 * SECOND),
        ("retry.backoff.jitter", "full"),
        ("retry.budget.start", 10),
    ],
    "graph": [
        ("retry.max_attempts", 11),
        ("retry.retry_time_limit", 1800 * SECOND),
        ("retry.hold", 1),
        ("retry.statuses", 429),
        ("retry.statuses", 503),
        ("retry.statuses", 504),
        ("retry.backoff.kind", "polynomial"),
        ("retry.backoff.base", 3 * SECOND),
        ("retry.backoff.exponent", 2),
        ("retry.backoff.max", 180 * SECOND),
        ("retry.backoff.jitter", "none"),
        ("retry.budget.kind", "window"),
    ],
    "grpc": [
        ("retry.max_attempts", 5),
        ("retry.backoff.jitter", "bounded"),
        ("retry.backoff.jitter_ratio", 0.2),
        ("retry.budget.kind", "tokens"),
        ("retry.budget.max", 10),
        ("retry.budget.ratio", 0.1),
    ],
}
# "`aws_standard` with the cubic send rate"
PRESETS["aws_adaptive"] = [*PRESETS["aws_standard"], ("retry.send_rate", "cubic")]
