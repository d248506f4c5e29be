//! The errors that tests raise, and their classes, as pages: Kotlin's and Swift's, from the tables in their tests. (Python's and
//! JavaScript's tests write their pages themselves.)

use std::fs;
use std::path::Path;

const KOTLIN: &str = "bindings-uniffi/kotlin/tidegate/src/test/kotlin/dev/tidegate/ErrorsTest.kt";
const SWIFT: &str = "bindings-uniffi/swift/Tests/TidegateTests/ErrorTests.swift";

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines of `Triple("the library: what happened", "class") { … }`.
fn kotlin() -> Vec<[String; 3]> {
    let text = read(KOTLIN);
    let rows = text.lines().filter_map(|line| {
        let (what, rest) = line.trim().strip_prefix("Triple(\"")?.split_once("\", \"")?;
        let (class, _) = rest.split_once('"')?;
        let (library, how) = what.split_once(": ").unwrap_or(("Java and Kotlin", what));
        Some([library, how, class].map(str::to_owned))
    });
    rows.collect()
}

/// The pairs `(error, .class)` of the table `cases`.
fn swift() -> Vec<[String; 2]> {
    let text = read(SWIFT);
    let (_, table) = text.split_once("let cases: [(any Error, Kind)] = [").expect("the test has a table");
    let (table, _) = table.split_once("\n        ]").expect("the table ends");
    let pairs = table.split("), .").collect::<Vec<_>>();
    let mut rows = Vec::new();
    for pair in pairs.windows(2) {
        // What stands before `), .` is the error; the word after it is its class.
        let error = pair[0].split_once('(').map_or("", |(_, error)| error);
        let class = pair[1].split(|char: char| !char.is_alphanumeric()).next().unwrap_or("");
        rows.push([format!("{error})").replace("Self.answered", "Answered"), snake(class)]);
    }
    rows
}

fn snake(word: &str) -> String {
    let mut name = String::new();
    for char in word.chars() {
        if char.is_uppercase() {
            name.push('_');
        }
        name.extend(char.to_lowercase());
    }
    name
}

/// `docs/errors-kotlin.md` and `docs/errors-swift.md`.
pub fn files() -> [(&'static str, String); 2] {
    let rest = "[errors.md](errors.md) has the rules and the whole table. `cargo xtask generate` makes this page from the test.";
    let kotlin: Vec<_> = kotlin().iter().map(|row| format!("| {} |", row.join(" | "))).collect();
    let swift: Vec<_> = swift().iter().map(|[error, class]| format!("| `{error}` | {class} |")).collect();
    [
        (
            "docs/errors-kotlin.md",
            format!(
                "# Errors of the JVM's libraries, and what they mean\n\nEach line is an error of a test (`ErrorsTest.kt`): raised by the library itself, \
                 or made as the library makes it.\n{rest}\n\n| Library | What happened | Class |\n|---|---|---|\n{}\n",
                kotlin.join("\n")
            ),
        ),
        (
            "docs/errors-swift.md",
            format!(
                "# Errors of Swift and Foundation, and what they mean\n\nEach line is an error of a test (`ErrorTests.swift`). `Refused` is an error of \
                 one's own with a status, `Answered` one with an\n`HTTPURLResponse`, `Wrapped` one with a cause, and `Broken` one that nothing is known of.\n{rest}\n\n| Error | Class |\n|---|---|\n{}\n",
                swift.join("\n")
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_have_every_error_of_the_tests() {
        let classes = ["never_sent", "transient", "throttled", "timeout", "conflict", "permanent", "ignored"];
        let (kotlin, swift) = (kotlin(), swift());
        assert_eq!(kotlin.len(), read(KOTLIN).matches("Triple(\"").count());
        assert!(kotlin.iter().all(|row| classes.contains(&&*row[2])), "{kotlin:?}");
        assert!(swift.iter().all(|row| classes.contains(&&*row[1])), "{swift:?}");
        let rows = |page| read(page).lines().filter(|line| line.starts_with("| ")).count() - 1;
        let all =
            kotlin.len() + swift.len() + rows("docs/errors-python.md") + rows("docs/errors-javascript.md");
        assert!(all >= 200, "{all} errors on the pages");
    }
}
