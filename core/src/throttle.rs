//! The adaptive throttle (semantics 6): client-side throttling as in the SRE book, "Handling Overload".

use crate::outcome::Class;
use crate::state::{Damage, Loader, Saver};
use crate::time::{Clock, Duration, Time};
use crate::window::{CountWindow, WindowKind};

/// What `k` is multiplied by for a call's criticality, best effort first (semantics 6.2.5).
const FACTORS: [f64; 4] = [0.625, 0.75, 1.0, 2.0];
/// The least `k` where criticality counts; at 1 a healthy server's own noise would refuse calls.
const LEAST_K: f64 = 1.1;

/// Settings of an [`AdaptiveThrottle`] (semantics 6.1, 6.2). Any value is safe; the ranges are the useful ones.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ThrottleSettings {
    /// Requests allowed per accept, at least 1. With a smaller value the throttle refuses calls sooner.
    pub k: f64,
    /// How long a request counts; at least 10 µs.
    pub window: Duration,
    /// How the window moves with time.
    pub window_kind: WindowKind,
    /// The throttle refuses no call below this many requests in the window.
    pub min_throughput: u32,
    /// Upper bound of the probability of a refusal, in \[0, 1\]; with `None` it can come close to 1, which slows
    /// recovery.
    pub max_reject: Option<f64>,
    /// Admits a call if none has been admitted for this long.
    pub probe_interval: Option<Duration>,
}

impl Default for ThrottleSettings {
    /// k = 2 over a sliding window of 2 min, from 10 requests on; refuses at most 90 %, and admits one call a second.
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

/// Refuses a share of the calls to a downstream that accepts too few of them, with probability p = max(0, (requests −
/// k · accepts) / (requests + 1)).
///
/// A healthy downstream makes the numerator negative, so no call is refused. As accepts fall, the throttle admits
/// about k times the calls that the downstream still accepts, so it notices recovery without a special state. The
/// clock may pause, jump or run back (rule R10). Nothing is allocated; a throttle takes at most 256 bytes.
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
    /// When a call was last admitted.
    admitted: Time,
}

impl AdaptiveThrottle {
    /// Creates a throttle without history.
    pub fn new(settings: ThrottleSettings, now: Time) -> Self {
        let mut clock = Clock::default();
        let admitted = clock.observe(now);
        Self { settings, clock, window: CountWindow::new(settings.window, settings.window_kind), admitted }
    }

    /// The "throttle accept" column of semantics 1.2: whether the call was accepted; `None` if it does not count.
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
        self.refusal(self.settings.k.max(1.0), now)
    }

    /// Whether to admit a call. `bits` are its 64 random bits. A refused call counts as a request at once; an
    /// admitted one counts when its end is recorded.
    #[inline]
    pub fn admit(&mut self, bits: u64, now: Time) -> bool {
        self.admit_by(self.settings.k.max(1.0), bits, now)
    }

    /// Whether to admit a call of this criticality, 0 (best effort) to 3 (critical): as [`AdaptiveThrottle::admit`], with
    /// `k` times 0.625, 0.75, 1 or 2, at least 1.1. So calls of lower criticality are refused sooner and more often.
    pub fn admit_prioritized(&mut self, criticality: u8, bits: u64, now: Time) -> bool {
        let factor = FACTORS[usize::from(criticality).min(FACTORS.len() - 1)];
        self.admit_by((self.settings.k.max(1.0) * factor).max(LEAST_K), bits, now)
    }

    #[inline]
    fn admit_by(&mut self, k: f64, bits: u64, now: Time) -> bool {
        let now = self.clock.observe(now);
        let p = self.refusal(k, now);
        // An f64 holds 53 bits exactly. In steps of 2^-53, p = 0 refuses no call and p = 1 refuses all.
        let drawn = (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64);
        let due = self.settings.probe_interval.is_some_and(|interval| now.since(self.admitted) >= interval);
        if drawn < p && !due {
            self.window.add(false, now);
            return false;
        }
        self.admitted = now;
        true
    }

    /// Counts the end of an admitted call. Neutral ends are not recorded at all.
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

    /// The requests in the window.
    pub fn requests(&self, now: Time) -> u32 {
        self.counts(now).0
    }

    /// Those of them that were accepted.
    pub fn accepts(&self, now: Time) -> u32 {
        self.counts(now).1
    }

    /// Whether the window is empty.
    pub fn is_fresh(&mut self, now: Time) -> bool {
        let now = self.clock.observe(now);
        self.window.counts(now).all == 0
    }

    /// Applies new settings; keeps the counts if the window's length and kind are unchanged.
    pub fn retune(&mut self, to: ThrottleSettings, now: Time) {
        self.clock.observe(now);
        if !self.window.is(to.window, to.window_kind) {
            self.window = CountWindow::new(to.window, to.window_kind);
        }
        self.settings = to;
    }

    /// Writes the window. Writes nothing for an empty one: the next call is admitted regardless of the last
    /// admission.
    pub(crate) fn save(&self, to: &mut Saver) {
        if self.counts(to.now()).0 > 0 {
            to.moment(self.admitted);
            to.list(|to| self.window.save(to));
        }
    }

    /// Restores a saved throttle, by the rules of a retune.
    pub(crate) fn load(from: &mut Loader<'_>, settings: ThrottleSettings) -> Result<Self, Damage> {
        let mut it = Self::new(settings, from.now());
        it.admitted = from.past()?;
        let (length, kind) = (settings.window, settings.window_kind);
        it.window = from.list(|from| CountWindow::load(from, length, kind))?;
        Ok(it)
    }

    /// The probability, without moving the window.
    pub(crate) fn peek(&self, now: Time) -> f64 {
        self.clone().probability(now)
    }

    /// The probability at `now`: a product, a difference, a sum, a quotient, in this order; then the bounds.
    #[inline]
    #[allow(clippy::manual_clamp)] // `clamp` keeps NaN
    fn refusal(&mut self, k: f64, now: Time) -> f64 {
        let counts = self.window.counts(now);
        if counts.all < self.settings.min_throughput {
            return 0.0;
        }
        let requests = f64::from(counts.all);
        let p = (requests - k * f64::from(counts.marked)) / (requests + 1.0);
        // `min` and `max` drop NaN (an infinite k times zero accepts), and the 1 bounds a larger `max_reject`.
        p.min(self.settings.max_reject.unwrap_or(1.0)).min(1.0).max(0.0)
    }
}

impl crate::parts::Drawn<AdaptiveThrottle> {
    /// Whether a call of this class was accepted; `None` if it does not count.
    #[allow(clippy::unused_self)] // bindings have no functions of a class
    pub fn accepted(&self, class: Class) -> Option<bool> {
        AdaptiveThrottle::accepted(class)
    }
}
