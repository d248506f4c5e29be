//! Counts per bucket of time, in bounded memory.

use serde::Serialize;
use std::collections::BTreeMap;

/// Counts of one bucket of time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Bucket {
    /// Its beginning, in seconds since the script began.
    pub t: f64,
    /// Requests that arrived.
    pub arrivals: u64,
    /// Answers below 400.
    pub ok: u64,
    /// Answers from 400 on, by status.
    pub errors: BTreeMap<u16, u64>,
    /// Answers broken on the wire, by fault.
    pub faults: BTreeMap<&'static str, u64>,
    /// The most that were in service at once.
    pub max_in_service: usize,
    /// The most that were queued at once.
    pub max_queued: usize,
    /// Requests whose client left before the answer.
    pub abandoned: u64,
}

impl Bucket {
    fn add(&mut self, other: &Self) {
        self.arrivals += other.arrivals;
        self.ok += other.ok;
        self.abandoned += other.abandoned;
        self.max_in_service = self.max_in_service.max(other.max_in_service);
        self.max_queued = self.max_queued.max(other.max_queued);
        for (status, n) in &other.errors {
            *self.errors.entry(*status).or_default() += n;
        }
        for (fault, n) in &other.faults {
            *self.faults.entry(fault).or_default() += n;
        }
    }
}

/// Buckets from t = 0, all `width` units wide.
pub(crate) struct Series {
    /// In units of [`FINEST`]; doubles when the buckets become too many.
    width: u64,
    buckets: Vec<Bucket>,
    in_service: usize,
    queued: usize,
}

/// The narrowest bucket, in seconds.
const FINEST: f64 = 0.1;
const MOST_BUCKETS: usize = 4096;

impl Default for Series {
    fn default() -> Self {
        Self { width: 1, buckets: Vec::new(), in_service: 0, queued: 0 }
    }
}

impl Series {
    /// The bucket of `t`. Buckets without changes keep the levels of the queue.
    pub(crate) fn at(&mut self, t: f64) -> &mut Bucket {
        let unit = (t / FINEST) as u64;
        while unit / self.width >= MOST_BUCKETS as u64 {
            self.buckets = merge(&self.buckets, 2);
            self.width *= 2;
        }
        let index = (unit / self.width) as usize;
        while self.buckets.len() <= index {
            self.buckets.push(Bucket {
                t: (self.buckets.len() as u64 * self.width) as f64 * FINEST,
                max_in_service: self.in_service,
                max_queued: self.queued,
                ..Bucket::default()
            });
        }
        &mut self.buckets[index]
    }

    pub(crate) fn level(&mut self, t: f64, in_service: usize, queued: usize) {
        let bucket = self.at(t); // first, so that buckets in between get the old levels
        bucket.max_in_service = bucket.max_in_service.max(in_service);
        bucket.max_queued = bucket.max_queued.max(queued);
        (self.in_service, self.queued) = (in_service, queued);
    }

    /// All buckets up to `t`, merged to the smallest possible width of at least `width` seconds; and that width.
    pub(crate) fn grouped(&mut self, t: f64, width: f64) -> (f64, Vec<Bucket>) {
        self.at(t);
        let own = self.width as f64 * FINEST;
        // Slightly less, because in binary 0.3 / 0.1 is slightly less or more than 3.
        let group = ((width / own) - 1e-9).ceil().max(1.0) as usize;
        (own * group as f64, merge(&self.buckets, group))
    }
}

fn merge(buckets: &[Bucket], group: usize) -> Vec<Bucket> {
    let merged = buckets.chunks(group).map(|chunk| {
        let mut all = chunk[0].clone();
        chunk[1..].iter().for_each(|bucket| all.add(bucket));
        all
    });
    merged.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_last_through_quiet_buckets() {
        let mut series = Series::default();
        series.level(0.05, 3, 7);
        series.level(0.45, 1, 0);
        let (width, buckets) = series.grouped(0.65, 0.1);
        assert!((width - 0.1).abs() < 1e-12);
        let queued: Vec<usize> = buckets.iter().map(|bucket| bucket.max_queued).collect();
        assert_eq!(queued, [7, 7, 7, 7, 7, 0, 0]);
    }

    #[test]
    fn grouping_loses_nothing() {
        let mut series = Series::default();
        for i in 0..100 {
            series.at(f64::from(i) * 0.1 + 0.05).arrivals += 1;
        }
        let (width, buckets) = series.grouped(9.99, 0.3);
        assert!((width - 0.3).abs() < 1e-9);
        assert_eq!(buckets.len(), 34);
        assert_eq!(buckets[0].arrivals, 3);
        assert_eq!(buckets.iter().map(|bucket| bucket.arrivals).sum::<u64>(), 100);
    }

    #[test]
    fn memory_is_bounded_however_long_it_runs() {
        let mut series = Series::default();
        for hour in 0..48 {
            series.at(f64::from(hour) * 3600.0).arrivals += 1;
        }
        assert!(series.buckets.len() <= MOST_BUCKETS);
        assert_eq!(series.buckets.iter().map(|bucket| bucket.arrivals).sum::<u64>(), 48);
        let (width, _) = series.grouped(48.0 * 3600.0, 0.1);
        assert!(width > 40.0, "the width that was possible is told: {width}");
    }
}
