//! The rows of a run, for the page that `cargo xtask bench` writes.

use std::env;
use std::fs::File;
use std::io::Write as _;

/// Appends one figure to the file that `TIDEGATE_BENCH_ROWS` names; without that variable it does nothing. `against` is
/// the row of Tidegate with which a peer is compared, and empty for the first of the group.
///
/// # Panics
///
/// When the file cannot be written.
pub fn keep(group: &str, row: &str, unit: &str, value: f64, against: &str) {
    let Some(path) = env::var_os("TIDEGATE_BENCH_ROWS") else { return };
    let line = format!("Rust\t{group}\t{row}\t{unit}\t{value}\t{against}\n");
    let written = File::options()
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}
