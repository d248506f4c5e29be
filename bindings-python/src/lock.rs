//! The one short lock around an engine.
//!
//! Under a global interpreter lock whoever is attached is alone, so that one is the engine's lock too: no Python code runs
//! while a guard lives, and nothing lets go of the interpreter. What is left is a flag that would tell if it did. Two
//! atomic exchanges for each crossing would be a tenth of a call. A free-threaded interpreter gets a mutex.

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

    // SAFETY: both fields are touched by `lock` and by its guard only. `lock` wants the interpreter, of which only one
    // thread at a time is a part, and the guard cannot leave the thread nor the part of it that is attached.
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
