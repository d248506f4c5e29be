//! Calls over the C interface that Swift uses, for callgrind: `border instructions NAME COUNT` makes COUNT calls and nothing else.
//! `cargo xtask gate` and the long tests compare them with `bench/core/border.txt`.

#![allow(unsafe_code)] // C is called
#![expect(clippy::disallowed_methods, reason = "a program reads its arguments")]

use std::env::args;
use std::hint::black_box;

use tidegate::{Class, Event, Outcome, Request, wire};
use tidegate_uniffi::{Engine, Pair, Value};

unsafe extern "C" {
    fn tidegate_begin(
        handle: u64,
        route: u64,
        flags: u64,
        remaining: u64,
        parent: u64,
        target: u64,
        now: u64,
        call: *mut u64,
    ) -> u64;
    fn tidegate_on(handle: u64, call: u64, event: u64, now: u64) -> u64;
}

fn count(key: &str, value: f64) -> Pair {
    Pair { key: key.to_owned(), value: Value::Number { value } }
}

/// Makes calls that work, under retries and a bulkhead.
fn make(calls: u64) {
    let engine = Engine::new(7, 64, false, 512);
    let pairs = vec![count("retry.max_attempts", 3.0), count("bulkhead.max_concurrency", 100.0)];
    let policy = engine.policy("p", pairs).expect("a good policy");
    let route = engine.route(policy, "", 0);
    let handle = engine.clone().handle();
    let [flags, remaining, parent, target] = wire::pack_request(&Request::default());
    let well = wire::pack_event(Event::Finished { attempt: 1, outcome: Outcome::of(Class::Ok) });
    for now in 0..calls {
        let mut call = 0;
        // SAFETY: `engine` is kept, and `call` is a place for a number.
        let step =
            unsafe { tidegate_begin(handle, route, flags, remaining, parent, target, now, &raw mut call) };
        assert_eq!(black_box(step) & 3, 1, "an attempt");
        // SAFETY: `engine` is kept.
        let step = unsafe { tidegate_on(handle, call, well, now) };
        assert_eq!(black_box(step) & 3, 0, "the end");
    }
}

fn main() {
    let args: Vec<String> = args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["instructions", "c_call", calls] => make(calls.parse().expect("a count")),
        _ => panic!("usage: border instructions c_call COUNT"),
    }
}
