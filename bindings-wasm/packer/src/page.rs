//! What a page loads: what is packed goes in, the module comes out.

use core::mem::MaybeUninit;

use crate::Mind;
use crate::read::Reader;

/// Zeros, which are not in the module's file.
static mut MIND: MaybeUninit<Mind> = MaybeUninit::zeroed();

/// The one there is.
fn mind() -> &'static mut Mind {
    // SAFETY: there is one thread, each export takes it once and returns, and zeros are a mind.
    unsafe { (*(&raw mut MIND)).assume_init_mut() }
}

/// Where what is packed goes.
#[unsafe(no_mangle)]
pub extern "C" fn packed() -> *mut u8 {
    mind().packed.as_mut_ptr()
}

/// Unpacks this many bytes, once: where they are. The code of the module starts and ends at these places.
#[unsafe(no_mangle)]
pub extern "C" fn unpack(size: u32, start: u32, end: u32) -> *const u8 {
    let mind = mind();
    mind.grammar.start(start, end);
    let bits = mind.codes.find(&mind.packed, 0);
    let mut reader = Reader::new(&mind.packed, bits);
    mind.unpack(size as usize, &mut reader);
    mind.output.as_ptr()
}
