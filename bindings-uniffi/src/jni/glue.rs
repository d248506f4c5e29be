//! Carries a function that uniffi exports over JNI: numbers as they are, everything else as an array of bytes in uniffi's format.
//! `exports.rs` has a line for each, written by `bindings-uniffi/bindgen`; `dev.tidegate.ffi` is the other end.

use jni_sys::{JNIEnv, jbyte, jbyteArray, jdouble, jint, jlong, jobject, jshort, jvalue};
use uniffi::{RustBuffer, RustCallStatus, RustCallStatusCode};

/// What the JVM gives for an argument.
pub trait FromJava {
    /// The JVM's type.
    type Java;
    /// Takes it over.
    ///
    /// # Safety
    /// `env` is this thread's; an array is one of bytes.
    unsafe fn from_java(env: *mut JNIEnv, java: Self::Java) -> Self;
}

/// What the JVM gets for an answer.
pub trait IntoJava {
    /// The JVM's type.
    type Java: Default;
    /// Hands it over.
    ///
    /// # Safety
    /// `env` is this thread's.
    unsafe fn into_java(self, env: *mut JNIEnv) -> Self::Java;
}

macro_rules! numbers {
    ($($rust:ty = $java:ty),*) => {$(
        impl FromJava for $rust {
            type Java = $java;
            #[inline]
            unsafe fn from_java(_: *mut JNIEnv, java: $java) -> Self {
                java as Self
            }
        }
        impl IntoJava for $rust {
            type Java = $java;
            #[inline]
            unsafe fn into_java(self, _: *mut JNIEnv) -> $java {
                self as $java
            }
        }
    )*};
}

numbers!(u8 = jbyte, i8 = jbyte, u16 = jshort, u32 = jint, u64 = jlong, f64 = jdouble);

impl IntoJava for () {
    type Java = ();
    unsafe fn into_java(self, _: *mut JNIEnv) {}
}

/// An array of bytes, or null where there is no memory for it: then an exception is pending.
#[derive(Debug)]
#[repr(transparent)]
pub struct Array(jbyteArray);

impl Default for Array {
    fn default() -> Self {
        Self(std::ptr::null_mut())
    }
}

impl FromJava for RustBuffer {
    type Java = Array;
    unsafe fn from_java(env: *mut JNIEnv, java: Array) -> Self {
        // SAFETY: the caller says so.
        let length = unsafe { ((**env).v1_1.GetArrayLength)(env, java.0) };
        let mut bytes = vec![0_u8; length.max(0) as usize];
        // SAFETY: there is room for all of it.
        unsafe { ((**env).v1_1.GetByteArrayRegion)(env, java.0, 0, length, bytes.as_mut_ptr().cast()) };
        Self::from_vec(bytes)
    }
}

impl IntoJava for RustBuffer {
    type Java = Array;
    unsafe fn into_java(self, env: *mut JNIEnv) -> Array {
        let bytes = self.destroy_into_vec();
        let length = bytes.len() as jint;
        // SAFETY: the caller says so; the array has room for all of it.
        unsafe {
            let array = ((**env).v1_1.NewByteArray)(env, length);
            if !array.is_null() {
                ((**env).v1_1.SetByteArrayRegion)(env, array, 0, length, bytes.as_ptr().cast());
            }
            Array(array)
        }
    }
}

/// Answers what a function of uniffi's has answered, or throws what it has failed with.
///
/// # Safety
/// `env` is this thread's.
#[inline]
pub unsafe fn answered<T: IntoJava>(env: *mut JNIEnv, value: T, status: RustCallStatus) -> T::Java {
    if status.code == RustCallStatusCode::Success {
        // SAFETY: the caller says so.
        return unsafe { value.into_java(env) };
    }
    // What a function that failed answers is uniffi's default: nothing to free.
    // SAFETY: the caller says so.
    unsafe { failed(env, status) };
    T::Java::default()
}

/// Throws a failure: a mistake of the caller's as bytes that Kotlin reads, anything else as a bug of ours.
#[cold]
unsafe fn failed(env: *mut JNIEnv, status: RustCallStatus) {
    let buffer = std::mem::ManuallyDrop::into_inner(status.error_buf);
    if status.code != RustCallStatusCode::Error {
        let reason = <String as uniffi::Lift<crate::UniFfiTag>>::try_lift(buffer).unwrap_or_default();
        return super::thrown(env, &format!("tidegate: internal error, please report it: {reason}"), ());
    }
    // SAFETY: the caller says so; the class and its constructor are ours, and no exception is pending before.
    unsafe {
        let class = ((**env).v1_1.FindClass)(env, c"dev/tidegate/ffi/RustFailure".as_ptr());
        if class.is_null() {
            return;
        }
        let make = ((**env).v1_1.GetMethodID)(env, class, c"<init>".as_ptr(), c"([B)V".as_ptr());
        let bytes = buffer.into_java(env).0;
        if make.is_null() || bytes.is_null() {
            return;
        }
        let failure = ((**env).v1_1.NewObjectA)(env, class, make, [jvalue { l: bytes }].as_ptr());
        if !failure.is_null() {
            ((**env).v1_1.Throw)(env, failure);
        }
    }
}

/// One line of `exports.rs`: a native method, and the function of uniffi's that it calls. A method's object comes along, so that it is
/// not collected meanwhile; uniffi's function takes a reference of its own.
macro_rules! export {
    ($java:ident = $symbol:ident ($($name:ident: $kind:ty),*) -> $answer:ty) => {
        const _: () = {
            use jni_sys::{JNIEnv, jobject};
            #[allow(unused_imports)]
            use uniffi::{RustBuffer, RustCallStatus};
            #[allow(unused_imports)]
            use $crate::jni::glue::{FromJava, IntoJava, answered};
            unsafe extern "C" {
                fn $symbol($($name: $kind,)* status: &mut RustCallStatus) -> $answer;
            }
            #[unsafe(no_mangle)]
            unsafe extern "system" fn $java(
                env: *mut JNIEnv,
                _class: jobject,
                $($name: <$kind as FromJava>::Java,)*
            ) -> <$answer as IntoJava>::Java {
                let mut status = RustCallStatus::default();
                // SAFETY: the JVM gives this thread's `env`; the declarations of both ends were written from the same metadata.
                unsafe {
                    let answer = $symbol($(<$kind>::from_java(env, $name),)* &mut status);
                    answered(env, answer, status)
                }
            }
        };
    };
    ($java:ident = $symbol:ident of $clone:ident ($($name:ident: $kind:ty),*) -> $answer:ty) => {
        const _: () = {
            use jni_sys::{JNIEnv, jlong, jobject};
            #[allow(unused_imports)]
            use uniffi::{RustBuffer, RustCallStatus};
            #[allow(unused_imports)]
            use $crate::jni::glue::{FromJava, IntoJava, answered};
            unsafe extern "C" {
                fn $clone(object: u64, status: &mut RustCallStatus) -> u64;
                fn $symbol(object: u64, $($name: $kind,)* status: &mut RustCallStatus) -> $answer;
            }
            #[unsafe(no_mangle)]
            unsafe extern "system" fn $java(
                env: *mut JNIEnv,
                _class: jobject,
                _owner: jobject,
                object: jlong,
                $($name: <$kind as FromJava>::Java,)*
            ) -> <$answer as IntoJava>::Java {
                let mut status = RustCallStatus::default();
                // SAFETY: as above; the owner is reachable while its method runs, so that the object is there.
                unsafe {
                    let object = $clone(object as u64, &mut status);
                    let answer = $symbol(object, $(<$kind>::from_java(env, $name),)* &mut status);
                    answered(env, answer, status)
                }
            }
        };
    };
}
pub(super) use export;

/// Says which interface this library was built from: Kotlin's half compares.
#[unsafe(no_mangle)]
pub extern "system" fn Java_dev_tidegate_ffi_Interface_hash(_: *mut JNIEnv, _class: jobject) -> jlong {
    super::exports::HASH as jlong
}

#[cfg(test)]
mod tests {
    /// The list is compiled into the library that it is written from, so that nothing else would tell.
    #[test]
    fn every_line_names_a_method_of_kotlins() {
        let lines: Vec<&str> =
            include_str!("exports.rs").lines().filter(|line| line.starts_with("export!(")).collect();
        assert!(lines.len() > 200, "{}", lines.len());
        assert!(lines.iter().all(|line| line.starts_with("export!(Java_dev_tidegate_ffi_Ffi_")));
    }
}
