//! Why a call waits, or ended as it did, and journals that are played again. Conversions and nothing else.

use tidegate::{CallId, Input};

use crate::{Engine, Event, Invalid};

/// How things stand with a call, or how it ended. Moments are times of the engine's clock.
#[derive(Clone, Debug, uniffi::Record)]
pub struct CallExplanation {
    /// The call's number.
    pub call: u64,
    /// The policy's name.
    pub policy: String,
    /// The route's key.
    pub route: String,
    /// When it began.
    pub began_us: u64,
    /// The moment that this is about.
    pub at_us: u64,
    /// Attempts started.
    pub attempts: u8,
    /// How it stands, in words.
    pub standing: String,
    /// What it waits for; absent where it does not.
    pub why: Option<String>,
    /// Until when at most; absent where nothing bounds it.
    pub until_us: Option<u64>,
    /// Its deadline.
    pub deadline_us: Option<u64>,
    /// How it ended, or the verdict that its owner will get. Absent while that is open.
    pub reason: Option<String>,
    /// The numbers of its route: of a call that has ended, just before the step that ended it.
    pub numbers: Vec<String>,
    /// What was decided about it, of a call that has ended.
    pub story: Vec<Event>,
    /// All of it, for people.
    pub text: String,
}

/// What an engine said to a journal.
#[derive(Clone, Debug, uniffi::Record)]
pub struct Replayed {
    /// Its answer to each line.
    pub answers: Vec<String>,
    /// Where its clock stands then, in microseconds.
    pub now_us: u64,
}

#[uniffi::export]
impl Engine {
    /// How things stand with a call, or how it ended; nothing where this engine knows nothing of it. A call that has ended
    /// is known from the journal, as long as nothing has been taken from that; or from the history.
    pub fn explain_call(&self, call: u64) -> Option<CallExplanation> {
        let state = self.state.lock();
        let of = state.core.explain_call(CallId::from_word(call))?;
        Some(CallExplanation {
            text: of.to_string(),
            call: of.call.to_word(),
            began_us: of.began.as_micros(),
            at_us: of.at.as_micros(),
            attempts: of.attempts,
            why: of.why.map(|why| why.name().to_owned()),
            until_us: of.until.map(tidegate::Time::as_micros),
            deadline_us: of.deadline.map(tidegate::Time::as_micros),
            reason: of.verdict.map(|verdict| verdict.name().to_owned()),
            story: of.story.iter().map(|record| Event::of(record, &state.core)).collect(),
            policy: of.policy,
            route: of.route,
            standing: of.standing,
            numbers: of.numbers,
        })
    }

    /// The lines of the journal that have not been taken, which stay in it.
    pub fn journal(&self) -> Vec<String> {
        self.state.lock().core.journal().map(ToString::to_string).collect()
    }

    /// Puts the lines of a journal in.
    ///
    /// # Errors
    /// A line that is none: its number, why, and the line. Nothing has been put in then.
    pub fn replay(&self, lines: Vec<String>) -> Result<Replayed, Invalid> {
        let mut inputs = Vec::with_capacity(lines.len());
        for (number, line) in lines.iter().enumerate() {
            let input: Input = line.parse().map_err(|error| Invalid::State {
                reason: format!("journal, line {}: {error}: {line}", number + 1),
            })?;
            inputs.push(input);
        }
        let mut state = self.state.lock();
        let answers = state.core.replay(inputs);
        state.count();
        let now_us = state.core.now().as_micros();
        Ok(Replayed { answers: answers.iter().map(|answer| format!("{answer:?}")).collect(), now_us })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pair, Value};

    #[test]
    fn a_journal_gives_the_same_engine_again_and_explains_its_calls() {
        let engine = Engine::new(7, 10, true, 0);
        let pairs =
            vec![Pair { key: "bulkhead.max_concurrency".into(), value: Value::Number { value: 1.0 } }];
        let policy = engine.policy("p", pairs).unwrap();
        let route = engine.route(policy, "eu", 0);
        let flags = 2 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 7;
        let held = engine.begin(route, flags, 0, 0, 0, 5).unwrap();
        let refused = engine.begin(route, flags, 0, 0, 0, 9).unwrap();
        let lines = engine.journal();
        assert_eq!(engine.journal(), lines, "it stays where it is");
        let explained = engine.explain_call(refused.call).unwrap();
        assert_eq!((explained.reason.as_deref(), explained.began_us), (Some("queue_full"), 9));
        assert!(engine.explain_call(held.call).unwrap().reason.is_none() && engine.explain_call(0).is_none());

        let again = Engine::new(7, 10, true, 0);
        let replayed = again.replay(lines.clone()).unwrap();
        assert_eq!((replayed.answers.len(), replayed.now_us), (lines.len(), 9));
        assert_eq!(again.explain_call(refused.call).unwrap().text, explained.text);
        let error = again.replay(vec![lines[0].clone(), "nonsense".into()]).unwrap_err().to_string();
        assert!(error.starts_with("journal, line 2: ") && error.ends_with(": nonsense"), "{error}");
    }

    #[test]
    fn fallbacks_are_counted() {
        let engine = Engine::new(7, 10, false, 0);
        let pairs = vec![Pair { key: "deadline".into(), value: Value::Number { value: 1e6 } }];
        let policy = engine.policy("p", pairs).unwrap();
        let route = engine.route(policy, "eu", 0);
        for ok in [true, true, false] {
            engine.note_fallback(route, ok, 0);
        }
        let counts = &engine.snapshot(0).policies["p"];
        assert_eq!((counts.fallbacks, counts.fallback_failures), (2, 1));
    }
}
