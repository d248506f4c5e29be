//! Stores that misbehave: whatever a store does, no call breaks or waits longer than `store_timeout`, and nothing is
//! left behind.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

use std::collections::HashMap;
use std::future::{Future, pending};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::{ms, nothing_left};
use parking_lot::Mutex;
use tidegate_tokio::fleet::{Answer, Store, StoreKind};
use tidegate_tokio::settings::{OnLoss, RateLimit, StateOf};
use tidegate_tokio::{Code, Engine, Policy, RecordType};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

fn limited(engine: &Engine, on_loss: OnLoss) -> Policy {
    let limit = RateLimit::new(100, ms(1_000)).burst(20).lease(1).store(StateOf::Fleet).on_loss(on_loss);
    Policy::builder("partner").engine(engine).rate_limit(limit).build().unwrap()
}

async fn call(policy: &Policy) -> Result<(), Code> {
    let called = policy.run(|_| async { Ok::<_, io::Error>(()) }).await;
    called.map_err(|error| error.stopped().expect("ours").code)
}

/// Values by key, and the moments at which they expire.
type Held = HashMap<Vec<u8>, (String, Instant)>;

/// A minimal custom store: one method, here with a map behind it.
#[derive(Clone)]
struct Dictionary {
    held: Arc<Mutex<Held>>,
}

impl Store for Dictionary {
    async fn execute(&self, words: Vec<Vec<u8>>, key: usize) -> Answer {
        let texts: Vec<String> =
            words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let (mut held, now, key) = (self.held.lock(), Instant::now(), words[key].clone());
        let found = held.get(&key).filter(|it| it.1 > now).cloned();
        let until = |millis: &str| now + ms(millis.parse().expect("a number"));
        let answer = match (texts[0].as_str(), &texts[2..]) {
            ("GET", []) => found.map(|it| it.0).unwrap_or_default(),
            ("PTTL", []) => found.map_or("-2".into(), |it| (it.1 - now).as_millis().to_string()),
            ("DEL", []) => u8::from(held.remove(&key).is_some()).to_string(),
            ("INCRBY", [by]) => {
                let (before, end) = found.unwrap_or(("0".into(), now + ms(3_600_000)));
                let sum = before.parse::<i64>().expect("a number") + by.parse::<i64>().expect("a number");
                held.insert(key, (sum.to_string(), end));
                sum.to_string()
            }
            ("PEXPIRE", [millis]) => {
                let is_there = found.map(|it| held.insert(key, (it.0, until(millis)))).is_some();
                u8::from(is_there).to_string()
            }
            ("SET", [.., nx]) if nx == "NX" && found.is_some() => String::new(),
            ("SET", [value, _, millis, ..]) => {
                held.insert(key, (value.clone(), until(millis)));
                "OK".into()
            }
            (other, _) => return Answer::Error(format!("ERR unknown command '{other}'").into_bytes()),
        };
        Answer::Bytes(answer.into_bytes())
    }
}

counted!(one_method_makes_a_store);

async fn one_method_makes_a_store() {
    let store = Dictionary { held: Arc::default() };
    let both = [1, 2].map(|seed| {
        let engine = Engine::new(seed);
        engine.attach_store(store.clone(), StoreKind::Plain, "");
        limited(&engine, OnLoss::Closed)
    });
    let mut passed = 0;
    for number in 0..100 {
        match call(&both[number % 2]).await {
            Ok(()) => passed += 1,
            Err(code) => assert_eq!(code, Code::RateLimited),
        }
    }
    assert_eq!(passed, 20);
    sleep(ms(200)).await;
    assert_eq!(call(&both[0]).await, Ok(()));
}

/// The store's reaction to a command, by the command's number.
#[derive(Clone, Copy, Debug)]
enum How {
    Says(&'static [u8]),
    Refuses(&'static [u8]),
    Megabytes,
    Loses,
    Hangs,
    PanicsAtOnce,
    PanicsLater,
}

struct Hostile(How);

impl Store for Hostile {
    fn execute(&self, _: Vec<Vec<u8>>, _: usize) -> impl Future<Output = Answer> + Send {
        let how = self.0;
        assert!(!matches!(how, How::PanicsAtOnce), "a store, before there is a future");
        async move {
            match how {
                How::Says(bytes) => Answer::Bytes(bytes.to_vec()),
                How::Refuses(text) => Answer::Error(text.to_vec()),
                How::Megabytes => Answer::Bytes(b"1 ".repeat(1_000_000)),
                How::Loses | How::PanicsAtOnce => Answer::Lost,
                How::Hangs => pending().await,
                How::PanicsLater => {
                    sleep(ms(1)).await;
                    panic!("a store, later")
                }
            }
        }
    }
}

counted!(whatever_a_store_does_no_call_is_broken_or_held_up);

async fn whatever_a_store_does_no_call_is_broken_or_held_up() {
    let all = [
        How::Says(b""),
        How::Says(b"what?"),
        How::Says(b"-1 -5 -7"),
        How::Says(b"1 0"),
        How::Says(b"1 0 1 1"),
        How::Says(b"99999999999999999999999999 0 1"),
        How::Says(&[0xff, b' ', 0]),
        How::Refuses(b""),
        How::Refuses(&[0xff, 0xfe]),
        How::Refuses(b"READONLY You can't write against a read only replica."),
        How::Megabytes,
        How::Loses,
        How::Hangs,
        How::PanicsAtOnce,
        How::PanicsLater,
    ];
    for how in all {
        let engine = Engine::new(1);
        engine.attach_store(Hostile(how), StoreKind::Lua, "");
        let mut told = engine.events(&[RecordType::StoreDegraded], 10);
        let policy = limited(&engine, OnLoss::Open);
        let start = Instant::now();
        assert_eq!(call(&policy).await, Ok(()), "{how:?}");
        assert!(start.elapsed() <= ms(52), "{how:?}: {:?}", start.elapsed());
        assert!(told.try_next().is_some(), "{how:?} is a loss");
        let start = Instant::now();
        for _ in 0..20 {
            assert_eq!(call(&policy).await, Ok(()), "{how:?}");
        }
        assert!(start.elapsed() < ms(1), "{how:?}: nobody waits for what is known to be gone");
        assert!(told.try_next().is_none(), "{how:?} is told once");
        nothing_left(&engine);
    }
}

/// A store that replies only when the test allows it.
#[derive(Clone)]
struct Late {
    let_go: Arc<Notify>,
    dropped: Arc<AtomicU32>,
}

struct Counted(Arc<AtomicU32>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Store for Late {
    async fn execute(&self, _: Vec<Vec<u8>>, _: usize) -> Answer {
        let _counted = Counted(Arc::clone(&self.dropped));
        self.let_go.notified().await;
        Answer::Bytes(b"1 0 1".to_vec())
    }
}

counted!(a_command_whose_time_is_up_is_dropped_and_its_answer_brings_nothing_back);

async fn a_command_whose_time_is_up_is_dropped_and_its_answer_brings_nothing_back() {
    let store = Late { let_go: Arc::default(), dropped: Arc::default() };
    let engine = Engine::new(1);
    engine.attach_store(store.clone(), StoreKind::Lua, "");
    let mut told = engine.events(&[RecordType::StoreDegraded, RecordType::StoreRecovered], 10);
    let policy = limited(&engine, OnLoss::Closed);
    let start = Instant::now();
    assert_eq!(call(&policy).await, Err(Code::StoreUnavailable));
    assert!(start.elapsed() <= ms(52), "{:?}", start.elapsed());
    assert_eq!(told.try_next().unwrap().what, RecordType::StoreDegraded);
    sleep(ms(10)).await;
    assert_eq!(store.dropped.load(Ordering::Relaxed), 1, "no task is left with it");
    store.let_go.notify_waiters();
    sleep(ms(10)).await;
    assert!(told.try_next().is_none());
    nothing_left(&engine);
}
