//! Cooldown: one answer that says "too many requests" stops all attempts of a route for a while; then the number of
//! attempts at once grows from one again (semantics 16).

mod shared;

use std::collections::VecDeque;

use crate::rng;
use crate::state::{Damage, Loader, Saver};
use crate::time::{Clock, Duration, Time};

/// The most places that are remembered at once, ended ones behind a running one included.
const MOST_PLACES: usize = 4_096;
/// A closing without a time of the server's is doubled at most this often.
const MOST_DOUBLED: u32 = 32;
/// Numbers of places go from 1 to this and begin again.
const NUMBERS: u32 = 65_535;

/// Settings of a [`Cooldown`] (semantics 16.1). Any value is safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CooldownSettings {
    /// Length of a closing for which the server names no time; doubled for each closing in a row.
    pub base: Duration,
    /// Longest closing, without its jitter.
    pub max: Duration,
    /// How long an attempt may keep a place before the place is free to others.
    pub lease: Duration,
    /// Whether a throttle without a time closes only as the second one without a good answer between (semantics 4.6.7).
    pub lenient: bool,
}

impl Default for CooldownSettings {
    /// 1 s, doubled up to 60 s; places are leases of 60 s.
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self { base: Duration::from_secs(1), max: minute, lease: minute, lenient: false }
    }
}

impl CooldownSettings {
    /// The longest closing, with its jitter.
    fn longest(self) -> Duration {
        self.max.plus(Duration::from_micros(self.max.as_micros() / 10))
    }
}

/// State of a [`Cooldown`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CooldownState {
    /// Every attempt may start.
    Open,
    /// No attempt may start.
    Closed,
    /// The closing is over: as many attempts as there are places may run.
    Reopening,
}

impl CooldownState {
    /// The name in views and explanations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Reopening => "reopening",
        }
    }
}

/// The place of an attempt during slow start; [`Place::NONE`] for an attempt that needs none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place(u16);

impl Place {
    /// No place: the cooldown was open when the attempt was admitted.
    pub const NONE: Self = Self(0);

    /// The place of a number that [`Place::number`] returned.
    pub const fn of(number: u16) -> Self {
        Self(number)
    }

    /// Its number, from 1 on; 0 means no place.
    pub const fn number(self) -> u16 {
        self.0
    }
}

/// Stops all attempts to a downstream that says "too many requests", and then lets them back gradually.
///
/// A throttled attempt closes it until the server's Retry-After, or for a base time that doubles with each closing in a
/// row. Then one attempt gets a place; each good answer frees its place and adds one, so the places double per round
/// trip, until they reach a limit that the caller names. The clock may pause, jump or run back (rule R10).
///
/// ```
/// use tidegate::{Cooldown, CooldownSettings, CooldownState, Duration, Time};
/// let at = |seconds: u64| Time::from_micros(seconds * 1_000_000);
/// let mut cooldown = Cooldown::new(CooldownSettings::default());
/// assert!(cooldown.admit(at(0)).is_ok());
/// cooldown.on_throttled(at(0), Some(Duration::from_secs(10)), 100, 0, at(1));
/// assert_eq!(cooldown.admit(at(2)), Err(Duration::from_secs(9)));
/// let place = cooldown.admit(at(11)).unwrap();
/// assert!(cooldown.admit(at(11)).is_err(), "one attempt at first");
/// cooldown.on_good(at(11), place, 100, at(12));
/// assert!(cooldown.admit(at(12)).is_ok() && cooldown.admit(at(12)).is_ok());
/// assert_eq!(cooldown.state(at(12)), CooldownState::Reopening);
/// ```
#[derive(Clone, Debug)]
pub struct Cooldown {
    settings: CooldownSettings,
    clock: Clock,
    /// Whether there are no places: every attempt may start.
    open: bool,
    /// End of the last closing.
    until: Time,
    /// When it last closed.
    closed_at: Option<Time>,
    /// Closings in a row.
    row: u32,
    /// Whether the last throttle without a time was forgiven, and no good answer came since.
    forgiven: bool,
    /// Places there are.
    limit: u32,
    /// Places that are taken.
    taken: u32,
    /// Attempts in flight when it closed.
    in_flight: u32,
    /// Closings so far, and how long they last together, with what is left of the last one.
    closings: u64,
    closed_us: u64,
    /// Number of the first remembered place.
    first: u16,
    /// The ends of the leases, in the order of their numbers; `None` for an attempt that has ended.
    leases: VecDeque<Option<Time>>,
}

impl Cooldown {
    /// Creates an open one.
    pub fn new(settings: CooldownSettings) -> Self {
        Self {
            settings,
            clock: Clock::default(),
            open: true,
            until: Time::from_micros(0),
            closed_at: None,
            row: 0,
            forgiven: false,
            limit: 1,
            taken: 0,
            in_flight: 0,
            closings: 0,
            closed_us: 0,
            first: 1,
            leases: VecDeque::new(),
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> CooldownSettings {
        self.settings
    }

    /// Sets [`CooldownSettings::lenient`], which depends on the bulkhead beside it.
    pub(crate) fn set_lenient(&mut self, lenient: bool) {
        self.settings.lenient = lenient;
    }

    /// Its state.
    pub fn state(&self, now: Time) -> CooldownState {
        if self.open {
            CooldownState::Open
        } else if self.clock.peek(now) < self.until {
            CooldownState::Closed
        } else {
            CooldownState::Reopening
        }
    }

    /// Whether every attempt may start.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// What is left of a closing; `None` unless it is closed.
    pub fn closed_for(&self, now: Time) -> Option<Duration> {
        let now = self.clock.peek(now);
        (!self.open && now < self.until).then(|| self.until.since(now))
    }

    /// Number of closings so far.
    pub fn closings(&self) -> u64 {
        self.closings
    }

    /// How long it has been closed so far.
    pub fn closed_time(&self, now: Time) -> Duration {
        let left = self.closed_for(now).unwrap_or(Duration::ZERO).as_micros();
        Duration::from_micros(self.closed_us.saturating_sub(left))
    }

    /// What is left of a closing at a time of its own clock.
    fn left(&self, now: Time) -> Duration {
        if self.open { Duration::ZERO } else { self.until.since(now) }
    }

    /// Places that there are and places that are taken, during slow start.
    pub fn places(&self) -> (u32, u32) {
        (self.limit, self.taken)
    }

    /// Attempts that were in flight when it last closed.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Admits an attempt.
    ///
    /// # Errors
    /// Time until another try makes sense: until the end of the closing, or, if all places are taken, until the first
    /// lease ends.
    pub fn admit(&mut self, now: Time) -> Result<Place, Duration> {
        if self.open {
            return Ok(Place::NONE);
        }
        let now = self.clock.observe(now);
        if now < self.until {
            return Err(self.until.since(now));
        }
        self.end_leases(now);
        if self.taken >= self.limit || self.leases.len() >= MOST_PLACES {
            let ends = self.leases.front().copied().flatten().unwrap_or(now);
            return Err(ends.since(now));
        }
        let number = number_after(self.first, self.leases.len() as u32);
        self.leases.push_back(Some(now.after(self.settings.lease)));
        self.taken += 1;
        Ok(Place(number))
    }

    /// Whether [`Cooldown::admit`] would admit an attempt now, and takes nothing.
    ///
    /// # Errors
    /// Time until the end of the closing; `None` if all places are taken, because one may be free at any time.
    pub fn asks(&mut self, now: Time) -> Result<(), Option<Duration>> {
        if self.open {
            return Ok(());
        }
        let now = self.clock.observe(now);
        if now < self.until {
            return Err(Some(self.until.since(now)));
        }
        while let Some(None) = self.leases.front() {
            self.leases.pop_front();
            self.first = number_after(self.first, 1);
        }
        // A place whose lease has ended is free, and stays its attempt's until another one has it.
        let has_ended = self.leases.front().copied().flatten().is_some_and(|ends| ends <= now);
        let is_free = has_ended || self.taken < self.limit && self.leases.len() < MOST_PLACES;
        if is_free { Ok(()) } else { Err(None) }
    }

    /// Frees the places whose leases have ended.
    fn end_leases(&mut self, now: Time) {
        while let Some(lease) = self.leases.front()
            && lease.is_none_or(|ends| ends <= now)
        {
            self.taken -= u32::from(lease.is_some());
            self.leases.pop_front();
            self.first = number_after(self.first, 1);
        }
    }

    /// Whether this place is still the attempt's own: its lease may have ended, or the cooldown may have closed.
    pub fn has(&self, place: Place, now: Time) -> bool {
        let ends = self.lease(place).and_then(|at| self.leases[at]);
        ends.is_some_and(|ends| self.clock.peek(now) < ends)
    }

    /// Frees the place of an attempt that ended neither well nor throttled. Does nothing for a place that was lost.
    pub fn free(&mut self, place: Place) {
        self.give_back(place);
    }

    /// Counts a good answer to an attempt that started at `started`, at the moment when it is delivered. Its place is
    /// free, and there is one more. Slow start ends where there are `most` places. Returns whether that is now.
    pub fn on_good(&mut self, started: Time, place: Place, most: u32, now: Time) -> bool {
        self.clock.observe(now);
        self.forgiven = false;
        if self.closed_at.is_none_or(|at| started > at) {
            self.row = 0;
        }
        if self.open || !self.give_back(place) {
            return false;
        }
        self.limit = self.limit.saturating_add(1);
        if self.limit < most {
            return false;
        }
        self.open();
        true
    }

    /// Counts a throttled attempt that started at `started`. `in_flight` is the number of attempts, this one included.
    /// `bits` are 64 random bits. Returns whether it closed, or whether its closing ends later now.
    pub fn on_throttled(
        &mut self,
        started: Time,
        retry_after: Option<Duration>,
        in_flight: u32,
        bits: u64,
        now: Time,
    ) -> bool {
        let now = self.clock.observe(now);
        let before = self.had_started(started);
        let asked = match retry_after {
            Some(span) => span,
            // Its closing was the answer to this one too.
            None if before => return false,
            None if self.settings.lenient && !self.forgiven => {
                self.forgiven = true;
                return false;
            }
            None => doubled(self.settings.base, self.row),
        };
        let closed = self.shut(before, asked.min(self.settings.max), in_flight, bits, now);
        if closed && !before {
            self.row = self.row.saturating_add(1).min(MOST_DOUBLED);
        }
        closed
    }

    /// Counts an attempt that started at `started` and says that nothing is to be had for longer: its quota is spent, or
    /// its key is none. It closes for `asked`, at most for the longer of `max` and `wait`; without a time for `wait`.
    /// Returns as [`Cooldown::on_throttled`].
    pub fn on_spent(
        &mut self,
        started: Time,
        (asked, wait): (Option<Duration>, Duration),
        in_flight: u32,
        bits: u64,
        now: Time,
    ) -> bool {
        let now = self.clock.observe(now);
        let before = self.had_started(started);
        if before && asked.is_none() {
            return false;
        }
        let span = asked.unwrap_or(wait).min(self.settings.max.max(wait));
        self.shut(before, span, in_flight, bits, now)
    }

    /// Whether an attempt that started then had started by the last closing.
    fn had_started(&self, started: Time) -> bool {
        self.closed_at.is_some_and(|at| started <= at)
    }

    /// Closes for a span, or puts off the end of the closing that an attempt started `before`.
    fn shut(&mut self, before: bool, span: Duration, in_flight: u32, bits: u64, now: Time) -> bool {
        let jitter = Duration::from_micros(rng::uniform(bits, 0, span.as_micros() / 10));
        let end = now.after(span).after(jitter);
        if before && end <= self.until {
            return false;
        }
        if !before {
            self.closed_at = Some(now);
            self.in_flight = in_flight;
        }
        self.close_until(self.until.max(end), now);
        true
    }

    /// Closes until `end`, or puts off the end of a closing, and counts that.
    fn close_until(&mut self, end: Time, now: Time) {
        let left = self.left(now);
        self.closings += u64::from(left == Duration::ZERO);
        (self.forgiven, self.until) = (false, end);
        self.close();
        let more = end.since(now).minus(left);
        self.closed_us = self.closed_us.saturating_add(more.as_micros());
    }

    /// Opens it and forgets its closings, as when its settings are removed.
    pub fn reset(&mut self, now: Time) {
        self.closed_us = self.closed_time(now).as_micros();
        self.open();
        (self.closed_at, self.row, self.forgiven) = (None, 0, false);
    }

    /// Frees all places: after a fork the attempts belong to the parent.
    pub fn forget_places(&mut self) {
        self.first = number_after(self.first, self.leases.len() as u32);
        self.leases.clear();
        self.taken = 0;
    }

    /// Applies new settings. A closing under way is cut to the longest that they allow from now.
    pub fn retune(&mut self, to: CooldownSettings, now: Time) {
        self.retune_within(to, to.longest(), now);
    }

    /// The same, where a closing may be longer than these settings say (semantics 16.2.6).
    pub(crate) fn retune_within(&mut self, to: CooldownSettings, longest: Duration, now: Time) {
        let now = self.clock.observe(now);
        self.settings = to;
        let closed = self.closed_us.saturating_sub(self.left(now).as_micros());
        self.until = self.until.min(now.after(longest));
        self.closed_us = closed.saturating_add(self.left(now).as_micros());
    }

    fn close(&mut self) {
        self.open = false;
        self.limit = 1;
        self.forget_places();
    }

    fn open(&mut self) {
        self.open = true;
        self.forget_places();
    }

    fn lease(&self, place: Place) -> Option<usize> {
        if place == Place::NONE {
            return None;
        }
        let at = (u32::from(place.0) + NUMBERS - u32::from(self.first)) % NUMBERS;
        self.leases.get(at as usize).copied().flatten().map(|_| at as usize)
    }

    fn give_back(&mut self, place: Place) -> bool {
        let Some(at) = self.lease(place) else { return false };
        self.leases[at] = None;
        self.taken -= 1;
        true
    }

    /// Writes the closing, the closings in a row and the places. Taken places are not written, because they belong to
    /// calls.
    pub(crate) fn save(&self, to: &mut Saver) {
        if self.open && self.row == 0 && !self.forgiven {
            return;
        }
        to.flag(self.open);
        to.moment(self.until);
        to.maybe(self.closed_at);
        to.count(self.row);
        to.flag(self.forgiven);
        to.count(self.limit);
        to.count(self.in_flight);
    }

    /// Restores a saved one, by the rules of a retune to settings that allow closings of at most `longest`.
    pub(crate) fn load(
        from: &mut Loader<'_>,
        settings: CooldownSettings,
        longest: Duration,
    ) -> Result<Self, Damage> {
        let mut it = Self::new(settings);
        it.open = from.flag()?;
        it.until = from.moment()?;
        it.closed_at = from.maybe()?;
        it.row = from.count()?;
        if it.row > MOST_DOUBLED {
            return Err(Damage("must be at most 32 closings in a row"));
        }
        it.forgiven = from.flag()?;
        it.limit = from.count()?.max(1);
        it.in_flight = from.count()?;
        it.retune_within(settings, longest, from.now());
        Ok(it)
    }
}

/// `base · 2^n`.
fn doubled(base: Duration, n: u32) -> Duration {
    Duration::from_micros(base.as_micros().saturating_mul(1 << n.min(MOST_DOUBLED)))
}

/// The number that follows `number` in `steps` steps; 0 is no number.
fn number_after(number: u16, steps: u32) -> u16 {
    ((u32::from(number) - 1 + steps) % NUMBERS + 1) as u16
}

#[cfg(test)]
mod tests;
