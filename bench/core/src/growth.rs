//! The cost of a call beside many others: the same call with 10 to 10⁶ calls, routes or waiters present.

use crate::scenarios::{World, at, finished};
use Value::{Number, Text};
use tidegate::{CallId, Class, Criticality, Event, Request, RouteId, Value};

/// The kind of thing that is present in large numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Many {
    /// Calls whose attempts run.
    Calls,
    /// Routes, which the measured calls use in turn.
    Routes,
    /// Calls in a queue.
    Queue,
    /// Calls in a queue that orders by criticality.
    Prioritized,
    /// Calls that wait for tokens of a rate limit.
    Paced,
}

/// Each kind with its name on the command line.
pub const KINDS: [(&str, Many); 5] = [
    ("calls", Many::Calls),
    ("routes", Many::Routes),
    ("queue", Many::Queue),
    ("prioritized", Many::Prioritized),
    ("paced", Many::Paced),
];

/// An engine with a large number of calls, routes or waiters.
pub struct Crowd {
    world: World,
    many: Many,
    routes: Vec<RouteId>,
    /// The call that holds the permit for which the queue waits.
    holder: Option<CallId>,
    wakes: Vec<CallId>,
    turn: usize,
}

impl Crowd {
    /// An engine with `count` of them. Routes stop at 524,288, the most that an engine has.
    ///
    /// # Panics
    /// Never: the policies are valid.
    pub fn new(many: Many, count: usize) -> Self {
        let mut pairs = vec![("deadline", Number(3_600e6)), ("attempt_timeout", Number(600e6))];
        pairs.extend(match many {
            Many::Calls | Many::Routes => {
                vec![("preset", Text("http")), ("bulkhead.max_concurrency", Number(1e9))]
            }
            Many::Queue | Many::Prioritized => vec![
                ("bulkhead.max_concurrency", Number(1.0)),
                ("bulkhead.max_queue", Number(1e7)),
                ("bulkhead.acquire_timeout", Number(3_600e6)),
                ("bulkhead.prioritized", Number(f64::from(u8::from(many == Many::Prioritized)))),
            ],
            Many::Paced => vec![
                ("rate_limit.permits", Number(1.0)),
                ("rate_limit.per", Number(1e3)),
                ("rate_limit.wait", Number(1.0)),
                ("rate_limit.max_waiters", Number(1e7)),
            ],
        });
        let mut world = World::new(&pairs);
        let routes = match many {
            Many::Routes => {
                (0..count.min(1 << 19)).map(|n| world.new_route(&format!("https://host-{n}.example:443")))
            }
            _ => return Self::with_calls(world, many, count),
        };
        let routes = routes.collect();
        Self { world, many, routes, holder: None, wakes: Vec::new(), turn: 0 }
    }

    fn with_calls(mut world: World, many: Many, count: usize) -> Self {
        let queued = many != Many::Calls;
        let holder = queued.then(|| world.engine.begin(world.route, &Request::default(), at(0)).0);
        for n in 0..count {
            let _ = world.engine.begin(world.route, &request(n), at(0));
        }
        Self { world, many, routes: Vec::new(), holder, wakes: Vec::with_capacity(16), turn: 0 }
    }

    /// One more call, from begin to end. For a queue: one call that joins at the end, and the end of the call that
    /// holds the permit. The number present is the same afterwards.
    pub fn step(&mut self) {
        self.turn += 1;
        match self.many {
            Many::Calls => self.call(self.world.route),
            Many::Routes => self.call(self.routes[self.turn * 7 % self.routes.len()]),
            Many::Queue | Many::Prioritized => self.hand_off(),
            Many::Paced => self.join_and_leave(),
        }
    }

    fn call(&mut self, route: RouteId) {
        let (call, _) = self.world.engine.begin(route, &Request::default(), at(1));
        let _ = self.world.engine.on(call, finished(1, Class::Ok), at(1));
    }

    fn hand_off(&mut self) {
        let _ = self.world.engine.begin(self.world.route, &request(self.turn), at(1));
        let Some(holder) = self.holder else { return };
        let _ = self.world.engine.on(holder, finished(1, Class::Ok), at(1));
        self.wakes.clear();
        self.world.engine.take_wakes(&mut self.wakes);
        self.holder = self.wakes.first().copied();
        if let Some(next) = self.holder {
            let _ = self.world.engine.on(next, Event::Poll, at(1));
        }
    }

    fn join_and_leave(&mut self) {
        let (call, _) = self.world.engine.begin(self.world.route, &request(self.turn), at(1));
        let _ = self.world.engine.on(call, Event::Cancel, at(1));
        self.wakes.clear();
        self.world.engine.take_wakes(&mut self.wakes);
    }

    /// Number of live calls.
    pub fn live(&self) -> u32 {
        self.world.engine.snapshot(at(1)).live
    }
}

/// A request; its criticality cycles with `n`.
fn request(n: usize) -> Request {
    let criticality =
        [Criticality::BestEffort, Criticality::Degraded, Criticality::Normal, Criticality::Critical];
    Request { criticality: criticality[n % 4], ..Request::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_stays_as_large_as_it_was() {
        for (name, many) in KINDS {
            let mut crowd = Crowd::new(many, 20);
            let before = crowd.live();
            assert_eq!(
                before,
                match many {
                    Many::Routes => 0,
                    Many::Calls => 20,
                    _ => 21,
                },
                "{name}"
            );
            for _ in 0..100 {
                crowd.step();
            }
            assert_eq!(crowd.live(), before, "{name}");
        }
    }
}
