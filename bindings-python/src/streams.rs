//! What adapters ask of streams: conversions only.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use tidegate::answer::{Estimate, EventStream, UNCOUNTED};
use tidegate::{Outcome, wire};

/// Reads a stream of server-sent events piece by piece.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Events(Mutex<EventStream>);

#[pymethods]
impl Events {
    #[new]
    fn new() -> Self {
        Self(Mutex::new(EventStream::new(UNCOUNTED)))
    }

    /// Reads the next piece: whether it counts, and the outcome that its failure means; 0 without a failure.
    #[pyo3(signature = (piece: "bytes") -> "tuple[bool, int]")]
    fn read(&self, piece: &[u8]) -> (bool, u64) {
        let read = self.0.lock().unwrap_or_else(PoisonError::into_inner).read(piece);
        let outcome = read.failure.map_or(0, |failure| {
            let class = failure.meaning.class();
            wire::pack_outcome(Outcome { retry_after: failure.retry_after, ..Outcome::of(class) })
        });
        (read.counts, outcome)
    }
}

/// Whether a request to a language model asks for a stream, by its path or its body.
#[pyfunction]
#[pyo3(signature = (path: "bytes", body: "bytes") -> "bool")]
pub fn asks_for_stream(path: &[u8], body: &[u8]) -> bool {
    Estimate::read(path, body).stream
}
