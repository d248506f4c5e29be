//! An import of everything hides no crate of the language.
#![allow(clippy::wildcard_imports, reason = "that is what is tested")]

use tidegate_tokio::*;

#[test]
fn an_import_of_everything_leaves_the_languages_crates_alone() {
    assert_eq!(core::mem::size_of::<u64>(), 8);
    assert_eq!(std::cmp::max(1, 2), 2);
    assert_eq!(core::time::Duration::from_secs(1).as_millis(), 1_000);
    // The engine's crate is there too, and its names are those of this crate.
    assert_eq!(tidegate::Duration::from_secs(1).as_micros(), 1_000_000);
    assert_eq!(tidegate::Class::Ok, Class::Ok);
}
