//! What requests to language models are going to use, and what their answers have used (semantics 15.6 and 15.7).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Buf;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use http_body::Frame;
use tidegate::CallId;
#[cfg(feature = "reqwest")]
use tidegate::answer::Estimate;
use tidegate::answer::{Factors, Usage, UsageReader};

use crate::policy::Site;
use crate::weights::Weights;

#[cfg(feature = "reqwest")]
pub(crate) type Weigh = dyn Fn(Estimate) -> Option<Weights> + Send + Sync;
pub(crate) type Used = dyn Fn(Usage) -> Option<Weights> + Send + Sync;

/// The last event of `OpenAI`'s streams, after which some readers drop the answer.
const DONE: &[u8] = b"[DONE]";
/// Bytes at the end of a body in which it is looked for.
const END: usize = 32;

/// Counts the tokens of requests and answers for one weight: see `Guard::tokens`.
///
/// ```
/// use tidegate_tokio::Tokens;
/// use tidegate_tokio::tidegate::answer::{Factors, Usage};
/// let bedrock = Tokens::new().output(800).factors(Factors { output: 5_000, ..Factors::TOKENS });
/// let usage = Usage { input: Some(100), cached: None, output: Some(20) };
/// assert_eq!(bedrock.totals(usage), Some([("tokens", 200)].into()));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tokens {
    weight: Box<str>,
    output: u64,
    factors: Factors,
}

impl Default for Tokens {
    fn default() -> Self {
        Self::new()
    }
}

impl Tokens {
    /// Counts for the weight `tokens`, with an answer of 1,000 tokens where a request does not limit it.
    pub fn new() -> Self {
        Self { weight: "tokens".into(), output: 1_000, factors: Factors::TOKENS }
    }

    /// Sets the weight that the tokens count for.
    #[must_use]
    pub fn weight(self, weight: impl Into<Box<str>>) -> Self {
        Self { weight: weight.into(), ..self }
    }

    /// Sets how many tokens an answer is taken to have if its request does not limit them.
    #[must_use]
    pub fn output(self, output: u64) -> Self {
        Self { output, ..self }
    }

    /// Sets how much each kind of token counts, in thousandths. Amazon Bedrock counts the answers of some models five times.
    #[must_use]
    pub fn factors(self, factors: Factors) -> Self {
        Self { factors, ..self }
    }

    /// What a request is going to use.
    #[cfg(feature = "reqwest")]
    pub(crate) fn weights(&self, request: Estimate) -> Weights {
        Weights::new([(self.weight.clone(), request.weight(self.output, self.factors))])
    }

    /// What an answer has used; `None` if it says neither what its prompt nor what its text has used.
    pub fn totals(&self, answer: Usage) -> Option<Weights> {
        Some(Weights::new([(self.weight.clone(), answer.weight(self.factors)?)]))
    }
}

/// Reads what one answer has used while its body passes by.
pub(crate) struct Meter {
    used: Arc<Used>,
    reader: UsageReader,
    /// The last bytes, and how many there are.
    last: ([u8; END], usize),
    /// Whether the body has been read to its end.
    whole: bool,
}

impl Meter {
    /// The meter of an answer; `None` for one in an encoding, which nothing here decodes.
    pub fn of(used: Option<&Arc<Used>>, headers: &HeaderMap) -> Option<Box<Self>> {
        let used = used?;
        let plain =
            headers.get(CONTENT_ENCODING).is_none_or(|it| it.as_bytes().eq_ignore_ascii_case(b"identity"));
        if !plain {
            return None;
        }
        let used = Arc::clone(used);
        Some(Box::new(Self { used, reader: UsageReader::new(), last: ([0; END], 0), whole: false }))
    }

    /// Reads a piece of the body.
    pub fn read<D: Buf>(&mut self, frame: &Frame<D>) {
        let Some(piece) = frame.data_ref() else { return };
        let mut parts = [std::io::IoSlice::new(&[]); 16];
        let many = piece.chunks_vectored(&mut parts);
        for part in &parts[..many] {
            self.reader.read(part);
            let (last, size) = &mut self.last;
            let new = &part[part.len().saturating_sub(END)..];
            let kept = (*size).min(END - new.len());
            last.copy_within(*size - kept..*size, 0);
            last[kept..kept + new.len()].copy_from_slice(new);
            *size = kept + new.len();
        }
    }

    /// Notes that the body has been read to its end.
    pub fn end(&mut self) {
        self.whole = true;
    }

    /// Settles at the end of a whole body, or of one that is dropped after the last event of a stream. Of another one nobody
    /// knows what it has used, so its reservation counts.
    pub fn settle(&self, site: &Site, call: CallId, attempt: u8) {
        let (last, size) = &self.last;
        if !self.whole && !last[..*size].windows(DONE.len()).any(|word| word == DONE) {
            return;
        }
        let usage = self.reader.usage();
        if usage.input.is_none() && usage.output.is_none() {
            return;
        }
        let totals = catch_unwind(AssertUnwindSafe(|| (self.used)(usage))).ok().flatten();
        for (weight, total) in totals.iter().flat_map(Weights::named) {
            site.shared().look(|core, now| core.engine.settle_weight(call, attempt, weight, total, now));
        }
    }
}
