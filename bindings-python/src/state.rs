//! The data behind an engine's lock: core's engine, and the wake-ups, commands and records that are not yet fetched.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tidegate::fleet::StoreCommand;
use tidegate::{CallId, Engine as Core, Flags, Policy, PolicyId, Request, RouteId, Time, WallTime};
use tidegate_ticks::Ticks;

use crate::listeners::Listeners;

/// How an engine is tested.
#[derive(Default)]
pub struct Mode {
    /// The route that all calls go to, where the engine is to stay out of the way.
    pub inactive: Option<RouteId>,
    /// So many attempts, without waits; the flag keeps those that a policy has fewer.
    pub attempts: Option<(u8, bool)>,
    /// What policies were before.
    pub originals: BTreeMap<u32, Policy>,
}

impl Mode {
    /// What begins in the place of a call; a request of its own is put into `own`, so that others are not copied.
    #[inline(always)]
    pub fn begins<'a>(
        &self,
        route: RouteId,
        request: &'a Request,
        own: &'a mut Option<Request>,
    ) -> (RouteId, &'a Request) {
        match self.inactive {
            None => (route, request),
            Some(inactive) => (inactive, own.insert(Request { remaining: None, parent: None, ..*request })),
        }
    }
}

/// What of a policy's settings keeps its calls from the native happy path.
#[derive(Default)]
pub struct Traits {
    /// Has it an attempt timeout?
    pub timed: AtomicBool,
    /// Does it hedge?
    pub hedged: AtomicBool,
}

pub struct State {
    pub core: Core,
    pub manual: Option<u64>,
    /// The system's monotonic clock, where the processor's counter stands in for it.
    ticks: Option<Ticks>,
    /// The wall clock when the engine was made, from which a manual clock goes on; microseconds since 1970.
    wall: u64,
    woken: Vec<CallId>,
    /// Commands for the store that nobody has fetched yet.
    pub commands: Vec<StoreCommand>,
    pub listeners: Listeners,
    pub mode: Mode,
    /// What callers look at before each call, by policy.
    traits: BTreeMap<u32, Arc<Traits>>,
    /// So many of them, and those of policies that were removed are looked for.
    sweep_at: usize,
}

/// How many policies callers look at before the first sweep.
const FIRST_SWEEP: usize = 64;

/// The wall clock, in microseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the one wall clock read of this binding")]
fn wall() -> u64 {
    use std::time::{SystemTime, UNIX_EPOCH};
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() * 1_000_000 + u64::from(since.subsec_micros())
}

/// The process's monotonic clock. The origin is its first reading.
#[expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "a clock of this binding")]
fn monotonic() -> Duration {
    use std::time::Instant;
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    ORIGIN.get_or_init(Instant::now).elapsed()
}

/// Microseconds on the process's monotonic clock, which every engine without a manual clock shares.
#[inline]
pub fn monotonic_us() -> u64 {
    let since = monotonic();
    since.as_secs() * 1_000_000 + u64::from(since.subsec_micros())
}

impl State {
    /// The present: a manual clock's, or the process's monotonic clock.
    #[inline(always)]
    pub fn now(&mut self) -> Time {
        Time::from_micros(match (&mut self.ticks, self.manual) {
            (Some(ticks), _) => ticks.now(),
            (None, Some(us)) => us,
            (None, None) => monotonic_us(),
        })
    }

    /// Reports the wall clock, where limits refill by its windows. A manual clock has one of its own.
    #[inline]
    pub fn note_wall(&mut self, now: Time) {
        if self.core.needs_wall() {
            let wall = self.manual.map_or_else(wall, |us| self.wall.saturating_add(us));
            self.core.note_wall(WallTime::from_unix_micros(wall), now);
        }
    }

    /// `manual` is the reading of a manual clock; `None` means the system's clock.
    pub fn new(core: Core, manual: Option<u64>) -> Self {
        Self {
            core,
            manual,
            ticks: if manual.is_some() { None } else { Ticks::new(monotonic().as_nanos() as u64) },
            wall: wall(),
            woken: Vec::new(),
            commands: Vec::new(),
            listeners: Listeners::new(),
            mode: Mode::default(),
            traits: BTreeMap::new(),
            sweep_at: FIRST_SWEEP,
        }
    }

    /// What callers look at before each call, kept up to date.
    pub fn traits(&mut self, policy: u32) -> &Arc<Traits> {
        let settings = self.core.policy_of(PolicyId::from_word(policy));
        let has = |key| settings.is_some_and(|policy| policy.value(key).is_some());
        let (timed, hedged) = (has("attempt_timeout"), has("hedge.max_attempts"));
        let traits = self.traits.entry(policy).or_default();
        traits.timed.store(timed, Ordering::Relaxed);
        traits.hedged.store(hedged, Ordering::Relaxed);
        traits
    }

    /// One owner of a policy less.
    pub fn release(&mut self, policy: PolicyId, keep: bool, now: Time) {
        self.core.release_policy(policy, keep, now);
        if self.traits.len() >= self.sweep_at {
            let core = &self.core;
            let is_there = |id: &u32| core.policy_of(PolicyId::from_word(*id)).is_some();
            self.traits.retain(|id, _| is_there(id));
            self.mode.originals.retain(|id, _| is_there(id));
            self.sweep_at = 2 * self.traits.len() + FIRST_SWEEP;
        }
    }

    /// The ids that this step woke, drained under the lock that set the flag; also none of them, where it has made records
    /// for hooks or commands for the store. Whoever gets any tells the Python half's `wake`.
    #[inline(always)]
    pub fn woken(&mut self, flags: Flags) -> Option<Vec<u64>> {
        if flags.wakes || flags.commands || self.core.has_records() {
            self.woken_or_told(flags)
        } else {
            None
        }
    }

    #[inline(never)]
    fn woken_or_told(&mut self, flags: Flags) -> Option<Vec<u64>> {
        let recorded = self.core.has_records() && self.listeners.take_from(&mut self.core);
        if flags.wakes {
            self.core.take_wakes(&mut self.woken);
        }
        if flags.commands {
            self.core.take_commands(&mut self.commands);
        }
        (recorded || flags.wakes || flags.commands)
            .then(|| self.woken.drain(..).map(CallId::to_word).collect())
    }
}
