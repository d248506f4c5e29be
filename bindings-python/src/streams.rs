//! What adapters ask of streams: conversions only.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use tidegate::answer::{Estimate, EventStream, Factors, UNCOUNTED, Usage};
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

/// Tokens of a prompt, of its cached part and of an answer, as far as they are known.
type Tokens = (Option<u64>, Option<u64>, Option<u64>);

/// Reads what an answer of a language model has used, piece by piece.
#[pyclass(frozen, module = "tidegate._native")]
pub struct UsageReader(Mutex<tidegate::answer::UsageReader>);

#[pymethods]
impl UsageReader {
    #[new]
    fn new() -> Self {
        Self(Mutex::new(tidegate::answer::UsageReader::new()))
    }

    /// Reads the next piece.
    #[pyo3(signature = (piece: "bytes") -> "None")]
    fn read(&self, piece: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).read(piece);
    }

    /// The tokens so far: of the prompt, of its cached part, of the answer; `None` where nothing was said.
    #[pyo3(signature = () -> "tuple[int | None, int | None, int | None]")]
    fn tokens(&self) -> Tokens {
        let usage = self.0.lock().unwrap_or_else(PoisonError::into_inner).usage();
        (usage.input, usage.cached, usage.output)
    }
}

/// What a request to a language model is going to use: tokens of its prompt, the most tokens of its answer (`None` if it
/// does not say), and whether it asks for a stream.
#[pyfunction]
#[pyo3(signature = (path: "bytes", body: "bytes") -> "tuple[int, int | None, bool]")]
pub fn estimate_of(path: &[u8], body: &[u8]) -> (u64, Option<u64>, bool) {
    let estimate = Estimate::read(path, body);
    (estimate.input, estimate.output, estimate.stream)
}

/// What tokens count against a limit, with factors in thousandths; `None` without prompt and answer.
#[pyfunction]
#[pyo3(signature = (tokens: "tuple[int | None, int | None, int | None]", factors: "tuple[int, int, int]") -> "int | None")]
pub fn weight_of(tokens: Tokens, factors: (u32, u32, u32)) -> Option<u64> {
    let (input, cached, output) = tokens;
    Usage { input, cached, output }.weight(Factors { input: factors.0, cached: factors.1, output: factors.2 })
}

/// Takes the body of an answer out of the bytes of its connection: it removes the sizes of chunks.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Frames(Mutex<Framing>);

struct Framing {
    at: At,
    /// What is left of the body or of the chunk; of the line of a size, what has been read of it.
    left: u64,
}

/// What the next byte belongs to.
#[derive(Clone, Copy, PartialEq)]
enum At {
    /// A body that ends with its connection.
    Endless,
    /// A body of a known length.
    Body,
    /// The line of a chunk's size.
    Size,
    /// What that line has behind the size.
    Extension,
    Chunk,
    /// The end of line behind a chunk.
    Close,
    /// A line behind the last chunk that is empty so far.
    Trailer,
    /// Such a line that is not.
    Field,
    End,
}

#[pymethods]
impl Frames {
    #[new]
    #[pyo3(signature = (chunked: "bool", length: "int | None"))]
    fn new(chunked: bool, length: Option<u64>) -> Self {
        let at = match length {
            _ if chunked => At::Size,
            Some(0) => At::End,
            Some(_) => At::Body,
            None => At::Endless,
        };
        Self(Mutex::new(Framing { at, left: if chunked { 0 } else { length.unwrap_or(0) } }))
    }

    /// Reads the next bytes: those of them that are the body's, and whether the body has ended.
    #[pyo3(signature = (data: "bytes") -> "tuple[bytes, bool]")]
    fn read(&self, data: &[u8]) -> (std::borrow::Cow<'static, [u8]>, bool) {
        let mut body = Vec::with_capacity(data.len());
        let ended = self.take(data, |part| body.extend_from_slice(part));
        (body.into(), ended)
    }

    /// Reads the next bytes: whether one of them is the body's, and whether the body has ended.
    #[pyo3(signature = (data: "bytes") -> "tuple[bool, bool]")]
    fn skim(&self, data: &[u8]) -> (bool, bool) {
        let mut any = false;
        let ended = self.take(data, |_| any = true);
        (any, ended)
    }
}

impl Frames {
    fn take(&self, data: &[u8], each: impl FnMut(&[u8])) -> bool {
        let mut framing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        framing.take(data, each);
        framing.at == At::End
    }
}

impl Framing {
    /// Gives the parts of the body in the next bytes; none of them is empty.
    fn take(&mut self, mut data: &[u8], mut each: impl FnMut(&[u8])) {
        while let Some((byte, rest)) = data.split_first() {
            match self.at {
                At::Endless => return each(data),
                At::Body | At::Chunk => {
                    let (taken, behind) = data.split_at(self.fitting(data.len()));
                    each(taken);
                    self.left -= taken.len() as u64;
                    if self.left == 0 {
                        self.at = if self.at == At::Body { At::End } else { At::Close };
                    }
                    data = behind;
                    continue;
                }
                At::Size | At::Extension if *byte == b'\n' => {
                    self.at = if self.left == 0 { At::Trailer } else { At::Chunk };
                }
                At::Size => match char::from(*byte).to_digit(16) {
                    Some(digit) => self.left = self.left.saturating_mul(16).saturating_add(digit.into()),
                    None => self.at = At::Extension,
                },
                At::Close if *byte == b'\n' => self.at = At::Size,
                At::Trailer if *byte == b'\n' => self.at = At::End,
                At::Field if *byte == b'\n' => self.at = At::Trailer,
                At::Trailer if *byte != b'\r' => self.at = At::Field,
                At::Extension | At::Close | At::Trailer | At::Field => {}
                At::End => break,
            }
            data = rest;
        }
    }

    fn fitting(&self, len: usize) -> usize {
        usize::try_from(self.left).map_or(len, |left| left.min(len))
    }
}
