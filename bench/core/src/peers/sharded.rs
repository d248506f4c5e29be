//! Two threads with an engine each that lease from one store in the process, as processes of a fleet lease from a
//! shared store. They share only the store's lock, which is taken once in many calls.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::parts::Clock;
use parking_lot::Mutex;
use tidegate::fleet::{MemoryStore, Reply, StoreCommand, StoreKind};
use tidegate::{Action, CallId, Class, Engine, Event, Options, Request, Step, Time, Value, Verdict};
use tidegate_bench_core::scenarios::{FULL, World, finished};

/// The settings that move the full pipeline's components to the store.
pub const RATE: (&str, Value<'static>) = ("rate_limit.store", Value::Text("fleet"));
pub const SLOTS: (&str, Value<'static>) = ("bulkhead.store", Value::Text("fleet"));
pub const BREAKER: (&str, Value<'static>) = ("breaker.store", Value::Text("fleet"));

/// An engine and its connection to the store.
struct Shard {
    world: World,
    commands: Vec<StoreCommand>,
    store: Arc<Mutex<MemoryStore>>,
    /// Number of commands sent to the store.
    asked: u64,
}

impl Shard {
    fn new(seed: u64, store: &Arc<Mutex<MemoryStore>>, pairs: &[(&'static str, Value<'static>)]) -> Self {
        let mut engine = Engine::new(seed, Options::default());
        let _ = engine.attach_store(StoreKind::Lua, "bench", seed, Time::from_micros(0));
        let world = World::within(engine, pairs);
        Self { world, commands: Vec::new(), store: Arc::clone(store), asked: 0 }
    }

    /// Carries out the engine's commands until it has no more.
    #[cold]
    fn carry(&mut self, now: Time) {
        loop {
            self.world.engine.take_commands(&mut self.commands);
            if self.commands.is_empty() {
                return;
            }
            for command in self.commands.drain(..) {
                self.asked += 1;
                let answer = self.store.lock().execute(&command.words, now.as_micros());
                let reply = match &answer {
                    Ok(bytes) => Reply::Bytes(bytes),
                    Err(text) => Reply::Error(text.as_bytes()),
                };
                let _ = self.world.engine.on_reply(command.id, reply, now);
            }
        }
    }

    #[inline]
    fn begin(&mut self, now: Time) -> (CallId, Step) {
        let (call, mut step) = self.world.engine.begin(self.world.route, &Request::default(), now);
        if step.flags().commands {
            self.carry(now);
        }
        while matches!(step.action(), Action::Wait { .. }) {
            step = self.world.engine.on(call, Event::Poll, now);
            if step.flags().commands {
                self.carry(now);
            }
        }
        (call, step)
    }

    #[inline]
    fn on(&mut self, call: CallId, event: Event, now: Time) -> Step {
        let step = self.world.engine.on(call, event, now);
        if step.flags().commands {
            self.carry(now);
        }
        step
    }
}

/// Makes calls of the full pipeline, each thread on its own shard; `shared` are the settings that move components to
/// the store.
pub fn calls(shared: &[(&'static str, Value<'static>)], now: Clock) -> impl Fn(u64) + Sync + use<> {
    let store = Arc::new(Mutex::new(MemoryStore::new()));
    let mut pairs = FULL.to_vec();
    pairs.extend_from_slice(shared);
    // Each shard on its own cache line.
    let shards: [Box<Mutex<Shard>>; 2] =
        std::array::from_fn(|n| Box::new(Mutex::new(Shard::new(n as u64, &store, &pairs))));
    let next = AtomicUsize::new(0);
    move |calls| {
        let shard = &shards[next.fetch_add(1, Ordering::Relaxed) % shards.len()];
        for _ in 0..calls {
            let at = now.now();
            let (call, mut step) = shard.lock().begin(at);
            while let Action::Attempt { attempt, .. } = step.action() {
                let class = if black_box(true) { Class::Ok } else { Class::Transient };
                let at = now.now();
                step = shard.lock().on(call, finished(attempt, class), at);
            }
            assert!(matches!(step.action(), Action::Done { verdict: Verdict::Ok, .. }), "{step:?}");
        }
    }
}
