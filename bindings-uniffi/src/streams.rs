//! Timeouts of streams (semantics 7.7): the pieces of a body that count, and the time that attempts have. This file only converts.

use std::sync::Arc;

use parking_lot::Mutex;
use tidegate::answer::{EventStream, UNCOUNTED};
use tidegate::{CallId, Outcome, Time, wire};

use crate::Engine;

/// Reader of one stream of server-sent events.
#[derive(uniffi::Object)]
pub struct EventReader {
    stream: Mutex<EventStream>,
}

#[uniffi::export]
impl EventReader {
    /// A reader at the beginning of a stream.
    #[uniffi::constructor]
    pub fn new() -> Arc<Self> {
        Arc::new(Self { stream: Mutex::new(EventStream::new(UNCOUNTED)) })
    }

    /// Reads the next piece. Returns the outcome of the last failure that it reports, at its position in the word of a Finished event; bit 0
    /// says whether the piece counts.
    pub fn read(&self, piece: Vec<u8>) -> u64 {
        let read = self.stream.lock().read(&piece);
        let failure = read.failure.map_or(0, |failure| {
            let class = failure.meaning.class();
            wire::pack_outcome(Outcome { retry_after: failure.retry_after, ..Outcome::of(class) })
        });
        failure | u64::from(read.counts)
    }
}

#[uniffi::export]
impl Engine {
    /// Time that the running attempt of a call has until its delivery, in microseconds; nothing without a limit. A step's own time may end
    /// earlier, with a report of silence.
    pub fn time_left(&self, call: u64, now: u64) -> Option<u64> {
        let mut state = self.state.lock();
        let now = state.time(now);
        state.core.time_left(CallId::from_word(call), now).attempt.map(tidegate::Duration::as_micros)
    }

    /// Time that a live call has until its deadline, in microseconds, for calls of other engines inside it (semantics 7.3.3). Nothing without
    /// a deadline, and for a call that has ended.
    pub fn call_time_left(&self, call: u64, now: u64) -> Option<u64> {
        let mut state = self.state.lock();
        let now = state.time(now);
        state.core.time_left(CallId::from_word(call), now).call.map(tidegate::Duration::as_micros)
    }

    /// Whether a call of this engine has not ended.
    pub fn is_live(&self, call: u64) -> bool {
        self.state.lock().core.time_left(CallId::from_word(call), Time::from_micros(0)).live
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pair, Value};

    /// Semantics 7.7.13 and 7.7.21.
    #[test]
    fn data_counts_and_a_failure_has_its_class() {
        let reader = EventReader::new();
        assert_eq!(reader.read(b": comment\n\nevent: ping\ndata: {}\n\n".to_vec()), 0);
        assert_eq!(reader.read(b"data: {}\n\n".to_vec()), 1);
        let failed =
            b"event: error\ndata: {\"type\": \"error\", \"error\": {\"type\": \"overloaded_error\"}}\n\n";
        let throttled = 2 << 11;
        assert_eq!(reader.read(failed.to_vec()), throttled | 1);
    }

    #[test]
    fn the_time_left_is_that_to_the_first_byte() {
        let engine = Engine::new(7, 10, false, 0);
        let span = |key: &str, value| Pair { key: key.into(), value: Value::Number { value } };
        let pairs = vec![span("first_byte_timeout", 3e6), span("idle_timeout", 1e6)];
        let route = engine.route(engine.policy("p", pairs).unwrap(), "eu", 0);
        let begun = engine.begin(route, 2 | 1 << 6 | 1 << 7 | 1 << 24, 0, 0, 0, 0).unwrap();
        assert_eq!(begun.step >> 22, 1 + 1_000_000, "the next report");
        assert_eq!(engine.time_left(begun.call, 500_000), Some(2_500_000));
        assert_eq!(engine.time_left(engine.begin(route, 2 | 1 << 7, 0, 0, 0, 0).unwrap().call, 0), None);
    }

    /// Semantics 7.3.3.
    #[test]
    fn the_time_left_of_a_call_is_that_to_its_deadline() {
        let engine = Engine::new(7, 10, false, 0);
        let span = |key: &str, value| Pair { key: key.into(), value: Value::Number { value } };
        let pairs = vec![span("deadline", 9e6), span("attempt_timeout", 5e6)];
        let route = engine.route(engine.policy("p", pairs).unwrap(), "eu", 0);
        let call = engine.begin(route, 2 | 1 << 7, 0, 0, 0, 0).unwrap().call;
        assert_eq!(engine.call_time_left(call, 1_000_000), Some(8_000_000));
        assert_eq!(engine.call_time_left(call, 10_000_000), Some(0), "it has passed");
        assert!(engine.is_live(call));
        engine.on(call, 4 | 1 << 3, 2_000_000).unwrap();
        assert_eq!(engine.call_time_left(call, 2_000_000), None, "the call has ended");
        assert_eq!(engine.call_time_left(12_345, 0), None);
        assert!(!engine.is_live(call) && !engine.is_live(12_345));
    }
}
