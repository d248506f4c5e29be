//! The worker lists its contenders. Because of this test `cargo test` of the workspace builds the program too, from
//! crates that it has compiled anyway; `cargo xtask test` uses that build for the bench's check.

use std::process::Command;

#[test]
fn the_worker_lists_its_contenders() {
    let told =
        Command::new(env!("CARGO_BIN_EXE_tidegate-bench-fleet")).arg("--list").output().expect("it starts");
    let told = String::from_utf8(told.stdout).expect("JSON");
    for word in ["\"contenders\"", "leased", "strict"] {
        assert!(told.contains(word), "{word} is not in {told}");
    }
}
