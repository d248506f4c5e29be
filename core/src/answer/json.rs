//! Members of a JSON text, read without allocation: enough for a failed answer, which is small, perhaps cut off, and
//! perhaps no JSON at all.

/// How deep objects and arrays are looked into; what is deeper is skipped.
const MAX_DEPTH: u8 = 8;

/// A scalar value of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar<'a> {
    /// A string, as written: escapes are not resolved.
    Text(&'a [u8]),
    /// A number, as written.
    Number(&'a [u8]),
    /// `true`. The other words are not shown.
    True,
}

/// What is done with the members of a text.
pub(super) trait Visitor {
    /// Whether the object or array under this key is looked into; asked once for each.
    fn enters(&mut self, key: &[u8]) -> bool;

    /// A member with a scalar value, in the order of the text. An element of an array has the key of the array.
    fn scalar(&mut self, key: &[u8], value: Scalar<'_>);
}

/// Reads a text as far as it is JSON, and shows its members. A text that ends early or goes wrong is read up to there.
pub(super) fn read(text: &[u8], visitor: &mut impl Visitor) {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut reader = Reader { text, at: 0 };
    let _ = reader.value(b"", true, 0, visitor);
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// The next byte that is no blank; `None` at the end.
    fn next(&mut self) -> Option<u8> {
        while let Some(byte) = self.text.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Moves over a byte that has to come next.
    fn take(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then(|| self.at += 1)
    }

    /// A value under a key; `None` where the text goes wrong or ends.
    fn value(&mut self, key: &[u8], entered: bool, depth: u8, visitor: &mut impl Visitor) -> Option<()> {
        match self.next()? {
            b'{' | b'[' if !entered || depth == MAX_DEPTH => self.skip(),
            b'{' => {
                self.at += 1;
                self.list(b'}', |reader| {
                    let key = reader.string()?;
                    reader.take(b':')?;
                    let entered = matches!(reader.next()?, b'{' | b'[') && visitor.enters(key);
                    reader.value(key, entered, depth + 1, visitor)
                })
            }
            b'[' => {
                self.at += 1;
                self.list(b']', |reader| reader.value(key, true, depth + 1, visitor))
            }
            b'"' => {
                let text = self.string()?;
                visitor.scalar(key, Scalar::Text(text));
                Some(())
            }
            b'-' | b'0'..=b'9' => {
                let start = self.at;
                while matches!(self.text.get(self.at), Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')) {
                    self.at += 1;
                }
                visitor.scalar(key, Scalar::Number(&self.text[start..self.at]));
                Some(())
            }
            _ => {
                if self.word()? == b"true" {
                    visitor.scalar(key, Scalar::True);
                }
                Some(())
            }
        }
    }

    /// Elements up to the closing bracket; the opening one has been read.
    fn list(&mut self, end: u8, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        if self.next()? == end {
            self.at += 1;
            return Some(());
        }
        loop {
            element(self)?;
            match self.next()? {
                b',' => self.at += 1,
                byte => {
                    self.at += 1;
                    return (byte == end).then_some(());
                }
            }
        }
    }

    /// A string, as written between its quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.take(b'"')?;
        let start = self.at;
        loop {
            match self.text.get(self.at)? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(&self.text[start..self.at - 1])
    }

    /// `true`, `false` or `null`.
    fn word(&mut self) -> Option<&'static [u8]> {
        let rest = &self.text[self.at..];
        let word = [&b"true"[..], b"false", b"null"].into_iter().find(|word| rest.starts_with(word))?;
        self.at += word.len();
        Some(word)
    }

    /// Moves over an object or array, whatever its depth, without recursion. Brackets are counted, not matched.
    fn skip(&mut self) -> Option<()> {
        let mut open = 0_u32;
        loop {
            match self.text.get(self.at)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => open += 1,
                b'}' | b']' => open -= 1,
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    /// Keeps all that it is shown, and enters every key but `closed`.
    #[derive(Default)]
    struct All(Vec<(String, String)>);

    impl Visitor for All {
        fn enters(&mut self, key: &[u8]) -> bool {
            key != b"closed"
        }

        fn scalar(&mut self, key: &[u8], value: Scalar<'_>) {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let value = match value {
                Scalar::Text(value) | Scalar::Number(value) => value,
                Scalar::True => b"true",
            };
            self.0.push((text(key), text(value)));
        }
    }

    fn members(text: &str) -> Vec<(String, String)> {
        let mut all = All::default();
        read(text.as_bytes(), &mut all);
        all.0
    }

    #[test]
    fn members_in_the_order_of_the_text() {
        let pairs = members(
            "\u{feff} { \"a\" : \"x\\\"y\" , \"b\": [1, -2.5e3, {\"c\": \"z\"}], \"d\": {\"e\": true, \"f\": \"g\"} } rest",
        );
        let expected = [("a", "x\\\"y"), ("b", "1"), ("b", "-2.5e3"), ("c", "z"), ("e", "true"), ("f", "g")];
        assert_eq!(pairs, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    #[test]
    fn closed_members_are_skipped_whatever_they_hold() {
        let pairs = members(r#"{"closed": {"a": "}]", "b": [[["\\"]]]}, "open": "here"}"#);
        assert_eq!(pairs, [("open".to_owned(), "here".to_owned())]);
    }

    #[test]
    fn a_text_that_is_cut_is_read_as_far_as_it_goes() {
        let text = r#"{"a": "1", "b": "2", "c": {"d": "3"}}"#;
        for end in 0..=text.len() {
            let part = members(&text[..end]);
            assert!(members(text).starts_with(&part), "{}", &text[..end]);
        }
    }

    #[test]
    fn a_tower_of_brackets_is_no_tower_of_frames() {
        let tower = "[".repeat(1_000_000);
        assert_eq!(members(&tower), []);
        let text = format!("{{\"a\": {}1{}, \"b\": 2}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(members(&text), [("b".to_owned(), "2".to_owned())]);
    }

    /// The same members by a library's parser.
    fn expected(key: &str, value: &Value, depth: u8, found: &mut Vec<(String, String)>) {
        match value {
            Value::String(text) => {
                let written = serde_json::to_string(text).unwrap();
                found.push((key.to_owned(), written[1..written.len() - 1].to_owned()));
            }
            Value::Bool(true) => found.push((key.to_owned(), "true".to_owned())),
            Value::Number(number) => found.push((key.to_owned(), number.to_string())),
            Value::Array(values) if depth < MAX_DEPTH => {
                for value in values {
                    expected(key, value, depth + 1, found);
                }
            }
            Value::Object(members) if depth < MAX_DEPTH => {
                for (key, value) in members
                    .iter()
                    .filter(|(key, value)| *key != "closed" || !(value.is_object() || value.is_array()))
                {
                    let written = serde_json::to_string(key).unwrap();
                    expected(&written[1..written.len() - 1], value, depth + 1, found);
                }
            }
            _ => {}
        }
    }

    fn document() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i32>().prop_map(Value::from),
            "[a-c\"\\\\\n{}\\[\\]é]{0,6}".prop_map(Value::String),
        ];
        leaf.prop_recursive(10, 60, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
                prop::collection::hash_map("([a-c\"]{0,3}|closed)", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn reads_what_a_library_reads(document in document(), pretty: bool) {
            let text = if pretty { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) };
            let mut found = Vec::new();
            expected("", &document, 0, &mut found);
            prop_assert_eq!(members(&text.unwrap()), found);
        }

        #[test]
        fn any_bytes(text in prop::collection::vec(any::<u8>(), 0..200), json in "[\\[\\]{}\",:\\\\a0 ]{0,60}") {
            read(&text, &mut All::default());
            read(json.as_bytes(), &mut All::default());
        }
    }
}
