//! A process that ends and begins again: its calls are over, what its engine has learned goes on in another one.

use tidegate::{Class, Duration, Engine, Event, Options, Outcome, Policy, Restored};

use super::{Op, POLICIES, World};
use crate::clock::Clock;

impl World {
    /// All calls are cancelled, and their attempts reported, at this moment.
    pub fn end_calls(&mut self) {
        for n in (0..self.calls.len()).rev() {
            if self.calls[n].done.is_none() {
                self.send(n, Event::Cancel);
            }
        }
        for n in (0..self.calls.len()).rev() {
            for attempt in self.calls[n].running.clone() {
                self.send(n, Event::Finished { attempt, outcome: Outcome::of(Class::Cancelled) });
            }
        }
        self.check();
        let books = self.engine.snapshot(self.now());
        assert_eq!((books.live, books.waiting), (0, 0));
        // From here on nobody remembers them, as nobody would in another process.
        self.calls.clear();
        self.by_id.clear();
        self.words.clear();
    }

    /// Another engine takes over after `elapsed`, in a process whose clock begins elsewhere.
    pub fn restart(&mut self, seed: u64, elapsed: u64, origin: u64) -> Restored {
        let saved = self.engine.save(self.now());
        let mut engine = Engine::new(seed, Options::default());
        for (n, settings) in self.settings.iter().enumerate() {
            let policy = Policy::from_pairs(&format!("p{n}"), POLICIES[*settings]).unwrap();
            assert_eq!(engine.policy(policy).unwrap(), self.policies[n]);
        }
        self.engine = engine;
        let span = Duration::from_micros(elapsed);
        let lived = self.time + elapsed - self.born;
        (self.reading, self.time) = (origin, origin + lived);
        self.clock = Clock::new(origin);
        self.born = origin;
        let restored = self.engine.restore(&saved, span, self.now()).unwrap();
        self.engine.check().unwrap();
        restored
    }

    /// From here on the engine's own books say what holds.
    pub fn forget_bounds(&mut self) {
        self.retuned.fill(true);
    }

    /// What the engine would save now.
    pub fn saved(&self) -> String {
        self.engine.save(self.now())
    }

    /// Carries out a script; the words of its steps.
    pub fn script(&mut self, ops: &[Op]) -> Vec<u64> {
        for op in ops {
            self.run(op);
        }
        self.words.clone()
    }
}
