//! A sketch of a happy path without the engine's lock, measured for ADR 0060. No host uses it.
//!
//! A gate stands in front of an engine: one word (permits out, and the bit [`SLOW`]), the rate's tokens, and counts per
//! thread. A call that finds a permit and a token and works at once never takes the engine's lock; any other call does.
//! There are two kinds: with shared tokens, all threads take from one atomic; with leased tokens, each shard takes
//! [`LEASE`] tokens and permits at once from the common stock.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tidegate::{Class, Duration, RateSettings, Request, Time, TokenBucket};

use crate::scenarios::{World, finished};

/// The bit of the word that sends every call to the engine.
const SLOW: u64 = 1 << 63;
/// Number of shards; threads beyond share them.
const SHARDS: usize = 8;
/// Tokens, and permits, that a shard takes at once.
const LEASE: u32 = 32;
/// How long a shard counts results before it hands them to the engine: a slice of a breaker's window.
const SLICE: u64 = 1_000_000;

/// Keeps its contents on cache lines of their own.
#[repr(align(128))]
#[derive(Default)]
struct Alone<T>(T);

/// What one shard has leased, and what it has counted and not yet handed over.
#[derive(Default)]
struct Held {
    slow: bool,
    tokens: u32,
    permits: u32,
    out: u32,
    counts: Counts,
    slice_ends: u64,
}

/// Calls begun and calls that worked.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Calls that have started an attempt.
    pub started: u64,
    /// Calls that have ended with `ok`.
    pub worked: u64,
}

/// A shard. Its lock is contended only while another thread recalls the leases.
#[derive(Default)]
struct Shard {
    held: Mutex<Held>,
    started: AtomicU64,
    worked: AtomicU64,
}

/// A gate in front of an engine with one policy and one route. `LEASED` chooses where the tokens are.
pub struct Gate<const LEASED: bool> {
    word: Alone<AtomicU64>,
    /// Shared tokens: the moment, in nanoseconds, at which the bucket is full again.
    full_at: Alone<AtomicU64>,
    shards: [Alone<Shard>; SHARDS],
    stock: Mutex<Stock>,
    world: Mutex<World>,
    limit: u64,
    rate: RateSettings,
}

/// Leased tokens come from here; counts go here.
struct Stock {
    bucket: TokenBucket,
    counts: Counts,
}

/// The way on which a call was admitted.
enum Way {
    Gate,
    Engine(tidegate::CallId),
}

fn shard_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static MINE: Cell<usize> = const { Cell::new(usize::MAX) });
    let mine = MINE.get();
    if mine != usize::MAX {
        return mine;
    }
    let mine = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
    MINE.set(mine);
    mine
}

impl<const LEASED: bool> Gate<LEASED> {
    /// A gate with a bulkhead of `limit` permits and a rate, in front of an engine.
    pub fn new(world: World, limit: u32, rate: RateSettings) -> Self {
        Self {
            word: Alone::default(),
            full_at: Alone::default(),
            shards: std::array::from_fn(|_| Alone::default()),
            stock: Mutex::new(Stock {
                bucket: TokenBucket::new(rate, Time::from_micros(0)),
                counts: Counts::default(),
            }),
            world: Mutex::new(world),
            limit: limit.into(),
            rate,
        }
    }

    /// Makes one call of `body`, whose attempt works. Returns whether the call was admitted.
    #[inline]
    pub fn call(&self, now: impl Fn() -> Time, body: impl FnOnce()) -> bool {
        let shard = &self.shards[shard_of_thread()].0;
        let way = match self.begin(shard, now()) {
            Some(way) => way,
            None => match self.begin_in_engine(now()) {
                Some(way) => way,
                None => return false,
            },
        };
        body();
        let at = now();
        match way {
            Way::Gate => self.end(shard, at),
            Way::Engine(call) => self.end_in_engine(call, at),
        }
        true
    }

    #[inline]
    fn begin(&self, shard: &Shard, now: Time) -> Option<Way> {
        if LEASED {
            let mut held = shard.held.lock();
            if held.slow || !self.refill(&mut held, now) {
                return None;
            }
            held.tokens -= 1;
            held.out += 1;
            held.counts.started += 1;
            return Some(Way::Gate);
        }
        let word = self.word.0.fetch_add(1, Ordering::Acquire);
        if word & SLOW != 0 || word & !SLOW >= self.limit || !self.take(now) {
            self.word.0.fetch_sub(1, Ordering::Release);
            return None;
        }
        shard.started.fetch_add(1, Ordering::Relaxed);
        Some(Way::Gate)
    }

    #[inline]
    fn end(&self, shard: &Shard, now: Time) {
        if LEASED {
            let mut held = shard.held.lock();
            held.out -= 1;
            held.counts.worked += 1;
            if now.as_micros() >= held.slice_ends || held.slow {
                self.hand_over(&mut held, now);
            }
            return;
        }
        shard.worked.fetch_add(1, Ordering::Relaxed);
        // A host would promote the end into the engine if the bit is set: a waiter gets this permit.
        self.word.0.fetch_sub(1, Ordering::Release);
    }

    /// Takes a shared token (GCRA).
    #[inline]
    fn take(&self, now: Time) -> bool {
        let interval = self.rate.per.as_micros() * 1_000 / u64::from(self.rate.permits);
        let (now, most) = (now.as_micros() * 1_000, interval * u64::from(self.rate.burst));
        let step = |full_at: u64| {
            let next = full_at.max(now) + interval;
            (next <= now + most).then_some(next)
        };
        self.full_at.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, step).is_ok()
    }

    /// Leases tokens and permits where the shard has none left.
    #[inline]
    fn refill(&self, held: &mut Held, now: Time) -> bool {
        if held.tokens == 0 && self.stock.lock().bucket.try_take(LEASE, now).is_ok() {
            held.tokens = LEASE;
        }
        if held.out == held.permits {
            let more = u64::from(LEASE);
            if self.word.0.fetch_add(more, Ordering::AcqRel) & !SLOW > self.limit.saturating_sub(more) {
                self.word.0.fetch_sub(more, Ordering::AcqRel);
            } else {
                held.permits += LEASE;
            }
        }
        held.tokens > 0 && held.out < held.permits
    }

    /// Hands the counts of a slice to the engine; a recalled shard returns its permits too.
    #[inline(never)]
    fn hand_over(&self, held: &mut Held, now: Time) {
        held.slice_ends = now.as_micros() + SLICE;
        let mut stock = self.stock.lock();
        stock.counts.started += held.counts.started;
        stock.counts.worked += held.counts.worked;
        held.counts = Counts::default();
        if held.slow {
            self.word.0.fetch_sub((held.permits - held.out).into(), Ordering::AcqRel);
            (held.permits, held.tokens) = (held.out, 0); // the tokens are lost: see the ADR
        }
    }

    /// Sends all calls to the engine, or to the gate again. With leases it first recalls them.
    pub fn set_slow(&self, slow: bool, now: Time) {
        let _engine = self.world.lock();
        if slow {
            self.word.0.fetch_or(SLOW, Ordering::AcqRel);
        } else {
            self.word.0.fetch_and(!SLOW, Ordering::AcqRel);
        }
        for shard in &self.shards {
            let mut held = shard.0.held.lock();
            held.slow = slow;
            if slow {
                self.hand_over(&mut held, now);
            }
        }
    }

    #[cold]
    fn begin_in_engine(&self, now: Time) -> Option<Way> {
        let mut world = self.world.lock();
        let permit = |word: u64| (word & !SLOW < self.limit).then_some(word + 1);
        self.word.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, permit).ok()?;
        let route = world.route;
        let (call, _) = world.engine.begin(route, &Request::default(), now);
        self.stock.lock().counts.started += 1;
        Some(Way::Engine(call))
    }

    #[cold]
    fn end_in_engine(&self, call: tidegate::CallId, now: Time) {
        let mut world = self.world.lock();
        let _ = world.engine.on(call, finished(1, Class::Ok), now);
        self.word.0.fetch_sub(1, Ordering::AcqRel);
        self.stock.lock().counts.worked += 1;
    }

    /// Permits in use, leased ones included.
    pub fn out(&self) -> u64 {
        self.word.0.load(Ordering::Acquire) & !SLOW
    }

    /// All counts, of the shards too.
    pub fn counts(&self) -> Counts {
        let mut all = self.stock.lock().counts;
        for Alone(shard) in &self.shards {
            let held = shard.held.lock().counts;
            all.started += held.started + shard.started.load(Ordering::Relaxed);
            all.worked += held.worked + shard.worked.load(Ordering::Relaxed);
        }
        all
    }
}

/// A rate that no bench uses up.
pub const UNBOUNDED: RateSettings =
    RateSettings { permits: 1_000_000_000, per: Duration::from_secs(1), burst: 1_000_000_000 };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios::{FULL, at};
    use std::thread;

    fn conserve<const LEASED: bool>() {
        const CALLS: u64 = 20_000;
        let limit = if LEASED { 3 * LEASE } else { 2 };
        let gate = Gate::<LEASED>::new(World::new(FULL), limit, UNBOUNDED);
        let (running, most, turned_away) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for n in 0..CALLS {
                        let admitted = gate.call(
                            || at(n),
                            || {
                                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                                running.fetch_sub(1, Ordering::SeqCst);
                            },
                        );
                        turned_away.fetch_add(u64::from(!admitted), Ordering::Relaxed);
                    }
                });
            }
            for n in 0..200 {
                gate.set_slow(n % 2 == 0, at(n * 100));
                thread::yield_now();
            }
        });
        gate.set_slow(true, at(CALLS));
        assert!(most.load(Ordering::SeqCst) <= limit.into(), "no permit was given twice");
        assert_eq!(gate.out(), 0, "every permit came back");
        let made = 3 * CALLS - turned_away.load(Ordering::Relaxed);
        assert_eq!(gate.counts(), Counts { started: made, worked: made });
        assert!(made > CALLS, "{made}");
    }

    #[test]
    fn permits_and_counts_survive_the_switch() {
        conserve::<false>();
        conserve::<true>();
    }

    /// Why leases are no equal of the engine's bucket: a bucket refills while its tokens lie in a shard, so more than
    /// one burst can be spent at one moment.
    #[test]
    fn leased_tokens_exceed_the_burst() {
        let rate = RateSettings { permits: LEASE, per: Duration::from_secs(1), burst: LEASE };
        let spent = |gate: &dyn Fn() -> bool| (0..10 * LEASE).filter(|_| gate()).count();
        let (leased, shared) = (
            Gate::<true>::new(World::new(FULL), 1_000, rate),
            Gate::<false>::new(World::new(FULL), 1_000, rate),
        );
        // One call at 0 s, and as many as are let through at 1 s, when the bucket is full again. What the gate refuses
        // is taken to be refused: `begin` is the gate's part alone.
        let shards = (&leased.shards[0].0, &shared.shards[0].0);
        assert!(leased.begin(shards.0, at(0)).is_some() && shared.begin(shards.1, at(0)).is_some());
        assert_eq!(spent(&|| shared.begin(shards.1, at(1_000_000)).is_some()), LEASE as usize);
        assert_eq!(spent(&|| leased.begin(shards.0, at(1_000_000)).is_some()), 2 * LEASE as usize - 1);
    }
}
