//! A server's wait: `Retry-After` and related headers (semantics 2.8).
//!
//! The input is untrusted bytes. For any input the result is a span, saturated at 2^53−1 µs, or "absent". An absent
//! value means the computed backoff, never an error and never an immediate retry.

use super::http_date;
use crate::outcome::Opinion;
use crate::time::{Duration, WallTime};

/// Largest value, at which all saturate: the longest span that is exact in JSON and in JavaScript.
const LONGEST: u64 = (1 << 53) - 1;
/// A longer value must consist of digits.
const MAX_BYTES: usize = 64;
/// From here on (2024-01-01) a number in a *reset* header is an epoch, not a delta.
const EPOCHS_FROM: u64 = 1_704_067_200;

/// Reads a `Retry-After` value: delay-seconds, or one of the three HTTP-date forms against `wall`.
///
/// Negative integers and past dates are 0. Decimals, units, signs, garbage and wrong dates are absent.
///
/// ```
/// use tidegate::{Duration, WallTime, parse_retry_after};
/// let wall = WallTime::from_unix_micros(784_111_770_000_000);
/// assert_eq!(parse_retry_after(b"120", wall), Some(Duration::from_secs(120)));
/// assert_eq!(parse_retry_after(b"Sun, 06 Nov 1994 08:49:37 GMT", wall), Some(Duration::from_secs(7)));
/// assert_eq!(parse_retry_after(b"1.5", wall), None);
/// ```
pub fn parse_retry_after(value: &[u8], wall: WallTime) -> Option<Duration> {
    let value = trimmed(value);
    if let Some(span) = integer(value, 1_000_000) {
        return Some(span);
    }
    if value.len() > MAX_BYTES {
        return None;
    }
    let date = http_date::parse(value)? * 1_000_000;
    Some(Duration::from_micros(date.saturating_sub(wall.as_unix_micros()).min(LONGEST)))
}

/// Contents of the headers of one answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hints {
    /// The requested wait.
    pub retry_after: Option<Duration>,
    /// `x-should-retry`, or a gRPC pushback that says no.
    pub opinion: Opinion,
}

/// Headers that contain a wait, the most authoritative first: `Retry-After` wins when several are present.
const WAITS: [&str; 8] = [
    "retry-after",
    "retry-after-ms",
    "x-ms-retry-after-ms",
    "x-amz-retry-after",
    "grpc-retry-pushback-ms",
    "ratelimit",
    "ratelimit-reset",
    "x-ratelimit-reset",
];
/// From this index on the headers say when a quota refills, which is a wait only for an answer that says "too many".
const QUOTAS_FROM: usize = 5;

impl Hints {
    /// Reads all headers of an answer. If a header has several lines, the longest wait counts, so that no retry is
    /// early.
    pub fn read(headers: &[(&[u8], &[u8])], throttled: bool, wall: WallTime) -> Self {
        let mut opinion = Opinion::None;
        let mut best: Option<(usize, Duration)> = None;
        for (name, value) in headers {
            if name.eq_ignore_ascii_case(b"x-should-retry") {
                // "Do not" wins, whatever the order of the headers.
                opinion = match trimmed(value) {
                    b"true" if opinion == Opinion::None => Opinion::Retry,
                    b"false" => Opinion::DoNot,
                    _ => opinion,
                };
                continue;
            }
            let Some(rank) = WAITS.iter().position(|known| name.eq_ignore_ascii_case(known.as_bytes()))
            else {
                continue;
            };
            let value = trimmed(value);
            let wait = match WAITS[rank] {
                "retry-after" => parse_retry_after(value, wall),
                "grpc-retry-pushback-ms" => {
                    // gRPC A6: a negative or unreadable pushback means "do not retry".
                    let wait = if value.starts_with(b"-") { None } else { integer(value, 1_000) };
                    if wait.is_none() {
                        opinion = Opinion::DoNot;
                    }
                    wait
                }
                _ if rank >= QUOTAS_FROM && !throttled => None,
                "ratelimit" => quota_refill(value),
                "ratelimit-reset" | "x-ratelimit-reset" => reset(value, wall),
                _ => integer(value, 1_000),
            };
            let better = |(had, span)| rank < had || rank == had && wait > Some(span);
            if let Some(wait) = wait
                && best.is_none_or(better)
            {
                best = Some((rank, wait));
            }
        }
        Self { retry_after: best.map(|(_, wait)| wait), opinion }
    }
}

/// Removes the blanks that HTTP allows around a value.
fn trimmed(value: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = value.iter().position(|byte| !blank(byte)).unwrap_or(value.len());
    let end = value.iter().rposition(|byte| !blank(byte)).map_or(start, |last| last + 1);
    &value[start..end]
}

/// ASCII digits times `unit` microseconds, saturating; 0 for a negative integer.
fn integer(value: &[u8], unit: u64) -> Option<Duration> {
    let (negative, digits) = match value {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) || negative && value.len() > MAX_BYTES {
        return None;
    }
    if negative {
        return Some(Duration::ZERO);
    }
    if value.len() > MAX_BYTES {
        return Some(Duration::from_micros(LONGEST));
    }
    let number =
        digits.iter().fold(0u64, |n, digit| n.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
    Some(Duration::from_micros(number.saturating_mul(unit).min(LONGEST)))
}

/// A reset header: seconds from now, or an epoch in seconds.
fn reset(value: &[u8], wall: WallTime) -> Option<Duration> {
    let span = integer(value, 1_000_000)?;
    if span < Duration::from_secs(EPOCHS_FROM) {
        return Some(span);
    }
    Some(span.minus(Duration::from_micros(wall.as_unix_micros())))
}

/// The structured field `RateLimit: "default";r=0;t=30`: the longest `t` among quotas that are used up (`r` is 0, or
/// missing).
fn quota_refill(value: &[u8]) -> Option<Duration> {
    if value.len() > 4 * MAX_BYTES {
        return None;
    }
    let quotas = value.split(|byte| *byte == b',');
    quotas
        .filter_map(|quota| {
            let mut used_up = true;
            let mut refill = None;
            for parameter in quota.split(|byte| *byte == b';').skip(1) {
                match trimmed(parameter) {
                    [b'r', b'=', left @ ..] => used_up = integer(left, 1) == Some(Duration::ZERO),
                    [b't', b'=', span @ ..] => refill = integer(span, 1_000_000),
                    _ => {}
                }
            }
            refill.filter(|_| used_up)
        })
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: WallTime = WallTime::from_unix_micros(1_800_000_000_000_000);

    fn read(headers: &[(&str, &str)], throttled: bool) -> Hints {
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        Hints::read(&headers, throttled, NOW)
    }

    fn wait(headers: &[(&str, &str)]) -> Option<u64> {
        read(headers, true).retry_after.map(Duration::as_micros)
    }

    #[test]
    fn follows_the_published_vectors() {
        let vectors = crate::published::vector("retry_after.json");
        let wall = WallTime::from_unix_micros(vectors["wall_clock_now_unix_s"].as_u64().unwrap() * 1_000_000);
        let saturated = vectors["saturated_at_us"].as_u64().unwrap();
        let cases = vectors["cases"].as_array().unwrap();
        assert!(cases.len() >= 29);
        for case in cases {
            let expected = match &case["delay_s"] {
                serde_json::Value::Null => None,
                serde_json::Value::String(text) if text == "saturated" => Some(saturated),
                seconds => Some(seconds.as_u64().unwrap() * 1_000_000),
            };
            let value = case["value"].as_str().unwrap();
            let found = parse_retry_after(value.as_bytes(), wall).map(Duration::as_micros);
            assert_eq!(found, expected, "{value:?}");
        }
    }

    #[test]
    fn long_values_are_digits_or_nothing() {
        assert_eq!(parse_retry_after(&[b'9'; 10_000], NOW), Some(Duration::from_micros(LONGEST)));
        let mut garbage = [b'9'; 65];
        garbage[64] = b'x';
        assert_eq!(parse_retry_after(&garbage, NOW), None);
        assert_eq!(parse_retry_after(&[b'-'; 70], NOW), None);
    }

    #[test]
    fn retry_after_wins_over_its_relatives_whatever_their_order() {
        assert_eq!(wait(&[("retry-after-ms", "1500")]), Some(1_500_000));
        assert_eq!(wait(&[("X-MS-Retry-After-MS", "20")]), Some(20_000));
        assert_eq!(wait(&[("x-amz-retry-after", "40")]), Some(40_000));
        assert_eq!(wait(&[("retry-after-ms", "1500"), ("Retry-After", "3")]), Some(3_000_000));
        assert_eq!(wait(&[("Retry-After", "3"), ("retry-after-ms", "1500")]), Some(3_000_000));
        assert_eq!(wait(&[("Retry-After", "soon"), ("retry-after-ms", "1500")]), Some(1_500_000));
        assert_eq!(
            wait(&[("Retry-After", "3"), ("Retry-After", "7"), ("Retry-After", "5")]),
            Some(7_000_000)
        );
    }

    #[test]
    fn quota_headers_count_only_for_an_answer_that_says_too_many() {
        let quota = [("RateLimit", "\"burst\";r=0;t=5, \"day\";r=10;t=3600")];
        assert_eq!(wait(&quota), Some(5_000_000));
        assert_eq!(read(&quota, false).retry_after, None);
        assert_eq!(wait(&[("RateLimit-Reset", "9")]), Some(9_000_000));
        assert_eq!(wait(&[("X-RateLimit-Reset", "1800000004")]), Some(4_000_000));
        assert_eq!(wait(&[("X-RateLimit-Reset", "1704067200")]), Some(0));
        assert_eq!(wait(&[("X-RateLimit-Reset", "1704067199")]), Some(1_704_067_199_000_000));
        assert_eq!(wait(&[("X-RateLimit-Reset", "1m30s")]), None);
    }

    #[test]
    fn opinions_of_the_server() {
        assert_eq!(read(&[("x-should-retry", "true")], false).opinion, Opinion::Retry);
        assert_eq!(read(&[("X-Should-Retry", " false ")], false).opinion, Opinion::DoNot);
        assert_eq!(read(&[("x-should-retry", "maybe")], false).opinion, Opinion::None);
        assert_eq!(read(&[("grpc-retry-pushback-ms", "-1")], false).opinion, Opinion::DoNot);
        assert_eq!(read(&[("grpc-retry-pushback-ms", "x")], false).opinion, Opinion::DoNot);
        assert_eq!(
            read(&[("grpc-retry-pushback-ms", "40")], false).retry_after,
            Some(Duration::from_millis(40))
        );
    }

    proptest! {
        /// No input causes a panic or a result beyond the saturation point.
        #[test]
        fn any_bytes(value in prop::collection::vec(any::<u8>(), 0..120), wall: u64, throttled: bool) {
            let wall = WallTime::from_unix_micros(wall);
            for name in WAITS {
                let hints = Hints::read(&[(name.as_bytes(), &value)], throttled, wall);
                prop_assert!(hints.retry_after.is_none_or(|span| span.as_micros() <= LONGEST));
            }
        }
    }
}
