//! Spans in people's spelling: a number and a unit.

/// The units, with their microseconds.
const UNITS: [(&str, u64); 5] =
    [("us", 1), ("ms", 1_000), ("s", 1_000_000), ("m", 60_000_000), ("h", 3_600_000_000)];

/// Why a text is not a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoSpan {
    /// A number without a unit.
    Bare,
    /// Not a number and a unit.
    Form,
    /// A fraction of a microsecond.
    TooFine,
}

#[cfg(feature = "documents")]
impl NoSpan {
    /// The rule that the text breaks.
    pub const fn rule(self) -> &'static str {
        match self {
            Self::Bare => r#"must be a span with a unit, such as "250ms" or "2s"; a bare number has none"#,
            Self::Form => r#"must be a span such as "250ms" or "2s": a number and one of us, ms, s, m, h"#,
            Self::TooFine => "must be a span of whole microseconds",
        }
    }
}

/// Microseconds of a span such as `250ms`, `1.5s` or `1h`. Exact: integers only. A value too large for an integer
/// becomes the longest span, which every range refuses.
pub(super) fn parse(text: &str) -> Result<u64, NoSpan> {
    let text = text.as_bytes();
    let end = text.iter().position(|c| !c.is_ascii_digit() && *c != b'.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, mut fraction) = match number.iter().position(|c| *c == b'.') {
        Some(dot) => (&number[..dot], &number[dot + 1..]),
        None => (number, &b"0"[..]),
    };
    let digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    if !digits(whole) || !digits(fraction) {
        return Err(NoSpan::Form);
    }
    let mut micros = match UNITS.iter().find(|(name, _)| name.as_bytes() == unit) {
        Some((_, micros)) => *micros,
        None if unit.is_empty() => return Err(NoSpan::Bare),
        None => return Err(NoSpan::Form),
    };
    while let [rest @ .., b'0'] = fraction {
        fraction = rest;
    }
    // An hour's microseconds are 2^10 · 3^2 · 5^8, so more than ten digits leave a fraction of a microsecond.
    if fraction.len() > 10 {
        return Err(NoSpan::TooFine);
    }
    let number = |part: &[u8]| {
        part.iter().fold(0_u64, |n, digit| n.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
    };
    let whole = number(whole).saturating_mul(micros);
    // Factors of ten in the unit cancel digits of the fraction, so that the product stays below 2^64.
    let mut scale = 10_u64.pow(fraction.len() as u32);
    while scale > 1 && micros.is_multiple_of(10) {
        (micros, scale) = (micros / 10, scale / 10);
    }
    let part = micros * number(fraction);
    if !part.is_multiple_of(scale) {
        return Err(NoSpan::TooFine);
    }
    Ok(whole.saturating_add(part / scale))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;
    use proptest::prelude::*;

    #[test]
    fn a_span_is_a_number_and_a_unit() {
        for (text, micros) in [
            ("10us", 10),
            ("250ms", 250_000),
            ("2s", 2_000_000),
            ("1m", 60_000_000),
            ("1h", 3_600_000_000),
            ("0s", 0),
            ("1.5s", 1_500_000),
            ("1.50000000000000000000000000000s", 1_500_000),
            ("0.000001s", 1),
            ("0.00000025h", 900),
            ("0.05m", 3_000_000),
            ("99999999999999999999h", u64::MAX),
        ] {
            assert_eq!(parse(text), Ok(micros), "{text}");
        }
    }

    #[test]
    fn what_is_no_span_is_told_why() {
        for text in ["5", "0", "1.5"] {
            assert_eq!(parse(text), Err(NoSpan::Bare), "{text}");
        }
        for text in [
            "", "s", "5 s", " 5s", "5S", "-1s", "+1s", ".5s", "5.s", "1.2.3s", "1e3s", "5d", "5sec", "٣s",
            "none",
        ] {
            assert_eq!(parse(text), Err(NoSpan::Form), "{text}");
        }
        for text in ["1.5us", "0.0001ms", "0.0000001s", "1.00000000000001h"] {
            assert_eq!(parse(text), Err(NoSpan::TooFine), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_a_duration_prints_is_read_back(micros in 0u64..u64::MAX) {
            prop_assert_eq!(parse(&Duration::from_micros(micros).to_string()), Ok(micros));
        }
    }
}
