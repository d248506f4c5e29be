//! The adaptive throttle (semantics 6): client-side throttling as in the SRE book, "Handling Overload".

use crate::outcome::Class;
use crate::state::{Damage, Loader, Saver};
use crate::time::{Clock, Duration, Time};
use crate::window::{CountWindow, WindowKind};

/// The settings of an [`AdaptiveThrottle`] (semantics 6.1, 6.2). Any value is safe; the ranges say what makes sense.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ThrottleSettings {
    /// Requests allowed per accept, at least 1: the smaller, the sooner calls are refused.
    pub k: f64,
    /// How long a request counts; at least 10 µs.
    pub window: Duration,
    /// How the window moves on.
    pub window_kind: WindowKind,
    /// Nothing is refused below this many requests in the window.
    pub min_throughput: u32,
    /// The probability of a refusal is at most this, in \[0, 1\]; `None` lets it come close to 1, and recovery slow.
    pub max_reject: Option<f64>,
    /// A call is let through where none has been for this long.
    pub probe_interval: Option<Duration>,
}

impl Default for ThrottleSettings {
    /// k = 2 over a sliding window of 2 min, from 10 requests on, refusing at most 90 %, one call a second let through.
    fn default() -> Self {
        Self {
            k: 2.0,
            window: Duration::from_secs(120),
            window_kind: WindowKind::Sliding,
            min_throughput: 10,
            max_reject: Some(0.9),
            probe_interval: Some(Duration::from_secs(1)),
        }
    }
}

/// Refuses a share of the calls to a downstream that does not accept enough of them, with probability
/// p = max(0, (requests − k · accepts) / (requests + 1)).
///
/// A healthy downstream makes the numerator negative: nothing is refused. As accepts fail, about k times what the
/// downstream still accepts is let through, so that recovery is noticed without a special state. The clock may stand
/// still, jump or run back (rule R10). Nothing is allocated; a throttle takes 256 bytes at most.
///
/// ```
/// use tidegate::{AdaptiveThrottle, ThrottleSettings, Time};
/// let now = Time::from_micros(0);
/// let mut throttle = AdaptiveThrottle::new(ThrottleSettings::default(), now);
/// for n in 0..100 {
///     assert!(throttle.admit(u64::MAX, now));
///     throttle.record(n < 40, now);
/// }
/// assert_eq!(throttle.probability(now), 20.0 / 101.0);
/// assert!(!throttle.admit(0, now));
/// ```
#[derive(Clone, Debug)]
pub struct AdaptiveThrottle {
    settings: ThrottleSettings,
    clock: Clock,
    window: CountWindow,
    /// When a call was last let through.
    admitted: Time,
}

impl AdaptiveThrottle {
    /// A throttle that has seen nothing.
    pub fn new(settings: ThrottleSettings, now: Time) -> Self {
        let mut clock = Clock::default();
        let admitted = clock.observe(now);
        Self { settings, clock, window: CountWindow::new(settings.window, settings.window_kind), admitted }
    }

    /// The "throttle accept" column of semantics 1.2: was the call accepted, or `None` where it does not count.
    pub const fn accepted(class: Class) -> Option<bool> {
        match class {
            Class::Ok | Class::Permanent => Some(true),
            Class::Transient | Class::Throttled | Class::Timeout | Class::NeverSent | Class::Conflict => {
                Some(false)
            }
            Class::Ignored | Class::Cancelled => None,
        }
    }

    /// The probability that a call is refused now, in \[0, 1\].
    pub fn probability(&mut self, now: Time) -> f64 {
        let now = self.clock.observe(now);
        self.refusal(now)
    }

    /// May a call go through? `bits` are its 64 random bits. A refused call is counted as a request at once; one that
    /// is let through counts when it is recorded.
    #[inline]
    pub fn admit(&mut self, bits: u64, now: Time) -> bool {
        let now = self.clock.observe(now);
        let p = self.refusal(now);
        // 53 bits are what an f64 holds exactly; 2^-53 each, so that p = 0 refuses nothing and p = 1 all.
        let drawn = (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64);
        let due = self.settings.probe_interval.is_some_and(|interval| now.since(self.admitted) >= interval);
        if drawn < p && !due {
            self.window.add(false, now);
            return false;
        }
        self.admitted = now;
        true
    }

    /// A call that was let through has ended. Neutral ends are not recorded at all.
    #[inline]
    pub fn record(&mut self, accepted: bool, now: Time) {
        let now = self.clock.observe(now);
        self.window.add(accepted, now);
    }

    /// Requests and accepts in the window.
    pub fn counts(&self, now: Time) -> (u32, u32) {
        let counts = self.window.peek(self.clock.peek(now));
        (counts.all, counts.marked)
    }

    /// Is nothing in the window?
    pub fn is_fresh(&mut self, now: Time) -> bool {
        let now = self.clock.observe(now);
        self.window.counts(now).all == 0
    }

    /// Goes on with other settings; the counts are kept where the window's length and kind are the same.
    pub fn retune(&mut self, to: ThrottleSettings, now: Time) {
        self.clock.observe(now);
        if !self.window.is(to.window, to.window_kind) {
            self.window = CountWindow::new(to.window, to.window_kind);
        }
        self.settings = to;
    }

    /// Writes its window down. Where that is empty nothing is: the next call goes through whenever the last one did.
    pub(crate) fn save(&self, to: &mut Saver) {
        if self.counts(to.now()).0 > 0 {
            to.moment(self.admitted);
            to.list(|to| self.window.save(to));
        }
    }

    /// Goes on from a saved one, by the rules of a retune.
    pub(crate) fn load(from: &mut Loader<'_>, settings: ThrottleSettings) -> Result<Self, Damage> {
        let mut it = Self::new(settings, from.now());
        it.admitted = from.past()?;
        let (length, kind) = (settings.window, settings.window_kind);
        it.window = from.list(|from| CountWindow::load(from, length, kind))?;
        Ok(it)
    }

    /// The probability without remembering that somebody looked.
    pub(crate) fn peek(&self, now: Time) -> f64 {
        self.clone().probability(now)
    }

    /// The probability at `now`: a product, a difference, a sum, a quotient, in this order; then the guard.
    #[inline]
    #[allow(clippy::manual_clamp)] // `clamp` keeps what is no number
    fn refusal(&mut self, now: Time) -> f64 {
        let counts = self.window.counts(now);
        if counts.all < self.settings.min_throughput {
            return 0.0;
        }
        let requests = f64::from(counts.all);
        let p = (requests - self.settings.k.max(1.0) * f64::from(counts.marked)) / (requests + 1.0);
        // `min` and `max` drop what is no number (an infinite k times no accepts), and the 1 bounds a `max_reject` above it.
        p.min(self.settings.max_reject.unwrap_or(1.0)).min(1.0).max(0.0)
    }
}
