//! The clients that have a recipe, of all languages on one page: the tables at the head of the pages "Using it with …".

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The languages, by their folder in `docs`.
const LANGUAGES: [(&str, &str); 5] = [
    ("python", "Python"),
    ("javascript", "JavaScript and TypeScript"),
    ("kotlin", "Kotlin and Java"),
    ("swift", "Swift"),
    ("rust", "Rust"),
];

/// A client's row: what it is called, and how a policy gets around it.
type Row = (String, String);

/// The rows of a language's page: those whose recipes run as tests, and those whose recipes do not.
fn rows(folder: &str) -> (Vec<Row>, Vec<Row>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/{folder}/using-with.md"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let table = text.lines().skip_while(|line| !line.starts_with("| Client |"));
    let (mut tested, mut untested) = (Vec::new(), Vec::new());
    for line in table.skip(2).take_while(|line| line.starts_with('|')) {
        let line = line.replace("](#", &format!("]({folder}/using-with.md#"));
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let row = (cells[0].to_owned(), cells[1].to_owned());
        if cells.last() == Some(&"no") { untested.push(row) } else { tested.push(row) }
    }
    (tested, untested)
}

/// `docs/clients.md`.
pub fn files() -> [(String, String); 1] {
    let languages = LANGUAGES.map(|(folder, name)| (name, rows(folder)));
    let all: usize = languages.iter().map(|(_, (tested, _))| tested.len()).sum();
    let mut text = format!(
        "# Clients and SDKs\n\n{all} recipes put a policy around a client or an SDK, and run as tests. \
         Each link leads to the code of a recipe, which also turns the\nclient's own retries off. \
         Python's adapters for httpx, requests, urllib3 and aiohttp have a [page of their \
         own](python/http.md).\nFor any other client, put its calls into a function and run that under \
         the policy (`policy.call`, `policy.run`); the\n[table of errors](errors.md) says which of its \
         errors are repeated. `cargo xtask generate` makes this page from the tables of the linked \
         pages.\n"
    );
    for (name, (tested, untested)) in languages {
        let tested = tested.into_iter().map(|(client, how)| format!("| {client} | {how} |\n"));
        let untested =
            untested.into_iter().map(|(client, how)| format!("| {client}, not tested | {how} |\n"));
        let rows: String = tested.chain(untested).collect();
        let _ = write!(text, "\n## {name}\n\n| Client | How |\n|---|---|\n{rows}");
    }
    [("docs/clients.md".to_owned(), text)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The anchors of a page's headings, as forges make them.
    fn anchors(text: &str) -> Vec<String> {
        let headings = text.lines().filter_map(|line| line.strip_prefix("## "));
        let letters = |heading: &str| {
            let kept = heading.to_lowercase().replace(' ', "-");
            kept.chars().filter(|char| char.is_alphanumeric() || *char == '-').collect()
        };
        headings.map(letters).collect()
    }

    #[test]
    fn every_language_has_recipes_and_every_row_leads_to_one() {
        let mut all = 0;
        for (folder, name) in LANGUAGES {
            let (tested, untested) = rows(folder);
            assert!(tested.len() >= 5, "{name}: {}", tested.len());
            all += tested.len();
            let page =
                Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/{folder}/using-with.md"));
            let anchors = anchors(&fs::read_to_string(page).expect("it is there"));
            for (client, how) in tested.iter().chain(&untested) {
                let link = client.split("using-with.md#").nth(1).and_then(|rest| rest.split(')').next());
                let anchor = link.unwrap_or_else(|| panic!("{name}: {client} has no link"));
                assert!(anchors.iter().any(|it| it == anchor), "{name}: {client}: no heading #{anchor}");
                assert!(!how.is_empty(), "{name}: {client}");
            }
        }
        assert!(all >= 50, "{all} recipes run as tests");
    }
}
