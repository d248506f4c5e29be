//! What a server's error is, in one word of a closed set: it goes into records and labels.

/// The words that Redis and Valkey begin an error with, and that say more than that it is one.
const WORDS: [&str; 17] = [
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
    "WRONGTYPE",
];

/// As much of an error as is read.
const READ: usize = 256;

/// What a server's error is: its word (`READONLY`, `OOM`, `WRONGTYPE` and their like), or `ERR`.
///
/// Redis before 7 wraps what fails inside a script (`ERR Error running script … @user_script: 12: -OOM command …`); the
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
            ("MOVED 3999 127.0.0.1:6381", "MOVED"),
            ("ERR wrong number, said OOM", "ERR"),
            ("oom", "ERR"),
        ] {
            assert_eq!(reason(error.as_bytes()), word, "{error}");
        }
        let far = [b"ERR Error running script ".as_slice(), &[b' '; READ], b"OOM"].concat();
        assert_eq!(reason(&far), "ERR", "no more than {READ} bytes are read");
        assert_eq!(reason(&[0xff; 1_000]), "ERR");
    }
}
