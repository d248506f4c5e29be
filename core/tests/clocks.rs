//! Rule R10 and semantics 3.2 for every part: a clock that swings mints nothing, and no reading of a clock stops a part for
//! good. Museum 64 (Go x/time/rate #56287), 65 (WSL2 steps of ±11 s) and 73 (clocks of virtual machines that run back).

use crate::fleet::{Faults, Sim};
use crate::host::{Host, SECOND, at, bulkhead, http, of, verdict};
use Value::{Number, Text};
use proptest::prelude::*;
use tidegate::{
    Action, AdaptiveThrottle, CallId, Class, Duration, Event, Gcra, RateSettings, Request, Step,
    ThrottleSettings, TokenBucket, Value, Verdict, Wait,
};

/// What a reading may be below the highest one without being a clock that was set back (R10).
const SWING: u64 = 30 * SECOND;
/// Where the clocks of these tests begin.
const BASE: u64 = 3_600 * SECOND;

/// True moments and what the clock says at them: ahead of the truth by up to 22 s, that is by ±11 s.
fn swinging() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap = prop_oneof![3 => 0..2_000u64, 2 => 0..SECOND, 1 => 0..20 * SECOND];
    let off = prop_oneof![Just(0), Just(22 * SECOND), 0..22 * SECOND];
    prop::collection::vec((gap, off), 1..300).prop_map(|steps| {
        let mut truth = 0;
        let read = |(gap, off)| {
            truth += gap;
            (truth, BASE + truth + off)
        };
        steps.into_iter().map(read).collect()
    })
}

/// What the clock has gained on its first reading: all that a part may know of the time that has passed.
struct Gained(Option<(u64, u64)>);

impl Gained {
    fn seen(&mut self, reading: u64) -> u64 {
        let (first, highest) = self.0.unwrap_or((reading, reading));
        self.0 = Some((first, highest.max(reading)));
        highest.max(reading) - first
    }
}

fn parked(step: Step) -> bool {
    matches!(step.action(), Action::Wait { .. })
}

fn rate(more: &[(&'static str, Value<'static>)]) -> Vec<(&'static str, Value<'static>)> {
    [&[("rate_limit.permits", Number(1.0)), ("rate_limit.per", Number(1e6))], more].concat()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rate_limits_grant_the_rate_and_one_burst(readings in swinging(), wait: bool) {
        let waits = [("rate_limit.wait", Number(1.0)), ("rate_limit.max_wait", Number(60e6)), ("rate_limit.burst", Number(5.0))];
        let mut host = Host::new(&rate(&waits[if wait { 0 } else { 2 }..]));
        let settings = RateSettings { permits: 1, per: Duration::from_secs(1), burst: 5 };
        let (mut bucket, mut gcra) = (TokenBucket::new(settings, at(readings[0].1)), Gcra::new(settings));
        let (mut granted, mut gained, mut waiting) = ([0u64; 3], Gained(None), Vec::<CallId>::new());
        for (truth, reading) in readings {
            let step = host.engine.begin(host.route, &Request::default(), at(reading));
            granted[0] += u64::from(matches!(step.1.action(), Action::Attempt { .. }));
            if parked(step.1) {
                waiting.push(step.0);
            }
            waiting.retain(|call| {
                let step = host.engine.on(*call, Event::Poll, at(reading));
                granted[0] += u64::from(matches!(step.action(), Action::Attempt { .. }));
                parked(step)
            });
            granted[1] += u64::from(bucket.try_take(1, at(reading)).is_ok());
            granted[2] += u64::from(gcra.try_take(1, at(reading)).is_ok());
            let most = 5 + gained.seen(reading) / SECOND;
            prop_assert!(granted.iter().all(|granted| *granted <= most), "{granted:?} of {most}");
            prop_assert!(most <= 5 + (truth + 22 * SECOND) / SECOND);
        }
    }

    #[test]
    fn budgets_keep_their_bound(readings in swinging(), kind in 0usize..5) {
        let name = ["window", "ratio", "tokens", "quota", "share"][kind];
        let mut pairs = http(&[("retry.budget.kind", Text(name)), ("retry.backoff.base", Number(0.0))]);
        pairs.push(("retry.max_attempts", Number(3.0)));
        let floor = if kind == 0 { 1.0 } else { 0.0 };
        pairs.extend(match kind {
            0 => vec![("retry.budget.min_retries_per_sec", Number(1.0))],
            1 => vec![("retry.budget.ratio", Number(0.1)), ("retry.budget.min_throughput", Number(10.0))],
            2 => vec![("retry.budget.max", Number(10.0)), ("retry.budget.ratio", Number(0.1))],
            _ => vec![],
        });
        let mut host = Host::new(&pairs);
        let (mut calls, mut attempts, mut gained) = (0.0, 0.0, Gained(None));
        for (_, reading) in readings {
            let call = host.start(Request::default(), reading);
            (calls, attempts) = (calls + 1.0, attempts + 1.0);
            let mut attempt = 1;
            while let Action::Attempt { .. } = host.finish(call, attempt, of(Class::Transient), reading).action() {
                attempts += 1.0;
                attempt += 1;
            }
            let seconds = gained.seen(reading) as f64 / 1e6;
            // Semantics 2.17 by kind: (1 + r) · calls + floor · seconds + burst.
            let (r, burst) = [(0.2, 11.0), (0.1, 20.0), (0.1, 5.0), (1.0, 100.0), (2.0, 3.0)][kind];
            prop_assert!(attempts <= (1.0 + r) * calls + floor * seconds + burst + 1e-6, "{name}: {attempts} of {calls}");
        }
    }

    #[test]
    fn a_break_lasts_as_long_as_it_should_but_for_the_swing(readings in swinging()) {
        let pairs = [
            ("breaker.consecutive", Number(1.0)), ("breaker.break_duration", Number(60e6)), ("breaker.break_factor", Number(1.0)),
        ];
        let mut host = Host::new(&pairs);
        let (first, reading) = readings[0];
        let call = host.start(Request::default(), reading);
        prop_assert_eq!(verdict(host.finish(call, 1, of(Class::Transient), reading)), Verdict::Attempts);
        for (truth, reading) in readings {
            match host.begin(Request::default(), reading).1.action() {
                Action::Attempt { .. } => {
                    prop_assert!(truth - first + SWING >= 60 * SECOND, "after {truth} µs");
                    break;
                }
                _ => prop_assert!(truth - first <= 60 * SECOND + SWING, "after {truth} µs"),
            }
        }
    }

    #[test]
    fn a_throttle_lets_one_probe_a_second_through(readings in swinging()) {
        let settings = ThrottleSettings { k: 1.0, min_throughput: 1, max_reject: None, ..ThrottleSettings::default() };
        let mut throttle = AdaptiveThrottle::new(settings, at(readings[0].1));
        for _ in 0..1_000_000 {
            throttle.record(false, at(readings[0].1));
        }
        let (mut admitted, mut gained) = (0, Gained(None));
        for (_, reading) in readings {
            let seconds = gained.seen(reading) / SECOND;
            admitted += u64::from(seconds < 100 && throttle.admit(0, at(reading)));
            prop_assert!(admitted <= 1 + seconds, "{admitted} in {seconds} s");
        }
    }

    #[test]
    fn waits_end_when_they_should_but_for_the_swing(readings in swinging(), held: bool) {
        let pairs: Vec<_> = if held {
            http(&[("retry.hold", Number(1.0)), ("deadline", Number(300e6)), ("retry.backoff.max", Number(100e6)),
                ("retry.max_retry_after", Number(100e6))])
        } else {
            [bulkhead(1.0, 10.0), vec![("bulkhead.acquire_timeout", Number(60e6))]].concat()
        };
        let mut host = Host::new(&pairs);
        let (first, reading) = readings[0];
        let path = host.engine.path_id(host.route, "/a", at(reading));
        let request = Request { path, ..Request::default() };
        let holder = host.start(request, reading);
        if held {
            let throttled = of(Class::Throttled).retry_after(Duration::from_secs(60));
            prop_assert!(parked(host.finish(holder, 1, throttled, reading)));
        }
        let (waiter, step) = host.begin(request, reading);
        prop_assert!(parked(step), "{step:?}");
        for (truth, reading) in readings {
            let step = host.poll(waiter, reading);
            if parked(step) {
                // The server's wait has a jitter of a tenth of itself.
                prop_assert!(truth - first <= 66 * SECOND + SWING, "{step:?} after {truth} µs");
            } else {
                prop_assert!(truth - first + SWING >= 60 * SECOND, "{step:?} after {truth} µs");
                break;
            }
        }
    }
}

/// Museum 65: the script of the issue. Readings swing by 11 s at every call; 12 grants are allowed.
#[test]
fn a_swing_of_eleven_seconds_grants_twelve_and_not_501() {
    for more in [&[][..], &[("rate_limit.unit", Text("attempt"))]] {
        let mut host = Host::new(&rate(more));
        let granted = (0..1_000u64).filter(|n| {
            let reading = BASE + n + 11 * SECOND * (n % 2);
            matches!(host.begin(Request::default(), reading).1.action(), Action::Attempt { .. })
        });
        assert!(granted.count() <= 12, "a burst of 1, and 11 s at 1 a second");
    }
}

/// Museum 64: calls before and after the last reading in turn, in one bucket.
#[test]
fn calls_before_and_after_the_last_one_in_turn_mint_nothing() {
    let settings = RateSettings { permits: 1, per: Duration::from_secs(1), burst: 1 };
    let (mut bucket, mut gcra) = (TokenBucket::new(settings, at(BASE)), Gcra::new(settings));
    let reading = |n: u64| BASE + 5 * SECOND * (n % 2);
    assert_eq!((0..1_000).filter(|n| bucket.try_take(1, at(reading(*n))).is_ok()).count(), 2);
    assert_eq!((0..1_000).filter(|n| gcra.try_take(1, at(reading(*n))).is_ok()).count(), 2);
}

#[test]
fn a_reading_near_the_end_of_all_clocks_refuses_nothing_for_good() {
    let pairs = [
        rate(&[("breaker.consecutive", Number(1.0)), ("breaker.break_duration", Number(5e6))]),
        vec![("breaker.break_factor", Number(1.0))],
        bulkhead(1.0, 0.0),
    ]
    .concat();
    for garbage in [u64::MAX, u64::MAX - 5, 1 << 63, 0] {
        let mut host = Host::new(&pairs);
        let settings = RateSettings { permits: 1, per: Duration::from_secs(1), burst: 1 };
        let (mut bucket, mut gcra) = (TokenBucket::new(settings, at(BASE)), Gcra::new(settings));
        for round in 0..20 {
            let now = BASE + round * 60 * SECOND;
            let call = host.start(Request::default(), now);
            assert!(bucket.try_take(1, at(now)).is_ok() && gcra.try_take(1, at(now)).is_ok(), "{round}");
            // The breaker opens, the tokens are spent and the permit comes back while the clock says this.
            assert_eq!(verdict(host.finish(call, 1, of(Class::Transient), garbage)), Verdict::Attempts);
            assert_eq!(verdict(host.begin(Request::default(), garbage).1), Verdict::BreakerOpen);
            assert!(bucket.try_take(1, at(garbage)).is_err(), "nothing has flowed in");
            assert!(gcra.try_take(1, at(garbage)).is_err() || garbage > BASE + (1 << 53));
            for late in [1, 32] {
                let (call, step) = host.begin(Request::default(), now + late * SECOND);
                if matches!(step.action(), Action::Attempt { .. }) {
                    assert_eq!(
                        verdict(host.finish(call, 1, of(Class::Ok), now + late * SECOND)),
                        Verdict::Ok
                    );
                }
                bucket.level(at(now + late * SECOND));
                // One that keeps only what is owed takes garbage for a burst that is owed, until that is paid.
                let _ = gcra.try_take(1, at(now + late * SECOND));
            }
        }
    }
}

#[test]
fn an_engine_whose_clock_begins_near_the_end_runs_as_any_other() {
    for origin in [u64::MAX - 3_600 * SECOND, 1 << 63, 0] {
        let mut host = Host::new(&rate(&[("deadline", Number(10e6)), ("retry.budget.kind", Text("none"))]));
        // `Host::new` has read 0 already: this is another origin, not 584,000 years.
        for n in 1..100 {
            let now = origin + n * SECOND;
            let call = host.start(Request::default(), now);
            assert_eq!(verdict(host.begin(Request::default(), now).1), Verdict::RateLimited);
            let step = host.poll(call, now);
            assert_eq!(step.next(), Some(Duration::from_secs(10)));
            assert_eq!(verdict(host.finish(call, 1, of(Class::Ok), now)), Verdict::Ok);
        }
    }
}

#[test]
fn a_fleet_whose_clocks_swing_spends_the_declared_rate_and_no_more() {
    for seed in 1..4 {
        let pairs = vec![
            ("rate_limit.permits", Number(400.0)),
            ("rate_limit.per", Number(1e6)),
            ("rate_limit.burst", Number(100.0)),
            ("rate_limit.lease", Number(20.0)),
            ("rate_limit.store", Text("fleet")),
        ];
        let mut sim = Sim::new(seed, 4, &pairs, Faults::none());
        sim.swing = 22 * SECOND;
        sim.load((2_000, 12_000), (1, 1), 0);
        sim.run(5 * SECOND);
        // Who takes the store for lost because its clock jumped spends its share of what that clock has gained.
        let mut spent = 0;
        for (moment, cost) in sim.started() {
            spent += cost;
            assert!(spent <= 200 + 400 * (moment / SECOND + 23), "seed {seed}: {spent} at {moment}");
        }
        assert!(spent > 100, "seed {seed}: {spent}");
    }
}

#[test]
fn a_queue_whose_clock_swings_sheds_and_hands_out_as_ever() {
    let mut host =
        Host::new(&[bulkhead(1.0, 4.0), vec![("bulkhead.acquire_timeout", Number(60e6))]].concat());
    let mut holder = host.start(Request::default(), BASE);
    for n in 0..200u64 {
        let swing = 11 * SECOND * (n % 2);
        let (waiter, step) = host.begin(Request::default(), BASE + n + swing);
        assert_eq!(step.action(), Action::Wait { why: Wait::Queue });
        assert_eq!(
            verdict(host.finish(holder, 1, of(Class::Ok), BASE + n + 11 * SECOND - swing)),
            Verdict::Ok
        );
        let step = host.poll(waiter, BASE + n + swing);
        assert_eq!(step.action(), Action::Attempt { attempt: 1, hedge: false });
        holder = waiter;
    }
    host.engine.check().unwrap();
}
