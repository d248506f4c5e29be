//! A rate limit for each of many keys, visited at random, so that neither side finds its key in the processor's cache.

use std::future::{Ready, ready};
use std::hint::black_box;
use std::num::NonZeroU32;

use super::stacks::{Fault, runtime};
use super::{Row, row};
use governor::clock::MonotonicClock;
use governor::{Quota, RateLimiter};
use tidegate::Value;
use tidegate_tokio::{Caller, Engine, Options, Policy};

const GROUP: &str = "routes at random, 10,000";
const ROUTES: usize = 10_000;

fn key(number: usize) -> String {
    format!("https://host-{number}.example:443")
}

/// Numbers of routes in an order without a pattern (xorshift).
struct Order(u64);

impl Order {
    fn next(&mut self) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % ROUTES as u64) as usize
    }
}

pub fn rows() -> Vec<Row> {
    vec![ours(), governor()]
}

fn ours() -> Row {
    let pairs = [
        ("rate_limit.permits", Value::Number(1e9)),
        ("rate_limit.per", Value::Number(1e6)),
        ("retry.max_attempts", Value::Number(3.0)),
    ];
    let settings = tidegate::Policy::from_pairs("p", &pairs).expect("a good policy");
    let engine = Engine::with_options(7, Options::default().max_routes(2 * ROUTES as u32));
    let policy = Policy::new_in(&engine, settings).expect("the only one");
    let callers: Vec<Caller> = (0..ROUTES).map(|number| policy.caller().route(key(number))).collect();
    let (runtime, mut order) = (runtime(), Order(7));
    row(GROUP, "tidegate-tokio: Policy::run", move |calls| {
        runtime.block_on(async {
            for _ in 0..calls {
                let caller = &callers[order.next()];
                let done = caller.run(|_| -> Ready<Result<(), Fault>> { ready(Ok(())) }).await;
                assert!(black_box(done).is_ok());
            }
        });
    })
}

fn governor() -> Row {
    let quota = Quota::per_second(NonZeroU32::new(1_000_000_000).expect("not zero"));
    let limiter: RateLimiter<String, _, _, _> = RateLimiter::hashmap_with_clock(quota, MonotonicClock);
    let (keys, mut order): (Vec<String>, _) = ((0..ROUTES).map(key).collect(), Order(7));
    row(GROUP, "governor, keyed", move |calls| {
        for _ in 0..calls {
            black_box(limiter.check_key(&keys[order.next()]).is_ok());
        }
    })
}
