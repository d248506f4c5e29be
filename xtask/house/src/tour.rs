//! Counts the files that a stage takes: those of core that name the throttle, which is the simplest stage. What a stage of the same
//! kind has to touch is this list, and `docs/architecture.md` says what goes into each file.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::fs;
use std::path::{Path, PathBuf};

/// The stage that is looked for, as it is written in a name.
const STAGE: &str = "throttle";
/// What answers are, and how many of them a hold has counted: these names are not about the stage.
const OTHERS: [&str; 2] = ["throttled", "throttles"];

/// The files below a folder that name the stage, tests and comments aside, by their path in the folder.
pub fn files(folder: &Path) -> Result<Vec<String>, String> {
    let mut paths = Vec::new();
    crate::source::collect(folder, &mut paths)?;
    paths.sort();
    let name = |path: &PathBuf| path.strip_prefix(folder).unwrap_or(path).to_string_lossy().into_owned();
    let mut found = Vec::new();
    for path in paths {
        let text =
            fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let tokens: TokenStream =
            text.parse().map_err(|error| format!("cannot parse {}: {error}", path.display()))?;
        if names_stage(tokens) {
            found.push(name(&path));
        }
    }
    Ok(found)
}

/// Whether the code has the stage in a name, or as a word. Attributes, and with them comments, and modules of tests are left out.
fn names_stage(tokens: TokenStream) -> bool {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match (token, tokens.peek()) {
            (TokenTree::Punct(mark), Some(TokenTree::Group(attribute))) if mark.as_char() == '#' => {
                let is_test = attribute.stream().to_string() == "cfg (test)";
                tokens.next();
                if is_test {
                    skip_item(&mut tokens);
                }
            }
            (TokenTree::Group(inner), _) if names_stage(inner.stream()) => return true,
            (TokenTree::Ident(name), _) if is_stage(&name.to_string()) => return true,
            (TokenTree::Literal(text), _) if text.to_string() == format!("\"{STAGE}\"") => return true,
            _ => {}
        }
    }
    false
}

/// Whether a name has the stage in it: `AdaptiveThrottle`, `THROTTLE`.
fn is_stage(name: &str) -> bool {
    let name = name.to_lowercase();
    name.contains(STAGE) && !OTHERS.iter().any(|other| name.contains(other))
}

fn skip_item(tokens: &mut impl Iterator<Item = TokenTree>) {
    for token in tokens {
        match token {
            TokenTree::Group(body) if body.delimiter() == Delimiter::Brace => return,
            TokenTree::Punct(mark) if mark.as_char() == ';' => return,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn root() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    fn page() -> String {
        fs::read_to_string(root().join("docs/architecture.md")).expect("the page is there")
    }

    /// The text below a heading of the page, up to the next one of the same level.
    fn section<'a>(page: &'a str, heading: &str) -> &'a str {
        let (_, rest) = page.split_once(&format!("\n## {heading}\n")).expect("the page has this heading");
        rest.split("\n## ").next().unwrap_or(rest)
    }

    /// The words in backticks.
    fn cited(text: &str) -> Vec<&str> {
        text.split('`').skip(1).step_by(2).collect()
    }

    const QUESTIONS: [&str; 3] =
        ["Where is a retry decided?", "What happens at a wake?", "What do I touch to add a stage?"];

    #[test]
    fn the_stage_is_found_in_code_and_not_in_tests_or_comments() {
        let names = |text: &str| names_stage(text.parse().expect("it is Rust"));
        assert!(names("fn f(it: AdaptiveThrottle) {}") && names("const A: u8 = stage::THROTTLE;"));
        assert!(names("fn f() { g(\"throttle\") }"));
        assert!(!names("/// A throttle.\nfn f(kind: Class::Throttled) {}"));
        assert!(!names("#[cfg(test)] mod tests { fn f(it: AdaptiveThrottle) {} } fn g() {}"));
    }

    /// A newcomer who follows the page touches each file that a stage takes, and no page says more than there is.
    #[test]
    fn the_page_lists_the_files_that_a_stage_takes() {
        let page = page();
        let section = section(&page, "What do I touch to add a stage?");
        let mut listed = BTreeSet::new();
        for row in section.lines().filter(|line| line.starts_with("| `")) {
            let mut folder = "";
            for path in cited(row.split(" | ").next().unwrap_or(row)) {
                // `core/src/engine/route.rs`, `route/stage.rs`: the second one is beside the first.
                folder =
                    path.rsplit_once("/src/").map_or(folder, |_| path.rsplit_once('/').map_or("", |it| it.0));
                let path = if path.contains("/src/") { path.to_owned() } else { format!("{folder}/{path}") };
                let Some(path) = path.strip_prefix("core/src/") else { continue };
                listed.insert(path.replace("<part>", STAGE));
            }
        }
        let taken: BTreeSet<String> =
            files(&root().join("core/src")).expect("it can be read").into_iter().collect();
        let missing: Vec<_> = taken.difference(&listed).collect();
        // The throttle's verdict is named as the class of outcome is, and its metric without it.
        let named_otherwise = ["action.rs", "meter.rs"];
        let extra: Vec<_> =
            listed.difference(&taken).filter(|it| !named_otherwise.contains(&it.as_str())).collect();
        assert!(missing.is_empty(), "docs/architecture.md does not list {missing:?}");
        assert!(extra.is_empty(), "docs/architecture.md lists {extra:?}, which no stage of this kind needs");
    }

    /// The three answers cite files that exist and names that core has: a function where the text names its file with it.
    #[test]
    fn the_three_answers_cite_what_is_there() {
        let page = page();
        let mut sources = Vec::new();
        crate::source::collect(&root().join("core/src"), &mut sources).expect("it can be listed");
        let texts: Vec<(String, String)> = sources
            .iter()
            .map(|path| {
                (path.to_string_lossy().into_owned(), fs::read_to_string(path).expect("it can be read"))
            })
            .collect();
        let has = |text: &str, name: &str| {
            text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
        };
        for question in QUESTIONS {
            let words = cited(section(&page, question));
            for (place, word) in words.iter().enumerate() {
                let is_path = word.contains('/') || word.contains('.') && !word.contains(' ');
                if is_path && !word.contains('<') && !is_hosts(word) {
                    let there = root().join(word).exists()
                        || texts.iter().any(|(path, _)| path.ends_with(&format!("/{word}")));
                    assert!(there, "{question} cites {word}, which does not exist");
                    // `name` (`file`) or `name` in `file`
                    let function = place.checked_sub(1).map(|before| words[before]);
                    if let Some(function) = function.filter(|it| {
                        page.contains(&format!("`{it}` (`{word}`)"))
                            || page.contains(&format!("`{it}` in `{word}`"))
                    }) {
                        let declared = format!("fn {}", function.rsplit("::").next().unwrap_or(function));
                        let there =
                            texts.iter().any(|(path, text)| path.ends_with(word) && text.contains(&declared));
                        assert!(there, "{question}: {word} has no {declared}");
                    }
                } else if !is_path && word.chars().all(|c| c.is_alphanumeric() || "_:!".contains(c)) {
                    let name = word.trim_end_matches('!').rsplit("::").next().unwrap_or(word);
                    assert!(
                        texts.iter().any(|(_, text)| has(text, name)),
                        "{question} cites {word}, which core does not have"
                    );
                }
            }
        }
    }

    /// Whether a cited file is a host's, which another test looks for.
    fn is_hosts(word: &str) -> bool {
        !word.starts_with("core/")
            && !word.starts_with("docs/")
            && !word.starts_with("tests/")
            && Path::new(word).extension().is_none_or(|extension| extension != "rs")
            || word == "error.rs"
    }
}
