//! In what the two builds of this crate differ, but for the lists of [`crate::policy`].
//!
//! A web page that needs retries should not load unused code. So the npm package contains this crate a second time,
//! compiled with `--cfg tidegate_small` (`docs/adr/0025-one-import.md`). This is not a cargo feature, so no
//! dependency can enable it. Source and checks are the same. The types of parts that a small engine lacks are
//! uninhabited, so the compiler removes their code.

#[cfg_attr(tidegate_small, path = "full/small.rs")]
mod here;
/// Its functions are tested beside those of the full engine.
#[cfg(test)]
#[allow(dead_code, clippy::inline_always, clippy::trivially_copy_pass_by_ref, clippy::unused_self)]
#[path = "full/small.rs"]
mod small;

pub(crate) use here::*;
