//! The border that no panic crosses: one that reached the JVM or C would abort the process of whoever uses us.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs what the host has asked for. A panic becomes its message: it is a bug of ours, and the host reports it as one. The engine's lock
/// is released on the way (it is not poisoned), so other calls go on.
#[inline]
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| message(payload.as_ref()))
}

#[cold]
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message");
    format!("tidegate: internal error, please report it: {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message() {
        assert_eq!(caught(|| 7), Ok(7));
        let text = |work: fn()| caught(work).unwrap_err();
        assert!(text(|| panic!("a reason")).ends_with("report it: a reason"));
        assert!(text(|| panic!("{} reasons", 2)).ends_with("report it: 2 reasons"));
        assert!(text(|| std::panic::panic_any(7_u8)).ends_with("without a message"));
    }

    /// Whoever adds a function to the border forgets this most easily, and nothing else would tell.
    #[test]
    fn every_function_of_the_border_is_guarded() {
        for source in [include_str!("jni.rs"), include_str!("numeric.rs")] {
            let functions: Vec<&str> = source.split("#[unsafe(no_mangle)]").skip(1).collect();
            assert!(functions.len() >= 2);
            for function in functions {
                let body = function.split_once(" {\n").map_or("", |(_, body)| body).trim_start();
                let name = function.lines().nth(1).unwrap_or_default();
                assert!(body.starts_with("caught("), "{name} does not begin with caught(");
            }
        }
    }
}
