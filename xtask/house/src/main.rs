//! Measures the structure of core's sources and prints it beside the limits and the goals of `xtask/house/limits.txt`.
//!
//! `tidegate-house <root>` prints the table. `--check` fails if a figure is above its limit; `--lower` writes figures
//! below their limits into the file; `--list` prints the counted items, and `--calls` the calls between files of the
//! largest cycle. The figures are: functions that take the engine or one of its parts, methods or not; calls in cycles,
//! between functions and between files; arguments; lengths of files; marks of the small engine; files that write the
//! state of a call; files that a stage takes; modules in cycles in the Python package's native half; and hand-written lines of the lone parts.

mod graph;
mod imports;
mod parts;
mod ratchet;
mod source;
mod tour;

use graph::circles;
use source::{Function, Source, read};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// A measured figure.
struct Row {
    /// The figure's name in the file of limits.
    key: &'static str,
    what: &'static str,
    now: usize,
    /// The counted items, which `--list` prints.
    items: Vec<String>,
}

/// Path of the file with limits and goals, from the repository's root.
const LIMITS: &str = "xtask/house/limits.txt";
const FLAGS: [&str; 4] = ["--calls", "--check", "--list", "--lower"];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let flags: BTreeSet<&str> = args.iter().filter(|arg| arg.starts_with("--")).map(String::as_str).collect();
    let root = args.iter().find(|arg| !arg.starts_with("--")).map_or(".", String::as_str);
    match run(Path::new(root), &flags) {
        Ok(above) if above > 0 && flags.contains("--check") => {
            eprintln!("error: {above} figures are above their limits in {LIMITS}: see `--list`");
            ExitCode::FAILURE
        }
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the table. Returns the number of figures above their limits.
fn run(root: &Path, flags: &BTreeSet<&str>) -> Result<usize, String> {
    if let Some(flag) = flags.iter().find(|flag| !FLAGS.contains(flag)) {
        return Err(format!("{flag} is not a flag; the flags are {}", FLAGS.join(", ")));
    }
    let rows = measure(root)?;
    if flags.contains("--calls") {
        for call in calls_in_circle(&read(&root.join("core/src"))?) {
            println!("{call}");
        }
    }
    let file = root.join(LIMITS);
    let text = fs::read_to_string(&file).map_err(|error| format!("cannot read {LIMITS}: {error}"))?;
    let limits = ratchet::parse(&text).map_err(|error| format!("{LIMITS}, {error}"))?;
    println!("{:<62} {:>6} {:>6} {:>6}", "core/src, where no other is named", "now", "limit", "goal");
    let mut above = 0;
    for row in &rows {
        let Some(of) = limits.get(row.key) else { return Err(format!("{LIMITS} has no line `{}`", row.key)) };
        let mark = if row.now > of.limit { "  above its limit" } else { "" };
        above += usize::from(row.now > of.limit);
        println!("{:<62} {:>6} {:>6} {:>6}{mark}", row.what, row.now, of.limit, of.goal);
        if flags.contains("--list") {
            row.items.iter().for_each(|item| println!("    {item}"));
        }
    }
    if flags.contains("--lower") {
        let figures = rows.iter().map(|row| (row.key, row.now)).collect();
        fs::write(&file, ratchet::lowered(&text, &figures))
            .map_err(|error| format!("cannot write {LIMITS}: {error}"))?;
    }
    Ok(above)
}

fn measure(root: &Path) -> Result<Vec<Row>, String> {
    let mut rows = measure_core(&read(&root.join("core/src"))?);
    let stage = tour::files(&root.join("core/src"))?;
    rows.push(Row {
        key: "stage_files",
        what: "files that name the throttle, a stage that only refuses",
        now: stage.len(),
        items: stage,
    });
    let rounds = circles(&imports::imports(&root.join("bindings-python/src"))?);
    rows.push(Row {
        key: "python_circles",
        what: "bindings-python/src: modules that use each other in circles",
        now: rounds.iter().map(Vec::len).sum(),
        items: rounds.iter().map(|round| round.join(", ")).collect(),
    });
    let parts::Lines { generator, by_hand } = parts::lines(root)?;
    rows.push(Row {
        key: "parts_by_hand",
        what: "lone parts, all languages: lines by hand, description included",
        now: by_hand.iter().map(|(_, lines)| lines).sum(),
        items: by_hand.iter().map(|(place, lines)| format!("{lines:>4}  {place}")).collect(),
    });
    rows.push(Row {
        key: "parts_generator",
        what: "  lines of their generator",
        now: generator,
        items: Vec::new(),
    });
    Ok(rows)
}

fn measure_core(sources: &[Source]) -> Vec<Row> {
    let functions: Vec<&Function> = sources.iter().flat_map(|source| &source.functions).collect();
    let taking = |part: &str| -> Vec<&&Function> {
        functions.iter().filter(|function| function.takes == Some(part)).collect()
    };
    let of_engine = taking("Engine");
    let public = of_engine.iter().filter(|function| function.public).count();

    let calls = graph::calls(&functions);
    let recursions: Vec<Vec<String>> = circles(&calls);
    let in_files = graph::between_files(&calls);
    let rounds: Vec<Vec<String>> = circles(&in_files);
    let largest = rounds.iter().map(Vec::len).max().unwrap_or(1);

    let arguments = functions.iter().filter(|function| function.arguments > 5);
    let long = sources.iter().filter(|source| source.lines > 600);
    let inside: Vec<String> = sources.iter().flat_map(|source| source.marks_in_bodies.clone()).collect();
    let marks: Vec<String> = sources.iter().flat_map(|source| source.marks.clone()).collect();
    let mut writes: BTreeMap<&str, usize> = BTreeMap::new();
    for source in sources {
        if source.state_writes > 0 {
            *writes.entry(&source.path).or_default() += source.state_writes;
        }
    }
    let by_file = |of: &[&&Function]| -> Vec<String> {
        let files: BTreeMap<&str, usize> = of.iter().fold(BTreeMap::new(), |mut all, function| {
            *all.entry(function.file.as_str()).or_default() += 1;
            all
        });
        files.iter().map(|(file, many)| format!("{many:>4}  {file}")).collect()
    };
    let row = |key, what, now, items| Row { key, what, now, items };
    vec![
        row(
            "engine_functions",
            "functions that take an `Engine`, methods or not",
            of_engine.len(),
            by_file(&of_engine),
        ),
        row("engine_public", "  of them public", public, Vec::new()),
        row(
            "fleet_functions",
            "functions that take a `FleetDesk`, and no `Engine`",
            taking("FleetDesk").len(),
            by_file(&taking("FleetDesk")),
        ),
        row(
            "desk_functions",
            "functions that take a `Desk`, and neither of these",
            taking("Desk").len(),
            by_file(&taking("Desk")),
        ),
        row(
            "sender_functions",
            "functions that take a `Sender`, and none of these",
            taking("Sender").len(),
            by_file(&taking("Sender")),
        ),
        row(
            "recursions",
            "groups of functions that call each other in circles",
            recursions.len(),
            recursions.iter().map(|round| round.join(", ")).collect(),
        ),
        row(
            "cycle",
            "files in the largest circle of calls",
            largest,
            rounds.iter().map(|round| round.join(", ")).collect(),
        ),
        row(
            "state_writers",
            "files that write the state of a call",
            writes.len(),
            writes.iter().map(|(file, many)| format!("{many:>4}  {file}")).collect(),
        ),
        row(
            "long_signatures",
            "functions with more than 5 arguments besides `now`",
            arguments.clone().count(),
            arguments
                .map(|function| format!("{:>4}  {} ({})", function.arguments, function.name, function.file))
                .collect(),
        ),
        row(
            "long_files",
            "files of more than 600 lines",
            long.clone().count(),
            long.map(|source| format!("{:>4}  {}", source.lines, source.path)).collect(),
        ),
        row("marks", "marks of the small engine", marks.len(), marks),
        row("marks_in_bodies", "  of them in the body of a function", inside.len(), inside),
    ]
}

/// The calls between files of the largest cycle, to show which calls to move.
fn calls_in_circle(sources: &[Source]) -> Vec<String> {
    let functions: Vec<&Function> = sources.iter().flat_map(|source| &source.functions).collect();
    let calls = graph::calls(&functions);
    let files = |node: &str| node.split(' ').next().unwrap_or(node).to_owned();
    let circle = circles(&graph::between_files(&calls)).into_iter().next().unwrap_or_default();
    let mut found = Vec::new();
    for (from, to) in &calls {
        let others = to.iter().filter(|to| files(to) != files(from) && circle.contains(&files(to)));
        found.extend(others.filter(|_| circle.contains(&files(from))).map(|to| format!("{from} -> {to}")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The repository's root, two levels above this crate.
    fn root() -> &'static Path {
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
    }

    #[test]
    fn no_figure_is_above_its_limit() {
        assert_eq!(run(root(), &BTreeSet::new()), Ok(0), "cargo run -p tidegate-house -- --list");
    }

    #[test]
    fn every_limit_is_of_a_figure_and_not_below_its_goal() {
        let text = fs::read_to_string(root().join(LIMITS)).expect("it is there");
        let rows = measure(root()).expect("the sources can be read");
        for (key, of) in ratchet::parse(&text).expect("it can be read") {
            assert!(rows.iter().any(|row| row.key == key), "nothing measures {key}");
            assert!(of.goal <= of.limit, "{key} is below its goal: lower the goal");
        }
    }

    #[test]
    fn an_unknown_flag_is_refused() {
        let error = run(root(), &BTreeSet::from(["--chek"])).expect_err("there is none of this name");
        assert!(error.contains("--chek") && error.contains("--check"), "{error}");
    }
}
