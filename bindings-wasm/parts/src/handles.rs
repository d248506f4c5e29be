//! The storage of parts, by handle.

use std::any::Any;
use std::cell::RefCell;

use wasm_bindgen::prelude::wasm_bindgen;

use crate::slab::Slab;

/// What is stored. The host never asks for a part of another kind, because its classes own the handles.
trait Part: Any {
    fn copy(&self) -> Box<dyn Part>;
}

impl<P: Any + Clone> Part for P {
    fn copy(&self) -> Box<dyn Part> {
        Box::new(self.clone())
    }
}

thread_local! {
    static PARTS: RefCell<Slab<Box<dyn Part>>> = RefCell::default();
}

/// Stores a part and returns its handle.
pub fn keep(part: impl Any + Clone) -> u32 {
    PARTS.with_borrow_mut(|parts| parts.add(Box::new(part)))
}

/// Runs work with a part.
///
/// # Panics
/// An unknown handle is a bug of the JavaScript half, and traps.
#[inline]
pub fn with<P: Any, T>(handle: u32, work: impl FnOnce(&mut P) -> T) -> T {
    PARTS.with_borrow_mut(|parts| {
        let part: &mut dyn Any = parts.get(handle).expect("a part has this handle").as_mut();
        work(part.downcast_mut().expect("the part of this handle is another"))
    })
}

/// Copies a part and returns the handle of the copy.
#[wasm_bindgen]
pub fn part_copy(handle: u32) -> u32 {
    PARTS.with_borrow_mut(|parts| {
        let copy = parts.get(handle).expect("a part has this handle").as_ref().copy();
        parts.add(copy)
    })
}

/// Drops a part. Its handle is reused.
#[wasm_bindgen]
pub fn part_free(handle: u32) {
    PARTS.with_borrow_mut(|parts| parts.remove(handle));
}

/// The number of parts stored, for tests.
#[wasm_bindgen]
pub fn part_count() -> u32 {
    PARTS.with_borrow(|parts| (parts.places.len() - parts.free.len()) as u32)
}
