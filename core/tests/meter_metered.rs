//! Metrics and records of metered and streaming services (semantics 12.1, 12.5).

#![allow(missing_docs)] // sentences
#![allow(clippy::float_cmp)] // counts and whole numbers of seconds

use crate::host::{SECOND, at, of};
use tidegate::{
    Action, CallId, Class, Document, Duration, Engine, Event, Family, Instrument, Meter, Options, Outcome,
    Reading, Record, RecordType, Request, Series, Skip, Step, Timed,
};

const STREAM: Request = Request { stream: true, slot_until_body: true, may_park: true, ..FUNCTION };
const FUNCTION: Request = Request {
    remaining: None,
    parent: None,
    path: tidegate::PathId::NONE,
    criticality: tidegate::Criticality::Normal,
    replayable: true,
    idempotent: true,
    abortable: true,
    may_park: false,
    slot_until_body: false,
    solo: false,
    stream: false,
    cost: 1,
};

struct Bench {
    engine: Engine,
    meter: Meter,
    records: Vec<Record>,
}

impl Bench {
    fn new(toml: &str, max_routes: usize) -> Self {
        let mut engine =
            Engine::new(7, Options::default().weights(true).streams(true).quotas(true).max_routes(4));
        let document = Document::from_toml(toml).unwrap_or_else(|errors| panic!("{errors:#?}"));
        for pool in document.pools() {
            engine.pool(pool.clone(), at(0)).unwrap();
        }
        engine.policy(document.policy("p").unwrap().clone()).unwrap();
        engine.subscribe_to(Meter::TYPES);
        Self { engine, meter: Meter::new(max_routes), records: Vec::new() }
    }

    fn begin(&mut self, key: &str, request: &Request, micros: u64) -> (CallId, Step) {
        let policy = self.engine.policy_named("p").unwrap();
        let route = self.engine.route(policy, key, at(micros));
        self.engine.begin(route, request, at(micros))
    }

    fn weighted(&mut self, key: &str, tokens: u64, micros: u64) -> CallId {
        let policy = self.engine.policy_named("p").unwrap();
        let route = self.engine.route(policy, key, at(micros));
        let weights = self.engine.weights(route, [("tokens", tokens)]).unwrap();
        self.engine.begin_weighted(route, &Request::default(), weights, at(micros)).0
    }

    fn on(&mut self, call: CallId, event: Event, micros: u64) -> Step {
        let step = self.engine.on(call, event, at(micros));
        self.engine.check().unwrap();
        let mut records = Vec::new();
        self.engine.take_records(&mut records);
        for record in &records {
            self.meter.add(&self.engine, record);
        }
        self.records.extend(records);
        step
    }

    fn finish(&mut self, call: CallId, attempt: u8, outcome: Outcome, micros: u64) -> Step {
        self.on(call, Event::Finished { attempt, outcome }, micros)
    }

    fn read(&mut self, micros: u64) -> Vec<Series> {
        self.meter.read(&self.engine, at(micros))
    }

    /// The value of a series that there is once; the number of samples of a histogram.
    fn number(&mut self, family: Family, place: [&str; 2], labels: &[&str], micros: u64) -> f64 {
        let all = self.read(micros);
        let like =
            |it: &&Series| it.family == family && [&*it.policy, &*it.route] == place && it.labels == labels;
        let found: Vec<_> = all.iter().filter(like).collect();
        assert!(found.len() <= 1, "{found:?}");
        found.first().map_or(0.0, |it| match &it.reading {
            Reading::Number(number) => *number,
            Reading::Histogram { counts, .. } => counts.iter().sum::<u64>() as f64,
        })
    }
}

const SET: &str = r#"
    [policy.p.rate_limit]
    learn = "down"
    limits.rpm = { permits = 60, per = "1m" }
    limits.tpm = { permits = 60000, per = "1m", burst = 1000, weight = "tokens", max_debt = 2000 }
"#;

#[test]
fn limits_of_a_set_are_series_by_their_names_12_5_2() {
    let mut bench = Bench::new(SET, 5);
    let (rpm, tpm) = (["rpm", ""], ["tpm", "tokens"]);
    let call = bench.weighted("eu", 600, 0);
    assert_eq!(bench.number(Family::RateReserved, ["p", "eu"], &tpm, 1), 600.0);
    assert_eq!(bench.number(Family::RateTokens, ["p", "eu"], &tpm, 1), 400.0);
    assert_eq!(bench.number(Family::RateSettled, ["p", "eu"], &tpm, 1), 0.0);
    assert!(bench.engine.settle_weight(call, 1, "tokens", 5000, at(2)));
    let _ = bench.finish(call, 1, of(Class::Ok), 3);
    assert_eq!(bench.number(Family::RateSettled, ["p", "eu"], &tpm, 4), 5000.0);
    assert_eq!(bench.number(Family::RateTokens, ["p", "eu"], &tpm, 4), 0.0);
    assert_eq!(bench.number(Family::RateDebt, ["p", "eu"], &tpm, 4), 2000.0);
    assert_eq!(bench.number(Family::RateForgiven, ["p", "eu"], &tpm, 4), 2000.0);
    assert_eq!(bench.number(Family::RateReserved, ["p", "eu"], &rpm, 4), 1.0);
    assert_eq!(bench.number(Family::RateTokens, ["p", "eu"], &rpm, 4), 59.0);
    let call = bench.weighted("us", 1, 5);
    bench.engine.note_quotas(call, [Some(10), None, None, None], at(6));
    assert_eq!(bench.number(Family::RateLearned, ["p", "us"], &rpm, 7), 49.0);
    let levels = bench.read(8).into_iter().filter(|it| it.family == Family::RateTokens).count();
    assert_eq!(levels, 4, "a level for each limit and route");
}

#[test]
fn a_set_that_is_a_pool_has_the_pools_name_12_5_2() {
    let toml = r#"
        [pool.key.rate_limit]
        limits.tpm = { permits = 60000, per = "1m", weight = "tokens", default = 10 }
        [policy.p]
        rate_limit = { pool = "key", unit = "attempt" }
    "#;
    let mut bench = Bench::new(toml, 5);
    let _ = bench.weighted("eu", 600, 0);
    let _ = bench.weighted("us", 600, 0);
    assert_eq!(bench.number(Family::RateReserved, ["", "key"], &["tpm", "tokens"], 1), 1200.0);
}

#[test]
fn totals_never_run_back_when_routes_are_evicted_12_5_3() {
    let mut bench = Bench::new(SET, 1);
    let mut before = 0.0;
    for turn in 0..40_u64 {
        let micros = turn * 3_600 * SECOND;
        let call = bench.weighted(&format!("route {}", turn % 9), 100, micros);
        let _ = bench.finish(call, 1, of(Class::Ok), micros);
        let labels = ["tpm", "tokens"];
        let after = bench.number(Family::RateReserved, ["p", "route 0"], &labels, micros)
            + bench.number(Family::RateReserved, ["p", "other"], &labels, micros);
        assert_eq!(after, before + 100.0, "turn {turn}");
        before = after;
    }
    assert!(bench.engine.snapshot(at(0)).route_evictions > 0, "this test is about eviction");
}

const STREAMS: &str = r#"
    [policy.p]
    first_byte_timeout = "5s"
    idle_timeout = "2s"
    retry.max_attempts = 3
    retry.backoff = { base = "1ms", jitter = "none" }
    retry.budget.kind = "none"
"#;

#[test]
fn the_time_to_the_first_piece_is_a_histogram_of_streams_alone_12_1_4() {
    let mut bench = Bench::new(STREAMS, 5);
    let (call, _) = bench.begin("eu", &STREAM, 0);
    let _ = bench.on(call, Event::Headers { attempt: 1 }, 1_200_000);
    let _ = bench.finish(call, 1, of(Class::Ok), 9 * SECOND);
    let (call, _) = bench.begin("eu", &FUNCTION, 10 * SECOND);
    let _ = bench.finish(call, 1, of(Class::Ok), 11 * SECOND);
    assert_eq!(bench.number(Family::StreamDelivery, ["p", "eu"], &[], 12 * SECOND), 1.0);
    let found = bench.read(12 * SECOND).into_iter().find(|it| it.family == Family::StreamDelivery).unwrap();
    let Reading::Histogram { sum, .. } = found.reading else { panic!("{found:?}") };
    assert!((sum - 1.2).abs() < 1e-9, "{sum}");
    let told: Vec<_> = bench.records.iter().filter(|it| it.what == RecordType::StreamDelivered).collect();
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].attempt, told[0].elapsed), (1, Some(Duration::from_micros(1_200_000))));
}

#[test]
fn streams_that_stall_are_counted_by_phase_12_1_5() {
    let mut bench = Bench::new(STREAMS, 5);
    let silent = |attempt| Event::Progress { attempt, age: Duration::from_secs(2) };
    let (call, _) = bench.begin("eu", &STREAM, 0);
    let _ = bench.on(call, Event::Poll, 5 * SECOND); // no first piece
    let _ = bench.on(call, Event::Poll, 5 * SECOND + 1_000);
    let _ = bench.on(call, silent(2), 8 * SECOND); // silence before the delivery
    let _ = bench.on(call, Event::Poll, 8 * SECOND + 2_000);
    let _ = bench.on(call, Event::Headers { attempt: 3 }, 9 * SECOND);
    let _ = bench.on(call, silent(3), 12 * SECOND);
    let told: Vec<_> = bench.records.iter().filter(|it| it.what == RecordType::StreamStalled).collect();
    let seen: Vec<_> =
        told.iter().map(|it| (it.attempt, it.reason(), it.elapsed.unwrap().as_micros() / 1_000)).collect();
    let reason = Some("stream_stalled");
    assert_eq!(seen, [(1, None, 5_000), (2, None, 2_999), (3, reason, 3_998)]);
    assert_eq!(bench.number(Family::StreamStalls, ["p", "eu"], &["before_delivery"], 13 * SECOND), 2.0);
    assert_eq!(bench.number(Family::StreamStalls, ["p", "eu"], &["after_delivery"], 13 * SECOND), 1.0);
    assert_eq!(bench.number(Family::Calls, ["p", "eu"], &["stream_stalled"], 13 * SECOND), 1.0);
    // A synchronous host's transport has a timeout of its own, and reports its failure.
    let (call, _) = bench.begin("eu", &STREAM, 20 * SECOND);
    let _ = bench.finish(call, 1, of(Class::Timeout), 25 * SECOND);
    let (call, _) = bench.begin("eu", &STREAM, 30 * SECOND);
    let _ = bench.finish(call, 1, of(Class::Timeout), 31 * SECOND);
    assert_eq!(bench.number(Family::StreamStalls, ["p", "eu"], &["before_delivery"], 32 * SECOND), 3.0);
}

#[test]
fn an_attempt_timeout_is_no_stall_12_1_5() {
    let toml = "[policy.p]\nattempt_timeout = \"1s\"\nfirst_byte_timeout = \"5s\"";
    let mut bench = Bench::new(toml, 5);
    let (call, _) = bench.begin("eu", &STREAM, 0);
    let _ = bench.on(call, Event::Poll, SECOND);
    assert_eq!(bench.number(Family::Attempts, ["p", "eu"], &["timeout"], 2), 1.0);
    assert!(!bench.records.iter().any(|it| it.what == RecordType::StreamStalled));
}

#[test]
fn closings_and_the_time_closed_are_totals_16_6_4() {
    let toml = "[policy.p]\ncooldown = { max = \"30s\", wait = true, max_wait = \"60s\" }";
    let mut bench = Bench::new(toml, 5);
    let (call, _) = bench.begin("eu", &STREAM, 0);
    let asked = of(Class::Throttled).retry_after(Duration::from_secs(10));
    let _ = bench.finish(call, 1, asked, SECOND);
    let (_, step) = bench.begin("eu", &STREAM, 2 * SECOND);
    assert!(matches!(step.action(), Action::Wait { .. }), "{step:?}");
    let place = ["p", "eu"];
    assert_eq!(bench.number(Family::CooldownStateNow, place, &[""], 3 * SECOND), 1.0);
    assert_eq!(bench.number(Family::CooldownQueue, place, &[], 3 * SECOND), 1.0);
    assert_eq!(bench.number(Family::CooldownClosings, place, &[""], 3 * SECOND), 1.0);
    assert_eq!(bench.number(Family::CooldownClosed, place, &[""], 3 * SECOND), 2.0);
    let whole = bench.number(Family::CooldownClosed, place, &[""], 30 * SECOND);
    assert!((10.0..=11.0).contains(&whole), "{whole}");
    assert_eq!(bench.number(Family::CooldownStateNow, place, &[""], 30 * SECOND), 2.0);
    assert_eq!(
        bench.number(Family::CooldownClosed, place, &[""], 4 * SECOND),
        whole,
        "an older reading adds nothing"
    );
}

const LADDER: &str = r#"
    [targets.chat]
    pick = "ladder"
    members = ["a", { name = "b", rate_limit = { permits = 10, per = "1s" } }, { name = "c", bulkhead.max_concurrency = 1 }, "d", "e"]
    default.breaker = { consecutive = 1, break_duration = "10s", break_factor = 1 }
    default.cooldown = { base = "10s" }
    [policy.p]
    targets = "chat"
    rate_limit = { permits = 1000, per = "1s" }
    retry.max_attempts = 4
    retry.budget.kind = "none"
"#;

#[test]
fn targets_are_counted_as_chosen_skipped_and_failed_over_12_5_4() {
    let mut bench = Bench::new(LADDER, 5);
    let place = ["", "chat"];
    let (call, _) = bench.begin("eu", &FUNCTION, 0);
    let _ = bench.finish(call, 1, of(Class::Transient), 10); // its breaker opens; b has it now
    let _ = bench.finish(call, 2, of(Class::Throttled), 20); // it cools; c has it now
    let (other, _) = bench.begin("eu", &FUNCTION, 30);
    bench.engine.force_target("chat", "d", true, at(35)).unwrap();
    let (dear, _) = bench.begin("eu", &Request { cost: 11, ..FUNCTION }, 40);
    assert_eq!(bench.engine.target_of(other, None), Some("d"));
    assert_eq!(bench.engine.target_of(dear, None), Some("e"));
    let number = |bench: &mut Bench, family, labels: &[&str]| bench.number(family, place, labels, 50);
    for (target, attempts, failovers, in_flight) in [
        ("a", 1.0, 1.0, 0.0),
        ("b", 1.0, 1.0, 0.0),
        ("c", 1.0, 0.0, 1.0),
        ("d", 1.0, 0.0, 1.0),
        ("e", 1.0, 0.0, 1.0),
    ] {
        assert_eq!(number(&mut bench, Family::TargetAttempts, &[target]), attempts, "{target}");
        assert_eq!(number(&mut bench, Family::TargetFailovers, &[target]), failovers, "{target}");
        assert_eq!(number(&mut bench, Family::TargetInFlight, &[target]), in_flight, "{target}");
    }
    let skips = [
        ("a", "breaker", 4.0),
        ("b", "cooldown", 2.0),
        ("b", "weight", 1.0),
        ("c", "bulkhead", 2.0),
        ("d", "operator", 1.0),
    ];
    for (target, reason, count) in skips {
        assert_eq!(number(&mut bench, Family::TargetSkips, &[target, reason]), count, "{target} {reason}");
    }
    let all: f64 = bench.read(50).iter().filter(|it| it.family == Family::TargetSkips).map(value).sum();
    assert_eq!(all, 10.0, "nothing else");
    let shown: u64 = bench.engine.snapshot(at(50)).targets.iter().map(|it| it.skipped).sum();
    assert_eq!(shown, 10);
    assert_eq!(number(&mut bench, Family::TargetBreaker, &["a"]), 1.0);
    assert_eq!(number(&mut bench, Family::CooldownClosings, &["b"]), 1.0);
    assert_eq!(number(&mut bench, Family::CooldownStateNow, &["b"]), 1.0);
    let _ = bench.finish(other, 1, of(Class::Ok), 230_035);
    assert_eq!(bench.number(Family::TargetEstimate, place, &["d"], 300_000), 0.230_005);
}

#[test]
fn a_target_without_tokens_is_skipped_for_its_rate_limit_12_5_4() {
    let toml = r#"
        [targets.chat]
        pick = "ladder"
        members = [{ name = "a", rate_limit = { permits = 1, per = "1h" } }, "b"]
        [policy.p]
        targets = "chat"
        deadline = "60s"
    "#;
    let mut bench = Bench::new(toml, 5);
    let _ = bench.begin("eu", &FUNCTION, 0);
    let _ = bench.begin("eu", &FUNCTION, 1);
    assert_eq!(bench.number(Family::TargetSkips, ["", "chat"], &["a", "rate_limit"], 2), 1.0);
}

fn value(series: &Series) -> f64 {
    match series.reading {
        Reading::Number(number) => number,
        Reading::Histogram { .. } => 0.0,
    }
}

#[test]
fn a_policy_without_any_of_this_has_no_such_series_12_5_5() {
    let mut bench =
        Bench::new("[policy.p]\npreset = \"http\"\nrate_limit = { permits = 10, per = \"1s\" }", 5);
    let (call, _) = bench.begin("eu", &FUNCTION, 0);
    let _ = bench.finish(call, 1, of(Class::Ok), 10);
    let new = bench.read(20).into_iter().filter(|it| it.family > Family::FleetFallbacks).count();
    assert_eq!(new, 0);
}

#[test]
fn skips_have_names_and_every_histogram_has_its_records_12_5_1() {
    assert_eq!(
        Skip::ALL.iter().map(|it| *it as usize).collect::<Vec<_>>(),
        (0..Skip::ALL.len()).collect::<Vec<_>>()
    );
    let names: Vec<_> = Skip::ALL.iter().map(|it| it.name()).collect();
    assert_eq!(names, ["operator", "weight", "breaker", "rate_limit", "bulkhead", "cooldown"]);
    let fed: Vec<_> = Timed::ALL.iter().map(|it| it.family).collect();
    let histograms: Vec<_> =
        Family::ALL.iter().copied().filter(|it| it.instrument() == Instrument::Histogram).collect();
    assert_eq!(fed, histograms);
    assert!(Timed::ALL.iter().all(|it| Meter::TYPES.contains(&it.what)));
    assert_eq!(Timed::of(RecordType::Granted, None), None);
}
