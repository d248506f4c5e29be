//! An allocator that counts allocations, for each thread separately.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with a count per thread. Make it the global one:
/// `#[global_allocator] static COUNTING: Counting = Counting;`.
pub struct Counting;

/// Allocations of this thread since it started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Number of allocations and reallocations.
    pub times: u64,
    /// Bytes that are allocated and not yet freed; negative if the thread freed memory of other threads.
    pub bytes: i64,
}

impl Tally {
    /// The difference from an earlier tally.
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
    // A thread that ends may free memory after its tally is gone.
    let _ = TALLY.try_with(|tally| {
        let so_far = tally.get();
        tally.set(Tally { times: so_far.times + times, bytes: so_far.bytes + bytes });
    });
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

// SAFETY: every call is forwarded unchanged to the system's allocator; counting touches none of its memory and
// allocates none.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, signed(layout.size()));
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, signed(layout.size()));
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(1, signed(size) - signed(layout.size()));
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        count(0, -signed(layout.size()));
        // SAFETY: the caller's guarantees are passed on.
        unsafe { System.dealloc(old, layout) }
    }
}
