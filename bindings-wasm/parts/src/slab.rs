//! The storage of parts, by handle.

use std::any::Any;
use std::cell::RefCell;

use wasm_bindgen::prelude::wasm_bindgen;

/// What the slab stores. The host never asks for a part of another kind, because its classes own the handles.
trait Part: Any {
    fn copy(&self) -> Box<dyn Part>;
}

impl<P: Any + Clone> Part for P {
    fn copy(&self) -> Box<dyn Part> {
        Box::new(self.clone())
    }
}

#[derive(Default)]
struct Slab {
    places: Vec<Option<Box<dyn Part>>>,
    free: Vec<u32>,
}

thread_local! {
    static SLAB: RefCell<Slab> = RefCell::default();
}

/// Stores a part and returns its handle.
pub fn keep(part: impl Any + Clone) -> u32 {
    add(Box::new(part))
}

fn add(part: Box<dyn Part>) -> u32 {
    SLAB.with_borrow_mut(|slab| {
        let place = slab.free.pop().unwrap_or_else(|| {
            slab.places.push(None);
            slab.places.len() as u32 - 1
        });
        slab.places[place as usize] = Some(part);
        place
    })
}

/// Runs work with a part.
///
/// # Panics
/// An unknown handle is a bug of the JavaScript half, and traps.
#[inline]
pub fn with<P: Any, T>(handle: u32, work: impl FnOnce(&mut P) -> T) -> T {
    SLAB.with_borrow_mut(|slab| {
        let Some(Some(part)) = slab.places.get_mut(handle as usize) else {
            panic!("no part has this handle")
        };
        let part: &mut dyn Any = part.as_mut();
        work(part.downcast_mut().expect("the part of this handle is another"))
    })
}

/// Copies a part and returns the handle of the copy.
#[wasm_bindgen]
pub fn part_copy(handle: u32) -> u32 {
    let copy = SLAB.with_borrow(|slab| Some(slab.places.get(handle as usize)?.as_deref()?.copy()));
    add(copy.expect("a part has this handle"))
}

/// Drops a part. Its handle is reused.
#[wasm_bindgen]
pub fn part_free(handle: u32) {
    SLAB.with_borrow_mut(|slab| {
        if slab.places.get_mut(handle as usize).and_then(Option::take).is_some() {
            slab.free.push(handle);
        }
    });
}

/// The number of parts stored, for tests.
#[wasm_bindgen]
pub fn part_count() -> u32 {
    SLAB.with_borrow(|slab| (slab.places.len() - slab.free.len()) as u32)
}
