//! The three forms of an HTTP date (RFC 9110, 5.6.7).

/// Seconds since the Unix epoch of a date from 1970 to 9999; `None` for an invalid date, or a day that did not exist.
pub(super) fn parse(text: &[u8]) -> Option<u64> {
    let date = httpdate::parse_http_date(core::str::from_utf8(text).ok()?).ok()?;
    Some(date.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs())
}

#[cfg(test)]
mod tests {
    use super::parse;
    use proptest::prelude::*;
    use std::time::{Duration, UNIX_EPOCH};

    const WEEK: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

    /// A moment in the preferred form, and in the two obsolete forms.
    fn forms(seconds: u64) -> [String; 3] {
        let fixed = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
        let (week, day, month) = (&fixed[..3], &fixed[5..7], &fixed[8..11]);
        let (year, time) = (&fixed[12..16], &fixed[17..25]);
        let long = WEEK.into_iter().find(|name| name.starts_with(week)).unwrap();
        let padded = if let Some(short) = day.strip_prefix('0') { format!(" {short}") } else { day.into() };
        let short = format!("{week} {month} {padded} {time} {year}");
        let old = format!("{long}, {day}-{month}-{} {time} GMT", &year[2..]);
        [fixed, old, short]
    }

    #[test]
    fn the_three_forms_are_one_moment() {
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(parse(text.as_bytes()), Some(784_111_777), "{text}");
        }
    }

    #[test]
    fn every_day_of_two_centuries_and_of_the_last_years_is_a_date() {
        for day in (0..200 * 366).chain(2_932_000..2_932_897) {
            let seconds = day * 86_400 + day % 86_400;
            let [fixed, old, short] = forms(seconds);
            assert_eq!(parse(fixed.as_bytes()), Some(seconds), "{fixed}");
            assert_eq!(parse(short.as_bytes()), Some(seconds), "{short}");
            // Two-digit years mean 1970 to 2069.
            if seconds < 3_155_760_000 {
                assert_eq!(parse(old.as_bytes()), Some(seconds), "{old}");
            }
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "0",
            "Sun, 31 Feb 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 06 Nov 1994 08:49:37 +0100",
            "Sun, 06 Nov 1994 08:49:37",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Fri, 31 Dec 99999 23:59:59 GMT",
            "\u{e9}",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(b"\xff"), None);
    }

    proptest! {
        #[test]
        fn numbers_that_no_calendar_has_are_no_date(
            week in 0_usize..7, day in 0_u32..40, month in 0_usize..12, year in 0_u32..10_000,
            (hour, minute, second) in (0_u32..30, 0_u32..70, 0_u32..70),
        ) {
            let (week, month) = (&WEEK[week][..3], MONTHS[month]);
            let text = format!("{week}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT");
            if let Some(seconds) = parse(text.as_bytes()) {
                prop_assert_eq!(&forms(seconds)[0], &text);
            }
        }

        #[test]
        fn a_date_with_a_letter_changed_is_one_or_none(
            seconds in 0_u64..253_402_300_800, form in 0_usize..3, at in 0_usize..33, byte: u8, cut in 0_usize..40,
        ) {
            let mut text = forms(seconds)[form].clone().into_bytes();
            if at < text.len() {
                text[at] = byte;
            }
            for text in [&text[..], &text[..cut.min(text.len())]] {
                prop_assert!(parse(text).is_none_or(|seconds| seconds < 253_402_300_800));
            }
        }
    }
}
