//! Reduction of a server's error to one word of a closed set, for records and labels.

/// Words at the beginning of errors of Redis and Valkey that carry more information than `ERR`.
const WORDS: [&str; 18] = [
    "ASK",
    "BUSY",
    "CLUSTERDOWN",
    "CROSSSLOT",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "MOVED",
    "NOAUTH",
    "NOPERM",
    "NOREPLICAS",
    "NOSCRIPT",
    "OOM",
    "READONLY",
    "TRYAGAIN",
    "UNKILLABLE",
    "WRONGPASS",
    "WRONGTYPE",
];

/// Number of bytes of an error that are read.
const READ: usize = 256;

/// The word of a server's error (such as `READONLY`, `OOM`, `WRONGTYPE`), or `ERR`.
///
/// Redis before 7 wraps failures inside a script (`ERR Error running script … @user_script: 12: -OOM command …`); the
/// word is found there too.
///
/// ```
/// use tidegate::fleet::reason;
/// assert_eq!(reason(b"READONLY You can't write against a read only replica."), "READONLY");
/// assert_eq!(reason(b"ERR Error running script (call to f_1): @user_script:12: WRONGTYPE Operation"), "WRONGTYPE");
/// assert_eq!(reason(b"ERR unknown command 'OOM'"), "ERR");
/// ```
pub fn reason(error: &[u8]) -> &'static str {
    let words = || error[..error.len().min(READ)].split(|byte| *byte == b' ');
    let known = |word: &[u8]| {
        let word = word.strip_prefix(b"-").unwrap_or(word);
        WORDS.into_iter().find(|known| known.as_bytes() == word)
    };
    let first = words().next().and_then(known);
    let wrapped =
        || error.starts_with(b"ERR Error running script").then(|| words().find_map(known)).flatten();
    first.or_else(wrapped).unwrap_or("ERR")
}

/// Reason for considering the store lost: a closed set of words, for records and labels.
///
/// ```
/// use tidegate::fleet::Loss;
/// assert_eq!(Loss::TIMEOUT.name(), "timeout");
/// assert_eq!(Loss::of_error(b"READONLY You can't write against a read only replica.").name(), "READONLY");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Loss(u8);

/// Words that do not come from a server.
const OURS: [&str; 4] = ["timeout", "connection", "garbled", "ERR"];

impl Loss {
    /// No answer within `store_timeout`.
    pub const TIMEOUT: Self = Self(0);
    /// The host knew earlier that no answer would come: connection refused, broken, or closed.
    pub const CONNECTION: Self = Self(1);
    /// An answer without sense.
    pub const GARBLED: Self = Self(2);

    /// A server's error, as [`reason`] reads it.
    pub fn of_error(error: &[u8]) -> Self {
        let word = reason(error);
        let place = WORDS.iter().position(|known| *known == word).map_or(3, |place| OURS.len() + place);
        Self(place as u8)
    }

    /// The word: `timeout`, `connection`, `garbled`, or the first word of the server's error (such as `READONLY` or
    /// `OOM`, else `ERR`).
    pub fn name(self) -> &'static str {
        let place = usize::from(self.0);
        OURS.get(place).or_else(|| WORDS.get(place - OURS.len())).copied().unwrap_or("ERR")
    }

    /// Whether it concerns only the key, not the server.
    pub(crate) fn is_of_key(self) -> bool {
        self == Self::GARBLED || self.is_of_server_there()
    }

    /// A key of another type: the error shows that the server works.
    pub(crate) fn is_of_server_there(self) -> bool {
        self.name() == "WRONGTYPE"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_found_where_each_version_has_it() {
        for (error, word) in [
            ("", "ERR"),
            ("OOM", "OOM"),
            ("OOM command not allowed when used memory > 'maxmemory'. script: 1, on @user_script:1.", "OOM"),
            (
                "ERR Error running script (call to f_1): @user_script:41: @user_script: 41: -OOM command not",
                "OOM",
            ),
            ("ERR Error running script (call to f_1): @user_script:7: bad argument", "ERR"),
            ("-READONLY You", "READONLY"),
            ("WRONGPASS invalid username-password pair or user is disabled.", "WRONGPASS"),
            ("MOVED 3999 127.0.0.1:6381", "MOVED"),
            ("ERR wrong number, said OOM", "ERR"),
            ("oom", "ERR"),
        ] {
            assert_eq!(reason(error.as_bytes()), word, "{error}");
        }
        assert_eq!(OURS[3], "ERR");
        for word in WORDS {
            assert_eq!(Loss::of_error(word.as_bytes()).name(), word);
        }
        assert_eq!(Loss::of_error(b"what").name(), "ERR");
        let far = [b"ERR Error running script ".as_slice(), &[b' '; READ], b"OOM"].concat();
        assert_eq!(reason(&far), "ERR", "no more than {READ} bytes are read");
        assert_eq!(reason(&[0xff; 1_000]), "ERR");
    }
}
