//! The circuit breaker (semantics 5): closed, open, half-open. Probes are leases, and results carry their generation.

mod settings;
#[cfg(test)]
mod tests;
mod ticket;

pub use settings::BreakerSettings;
pub use ticket::{BreakerState, Evidence, Ticket};

use crate::state::{Damage, Loader, Saver};
use crate::time::{Clock, Duration, Time};
use crate::window::CountWindow;

/// A circuit breaker: refuses calls to a downstream that fails too often, and admits a few after a break.
///
/// It opens when `failures ≥ failure_ratio · throughput` at `min_throughput` or more, or after `consecutive`
/// failures; only a failure opens it. Half-open, at most `half_open_max_calls` probes hold a place at a time. A place
/// is a lease: a probe that never reports loses it to the next call that needs one, so no lost call keeps a breaker
/// half-open. A result counts while the probe still has its place, even after the lease's end. Later results, and
/// results of an older generation, change nothing.
///
/// The clock may pause, jump or run back: a break is never longer than configured (rule R10). Nothing is allocated
/// after [`CircuitBreaker::new`]. A breaker takes at most 320 bytes, and 16 for each of its probes.
///
/// ```
/// use tidegate::{BreakerSettings, BreakerState, CircuitBreaker, Duration, Evidence, Time};
/// let second = |n: u64| Time::from_micros(n * 1_000_000);
/// let mut breaker = CircuitBreaker::new(BreakerSettings {
///     failure_ratio: Some(0.5),
///     min_throughput: 2,
///     break_factor: 1.0,
///     ..BreakerSettings::new(Duration::from_secs(5))
/// });
///
/// for _ in 0..2 {
///     let ticket = breaker.admit(second(0)).unwrap();
///     breaker.record(ticket, Evidence::Failure, 0, second(1));
/// }
/// assert_eq!(breaker.admit(second(2)), Err(Duration::from_secs(4)));
///
/// let probe = breaker.admit(second(6)).unwrap();
/// let change = breaker.record(probe, Evidence::Success, 0, second(7));
/// assert_eq!(change, Some((BreakerState::HalfOpen, BreakerState::Closed)));
/// ```
#[derive(Clone, Debug)]
pub struct CircuitBreaker {
    settings: BreakerSettings,
    clock: Clock,
    window: CountWindow,
    phase: Phase,
    /// Failures in a row while closed.
    streak: u32,
    /// Number carried by calls admitted while closed; the last number given to a probe.
    generation: u16,
    last_probe: u16,
    /// Half-open rounds that have failed since the breaker was last closed, up to 1,000.
    failed_rounds: u16,
    /// Probes that have a place, in the order of their admission.
    probes: Vec<Probe>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    Closed,
    Open { until: Time },
    HalfOpen { successes: u32 },
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    number: u16,
    ends: Time,
}

impl CircuitBreaker {
    /// Creates a closed breaker without history.
    pub fn new(settings: BreakerSettings) -> Self {
        Self {
            settings,
            clock: Clock::default(),
            window: CountWindow::new(settings.window, settings.window_kind),
            phase: Phase::Closed,
            streak: 0,
            generation: 1,
            last_probe: 0,
            failed_rounds: 0,
            probes: Vec::with_capacity(settings.places()),
        }
    }

    /// Current state. After the end of a break it is still [`BreakerState::Open`]: the next admission makes the
    /// breaker half-open (semantics 5.2), so the state is the same at any `now`.
    pub fn state(&self, _now: Time) -> BreakerState {
        self.standing()
    }

    /// Time until another try makes sense, if an admission now would be refused. Changes nothing.
    #[inline]
    pub fn refuses(&self, now: Time) -> Option<Duration> {
        if self.phase == Phase::Closed { None } else { self.refusal(self.clock.peek(now)) }
    }

    /// Whether a break is under way, so that the breaker refuses calls.
    #[inline]
    pub(crate) fn is_open(&self, now: Time) -> bool {
        matches!(self.phase, Phase::Open { until } if self.is_before(until, now))
    }

    #[inline(never)]
    fn is_before(&self, until: Time, now: Time) -> bool {
        self.clock.peek(now) < until
    }

    /// Admits a call. In state [`BreakerState::Open`], after the break, this makes the breaker half-open.
    ///
    /// # Errors
    /// Time until another try makes sense: to the end of the break, or, with all probes running, to the end of the
    /// first lease.
    #[inline]
    pub fn admit(&mut self, now: Time) -> Result<Ticket, Duration> {
        let now = self.clock.observe(now);
        if self.phase == Phase::Closed {
            return Ok(Ticket { number: self.generation, probe: false });
        }
        self.admit_probe(now)
    }

    /// Admits a call while the breaker is not closed.
    #[inline(never)]
    fn admit_probe(&mut self, now: Time) -> Result<Ticket, Duration> {
        match self.refusal(now) {
            Some(wait) => Err(wait),
            None => Ok(self.probe(now)),
        }
    }

    /// Counts the result of an admitted call, and returns the transition it caused, if any. `bits` are 64 random bits
    /// for the jitter of a break that this opens. A ticket that is unknown, or of an older generation, changes
    /// nothing.
    #[inline(always)]
    #[allow(clippy::inline_always)] // the engine calls it from one hot place and one cold one
    pub fn record(
        &mut self,
        ticket: Ticket,
        evidence: Evidence,
        bits: u64,
        now: Time,
    ) -> Option<(BreakerState, BreakerState)> {
        let now = self.clock.observe(now);
        if ticket.probe {
            let place = self.probes.iter().position(|probe| probe.number == ticket.number)?;
            self.probes.remove(place);
            return self.on_probe(evidence, bits, now);
        }
        if self.phase != Phase::Closed || ticket.number != self.generation {
            return None;
        }
        match evidence {
            Evidence::Success => {
                self.window.add(false, now);
                self.streak = 0;
                None
            }
            Evidence::Failure => {
                self.window.add(true, now);
                self.on_failure(bits, now)
            }
            Evidence::Neutral => None,
        }
    }

    /// Records that a body failed after its call was recorded as a success at its head (semantics 7.1). One of the
    /// window's successes becomes a failure, so that a call is counted once. If no success is left in the window, a
    /// failure is added. Does nothing unless the breaker is still closed in the ticket's generation.
    pub fn on_body_failure(
        &mut self,
        ticket: Ticket,
        bits: u64,
        now: Time,
    ) -> Option<(BreakerState, BreakerState)> {
        let now = self.clock.observe(now);
        if ticket.probe || self.phase != Phase::Closed || ticket.number != self.generation {
            return None;
        }
        self.window.mark(now);
        self.on_failure(bits, now)
    }

    /// The end of the break while open, on the host's clock.
    pub fn open_until(&self) -> Option<Time> {
        match self.phase {
            Phase::Open { until } => Some(self.clock.reading_of(until)),
            Phase::Closed | Phase::HalfOpen { .. } => None,
        }
    }

    /// Failures in the window; while open, the remaining ones of those that opened it.
    pub fn failures(&self, now: Time) -> u32 {
        self.window.peek(self.clock.peek(now)).marked
    }

    /// Results in the window, failures included.
    pub fn throughput(&self, now: Time) -> u32 {
        self.window.peek(self.clock.peek(now)).all
    }

    /// Whether a new breaker would behave the same: closed, an empty window, and no failures in a row that count.
    pub fn is_fresh(&mut self, now: Time) -> bool {
        let now = self.clock.observe(now);
        self.phase == Phase::Closed
            && (self.streak == 0 || self.settings.consecutive.is_none())
            && self.window.counts(now).all == 0
    }

    /// Closes the breaker and forgets all counts, as when a forced opening is cleared (semantics 0.6). Results of
    /// calls admitted before change nothing.
    pub fn reset(&mut self) {
        self.next_generation();
        self.close();
    }

    /// The longest break that its settings allow.
    pub(crate) fn longest_break(&self) -> Duration {
        self.settings.longest_break()
    }

    /// Applies a break decided elsewhere, such as by another process: the breaker is open for `span` from now. With
    /// zero the next admission is a probe. Results of calls admitted before change nothing. The length of the next
    /// own break does not depend on this one.
    pub(crate) fn open_for(&mut self, span: Duration, now: Time) {
        let now = self.clock.observe(now);
        if self.phase == Phase::Closed {
            self.next_generation();
        }
        self.phase = Phase::Open { until: now.after(span) };
        self.probes.clear();
    }

    /// Releases all probes' places: after a fork the probes belong to the parent.
    pub fn forget_probes(&mut self) {
        self.probes.clear();
    }

    /// Applies new settings. Keeps the state, the generation, failures in a row, running probes and failed rounds;
    /// keeps the window's counts if its length and kind are unchanged. A break under way is cut to the longest that
    /// the new settings allow from now.
    pub fn retune(&mut self, to: BreakerSettings, now: Time) {
        let now = self.clock.observe(now);
        if !self.window.is(to.window, to.window_kind) {
            self.window = CountWindow::new(to.window, to.window_kind);
        }
        self.settings = to;
        self.probes.reserve_exact(to.places().saturating_sub(self.probes.len()));
        if let Phase::Open { until } = &mut self.phase {
            let longest = to.break_span(self.failed_rounds, u64::MAX);
            *until = (*until).min(now.after(longest));
        }
    }

    /// Writes the state, failures in a row, failed rounds, and the window. Probes are not written, because they are
    /// calls. The saver's clock must never run back; an engine's never does.
    pub(crate) fn save(&self, to: &mut Saver) {
        if self.phase == Phase::Closed && self.streak == 0 && self.throughput(to.now()) == 0 {
            return;
        }
        match self.phase {
            Phase::Closed => to.text("closed"),
            Phase::Open { until } => {
                to.text("open");
                to.moment(until);
            }
            Phase::HalfOpen { successes } => {
                to.text("half_open");
                to.count(successes);
            }
        }
        to.count(self.streak);
        to.count(u32::from(self.failed_rounds));
        to.list(|to| self.window.save(to));
    }

    /// Restores a saved breaker, by the rules of a retune.
    pub(crate) fn load(from: &mut Loader<'_>, settings: BreakerSettings) -> Result<Self, Damage> {
        let mut it = Self::new(settings);
        it.phase = match from.text()? {
            "closed" => Phase::Closed,
            "open" => Phase::Open { until: from.moment()? },
            "half_open" => Phase::HalfOpen { successes: from.count()? },
            _ => return Err(Damage("must be closed, open or half_open")),
        };
        it.streak = from.count()?;
        let rounds = u16::try_from(from.count()?).ok().filter(|rounds| *rounds <= settings::MAX_ROUNDS);
        it.failed_rounds = rounds.ok_or(Damage("must be at most 1,000 rounds"))?;
        let (length, kind) = (settings.window, settings.window_kind);
        it.window = from.list(|from| CountWindow::load(from, length, kind))?;
        it.retune(settings, from.now());
        Ok(it)
    }

    fn standing(&self) -> BreakerState {
        match self.phase {
            Phase::Closed => BreakerState::Closed,
            Phase::Open { .. } => BreakerState::Open,
            Phase::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    fn refusal(&self, now: Time) -> Option<Duration> {
        let ends = match self.phase {
            Phase::Closed => return None,
            Phase::Open { until } => until,
            Phase::HalfOpen { .. } => {
                let running = self.probes.iter().map(|probe| probe.ends).filter(|ends| now < *ends);
                if running.clone().count() < self.settings.places() {
                    return None;
                }
                running.min()?
            }
        };
        (now < ends).then(|| ends.since(now))
    }

    /// Gives a probe a place. If places are needed, the oldest probes with an expired lease lose theirs.
    fn probe(&mut self, now: Time) -> Ticket {
        if let Phase::Open { .. } = self.phase {
            self.phase = Phase::HalfOpen { successes: 0 };
        }
        while self.probes.len() >= self.settings.places() {
            let over = self.probes.iter().enumerate().filter(|(_, probe)| probe.ends <= now);
            let Some((place, _)) = over.min_by_key(|(_, probe)| probe.ends) else { break };
            self.probes.remove(place);
        }
        // At most 1,000 numbers are taken, so the loop ends.
        loop {
            self.last_probe = after(self.last_probe);
            if self.probes.iter().all(|probe| probe.number != self.last_probe) {
                break;
            }
        }
        self.probes.push(Probe { number: self.last_probe, ends: now.after(self.settings.probe_lease) });
        Ticket { number: self.last_probe, probe: true }
    }

    /// Handles the result of a probe that still had its place.
    fn on_probe(&mut self, evidence: Evidence, bits: u64, now: Time) -> Option<(BreakerState, BreakerState)> {
        let Phase::HalfOpen { successes } = &mut self.phase else { return None };
        match evidence {
            Evidence::Success => {
                *successes = successes.saturating_add(1);
                if *successes < self.settings.successes_to_close {
                    return None;
                }
                self.close();
                Some((BreakerState::HalfOpen, BreakerState::Closed))
            }
            Evidence::Failure => {
                self.failed_rounds = (self.failed_rounds + 1).min(settings::MAX_ROUNDS);
                Some(self.open(bits, now))
            }
            Evidence::Neutral => None,
        }
    }

    /// Opens the breaker if the failure just counted reaches a threshold. Called while closed.
    fn on_failure(&mut self, bits: u64, now: Time) -> Option<(BreakerState, BreakerState)> {
        self.streak = self.streak.saturating_add(1);
        let counts = self.window.counts(now);
        let too_many = self.settings.failure_ratio.is_some_and(|ratio| {
            counts.all >= self.settings.min_throughput
                && f64::from(counts.marked) >= ratio * f64::from(counts.all)
        });
        let in_a_row = self.settings.consecutive.is_some_and(|row| self.streak >= row);
        if !too_many && !in_a_row {
            return None;
        }
        self.next_generation();
        Some(self.open(bits, now))
    }

    /// Opens the breaker; results of running probes are ignored.
    fn open(&mut self, bits: u64, now: Time) -> (BreakerState, BreakerState) {
        let from = self.standing();
        self.phase = Phase::Open { until: now.after(self.settings.break_span(self.failed_rounds, bits)) };
        self.probes.clear();
        (from, BreakerState::Open)
    }

    /// Closes the breaker with empty counts. The generation is the one that began when it opened.
    fn close(&mut self) {
        self.phase = Phase::Closed;
        self.window = CountWindow::new(self.settings.window, self.settings.window_kind);
        self.streak = 0;
        self.failed_rounds = 0;
        self.probes.clear();
    }

    fn next_generation(&mut self) {
        self.generation = after(self.generation);
    }
}

/// The next number. It skips 0, which means "no ticket" to the engine.
const fn after(number: u16) -> u16 {
    if number == u16::MAX { 1 } else { number + 1 }
}
