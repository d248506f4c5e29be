//! Building texts of errors: numbers, quotes, and escapes of invisible characters.

pub(crate) use crate::full::{quoted, real, shown};

/// An integer in digits.
pub(crate) fn whole(number: u64) -> String {
    number.to_string()
}

/// Concatenates texts.
pub(crate) fn of(pieces: &[&str]) -> String {
    joined(pieces, "")
}

/// Joins texts with a separator.
pub(crate) fn joined(pieces: &[&str], between: &str) -> String {
    let mut text = String::new();
    for (at, piece) in pieces.iter().enumerate() {
        if at > 0 {
            text.push_str(between);
        }
        text.push_str(piece);
    }
    text
}

/// Parses a decimal such as `3` or `0.25`. Its two integers have at most 15 digits together, so the result is the
/// nearest number.
pub(crate) fn decimal(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if text.len() > 16 || !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return None;
    }
    let number: u64 = [whole, fraction].concat().parse().ok()?;
    Some(number as f64 / 10_u64.pow(fraction.len() as u32) as f64)
}

/// Whether a character controls the display of a text instead of showing itself: a control character, a line or
/// paragraph separator, a mark that changes the direction of writing, a byte order mark.
pub(crate) fn is_hidden(c: char) -> bool {
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns || c == '\u{feff}'
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimals_are_the_numbers_that_they_say() {
        for text in ["0", "3", "0.2", "0.9", "1.5", "0.001", "123456789012345", "0.000001", "99999999.999999"]
        {
            assert_eq!(decimal(text), text.parse().ok(), "{text}");
        }
        for text in ["", "x", "1.2.3", "-1", "1e3", "12345678901234567"] {
            assert_eq!(decimal(text), None, "{text}");
        }
    }

    #[test]
    fn what_would_not_show_is_written_out() {
        assert_eq!(quoted("a\"b\\c\n\r\t\u{1}é"), r#""a\"b\\c\n\r\t\u{1}é""#);
    }

    #[test]
    fn what_steers_a_terminal_or_a_log_is_written_out() {
        assert_eq!(shown("eu-1 ä/日本"), None);
        assert_eq!(shown("a\nERROR b\r\u{1b}[31m").as_deref(), Some("a\\u{a}ERROR b\\u{d}\\u{1b}[31m"));
        assert_eq!(
            shown("x\u{202e}txt\u{2066}\u{200f}\u{85}").as_deref(),
            Some("x\\u{202e}txt\\u{2066}\\u{200f}\\u{85}")
        );
        assert_eq!(quoted("\u{202e}"), "\"\\u{202e}\"");
    }

    proptest! {
        #[test]
        fn whole_numbers_are_as_the_standard_library_writes_them(number: u64) {
            prop_assert_eq!(whole(number), number.to_string());
        }

        #[test]
        fn decimals_of_up_to_15_digits_are_the_nearest_number(digits in 0_u64..1_000_000_000_000_000, at in 0_usize..10) {
            let mut text = format!("{digits:015}");
            text.insert(15 - at, '.');
            prop_assert_eq!(decimal(&text), text.parse().ok());
        }

        #[test]
        fn plain_texts_are_quoted_as_rust_quotes_them(text in "[ -~äß€]*") {
            prop_assert_eq!(quoted(&text), format!("{text:?}"));
        }
    }
}
