//! Metrics: what records come to, with bounded labels; and records of chosen types only.

use tidegate::{
    CallId, Class, Engine, Event, Family, Meter, Options, Outcome, Policy, PolicyId, Reading, Record,
    RecordType, Request, Series, Time, Value,
};

struct Bench {
    engine: Engine,
    meter: Meter,
    now: u64,
}

impl Bench {
    fn new(max_routes: usize, types: &[RecordType]) -> Self {
        let mut engine = Engine::new(7, Options::default());
        engine.subscribe_to(types);
        Self { engine, meter: Meter::new(max_routes), now: 0 }
    }

    fn policy(&mut self, name: &str, pairs: &[(&str, Value<'_>)]) -> PolicyId {
        self.engine.policy(Policy::from_pairs(name, pairs).unwrap()).unwrap()
    }

    fn at(&self) -> Time {
        Time::from_micros(self.now)
    }

    fn begin(&mut self, policy: PolicyId, key: &str) -> CallId {
        let route = self.engine.route(policy, key, self.at());
        let (call, _) =
            self.engine.begin(route, &Request { may_park: true, ..Request::default() }, self.at());
        self.take();
        call
    }

    fn end(&mut self, call: CallId, class: Class) {
        let outcome = Outcome::of(class);
        let _ = self.engine.on(call, Event::Finished { attempt: 1, outcome }, self.at());
        self.take();
    }

    fn take(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        self.engine.take_records(&mut records);
        for record in &records {
            self.meter.add(&self.engine, record);
        }
        records
    }

    fn series(&mut self) -> Vec<Series> {
        let now = self.at();
        self.meter.read(&self.engine, now)
    }

    fn number(&mut self, family: Family, policy: &str, route: &str, labels: &[&str]) -> Option<f64> {
        let all = self.series();
        let mut like = all.iter().filter(|it| {
            it.family == family && it.policy == policy && it.route == route && it.labels == labels
        });
        let found = like.next()?;
        assert_eq!(like.next(), None, "one series of a kind");
        match &found.reading {
            Reading::Number(number) => Some(*number),
            Reading::Histogram { counts, .. } => Some(counts.iter().sum::<u64>() as f64),
        }
    }
}

fn pairs() -> [(&'static str, Value<'static>); 4] {
    [
        ("bulkhead.max_concurrency", Value::Number(1.0)),
        ("bulkhead.max_queue", Value::Number(1.0)),
        ("breaker.consecutive", Value::Number(1.0)),
        ("breaker.break_duration", Value::Number(1e6)),
    ]
}

#[test]
fn every_call_is_counted_where_it_belongs() {
    let mut bench = Bench::new(5, Meter::TYPES);
    let policy = bench.policy("p", &pairs());
    let calls = [(); 3].map(|()| bench.begin(policy, "eu"));
    bench.now = 3_000;
    bench.end(calls[0], Class::Ok);
    let _ = bench.engine.on(calls[1], Event::Poll, bench.at());
    bench.end(calls[1], Class::Transient);
    let refused = bench.begin(policy, "eu");

    assert_eq!(bench.number(Family::Calls, "p", "eu", &["ok"]), Some(1.0));
    assert_eq!(bench.number(Family::Calls, "p", "eu", &["attempts"]), Some(1.0));
    assert_eq!(bench.number(Family::Rejections, "p", "eu", &["bulkhead", "queue_full"]), Some(1.0));
    assert_eq!(
        bench.number(Family::Rejections, "p", "eu", &["breaker", "breaker_open"]),
        Some(1.0),
        "{refused:?}"
    );
    assert_eq!(bench.number(Family::Attempts, "p", "eu", &["ok"]), Some(1.0));
    assert_eq!(bench.number(Family::Attempts, "p", "eu", &["transient"]), Some(1.0));
    assert_eq!(bench.number(Family::RetriesSuppressed, "p", "eu", &["attempts"]), Some(1.0));
    assert_eq!(bench.number(Family::CallDuration, "p", "eu", &[]), Some(4.0));
    assert_eq!(bench.number(Family::AcquireLatency, "p", "eu", &[]), Some(1.0), "the one that waited");
    assert_eq!(bench.number(Family::BreakerStateNow, "p", "eu", &[]), Some(1.0));
    assert_eq!(bench.number(Family::Capacity, "p", "eu", &[]), Some(1.0));
    let waited = bench.series().into_iter().find(|it| it.family == Family::AcquireLatency).unwrap();
    let Reading::Histogram { counts, sum } = waited.reading else { panic!("{waited:?}") };
    assert_eq!((counts[2], sum), (1, 0.003), "3 ms are at most 5, and more than 2.5");
    assert_eq!(counts.len(), Meter::BOUNDS.len() + 1);
}

#[test]
fn the_delay_in_force_is_a_gauge_that_follows_what_is_observed() {
    let mut bench = Bench::new(5, Meter::TYPES);
    let pairs = [("hedge.delay", Value::Number(5e5)), ("hedge.adaptive_delay_quantile", Value::Number(0.5))];
    let policy = bench.policy("p", &pairs);
    let _ = bench.begin(policy, "eu");
    assert_eq!(bench.number(Family::HedgeDelay, "p", "eu", &[]), Some(0.5), "as it is written");
    for _ in 0..9 {
        let call = bench.begin(policy, "eu");
        bench.now += 20_000;
        bench.end(call, Class::Ok);
    }
    assert_eq!(bench.number(Family::HedgeDelay, "p", "eu", &[]), Some(0.02), "as it is observed");
}

#[test]
fn routes_beyond_the_bound_are_one_series() {
    let mut bench = Bench::new(2, Meter::TYPES);
    let policy = bench.policy("p", &pairs());
    for key in ["a", "b", "c", "d", "a"] {
        let call = bench.begin(policy, key);
        bench.end(call, Class::Ok);
    }
    assert_eq!(bench.number(Family::Calls, "p", "a", &["ok"]), Some(2.0));
    assert_eq!(bench.number(Family::Calls, "p", "b", &["ok"]), Some(1.0));
    assert_eq!(bench.number(Family::Calls, "p", "c", &["ok"]), None);
    assert_eq!(bench.number(Family::Calls, "p", "other", &["ok"]), Some(2.0));
    assert_eq!(bench.number(Family::Capacity, "p", "other", &[]), Some(2.0), "levels are added up");
    let call = bench.begin(policy, "d");
    bench.end(call, Class::Transient);
    assert_eq!(bench.number(Family::BreakerStateNow, "p", "other", &[]), Some(1.0), "and states are not");
}

#[test]
fn counters_only_grow_when_routes_come_and_go() {
    let mut bench = Bench::new(1_000, Meter::TYPES);
    bench.engine = Engine::new(7, Options::default().max_routes(4));
    bench.engine.subscribe_to(Meter::TYPES);
    let policy = bench.policy("p", &pairs());
    let mut before = 0;
    for turn in 0..500_u64 {
        bench.now += 3_600_000_000;
        let call = bench.begin(policy, &format!("route {}", turn % 9));
        bench.end(call, Class::Ok);
        let sum = |it: &Series| match (it.family, &it.reading) {
            (Family::Calls, Reading::Number(number)) => *number as u64,
            _ => 0,
        };
        let after: u64 = bench.series().iter().map(sum).sum();
        assert_eq!(after, before + 1);
        before = after;
    }
    assert!(bench.engine.snapshot(bench.at()).route_evictions > 0, "this test is about eviction");
}

#[test]
fn records_are_made_of_the_types_that_somebody_wants() {
    let all = |types: &[RecordType]| {
        let mut bench = Bench::new(2, types);
        let policy = bench.policy("p", &pairs());
        let mut told = Vec::new();
        for class in [Class::Ok, Class::Transient, Class::Ok] {
            let call = {
                let route = bench.engine.route(policy, "eu", bench.at());
                bench.engine.begin(route, &Request::default(), bench.at()).0
            };
            let outcome = Outcome::of(class);
            let _ = bench.engine.on(call, Event::Finished { attempt: 1, outcome }, bench.at());
            told.extend(bench.take());
        }
        told
    };
    let everything = all(RecordType::ALL);
    for what in RecordType::ALL {
        let told: Vec<_> = all(&[*what]).into_iter().map(|record| record.to_string()).collect();
        let like = everything.iter().filter(|record| record.what == *what);
        let expected: Vec<_> =
            (1..).zip(like).map(|(seq, record)| Record { seq, ..*record }.to_string()).collect();
        assert_eq!(told, expected, "{what}");
    }
    assert!(all(&[]).is_empty());
    let named: Vec<_> = everything.iter().map(|record| record.what.name()).collect();
    assert!(named.contains(&"breaker_changed") && named.contains(&"gave_up"), "{named:?}");
}
