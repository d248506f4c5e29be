//! Spans and moments as metered services write them: Go durations (`6m0s`) and RFC 3339 (`2026-11-23T09:30:00Z`).

use crate::time::{Duration, WallTime};

/// Largest value, at which all saturate: the longest span that is exact in JSON and in JavaScript.
const LONGEST: u64 = (1 << 53) - 1;
/// Longer values are absent.
const MAX_BYTES: usize = 64;

/// Reads a span as Go prints it: `6m0s`, `1.5s`, `250ms`, `1h2m3.5s`, `0`. A negative span is 0.
///
/// Parts of a microsecond round up, so that no wait is too short. A span above 2^53−1 µs saturates there. Anything
/// else, also a number without a unit, is `None`. Source: Go, `time.ParseDuration`.
///
/// ```
/// use tidegate::{Duration, answer::parse_go_duration};
/// assert_eq!(parse_go_duration(b"6m0s"), Some(Duration::from_secs(360)));
/// assert_eq!(parse_go_duration(b"1.5s"), Some(Duration::from_millis(1500)));
/// assert_eq!(parse_go_duration(b"90"), None);
/// ```
pub fn parse_go_duration(text: &[u8]) -> Option<Duration> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let negative = text.starts_with(b"-");
    let mut rest = if negative { &text[1..] } else { text.strip_prefix(b"+").unwrap_or(text) };
    if rest == b"0" {
        return Some(Duration::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    // In nanoseconds: at most 64 digits times an hour would not fit, so each sum saturates.
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let (number, after) = decimal(rest)?;
        let (unit, after) = unit(after)?;
        total = total.saturating_add(number.times(unit));
        rest = after;
    }
    let micros = u64::try_from(total.div_ceil(1_000)).unwrap_or(u64::MAX);
    Some(if negative { Duration::ZERO } else { Duration::from_micros(micros.min(LONGEST)) })
}

/// Seconds as a decimal number, `26` or `0.5`, rounded up to whole microseconds.
pub(super) fn decimal_seconds(text: &[u8]) -> Option<Duration> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let (number, []) = decimal(text)? else { return None };
    let micros = u64::try_from(number.times(1_000_000_000).div_ceil(1_000)).unwrap_or(u64::MAX);
    Some(Duration::from_micros(micros.min(LONGEST)))
}

/// The longest beginning of `text` that is a Go duration; for spans inside a sentence.
pub(super) fn leading_go_duration(text: &[u8]) -> Option<Duration> {
    let mut end = 0;
    while let Some((_, after)) = decimal(&text[end..])
        && let Some((_, after)) = unit(after)
    {
        end = text.len() - after.len();
        if end > MAX_BYTES {
            return None;
        }
    }
    if end == 0 { None } else { parse_go_duration(&text[..end]) }
}

/// The longest beginning of `text` that is a decimal number of seconds, and what follows it.
pub(super) fn leading_seconds(text: &[u8]) -> Option<(Duration, &[u8])> {
    let (_, after) = decimal(text)?;
    let number = &text[..text.len() - after.len()];
    Some((decimal_seconds(number.strip_suffix(b".").unwrap_or(number))?, after))
}

/// A decimal number: `digits / 10^places`.
struct Decimal {
    digits: u128,
    places: u32,
}

impl Decimal {
    /// The number times a unit in nanoseconds, rounded up.
    fn times(&self, unit: u64) -> u128 {
        self.digits.saturating_mul(u128::from(unit)).div_ceil(10_u128.pow(self.places))
    }
}

/// A decimal number at the beginning of `text`, and what follows it.
fn decimal(text: &[u8]) -> Option<(Decimal, &[u8])> {
    let digit = |byte: &u8| byte.is_ascii_digit();
    let whole = text.iter().position(|byte| !digit(byte)).unwrap_or(text.len());
    let (whole, rest) = text.split_at(whole);
    let (part, rest) = match rest {
        [b'.', rest @ ..] => {
            let end = rest.iter().position(|byte| !digit(byte)).unwrap_or(rest.len());
            rest.split_at(end)
        }
        rest => (&[][..], rest),
    };
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let mut digits: u128 = 0;
    for digit in whole {
        digits = digits.saturating_mul(10).saturating_add(u128::from(digit - b'0')).min(1 << 64);
    }
    // Nine places are nanoseconds. What lies behind counts as one more of the last place, because waits round up.
    let places = part.len().min(9);
    for digit in &part[..places] {
        digits = digits * 10 + u128::from(digit - b'0');
    }
    if part[places..].iter().any(|digit| *digit != b'0') {
        digits += 1;
    }
    Some((Decimal { digits, places: places as u32 }, rest))
}

/// A unit at the beginning of `text` in nanoseconds, and what follows it.
fn unit(text: &[u8]) -> Option<(u64, &[u8])> {
    Some(match text {
        [b'n', b's', rest @ ..] => (1, rest),
        // Both letters that look like a Greek mu: U+00B5 and U+03BC.
        [b'u', b's', rest @ ..] | [0xc2, 0xb5, b's', rest @ ..] | [0xce, 0xbc, b's', rest @ ..] => {
            (1_000, rest)
        }
        [b'm', b's', rest @ ..] => (1_000_000, rest),
        [b's', rest @ ..] => (1_000_000_000, rest),
        [b'm', rest @ ..] => (60_000_000_000, rest),
        [b'h', rest @ ..] => (3_600_000_000_000, rest),
        _ => return None,
    })
}

/// Reads a moment of RFC 3339: `2026-11-23T09:30:00Z`, with parts of a second and an offset where given.
///
/// A leap second (`:60`) is the second after it. Years are 1970 to 9999. Anything else is `None`.
///
/// ```
/// use tidegate::{WallTime, answer::parse_rfc3339};
/// let moment = WallTime::from_unix_micros(1_795_426_200_000_000);
/// assert_eq!(parse_rfc3339(b"2026-11-23T09:30:00Z"), Some(moment));
/// assert_eq!(parse_rfc3339(b"2026-11-23T11:30:00+02:00"), Some(moment));
/// ```
pub fn parse_rfc3339(text: &[u8]) -> Option<WallTime> {
    let (date, rest) = text.split_at_checked(19)?;
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T' | b't' | b' ', h1, h2, b':', n1, n2, b':', s1, s2] =
        date
    else {
        return None;
    };
    let year = two(*y1, *y2)? * 100 + two(*y3, *y4)?;
    let (month, day) = (two(*m1, *m2)?, two(*d1, *d2)?);
    let (hour, minute, second) = (two(*h1, *h2)?, two(*n1, *n2)?, two(*s1, *s2)?);
    if year < 1970 || !(1..=12).contains(&month) || day < 1 || day > days_of(year, month) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (part, rest) = match rest {
        [b'.', digits @ ..] => fraction(digits)?,
        rest => (0, rest),
    };
    let offset = match rest {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (two(*h1, *h2)?, two(*m1, *m2)?);
            if hours > 23 || minutes > 59 {
                return None;
            }
            let minutes = i64::from(hours * 60 + minutes);
            if *sign == b'+' { minutes } else { -minutes }
        }
        _ => return None,
    };
    let seconds = u64::from(days_since_1970(year, month, day)) * 86_400
        + u64::from(hour * 3_600 + minute * 60 + second);
    let micros = (seconds * 1_000_000 + u64::from(part)).checked_add_signed(-offset * 60_000_000)?;
    Some(WallTime::from_unix_micros(micros))
}

/// The part of a second after its dot in microseconds, rounded up, and what follows.
fn fraction(text: &[u8]) -> Option<(u32, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() || digits.len() > MAX_BYTES {
        return None;
    }
    let mut micros = 0;
    for place in 0..6 {
        micros = micros * 10 + digits.get(place).map_or(0, |digit| u32::from(digit - b'0'));
    }
    let more = digits.iter().skip(6).any(|digit| *digit != b'0');
    Some((micros + u32::from(more), rest))
}

/// Two digits as a number.
fn two(tens: u8, ones: u8) -> Option<u32> {
    (tens.is_ascii_digit() && ones.is_ascii_digit())
        .then(|| u32::from(tens - b'0') * 10 + u32::from(ones - b'0'))
}

/// Whether a year of the Gregorian calendar has 366 days.
const fn is_leap(year: u32) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

/// Days of a month.
const fn days_of(year: u32, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date from then on.
fn days_since_1970(year: u32, month: u32, day: u32) -> u32 {
    let before = year - 1;
    let leap_days = before / 4 - before / 100 + before / 400 - (1969 / 4 - 1969 / 100 + 1969 / 400);
    let months: u32 = (1..month).map(|earlier| days_of(year, earlier)).sum();
    (year - 1970) * 365 + leap_days + months + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn micros(text: &str) -> Option<u64> {
        parse_go_duration(text.as_bytes()).map(Duration::as_micros)
    }

    #[test]
    fn go_durations() {
        for (text, expected) in [
            ("0", 0),
            ("0s", 0),
            ("1s", 1_000_000),
            ("6m0s", 360_000_000),
            ("250ms", 250_000),
            ("1.5s", 1_500_000),
            ("2m59.56s", 179_560_000),
            ("1h2m3s", 3_723_000_000),
            ("1us", 1),
            ("1µs", 1),
            ("1ns", 1),
            ("1001ns", 2),
            (".5s", 500_000),
            ("1.s", 1_000_000),
            ("+3s", 3_000_000),
            ("-3s", 0),
            ("0.0000001s", 1),
            ("99999999999999999999h", LONGEST),
            ("1.00000000000000000000000000001s", 1_000_001),
        ] {
            assert_eq!(micros(text), Some(expected), "{text}");
        }
        for text in ["", "1", "s", ".s", "-", "1 s", "1s ", "1d", "1s2", "--1s", "1e3s", "∞s"] {
            assert_eq!(micros(text), None, "{text}");
        }
        assert_eq!(parse_go_duration(&[b'1'; 65]), None);
    }

    #[test]
    fn decimal_numbers_of_seconds() {
        let read = |text: &str| decimal_seconds(text.as_bytes()).map(Duration::as_micros);
        assert_eq!(read("26"), Some(26_000_000));
        assert_eq!(read("0.64"), Some(640_000));
        assert_eq!(read("1.0000001"), Some(1_000_001));
        assert_eq!((read("1s"), read(""), read("-1"), read("1e3")), (None, None, None, None));
    }

    #[test]
    fn spans_at_the_beginning_of_a_text() {
        let read = |text: &str| leading_go_duration(text.as_bytes()).map(Duration::as_micros);
        assert_eq!(read("7m12s. Visit"), Some(432_000_000));
        assert_eq!(read("8.64s. Visit"), Some(8_640_000));
        assert_eq!(read("6ms."), Some(6_000));
        assert_eq!((read("soon"), read("20 seconds")), (None, None));
        assert_eq!(leading_seconds(b"26 seconds.").map(|(span, _)| span.as_micros()), Some(26_000_000));
        assert_eq!(leading_seconds(b"26.").map(|(span, _)| span.as_micros()), Some(26_000_000));
    }

    #[test]
    fn moments() {
        let read = |text: &str| parse_rfc3339(text.as_bytes()).map(WallTime::as_unix_micros);
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2024-02-29T23:59:59.25Z", 1_709_251_199_250_000),
            ("2000-03-01t00:00:00z", 951_868_800_000_000),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000_000),
            ("2026-11-23 09:30:00.0000001+00:00", 1_795_426_200_000_001),
            ("9999-12-31T23:59:59Z", 253_402_300_799_000_000),
        ] {
            assert_eq!(read(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "2026-11-23",
            "2026-11-23T09:30:00",
            "2026-11-23T09:30Z",
            "2023-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-10T00:00:00Z",
            "2026-11-31T00:00:00Z",
            "2026-11-23T24:00:00Z",
            "2026-11-23T09:60:00Z",
            "2026-11-23T09:30:61Z",
            "2026-11-23T09:30:00.Z",
            "2026-11-23T09:30:00+0200",
            "2026-11-23T09:30:00+02:00 ",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+00:01",
            "２026-11-23T09:30:00Z",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes(text in prop::collection::vec(any::<u8>(), 0..80)) {
            prop_assert!(parse_go_duration(&text).is_none_or(|span| span.as_micros() <= LONGEST));
            prop_assert!(leading_go_duration(&text).is_none_or(|span| span.as_micros() <= LONGEST));
            let _ = (decimal_seconds(&text), leading_seconds(&text), parse_rfc3339(&text));
        }

        #[test]
        fn text_of_spans(text in "[0-9.]{0,8}(ns|us|µs|ms|s|m|h){0,2}[0-9.hms]{0,8}") {
            let whole = parse_go_duration(text.as_bytes());
            prop_assert!(whole.is_none() || text == "0" || leading_go_duration(text.as_bytes()) == whole);
        }
    }
}
