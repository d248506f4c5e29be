//! Controlled delay (semantics 4.4): bounds a queue by the time that calls wait in it, not by its length alone.

use crate::time::{Duration, Time};

/// The most waiters that RFC 8289's law sheds in a row before one is granted. After hours of silence the law would
/// drop one waiter for every `interval / √count` of that time, which would make a step too long (the kernel has the
/// same bound).
const MOST_IN_A_ROW: u32 = 256;
/// "Recently" left the dropping state, in intervals (RFC 8289, 5.5).
const RECENT: u64 = 16;

/// Rule that decides which waiters are shed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodelLaw {
    /// "Fail at Scale", Queue 2015: sheds waiters that have waited longer than the allowance. The allowance is the
    /// interval for a queue that was empty lately, and the target for any other.
    Facebook,
    /// RFC 8289: once waits have stayed above the target for an interval, sheds one waiter, then more and more often.
    Rfc8289,
}

/// The settings of a controlled queue.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CodelSettings {
    /// A wait that is always acceptable; shorter than `interval`.
    pub target: Duration,
    /// How long a burst may keep the queue from being empty; default 100 ms.
    pub interval: Duration,
    /// Rule that decides which waiters are shed.
    pub law: CodelLaw,
}

/// Decides at dequeue whether a waiter is granted or shed. It does not hold the queue: its owner asks for each waiter
/// in turn, and reports when the queue is empty.
///
/// ```
/// use tidegate::{CoDel, CodelLaw, CodelSettings, Duration, Time};
/// let (ms, at) = (Duration::from_millis, |millis: u64| Time::from_micros(millis * 1_000));
/// let mut queue = CoDel::new(CodelSettings { target: ms(5), interval: ms(100), law: CodelLaw::Facebook }, at(0));
/// queue.on_empty(at(20)); // a waiter comes into the empty queue
/// assert!(!queue.should_shed(ms(80), 1.0, at(100)), "a burst");
/// assert!(queue.should_shed(ms(100), 1.0, at(120)), "not empty for an interval: congested, only the target is left");
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct CoDel {
    settings: CodelSettings,
    last_empty: Time,
    law: Law,
}

/// State of RFC 8289's law, with the names of the RFC.
#[derive(Clone, PartialEq, Debug, Default)]
struct Law {
    first_above: Option<Time>,
    dropping: bool,
    drop_next: Time,
    count: u32,
    last_count: u32,
    /// A waiter was shed in the dropping state; the next waiter decides whether the next drop is postponed.
    advance: bool,
    in_a_row: u32,
}

impl CoDel {
    /// Creates the control of an empty queue.
    pub fn new(settings: CodelSettings, now: Time) -> Self {
        Self { settings, last_empty: now, law: Law::default() }
    }

    /// The settings in force.
    pub fn settings(&self) -> CodelSettings {
        self.settings
    }

    /// Notes that the queue is empty: before a waiter enters it, or after the last one has left.
    pub fn on_empty(&mut self, now: Time) {
        self.last_empty = now;
        // This ends the dropping state: at the next waiter, waits have not been above the target for an interval.
        self.law.first_above = None;
    }

    /// Whether the queue has not been empty for a whole interval. If so, the newest waiter's caller is the most
    /// likely one to still wait for the answer.
    pub fn congested(&self, now: Time) -> bool {
        now.since(self.last_empty) >= self.settings.interval
    }

    /// The longest acceptable wait of a waiter of scale 1: the interval if the queue was empty within the last
    /// interval, else the target. (RFC 8289's law has no allowance; `should_shed` uses this under the Facebook law
    /// only.)
    pub fn allowance(&self, now: Time) -> Duration {
        if self.congested(now) { self.settings.target } else { self.settings.interval }
    }

    /// Whether to shed the waiter that has waited for `sojourn`. Ask once for each dequeued waiter; if it is shed,
    /// ask for the next. `scale` is the criticality's (0.25, 0.5, 1, 2): it stretches the allowance or the target.
    ///
    /// RFC 8289 has one target. Here a waiter with `scale` below 1 counts as above the target as soon as it is above
    /// its own scaled target. With `scale` above 1, a waiter between the target and its own scaled target is granted,
    /// and does not change the law's state.
    pub fn should_shed(&mut self, sojourn: Duration, scale: f64, now: Time) -> bool {
        // Products with 0.25, 0.5, 1 and 2 are exact below 2^53 µs.
        let waited = sojourn.as_micros() as f64;
        match self.settings.law {
            CodelLaw::Facebook => waited > self.allowance(now).as_micros() as f64 * scale,
            CodelLaw::Rfc8289 => {
                let target = self.settings.target.as_micros() as f64;
                let above = waited >= target * scale.min(1.0);
                self.law.sheds(above, waited < target * scale, self.settings.interval, now)
            }
        }
    }

    /// Applies new settings. Keeps when the queue was last empty; another law begins anew.
    pub fn retune(&mut self, to: CodelSettings) {
        if self.settings.law != to.law {
            self.law = Law::default();
        }
        self.settings = to;
    }
}

impl Law {
    /// RFC 8289 5.5, one waiter at a time: the RFC's `dequeue` is a loop over this function until it returns false.
    fn sheds(&mut self, above: bool, spared: bool, interval: Duration, now: Time) -> bool {
        let may_drop = self.has_been_above(above, interval, now);
        let shed = if self.dropping {
            self.next(may_drop, spared, interval, now)
        } else if may_drop && !spared {
            self.enter(interval, now);
            true
        } else {
            false
        };
        self.in_a_row = if shed { self.in_a_row + 1 } else { 0 };
        shed
    }

    /// The RFC's `dodequeue`: whether waits have been above the target for an interval.
    fn has_been_above(&mut self, above: bool, interval: Duration, now: Time) -> bool {
        if !above {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now.after(interval));
                false
            }
            Some(then) => now >= then,
        }
    }

    fn enter(&mut self, interval: Duration, now: Time) {
        // If the dropping state ended recently, continue near the drop rate that had reduced the waits.
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now.since(self.drop_next).as_micros() < interval.as_micros().saturating_mul(RECENT);
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = self.law(now, interval);
        self.dropping = true;
        self.advance = false;
    }

    fn next(&mut self, may_drop: bool, spared: bool, interval: Duration, now: Time) -> bool {
        if !may_drop {
            self.dropping = false;
            return false;
        }
        if self.advance {
            self.drop_next = self.law(self.drop_next, interval);
            self.advance = false;
        }
        if now < self.drop_next || spared {
            return false;
        }
        if self.in_a_row >= MOST_IN_A_ROW {
            self.drop_next = self.law(now, interval);
            return false;
        }
        self.count = self.count.saturating_add(1);
        self.advance = true;
        true
    }

    /// The control law, `t + interval / √count`, rounded down to whole microseconds.
    fn law(&self, t: Time, interval: Duration) -> Time {
        let span = interval.as_micros() as f64 / f64::from(self.count.max(1)).sqrt();
        t.after(Duration::from_micros(span as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Time {
        Time::from_micros(millis * 1_000)
    }

    fn codel(law: CodelLaw) -> CoDel {
        CoDel::new(CodelSettings { target: ms(5), interval: ms(100), law }, at(0))
    }

    #[test]
    fn the_allowance_is_the_interval_until_the_queue_has_not_been_empty_for_one() {
        let mut queue = codel(CodelLaw::Facebook);
        queue.on_empty(at(50));
        assert_eq!((queue.allowance(at(149)), queue.congested(at(149))), (ms(100), false));
        assert_eq!((queue.allowance(at(150)), queue.congested(at(150))), (ms(5), true));
        for (scale, sojourn) in [(0.25, 1_250), (0.5, 2_500), (1.0, 5_000), (2.0, 10_000)] {
            let asked =
                |queue: &mut CoDel, micros| queue.should_shed(Duration::from_micros(micros), scale, at(150));
            assert!(
                !asked(&mut queue, sojourn) && asked(&mut queue, sojourn + 1),
                "{scale}: strictly longer"
            );
        }
        queue.on_empty(at(150));
        assert!(!queue.should_shed(ms(100), 1.0, at(200)) && queue.should_shed(ms(26), 0.25, at(200)));
    }

    #[test]
    fn drops_come_at_the_interval_over_the_root_of_their_number() {
        let mut queue = codel(CodelLaw::Rfc8289);
        let sheds: Vec<u64> = (1..=600).filter(|now| queue.should_shed(ms(5), 1.0, at(*now))).collect();
        // 101 + 100 + 100/√2 + 100/√3 …, in whole milliseconds rounded up, because the test checks only then.
        assert_eq!(sheds, [101, 201, 272, 330, 380, 425, 465, 503, 539, 572]);
        assert!(!queue.should_shed(Duration::from_micros(4_999), 1.0, at(601)));
        // Re-entered within 16 intervals: it continues near its last rate, not at one drop an interval.
        let sheds: Vec<u64> = (602..=900).filter(|now| queue.should_shed(ms(5), 1.0, at(*now))).collect();
        assert_eq!(sheds, [702, 736, 767, 798, 826, 854, 881]);
        // After 16 intervals without a drop it begins as at first.
        queue.on_empty(at(900));
        let sheds: Vec<u64> = (2_501..=2_800).filter(|now| queue.should_shed(ms(5), 1.0, at(*now))).collect();
        assert_eq!(sheds, [2_601, 2_701, 2_772]);
    }

    #[test]
    fn a_burst_that_drains_within_the_interval_loses_nobody() {
        let mut queue = codel(CodelLaw::Rfc8289);
        for round in 0..50 {
            for now in 0..100 {
                assert!(!queue.should_shed(ms(100 - now), 1.0, at(round * 1_000 + now)));
            }
            queue.on_empty(at(round * 1_000 + 100));
        }
    }

    #[test]
    fn after_hours_of_silence_a_bounded_number_is_shed_at_once() {
        let mut queue = codel(CodelLaw::Rfc8289);
        (0..150).for_each(|now| _ = queue.should_shed(ms(50), 1.0, at(now)));
        let late = at(50_000_000);
        let row = (0..100_000).take_while(|_| queue.should_shed(ms(50), 1.0, late)).count();
        assert_eq!(row, MOST_IN_A_ROW as usize);
        assert_eq!((0..1_000).filter(|_| queue.should_shed(ms(50), 1.0, late)).count(), 0);
    }

    #[test]
    fn another_law_begins_anew_and_the_same_one_goes_on() {
        let mut queue = codel(CodelLaw::Rfc8289);
        (0..150).for_each(|now| _ = queue.should_shed(ms(50), 1.0, at(now)));
        let law = queue.law.clone();
        queue.retune(CodelSettings { target: ms(9), ..queue.settings() });
        assert_eq!(queue.law, law);
        queue.retune(CodelSettings { law: CodelLaw::Facebook, ..queue.settings() });
        assert_eq!((queue.law.clone(), queue.congested(at(150))), (Law::default(), true));
    }

    proptest! {
        /// Any clock, any wait, any scale: there is an answer, and no more drops in a row than the bound.
        #[test]
        fn never_panics_and_never_sheds_without_end(
            spans in (any::<u64>(), any::<u64>()), facebook in any::<bool>(), scale in any::<f64>(),
            steps in prop::collection::vec((any::<u64>(), any::<u64>(), 0u8..8), 1..40),
        ) {
            let law = if facebook { CodelLaw::Facebook } else { CodelLaw::Rfc8289 };
            let (target, interval) = (Duration::from_micros(spans.0), Duration::from_micros(spans.1));
            let mut queue = CoDel::new(CodelSettings { target, interval, law }, at(0));
            for (sojourn, now, op) in steps {
                let (sojourn, now) = (Duration::from_micros(sojourn), Time::from_micros(now));
                if op == 0 {
                    queue.on_empty(now);
                }
                let row = (0..400).take_while(|_| queue.should_shed(sojourn, scale, now)).count();
                prop_assert!(facebook || row <= MOST_IN_A_ROW as usize + 1, "{}", row);
                prop_assert_eq!(queue.allowance(now), if queue.congested(now) { target } else { interval });
            }
        }
    }
}
