"""Cases for what a metered service's answer says (spec 15); what each failure should mean is written by hand.

The bodies are of the forms that the services document, or that their users published; texts are shortened.
"""

from __future__ import annotations

import json
from typing import Any

import answers
import streams

Case = dict[str, Any]
WALL = 1_795_426_200_000_000  # 2026-11-23T09:30:00Z

DURATIONS = """0 0s 1s 6m0s 250ms 1.5s 2m59.56s 7m12s 8.64s 1h2m3s 1us 1µs 1ns 1001ns .5s 1.s +3s -3s 0.0000001s 17ms 59.999999999s
 99999999999999999999h 1 s .s - 1d 1s2 --1s 1e3s 1_0s 0x1s 1S 1M 1H""".split()
DURATIONS += ["", "1 s", " 1s", "1" * 63 + "s", "1" * 64 + "s"]
MOMENTS = """2026-11-23T09:30:00Z 2026-11-23t09:30:00z 2026-11-23T09:30:01.5Z 2026-11-23T09:30:00.0000001Z 2026-11-23T11:30:30+02:00
 2026-11-23T04:00:30-05:30 2024-02-29T23:59:59Z 2023-02-29T00:00:00Z 2026-13-01T00:00:00Z 2026-00-10T00:00:00Z 2016-12-31T23:59:60Z
 2026-11-23T24:00:00Z 2026-11-23T09:60:00Z 2026-11-23T09:30:61Z 2026-11-23T09:30:00 2026-11-23T09:30Z 2026-11-23
 2026-11-23T09:30:00.Z 2026-11-23T09:30:00+0200 2026-11-23T09:30:00+24:00 1970-01-01T00:00:00Z 1969-12-31T23:59:59Z
 1970-01-01T00:00:00+00:01 9999-12-31T23:59:59Z""".split()
MOMENTS += ["2026-11-23 09:30:10Z", "2026-11-23T09:30:00Z ", "Mon, 23 Nov 2026 09:30:00 GMT"]

QUOTAS: list[list[tuple[str, str]]] = [
    [],
    [
        ("x-ratelimit-limit-requests", "60"),
        ("x-ratelimit-remaining-requests", "59"),
        ("x-ratelimit-reset-requests", "1s"),
    ],
    [
        ("X-RateLimit-Remaining-Tokens", "0"),
        ("X-RateLimit-Reset-Tokens", "6m0s"),
        ("x-ratelimit-reset-requests", "17ms"),
    ],
    [("x-ratelimit-remaining-tokens", "149984"), ("x-ratelimit-reset-tokens", "6ms")],
    [
        ("x-ratelimit-reset-tokens", "7.66s"),
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "2m59.56s"),
    ],
    [
        ("anthropic-ratelimit-requests-limit", "50"),
        ("anthropic-ratelimit-requests-remaining", "0"),
        ("anthropic-ratelimit-requests-reset", "2026-11-23T09:30:12Z"),
    ],
    [
        ("anthropic-ratelimit-input-tokens-remaining", "0"),
        ("anthropic-ratelimit-input-tokens-reset", "2026-11-23T09:31:00Z"),
        ("anthropic-ratelimit-output-tokens-remaining", "8000"),
        ("anthropic-ratelimit-output-tokens-reset", "2026-11-23T10:00:00Z"),
    ],
    [
        ("anthropic-ratelimit-tokens-remaining", "0"),
        ("anthropic-ratelimit-tokens-reset", "2026-11-23T09:00:00Z"),
    ],
    [("x-ratelimit-reset-requests", "1795426230")],
    [("x-ratelimit-reset-requests", "1704067199.5")],
    [("x-ratelimit-reset-requests", "0.25"), ("x-ratelimit-remaining-requests", " 0 ")],
    [("x-ratelimit-remaining-tokens", "-5"), ("x-ratelimit-reset-tokens", "3s")],
    [
        ("x-ratelimit-remaining-tokens", "10"),
        ("x-ratelimit-remaining-tokens", "3"),
        ("x-ratelimit-reset-tokens", "9s"),
    ],
    [
        ("x-ratelimit-reset-tokens", "1s"),
        ("x-ratelimit-reset-tokens", "soon"),
        ("x-ratelimit-reset-tokens", "3s"),
    ],
    [
        ("x-ratelimit-remaining-tokens", "12345678901234567"),
        ("x-ratelimit-limit-tokens", "1e3"),
        ("x-ratelimit-limit-requests", ""),
    ],
    [
        ("x-ratelimit-tokens-remaining", "1"),
        ("anthropic-ratelimit-reset-tokens", "1s"),
        ("x-ratelimit-remaining-images", "1"),
    ],
    [("x-ratelimit-remaining", "1"), ("ratelimit-reset", "9"), ("retry-after", "7")],
]


def error(**members: Any) -> str:
    """A body in the form that most services share."""
    return json.dumps({"error": members})


def openai(message: str, kind: str, code: str | None) -> str:
    """A body of OpenAI's."""
    return error(message=message, type=kind, param=None, code=code)


def anthropic(kind: str, message: str = "") -> str:
    """A body of Anthropic's."""
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})


def google(code: int, status: str, *details: Case, message: str = "Quota exceeded.") -> str:
    """A body of Google's."""
    return error(code=code, message=message, status=status, details=list(details))


def retry_info(delay: str) -> Case:
    """Google's wait."""
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def violations(*quotas: str) -> Case:
    """Google's quotas that were exceeded."""
    listed = [
        {"quotaMetric": "generativelanguage.googleapis.com/generate_requests", "quotaId": quota}
        for quota in quotas
    ]
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": listed}


BEDROCK = "x-amzn-ErrorType"
RATE = "Rate limit reached for gpt-4o in organization org-1 on {}: Limit {}, Used {}, Requested 900. Please try again in {}. Visit …"

# status, headers, body, what it means, the wait that the body names in µs
FAILURES: list[tuple[int, list[tuple[str, str]], str, str | None, int | None]] = [
    # by the status alone
    (200, [], "", None, None),
    (304, [], "{}", None, None),
    (400, [], "", "permanent", None),
    (401, [], "", "unauthorized", None),
    (402, [], "", "quota_spent", None),
    (403, [], "<html>", "unauthorized", None),
    (404, [], "{}", "permanent", None),
    (408, [], "", "transient", None),
    (413, [], "", "too_long", None),
    (422, [], "[]", "permanent", None),
    (429, [], "Too Many Requests", "throttled", None),
    (500, [], "null", "transient", None),
    (502, [], "<html><body>Bad Gateway</body></html>", "transient", None),
    (529, [], "", "overloaded", None),
    # OpenAI
    (
        429,
        [],
        openai(RATE.format("tokens per min (TPM)", 30000, 29567, "18.642s"), "tokens", "rate_limit_exceeded"),
        "throttled",
        18_642_000,
    ),
    (
        429,
        [],
        openai(RATE.format("requests per min (RPM)", 3, 3, "20s"), "requests", "rate_limit_exceeded"),
        "throttled",
        20_000_000,
    ),
    (
        429,
        [],
        openai(RATE.format("tokens per min (TPM)", 30000, 29999, "6ms"), "tokens", "rate_limit_exceeded"),
        "throttled",
        6_000,
    ),
    (
        429,
        [],
        openai(RATE.format("requests per day (RPD)", 200, 200, "7m12s"), "requests", "rate_limit_exceeded"),
        "throttled",
        432_000_000,
    ),
    (
        429,
        [],
        openai(RATE.format("requests per day (RPD)", 10000, 10000, "8.64s"), "requests", None),
        "throttled",
        8_640_000,
    ),
    (
        429,
        [],
        openai("Limit of requests per day reached.", "requests", "rate_limit_exceeded"),
        "quota_spent",
        None,
    ),
    (
        429,
        [],
        openai(
            "You exceeded your current quota, please check your plan.",
            "insufficient_quota",
            "insufficient_quota",
        ),
        "quota_spent",
        None,
    ),
    (
        429,
        [],
        openai("Billing hard limit has been reached", "invalid_request_error", "billing_hard_limit_reached"),
        "quota_spent",
        None,
    ),
    (
        429,
        [],
        openai(
            "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 50000.",
            "tokens",
            "rate_limit_exceeded",
        ),
        "too_long",
        None,
    ),
    (
        401,
        [],
        openai("Incorrect API key provided: sk-…", "invalid_request_error", "invalid_api_key"),
        "unauthorized",
        None,
    ),
    (
        400,
        [],
        openai(
            "This model's maximum context length is 8192 tokens.",
            "invalid_request_error",
            "context_length_exceeded",
        ),
        "too_long",
        None,
    ),
    (
        400,
        [],
        openai(
            "Your request was rejected by our safety system.",
            "invalid_request_error",
            "content_policy_violation",
        ),
        "content_refused",
        None,
    ),
    (400, [], openai("Invalid value", "invalid_request_error", None), "permanent", None),
    (
        404,
        [],
        openai("The model does not exist", "invalid_request_error", "model_not_found"),
        "permanent",
        None,
    ),
    (500, [], openai("The server had an error", "server_error", None), "transient", None),
    (
        503,
        [],
        openai("The engine is currently overloaded, please try again later", "server_error", "slow_down"),
        "overloaded",
        None,
    ),
    (
        200,
        [],
        json.dumps(
            {
                "type": "response.failed",
                "response": {"error": {"code": "rate_limit_exceeded", "message": "Please try again in 2s."}},
            }
        ),
        "throttled",
        2_000_000,
    ),
    (
        200,
        [],
        json.dumps({"type": "error", "code": "server_error", "message": "An error"}),
        "transient",
        None,
    ),
    (
        200,
        [],
        json.dumps({"type": "response.created", "response": {"error": None, "status": "in_progress"}}),
        None,
        None,
    ),
    # Azure
    (
        429,
        [],
        error(code="429", message="Requests have exceeded call rate limit. Please retry after 26 seconds."),
        "throttled",
        26_000_000,
    ),
    (429, [], error(code="429", message="Please retry after 1 second."), "throttled", 1_000_000),
    (
        400,
        [],
        error(code="content_filter", status=400, innererror={"code": "ResponsibleAIPolicyViolation"}),
        "content_refused",
        None,
    ),
    (
        400,
        [],
        error(code="BadRequest", innererror={"code": "ResponsibleAIPolicyViolation"}),
        "content_refused",
        None,
    ),
    # Anthropic
    (
        429,
        [],
        anthropic("rate_limit_error", "Number of request tokens has exceeded your per-minute rate limit"),
        "throttled",
        None,
    ),
    (
        429,
        [],
        anthropic("rate_limit_error", "Number of request tokens has exceeded your daily rate limit"),
        "quota_spent",
        None,
    ),
    (529, [], anthropic("overloaded_error", "Overloaded"), "overloaded", None),
    (200, [], anthropic("overloaded_error", "Overloaded"), "overloaded", None),
    (500, [], anthropic("api_error"), "transient", None),
    (504, [], anthropic("timeout_error"), "transient", None),
    (401, [], anthropic("authentication_error", "invalid x-api-key"), "unauthorized", None),
    (403, [], anthropic("permission_error"), "unauthorized", None),
    (402, [], anthropic("billing_error"), "quota_spent", None),
    (
        400,
        [],
        anthropic("invalid_request_error", "Your credit balance is too low to access the API."),
        "quota_spent",
        None,
    ),
    (
        400,
        [],
        anthropic("invalid_request_error", "prompt is too long: 208310 tokens > 200000 maximum"),
        "too_long",
        None,
    ),
    (413, [], anthropic("request_too_large"), "too_long", None),
    (400, [], anthropic("invalid_request_error", "max_tokens: field required"), "permanent", None),
    (404, [], anthropic("not_found_error"), "permanent", None),
    (500, [], anthropic("invalid_request_error"), "transient", None),
    # Google
    (429, [], google(429, "RESOURCE_EXHAUSTED", retry_info("34.4s")), "throttled", 34_400_000),
    (
        429,
        [],
        google(
            429,
            "RESOURCE_EXHAUSTED",
            violations("GenerateRequestsPerMinutePerProjectPerModel-FreeTier"),
            retry_info("12s"),
        ),
        "throttled",
        12_000_000,
    ),
    (
        429,
        [],
        google(
            429,
            "RESOURCE_EXHAUSTED",
            violations("GenerateRequestsPerMinute", "GenerateRequestsPerDayPerProjectPerModel-FreeTier"),
            retry_info("34s"),
        ),
        "quota_spent",
        34_000_000,
    ),
    (429, [], "[" + google(429, "RESOURCE_EXHAUSTED", retry_info("1s")) + "]", "throttled", 1_000_000),
    (
        429,
        [],
        google(429, "RESOURCE_EXHAUSTED", message="Quota exceeded. Please retry in 21.5s."),
        "throttled",
        21_500_000,
    ),
    (
        429,
        [],
        error(
            code=429,
            message="Resource exhausted.",
            errors=[{"reason": "rateLimitExceeded", "domain": "global"}],
        ),
        "throttled",
        None,
    ),
    (
        403,
        [],
        error(code=403, message="Daily Limit Exceeded", errors=[{"reason": "dailyLimitExceeded"}]),
        "quota_spent",
        None,
    ),
    (503, [], google(503, "UNAVAILABLE", message="The model is overloaded."), "transient", None),
    (500, [], google(500, "INTERNAL", message="An internal error has occurred."), "transient", None),
    (504, [], google(504, "DEADLINE_EXCEEDED", message=""), "transient", None),
    (
        400,
        [],
        google(400, "INVALID_ARGUMENT", message="API key not valid. Please pass a valid API key."),
        "unauthorized",
        None,
    ),
    (
        400,
        [],
        google(
            400,
            "INVALID_ARGUMENT",
            {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"},
            message="",
        ),
        "unauthorized",
        None,
    ),
    (
        400,
        [],
        google(
            400,
            "INVALID_ARGUMENT",
            message="The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        ),
        "too_long",
        None,
    ),
    (400, [], google(400, "INVALID_ARGUMENT", message="Unknown name"), "permanent", None),
    (403, [], google(403, "PERMISSION_DENIED", message=""), "unauthorized", None),
    # Bedrock
    (
        429,
        [(BEDROCK, "ThrottlingException:http://internal.amazon.com/coral/com.amazon.bedrock/")],
        '{"message":"Too many requests, please wait before trying again."}',
        "throttled",
        None,
    ),
    (
        429,
        [(BEDROCK, "ThrottlingException")],
        '{"message":"Too many tokens per day, please wait before trying again."}',
        "quota_spent",
        None,
    ),
    (400, [(BEDROCK, "ServiceQuotaExceededException")], "", "quota_spent", None),
    (429, [(BEDROCK, "ModelNotReadyException")], "", "transient", None),
    (408, [(BEDROCK, "ModelTimeoutException")], "", "transient", None),
    (
        400,
        [(BEDROCK, "ValidationException")],
        '{"message":"Input is too long for requested model."}',
        "too_long",
        None,
    ),
    (400, [(BEDROCK, "ValidationException")], '{"message":"Malformed input request"}', "permanent", None),
    (403, [(BEDROCK, "AccessDeniedException")], "", "unauthorized", None),
    (
        400,
        [],
        '{"__type":"com.amazon.coral.service#UnrecognizedClientException","Message":"The security token is invalid"}',
        "unauthorized",
        None,
    ),
    # others
    (
        429,
        [],
        '{"object":"error","message":"Rate limit exceeded","type":"rate_limited","param":null,"code":"1300"}',
        "throttled",
        None,
    ),
    (
        429,
        [],
        '{"object":"error","message":"Service tier capacity exceeded for this model.","type":"service_tier_capacity_exceeded","code":"3505"}',
        "overloaded",
        None,
    ),
    (
        402,
        [],
        error(message="Insufficient Balance", type="unknown_error", code="invalid_request_error"),
        "quota_spent",
        None,
    ),
    (
        429,
        [],
        error(
            message="Rate limit exceeded: free-models-per-day. Add 10 credits",
            code=429,
            metadata={"headers": {"X-RateLimit-Remaining": "0"}},
        ),
        "quota_spent",
        None,
    ),
    (200, [], error(message="Provider returned error", code=502), "transient", None),
    (200, [], error(message="Provider returned error", code=429), "throttled", None),
    (
        429,
        [],
        '{"message":"You are being rate limited.","retry_after":1.337,"global":false}',
        "throttled",
        1_337_000,
    ),
    (429, [], '{"retry_after":12}', "throttled", 12_000_000),
    # what the caller sent, and what is no JSON
    (429, [], '{"input":{"code":"insufficient_quota"},"message":"slow down"}', "throttled", None),
    (429, [], json.dumps({"message": '{"code":"insufficient_quota"}'}), "throttled", None),
    (400, [], '{"error":true,"code":null,"message":["prompt is too long"]}', "permanent", None),
    (429, [], '{"error":{"retryDelay":7,"retry_after":"8"}}', "throttled", None),
]


def cases() -> Case:
    """All of them; where the model and a hand disagree, nothing is written."""
    failures = []
    for status, headers, body, meaning, wait in FAILURES:
        found = answers.failure(status, headers, body)
        assert found == (None if meaning is None else (meaning, wait)), (status, headers, body, found)
        case: Case = {
            "status": status,
            "headers": [list(pair) for pair in headers],
            "body": body,
            "meaning": meaning,
        }
        failures.append({**case, "retry_after_us": wait})
    quotas = []
    for headers in QUOTAS:
        found_quotas = answers.quotas(headers, WALL)
        entry: Case = {"headers": [list(pair) for pair in headers], "quotas": found_quotas}
        quotas.append({**entry, "wait_us": answers.wait(found_quotas)})
    return {
        "spec": ["15.1", "15.2", "15.3", "15.4"],
        "wall_us": WALL,
        "go_durations": [{"value": text, "us": answers.go_duration(text)} for text in DURATIONS],
        "moments": [{"value": text, "unix_us": answers.moment(text)} for text in MOMENTS],
        "quotas": quotas,
        "failures": failures,
        "streams": streams.cases(),
    }
