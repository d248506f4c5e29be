//! Settings that the target `changes` adds: cooldowns, sets of limits with their queues' orders, groups of targets; and
//! what every view of an engine must show.

use tidegate::{Options, Pool, PoolKind, RouteView, SharedView, Snapshot, Value};

use super::host::Host;
use super::settings::{self, Pairs};
use crate::input::Input;

/// A host that serves everything that needs no store.
pub fn options(wide: bool) -> Options {
    let options = Options::default();
    if wide { options.weights(true).wall_clock(true).quotas(true) } else { options }
}

const LIMITS: [&str; 10] = [
    "rpm: permits=2 per=100ms burst=3",
    "rpm: permits=1 per=1s",
    "rpm: permits=20 per=1s burst=4",
    "tpm: permits=100 per=1s burst=40 weight=tokens",
    "tpm: permits=20 per=100ms weight=tokens max_debt=10 default=5",
    "tpm: permits=9 per=1s weight=usd",
    "day: permits=5 per=1s refill=window",
    "day: permits=7 per=3s refill=window anchor=1s",
    "usd: permits=30 per=1s refill=window weight=usd max_debt=none",
    "usd: permits=50 per=1s weight=tokens burst=10",
];

/// A set of limits, with the keys that go with one; `prefix` begins their names.
fn set(input: &mut Input<'_>, prefix: &str) -> Vec<(String, Value<'static>)> {
    let mut pairs: Vec<(String, Value<'static>)> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for _ in 0..1 + input.below(3) {
        let limit = input.of(&LIMITS);
        if !names.contains(&&limit[..3]) {
            names.push(&limit[..3]);
            pairs.push((format!("{prefix}limits"), Value::Text(limit)));
        }
    }
    let mut put = |key: &str, value| pairs.push((format!("{prefix}{key}"), value));
    if input.chance(60) {
        put("settle_unknown", Value::Text("zero"));
    }
    if input.chance(60) {
        put("learn", Value::Text("down"));
    }
    if input.chance(60) {
        put("estimate_quantile", Value::Number(0.5));
    }
    if input.chance(100) {
        put("prioritized", Value::Number(1.0));
    }
    if prefix.is_empty() && input.chance(100) {
        put("fair_by", Value::Text("key"));
        if input.chance(100) {
            put("shares", Value::Text("a=3"));
        }
    }
    pairs
}

/// Adds a cooldown and a set of limits to the pairs of a policy.
pub fn more(input: &mut Input<'_>, pools: &[PoolKind], pairs: &mut Pairs) {
    if input.chance(90) {
        settings::keys(input, "cooldown", pairs);
        pairs.push(("cooldown.base", Value::Number(input.of(&[50e3, 1.0, 1e6]))));
    }
    if pools.contains(&PoolKind::RateLimit) {
        // Its pool may have weights, which attempts settle.
        pairs.retain(|(key, _)| *key != "rate_limit.unit");
        pairs.push(("rate_limit.unit", Value::Text("attempt")));
    } else if input.chance(90) {
        pairs.retain(|(key, _)| !["rate_limit.permits", "rate_limit.per", "rate_limit.burst"].contains(key));
        for (key, value) in set(input, "rate_limit.") {
            let key =
                tidegate::TABLE.iter().find(|known| known.path == key).expect("a key of the table").path;
            pairs.retain(|(other, _)| *other != key || key == "rate_limit.limits");
            pairs.push((key, value));
        }
        if input.chance(170) {
            pairs.retain(|(key, _)| !["rate_limit.wait", "rate_limit.max_wait"].contains(key));
            pairs.push(("rate_limit.wait", Value::Number(1.0)));
            pairs.push(("rate_limit.max_wait", Value::Number(input.of(&[1e6, 1e5, 5e6]))));
        }
    }
}

/// A pool with a set of limits, or a group of targets; `None` for any other.
pub fn pool(input: &mut Input<'_>, kind: PoolKind) -> Option<Pool> {
    let pairs: Vec<(String, Value<'static>)> = match kind {
        PoolKind::RateLimit if input.chance(60) => {
            [("permits", 2.0), ("per", 1e5)].map(|(key, value)| (key.to_owned(), Value::Number(value))).into()
        }
        PoolKind::RateLimit => set(input, ""),
        PoolKind::Targets => group(input),
        _ => return None,
    };
    let pairs: Vec<_> = pairs.iter().map(|(key, value)| (key.as_str(), *value)).collect();
    Pool::from_pairs(kind.name(), kind, &pairs).ok()
}

fn group(input: &mut Input<'_>) -> Vec<(String, Value<'static>)> {
    let mut pairs: Vec<(String, Value<'static>)> = Vec::new();
    let mut put = |key: &str, value: Value<'static>| pairs.push((key.to_owned(), value));
    put("pick", Value::Text(input.of(&["ladder", "balanced"])));
    if input.chance(130) {
        put("max_queue", Value::Number(input.of(&[3.0, 1.0, 10.0])));
        put("max_wait", Value::Number(input.of(&[1e6, 1e5, 5e6])));
    }
    let first = input.below(3);
    for name in ["a", "b", "c", "d"].iter().cycle().skip(first).take(1 + input.below(3)) {
        put("member", Value::Text(name));
        if input.chance(40) {
            put("share", Value::Number(5.0));
        }
        if input.chance(30) {
            put("only_after", Value::Text("throttled"));
        }
        if input.chance(40) {
            put("attempt_timeout", Value::Number(2e5));
        }
        if input.chance(80) {
            put("rate_limit.permits", Value::Number(input.of(&[1.0, 2.0, 5.0])));
            put("rate_limit.per", Value::Number(input.of(&[1e5, 1e6])));
            put("rate_limit.burst", Value::Number(input.of(&[2.0, 1.0, 5.0])));
        }
        if input.chance(110) {
            put("bulkhead.max_concurrency", Value::Number(input.of(&[1.0, 2.0, 3.0])));
            match input.below(4) {
                0 => {
                    put("bulkhead.kind", Value::Text("aimd"));
                    put("bulkhead.latency_threshold", Value::Number(1e5));
                    put("bulkhead.cut_interval", Value::Number(0.0));
                }
                1 => put("bulkhead.kind", Value::Text("gradient2")),
                _ => {}
            }
        }
        if input.chance(90) {
            put("breaker.consecutive", Value::Number(input.of(&[1.0, 2.0])));
            put("breaker.break_duration", Value::Number(input.of(&[1e5, 1e6])));
        }
        if input.chance(110) {
            put("cooldown.base", Value::Number(input.of(&[1e5, 1e4, 1e6])));
        }
    }
    pairs
}

impl Host {
    /// What must be so of every view: nobody has more tokens than fit, or waits beside a queue.
    pub fn views_are_true(&self) {
        let view = self.engine.snapshot(self.now());
        let sets = view.routes.iter().map(|it| &it.limits).chain(view.pools.iter().map(|it| &it.limits));
        for limit in sets.flatten() {
            assert!(limit.tokens <= limit.burst as i64, "{limit:?}");
            assert!(limit.settled <= 1 << 60 && limit.reserved <= 1 << 60, "{limit:?}");
        }
        let live = self.calls.iter().filter(|call| !call.done).count();
        assert!(self.forked || view.live as usize <= live, "{} calls live, {live} have not ended", view.live);
        assert!(view.waiting <= view.live, "{view:?}");
        for target in &view.targets {
            let places = target.cooldown.map_or((0, 0), |it| (it.taken, it.places));
            assert!(places.0 <= places.1.max(1), "{target:?}");
        }
    }
}

/// What no view may show once all calls have ended.
pub fn nothing_waits(view: &Snapshot) {
    for RouteView { rate, send, cooldown, .. } in &view.routes {
        let waiting = rate.map_or(0, |it| it.waiting) + send.map_or(0, |it| it.waiting);
        assert_eq!(waiting + cooldown.map_or(0, |it| it.waiting), 0, "somebody waits");
    }
    for SharedView { rate, .. } in &view.pools {
        assert_eq!(rate.map_or(0, |it| it.waiting), 0, "somebody waits");
    }
    for target in &view.targets {
        let permits = target.pool.map_or(0, |pool| pool.in_flight);
        assert_eq!((target.in_flight, permits), (0, 0), "{target:?}");
    }
}
