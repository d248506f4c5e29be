//! What a metered service says is left of its quotas: `x-ratelimit-*` and `anthropic-ratelimit-*` (semantics 15.2).

use super::moment::{decimal_seconds, parse_go_duration, parse_rfc3339};
use crate::time::{Duration, WallTime};

/// What a quota counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Measure {
    /// Requests.
    Requests = 0,
    /// Tokens of input and output together.
    Tokens = 1,
    /// Tokens of the input.
    InputTokens = 2,
    /// Tokens of the output.
    OutputTokens = 3,
}

impl Measure {
    /// All measures, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Requests, Self::Tokens, Self::InputTokens, Self::OutputTokens];

    /// Its name in headers: `requests`, `tokens`, `input-tokens`, `output-tokens`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::InputTokens => "input-tokens",
            Self::OutputTokens => "output-tokens",
        }
    }
}

/// One quota, as far as an answer tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quota {
    /// How much it grants in its window.
    pub limit: Option<u64>,
    /// What is left of it.
    pub remaining: Option<u64>,
    /// How long until it is full again.
    pub reset: Option<Duration>,
}

/// The quotas of one answer, one for each [`Measure`].
///
/// ```
/// use tidegate::answer::{Measure, Quotas};
/// use tidegate::{Duration, WallTime};
/// let headers: [(&[u8], &[u8]); 3] = [
///     (b"x-ratelimit-remaining-requests", b"59"),
///     (b"x-ratelimit-remaining-tokens", b"0"),
///     (b"x-ratelimit-reset-tokens", b"6m0s"),
/// ];
/// let quotas = Quotas::read(&headers, WallTime::from_unix_micros(0));
/// assert_eq!(quotas.get(Measure::Requests).remaining, Some(59));
/// assert_eq!(quotas.wait(), Some(Duration::from_secs(360)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quotas([Quota; Measure::ALL.len()]);

/// Families of headers: what stands before the measure, and whether the measure comes before the field
/// (`anthropic-ratelimit-tokens-reset`) or after it (`x-ratelimit-reset-tokens`).
const FAMILIES: [(&[u8], bool); 2] = [(b"x-ratelimit-", false), (b"anthropic-ratelimit-", true)];

/// What a header says about a quota.
#[derive(Clone, Copy)]
enum Field {
    Limit,
    Remaining,
    Reset,
}

const FIELDS: [(&[u8], Field); 3] =
    [(b"limit", Field::Limit), (b"remaining", Field::Remaining), (b"reset", Field::Reset)];

impl Quotas {
    /// Reads the headers of an answer, in any order and case; what cannot be read is absent.
    ///
    /// Of several lines of one header, the smaller number and the longer wait count.
    pub fn read(headers: &[(&[u8], &[u8])], wall: WallTime) -> Self {
        let mut quotas = Self::default();
        for (name, value) in headers {
            let Some((measure, field)) = meaning(name) else { continue };
            let quota = &mut quotas.0[measure as usize];
            let value = value.trim_ascii();
            match field {
                Field::Limit => quota.limit = least(quota.limit, whole(value)),
                Field::Remaining => quota.remaining = least(quota.remaining, whole(value)),
                Field::Reset => quota.reset = quota.reset.max(reset(value, wall)),
            }
        }
        quotas
    }

    /// The quota of a measure.
    pub const fn get(&self, measure: Measure) -> Quota {
        self.0[measure as usize]
    }

    /// What is left of each, in the order of [`Measure::ALL`]; `None` where the answer does not say.
    pub fn left(&self) -> [Option<u64>; Measure::ALL.len()] {
        self.0.map(|quota| quota.remaining)
    }

    /// The wait that a throttled answer names with these quotas: the longest `reset` of a quota of which nothing is left
    /// (`remaining` is 0, or absent).
    pub fn wait(&self) -> Option<Duration> {
        self.0
            .iter()
            .filter(|quota| quota.remaining.is_none_or(|left| left == 0))
            .filter_map(|quota| quota.reset)
            .max()
    }
}

/// What a header's name says, if it belongs to a quota.
fn meaning(name: &[u8]) -> Option<(Measure, Field)> {
    let (rest, measure_first) = FAMILIES.iter().find_map(|(family, order)| {
        let (start, rest) = name.split_at_checked(family.len())?;
        start.eq_ignore_ascii_case(family).then_some((rest, *order))
    })?;
    FIELDS.iter().find_map(|(word, field)| {
        let measure = if measure_first {
            let (measure, end) = rest.split_at_checked(rest.len().checked_sub(word.len() + 1)?)?;
            (end[0] == b'-' && end[1..].eq_ignore_ascii_case(word)).then_some(measure)?
        } else {
            let (start, measure) = rest.split_at_checked(word.len() + 1)?;
            (start[word.len()] == b'-' && start[..word.len()].eq_ignore_ascii_case(word))
                .then_some(measure)?
        };
        let known =
            Measure::ALL.into_iter().find(|known| measure.eq_ignore_ascii_case(known.name().as_bytes()))?;
        Some((known, *field))
    })
}

/// The smaller of two numbers that are there.
fn least(had: Option<u64>, found: Option<u64>) -> Option<u64> {
    match (had, found) {
        (Some(had), Some(found)) => Some(had.min(found)),
        (had, found) => had.or(found),
    }
}

/// A whole number of at most 16 digits; a negative one is 0.
fn whole(value: &[u8]) -> Option<u64> {
    let (negative, digits) = match value {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 16 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    Some(if negative { 0 } else { number })
}

/// A reset: a Go duration, a moment of RFC 3339, or a number of seconds (an epoch from 2024 on).
fn reset(value: &[u8], wall: WallTime) -> Option<Duration> {
    /// From here on (2024-01-01) a number is an epoch, not a span.
    const EPOCHS_FROM: Duration = Duration::from_secs(1_704_067_200);
    let now = Duration::from_micros(wall.as_unix_micros());
    if let Some(span) = parse_go_duration(value) {
        return Some(span);
    }
    if let Some(moment) = parse_rfc3339(value) {
        return Some(Duration::from_micros(moment.as_unix_micros()).minus(now));
    }
    let span = decimal_seconds(value)?;
    Some(if span < EPOCHS_FROM { span } else { span.minus(now) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: WallTime = WallTime::from_unix_micros(1_800_000_000_000_000);

    fn read(headers: &[(&str, &str)]) -> Quotas {
        let headers: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        Quotas::read(&headers, NOW)
    }

    #[test]
    fn of_several_lines_the_more_careful_one_counts() {
        let quotas = read(&[
            ("X-RateLimit-Remaining-Tokens", "10"),
            ("x-ratelimit-remaining-tokens", "3"),
            ("x-ratelimit-reset-tokens", "1s"),
            ("x-ratelimit-reset-tokens", "3s"),
        ]);
        let expected = Quota { limit: None, remaining: Some(3), reset: Some(Duration::from_secs(3)) };
        assert_eq!(quotas.get(Measure::Tokens), expected);
        assert_eq!(quotas.wait(), None, "something is left");
    }

    #[test]
    fn names_that_only_look_alike_say_nothing() {
        for name in [
            "x-ratelimit-remaining",
            "x-ratelimit-remaining-",
            "x-ratelimit-remaining-images",
            "x-ratelimitremaining-tokens",
            "x-ratelimit-tokens-remaining",
            "anthropic-ratelimit-remaining-tokens",
            "anthropic-ratelimit-",
            "remaining-tokens",
            "",
        ] {
            assert_eq!(read(&[(name, "1")]), Quotas::default(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes(name in prop::collection::vec(any::<u8>(), 0..40), value in prop::collection::vec(any::<u8>(), 0..40)) {
            for family in ["x-ratelimit-reset-", "anthropic-ratelimit-", "x-ratelimit-"] {
                let mut long = family.as_bytes().to_vec();
                long.extend_from_slice(&name);
                let _ = Quotas::read(&[(&name, &value), (&long, &value)], NOW).wait();
            }
            for measure in Measure::ALL {
                for name in [
                    format!("x-ratelimit-reset-{}", measure.name()),
                    format!("anthropic-ratelimit-{}-remaining", measure.name()),
                ] {
                    let quota = Quotas::read(&[(name.as_bytes(), &value)], NOW).get(measure);
                    prop_assert!(quota.reset.is_none_or(|span| span.as_micros() < 1 << 53));
                    prop_assert!(quota.remaining.is_none_or(|left| left < 10_u64.pow(16)));
                }
            }
        }
    }
}
