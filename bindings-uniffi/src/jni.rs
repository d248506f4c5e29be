//! What happens to every call, for the JVM: the functions of `numeric.rs` by the JVM's names and types, and the few others
//! that a call may need before it fails. Numbers alone but for the words that say when to come back.
//!
//! The methods are those of `dev.tidegate.internal.Native`, an object that keeps the engine: it cannot be collected
//! while one of its methods runs. A word below 2^53 is the same as the JVM's `long`.

#![allow(clippy::cast_possible_wrap)] // words are below 2^53, and arrays of the JVM below 2^31

use jni_sys::{JNIEnv, jboolean, jbyteArray, jint, jlong, jlongArray, jobject};
use tidegate::{HttpFailure, PolicyId, WallTime, wire};
use tidegate_ticks::Ticks;

use std::ffi::CString;

use crate::border::caught;
use crate::numeric::engine;

mod exports;
mod glue;

/// No word has this value.
const NO_WORD: jlong = -1;

/// Throws a bug of ours as an `IllegalStateException`; the method answers `otherwise`, which nobody sees.
#[cold]
fn thrown<T>(env: *mut JNIEnv, bug: &str, otherwise: T) -> T {
    let text = CString::new(bug.replace('\0', " ")).unwrap_or_default();
    // SAFETY: `env` is this thread's, the texts end with NUL, and no exception is pending: no method calls Java.
    unsafe {
        let class = ((**env).v1_1.FindClass)(env, c"java/lang/IllegalStateException".as_ptr());
        if !class.is_null() {
            ((**env).v1_1.ThrowNew)(env, class, text.as_ptr());
        }
    }
    otherwise
}

/// Begins a call: its id; of a call whose first step is "start attempt 1, no timer", that is all. Of another the bits are
/// inverted, and the step is in `out[0]`. [`NO_WORD`] for a request that there is none of (no id is 0).
///
/// # Safety
/// For the JVM: `handle` is the engine that the receiver keeps, and `out` has a place.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_dev_tidegate_internal_Native_begin(
    env: *mut JNIEnv,
    _this: jobject,
    handle: jlong,
    route: jlong,
    flags: jlong,
    remaining: jlong,
    parent: jlong,
    target: jlong,
    now: jlong,
    out: jlongArray,
) -> jlong {
    caught(|| {
        const FIRST: u64 = 1 | 1 << 12;
        // SAFETY: the receiver keeps the engine, and it is reachable while its method runs.
        let engine = unsafe { engine(handle as u64) };
        let begun = engine.begin_word(
            route as u64,
            flags as u64,
            remaining as u64,
            parent as u64,
            target as u64,
            now as u64,
        );
        match begun {
            Some((call, FIRST)) => call as jlong,
            Some((call, step)) => {
                let word = step as jlong;
                // SAFETY: `env` is this thread's; the array has a place, else the JVM throws on return.
                unsafe { ((**env).v1_1.SetLongArrayRegion)(env, out, 0, 1, &raw const word) };
                !(call as jlong)
            }
            None => NO_WORD,
        }
    })
    .unwrap_or_else(|bug| thrown(env, &bug, NO_WORD))
}

/// Tells a call what happened: the word of its next step, or [`NO_WORD`].
///
/// # Safety
/// As for `begin`.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_dev_tidegate_internal_Native_on(
    env: *mut JNIEnv,
    _this: jobject,
    handle: jlong,
    call: jlong,
    event: jlong,
    now: jlong,
) -> jlong {
    caught(|| {
        // SAFETY: as for `begin`.
        let step = unsafe { engine(handle as u64) }.on_word(call as u64, event as u64, now as u64);
        step.map_or(NO_WORD, |step| step as jlong)
    })
    .unwrap_or_else(|bug| thrown(env, &bug, NO_WORD))
}

/// Takes woken calls out, as many as fit: how many.
///
/// # Safety
/// As for `begin`.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_dev_tidegate_internal_Native_woken(
    env: *mut JNIEnv,
    _this: jobject,
    handle: jlong,
    out: jlongArray,
) -> jint {
    caught(|| {
        // SAFETY: as for `begin`.
        let engine = unsafe { engine(handle as u64) };
        // SAFETY: `env` is this thread's, and `out` an array.
        let room = unsafe { ((**env).v1_1.GetArrayLength)(env, out) };
        let words: Vec<jlong> = {
            let mut state = engine.state.lock();
            let count = state.woken.len().min(room.max(0) as usize);
            state.woken.drain(..count).map(|call| call.to_word() as jlong).collect()
        };
        // SAFETY: no more than there is room for.
        unsafe { ((**env).v1_1.SetLongArrayRegion)(env, out, 0, words.len() as jint, words.as_ptr()) };
        words.len() as jint
    })
    .unwrap_or_else(|bug| thrown(env, &bug, 0))
}

/// Reads the clock from now on wherever the time is -1: the clock of the host's that says `ns` now, which is asked for
/// again if we are slow. No where that costs no less than the host's own way.
///
/// # Safety
/// As for `begin`.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_dev_tidegate_internal_Native_clock(
    env: *mut JNIEnv,
    _this: jobject,
    handle: jlong,
    ns: jlong,
) -> jboolean {
    caught(|| {
        // SAFETY: as for `begin`.
        let state = &mut *unsafe { engine(handle as u64) }.state.lock();
        state.ticks = Ticks::new(ns as u64);
        state.ticks.is_some()
    })
    .unwrap_or_else(|bug| thrown(env, &bug, false))
}

/// Are there records that somebody who listens wants to hear? Asked after each step, where everything else is dear.
///
/// # Safety
/// As for `begin`.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_dev_tidegate_internal_Native_hasEvents(
    env: *mut JNIEnv,
    _this: jobject,
    handle: jlong,
) -> jboolean {
    caught(|| {
        // SAFETY: as for `begin`.
        let state = unsafe { engine(handle as u64) }.state.lock();
        !state.heard.is_empty() && state.core.has_records()
    })
    .unwrap_or_else(|bug| thrown(env, &bug, false))
}

/// Takes spans for histograms out, four numbers each, as many as fit: how many.
///
/// # Safety
/// As for `begin`.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_dev_tidegate_internal_Native_timings(
    env: *mut JNIEnv,
    _this: jobject,
    handle: jlong,
    out: jlongArray,
) -> jint {
    caught(|| {
        // SAFETY: as for `begin`.
        let engine = unsafe { engine(handle as u64) };
        // SAFETY: `env` is this thread's, and `out` an array.
        let room = unsafe { ((**env).v1_1.GetArrayLength)(env, out) }.max(0) as usize / 4;
        let words: Vec<jlong> = {
            let mut state = engine.state.lock();
            let Some(measured) = &mut state.measured else { return 0 };
            let count = measured.timings.len().min(room);
            measured.timings.drain(..count).flatten().map(|word| word as jlong).collect()
        };
        // SAFETY: no more than there is room for.
        unsafe { ((**env).v1_1.SetLongArrayRegion)(env, out, 0, words.len() as jint, words.as_ptr()) };
        words.len() as jint / 4
    })
    .unwrap_or_else(|bug| thrown(env, &bug, 0))
}

/// The outcome of an HTTP answer, at its place in the word of a Finished event. `headers` are name, NUL, value, NUL, and so on.
///
/// # Safety
/// As for `begin`.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn Java_dev_tidegate_internal_Native_classify(
    env: *mut JNIEnv,
    _this: jobject,
    handle: jlong,
    policy: jint,
    status: jint,
    headers: jbyteArray,
    wall_us: jlong,
) -> jlong {
    caught(|| {
        // SAFETY: as for `begin`.
        let engine = unsafe { engine(handle as u64) };
        // SAFETY: `env` is this thread's, and `headers` an array.
        let length = unsafe { ((**env).v1_1.GetArrayLength)(env, headers) };
        let mut text = vec![0_u8; length.max(0) as usize];
        // SAFETY: there is room for all of it.
        unsafe { ((**env).v1_1.GetByteArrayRegion)(env, headers, 0, length, text.as_mut_ptr().cast()) };
        let mut pieces = text.split(|byte| *byte == 0);
        let mut headers = Vec::new();
        while let (Some(name), Some(value)) = (pieces.next(), pieces.next()) {
            headers.push((name, value));
        }
        let failure = HttpFailure { status: status as u16, headers: &headers };
        let wall = WallTime::from_unix_micros(wall_us as u64);
        let policy = PolicyId::from_word(policy as u32);
        let outcome = engine.state.lock().core.classify_read(policy, &failure, b"", wall);
        wire::pack_outcome(outcome) as jlong
    })
    .unwrap_or_else(|bug| thrown(env, &bug, NO_WORD))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jni_sys::{JNINativeInterface_, jclass};
    use std::cell::RefCell;
    use std::ffi::{CStr, c_char};
    use std::mem::MaybeUninit;

    thread_local! {
        static THROWN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    unsafe extern "system" fn find(_env: *mut JNIEnv, name: *const c_char) -> jclass {
        name.cast_mut().cast()
    }

    unsafe extern "system" fn throw(_env: *mut JNIEnv, class: jclass, text: *const c_char) -> jint {
        // SAFETY: both are what `thrown` gave.
        let words = unsafe { [CStr::from_ptr(class.cast()), CStr::from_ptr(text)] };
        THROWN.with_borrow_mut(|thrown| thrown.extend(words.map(|word| word.to_string_lossy().into_owned())));
        0
    }

    #[test]
    fn a_panic_is_an_exception_of_java() {
        let mut table = MaybeUninit::<JNINativeInterface_>::zeroed();
        // SAFETY: only these two are called.
        unsafe {
            (&raw mut (*table.as_mut_ptr()).v1_1.FindClass).write(find);
            (&raw mut (*table.as_mut_ptr()).v1_1.ThrowNew).write(throw);
        }
        let mut env: JNIEnv = table.as_ptr();
        let answer = caught(|| panic!("a\0bug")).unwrap_or_else(|bug| thrown(&raw mut env, &bug, NO_WORD));
        assert_eq!(answer, NO_WORD);
        let seen = THROWN.take();
        assert_eq!(seen[0], "java/lang/IllegalStateException");
        assert_eq!(seen[1], "tidegate: internal error, please report it: a bug");
        assert_eq!(thrown(&raw mut env, "again", 0), 0);
    }
}
