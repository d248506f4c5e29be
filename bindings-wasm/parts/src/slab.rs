//! The storage of parts, by handle.

use std::cell::RefCell;

use tidegate::fleet::MemoryStore;
use tidegate::rng::{self, Purpose};
use tidegate::{
    AdaptiveThrottle, Aimd, CircuitBreaker, CoDel, CubicRate, DDSketch, EarnedBudget, Gcra, Gradient2,
    P2Quantile, RatioBudget, RetryBudget, RetryQuota, RetryStrategy, RetryToken, ShareBudget, TokenBucket,
    TokenBudget, WindowedP2Quantile,
};

/// A part that draws random numbers: with its seed, and the number of the next draw.
#[derive(Clone)]
pub struct Drawn<P> {
    pub part: P,
    pub seed: u64,
    pub next: u64,
}

impl<P> Drawn<P> {
    pub fn new(part: P, seed: u64) -> Self {
        Self { part, seed, next: 0 }
    }

    /// The number of the next draw.
    pub fn draw(&mut self) -> u64 {
        self.next = self.next.wrapping_add(1);
        self.next.wrapping_sub(1)
    }

    /// The bits of a draw: the caller's own, or the next of the seed.
    pub fn bits(&mut self, own: u32, bits: u64, purpose: Purpose) -> u64 {
        if own != 0 { bits } else { rng::bits(self.seed, self.draw(), purpose, 0) }
    }
}

/// The kinds of values in the slab. The host never asks for a part of another kind, because its classes own the handles.
pub trait Part: Sized + Clone {
    fn of(kept: &mut Kept) -> Option<&mut Self>;
    fn kept(self) -> Kept;
}

macro_rules! parts {
    ($($name:ident($part:ty),)*) => {
        #[derive(Clone)]
        pub enum Kept { $($name(Box<$part>),)* }
        $(impl Part for $part {
            fn of(kept: &mut Kept) -> Option<&mut Self> {
                if let Kept::$name(part) = kept { Some(part) } else { None }
            }
            fn kept(self) -> Kept { Kept::$name(Box::new(self)) }
        })*
    };
}

parts! {
    Backoff(Drawn<tidegate::Backoff>),
    Earned(EarnedBudget),
    Window(RetryBudget),
    Ratio(RatioBudget),
    Share(ShareBudget),
    Tokens(TokenBudget),
    Quota(RetryQuota),
    Strategy(RetryStrategy),
    Token(RetryToken),
    Bucket(TokenBucket),
    Gcra(Gcra),
    Cubic(CubicRate),
    Aimd(Aimd),
    Gradient2(Gradient2),
    Codel(CoDel),
    Breaker(Drawn<CircuitBreaker>),
    Throttle(Drawn<AdaptiveThrottle>),
    P2(P2Quantile),
    Windowed(WindowedP2Quantile),
    Sketch(DDSketch),
    Store(MemoryStore),
}

#[derive(Default)]
struct Slab {
    places: Vec<Option<Kept>>,
    free: Vec<u32>,
}

thread_local! {
    static SLAB: RefCell<Slab> = RefCell::default();
}

/// Stores a part and returns its handle.
pub fn keep(part: impl Part) -> u32 {
    add(part.kept())
}

fn add(part: Kept) -> u32 {
    SLAB.with_borrow_mut(|slab| {
        let place = slab.free.pop().unwrap_or_else(|| {
            slab.places.push(None);
            slab.places.len() as u32 - 1
        });
        slab.places[place as usize] = Some(part);
        place
    })
}

/// Runs work with a part.
///
/// # Panics
/// An unknown handle is a bug of the JavaScript half, and traps.
#[inline]
pub fn with<P: Part, T>(handle: u32, work: impl FnOnce(&mut P) -> T) -> T {
    SLAB.with_borrow_mut(|slab| match slab.places.get_mut(handle as usize) {
        Some(Some(kept)) => match P::of(kept) {
            Some(part) => work(part),
            None => panic!("the part of this handle is another"),
        },
        _ => panic!("no part has this handle"),
    })
}

/// Copies a part and returns the handle of the copy.
#[unsafe(no_mangle)]
pub extern "C" fn part_copy(handle: u32) -> u32 {
    let copy = SLAB.with_borrow(|slab| slab.places.get(handle as usize).cloned().flatten());
    match copy {
        Some(part) => add(part),
        None => panic!("no part has this handle"),
    }
}

/// Drops a part. Its handle is reused.
#[unsafe(no_mangle)]
pub extern "C" fn part_free(handle: u32) {
    SLAB.with_borrow_mut(|slab| {
        if slab.places.get_mut(handle as usize).and_then(Option::take).is_some() {
            slab.free.push(handle);
        }
    });
}

/// The number of parts stored, for tests.
#[unsafe(no_mangle)]
pub extern "C" fn part_count() -> u32 {
    SLAB.with_borrow(|slab| (slab.places.len() - slab.free.len()) as u32)
}
