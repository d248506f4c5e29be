//! Readers of streamed answers, for adapters: which pieces count (semantics 7.7.13), and which failures they report. This file only
//! converts.

use tidegate::answer::{EventStream, UNCOUNTED};
use tidegate::{Outcome, wire};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::host::host;
use crate::texts::texts;

/// Makes a reader of a stream of server-sent events, and returns its number.
#[wasm_bindgen]
pub fn events() -> u32 {
    host(|host| host.streams.add(EventStream::new(UNCOUNTED)))
}

/// Reads the piece in the input. Returns the outcome of the last failure that it reports, at its position in the word of a Finished
/// event; bit 0 says whether the piece counts.
#[wasm_bindgen]
pub fn read_events(reader: u32) -> f64 {
    host(|host| {
        let Some(stream) = host.streams.get(reader) else { return 0.0 };
        let read = texts(|it| stream.read(&it.input));
        let failure = read.failure.map_or(0, |failure| {
            let class = failure.meaning.class();
            wire::pack_outcome(Outcome { retry_after: failure.retry_after, ..Outcome::of(class) })
        });
        (failure | u64::from(read.counts)) as f64
    })
}

/// Drops a reader. Its number may be given to the next one.
#[wasm_bindgen]
pub fn forget_events(reader: u32) {
    host(|host| host.streams.remove(reader));
}
