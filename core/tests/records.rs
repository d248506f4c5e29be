//! Records (semantics 12.1): stories about each type, and what holds of all of them in random worlds.

use std::collections::{BTreeMap, BTreeSet};

use crate::host::{Host, SECOND, at, http, of, verdict};
use crate::world::{Op, World, op};
use Value::{Number, Text};
use proptest::prelude::*;
use tidegate::{
    Action, CallId, Class, Duration, Engine, Event, Options, Outcome, Policy, Pool, PoolKind, Record,
    RecordType, Request, RouteId, Value, Verdict, Wait,
};

/// What nothing can emit before there is a shared store.
const LATER: [RecordType; 2] = [RecordType::StoreDegraded, RecordType::StoreRecovered];

fn listening(pairs: &[(&str, Value<'_>)]) -> Host {
    let mut host = Host::new(pairs);
    host.engine.subscribe(true);
    host
}

fn taken(host: &mut Host) -> Vec<Record> {
    let mut records = Vec::new();
    host.engine.take_records(&mut records);
    records
}

/// The types of what was told since the last time.
fn told(host: &mut Host) -> Vec<RecordType> {
    taken(host).iter().map(|record| record.what).collect()
}

/// The only record of this type since the last time.
fn the(what: RecordType, host: &mut Host) -> Record {
    let all = taken(host);
    let mut these = all.iter().filter(|record| record.what == what);
    let first = *these.next().unwrap_or_else(|| panic!("no {what} in {all:#?}"));
    assert_eq!(these.next(), None, "{all:#?}");
    first
}

#[allow(clippy::unnecessary_wraps)] // as records have them
fn micros(n: u64) -> Option<Duration> {
    Some(Duration::from_micros(n))
}

use RecordType::{
    AttemptDone, AttemptStarted, BreakerChanged, CallDone, DeadlineExceeded, ForcedCleared, ForcedOpen,
    GaveUp, Granted, HedgeStarted, HedgeWon, HoldChanged, LeaseReclaimed, LimitChanged, PolicyRetuned,
    Queued, Rejected, RetryScheduled, RetrySuppressed, Shed, ThrottleChanged,
};

#[test]
fn a_retried_call_is_told_in_order_with_its_numbers() {
    let mut host = listening(&http(&[]));
    let call = host.start(Request::default(), 1_000);
    let started = the(AttemptStarted, &mut host);
    assert_eq!((started.attempt, started.hedge, started.at), (1, false, at(1_000)));
    assert_eq!((started.call, started.route), (Some(call), Some(host.route)));
    assert_eq!((started.policy, started.elapsed), (Some(host.policy), micros(0)));

    let step = host.finish(call, 1, of(Class::Transient), 1_500);
    let [done, retry] = taken(&mut host)[..] else { panic!() };
    assert_eq!((done.what, done.attempt, done.kind), (AttemptDone, 1, Some(Class::Transient.into())));
    assert_eq!(done.elapsed, micros(500));
    assert_eq!((retry.what, retry.attempt, retry.wait), (RetryScheduled, 2, step.next()));
    assert_eq!((retry.kind, retry.elapsed), (Some(Class::Transient.into()), micros(500)));

    let due = 1_500 + step.next().unwrap().as_micros();
    let _ = host.poll(call, due);
    assert_eq!(told(&mut host), [AttemptStarted]);
    let _ = host.finish(call, 2, of(Class::Ok), due + 70);
    let [second, done] = taken(&mut host)[..] else { panic!() };
    assert_eq!((second.what, second.attempt, second.elapsed), (AttemptDone, 2, micros(70)));
    assert_eq!((done.what, done.attempt, done.verdict), (CallDone, 2, Some(Verdict::Ok)));
    assert_eq!((done.elapsed, done.kind), (micros(due + 70 - 1_000), Some(Class::Ok.into())));
    assert_eq!((started.seq, done.seq), (1, 6));
}

#[test]
fn an_end_with_a_failure_says_whether_a_rule_or_the_attempts_ended_it() {
    let mut host = listening(&http(&[("retry.max_attempts", Number(1.0))]));
    let call = host.start(Request::default(), 0);
    let _ = host.finish(call, 1, of(Class::Transient), 10);
    assert_eq!(told(&mut host), [AttemptStarted, AttemptDone, GaveUp, CallDone]);

    let mut host = listening(&http(&[]));
    let call = host.start(Request::default(), 0);
    let asked = of(Class::Throttled).retry_after(Duration::from_secs(3_600));
    let _ = host.finish(call, 1, asked, 10);
    let record = the(RetrySuppressed, &mut host);
    assert_eq!(record.verdict, Some(Verdict::RetryAfterTooLong));
    assert_eq!((record.wait, record.kind), (micros(3_600 * SECOND), Some(Class::Throttled.into())));
    let call = host.start(Request::default(), 20);
    let _ = host.engine.on(call, Event::Cancel, at(30));
    let [_, cut, done] = taken(&mut host)[..] else { panic!() };
    assert_eq!((cut.what, cut.kind), (AttemptDone, Some(Class::Cancelled.into())));
    assert_eq!((done.what, done.verdict, done.kind), (CallDone, Some(Verdict::Cancelled), None));
}

#[test]
fn rejections_of_one_kind_on_one_route_are_told_once_a_second() {
    let mut host = listening(&crate::host::bulkhead(1.0, 0.0));
    let holder = host.start(Request::default(), 0);
    let refused = |host: &mut Host, micros: u64| {
        assert_eq!(verdict(host.begin(Request::default(), micros).1), Verdict::QueueFull);
    };
    let _ = taken(&mut host);
    for n in 0..10 {
        refused(&mut host, 100 + n);
    }
    let records = taken(&mut host);
    let rejected: Vec<_> = records.iter().filter(|record| record.what == Rejected).collect();
    assert_eq!((rejected.len(), rejected[0].suppressed), (1, 0));
    let ends: Vec<_> = records.iter().filter(|record| record.what == CallDone).collect();
    assert_eq!(ends.iter().map(|end| end.quiet).collect::<Vec<_>>(), [&[false][..], &[true; 9]].concat());
    refused(&mut host, 100 + SECOND - 1);
    assert_eq!(told(&mut host), [CallDone], "not yet a second");
    refused(&mut host, 100 + SECOND);
    let again = the(Rejected, &mut host);
    assert_eq!((again.suppressed, again.verdict), (10, Some(Verdict::QueueFull)));
    // Another route is told for itself, and the counters have seen all.
    let other = host.engine.route(host.policy, "other", at(100 + SECOND));
    let _ = host.engine.begin(other, &Request::default(), at(100 + SECOND));
    let _ = host.engine.begin(other, &Request::default(), at(100 + SECOND));
    assert_eq!(the(Rejected, &mut host).route, Some(other));
    let snapshot = host.engine.snapshot(at(100 + SECOND));
    assert_eq!(snapshot.policies[0].1.ended(Verdict::QueueFull), 13);
    let _ = host.finish(holder, 1, of(Class::Ok), 3 * SECOND);
    assert_eq!(told(&mut host), [AttemptDone, CallDone]);
}

/// The records of a stream that stalls after its first piece.
fn stalled_stream() -> Vec<Record> {
    let mut host = listening(&[("first_byte_timeout", Number(1e6)), ("idle_timeout", Number(1e6))]);
    let call = host.start(Request { stream: true, slot_until_body: true, ..Request::default() }, 0);
    let _ = host.engine.on(call, Event::Headers { attempt: 1 }, at(10));
    let age = Duration::from_secs(1);
    let _ = host.engine.on(call, Event::Progress { attempt: 1, age }, at(2 * SECOND));
    taken(&mut host)
}

/// Records of a story for each type that has a cause.
fn stories() -> Vec<(&'static str, Vec<Record>)> {
    let mut stories = Vec::new();
    stories.push(("queue, grant, shed, reclaim", {
        let mut host = listening(&[
            ("bulkhead.max_concurrency", Number(1.0)),
            ("bulkhead.max_queue", Number(1.0)),
            ("bulkhead.prioritized", Number(1.0)),
        ]);
        let first = host.start(Request::default(), 0);
        let low = host.park(10);
        let critical = Request { criticality: tidegate::Criticality::Critical, ..Request::default() };
        let (high, _) = host.begin(critical, 20);
        assert_eq!(verdict(host.poll(low, 20)), Verdict::Displaced);
        let _ = host.finish(first, 1, of(Class::Ok), 500);
        // Its host does not come: the permit is taken back after 5 s.
        let _ = host.begin(Request::default(), 500 + 5 * SECOND);
        assert_eq!(verdict(host.poll(high, 500 + 5 * SECOND)), Verdict::Lost);
        taken(&mut host)
    }));
    stories.push(("breaker, forcing, retune", {
        let pairs = [("breaker.consecutive", Number(1.0)), ("breaker.break_duration", Number(1e6))];
        let mut host = listening(&pairs);
        let call = host.start(Request::default(), 0);
        let _ = host.finish(call, 1, of(Class::Transient), 10);
        let _ = host.begin(Request::default(), 20);
        let probe = host.start(Request::default(), 2 * SECOND);
        let _ = host.finish(probe, 1, of(Class::Transient), 2 * SECOND);
        for on in [true, false] {
            let _ = host.engine.force_open(host.policy, Some(host.route), on, at(3 * SECOND));
        }
        let to = Policy::from_pairs("p", &[pairs[0], pairs[1], ("deadline", Number(5.0))]).unwrap();
        let _ = host.engine.retune(host.policy, to, at(3 * SECOND)).unwrap();
        let late = host.start(Request::default(), 3 * SECOND);
        assert_eq!(verdict(host.poll(late, 4 * SECOND)), Verdict::Deadline);
        taken(&mut host)
    }));
    stories.push(("hedge", {
        let mut host = listening(&[("hedge.delay", Number(100.0)), ("hedge.budget.kind", Text("none"))]);
        let call = host.start(Request::default(), 0);
        assert_eq!(host.poll(call, 130).action(), Action::Attempt { attempt: 2, hedge: true });
        let _ = host.finish(call, 2, of(Class::Ok), 150);
        taken(&mut host)
    }));
    stories.push(("limit", {
        let mut host = listening(&[
            ("bulkhead.kind", Text("aimd")),
            ("bulkhead.max_concurrency", Number(10.0)),
            ("bulkhead.latency_threshold", Number(100.0)),
        ]);
        let call = host.start(Request::default(), 0);
        let _ = host.finish(call, 1, of(Class::Ok), 200);
        taken(&mut host)
    }));
    stories.push(("throttle", {
        let window = [("throttle.window", Number(1e6)), ("throttle.min_throughput", Number(2.0))];
        let mut host = listening(&window);
        let calls: Vec<_> = (0..3).map(|_| host.start(Request::default(), 0)).collect();
        for call in calls {
            let _ = host.finish(call, 1, of(Class::Transient), 10);
        }
        let call = host.start(Request::default(), 5 * SECOND);
        let _ = host.finish(call, 1, of(Class::Ok), 5 * SECOND);
        taken(&mut host)
    }));
    stories.push(("hold, retry, rate", {
        let mut host = listening(&http(&[
            ("retry.hold", Number(1.0)),
            ("rate_limit.permits", Number(1.0)),
            ("rate_limit.per", Number(1e6)),
            ("rate_limit.wait", Number(1.0)),
        ]));
        let path = host.engine.path_id(host.route, "/a", at(0));
        let request = Request { path, ..Request::default() };
        let call = host.start(request, 0);
        let asked = of(Class::Throttled).retry_after(Duration::from_secs(2));
        let step = host.finish(call, 1, asked, 10);
        assert_eq!(host.begin(request, 20).1.action(), Action::Wait { why: Wait::Hold });
        let due = 10 + step.next().unwrap().as_micros();
        let _ = host.poll(call, due);
        let _ = host.finish(call, 2, of(Class::Transient), due);
        let _ = host.begin(request, 9 * SECOND);
        taken(&mut host)
    }));
    stories.push(("attempts used up", {
        let mut host = listening(&[("retry.max_attempts", Number(1.0))]);
        let call = host.start(Request::default(), 0);
        let _ = host.finish(call, 1, of(Class::Transient), 10);
        let call = host.start(Request::default(), 0);
        let _ = host.finish(call, 1, of(Class::Permanent), 10);
        host.engine.note_fallback(host.route, true, at(20));
        taken(&mut host)
    }));
    stories.push(("a cooldown", {
        let mut host = listening(&[("cooldown.base", Number(1e6))]);
        let call = host.start(Request::default(), 0);
        let _ = host.finish(call, 1, of(Class::Throttled), 10);
        taken(&mut host)
    }));
    stories.push(("a stream that stalls", stalled_stream()));
    stories
}

#[test]
fn every_type_is_told_in_some_story_and_none_before_its_time() {
    let found: BTreeSet<_> = stories().iter().flat_map(|(_, told)| told.iter().map(|it| it.what)).collect();
    let expected: BTreeSet<_> = RecordType::ALL.iter().copied().filter(|it| !LATER.contains(it)).collect();
    let missing: Vec<_> = expected.difference(&found).collect();
    assert!(missing.is_empty(), "nothing tells {missing:?}");
    assert!(LATER.iter().all(|it| !found.contains(it)));
}

/// The records of one type in a story.
fn of_type(stories: &[(&'static str, Vec<Record>)], story: &str, what: RecordType) -> Vec<Record> {
    let (_, records) = stories.iter().find(|(name, _)| *name == story).unwrap();
    records.iter().filter(|record| record.what == what).copied().collect()
}

#[test]
fn each_type_has_the_fields_that_it_is_about() {
    let all = stories();
    let queue = |what| of_type(&all, "queue, grant, shed, reclaim", what);
    assert_eq!((queue(Queued)[0].why, queue(Queued)[0].wait), (Some(Wait::Queue), micros(SECOND)));
    assert_eq!((queue(Shed)[0].verdict, queue(Shed).len()), (Some(Verdict::Displaced), 1));
    assert_eq!(queue(Rejected)[0].verdict, Some(Verdict::Displaced));
    let granted = queue(Granted)[0];
    assert_eq!((granted.wait, granted.call), (micros(480), queue(Queued)[1].call), "waited from 20 to 500");
    assert_eq!(
        (queue(LeaseReclaimed)[0].call, queue(LeaseReclaimed)[0].why),
        (granted.call, Some(Wait::Queue))
    );

    let breaker = |what| of_type(&all, "breaker, forcing, retune", what);
    let changes: Vec<_> = breaker(BreakerChanged).iter().map(|it| it.change.unwrap()).collect();
    assert_eq!(changes, [(0.0, 1.0), (1.0, 2.0), (2.0, 1.0), (1.0, 0.0), (0.0, 1.0)]);
    let opened = breaker(BreakerChanged)[0].wait.unwrap().as_micros();
    assert!((SECOND..=SECOND + SECOND / 10).contains(&opened), "{opened}");
    let refused = breaker(Rejected)[0];
    assert_eq!((refused.verdict, refused.wait), (Some(Verdict::BreakerOpen), micros(opened - 10)));
    assert_eq!(breaker(ForcedOpen)[0].route, breaker(CallDone)[0].route);
    assert_eq!((breaker(ForcedCleared).len(), breaker(ForcedCleared)[0].call), (1, None));
    assert_eq!((breaker(PolicyRetuned)[0].route, breaker(PolicyRetuned).len()), (None, 1));
    assert_eq!(breaker(DeadlineExceeded)[0].verdict, Some(Verdict::Deadline));
    assert_eq!(breaker(PolicyRetuned)[0].policy, breaker(DeadlineExceeded)[0].policy);

    let hedge = |what| of_type(&all, "hedge", what);
    let started = hedge(HedgeStarted)[0];
    assert_eq!((started.attempt, started.wait, started.hedge), (2, micros(130), true));
    assert_eq!((hedge(HedgeWon)[0].attempt, hedge(HedgeWon)[0].elapsed), (2, micros(20)));
    let done: Vec<_> = hedge(AttemptDone).iter().map(|it| (it.attempt, it.kind)).collect();
    assert_eq!(done, [(2, Some(Class::Ok.into())), (1, Some(Class::Cancelled.into()))]);

    let limit = of_type(&all, "limit", LimitChanged);
    assert_eq!((limit[0].change, limit.len()), (Some((10.0, 9.0)), 1));
    let throttle = of_type(&all, "throttle", ThrottleChanged);
    let changes: Vec<_> = throttle.iter().map(|it| it.change.unwrap()).collect();
    assert_eq!(changes, [(0.0, 2.0 / 3.0), (0.75, 0.0)], "not told while it stays above zero");
    assert_eq!(throttle[0].at, at(10));

    let hold = |what| of_type(&all, "hold, retry, rate", what);
    assert_eq!(hold(HoldChanged)[0].change, Some((0.0, 1.0)));
    assert_eq!(hold(Queued)[0].why, Some(Wait::Hold));
}

#[test]
fn a_pool_is_told_by_its_own_name() {
    let mut engine = Engine::new(1, Options::default());
    let pool =
        |limit| Pool::from_pairs("db", PoolKind::Bulkhead, &[("max_concurrency", Number(limit))]).unwrap();
    engine.pool(pool(2.0), at(0)).unwrap();
    engine.subscribe(true);
    let _ = engine.retune_pool(pool(5.0), at(1)).unwrap();
    let mut records = Vec::new();
    engine.take_records(&mut records);
    let [retuned, limit] = records[..] else { panic!("{records:?}") };
    assert_eq!((retuned.what, retuned.policy), (PolicyRetuned, None));
    assert_eq!(engine.key_of(retuned.route.unwrap()), Some("db"));
    assert_eq!((limit.what, limit.route, limit.change), (LimitChanged, retuned.route, Some((2.0, 5.0))));
}

#[test]
fn forcing_what_is_not_there_tells_nothing_and_what_nobody_heard_is_not_kept() {
    let mut host = Host::new(&http(&[]));
    let call = host.start(Request::default(), 0);
    assert_eq!(told(&mut host), []);
    host.engine.subscribe(true);
    let _ = host.engine.force_open(host.policy, Some(RouteId::from_word(0)), true, at(0));
    assert_eq!(told(&mut host), []);
    let _ = host.engine.force_open(host.policy, None, true, at(0));
    assert_eq!(the(ForcedOpen, &mut host).route, None);
    let _ = host.finish(call, 1, of(Class::Ok), 5);
    host.engine.subscribe(false);
    let _ = host.begin(Request::default(), 9);
    assert_eq!(
        told(&mut host),
        [AttemptDone, CallDone],
        "what was told before it stopped can still be taken"
    );
    // The child of a fork does not tell what its parent has to tell.
    host.engine.subscribe(true);
    let _ = host.begin(Request::default(), 9);
    let _ = host.engine.after_fork(5, at(10));
    assert_eq!(told(&mut host), []);
}

#[test]
fn a_record_is_one_line_of_json() {
    let mut host =
        listening(&[("breaker.consecutive", Number(1.0)), ("breaker.break_duration", Number(1e6))]);
    let call = host.start(Request::default(), 0);
    let _ = host.finish(call, 1, Outcome { kind: tidegate::Kind::new(1).unwrap(), ..of(Class::Ok) }, 250);
    let _ = host.begin(Request::default(), 300);
    let lines: Vec<_> = taken(&mut host).iter().map(ToString::to_string).collect();
    for line in &lines {
        let json: serde_json::Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        assert!(json["seq"].is_u64() && RecordType::ALL.iter().any(|what| json["type"] == what.name()));
    }
    assert_eq!(
        lines[1],
        r#"{"type":"attempt_done","seq":2,"at":250,"policy":0,"route":1048576,"call":16777216,"attempt":1,"kind":"transient","elapsed_us":250}"#
    );
    assert!(lines.iter().any(|line| line.contains(r#""from":"closed","to":"open""#)), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains(r#""reason":"breaker_open","wait_us":"#)), "{lines:#?}");
}

/// A world that listens, or does not, at its end.
fn lived(ops: &[Op], seed: u64, listens: bool) -> (World, Vec<Record>) {
    let mut world = World::new(1_000_000, seed);
    world.engine.subscribe(listens);
    for op in ops {
        world.run(op);
    }
    world.drain();
    let mut records = Vec::new();
    world.engine.take_records(&mut records);
    (world, records)
}

proptest! {
    /// What holds of all records, whatever happens.
    #[test]
    fn records_agree_with_what_happened(ops in prop::collection::vec(op(), 1..150), seed: u64) {
        let (world, records) = lived(&ops, seed, true);
        prop_assert_eq!(world.engine.records_dropped(), 0);
        for (n, pair) in records.windows(2).enumerate() {
            prop_assert_eq!(pair[0].seq, n as u64 + 1, "in order, without gaps");
            prop_assert!(pair[0].at <= pair[1].at);
        }
        let count = |what| records.iter().filter(|record| record.what == what).count() as u64;
        let ends = records.iter().filter(|record| record.what == CallDone);
        let mut done: BTreeMap<CallId, Verdict> = BTreeMap::new();
        for end in ends {
            let before = done.insert(end.call.unwrap(), end.verdict.unwrap());
            prop_assert_eq!(before, None, "one call_done a call");
        }
        for call in &world.calls {
            let told = done.remove(&call.id);
            prop_assert!(told.is_some(), "no call_done: {:?}", call);
            // A lost call whose host comes too late to be told is stale.
            let same = told == call.done || (told, call.done) == (Some(Verdict::Lost), Some(Verdict::Stale));
            prop_assert!(same, "{told:?} is not {:?}", call.done);
        }
        prop_assert!(done.is_empty(), "ends of calls that never were");

        // The counters have counted what the records tell.
        let snapshot = world.engine.snapshot(world.now());
        let sum = |of: fn(&tidegate::Counts) -> u64| snapshot.policies.iter().map(|(_, it)| of(it)).sum::<u64>();
        prop_assert_eq!(count(AttemptStarted), sum(|it| it.attempts));
        prop_assert_eq!(count(HedgeStarted), sum(|it| it.hedges));
        prop_assert!(count(RetryScheduled) >= sum(|it| it.retries), "each retry was scheduled");
        prop_assert_eq!(count(CallDone), sum(|it| it.ends.iter().sum()));
        prop_assert_eq!(count(GaveUp), sum(|it| it.ended(Verdict::Attempts)));
        let deadlines = |it: &tidegate::Counts| {
            [Verdict::Deadline, Verdict::DeadlineBefore, Verdict::DeadlineQueued].map(|it_| it.ended(it_)).iter().sum()
        };
        prop_assert_eq!(count(DeadlineExceeded), sum(deadlines));
        let quiet = records.iter().filter(|record| record.quiet).count() as u64;
        let refused = |it: &tidegate::Counts| {
            let range = Verdict::ForcedOpen as usize..=Verdict::StoreUnavailable as usize;
            let more = [Verdict::CostAboveBurst, Verdict::Cooldown].map(|verdict| it.ended(verdict));
            it.ends[range].iter().chain(&more).sum::<u64>()
        };
        let first = records.iter().filter(|record| record.what == Rejected && record.attempt == 0).count() as u64;
        prop_assert_eq!(first + quiet, sum(refused), "each refusal is told, or its end is quiet");

        // Each attempt that started has ended once, and each call's last attempt is the one that its end names.
        let mut out: BTreeMap<(CallId, u8), bool> = BTreeMap::new();
        let mut attempts: BTreeMap<CallId, u8> = BTreeMap::new();
        for record in &records {
            let Some(call) = record.call else { continue };
            match record.what {
                AttemptStarted => {
                    prop_assert_eq!(out.insert((call, record.attempt), false), None);
                    attempts.insert(call, record.attempt);
                }
                AttemptDone => prop_assert_eq!(out.insert((call, record.attempt), true), Some(false)),
                CallDone => prop_assert_eq!(record.attempt, attempts.get(&call).copied().unwrap_or(0)),
                _ => {}
            }
            prop_assert!(!LATER.contains(&record.what));
            prop_assert!(serde_json::from_str::<serde_json::Value>(&record.to_string()).is_ok());
        }
        prop_assert!(out.values().all(|ended| *ended), "attempts without an end");
    }

    /// Who listens changes nothing.
    #[test]
    fn a_world_that_is_listened_to_takes_the_same_steps(ops in prop::collection::vec(op(), 1..150), seed: u64) {
        let ((heard, records), (alone, none)) = (lived(&ops, seed, true), lived(&ops, seed, false));
        prop_assert_eq!(&heard.words, &alone.words);
        prop_assert!(none.is_empty() && (heard.calls.is_empty() || !records.is_empty()));
        prop_assert_eq!(heard.engine.snapshot(heard.now()), alone.engine.snapshot(alone.now()));
    }
}
