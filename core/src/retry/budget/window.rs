//! The windowed retry budget (semantics 2.10; Finagle's `RetryBudget`).

use crate::debt::Debt;
use crate::state::{Damage, Loader, Saver};
use crate::time::{Duration, Time};
use crate::wide;

/// The settings of a windowed budget.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct WindowSettings {
    /// How long a deposit or a withdrawal counts; at least 10 µs.
    pub ttl: Duration,
    /// Retries per second that are always allowed, independent of the number of calls.
    pub min_retries_per_sec: f64,
    /// Retries allowed per recent call, as a fraction.
    pub percent_can_retry: f64,
    /// Rounding of the share of calls.
    pub rounding: Rounding,
}

impl Default for WindowSettings {
    /// 20 % of the calls of the last 10 s, plus 10 a second.
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(10),
            min_retries_per_sec: 10.0,
            percent_can_retry: 0.2,
            rounding: Rounding::Floor,
        }
    }
}

/// Rounding of `deposits · percent` to a whole number of retries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounding {
    /// Down, as in the seed document.
    Floor,
    /// Up, as in the released `httpware`.
    Ceil,
}

const SLICES: usize = 10;

/// An amount that uses up the whole floor, however large the floor is.
pub(crate) const WHOLE_FLOOR: u64 = u32::MAX as u64;

/// A budget over a sliding window of ten slices: each call deposits, each retry withdraws, and a retry is refused when
/// `withdrawn ≥ round(deposits · percent) + floor(min_retries_per_sec · ttl)`.
///
/// An entry counts for 0.9 to 1 `ttl`. Memory is constant; debts expire with the window. The bound it gives is
/// `attempts ≤ (1 + percent) · calls + min_retries_per_sec · (seconds + 1.1 · ttl)` (semantics 2.17).
///
/// ```
/// use tidegate::{RetryBudget, Time, WindowSettings};
/// let now = Time::from_micros(0);
/// let mut budget = RetryBudget::new(WindowSettings::default());
/// for _ in 0..5 {
///     budget.deposit(now);
/// }
/// assert_eq!(budget.balance(now), 101);
/// assert!(budget.try_withdraw(now));
/// ```
#[derive(Clone, Debug)]
pub struct RetryBudget {
    settings: WindowSettings,
    floor: u64,
    slices: [Slice; SLICES],
    totals: Slice,
    /// Number of the newest slice, counted from `anchor`, and the moment it ends.
    current: u64,
    current_ends: Time,
    /// The first moment seen. Slices are counted from here, so that no decision depends on the clock's origin.
    anchor: Option<Time>,
    /// Part of the floor that is used up until a moment, besides the withdrawals in the slices.
    carried: Debt,
}

#[derive(Clone, Copy, Default, Debug)]
struct Slice {
    deposits: u32,
    withdrawals: u32,
}

impl RetryBudget {
    /// A budget whose window is empty.
    pub fn new(settings: WindowSettings) -> Self {
        let seconds = settings.ttl.as_micros() as f64 / 1e6;
        Self {
            settings,
            floor: (settings.min_retries_per_sec * seconds).floor() as u64,
            slices: [Slice::default(); SLICES],
            totals: Slice::default(),
            current: 0,
            current_ends: Time::from_micros(0),
            anchor: None,
            carried: Debt::NONE,
        }
    }

    /// A budget whose floor is used up until `ttl` has passed.
    pub(crate) fn spent(settings: WindowSettings, now: Time) -> Self {
        let mut it = Self::new(settings);
        it.roll(now);
        it.carried = Debt { amount: WHOLE_FLOOR, until: now.after(settings.ttl) };
        it
    }

    /// Counts one call.
    #[inline]
    pub fn deposit(&mut self, now: Time) {
        self.roll(now);
        // A full slice stops counting: that allows fewer retries, never more.
        if self.totals.deposits < u32::MAX {
            self.slices[self.current as usize % SLICES].deposits += 1;
            self.totals.deposits += 1;
        }
    }

    /// Withdraws one retry if the budget allows it.
    pub fn try_withdraw(&mut self, now: Time) -> bool {
        if self.balance(now) == 0 || self.totals.withdrawals == u32::MAX {
            return false;
        }
        self.slices[self.current as usize % SLICES].withdrawals += 1;
        self.totals.withdrawals += 1;
        true
    }

    /// Refunds a retry that was withdrawn at `charged` and never started. Does nothing once it has left the window.
    pub fn refund(&mut self, charged: Time, now: Time) {
        self.roll(now);
        let number = self.slice_of(charged);
        let slice = &mut self.slices[number as usize % SLICES];
        if self.current.saturating_sub(number) < SLICES as u64 && slice.withdrawals > 0 {
            slice.withdrawals -= 1;
            self.totals.withdrawals -= 1;
        }
    }

    /// Number of retries available now.
    pub fn balance(&mut self, now: Time) -> u64 {
        self.roll(now);
        let used = if self.carried.until > now { self.carried.amount } else { 0 };
        let floor = self.floor.saturating_sub(used);
        self.share().saturating_add(floor).saturating_sub(u64::from(self.totals.withdrawals))
    }

    /// Number of retries that the calls in the window allow.
    fn share(&self) -> u64 {
        let share = f64::from(self.totals.deposits) * self.settings.percent_can_retry;
        let share = match self.settings.rounding {
            Rounding::Floor => share.floor(),
            Rounding::Ceil => share.ceil(),
        };
        share as u64
    }

    /// Applies new settings. If `ttl` changes, all calls and retries that count now count for one whole new `ttl`,
    /// and the floor is used up until all retries would have left the old window. So no two floors are granted within
    /// the `ttl` of the first.
    pub(crate) fn retune(&mut self, to: WindowSettings, now: Time) {
        let mut new = Self::new(to);
        if self.settings.ttl == to.ttl {
            (self.floor, self.settings) = (new.floor, to);
            return;
        }
        let Debt { amount, until } = self.debt(now);
        if amount > 0 {
            new.carried = Debt { amount: WHOLE_FLOOR, until };
        }
        self.roll(now);
        new.roll(now);
        new.totals = self.totals;
        new.slices[new.current as usize % SLICES] = new.totals;
        *self = new;
    }

    /// The withdrawals in the window, until the newest of them leaves it, and the used part of the floor. Deposits
    /// are not a debt: without them fewer retries are allowed, never more.
    pub(crate) fn debt(&mut self, now: Time) -> Debt {
        if self.anchor.is_none() {
            return Debt::NONE; // reading does not start the window
        }
        self.roll(now);
        let recent = (self.current.saturating_sub(SLICES as u64 - 1)..=self.current).rev();
        let newest = recent.into_iter().find(|number| self.slice(*number).withdrawals > 0);
        let carried = if self.carried.until > now { self.carried } else { Debt::NONE };
        let Some(number) = newest else { return carried };
        Debt {
            amount: carried.amount.saturating_add(self.totals.withdrawals.into()).min(WHOLE_FLOOR),
            until: self.forgotten(number).max(carried.until),
        }
    }

    /// Adds withdrawals until at least `debt.amount` of them stay in the window until `debt.until`.
    pub(crate) fn owe(&mut self, debt: Debt, now: Time) {
        let owed = u32::try_from(debt.amount).unwrap_or(u32::MAX);
        if self.anchor.is_none() && debt.amount < WHOLE_FLOOR {
            // The withdrawals go into the first slice, which ends with the debt, so another eviction does not prolong
            // it.
            let begin = debt.until.as_micros().saturating_sub(self.settings.ttl.as_micros());
            self.anchor = Some(Time::from_micros(begin));
            (self.slices[0].withdrawals, self.totals.withdrawals) = (owed, owed);
        }
        self.roll(now);
        if debt.amount >= WHOLE_FLOOR || self.forgotten(self.current) < debt.until {
            // No slice lasts that long.
            self.carried = self.carried.with(debt, now);
            return;
        }
        let recent = self.current.saturating_sub(SLICES as u64 - 1)..=self.current;
        let counted = recent
            .filter(|number| self.forgotten(*number) >= debt.until)
            .fold(0_u32, |sum, number| sum.saturating_add(self.slice(number).withdrawals));
        let missing = owed.saturating_sub(counted).min(u32::MAX - self.totals.withdrawals);
        self.slices[self.current as usize % SLICES].withdrawals += missing;
        self.totals.withdrawals += missing;
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.settings.ttl
    }

    fn slice(&self, number: u64) -> Slice {
        self.slices[number as usize % SLICES]
    }

    /// When a slice leaves the window.
    fn forgotten(&self, number: u64) -> Time {
        let ttl = u128::from(self.settings.ttl.as_micros());
        let span = wide::div_ceil((u128::from(number) + SLICES as u128) * ttl, SLICES as u128);
        let end = u128::from(self.anchor.unwrap_or_default().as_micros()) + span;
        Time::from_micros(u64::try_from(end).unwrap_or(u64::MAX))
    }

    /// Writes the window's length, the origin of its slices, and their contents, if any. Slices are counted from the
    /// first moment seen for good, so the origin is saved even if the window is empty.
    pub(crate) fn save(&self, to: &mut Saver) {
        let mut it = self.clone();
        let Some(anchor) = it.anchor else { return };
        it.roll(to.now());
        // Whole windows since then change only the slices' numbers.
        let windows = it.current / SLICES as u64;
        let span = it.settings.ttl.as_micros().saturating_mul(windows);
        to.text("window");
        to.whole(it.settings.ttl.as_micros());
        to.moment(anchor.after(Duration::from_micros(span)));
        let left = it.carried.until.since(to.now()).as_micros();
        to.whole(if left > 0 { it.carried.amount } else { 0 });
        to.whole(left);
        if it.totals.deposits > 0 || it.totals.withdrawals > 0 {
            for slice in it.slices {
                to.count(slice.deposits);
                to.count(slice.withdrawals);
            }
        }
    }

    /// Continues the window if its length is unchanged; otherwise begins with a used-up floor.
    pub(crate) fn load(from: &mut Loader<'_>, settings: WindowSettings) -> Result<Self, Damage> {
        let mut it = Self::new(settings);
        if from.whole()? != settings.ttl.as_micros() {
            return Ok(from.dropped(Self::spent(settings, from.now())));
        }
        let anchor = from.past()?;
        if from.version() > 1 {
            let (amount, left) = (from.whole()?.min(WHOLE_FLOOR), from.whole()?);
            it.carried = Debt { amount, until: from.then().after(Duration::from_micros(left)) };
        }
        if from.then().since(anchor) >= settings.ttl.max(Duration::from_micros(1)) {
            return Err(Damage("its slices must begin within the window"));
        }
        it.anchor = Some(anchor);
        it.current = it.slice_of(from.then());
        if from.has_more() {
            for slice in &mut it.slices {
                (slice.deposits, slice.withdrawals) = (from.count()?, from.count()?);
                let sums = (
                    it.totals.deposits.checked_add(slice.deposits),
                    it.totals.withdrawals.checked_add(slice.withdrawals),
                );
                let (Some(deposits), Some(withdrawals)) = sums else { return Err(Damage("holds too many")) };
                it.totals = Slice { deposits, withdrawals };
            }
        }
        Ok(it)
    }

    /// Moves the window up to `now`, in at most ten steps however much time has passed.
    #[inline]
    fn roll(&mut self, now: Time) {
        if now >= self.current_ends || self.anchor.is_none() {
            self.move_to(now);
        }
    }

    /// Moves the window to a later slice. Out of line, because few calls are the first of their slice.
    #[inline(never)]
    fn move_to(&mut self, now: Time) {
        let anchor = *self.anchor.get_or_insert(now);
        let ttl = u128::from(self.settings.ttl.as_micros());
        let number = self.slice_of(now).max(self.current);
        let span = wide::div_ceil((u128::from(number) + 1) * ttl, SLICES as u128);
        let end = u128::from(anchor.as_micros()) + span;
        self.current_ends = Time::from_micros(u64::try_from(end).unwrap_or(u64::MAX));
        for before in (self.current..number).rev().take(SLICES) {
            let slice = core::mem::take(&mut self.slices[(before + 1) as usize % SLICES]);
            self.totals.deposits -= slice.deposits;
            self.totals.withdrawals -= slice.withdrawals;
        }
        self.current = number;
    }

    /// The number of the slice that `moment` lies in, counted from the first moment seen.
    fn slice_of(&self, moment: Time) -> u64 {
        let elapsed = moment.since(self.anchor.unwrap_or(moment)).as_micros();
        let ttl = self.settings.ttl.as_micros().max(1);
        let number = wide::div(u128::from(elapsed) * SLICES as u128, ttl.into());
        u64::try_from(number).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    #[test]
    fn follows_the_published_vector() {
        let vector = crate::published::vector("budget_window.json");
        let mut budget = RetryBudget::new(WindowSettings::default());
        let mut checked = 0;
        for step in vector["steps"].as_array().unwrap() {
            let times = step["times"].as_u64().unwrap_or(1);
            match step["op"].as_str().unwrap() {
                "deposit" => (0..times).for_each(|_| budget.deposit(at(5))),
                "balance" => {
                    assert_eq!(budget.balance(at(5)), step["expect"].as_u64().unwrap());
                    checked += 1;
                }
                "withdraw" => {
                    let granted = (0..times).filter(|_| budget.try_withdraw(at(5))).count();
                    assert_eq!(granted as u64, step["granted"].as_u64().unwrap());
                    checked += 1;
                }
                other => panic!("unknown op {other}"),
            }
        }
        assert_eq!(checked, 3);
    }

    #[test]
    fn a_refund_goes_back_to_the_slice_it_came_from_and_only_while_that_counts() {
        let settings = WindowSettings { min_retries_per_sec: 0.1, ..WindowSettings::default() };
        let mut budget = RetryBudget::new(settings);
        assert!(budget.try_withdraw(at(0)));
        assert!(!budget.try_withdraw(at(1)));
        budget.refund(at(0), at(2_000_000));
        assert!(budget.try_withdraw(at(2_000_000)));
        // The first charge's slice is gone, and the newest has taken its place: the newer charge must not be
        // refunded.
        budget.refund(at(2_000_000), at(2_000_000));
        assert!(budget.try_withdraw(at(10_500_000)));
        budget.refund(at(0), at(10_600_000));
        assert!(!budget.try_withdraw(at(10_600_000)));
    }

    #[test]
    fn rounding_floor_and_ceil_differ_by_the_fraction() {
        let settings = WindowSettings { min_retries_per_sec: 0.0, ..WindowSettings::default() };
        for (rounding, expected) in [(Rounding::Floor, 0), (Rounding::Ceil, 1)] {
            let mut budget = RetryBudget::new(WindowSettings { rounding, ..settings });
            budget.deposit(at(0));
            assert_eq!(budget.balance(at(0)), expected);
        }
    }

    #[test]
    fn a_debt_is_owed_until_its_end_beside_retries_that_leave_the_window_sooner() {
        let settings = WindowSettings { min_retries_per_sec: 1.0, ..WindowSettings::default() };
        let mut budget = RetryBudget::new(settings);
        assert_eq!((0..3).filter(|_| budget.try_withdraw(at(0))).count(), 3);
        budget.owe(Debt { amount: 3, until: at(15_000_000) }, at(5_000_000));
        assert_eq!(budget.balance(at(11_000_000)), 7);
        assert_eq!(budget.balance(at(15_000_000)), 10);
    }

    /// The slow model: every entry with the number of its slice, and the rule as written in the semantics.
    struct Model {
        settings: WindowSettings,
        anchor: Option<u64>,
        deposits: Vec<u64>,
        withdrawals: Vec<u64>,
    }

    impl Model {
        fn counted(&self, entries: &[u64], now: u64) -> usize {
            let number = |t: u64| {
                u128::from(t - self.anchor.unwrap()) * 10 / u128::from(self.settings.ttl.as_micros())
            };
            entries.iter().filter(|t| number(now) - number(**t) < 10).count()
        }

        fn balance(&self, now: u64) -> u64 {
            let share = (self.counted(&self.deposits, now) as f64 * self.settings.percent_can_retry).floor();
            let floor =
                (self.settings.min_retries_per_sec * self.settings.ttl.as_micros() as f64 / 1e6).floor();
            (share as u64 + floor as u64).saturating_sub(self.counted(&self.withdrawals, now) as u64)
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_slow_model(
            origin in prop_oneof![Just(0u64), Just(1), Just(1 << 53), Just(u64::MAX - 10_000_000_000)],
            ttl in 10u64..5_000_000,
            percent in 0.0f64..1.5,
            floor in 0.0f64..20.0,
            steps in prop::collection::vec((0u64..2_000_000, 0u8..4), 1..120),
        ) {
            let settings = WindowSettings {
                ttl: Duration::from_micros(ttl), min_retries_per_sec: floor, percent_can_retry: percent, rounding: Rounding::Floor,
            };
            let mut budget = RetryBudget::new(settings);
            let mut model = Model { settings, anchor: None, deposits: vec![], withdrawals: vec![] };
            let mut now = origin;
            for (gap, op) in steps {
                now += gap;
                model.anchor.get_or_insert(now);
                match op {
                    0 | 1 => { budget.deposit(at(now)); model.deposits.push(now); }
                    _ => {
                        let granted = model.balance(now) > 0;
                        prop_assert_eq!(budget.try_withdraw(at(now)), granted);
                        if granted { model.withdrawals.push(now); }
                    }
                }
                prop_assert_eq!(budget.balance(at(now)), model.balance(now));
            }
        }
    }
}
