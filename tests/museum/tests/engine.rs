//! Bugs of other libraries that no other test of Tidegate covers. Each test's name begins with the bug's number in
//! `README.md`.

use Value::{Number, Text};
use tidegate::{
    Action, CallId, Class, Engine, Event, Options, Outcome, Policy, Request, RouteId, Step, Time, Value,
    Verdict,
};

type Pairs = Vec<(&'static str, Value<'static>)>;

const SECOND: u64 = 1_000_000;

/// An engine with one policy and one route.
struct Host {
    engine: Engine,
    route: RouteId,
}

fn at(micros: u64) -> Time {
    Time::from_micros(micros)
}

impl Host {
    fn new(pairs: &Pairs) -> Self {
        let mut engine = Engine::new(1, Options::default());
        let policy = engine.policy(Policy::from_pairs("p", pairs).unwrap()).unwrap();
        let route = engine.route(policy, "r", at(0));
        Self { engine, route }
    }

    fn begin(&mut self, now: u64) -> (CallId, Step) {
        self.engine.begin(self.route, &Request::default(), at(now))
    }

    fn finish(&mut self, call: CallId, attempt: u8, class: Class, now: u64) -> Step {
        let event = Event::Finished { attempt, outcome: Outcome::of(class) };
        self.engine.on(call, event, at(now))
    }

    /// A call whose first attempt succeeds.
    fn success(&mut self, now: u64) {
        let (call, step) = self.begin(now);
        assert!(starts(step), "{step:?}");
        let _ended = self.finish(call, 1, Class::Ok, now);
    }

    /// Makes a call that fails once, and returns whether it was retried. The retry succeeds.
    fn is_retried(&mut self, now: u64) -> bool {
        let (call, step) = self.begin(now);
        assert!(starts(step), "{step:?}");
        let step = self.finish(call, 1, Class::Transient, now);
        if starts(step) {
            let _ended = self.finish(call, 2, Class::Ok, now);
        }
        starts(step)
    }
}

fn starts(step: Step) -> bool {
    matches!(step.action(), Action::Attempt { .. })
}

fn verdict(step: Step) -> Option<Verdict> {
    match step.action() {
        Action::Done { verdict, .. } => Some(verdict),
        Action::Attempt { .. } | Action::Wait { .. } => None,
    }
}

/// Every kind of budget that can run out, with retries that start at once.
fn budgets() -> Vec<(&'static str, Pairs)> {
    let of = |kind: &'static str, more: &[(&'static str, Value<'static>)]| {
        let mut pairs = vec![("retry.backoff.base", Number(0.0)), ("retry.budget.kind", Text(kind))];
        pairs.extend_from_slice(more);
        (kind, pairs)
    };
    vec![
        of("window", &[("retry.budget.min_retries_per_sec", Number(0.0))]),
        of("earned", &[]),
        of("ratio", &[("retry.budget.ratio", Number(0.1))]),
        of("tokens", &[("retry.budget.max", Number(10.0)), ("retry.budget.ratio", Number(0.1))]),
        of("quota", &[("retry.budget.capacity", Number(20.0))]),
    ]
}

/// copas's semaphore could wake at most 10,000 waiters; later ones waited for ever.
#[test]
fn bug_15_a_hundred_thousand_waiters_are_all_served_in_order() {
    const WAITERS: usize = 100_000;
    let mut host = Host::new(&vec![
        ("bulkhead.max_concurrency", Number(1.0)),
        ("bulkhead.max_queue", Number(1e6)),
        ("bulkhead.acquire_timeout", Text("none")),
    ]);
    let (mut holder, step) = host.begin(0);
    assert!(starts(step));
    let waiting: Vec<_> = (0..WAITERS).map(|_| host.begin(0).0).collect();
    let mut wakes = Vec::new();
    for next in waiting {
        let _ended = host.finish(holder, 1, Class::Ok, 1);
        host.engine.take_wakes(&mut wakes);
        assert_eq!(wakes.pop(), Some(next), "the oldest waiter has the slot");
        assert!(wakes.is_empty() && starts(host.engine.on(next, Event::Poll, at(1))));
        holder = next;
    }
    let _ended = host.finish(holder, 1, Class::Ok, 1);
    assert_eq!(host.engine.snapshot(at(1)).live, 0);
    assert_eq!(host.engine.check(), Ok(()));
}

/// The AWS SDKs for Java and Go never refilled a budget that an outage had emptied.
#[test]
fn bug_38_after_an_outage_successes_make_retries_possible_again() {
    for (kind, pairs) in budgets() {
        let mut host = Host::new(&pairs);
        let mut now = 0;
        (0..100).for_each(|_| host.success(now));
        let emptied = (0..1_000).any(|_| {
            let (call, _) = host.begin(now);
            let mut step = host.finish(call, 1, Class::Transient, now);
            let mut attempt = 2;
            while starts(step) {
                step = host.finish(call, attempt, Class::Transient, now);
                attempt += 1;
            }
            attempt == 2 && verdict(step) == Some(Verdict::Budget)
        });
        assert!(emptied, "{kind}: an outage empties the budget");
        // The window's entries expire; the other budgets earn tokens by successes.
        now += 11 * SECOND;
        (0..100).for_each(|_| host.success(now));
        assert!(host.is_retried(now), "{kind}: 100 successes later there is a retry again");
    }
}

/// Venice stopped refreshing its budget after an idle period.
#[test]
fn bug_43_an_idle_time_of_any_length_leaves_the_budget_alive() {
    for (kind, pairs) in budgets() {
        for gap in [SECOND, 3_600 * SECOND, 365 * 24 * 3_600 * SECOND, 1 << 52] {
            let mut host = Host::new(&pairs);
            (0..100).for_each(|_| host.success(0));
            // Spends the budget until it is empty.
            let left = (0..1_000).take_while(|_| host.is_retried(0)).count();
            assert!(left < 1_000 || kind == "quota", "{kind}: the budget is bounded");
            (0..100).for_each(|_| host.success(gap));
            assert!(host.is_retried(gap), "{kind}: traffic after {gap} µs of silence earns retries");
        }
    }
}

/// Envoy Mobile did not count a request that waits for its retry: of 6 allowed retries, 3 were left.
#[test]
fn bug_41_calls_that_turn_into_retries_still_count_as_calls() {
    let mut host = Host::new(&vec![
        ("retry.backoff.base", Number(1e6)),
        ("retry.backoff.jitter", Text("none")),
        ("retry.budget.kind", Text("share")),
        ("retry.budget.share", Number(0.2)),
        ("retry.budget.min_retries", Number(0.0)),
    ]);
    let calls: Vec<_> = (0..30).map(|_| host.begin(0).0).collect();
    let steps = calls.iter().map(|call| host.finish(*call, 1, Class::Transient, 1));
    let steps: Vec<_> = steps.collect();
    assert!(steps[..6].iter().all(|step| verdict(*step).is_none()), "a fifth of 30 calls: {steps:?}");
    assert_eq!(verdict(steps[6]), Some(Verdict::Budget));
}

/// go-zero's throttle counted a call when it ended: with calls longer than its window it still refused long after a
/// recovery.
#[test]
fn bug_53_a_throttle_copes_with_calls_that_are_longer_than_its_window() {
    const WINDOW: u64 = 10 * SECOND;
    const TAKES: u64 = 30 * SECOND;
    const GAP: u64 = SECOND / 10;
    let mut host = Host::new(&vec![
        ("retry.max_attempts", Number(1.0)),
        ("throttle.k", Number(2.0)),
        ("throttle.window", Number(WINDOW as f64)),
    ]);
    // Three minutes of slow calls with an outage in the second minute; from the third minute on, answers are quick.
    let (down, up) = (60 * SECOND, 120 * SECOND);
    let mut running: std::collections::VecDeque<(u64, CallId)> = std::collections::VecDeque::new();
    let (mut while_slow, mut while_down, mut late) = (0, 0, 0);
    for now in (0..240 * SECOND).step_by(GAP as usize) {
        while let Some((begun, call)) = running.front().copied().filter(|(begun, _)| begun + TAKES <= now) {
            running.pop_front();
            let class = if (down..up).contains(&begun) { Class::Transient } else { Class::Ok };
            let _ended = host.finish(call, 1, class, now);
        }
        let (call, step) = host.begin(now);
        if !starts(step) {
            while_slow += u32::from(now < down);
            while_down += u32::from((down + TAKES..up).contains(&now));
            // The last call of the outage ends at `up + TAKES`; the window forgets it 10 s later.
            late += u32::from(now >= up + TAKES + WINDOW + SECOND);
        } else if now >= up {
            let _ended = host.finish(call, 1, Class::Ok, now);
        } else {
            running.push_back((now, call));
        }
    }
    assert_eq!(while_slow, 0, "slow is not failed: nothing is refused");
    assert!(while_down > 30, "the outage is seen: {while_down} refused");
    assert_eq!(late, 0, "a window after the last failure nothing is refused");
}

/// On some systems a monotonic clock counts the time for which a machine was suspended, on others not.
#[test]
fn bug_74_eight_hours_of_suspend_mint_nothing_whether_the_clock_counts_them_or_not() {
    const NIGHT: u64 = 8 * 3_600 * SECOND;
    let pairs = vec![
        ("attempt_timeout", Number(2e6)),
        ("deadline", Number(60e6)),
        ("rate_limit.permits", Number(10.0)),
        ("rate_limit.per", Number(1e6)),
        ("rate_limit.burst", Number(10.0)),
    ];
    for asleep in [0, NIGHT] {
        let mut host = Host::new(&pairs);
        let (running, step) = host.begin(0);
        assert!(starts(step));
        let now = SECOND + asleep;
        let step = host.engine.on(running, Event::Timer, at(now));
        if asleep == 0 {
            assert_eq!((step.stop(), verdict(step)), (0, None), "its time is not up");
        } else {
            assert_eq!(
                verdict(step),
                Some(Verdict::Deadline),
                "its deadline has passed, and it has ended once"
            );
        }
        let granted = (0..100).filter(|_| starts(host.begin(now).1)).count();
        assert!((1..=10).contains(&granted), "one burst of 10 at most, not 8 hours of tokens: {granted}");
        assert_eq!(host.engine.check(), Ok(()));
    }
    // After the suspension an open breaker admits one probe and no more.
    let mut host = Host::new(&vec![
        ("retry.max_attempts", Number(1.0)),
        ("breaker.consecutive", Number(1.0)),
        ("breaker.break_duration", Number(5e6)),
    ]);
    let (call, _) = host.begin(0);
    let _ended = host.finish(call, 1, Class::Transient, 0);
    assert_eq!(verdict(host.begin(SECOND).1), Some(Verdict::BreakerOpen));
    let probes = (0..100).filter(|_| starts(host.begin(NIGHT).1)).count();
    assert_eq!(probes, 1);
}

/// immich-folio refused all clients once an attacker had filled its map of clients.
#[test]
fn bug_91_a_flood_of_keys_takes_nothing_from_honest_ones() {
    const HONEST: usize = 10;
    let mut engine = Engine::new(1, Options::default().max_routes(100));
    let pairs = [
        ("retry.max_attempts", Number(1.0)),
        ("rate_limit.permits", Number(10.0)),
        ("rate_limit.per", Number(1e6)),
        ("rate_limit.burst", Number(10.0)),
    ];
    let policy = engine.policy(Policy::from_pairs("p", &pairs).unwrap()).unwrap();
    let (mut asked, mut granted, mut flood) = (0_u32, 0_u32, 0_u32);
    let call = |engine: &mut Engine, key: &str, now: u64| {
        let route = engine.route(policy, key, at(now));
        let (call, step) = engine.begin(route, &Request::default(), at(now));
        if starts(step) {
            let event = Event::Finished { attempt: 1, outcome: Outcome::of(Class::Ok) };
            let _ended = engine.on(call, event, at(now));
        }
        starts(step)
    };
    // Ten seconds: 1,000 new keys a second, and each honest key five times a second.
    for tick in 0..10_000_u64 {
        let now = tick * 1_000;
        flood += 1;
        call(&mut engine, &format!("flood {flood}"), now);
        if tick % 20 == 0 {
            asked += 1;
            granted += u32::from(call(&mut engine, &format!("honest {}", tick as usize / 20 % HONEST), now));
        }
    }
    assert!(granted * 100 >= asked * 99, "{granted} of {asked}");
    let snapshot = engine.snapshot(at(10 * SECOND));
    assert!(snapshot.routes.len() <= 101, "the map is bounded: {}", snapshot.routes.len());
    assert_eq!(engine.check(), Ok(()));
}
