//! The only automation: setup, demo, test.
fn main() {}
