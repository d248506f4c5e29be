//! The words by which metered services say why they failed. Data, with the place where each group is documented.

use super::body::Meaning;
use super::body::Meaning::{
    ContentRefused, Overloaded, Permanent, QuotaSpent, Throttled, TooLong, Transient, Unauthorized,
};

/// Words of `type`, `code`, `status` and `reason`, and of the header `x-amzn-errortype`. Compared without regard to case.
pub(super) const WORDS: &[(&str, Meaning)] = &[
    // OpenAI and services that follow it: platform.openai.com/docs/guides/error-codes.
    ("insufficient_quota", QuotaSpent),
    ("billing_hard_limit_reached", QuotaSpent),
    ("billing_not_active", QuotaSpent),
    ("invalid_api_key", Unauthorized),
    ("account_deactivated", Unauthorized),
    ("context_length_exceeded", TooLong),
    ("string_above_max_length", TooLong),
    ("content_filter", ContentRefused),
    ("content_policy_violation", ContentRefused),
    ("responsibleaipolicyviolation", ContentRefused),
    ("rate_limit_exceeded", Throttled),
    ("tokens", Throttled),
    ("requests", Throttled),
    ("slow_down", Overloaded),
    ("engine_overloaded", Overloaded),
    ("server_error", Transient),
    // Anthropic: docs.anthropic.com/en/api/errors.
    ("billing_error", QuotaSpent),
    ("authentication_error", Unauthorized),
    ("permission_error", Unauthorized),
    ("request_too_large", TooLong),
    ("rate_limit_error", Throttled),
    ("overloaded_error", Overloaded),
    ("api_error", Transient),
    ("timeout_error", Transient),
    ("invalid_request_error", Permanent),
    ("not_found_error", Permanent),
    // Google: google.rpc.Code, google.rpc.ErrorInfo's reasons, and the reasons of the older form.
    ("dailylimitexceeded", QuotaSpent),
    ("unauthenticated", Unauthorized),
    ("permission_denied", Unauthorized),
    ("api_key_invalid", Unauthorized),
    ("resource_exhausted", Throttled),
    ("rate_limit_exceeded", Throttled),
    ("ratelimitexceeded", Throttled),
    ("userratelimitexceeded", Throttled),
    ("unavailable", Transient),
    ("internal", Transient),
    ("deadline_exceeded", Transient),
    ("invalid_argument", Permanent),
    ("not_found", Permanent),
    ("failed_precondition", Permanent),
    // Amazon Bedrock: the errors of its operation Converse.
    ("servicequotaexceededexception", QuotaSpent),
    ("accessdeniedexception", Unauthorized),
    ("unrecognizedclientexception", Unauthorized),
    ("expiredtokenexception", Unauthorized),
    ("invalidsignatureexception", Unauthorized),
    ("throttlingexception", Throttled),
    ("toomanyrequestsexception", Throttled),
    ("modelnotreadyexception", Transient),
    ("modeltimeoutexception", Transient),
    ("serviceunavailableexception", Transient),
    ("internalserverexception", Transient),
    ("validationexception", Permanent),
    ("resourcenotfoundexception", Permanent),
    // Mistral.
    ("service_tier_capacity_exceeded", Overloaded),
    ("rate_limited", Throttled),
];

/// What a part of `message` says where no word does: these services have no code of their own for it.
pub(super) const PHRASES: &[(&str, Meaning)] = &[
    ("credit balance is too low", QuotaSpent), // Anthropic, with `invalid_request_error`
    ("too many tokens per day", QuotaSpent),   // Bedrock, with `ThrottlingException`
    ("insufficient balance", QuotaSpent),      // DeepSeek
    ("free-models-per-day", QuotaSpent),       // OpenRouter
    ("your daily rate limit", QuotaSpent),     // Anthropic
    ("prompt is too long", TooLong),           // Anthropic, with `invalid_request_error`
    ("input is too long", TooLong),            // Bedrock, with `ValidationException`
    ("exceeds the maximum number of tokens", TooLong), // Gemini, with `INVALID_ARGUMENT`
    ("maximum context length", TooLong),       // services that follow OpenAI without its code
    ("request too large for", TooLong),        // OpenAI, a 429 for what no window ever holds
    ("api key not valid", Unauthorized),       // Gemini, with `INVALID_ARGUMENT`
];

/// Words in a Google quota's name or in OpenAI's message that make a quota one of a day.
pub(super) const PER_DAY: &[&str] = &["perday", "per_day", "per day"];

/// Words before a wait in a message: OpenAI's "Please try again in 7m12s", Azure's "Please retry after 26 seconds".
pub(super) const WAITS: &[&str] = &["try again in ", "retry after ", "retry in "];
