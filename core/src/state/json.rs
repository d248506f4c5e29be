//! The subset of JSON that a saved state needs, without a cargo feature or a dependency, because every binding saves
//! states.

use core::fmt::Write as _;

/// Deepest nesting of lists and maps; a saved state has seven levels.
const DEEPEST: u32 = 16;

/// A JSON value. Numbers are `f64`: a state contains no others.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Null,
    Number(f64),
    Text(String),
    List(Vec<Value>),
    /// In any order, because stores may sort names.
    Map(Vec<(String, Value)>),
}

impl Value {
    /// The value of a name in a map.
    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Map(entries) => entries.iter().find(|(key, _)| key == name).map(|(_, value)| value),
            _ => None,
        }
    }
}

/// Writes a text with its quotes.
pub(super) fn quote(to: &mut String, text: &str) {
    to.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                to.push('\\');
                to.push(c);
            }
            c if c < ' ' => {
                let _ = write!(to, "\\u{:04x}", u32::from(c));
            }
            c => to.push(c),
        }
    }
    to.push('"');
}

/// Parses a text; `None` if it is not JSON, or holds `true` or `false`, which no state does.
pub(crate) fn parse(text: &str) -> Option<Value> {
    let mut rest = Rest { text };
    let value = rest.value(0)?;
    rest.blanks();
    rest.text.is_empty().then_some(value)
}

struct Rest<'a> {
    text: &'a str,
}

impl Rest<'_> {
    fn blanks(&mut self) {
        self.text = self.text.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    /// Skips a token, if it is next.
    fn skip(&mut self, token: &str) -> bool {
        self.blanks();
        let rest = self.text.strip_prefix(token);
        self.text = rest.unwrap_or(self.text);
        rest.is_some()
    }

    fn value(&mut self, depth: u32) -> Option<Value> {
        self.blanks();
        if depth > DEEPEST {
            return None;
        }
        match self.text.as_bytes().first()? {
            b'"' => self.quoted().map(Value::Text),
            b'[' => self.list(depth),
            b'{' => self.map(depth),
            b'n' => self.skip("null").then_some(Value::Null),
            b'-' | b'0'..=b'9' => self.number(),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Value> {
        let more = |c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E');
        let end = self.text.find(more).unwrap_or(self.text.len());
        let (token, rest) = self.text.split_at(end);
        self.text = rest;
        token.parse().ok().map(Value::Number)
    }

    fn list(&mut self, depth: u32) -> Option<Value> {
        let mut items = Vec::new();
        if self.skip("[") && self.skip("]") {
            return Some(Value::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.skip("]") {
                return Some(Value::List(items));
            }
            if !self.skip(",") {
                return None;
            }
        }
    }

    fn map(&mut self, depth: u32) -> Option<Value> {
        let mut entries = Vec::new();
        if self.skip("{") && self.skip("}") {
            return Some(Value::Map(entries));
        }
        loop {
            self.blanks();
            let name = self.quoted()?;
            if !self.skip(":") {
                return None;
            }
            entries.push((name, self.value(depth + 1)?));
            if self.skip("}") {
                return Some(Value::Map(entries));
            }
            if !self.skip(",") {
                return None;
            }
        }
    }

    fn quoted(&mut self) -> Option<String> {
        let mut chars = self.text.strip_prefix('"')?.chars();
        let mut text = String::new();
        loop {
            match chars.next()? {
                '"' => break,
                '\\' => text.push(escaped(&mut chars)?),
                c if c < ' ' => return None,
                c => text.push(c),
            }
        }
        self.text = chars.as_str();
        Some(text)
    }
}

/// The character of an escape sequence, after the backslash.
fn escaped(chars: &mut core::str::Chars<'_>) -> Option<char> {
    Some(match chars.next()? {
        c @ ('"' | '\\' | '/') => c,
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => {
            let first = unit(chars)?;
            if !(0xd800..0xdc00).contains(&first) {
                return char::from_u32(first);
            }
            // The first half of a surrogate pair: the second has to follow.
            let (Some('\\'), Some('u')) = (chars.next(), chars.next()) else { return None };
            let second = unit(chars)?.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
            return char::from_u32(0x1_0000 + ((first - 0xd800) << 10 | second));
        }
        _ => return None,
    })
}

/// The four digits of a UTF-16 unit.
fn unit(chars: &mut core::str::Chars<'_>) -> Option<u32> {
    (0..4).try_fold(0, |sum, _| Some(sum << 4 | chars.next()?.to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_json_is() {
        let text =
            r#" { "a" : [ 1 , -2.5e3 , null , "x\"\\\/\n\u00e9\ud83d\ude00é" ] , "b" : { } , "c":[]} "#;
        let value = parse(text).unwrap();
        let Some(Value::List(items)) = value.get("a") else { panic!("{value:?}") };
        assert_eq!(items[..3], [Value::Number(1.0), Value::Number(-2500.0), Value::Null]);
        assert_eq!(items[3], Value::Text("x\"\\/\né😀é".into()));
        assert_eq!(value.get("b"), Some(&Value::Map(vec![])));
        assert_eq!(value.get("c"), Some(&Value::List(vec![])));
        assert_eq!((value.get("d"), Value::Null.get("a")), (None, None));
    }

    #[test]
    fn refuses_what_it_is_not() {
        for text in [
            "",
            " ",
            "[",
            "[1",
            "[1,",
            "[1,]",
            "[1 2]",
            "{",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "nul",
            "true",
            "\"",
            "\"\\",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"\u{1}\"",
            "1 2",
            "-",
            "1e",
            "inf",
            "NaN",
            "+1",
            "[]]",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert!(parse(&"[".repeat(100_000)).is_none(), "depth is bounded");
        let nested = |deep| format!("{}{}", "[".repeat(deep), "]".repeat(deep));
        assert!(parse(&nested(17)).is_some() && parse(&nested(18)).is_none());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[\\[\\]{}\",:0-9a-z\\\\ .\\-é]{0,60}") {
            let other: Result<serde_json::Value, _> = serde_json::from_str(&text);
            if let Some(value) = parse(&text) {
                prop_assert!(other.is_ok() || text.contains(['.', '0', '-', 'e']), "{text} {value:?}");
            } else {
                prop_assert!(other.is_err() || text.contains("true") || text.contains("false"), "{text}");
            }
        }
    }
}
