//! The cost of a call beside many others: the same call with 10 to 10⁶ calls, routes, keys, targets or waiters present.

use crate::scenarios::{World, at, finished};
use Value::{Number, Text};
use tidegate::{
    CallId, Class, Criticality, Engine, Event, Options, Policy, Pool, PoolKind, Request, RouteId, Value,
};

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
    /// Keys, each with a call that waits for a rate that all keys share in turn.
    Keys,
    /// Routes, each found by its key before its call.
    Found,
    /// Routes of an engine that is full: each call is of a new key, whose route takes the place of the oldest.
    Replaced,
    /// Targets, sixteen to a group, of groups that the calls use in turn.
    Targets,
}

/// Each kind with its name on the command line, and on the page.
pub const KINDS: [(&str, Many, &str); 9] = [
    ("calls", Many::Calls, "live calls"),
    ("routes", Many::Routes, "routes (at most 524,288)"),
    ("found", Many::Found, "routes, found by their keys"),
    ("replaced", Many::Replaced, "routes of a full engine, a new key for each call"),
    ("targets", Many::Targets, "targets, sixteen to a group (at most 240,000)"),
    ("queue", Many::Queue, "waiters in a queue"),
    ("prioritized", Many::Prioritized, "waiters in a prioritized queue"),
    ("paced", Many::Paced, "waiters for a rate"),
    ("keys", Many::Keys, "keys that take turns at a rate"),
];

/// Targets of a group: the most that there may be.
const GROUP: usize = 16;
/// Groups of an engine, which has room for 262,144 pools and targets.
const MOST_GROUPS: usize = 15_000;

/// An engine with a large number of calls, routes or waiters.
pub struct Crowd {
    world: World,
    many: Many,
    routes: Vec<RouteId>,
    keys: Vec<String>,
    /// The call that holds the permit for which the queue waits, or has the only token.
    holder: Option<CallId>,
    wakes: Vec<CallId>,
    turn: usize,
}

impl Crowd {
    /// An engine with `count` of them, or as many as an engine has. Groups of targets are whole.
    ///
    /// # Panics
    /// Never: the policies are valid.
    pub fn new(many: Many, count: usize) -> Self {
        match many {
            Many::Calls | Many::Queue | Many::Prioritized | Many::Paced => {
                Self::with_calls(World::new(&pairs(many)), many, count)
            }
            Many::Routes | Many::Found => Self::with_routes(World::new(&pairs(many)), many, count),
            Many::Replaced => {
                let options = Options::default().max_routes(most(count) as u32);
                let engine = Engine::new(7, options);
                Self {
                    keys: key_texts(2 * most(count)),
                    ..Self::with_routes(World::within(engine, &pairs(many)), many, count)
                }
            }
            Many::Keys => Self::with_keys(count),
            Many::Targets => Self::with_groups(count),
        }
    }

    fn of(world: World, many: Many) -> Self {
        let wakes = Vec::with_capacity(16);
        Self { world, many, routes: Vec::new(), keys: Vec::new(), holder: None, wakes, turn: 0 }
    }

    fn with_calls(mut world: World, many: Many, count: usize) -> Self {
        let queued = many != Many::Calls;
        let holder = queued.then(|| world.engine.begin(world.route, &Request::default(), at(0)).0);
        for n in 0..count {
            let _ = world.engine.begin(world.route, &request(n), at(0));
        }
        Self { holder, ..Self::of(world, many) }
    }

    fn with_routes(mut world: World, many: Many, count: usize) -> Self {
        let keys = key_texts(most(count));
        let routes = keys.iter().map(|key| world.new_route(key)).collect();
        Self { routes, keys, ..Self::of(world, many) }
    }

    /// A call waits for each key, and one more call comes and goes.
    fn with_keys(count: usize) -> Self {
        let mut engine = Engine::new(7, Options::default().max_routes(1 << 19));
        let pool = [("limits", Text("calls: permits=1 per=1ms")), ("fair_by", Text("key"))];
        let pool = Pool::from_pairs("shared", PoolKind::RateLimit, &pool).expect("a good pool");
        engine.pool(pool, at(0)).expect("the only one");
        let mut crowd = Self::with_routes(World::within(engine, &pairs(Many::Keys)), Many::Keys, count);
        let mut begin = |route| crowd.world.engine.begin(route, &Request::default(), at(0)).0;
        crowd.holder = Some(begin(crowd.world.route));
        for route in &crowd.routes {
            begin(*route);
        }
        crowd
    }

    fn with_groups(count: usize) -> Self {
        let mut engine = Engine::new(7, Options::default().max_routes(1 << 19));
        let mut routes = Vec::new();
        let names: Vec<String> = (0..GROUP).map(|n| format!("region-{n}")).collect();
        for group in 0..count.div_ceil(GROUP).min(MOST_GROUPS) {
            let name = format!("g{group}");
            let mut pairs = vec![("pick", Text("balanced")), ("bulkhead.max_concurrency", Number(1e3))];
            pairs.extend(names.iter().map(|name| ("member", Text(name.as_str()))));
            let pool = Pool::from_pairs(&name, PoolKind::Targets, &pairs).expect("a good group");
            engine.pool(pool, at(0)).expect("a new group");
            let policy = [("targets", Text(name.as_str())), ("deadline", Number(3_600e6))];
            let policy = Policy::from_pairs(&format!("to {name}"), &policy).expect("a good policy");
            let policy = engine.policy(policy).expect("a new policy");
            routes.push(engine.route(policy, "chat", at(0)));
        }
        Self { routes, ..Self::of(World::within(engine, &[("deadline", Number(30e6))]), Many::Targets) }
    }

    /// One more call, from begin to end. For a queue: one call that joins at the end, and the end of the call that
    /// holds the permit. The number present is the same afterwards.
    pub fn step(&mut self) {
        self.turn += 1;
        let place = self.turn * 7 % self.routes.len().max(1);
        match self.many {
            Many::Calls => self.call(self.world.route),
            Many::Routes | Many::Targets => self.call(self.routes[place]),
            Many::Queue | Many::Prioritized => self.hand_off(),
            Many::Paced => self.join_and_leave(self.world.route),
            Many::Keys => self.join_and_leave(self.routes[place]),
            Many::Found => self.call_of(place),
            Many::Replaced => self.call_of((self.routes.len() + self.turn) % self.keys.len()),
        }
    }

    fn call_of(&mut self, key: usize) {
        let route = self.world.new_route(&self.keys[key]);
        self.call(route);
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

    fn join_and_leave(&mut self, route: RouteId) {
        let (call, _) = self.world.engine.begin(route, &request(self.turn), at(1));
        let _ = self.world.engine.on(call, Event::Cancel, at(1));
        self.wakes.clear();
        self.world.engine.take_wakes(&mut self.wakes);
    }

    /// Number of live calls.
    pub fn live(&self) -> u32 {
        self.world.engine.snapshot(at(1)).live
    }
}

/// The policy of a crowd.
fn pairs(many: Many) -> Vec<(&'static str, Value<'static>)> {
    let mut pairs = vec![("deadline", Number(3_600e6)), ("attempt_timeout", Number(600e6))];
    pairs.extend(match many {
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
        Many::Keys => vec![
            ("rate_limit.pool", Text("shared")),
            ("rate_limit.wait", Number(1.0)),
            ("rate_limit.max_waiters", Number(1e7)),
        ],
        _ => vec![("preset", Text("http")), ("bulkhead.max_concurrency", Number(1e9))],
    });
    pairs
}

/// As many routes as asked for, and as an engine has.
fn most(count: usize) -> usize {
    count.min(1 << 19)
}

fn key_texts(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("https://host-{n}.example:443")).collect()
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
        for (name, many, _) in KINDS {
            let mut crowd = Crowd::new(many, 20);
            let before = crowd.live();
            assert_eq!(
                before,
                match many {
                    Many::Routes | Many::Found | Many::Replaced | Many::Targets => 0,
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
