//! Totals of parts that come and go: a route may be evicted, a target removed. Their series must not run back.

use std::collections::BTreeMap;

use super::Family;

/// Family, policy, route and labels of a series.
pub type Name = (Family, String, String, Vec<String>);

/// Most series whose totals are kept. Only new names of targets and limits without end lead there.
const MOST: usize = 65_536;

/// A part that no reading of so many has seen is gone. Readings that go on at the same time see parts in different orders, so
/// it is more than one.
const KEPT: u64 = 16;

/// The part that has counted, and the labels of what it has counted.
type Source = (u64, Family, Vec<String>);

/// Sums of what parts have counted, those that are gone included.
#[derive(Default, Debug)]
pub struct Grown {
    /// The highest total that each part has shown so far, and the last reading that has seen it.
    seen: BTreeMap<Source, (u64, u64)>,
    sums: BTreeMap<Name, u64>,
    readings: u64,
}

impl Grown {
    /// Begins a reading and returns its number.
    pub fn begin(&mut self) -> u64 {
        self.readings += 1;
        self.readings
    }

    /// Adds what a part has counted since it was last read. A total that is older than the last one adds nothing.
    pub fn add(&mut self, (life, reading): (u64, u64), name: Name, total: u64) {
        if total == 0 || self.sums.len() >= MOST && !self.sums.contains_key(&name) {
            return;
        }
        let (family, _, _, labels) = &name;
        let (seen, last) = self.seen.entry((life, *family, labels.clone())).or_default();
        let more = total.saturating_sub(*seen);
        (*seen, *last) = (*seen + more, reading.max(*last));
        *self.sums.entry(name).or_default() += more;
    }

    /// Forgets parts that are gone; their sums stay.
    pub fn forget(&mut self, reading: u64) {
        self.seen.retain(|_, (_, last)| *last + KEPT > reading);
    }

    /// The sums, in the order of their names.
    pub fn sums(&self) -> impl Iterator<Item = (&Name, u64)> {
        self.sums.iter().map(|(name, sum)| (name, *sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_gone_leave_their_sums_and_no_memory() {
        // Specification 12.5.3.
        let name = || (Family::RateReserved, "p".to_owned(), "other".to_owned(), vec!["tpm".to_owned()]);
        let mut grown = Grown::default();
        for life in 0..100 {
            let reading = grown.begin();
            grown.add((life, reading), name(), 5);
            grown.add((life, reading), name(), 3); // an older page of another reading
            grown.forget(reading);
        }
        assert_eq!(grown.sums().collect::<Vec<_>>(), [(&name(), 500)]);
        assert_eq!(grown.seen.len() as u64, KEPT);
    }
}
