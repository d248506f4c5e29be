//! The ratchet: a limit and a goal for each figure. A figure may not exceed its limit, and the limit is lowered when
//! the figure falls.

use std::collections::BTreeMap;

/// The present limit of a figure, and its goal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    pub limit: usize,
    pub goal: usize,
}

/// Reads lines of the form `key limit goal`; lines that begin with `#` are comments.
///
/// # Errors
/// The first line that has another form, or a key that occurs twice.
pub fn parse(text: &str) -> Result<BTreeMap<String, Limit>, String> {
    let mut limits = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: &str| format!("line {}: `{line}` {why}", number + 1);
        let words: Vec<&str> = line.split_whitespace().collect();
        let [key, limit, goal] = words[..] else { return Err(wrong("is not `key limit goal`")) };
        let figure = |word: &str| word.parse().map_err(|_| wrong("holds a figure that is no whole number"));
        let limit = Limit { limit: figure(limit)?, goal: figure(goal)? };
        if limits.insert(key.to_owned(), limit).is_some() {
            return Err(wrong("sets a limit a second time"));
        }
    }
    Ok(limits)
}

/// Returns the text with limits lowered to these figures. A limit is never raised.
pub fn lowered(text: &str, figures: &BTreeMap<&str, usize>) -> String {
    let mut lines = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [key, limit, goal] if !key.starts_with('#') && figures.contains_key(key) => {
                let now = figures[key];
                let limit = limit.parse().map_or(now, |limit: usize| limit.min(now));
                for part in [key, " ", &limit.to_string(), " ", goal, "\n"] {
                    lines.push_str(part);
                }
            }
            _ => {
                lines.push_str(line);
                lines.push('\n');
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# key limit goal\n\nengine_functions 331 120\ncycle 28 3\n";

    #[test]
    fn each_line_sets_one_limit() {
        let limits = parse(TEXT).expect("the lines are right");
        assert_eq!(limits["engine_functions"], Limit { limit: 331, goal: 120 });
        assert_eq!(limits.len(), 2);
    }

    #[test]
    fn a_wrong_line_is_named() {
        for (line, why) in [
            ("cycle 28", "is not `key limit goal`"),
            ("cycle 28 few", "holds a figure that is no whole number"),
            ("cycle 28 3\ncycle 28 3", "sets a limit a second time"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(why) && error.contains("`cycle 28"), "{error}");
        }
    }

    #[test]
    fn limits_only_fall() {
        let figures = BTreeMap::from([("engine_functions", 300), ("cycle", 30)]);
        assert_eq!(lowered(TEXT, &figures), "# key limit goal\n\nengine_functions 300 120\ncycle 28 3\n");
    }
}
