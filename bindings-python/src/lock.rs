//! The one short lock around an engine.
//!
//! With a global interpreter lock only one thread is attached at a time, so that lock also protects the engine: while a
//! guard lives, no Python code runs and the interpreter is not released. A flag detects violations. Two atomic exchanges
//! per crossing would cost a tenth of a call. On a free-threaded interpreter the lock is a mutex.

#[cfg(Py_GIL_DISABLED)]
mod kind {
    use parking_lot::{Mutex, MutexGuard};
    use pyo3::Python;

    pub struct Lock<T>(Mutex<T>);
    pub type Guard<'a, T> = MutexGuard<'a, T>;

    impl<T> Lock<T> {
        pub fn new(value: T) -> Self {
            Self(Mutex::new(value))
        }

        /// Waits until it is this thread's turn; never for Python code.
        pub fn lock(&self, _py: Python<'_>) -> Guard<'_, T> {
            self.0.lock()
        }
    }
}

#[cfg(not(Py_GIL_DISABLED))]
mod kind {
    use std::cell::{Cell, UnsafeCell};
    use std::marker::PhantomData;
    use std::ops::{Deref, DerefMut};

    use pyo3::Python;

    pub struct Lock<T> {
        taken: Cell<bool>,
        value: UnsafeCell<T>,
    }

    // SAFETY: only `lock` and its guard access the fields. `lock` requires an attached thread, of which there is one at a
    // time. The guard cannot leave its thread, nor outlive the time for which that thread is attached.
    unsafe impl<T: Send> Sync for Lock<T> {}

    /// The value, for as long as this lives. It holds on to the interpreter.
    pub struct Guard<'a, T> {
        lock: &'a Lock<T>,
        _attached: PhantomData<*const ()>,
    }

    impl<T> Lock<T> {
        pub fn new(value: T) -> Self {
            Self { taken: Cell::new(false), value: UnsafeCell::new(value) }
        }

        /// Takes it.
        ///
        /// # Panics
        /// If a guard is alive, which would be a bug here: no Python code runs while there is one.
        #[inline(always)]
        pub fn lock<'a>(&'a self, _py: Python<'a>) -> Guard<'a, T> {
            assert!(!self.taken.replace(true), "the engine's lock is taken");
            Guard { lock: self, _attached: PhantomData }
        }
    }

    impl<T> Deref for Guard<'_, T> {
        type Target = T;

        #[inline(always)]
        fn deref(&self) -> &T {
            // SAFETY: there is one guard at a time.
            unsafe { &*self.lock.value.get() }
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        #[inline(always)]
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: there is one guard at a time.
            unsafe { &mut *self.lock.value.get() }
        }
    }

    impl<T> Drop for Guard<'_, T> {
        #[inline(always)]
        fn drop(&mut self) {
            self.lock.taken.set(false);
        }
    }
}

pub use kind::{Guard, Lock};
