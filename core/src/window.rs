//! Counts over a window of time, shared by the circuit breaker and the adaptive throttle (semantics 5.1, 6.2).

use crate::state::{Damage, Loader, Saver};
use crate::time::{Duration, Time};
use crate::wide;

/// How a window of counts moves with time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WindowKind {
    /// In ten slices: a result counts for 0.9 to 1 window, and a burst is detected wherever it falls.
    #[default]
    Sliding,
    /// As in the seed document: all counts are dropped when the window ends. A burst across the end is split in two.
    Tumbling,
}

impl WindowKind {
    const fn slices(self) -> usize {
        match self {
            Self::Sliding => SLICES,
            Self::Tumbling => 1,
        }
    }
}

const SLICES: usize = 10;

/// Number of entries, and number of marked ones: the failures of a breaker, the accepts of a throttle.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct WindowCounts {
    pub(crate) all: u32,
    pub(crate) marked: u32,
}

/// A window of counts in constant memory. Slices are counted from the first entry into an empty window, so that no
/// decision depends on the clock's origin or on the times of reads. `now` never goes back (the owner's `Clock`).
#[derive(Clone, Debug)]
pub(crate) struct CountWindow {
    length: Duration,
    kind: WindowKind,
    slices: [WindowCounts; SLICES],
    totals: WindowCounts,
    /// The first entry; the number of the present slice, counted from there; its index; and the moment it ends.
    anchor: Time,
    current: u64,
    place: usize,
    ends: Time,
}

impl CountWindow {
    /// Creates an empty window; a length of zero becomes 1 µs.
    pub(crate) fn new(length: Duration, kind: WindowKind) -> Self {
        Self {
            length: length.max(Duration::from_micros(1)),
            kind,
            slices: [WindowCounts::default(); SLICES],
            totals: WindowCounts::default(),
            anchor: Time::from_micros(0),
            current: 0,
            place: 0,
            ends: Time::from_micros(0),
        }
    }

    /// Adds an entry. A window of 4 billion entries stops counting.
    #[inline]
    pub(crate) fn add(&mut self, marked: bool, now: Time) {
        self.roll(now);
        if self.totals.all == 0 {
            self.begin(now);
        }
        if self.totals.all < u32::MAX {
            let slice = &mut self.slices[self.place];
            slice.all += 1;
            slice.marked += u32::from(marked);
            self.totals.all += 1;
            self.totals.marked += u32::from(marked);
        }
    }

    /// Marks the newest unmarked entry; if there is none, adds a marked one.
    pub(crate) fn mark(&mut self, now: Time) {
        self.roll(now);
        let slices = self.kind.slices();
        for back in 0..slices {
            let slice = &mut self.slices[(self.place + slices - back) % slices];
            if slice.marked < slice.all {
                slice.marked += 1;
                self.totals.marked += 1;
                return;
            }
        }
        self.add(true, now);
    }

    /// The present counts.
    #[inline]
    pub(crate) fn counts(&mut self, now: Time) -> WindowCounts {
        self.roll(now);
        self.totals
    }

    /// The present counts, without changing the window.
    pub(crate) fn peek(&self, now: Time) -> WindowCounts {
        self.clone().counts(now)
    }

    /// Whether the window has this length and kind.
    pub(crate) fn is(&self, length: Duration, kind: WindowKind) -> bool {
        self.length == length.max(Duration::from_micros(1)) && self.kind == kind
    }

    /// Writes its length and kind, the origin of its slices, and their contents, oldest first; nothing for an empty
    /// window.
    pub(crate) fn save(&self, to: &mut Saver) {
        let mut it = self.clone();
        if it.counts(to.now()).all == 0 {
            return;
        }
        let slices = it.kind.slices();
        // Whole windows since then change only the slices' numbers.
        let windows = it.current / slices as u64;
        let span = Duration::from_micros(it.length.as_micros().saturating_mul(windows));
        to.whole(it.length.as_micros());
        to.flag(it.kind == WindowKind::Tumbling);
        to.moment(it.anchor.after(span));
        for back in (0..slices).rev() {
            let slice = it.slices[(it.place + slices - back) % slices];
            to.count(slice.all);
            to.count(slice.marked);
        }
    }

    /// Restores the counts if the window has this length and kind.
    pub(crate) fn load(from: &mut Loader<'_>, length: Duration, kind: WindowKind) -> Result<Self, Damage> {
        let mut it = Self::new(length, kind);
        if !from.has_more() {
            return Ok(it);
        }
        let tumbling = kind == WindowKind::Tumbling;
        if (from.whole()?, from.flag()?) != (it.length.as_micros(), tumbling) {
            return Ok(from.dropped(it));
        }
        it.anchor = from.past()?;
        if from.then().since(it.anchor) >= it.length {
            return Err(Damage("its slices must begin within the window"));
        }
        for slice in &mut it.slices[..kind.slices()] {
            *slice = WindowCounts { all: from.count()?, marked: from.count()? };
            let all = it.totals.all.checked_add(slice.all);
            let (Some(all), true) = (all, slice.marked <= slice.all) else {
                return Err(Damage("must mark no more than it counts"));
            };
            it.totals = WindowCounts { all, marked: it.totals.marked + slice.marked };
        }
        (it.place, it.current) = (kind.slices() - 1, it.slice_of(from.then()));
        Ok(it) // the next access computes where the slice ends
    }

    /// Starts the slices at the first entry into an empty window.
    #[inline(never)]
    fn begin(&mut self, now: Time) {
        self.anchor = now;
        self.current = 0;
        self.ends = self.end_of(0);
    }

    /// Moves the window up to `now`, in at most ten steps however much time has passed.
    #[inline]
    fn roll(&mut self, now: Time) {
        if now >= self.ends && self.totals.all > 0 {
            self.move_to(self.slice_of(now));
        }
    }

    /// Moves the window to a later slice. Out of line, because few entries are the first of their slice.
    #[inline(never)]
    fn move_to(&mut self, number: u64) {
        let slices = self.kind.slices();
        for _ in 0..number.saturating_sub(self.current).min(slices as u64) {
            self.place = (self.place + 1) % slices;
            let gone = core::mem::take(&mut self.slices[self.place]);
            self.totals.all -= gone.all;
            self.totals.marked -= gone.marked;
        }
        self.current = number.max(self.current);
        self.ends = self.end_of(self.current);
    }

    /// Number of the slice that contains `moment`.
    #[inline(never)]
    fn slice_of(&self, moment: Time) -> u64 {
        let elapsed = u128::from(moment.since(self.anchor).as_micros());
        let number = wide::div(elapsed * self.kind.slices() as u128, self.length.as_micros().into());
        u64::try_from(number).unwrap_or(u64::MAX)
    }

    /// The first moment after this slice.
    fn end_of(&self, number: u64) -> Time {
        let span = (u128::from(number) + 1) * u128::from(self.length.as_micros());
        let end = u128::from(self.anchor.as_micros()) + wide::div_ceil(span, self.kind.slices() as u128);
        Time::from_micros(u64::try_from(end).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(micros: u64) -> Time {
        Time::from_micros(micros)
    }

    /// The slow model: the list of all entries since the window was last empty.
    struct Model {
        length: u64,
        slices: u64,
        entries: Vec<(u64, bool)>,
    }

    impl Model {
        fn recent(&mut self, now: u64) -> WindowCounts {
            let Some(&(first, _)) = self.entries.first() else { return WindowCounts::default() };
            let slice =
                |t: u64| (u128::from(t - first) * u128::from(self.slices) / u128::from(self.length)) as u64;
            let recent: Vec<_> =
                self.entries.iter().filter(|(t, _)| slice(now) - slice(*t) < self.slices).collect();
            let counts = WindowCounts {
                all: recent.len() as u32,
                marked: recent.iter().filter(|(_, marked)| *marked).count() as u32,
            };
            if recent.is_empty() {
                self.entries.clear();
            }
            counts
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_list_of_all_entries(
            origin in prop_oneof![Just(0u64), Just(1), Just(1 << 53), Just(u64::MAX - 900_000), Just(u64::MAX)],
            length in prop_oneof![1u64..20, 20u64..5_000, Just(1_000_000), Just(u64::MAX)],
            tumbling: bool,
            steps in prop::collection::vec((prop_oneof![4 => 0u64..700, 1 => 0u64..20_000, 1 => Just(3_600_000_000)], any::<bool>(), any::<bool>()), 1..150),
        ) {
            let kind = if tumbling { WindowKind::Tumbling } else { WindowKind::Sliding };
            let mut window = CountWindow::new(Duration::from_micros(length), kind);
            let mut model = Model { length, slices: kind.slices() as u64, entries: vec![] };
            let mut now = origin;
            for (gap, add, marked) in steps {
                now = now.saturating_add(gap);
                if add {
                    model.recent(now);
                    model.entries.push((now, marked));
                    window.add(marked, at(now));
                }
                let expected = model.recent(now);
                prop_assert_eq!(window.peek(at(now)), expected);
                prop_assert_eq!(window.counts(at(now)), expected);
            }
        }
    }

    #[test]
    fn an_entry_counts_for_nine_to_ten_slices() {
        for (entered, last) in [(0, 99), (5, 104)] {
            let mut window = CountWindow::new(Duration::from_micros(100), WindowKind::Sliding);
            window.add(true, at(entered));
            assert_eq!(window.peek(at(last)).all, 1);
            assert_eq!(window.peek(at(last + 1)).all, 0);
        }
        let mut window = CountWindow::new(Duration::from_micros(100), WindowKind::Sliding);
        window.add(false, at(0));
        window.add(true, at(19));
        assert_eq!(window.peek(at(109)), WindowCounts { all: 1, marked: 1 });
        assert_eq!(window.peek(at(110)), WindowCounts::default());
    }

    #[test]
    fn a_mark_takes_the_newest_that_has_none_and_adds_where_all_have() {
        let mut window = CountWindow::new(Duration::from_micros(100), WindowKind::Sliding);
        window.add(false, at(0));
        window.add(false, at(15));
        window.add(true, at(35));
        window.mark(at(45));
        assert_eq!(window.peek(at(45)), WindowCounts { all: 3, marked: 2 });
        // The oldest entry leaves unmarked: the mark is on the entry of 15.
        assert_eq!(window.peek(at(100)), WindowCounts { all: 2, marked: 2 });
        window.mark(at(100));
        assert_eq!(window.peek(at(100)), WindowCounts { all: 3, marked: 3 });
    }

    #[test]
    fn a_full_window_stops_counting() {
        let mut window = CountWindow::new(Duration::from_micros(100), WindowKind::Tumbling);
        window.add(true, at(0));
        (window.totals.all, window.slices[0].all) = (u32::MAX, u32::MAX);
        window.add(true, at(1));
        assert_eq!(window.peek(at(1)), WindowCounts { all: u32::MAX, marked: 1 });
        assert_eq!(window.peek(at(100)), WindowCounts::default());
    }
}
