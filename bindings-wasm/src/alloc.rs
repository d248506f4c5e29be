//! Memory for the small module: the standard library's allocator would be a tenth of it.
//!
//! Blocks are powers of two, from 16 bytes on; what is given back is kept for the next of its size. A vector that grows
//! leaves as much behind as it has, and a page needs few: engines, routes and calls are kept in vectors.

#![allow(unsafe_code, clippy::cast_ptr_alignment)] // it is an allocator, and its blocks lie at multiples of 16

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::null_mut;

const PAGE: usize = 1 << 16;

/// The blocks that are free, by size, each with the address of the next; and the memory that has not been used yet.
struct Memory {
    free: [*mut u8; 32],
    next: usize,
    end: usize,
}

struct Blocks(UnsafeCell<Memory>);

// SAFETY: the module has one thread.
unsafe impl Sync for Blocks {}

#[global_allocator]
static BLOCKS: Blocks = Blocks(UnsafeCell::new(Memory { free: [null_mut(); 32], next: 0, end: 0 }));

/// The power of two that a block of this size is.
fn class(size: usize) -> usize {
    (usize::BITS - (size.max(16) - 1).leading_zeros()) as usize
}

impl Memory {
    /// Memory that has not been used before. Blocks lie at multiples of 16, which is more than any layout asks for.
    fn fresh(&mut self, size: usize) -> *mut u8 {
        if self.end - self.next < size {
            let pages = size.div_ceil(PAGE);
            let from = core::arch::wasm32::memory_grow(0, pages);
            if from == usize::MAX {
                return null_mut();
            }
            // Where nobody else has grown the memory, what is left before goes on.
            if from * PAGE != self.end {
                self.next = from * PAGE;
            }
            self.end = (from + pages) * PAGE;
        }
        let block = self.next;
        self.next += size;
        block as *mut u8
    }
}

// SAFETY: a block is either in a list or given out, never both; its size is at least that of its layout, and its place a
// multiple of 16.
unsafe impl GlobalAlloc for Blocks {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: one thread, and nothing here calls back.
        let memory = unsafe { &mut *self.0.get() };
        let class = class(layout.size());
        let block = memory.free[class];
        if block.is_null() {
            return memory.fresh(1 << class);
        }
        // SAFETY: what lies in a free block is the address of the next.
        memory.free[class] = unsafe { *block.cast::<*mut u8>() };
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above; the block is nobody's from now on.
        unsafe {
            let memory = &mut *self.0.get();
            let class = class(layout.size());
            *block.cast::<*mut u8>() = memory.free[class];
            memory.free[class] = block;
        }
    }
}
