//! A rate limit for each of many keys, visited at random, so that neither side finds its key in the processor's cache.

use std::future::{Ready, ready};
use std::hint::black_box;
use std::num::NonZeroU32;

use super::stacks::{Fault, runtime};
use super::{Row, row};
use governor::clock::MonotonicClock;
use governor::{Quota, RateLimiter};
use tidegate::Value;
use tidegate_bench_core::counting::tally;
use tidegate_bench_core::rows::keep;
use tidegate_tokio::{Caller, Engine, Options, Policy};

/// Groups by their number of routes.
const GROUPS: [(&str, usize); 2] =
    [("routes at random, 10,000", 10_000), ("routes at random, 500,000", 500_000)];

fn key(number: usize) -> String {
    format!("https://host-{number}.example:443")
}

/// Numbers of routes in an order without a pattern (xorshift).
struct Order(u64);

impl Order {
    fn next(&mut self, of: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % of as u64) as usize
    }
}

pub fn rows() -> Vec<Row> {
    GROUPS.into_iter().flat_map(|(group, routes)| [ours(group, routes), governor(group, routes)]).collect()
}

/// Makes the routes' callers, and the routes. Prints how many bytes they take.
fn callers(group: &'static str, routes: usize) -> Vec<Caller> {
    let pairs = [
        ("rate_limit.permits", Value::Number(1e9)),
        ("rate_limit.per", Value::Number(1e6)),
        ("retry.max_attempts", Value::Number(3.0)),
    ];
    let settings = tidegate::Policy::from_pairs("p", &pairs).expect("a good policy");
    let engine = Engine::with_options(7, Options::default().max_routes(2 * routes as u32));
    let policy = Policy::new_in(&engine, settings).expect("the only one");
    let callers: Vec<Caller> = (0..routes).map(|number| policy.caller().route(key(number))).collect();
    let (runtime, before) = (runtime(), tally());
    runtime.block_on(async {
        for caller in &callers {
            assert!(caller.run(|_| ready(Ok::<(), Fault>(()))).await.is_ok());
        }
    });
    let bytes = tally().since(before).bytes as f64 / routes as f64;
    println!("  {group}: {bytes:.0} bytes a route in the engine, the spare room of its lists included");
    keep("memory of a route", group, "bytes", bytes, "");
    callers
}

/// The callers are made at the row's first use: half a million of them take a second and 0.5 GB.
fn ours(group: &'static str, routes: usize) -> Row {
    let (mut made, runtime, mut order) = (None, runtime(), Order(7));
    row(group, "tidegate-tokio: Policy::run", move |calls| {
        let callers = made.get_or_insert_with(|| callers(group, routes));
        runtime.block_on(async {
            for _ in 0..calls {
                let caller = &callers[order.next(routes)];
                let done = caller.run(|_| -> Ready<Result<(), Fault>> { ready(Ok(())) }).await;
                assert!(black_box(done).is_ok());
            }
        });
    })
}

fn governor(group: &'static str, routes: usize) -> Row {
    let (mut made, mut order) = (None, Order(7));
    row(group, "governor, keyed", move |calls| {
        let (limiter, keys) = made.get_or_insert_with(|| {
            let quota = Quota::per_second(NonZeroU32::new(1_000_000_000).expect("not zero"));
            let limiter: RateLimiter<String, _, _, _> =
                RateLimiter::hashmap_with_clock(quota, MonotonicClock);
            let keys: Vec<String> = (0..routes).map(key).collect();
            for key in &keys {
                assert!(limiter.check_key(key).is_ok());
            }
            (limiter, keys)
        });
        for _ in 0..calls {
            black_box(limiter.check_key(&keys[order.next(routes)]).is_ok());
        }
    })
}
