//! `docs/seeds.md`: every statement of the seeds' documents has a vector or a test. A row that names one which is not there,
//! a section of the specification that is not there, a heading without a row: each fails here.
#![allow(clippy::disallowed_methods, reason = "a test reads the table and what it names")]

use std::path::PathBuf;

use serde_json::Value as Json;

/// The headings of each document, in its order; the last has none, and its points stand in their place.
const DOCUMENTS: [(&str, &[&str]); 5] = [
    (
        "httpware",
        &[
            "Resilience reference",
            "AsyncRetry",
            "Retry-After parsing",
            "Streaming-body refusal",
            "Exhaustion behavior",
            "RetryBudget",
            "The token-bucket formula",
            "Why a floor matters",
            "Sharing across clients",
            "Thread safety",
            "AsyncBulkhead",
            "Slot release contract",
            "Rejection",
            "Composition",
            "Sync Retry and Bulkhead",
            "Retry",
            "Bulkhead",
            "Composition with sync Client",
            "See also",
        ],
    ),
    (
        "forze",
        &[
            "Resilience",
            "A policy is composed strategies",
            "Built-in policies",
            "Applying a policy",
            "A retry re-runs the whole operation",
            "Rate limiting",
            "Bulkheads",
            "Managing the queue",
            "Hedging the tail",
            "Shedding for a degraded downstream",
            "Port-level policies",
            "Fleet-wide state",
        ],
    ),
    (
        "HawkAPI",
        &[
            "Bulkhead",
            "When to use which pattern",
            "Context-manager form",
            "Decorator form",
            "Distributed bulkheads",
            "Metrics",
            "Limitations",
        ],
    ),
    ("smithy", &["Retries", "Specification", "Error Classification", "Backoff Strategy", "Example Usage"]),
    (
        "Graph",
        &[
            "Equivalent requests",
            "retry-attempt header",
            "retry-after header",
            "Limits",
            "Without a retry-after header",
            "Parameters",
            "Payloads",
            "RetriesTimeLimit",
            "Observability",
            "Status codes",
            "Per-request policy",
            "Waiting",
            "Queueing",
        ],
    ),
];

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).ok()
}

/// What stands under a heading of a text, up to the next one of the same depth.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let (_, rest) = text.split_once(heading).unwrap_or_else(|| panic!("no {heading:?}"));
    rest.split("\n## ").next().unwrap()
}

/// The rows of the one table in a section.
fn rows(section: &str) -> Vec<[&str; 4]> {
    let lines = section.lines().filter(|line| line.starts_with('|')).skip(2);
    lines
        .map(|line| {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            cells.try_into().unwrap_or_else(|cells| panic!("four cells, not {cells:?}"))
        })
        .collect()
}

fn objects<'a>(json: &'a Json, found: &mut Vec<&'a Json>) {
    if json.is_object() {
        found.push(json);
    }
    let inner: Vec<_> = match json {
        Json::Array(list) => list.iter().collect(),
        Json::Object(map) => map.values().collect(),
        _ => Vec::new(),
    };
    for value in inner {
        objects(value, found);
    }
}

/// Is there a vector of this name, or an object with all that this one has?
fn in_vectors(text: &str, wanted: &str) -> bool {
    let file: Json = serde_json::from_str(text).unwrap();
    let mut all = Vec::new();
    objects(&file, &mut all);
    match serde_json::from_str::<Json>(wanted) {
        Ok(Json::Object(part)) => {
            !part.is_empty()
                && all.iter().any(|one| part.iter().all(|(key, value)| one.get(key) == Some(value)))
        }
        _ => all.iter().any(|one| one["name"] == wanted),
    }
}

/// Is there a test of this name?
fn in_tests(text: &str, wanted: &str) -> bool {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let start = format!("fn {wanted}(");
    lines.iter().enumerate().any(|(at, line)| {
        let before =
            lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        line.starts_with(&start) && before.into_iter().any(|line| *line == "#[test]")
    })
}

/// What is wrong with the cell that says where a statement is shown.
fn mistake(cell: &str) -> Option<String> {
    let (shown, differs) = cell.split_once(" — differs: ").map_or((cell, None), |(a, b)| (a, Some(b)));
    if differs.is_some_and(str::is_empty) {
        return Some("no reason".to_owned());
    }
    for reference in shown.split("; `") {
        let reference = reference.trim_start_matches('`');
        let Some((path, names)) = reference.split_once("`: `") else {
            return Some(format!("no path and names: {reference}"));
        };
        let Some(text) = read(path) else { return Some(format!("no such file: {path}")) };
        for name in names.trim_end_matches('`').split("`, `") {
            let there = match path.rsplit('.').next() {
                Some("json") => in_vectors(&text, name),
                Some("rs") => in_tests(&text, name),
                Some("py") => text.lines().any(|line| line.starts_with(&format!("def {name}("))),
                _ => false,
            };
            if !there {
                return Some(format!("{path} has no {name:?}"));
            }
        }
    }
    None
}

/// Is this a section or a rule of the specification?
fn is_specified(spec: &str, number: &str) -> bool {
    match number.split_once('.') {
        Some((part, _)) => {
            let text = section(spec, &format!("\n## {part} "));
            [format!("\n{number} "), format!(" {number} ")].iter().any(|start| text.contains(start))
        }
        None if number.starts_with('R') => spec.contains(&format!("- **{number} ")),
        None => spec.contains(&format!("\n## {number} ")),
    }
}

fn check(rows: &[[&str; 4]], spec: &str) {
    for [section, statement, numbers, shown] in rows {
        assert!(!statement.is_empty() && !numbers.is_empty() && !shown.is_empty(), "{section}: {statement}");
        for number in numbers.split(", ") {
            assert!(is_specified(spec, number), "{section}: {statement}: the specification has no {number}");
        }
        assert_eq!(mistake(shown), None, "{section}: {statement}");
    }
}

#[test]
fn every_row_names_a_vector_or_a_test_that_is_there_and_every_heading_has_a_row() {
    let (table, spec) = (read("docs/seeds.md").unwrap(), read("docs/spec.md").unwrap());
    for (document, headings) in DOCUMENTS {
        let rows = rows(section(&table, &format!("\n## {document}\n")));
        check(&rows, &spec);
        for heading in headings {
            assert!(rows.iter().any(|row| row[0] == *heading), "{document}: {heading} has no row");
        }
        for [heading, statement, ..] in rows {
            assert!(headings.contains(&heading), "{document} has no heading {heading}: {statement}");
        }
    }
}

#[test]
fn every_defect_that_is_not_copied_has_its_regression_vector() {
    let (table, spec) = (read("docs/seeds.md").unwrap(), read("docs/spec.md").unwrap());
    let rows = rows(section(&table, "\n## What is not copied\n"));
    let text = section(&spec, "\n## 11 ").split_once('\n').unwrap().1.replace('\n', " ");
    let (list, _) = text.split_once(". Each is a regression vector").unwrap();
    let defects: Vec<_> = list.split(';').map(|one| one.split(" (").next().unwrap().trim()).collect();
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), defects);
    let numbered: Vec<_> =
        rows.iter().map(|[defect, seed, number, shown]| [*defect, *seed, *number, *shown]).collect();
    check(&numbered, &spec);
}

#[test]
fn what_is_wrong_with_a_cell_is_found() {
    let vector = "`tests/vectors/engine/verdicts.json`: `attempts`";
    let test = "`core/tests/seeds_table.rs`: `what_is_wrong_with_a_cell_is_found`";
    for right in [
        vector.to_owned(),
        test.to_owned(),
        format!("{vector}; {test}"),
        format!("{vector}, `budget`"),
        format!("{vector} — differs: a reason"),
        r#"`tests/vectors/retry_after/values.json`: `{"value": "-5", "delay_us": 0}`"#.to_owned(),
    ] {
        assert_eq!(mistake(&right), None, "{right}");
    }
    for wrong in [
        String::new(),
        "somewhere".to_owned(),
        vector.replace("attempts", "attempt"),
        vector.replace("verdicts", "verdict"),
        test.replace("found`", "foun`"),
        test.replace("what_is_wrong_with_a_cell_is_found", "mistake"),
        format!("{vector}, `budge`"),
        format!("{vector}; {}", test.replace("table", "tables")),
        format!("{vector}; later"),
        format!("{vector} — differs: "),
        r#"`tests/vectors/retry_after/values.json`: `{"value": "-5", "delay_us": 1}`"#.to_owned(),
        r"`tests/vectors/retry_after/values.json`: `{}`".to_owned(),
        "`docs/spec.md`: `Retry-After`".to_owned(),
    ] {
        assert!(mistake(&wrong).is_some(), "{wrong}");
    }
}
