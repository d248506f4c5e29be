//! An allocator that counts, for one thread at a time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with a count per thread. Make it the global one:
/// `#[global_allocator] static COUNTING: Counting = Counting;`.
pub struct Counting;

/// What this thread has allocated since it started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Allocations and reallocations.
    pub times: u64,
    /// Bytes that are allocated and have not been freed; below 0 where others' memory was freed.
    pub bytes: i64,
}

impl Tally {
    /// What has come since an earlier one.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { times: self.times - earlier.times, bytes: self.bytes - earlier.bytes }
    }
}

thread_local! {
    static TALLY: Cell<Tally> = const { Cell::new(Tally { times: 0, bytes: 0 }) };
}

/// This thread's tally.
pub fn tally() -> Tally {
    TALLY.with(Cell::get)
}

fn count(times: u64, bytes: i64) {
    // A thread that ends frees after its tally has gone.
    let _ = TALLY.try_with(|tally| {
        let so_far = tally.get();
        tally.set(Tally { times: so_far.times + times, bytes: so_far.bytes + bytes });
    });
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

// SAFETY: every call goes to the system's allocator as it came; counting touches no memory of theirs and allocates none.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, signed(layout.size()));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, signed(layout.size()));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, signed(size) - signed(layout.size()));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        count(0, -signed(layout.size()));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(old, layout) }
    }
}
