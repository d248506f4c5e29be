//! What holds at every step, and at the end.

use tidegate::{Class, Event, Outcome, Value::Number, Value::Text};

use super::policies::PLAIN;
use super::{Known, Op, POLICIES, World};

impl World {
    /// Bounds seen from the host's side, independent of the engine's own books.
    pub(super) fn check_bounds(&mut self) {
        for (policy, settings) in self.settings.clone().into_iter().enumerate() {
            let pairs = POLICIES[settings];
            if settings >= PLAIN || policy >= PLAIN {
                // The engine's own books say what holds there; whoever is retuned from it starts with what is out.
                self.allowed.extend((0..2).map(|key| ((policy, key), usize::MAX)));
                continue;
            }
            for key in 0..2u8 {
                let limit = pairs.iter().find_map(|pair| match pair {
                    ("bulkhead.max_concurrency", Number(n)) => Some(*n as usize),
                    _ => None,
                });
                let limit = limit.unwrap_or(usize::MAX);
                let here = |call: &&Known| {
                    (call.policy, call.key) == (policy, key) && !call.shares && call.done.is_none()
                };
                // A host that has been silent for 60 s may have lost its call, and with it the permit (R9). A call that
                // keeps older settings may have a permit for each attempt, and so none between two (spec 0.2).
                let running = self.calls.iter().filter(here).filter(|call| {
                    self.time - call.heard < 60_000_000
                        && call.attempts > 0
                        && (call.settings < PLAIN || !call.running.is_empty())
                });
                // A limit that shrinks evicts nobody, and admits nobody either.
                let held = self.calls.iter().filter(here).filter(|call| call.attempts > 0 || !call.queued);
                let allowed = self.allowed.entry((policy, key)).or_insert(limit);
                *allowed = limit.max(held.count().min(*allowed));
                assert!(running.count() <= *allowed, "I2 at {policy}/{key}");
                if self.retuned[policy] {
                    continue;
                }
                let Some((calls, attempts)) = self.load.get(&(policy, key)) else { continue };
                let seconds = (self.time - self.born) as f64 / 1e6;
                let bound = match policy {
                    // The default budget, `earned`.
                    0 | 1 => 1.18 * *calls as f64 + 2.0,
                    3 => 1.2 * *calls as f64 + 0.5 * seconds + 1.1,
                    2 => 255.0 * *calls as f64,
                    6 => 1.3 * *calls as f64,
                    7 => 6.0 * *calls as f64,
                    8 => 1.1 * *calls as f64 + 5.0,
                    9 => 2.0 * *calls as f64 + 4.0,
                    _ => *calls as f64,
                };
                assert!(
                    *attempts as f64 <= bound + 1e-6,
                    "2.17: {attempts} attempts of {calls} calls in {seconds} s"
                );
            }
        }
    }

    /// Liveness: a host that now behaves brings every call to its one end, and nothing is left behind.
    pub fn drain(&mut self) {
        for _ in 0..2_000 {
            let Some(n) = (0..self.calls.len()).find(|n| self.calls[*n].done.is_none()) else { break };
            if self.calls[n].running.is_empty() {
                // Nobody knows when a permit comes free: everyone may move before time passes.
                for other in n..self.calls.len() {
                    if self.calls[other].done.is_none() {
                        self.report_or_poll(other);
                    }
                }
                if self.calls[n].done.is_none() && self.calls[n].running.is_empty() {
                    let at = self.calls[n].next_at.expect("a wait without running attempts has a timer");
                    let span = at.saturating_sub(self.time).max(1);
                    self.sleep(span);
                    self.send(n, Event::Timer);
                }
            } else {
                self.report_or_poll(n);
            }
            self.deliver_wakes();
            self.engine.check().unwrap();
        }
        for n in 0..self.calls.len() {
            assert!(self.calls[n].done.is_some(), "no end within 2,000 rounds: {:?}", self.calls[n]);
            for attempt in self.calls[n].running.clone() {
                self.send(n, Event::Finished { attempt, outcome: Outcome::of(Class::Ok) });
            }
        }
        self.deliver_wakes();
        // What was lost and never told is recycled by the reaper.
        for _ in 0..4 {
            self.sleep(61_000_000);
            for _ in 0..self.calls.len() + 4 {
                let _ = self.engine.route(self.policies[0], "reaper", self.now());
                self.run(&Op::Begin {
                    policy: 0,
                    key: 0,
                    remaining: Some(0),
                    flags: 255,
                    more: 6,
                    parent: None,
                });
            }
        }
        let snapshot = self.engine.snapshot(self.now());
        assert_eq!(
            (snapshot.live, snapshot.lingering, snapshot.lost, snapshot.waiting),
            (0, 0, 0, 0),
            "{snapshot:?}"
        );
        for route in &snapshot.routes {
            assert_eq!(route.active, 0, "{route:?}");
            assert!(route.pool.is_none_or(|pool| pool.in_flight == 0 && pool.waiting == 0), "{route:?}");
        }
        // R1, counted by the engine: as many ends as begins.
        let ends: u64 = snapshot.policies.iter().flat_map(|(_, counts)| counts.ends).sum();
        assert_eq!(ends, self.calls.len() as u64);
    }

    fn report_or_poll(&mut self, n: usize) {
        match self.calls[n].running.first().copied() {
            Some(attempt) => self.send(n, Event::Finished { attempt, outcome: Outcome::of(Class::Ok) }),
            None => self.send(n, Event::Poll),
        }
    }
}
