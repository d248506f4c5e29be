//! The three forms of an HTTP date (RFC 9110, 5.6.7).

/// Seconds since the Unix epoch, of a date from 1970 to 9999; none for what is no date, or a day that there was not.
pub(super) fn parse(text: &[u8]) -> Option<u64> {
    let date = httpdate::parse_http_date(core::str::from_utf8(text).ok()?).ok()?;
    Some(date.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs())
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn the_three_forms_are_one_moment() {
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(parse(text.as_bytes()), Some(784_111_777), "{text}");
        }
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in ["", "0", "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 CET", "\u{e9}"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(b"\xff"), None);
    }
}
