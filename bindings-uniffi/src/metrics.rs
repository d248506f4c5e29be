//! Metrics: core's meter, and its series as records of uniffi. Conversions and nothing else.

use tidegate::{Family, Meter, PolicyId, ReadPages, Reading as CoreReading, Record, RouteId, Timed};

use crate::{Engine, State, time};

/// All series of one name.
#[derive(Clone, PartialEq, Eq, Debug, uniffi::Record)]
pub struct MetricFamily {
    /// Its name, the same for every backend.
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub instrument: String,
    /// Its labels beside `policy` and `route`, which all have.
    pub labels: Vec<String>,
    /// What it says, in one sentence.
    pub meaning: String,
}

/// What a series says.
#[derive(Clone, PartialEq, Debug, uniffi::Enum)]
pub enum Reading {
    /// A counter's or a gauge's.
    Number {
        /// The number.
        value: f64,
    },
    /// A histogram's.
    Histogram {
        /// By upper bound, and at the end how many were above all.
        counts: Vec<u64>,
        /// Of all values, in seconds.
        sum: f64,
    },
}

/// One series.
#[derive(Clone, PartialEq, Debug, uniffi::Record)]
pub struct MetricSeries {
    /// The place of its family among `metric_families`.
    pub family: u8,
    /// The policy's name; empty for a pool that policies share.
    pub policy: String,
    /// The route's key, or `other`; a pool's name.
    pub route: String,
    /// The values of its family's labels.
    pub labels: Vec<String>,
    /// What it says.
    pub reading: Reading,
}

/// The families of metrics: a closed list.
#[uniffi::export]
pub fn metric_families() -> Vec<MetricFamily> {
    let families = Family::ALL.iter().map(|family| MetricFamily {
        name: family.name().to_owned(),
        instrument: family.instrument().name().to_owned(),
        labels: family.labels().iter().map(|&label| label.to_owned()).collect(),
        meaning: family.meaning().to_owned(),
    });
    families.collect()
}

/// The upper bounds of histograms, in seconds.
#[uniffi::export]
pub fn metric_bounds() -> Vec<f64> {
    Meter::BOUNDS.to_vec()
}

/// A span that a host's own histogram takes in: policy, route, the place of its family, microseconds.
pub type Timing = [u64; 4];

/// What is kept of timings that no host has taken.
const MOST_TIMINGS: usize = 1 << 16;

/// What counts, once somebody has asked for metrics.
pub struct Measured {
    meter: Meter,
    /// Does a host take single spans?
    timed: bool,
    pub timings: Vec<Timing>,
    scratch: Vec<Record>,
}

impl Measured {
    fn add(&mut self, core: &tidegate::Engine, record: &Record) {
        self.meter.add(core, record);
        if !self.timed || self.timings.len() >= MOST_TIMINGS {
            return;
        }
        let Some((family, span)) = Timed::span(record) else { return };
        if let (Some(policy), Some(route)) = (record.policy, record.route) {
            self.timings.push([policy.to_word().into(), route.to_word(), family as u64, span.as_micros()]);
        }
    }
}

impl State {
    /// Which records core is to make, for those who listen and for the meter between them.
    pub(crate) fn subscribe(&mut self) {
        let mut wanted = self.heard.clone();
        if self.measured.is_some() {
            wanted.extend(Meter::TYPES.iter().filter(|it| !self.heard.contains(it)));
        }
        self.core.subscribe_to(&wanted);
    }

    /// Takes all records, counted.
    pub(crate) fn records(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        self.core.take_records(&mut records);
        if let Some(measured) = &mut self.measured {
            for record in &records {
                measured.add(&self.core, record);
            }
            records.retain(|record| self.heard.contains(&record.what));
        }
        records
    }

    /// Counts the records that nobody but the meter waits for.
    pub(crate) fn count(&mut self) {
        let Some(measured) = &mut self.measured else { return };
        if !self.heard.is_empty() || !self.core.has_records() {
            return;
        }
        let mut records = std::mem::take(&mut measured.scratch);
        self.core.take_records(&mut records);
        for record in &records {
            measured.add(&self.core, record);
        }
        records.clear();
        measured.scratch = records;
    }
}

#[uniffi::export]
impl Engine {
    /// Counts for metrics from now on, if it has not: `max_routes` routes of each policy have series of their own.
    pub fn measure(&self, max_routes: u32) {
        let mut state = self.state.lock();
        if state.measured.is_none() {
            let meter = Meter::new(max_routes as usize);
            state.measured = Some(Measured { meter, timed: false, timings: Vec::new(), scratch: Vec::new() });
            state.subscribe();
        }
    }

    /// Keeps single spans for histograms of the host's own, or no longer. Nothing before `measure`.
    pub fn time(&self, on: bool) {
        if let Some(measured) = &mut self.state.lock().measured {
            measured.timed = on;
            measured.timings.clear();
        }
    }

    /// All series there are now; none before `measure`.
    pub fn series(&self, now: u64) -> Vec<MetricSeries> {
        let mut pages = ReadPages::default();
        let mut page = || {
            let mut state = self.state.lock();
            state.count();
            let State { core, measured, .. } = &mut *state;
            measured.as_mut().is_some_and(|it| it.meter.read_page(core, &mut pages, time(now)))
        };
        while page() {} // the lock is free between two pages
        let series = pages.finish().into_iter().map(|series| MetricSeries {
            family: series.family as u8,
            policy: series.policy,
            route: series.route,
            labels: series.labels,
            reading: match series.reading {
                CoreReading::Number(value) => Reading::Number { value },
                CoreReading::Histogram { counts, sum } => Reading::Histogram { counts, sum },
            },
        });
        series.collect()
    }

    /// What a route is called in labels: its key, or `other`.
    pub fn label(&self, policy: u32, route: u64) -> String {
        let mut state = self.state.lock();
        let State { core, measured, .. } = &mut *state;
        let key = core.key_of(RouteId::from_word(route));
        let (Some(key), Some(measured)) = (key, measured) else { return "other".to_owned() };
        measured.meter.label(PolicyId::from_word(policy), key).to_owned()
    }

    /// A caller got something in the place of an error of a call on this route, or was to: for those who listen.
    pub fn note_fallback(&self, route: u64, ok: bool, now: u64) {
        let mut state = self.state.lock();
        state.core.note_fallback(RouteId::from_word(route), ok, time(now));
        state.count();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Pair, Value};

    fn engine() -> (Arc<Engine>, u32, u64) {
        let engine = Engine::new(7, 10, false, 0);
        let pairs = vec![Pair { key: "deadline".into(), value: Value::Number { value: 1e6 } }];
        let policy = engine.policy("p", pairs).unwrap();
        let route = engine.route(policy, "eu", 0);
        (engine, policy, route)
    }

    fn call(engine: &Engine, route: u64, now: u64) {
        let flags = 2 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 7;
        let begun = engine.begin(route, flags, 0, 0, 0, now).unwrap();
        engine.on(begun.call, 4 | 1 << 3, now + 7).unwrap();
    }

    fn calls(engine: &Engine, now: u64) -> Vec<Reading> {
        let at = metric_families().iter().position(|family| family.name == "tidegate_calls_total").unwrap();
        engine
            .series(now)
            .into_iter()
            .filter(|it| usize::from(it.family) == at)
            .map(|it| it.reading)
            .collect()
    }

    #[test]
    fn calls_are_counted_once_somebody_asks_whoever_else_listens() {
        let (engine, policy, route) = engine();
        call(&engine, route, 0);
        engine.measure(20);
        assert_eq!(calls(&engine, 5), [], "what was before is not counted");
        call(&engine, route, 10);
        engine.subscribe(vec!["attempt_done".into()]);
        call(&engine, route, 20);
        let kinds: Vec<_> = engine.take_events().into_iter().map(|event| event.kind).collect();
        assert_eq!(kinds, ["attempt_done"], "the meter's records are the meter's");
        engine.subscribe(Vec::new());
        call(&engine, route, 30);
        assert_eq!(calls(&engine, 40), [Reading::Number { value: 3.0 }]);
        assert_eq!((engine.label(policy, route).as_str(), engine.label(policy, 0).as_str()), ("eu", "other"));
    }

    #[test]
    fn single_spans_are_kept_for_who_wants_them() {
        let (engine, policy, route) = engine();
        engine.measure(20);
        call(&engine, route, 0);
        engine.time(true);
        call(&engine, route, 10);
        let kept = std::mem::take(&mut engine.state.lock().measured.as_mut().unwrap().timings);
        assert_eq!(kept, [[u64::from(policy), route, Family::CallDuration as u64, 7]]);
    }
}
