//! What hedges never do: exceed their budget, touch what must not happen twice, teach by their losers (semantics 8).
//!
//! Random schedules, drawn from a seed that a failure names; the counts are the host's own.

use crate::host::{Host, at};
use Value::{Number, Text};
use tidegate::{
    Action, CallId, Class, Engine, Event, Options, Outcome, Policy, Request, RouteId, Step, Value,
};

type Pairs = &'static [(&'static str, Value<'static>)];

const CLASSES: [Class; 5] = [Class::Ok, Class::Ok, Class::Transient, Class::Timeout, Class::Permanent];

/// One call as its host sees it.
struct Live {
    id: CallId,
    request: Request,
    /// Attempts that run, and those that were stopped and cannot be interrupted.
    running: Vec<u8>,
    stopped: Vec<u8>,
    timer: Option<u64>,
    ended: bool,
}

struct Schedule {
    engine: Engine,
    route: RouteId,
    calls: Vec<Live>,
    time: u64,
    draws: u64,
    /// Calls with a first attempt, hedges; of the attempts that nobody stopped: successes, failures, all.
    started: u64,
    hedges: u64,
    successes: u64,
    failures: u64,
    results: u64,
    late: u64,
}

impl Schedule {
    fn new(pairs: Pairs, seed: u64) -> Self {
        let mut engine = Engine::new(seed, Options::default());
        let policy = engine.policy(Policy::from_pairs("p", pairs).unwrap()).unwrap();
        let route = engine.route(policy, "r", at(0));
        let draws = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let (calls, time) = (Vec::new(), 1_000_000);
        Self {
            engine,
            route,
            calls,
            time,
            draws,
            started: 0,
            hedges: 0,
            successes: 0,
            failures: 0,
            results: 0,
            late: 0,
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.draws ^= self.draws << 13;
        self.draws ^= self.draws >> 7;
        self.draws ^= self.draws << 17;
        self.draws % limit
    }

    /// One thing happens; `hedged` looks at each hedge that starts.
    fn step(&mut self, hedged: &mut dyn FnMut(&Self)) {
        self.time += self.below(30_000);
        let now = self.time;
        let due = |call: &Live| !call.ended && call.timer.is_some_and(|timer| timer <= now);
        while let Some(n) = self.calls.iter().position(due) {
            self.on(n, Event::Timer, hedged);
        }
        self.calls.retain(|call| !call.ended || !call.stopped.is_empty());
        if self.calls.len() < 12 && self.below(3) == 0 {
            let (idempotent, replayable) = (self.below(4) > 0, self.below(4) > 0);
            let abortable = self.below(2) == 0;
            let request = Request { idempotent, replayable, abortable, ..Request::default() };
            let (id, step) = self.engine.begin(self.route, &request, at(self.time));
            let (running, stopped) = (Vec::new(), Vec::new());
            self.calls.push(Live { id, request, running, stopped, timer: None, ended: false });
            self.follow(self.calls.len() - 1, step, hedged);
        } else if !self.calls.is_empty() {
            let n = self.below(self.calls.len() as u64) as usize;
            let class = CLASSES[self.below(5) as usize];
            let call = &mut self.calls[n];
            if let Some(attempt) = call.stopped.pop() {
                self.report_late(n, attempt, class);
            } else if !call.running.is_empty() {
                let at = self.below(self.calls[n].running.len() as u64) as usize;
                let attempt = self.calls[n].running.remove(at);
                self.successes += u64::from(class == Class::Ok);
                self.failures += u64::from(matches!(class, Class::Transient | Class::Timeout));
                self.results += 1;
                self.on(n, Event::Finished { attempt, outcome: Outcome::of(class) }, hedged);
            }
        }
    }

    /// An attempt that was stopped, and could not be interrupted, has come to its end.
    fn report_late(&mut self, n: usize, attempt: u8, class: Class) {
        let before = self.learned();
        let (id, outcome) = (self.calls[n].id, Outcome::of(class));
        let step = self.engine.on(id, Event::Finished { attempt, outcome }, at(self.time));
        assert_eq!(step.stop(), 0);
        assert_eq!(self.learned(), before, "a loser has been heard");
        self.late += 1;
    }

    /// All that components have learned from outcomes.
    fn learned(&self) -> String {
        let route = self.engine.snapshot(at(self.time)).routes.remove(0);
        format!(
            "{:?} {:?} {:?} {:?}",
            route.breaker,
            route.throttle,
            route.hedge.map(|it| it.delay),
            route.pool.map(|it| it.limit)
        )
    }

    fn on(&mut self, n: usize, event: Event, hedged: &mut dyn FnMut(&Self)) {
        let step = self.engine.on(self.calls[n].id, event, at(self.time));
        self.follow(n, step, hedged);
    }

    fn follow(&mut self, n: usize, step: Step, hedged: &mut dyn FnMut(&Self)) {
        let call = &mut self.calls[n];
        let (stopped, running) =
            call.running.drain(..).partition(|attempt| step.stop() >> ((attempt - 1) & 7) & 1 == 1);
        call.running = running;
        if !call.request.abortable {
            call.stopped.extend::<Vec<u8>>(stopped);
        }
        call.timer = step.next().map(|span| self.time + span.as_micros());
        match step.action() {
            Action::Attempt { attempt, hedge } => {
                assert_eq!(hedge, !call.running.is_empty(), "an attempt beside another is a hedge");
                call.running.push(attempt);
                self.started += u64::from(attempt == 1);
                if hedge {
                    assert!(call.request.idempotent && call.request.replayable, "{:?}", call.request);
                    self.hedges += 1;
                    hedged(self);
                }
            }
            Action::Wait { .. } => {}
            Action::Done { .. } => call.ended = true,
        }
    }
}

/// Plays a policy with many seeds: how many hedges started, and how many late ends of losers were reported.
fn played(
    pairs: Pairs,
    mut hedged: impl FnMut(&Schedule, u64),
    mut each: impl FnMut(&Schedule),
) -> (u64, u64) {
    let (mut hedges, mut late) = (0, 0);
    for seed in 1..=200 {
        let mut schedule = Schedule::new(pairs, seed);
        for _ in 0..400 {
            schedule.step(&mut |schedule| hedged(schedule, seed));
            each(&schedule);
        }
        hedges += schedule.hedges;
        late += schedule.late;
    }
    (hedges, late)
}

#[test]
fn hedges_never_exceed_their_budget() {
    const RACE: (&str, Value<'static>) = ("hedge.delay", Number(1e3));
    const MANY: (&str, Value<'static>) = ("hedge.max_attempts", Number(4.0));
    fn kind(name: &'static str) -> (&'static str, Value<'static>) {
        ("hedge.budget.kind", Text(name))
    }
    let refused = |schedule: &Schedule, most: f64, seed: u64| {
        assert!(schedule.hedges as f64 <= most, "{} hedges, {most} allowed, seed {seed}", schedule.hedges);
    };
    let window: Pairs = Box::leak(Box::new([
        RACE,
        MANY,
        kind("window"),
        ("hedge.budget.percent_can_retry", Number(0.25)),
        ("hedge.budget.min_retries_per_sec", Number(1.0)),
        ("hedge.budget.ttl", Number(1e6)),
    ]));
    let (hedges, _) = played(
        window,
        |it, seed| refused(it, 0.25 * it.started as f64 + (it.time as f64 / 1e6 - 1.0) + 1.0, seed),
        |_| (),
    );
    assert!(hedges > 1_000, "{hedges}");
    let ratio: Pairs =
        Box::leak(Box::new([RACE, MANY, kind("ratio"), ("hedge.budget.ratio", Number(0.125))]));
    let (hedges, _) = played(ratio, |it, seed| refused(it, 0.125 * it.started as f64, seed), |_| ());
    assert!(hedges > 1_000, "{hedges}");
    let share: Pairs = Box::leak(Box::new([
        RACE,
        MANY,
        kind("share"),
        ("hedge.budget.share", Number(0.5)),
        ("hedge.budget.min_retries", Number(1.0)),
    ]));
    let (hedges, _) = played(
        share,
        |it, seed| {
            // A call whose attempt could not be interrupted is in flight until that ends.
            let live = it.calls.iter().filter(|call| !call.ended || !call.stopped.is_empty()).count();
            let beside: usize = it
                .calls
                .iter()
                .filter(|call| !call.ended)
                .map(|call| call.running.len().saturating_sub(1))
                .sum();
            assert!(beside as f64 <= (0.5 * live as f64).max(1.0), "{beside} beside {live}, seed {seed}");
        },
        |_| (),
    );
    assert!(hedges > 1_000, "{hedges}");
    // The one token above half that lets the last one go may be a part of one.
    let tokens: Pairs = Box::leak(Box::new([
        RACE,
        MANY,
        kind("tokens"),
        ("hedge.budget.max", Number(10.0)),
        ("hedge.budget.ratio", Number(0.1)),
    ]));
    let (hedges, _) = played(tokens, |it, seed| refused(it, 6.0 + 0.1 * it.successes as f64, seed), |_| ());
    assert!(hedges > 500, "{hedges}");
}

/// A breaker that never opens counts every result that its host reports of an attempt that nobody stopped, and no
/// other; what is reported of a loser afterwards changes nothing at all.
#[test]
fn losers_teach_nothing() {
    const BREAKER: Pairs = &[
        ("retry.max_attempts", Number(3.0)),
        ("retry.backoff.base", Number(1e3)),
        ("hedge.delay", Number(5e3)),
        ("hedge.adaptive_delay_quantile", Number(0.9)),
        ("hedge.budget.kind", Text("none")),
        ("bulkhead.max_concurrency", Number(50.0)),
        ("bulkhead.kind", Text("gradient2")),
        ("breaker.failure_ratio", Number(1.0)),
        ("breaker.min_throughput", Number(1e6)),
        ("breaker.window", Number(3.6e9)),
        ("breaker.break_duration", Number(1e6)),
        ("breaker.unit", Text("attempt")),
    ];
    const THROTTLE: Pairs = &[
        ("hedge.delay", Number(5e3)),
        ("hedge.max_attempts", Number(3.0)),
        ("hedge.budget.kind", Text("none")),
        ("throttle.k", Number(1e3)),
        ("bulkhead.max_concurrency", Number(50.0)),
        ("bulkhead.kind", Text("aimd")),
        ("bulkhead.latency_threshold", Number(20e3)),
    ];
    let (hedges, late) = played(
        BREAKER,
        |_, _| (),
        |it| {
            let breaker = it.engine.snapshot(at(it.time)).routes[0].breaker.unwrap();
            let counted = (u64::from(breaker.failures), u64::from(breaker.throughput));
            assert_eq!(counted, (it.failures, it.results), "failures and results");
        },
    );
    assert!(hedges > 1_000 && late > 1_000, "{hedges} {late}");
    let (hedges, late) = played(THROTTLE, |_, _| (), |_| ());
    assert!(hedges > 1_000 && late > 1_000, "{hedges} {late}");
}

/// A lane is used by attempts n, n + 8 and so on. The permit that a hedge had in its lane is not returned once more by a
/// later attempt there that has none.
#[test]
fn a_lane_returns_the_permit_of_a_hedge_once() {
    let mut host = Host::new(&[
        ("bulkhead.max_concurrency", Number(4.0)),
        ("retry.max_attempts", Number(12.0)),
        ("retry.backoff.base", Number(0.0)),
        ("retry.backoff.jitter", Text("none")),
        ("retry.budget.kind", Text("none")),
        ("hedge.delay", Number(1e6)),
        ("hedge.max_attempts", Number(2.0)),
        ("hedge.budget.kind", Text("none")),
    ]);
    let in_flight = |host: &Host| {
        host.engine.snapshot(at(1_000_001)).routes[0].pool.as_ref().expect("there is a bulkhead").in_flight
    };
    let other = host.start(Request::default(), 0);
    let call = host.start(Request::default(), 0);
    let step = host.engine.on(call, Event::Timer, at(1_000_000));
    assert_eq!(step.action(), Action::Attempt { attempt: 2, hedge: true });
    assert_eq!(in_flight(&host), 3, "two calls, and a hedge");
    let failed = Outcome::of(Class::Transient);
    let _ = host.finish(call, 2, failed, 1_000_001);
    assert_eq!(in_flight(&host), 2);
    let mut step = host.finish(call, 1, failed, 1_000_001);
    while let Action::Attempt { attempt, hedge: false } = step.action() {
        assert_eq!(in_flight(&host), 2, "attempt {attempt}");
        step = host.finish(call, attempt, failed, 1_000_001);
    }
    assert!(matches!(step.action(), Action::Done { .. }), "{step:?}");
    assert_eq!(in_flight(&host), 1, "the other call");
    let _ = host.finish(other, 1, Outcome::of(Class::Ok), 1_000_001);
    assert_eq!(in_flight(&host), 0);
}
