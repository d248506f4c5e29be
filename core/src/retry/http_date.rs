//! The three forms of an HTTP date (RFC 9110, 5.6.7).

/// Their parts: `a` and `A` are the day of the week, short and long, `d` the day in two digits, `e` the same with a blank
/// in the place of a zero, `b` the month, `Y` and `y` the year in four digits and in two, `h`, `m` and `s` the time.
const FORMS: [&[u8]; 3] = [b"a, d b Y h:m:s GMT", b"A, d-b-y h:m:s GMT", b"a b e h:m:s Y"];

const WEEK: [&[u8]; 7] =
    [b"Sunday", b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday"];
const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
const LENGTHS: [u8; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// Seconds since the Unix epoch, of a date from 1970 to 9999; none for what is no date, or a day that there was not.
pub(super) fn parse(text: &[u8]) -> Option<u64> {
    FORMS.iter().find_map(|form| read(form, text))
}

fn read(form: &[u8], text: &[u8]) -> Option<u64> {
    let (mut rest, mut week) = (text, 0);
    // Day, month from 0, year, hour, minute, second.
    let mut parts = [0_u32; 6];
    for part in form {
        let place = match part {
            b'a' | b'A' => {
                let length = |day: &[u8]| if *part == b'a' { 3 } else { day.len() };
                week = WEEK.iter().position(|day| rest.starts_with(&day[..length(day)]))?;
                rest = &rest[length(WEEK[week])..];
                continue;
            }
            b'b' => {
                let name = rest.get(..3)?;
                parts[1] = MONTHS.chunks(3).position(|month| month == name)? as u32;
                rest = &rest[3..];
                continue;
            }
            b'd' | b'e' => 0,
            b'Y' | b'y' => 2,
            b'h' => 3,
            b'm' => 4,
            b's' => 5,
            literal => {
                rest = rest.strip_prefix(core::slice::from_ref(literal))?;
                continue;
            }
        };
        let (digits, behind) = rest.split_at_checked(if *part == b'Y' { 4 } else { 2 })?;
        for (at, digit) in digits.iter().enumerate() {
            let padded = *part == b'e' && at == 0 && *digit == b' ';
            let digit = if padded { 0 } else { digit.wrapping_sub(b'0') };
            if digit > 9 {
                return None;
            }
            parts[place] = parts[place] * 10 + u32::from(digit);
        }
        if *part == b'y' {
            parts[2] += if parts[2] < 70 { 2000 } else { 1900 };
        }
        rest = behind;
    }
    let [day, month, year, hour, minute, second] = parts;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let short = month == 1 && !leap;
    let there = day > 0 && day <= u32::from(LENGTHS[month as usize]) - u32::from(short);
    if !rest.is_empty() || !there || year < 1970 || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // Years begin in March, so that the day that some years have more is the last.
    let (years, months) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let leaps = years / 4 - years / 100 + years / 400;
    let days = 365 * years + leaps + (153 * months + 2) / 5 + day - 719_469;
    let seconds = u64::from(days) * 86_400 + u64::from(hour * 3_600 + minute * 60 + second);
    ((days + 4) % 7 == week as u32).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::parse;
    use proptest::prelude::*;
    use std::time::{Duration, UNIX_EPOCH};

    /// The crate that we had, and that is the reference now.
    fn reference(text: &[u8]) -> Option<u64> {
        let date = httpdate::parse_http_date(core::str::from_utf8(text).ok()?).ok()?;
        Some(date.duration_since(UNIX_EPOCH).ok()?.as_secs())
    }

    fn forms(seconds: u64) -> [String; 3] {
        let fixed = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds));
        let (week, day, month) = (&fixed[..3], &fixed[5..7], &fixed[8..11]);
        let (year, time) = (&fixed[12..16], &fixed[17..25]);
        let long = super::WEEK.iter().map(|name| core::str::from_utf8(name).unwrap());
        let long = long.into_iter().find(|name| name.starts_with(week)).unwrap();
        let padded = if let Some(short) = day.strip_prefix('0') { format!(" {short}") } else { day.into() };
        let short = format!("{week} {month} {padded} {time} {year}");
        let old = format!("{long}, {day}-{month}-{} {time} GMT", &year[2..]);
        [fixed, old, short]
    }

    #[test]
    fn every_day_of_two_centuries_and_of_the_last_years_is_a_date() {
        for day in (0..200 * 366).chain(2_932_000..2_932_897) {
            let seconds = day * 86_400 + day % 86_400;
            for text in forms(seconds) {
                assert_eq!(parse(text.as_bytes()), reference(text.as_bytes()), "{text}");
            }
            assert_eq!(parse(forms(seconds)[0].as_bytes()), Some(seconds));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn a_date_with_a_letter_changed_is_what_it_was_before(
            seconds in 0_u64..253_402_300_800,
            form in 0_usize..3,
            at in 0_usize..33,
            byte in 32_u8..127,
            cut in 0_usize..40,
        ) {
            let mut text = forms(seconds)[form].clone().into_bytes();
            // The reference does not look at the blank before the time of the old form.
            prop_assume!(form != 1 || at + 13 != text.len());
            if at < text.len() {
                text[at] = byte;
            }
            prop_assert_eq!(parse(&text), reference(&text), "{:?}", String::from_utf8_lossy(&text));
            text.truncate(cut);
            prop_assert_eq!(parse(&text), reference(&text), "{:?}", String::from_utf8_lossy(&text));
        }

        #[test]
        fn numbers_that_no_calendar_has_are_no_date(
            week in 0_usize..7, day in 0_u32..40, month in 0_usize..12, year in 0_u32..10_000,
            (hour, minute, second) in (0_u32..30, 0_u32..70, 0_u32..70),
        ) {
            let week = &core::str::from_utf8(super::WEEK[week]).unwrap()[..3];
            let month = core::str::from_utf8(&super::MONTHS[3 * month..3 * month + 3]).unwrap();
            let text = format!("{week}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT");
            prop_assert_eq!(parse(text.as_bytes()), reference(text.as_bytes()), "{}", text);
        }
    }
}
