//! What happens to every call, for C and Swift: numbers alone, as `core/src/wire.rs` lays them out.
//!
//! The engine is known by the number that `Engine::handle` gave; whoever calls keeps the object until the call is back.
//! `kotlin/` has the same through `jni.rs`; `swift/` declares these in a header of its own.

use tidegate::{Action, Step, Verdict, wire};

use crate::Engine;
use crate::border::caught;

/// No step, for a request or an event that there is none of: steps are below 2^53.
pub const NO_WORD: u64 = u64::MAX;

/// The step of a call that a bug of ours has ended: its host says that the call is lost. C has no exceptions.
#[cold]
fn lost() -> u64 {
    let action = Action::Done { verdict: Verdict::Lost, result: None, retry_in: None };
    wire::pack_step(Step::new(action, None))
}

/// The engine of a handle.
///
/// # Safety
/// `handle` is what [`Engine::handle`] gave, and the object is kept meanwhile.
#[inline]
pub unsafe fn engine<'a>(handle: u64) -> &'a Engine {
    // SAFETY: the caller's word, above; the engine is shared, and is changed under its lock only.
    unsafe { &*(handle as usize as *const Engine) }
}

/// Begins a call: the word of its first step, or [`NO_WORD`]; its id is written to `call`.
///
/// # Safety
/// As for [`engine`]; `call` is a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_begin(
    handle: u64,
    route: u64,
    flags: u64,
    remaining: u64,
    parent: u64,
    target: u64,
    now: u64,
    call: *mut u64,
) -> u64 {
    caught(|| {
        // SAFETY: the caller's word, above.
        let engine = unsafe { engine(handle) };
        match engine.begin_word(route, flags, remaining, parent, target, now) {
            Some((id, step)) => {
                // SAFETY: the caller's word, above.
                unsafe { call.write(id) };
                step
            }
            None => NO_WORD,
        }
    })
    .unwrap_or_else(|_| lost())
}

/// Tells a call what happened: the word of its next step, or [`NO_WORD`].
///
/// # Safety
/// As for [`engine`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tidegate_on(handle: u64, call: u64, event: u64, now: u64) -> u64 {
    caught(|| {
        // SAFETY: the caller's word, above.
        unsafe { engine(handle) }.on_word(call, event, now).unwrap_or(NO_WORD)
    })
    .unwrap_or_else(|_| lost())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_call_that_is_lost() {
        let step = caught(|| panic!("a bug")).unwrap_or_else(|_| lost());
        let step = wire::unpack_step(step).expect("a step");
        assert_eq!(step.action(), Action::Done { verdict: Verdict::Lost, result: None, retry_in: None });
        assert_eq!(step.stop(), 0);
    }
}
