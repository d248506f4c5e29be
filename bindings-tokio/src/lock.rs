//! The lock around an engine.

use std::hint::spin_loop;

use parking_lot::{Mutex, MutexGuard};

/// Processor pauses before the first try to take a lock that another thread holds: about a microsecond.
const FIRST_WAIT: u32 = 64;
/// The longest wait between two tries, in pauses.
const LONGEST_WAIT: u32 = 256;
/// Tries before the thread sleeps: about 30 µs.
const TRIES: u32 = 7;

/// A mutex for short work on much memory, on cache lines of its own.
///
/// An engine works for less than 0.1 µs on some twenty cache lines. If threads took turns after each piece of work, those lines
/// would move between processors every time, and moving them takes longer than the work. So a thread that finds the lock
/// taken waits for several pieces of work before it tries again, and then has the lines for several of its own (ADR 0060).
#[repr(align(128))]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub const fn new(contents: T) -> Self {
        Self(Mutex::new(contents))
    }

    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        match self.0.try_lock() {
            Some(guard) => guard,
            None => self.wait(),
        }
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) -> MutexGuard<'_, T> {
        let mut pauses = FIRST_WAIT;
        for _ in 0..TRIES {
            for _ in 0..pauses {
                spin_loop();
            }
            pauses = (2 * pauses).min(LONGEST_WAIT);
            // Reads first, because a failed exchange takes the cache line from the thread that works.
            if !self.0.is_locked()
                && let Some(guard) = self.0.try_lock()
            {
                return guard;
            }
        }
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn threads_that_wait_all_get_their_turns() {
        const TURNS: u64 = 20_000;
        let lock = Lock::new(0_u64);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..TURNS).for_each(|_| *lock.lock() += 1));
            }
        });
        assert_eq!(*lock.lock(), 4 * TURNS);
    }

    #[test]
    fn a_thread_that_has_tried_often_enough_sleeps_until_its_turn() {
        let lock = Lock::new(1);
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            let mut guard = lock.lock();
            scope.spawn(|| sender.send(*lock.lock()));
            // Far longer than all tries.
            assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err());
            *guard = 2;
            drop(guard);
            assert_eq!(receiver.recv_timeout(Duration::from_secs(20)), Ok(2));
        });
    }
}
