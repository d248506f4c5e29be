//! Every bug has a row, and every test that a row names exists.
#![allow(clippy::disallowed_methods, reason = "reads the files that the table names")]

use std::fs;
use std::path::Path;
use tidegate_museum::TABLE;

/// The rows: the bug's number, and the last column.
fn rows() -> Vec<(u32, &'static str)> {
    let cells = TABLE.lines().filter_map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let number = cells.first()?.trim_start_matches('|').trim().parse().ok()?;
        Some((number, *cells.last()?))
    });
    cells.collect()
}

#[test]
fn each_of_98_bugs_has_one_row() {
    let numbers: Vec<_> = rows().iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=98).collect::<Vec<_>>());
}

#[test]
fn every_test_that_is_named_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut missing = Vec::new();
    for (number, test) in rows() {
        if test.starts_with("not applicable: ") {
            continue;
        }
        let Some((file, name)) = test.trim_matches('`').split_once("::") else {
            missing.push(format!("{number}: {test:?} names no test"));
            continue;
        };
        // The name of a function is followed by its parameters; the name of any other test is in quotation marks.
        let text = fs::read_to_string(root.join(file)).unwrap_or_default();
        let is_function = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let found = if is_function {
            text.contains(&format!("fn {name}(")) || text.contains(&format!("def {name}("))
        } else {
            ['"', '`'].iter().any(|quote| text.contains(&format!("{quote}{name}{quote}")))
        };
        if !found {
            missing.push(format!("{number}: {file} has no test {name:?}"));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn three_rows_are_without_a_test() {
    let without = rows().iter().filter(|(_, test)| test.starts_with("not applicable: ")).count();
    assert_eq!(without, 3);
}
