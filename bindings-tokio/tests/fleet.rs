//! A store shared by the fleet: its in-process twin under a paused clock.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::support::{ms, nothing_left, once};
use parking_lot::Mutex;
use tidegate_tokio::fleet::{Answer, LazyRedisStore, MemoryStore, Store, StoreKind};
use tidegate_tokio::settings::{RateLimit, StateOf};
use tidegate_tokio::{Code, Engine, Policy, RecordType};
use tokio::time::{Instant, sleep};

/// A store of several processes, with a round trip of 1 ms.
#[derive(Clone)]
struct Twin {
    store: Arc<Mutex<MemoryStore>>,
    start: Instant,
    gone: Arc<AtomicBool>,
    hangs: Arc<AtomicBool>,
    commands: Arc<AtomicU32>,
}

impl Twin {
    fn new() -> Self {
        Self {
            store: Arc::new(Mutex::new(MemoryStore::new())),
            start: Instant::now(),
            gone: Arc::default(),
            hangs: Arc::default(),
            commands: Arc::default(),
        }
    }
}

impl Store for Twin {
    async fn execute(&self, words: Vec<Vec<u8>>, key: usize) -> Answer {
        self.commands.fetch_add(1, Ordering::Relaxed);
        assert!(words[key].starts_with(b"shop:{"), "the key that a cluster routes by");
        if self.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if self.gone.load(Ordering::Relaxed) {
            return Answer::Lost;
        }
        sleep(ms(1)).await;
        let now = 1_000_000_000 + self.start.elapsed().as_micros() as u64;
        match self.store.lock().execute(&words, now) {
            Ok(bytes) => Answer::Bytes(bytes),
            Err(text) => Answer::Error(text.into_bytes()),
        }
    }
}

/// A process with a fleet-wide rate of 100 per second.
fn process(seed: u64, twin: &Twin) -> (Engine, Policy) {
    let engine = Engine::new(seed);
    engine.attach_store(twin.clone(), StoreKind::Lua, "shop");
    let policy = Policy::builder("partner")
        .engine(&engine)
        .rate_limit(RateLimit::new(100, ms(1_000)).burst(10).lease(1).store(StateOf::Fleet))
        .build()
        .unwrap();
    (engine, policy)
}

async fn calls(policy: Policy, until: Instant) -> u32 {
    let mut good = 0;
    while Instant::now() < until {
        match policy.run(|_| async { Ok::<_, io::Error>(()) }).await {
            Ok(()) => good += 1,
            Err(error) => assert_eq!(error.stopped().unwrap().code, Code::RateLimited),
        }
        sleep(ms(2)).await;
    }
    good
}

counted!(processes_share_one_rate);

async fn processes_share_one_rate() {
    let twin = Twin::new();
    let fleet: Vec<_> = (0..3).map(|seed| process(seed, &twin)).collect();
    let until = Instant::now() + ms(10_000);
    let tasks: Vec<_> = fleet.iter().map(|(_, policy)| tokio::spawn(calls(policy.clone(), until))).collect();
    let mut granted = 0;
    for task in tasks {
        granted += task.await.unwrap();
    }
    assert!((990..=1_020).contains(&granted), "{granted} of 1,000 and a burst of 10");
    sleep(ms(2_000)).await;
    for (engine, _) in &fleet {
        nothing_left(engine);
    }
}

counted!(a_store_that_is_gone_holds_no_call_up_and_comes_back_by_itself);

async fn a_store_that_is_gone_holds_no_call_up_and_comes_back_by_itself() {
    for hangs in [false, true] {
        let twin = Twin::new();
        let (engine, policy) = process(1, &twin);
        let mut events = engine.events(&[RecordType::StoreDegraded, RecordType::StoreRecovered], 10);
        policy.run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap();
        let broken = if hangs { &twin.hangs } else { &twin.gone };
        broken.store(true, Ordering::Relaxed);
        sleep(ms(1_000)).await;
        let start = Instant::now();
        let _ = policy.run(|_| async { Ok::<_, io::Error>(()) }).await;
        // The engine gives a hanging store up once, after the policy's `store_timeout`, 50 ms by default.
        assert!(start.elapsed() <= ms(60), "{:?}", start.elapsed());
        assert_eq!(events.try_next().unwrap().what, RecordType::StoreDegraded);
        let start = Instant::now();
        let _ = policy.run(|_| async { Ok::<_, io::Error>(()) }).await;
        assert!(start.elapsed() < ms(5), "while it is known to be gone nobody waits: {:?}", start.elapsed());
        broken.store(false, Ordering::Relaxed);
        calls(policy, Instant::now() + ms(10_000)).await;
        assert_eq!(events.try_next().unwrap().what, RecordType::StoreRecovered);
        assert!(events.try_next().is_none());
        nothing_left(&engine);
    }
}

/// A store with a bug: it panics.
struct Faulty;

impl Store for Faulty {
    async fn execute(&self, words: Vec<Vec<u8>>, _: usize) -> Answer {
        panic!("a store, asked {}", String::from_utf8_lossy(&words[0]))
    }
}

counted!(a_store_that_panics_is_one_that_does_not_answer);

async fn a_store_that_panics_is_one_that_does_not_answer() {
    let engine = Engine::new(1);
    engine.attach_store(Faulty, StoreKind::Lua, "");
    engine.attach_store(Twin::new(), StoreKind::Lua, "another changes nothing");
    let policy = Policy::builder("p")
        .engine(&engine)
        .rate_limit(RateLimit::new(10, ms(1_000)).store(StateOf::Fleet))
        .build()
        .unwrap();
    let start = Instant::now();
    policy.run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap();
    assert!(start.elapsed() < ms(5), "the local share holds at once");
    nothing_left(&engine);
}

counted!(without_a_store_a_fleets_policy_is_an_error_that_says_so);

async fn without_a_store_a_fleets_policy_is_an_error_that_says_so() {
    let made = Policy::builder("p")
        .engine(&Engine::new(1))
        .rate_limit(RateLimit::new(10, ms(1_000)).store(StateOf::Fleet))
        .build();
    assert!(made.unwrap_err().to_string().contains("store"));
}

counted!(an_engine_that_is_gone_leaves_no_task);

async fn an_engine_that_is_gone_leaves_no_task() {
    let twin = Twin::new();
    let (engine, policy) = process(1, &twin);
    policy.run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap();
    sleep(ms(10_000)).await;
    let before = twin.commands.load(Ordering::Relaxed);
    drop((engine, policy));
    sleep(ms(60_000)).await;
    assert_eq!(twin.commands.load(Ordering::Relaxed), before);
    assert_eq!(Arc::strong_count(&twin.store), 1, "and its store");
}

#[test]
fn a_runtime_that_has_ended_is_a_store_that_does_not_answer() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (engine, first) = (Engine::new(1), runtime());
    let policy = first.block_on(async {
        engine.attach_store(Twin::new(), StoreKind::Lua, "");
        let limit = RateLimit::new(10, ms(1_000)).store(StateOf::Fleet);
        Policy::builder("p").engine(&engine).rate_limit(limit).build().unwrap()
    });
    drop(first);
    runtime().block_on(async {
        for _ in 0..3 {
            policy.run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap();
            sleep(ms(60_000)).await;
        }
    });
    nothing_left(&engine);
}

/// A connection of redis-rs; the first one never replies.
#[derive(Clone)]
struct Line(u64);

impl redis::aio::ConnectionLike for Line {
    fn req_packed_command<'a>(&'a mut self, _: &'a redis::Cmd) -> redis::RedisFuture<'a, redis::Value> {
        let replies = self.0 > 1;
        Box::pin(async move { if replies { Ok(redis::Value::Okay) } else { std::future::pending().await } })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        _: &'a redis::Pipeline,
        _: usize,
        _: usize,
    ) -> redis::RedisFuture<'a, Vec<redis::Value>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn get_db(&self) -> i64 {
        0
    }
}

#[tokio::test(start_paused = true)]
async fn commands_of_a_connection_that_is_gone_end_no_other_one() {
    let made = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&made);
    let store = LazyRedisStore::new(move || {
        let number = counted.fetch_add(1, Ordering::Relaxed) + 1;
        async move { Ok(Line(number)) }
    });
    let ping = || store.execute(vec![b"PING".to_vec()], 0);
    let (mut one, mut two) = (Box::pin(ping()), Box::pin(ping()));
    assert!(once(one.as_mut()).await.is_pending() && once(two.as_mut()).await.is_pending());
    drop(one);
    let replied = Answer::Bytes(b"OK".to_vec());
    assert_eq!((ping().await, made.load(Ordering::Relaxed)), (replied.clone(), 2), "a new connection");
    drop(two);
    assert_eq!((ping().await, made.load(Ordering::Relaxed)), (replied, 2), "which stays");
}
