//! The host: carries out steps and checks them. It knows the rules, but not the engine's internal state.

use std::collections::BTreeMap;

use tidegate::{
    Action, CallId, Class, Duration, Engine, Event, Outcome, PathId, Policy, PolicyId, PoolKind, Request,
    Step, Time, Value, Verdict, Wait, wire,
};

use super::clock::Clock;
use super::{settings, wide};
use crate::input::Input;

/// The host's record of a call.
pub struct Known {
    pub id: CallId,
    pub attempts: u8,
    /// Attempts that were started and not yet reported.
    pub running: Vec<u8>,
    stopped: Vec<u8>,
    place: (usize, usize),
    request: Request,
    deadline: Option<u64>,
    /// The most attempts that the call may make.
    most: u64,
    timed: bool,
    pub(super) done: bool,
    last: Step,
    next_at: Option<u64>,
    heard: u64,
}

/// A limit that the host can check itself: permits in use, or tokens ever granted.
#[derive(Default)]
pub(super) struct Bound {
    permits: Option<(usize, bool)>,
    rate: Option<(u128, u128, u128)>,
}

pub struct Host {
    pub engine: Engine,
    pub policies: Vec<PolicyId>,
    pub(super) named: Vec<Vec<PoolKind>>,
    pub(super) pools: Vec<PoolKind>,
    pub(super) bounds: Vec<Bound>,
    pub calls: Vec<Known>,
    pub(super) by_id: BTreeMap<CallId, usize>,
    /// The host's clock, and the engine's time as it must be (R10).
    pub reading: u64,
    pub(super) time: u64,
    pub(super) clock: Clock,
    pub(super) born: u64,
    /// Attempts, hedges and ends that the host has counted.
    pub(super) seen: (u64, u64, u64),
    /// Tokens of a rate limit that calls began with, by policy and key.
    pub(super) taken: BTreeMap<(usize, usize), u128>,
    pub(super) few_routes: bool,
    pub(super) forked: bool,
    /// The clock is near its end, where spans are cut short.
    pub(super) edge: bool,
    /// Whether there are components of every kind, and changes of them (target `changes`).
    pub wide: bool,
    /// Whether a policy has left, and its counts with it.
    pub(super) replaced: bool,
    /// What the wall clock is ahead of the engine's time.
    pub(super) wall: u64,
    /// What the next call names of each weight; 0 where it names none.
    pub weight: u64,
}

impl Host {
    pub fn new(input: &mut Input<'_>, wide: bool) -> Self {
        let few_routes = input.chance(20);
        let options = wide::options(wide).max_routes(if few_routes { 1 } else { 10_000 });
        let seed = u64::from(input.byte());
        let edge = input.chance(8);
        let origin = if edge { u64::MAX - 90_000_000 } else { input.of(&[1 << 40, 0, 5, 1 << 62]) };
        let mut engine = Engine::new(seed, options);
        let now = Time::from_micros(origin);
        let mut pools = Vec::new();
        for kind in PoolKind::ALL {
            if input.chance(if wide { 80 } else { 30 }) {
                engine.pool(settings::pool(input, kind, wide), now).expect("the first of its name");
                pools.push(kind);
            }
        }
        let (mut policies, mut named, mut bounds) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..1 + input.below(3) {
            let some: Vec<_> = pools.iter().copied().filter(|_| input.chance(190)).collect();
            let policy = settings::policy(input, &format!("p{n}"), &some, wide);
            bounds.push(bound(&policy, &some));
            policies.push(engine.policy(policy).expect("the first of its name, and its pools are there"));
            named.push(some);
        }
        let mut host = Self {
            engine,
            policies,
            named,
            pools,
            bounds,
            calls: Vec::new(),
            by_id: BTreeMap::new(),
            reading: origin,
            time: Clock::new(origin).now(),
            clock: Clock::new(origin),
            born: Clock::new(origin).now(),
            seen: (0, 0, 0),
            taken: BTreeMap::new(),
            few_routes,
            forked: false,
            edge,
            wide,
            replaced: false,
            wall: 0,
            weight: 0,
        };
        host.look(); // both have seen the clock now
        host
    }

    pub fn now(&self) -> Time {
        Time::from_micros(self.reading)
    }

    /// Advances the clock.
    pub fn pass(&mut self, span: u64) {
        self.reading = self.reading.saturating_add(span);
        self.look();
    }

    /// Advances the clock until this much of the engine's time has passed.
    fn sleep(&mut self, span: u64) {
        let until = self.time + span;
        while self.time < until && !self.edge {
            self.pass(until - self.time);
        }
    }

    /// Shows the clock to the engine, and computes the engine's time (R10).
    pub fn look(&mut self) {
        let step = self.engine.on(CallId::from_word(0), Event::Poll, self.now());
        assert!(matches!(step.action(), Action::Done { verdict: Verdict::Stale, .. }));
        self.time = self.clock.read(self.reading);
        self.edge |= self.reading > u64::MAX - (1 << 60);
    }

    pub fn begin(
        &mut self,
        place: (usize, usize),
        mut request: Request,
        parent: Option<usize>,
        path: Option<&str>,
    ) {
        let route = self.engine.route(self.policies[place.0], ["a", "b"][place.1], self.now());
        request.path = path.map_or(PathId::NONE, |path| self.engine.path_id(route, path, self.now()));
        let policy = self.engine.policy_of(self.policies[place.0]).expect("it was taken in");
        let own = micros(policy, "deadline");
        let spans = [own, request.remaining.map(Duration::as_micros)];
        let deadline = spans.into_iter().flatten().min().map(|span| self.time.saturating_add(span));
        let around = parent.filter(|n| !self.calls[*n].done).and_then(|n| self.calls[n].deadline);
        // A parent that the engine has abandoned sets no deadline, and the host may not know yet: a grant lasts 5 s.
        let sure = parent.is_none_or(|n| self.time - self.calls[n].heard < 5_000_000);
        let deadline = if sure { deadline.into_iter().chain(around).min() } else { deadline };
        // 8.1: with retry, `retry.max_attempts` counts hedges too; without it, `hedge.max_attempts` is the bound.
        let tries = micros(policy, "retry.max_attempts").unwrap_or(1);
        let most = if tries > 1 { tries } else { micros(policy, "hedge.max_attempts").unwrap_or(1) };
        // A deadline beyond the end of the clock does not count.
        let deadline = deadline.filter(|deadline| *deadline < u64::MAX);
        let timed = micros(policy, "attempt_timeout").is_some();
        let (id, step) = self.begun(route, &request);
        if matches!(step.action(), Action::Done { verdict: Verdict::StaleRoute, .. }) {
            panic!("a route that was just asked for is stale");
        }
        assert!(self.by_id.insert(id, self.calls.len()).is_none(), "an id is used twice");
        self.calls.push(Known {
            id,
            attempts: 0,
            running: Vec::new(),
            stopped: Vec::new(),
            place,
            request,
            deadline,
            most,
            timed,
            done: false,
            last: step,
            next_at: None,
            heard: self.time,
        });
        let n = self.calls.len() - 1;
        self.follow(n, step);
        if !self.calls[n].done {
            self.poll_changes_nothing(n);
        }
    }

    /// Sends an event of a call. After the call's end the engine must answer that the call is stale (R1).
    pub fn send(&mut self, n: usize, event: Event) {
        let call = &mut self.calls[n];
        if let Event::Finished { attempt, .. } = event {
            call.running.retain(|running| *running != attempt);
        }
        let step = self.engine.on(call.id, event, self.now());
        if self.calls[n].done {
            let stale = matches!(step.action(), Action::Done { verdict: Verdict::Stale, result: None, .. });
            assert!(stale && step.stop() == 0, "{step:?} after the end");
            return;
        }
        self.follow(n, step);
        if !self.calls[n].done {
            self.poll_changes_nothing(n);
        }
    }

    /// Sends an event with an invented id. If the id is that of a call, it is that call's event; otherwise it must be
    /// stale.
    pub fn forged(&mut self, id: CallId, event: Event) {
        match self.by_id.get(&id) {
            Some(n) => self.send(*n, event),
            None => {
                let step = self.engine.on(id, event, self.now());
                assert!(matches!(step.action(), Action::Done { verdict: Verdict::Stale, .. }), "{step:?}");
            }
        }
    }

    pub fn force(&mut self, policy: usize, key: Option<usize>, on: bool) {
        let id = self.policies[policy];
        let route = key.map(|key| self.engine.route(id, ["a", "b"][key], self.now()));
        let _ = self.engine.force_open(id, route, on, self.now());
    }

    pub fn retune(&mut self, policy: usize, input: &mut Input<'_>) {
        let n = policy % self.policies.len();
        let to = settings::policy(input, &format!("p{n}"), &self.named[n], self.wide);
        // Refused if the pools in use would differ: a policy without retries uses no budget.
        if self.engine.retune(self.policies[n], to, self.now()).is_ok() {
            self.bounds[n] = Bound::default();
        }
    }

    pub fn retune_pool(&mut self, input: &mut Input<'_>) {
        if self.pools.is_empty() {
            return;
        }
        let kind = input.of(&self.pools);
        let to = settings::pool(input, kind, self.wide);
        let retuned = self.engine.retune_pool(to, self.now());
        assert!(self.wide || retuned.is_ok(), "a pool of this kind is there");
    }

    /// Forks the process: all calls belong to the parent, and the child begins with none.
    pub fn fork(&mut self, seed: u64) {
        let _ = self.engine.after_fork(seed, self.now());
        self.forked = true;
        for call in &mut self.calls {
            call.done = true;
            call.running.clear();
        }
    }

    /// R3: a Poll at the same instant changes nothing.
    fn poll_changes_nothing(&mut self, n: usize) {
        let before = self.calls[n].last;
        let again = self.engine.on(self.calls[n].id, Event::Poll, self.now());
        let started = matches!(before.action(), Action::Attempt { .. });
        // Exceptions: steps that are due at once wait for the owner's Poll. A waiter's own Poll may also take back a
        // grant that was not claimed, or find that it was admitted, or that its turn comes sooner.
        let due = (before.stop() != 0 || started) && before.next() == Some(Duration::ZERO);
        let parked = matches!(
            before.action(),
            Action::Wait { why: Wait::Queue | Wait::Rate | Wait::Hold | Wait::Cooldown | Wait::Target }
        );
        if due || parked && (again.action() != before.action() || again.next() < before.next()) {
            self.follow(n, again);
            return;
        }
        let action = if started { Action::Wait { why: Wait::Running } } else { before.action() };
        let expected = Step::new(action, before.next()).with_flags(before.flags());
        assert_eq!(again.with_flags(before.flags()), expected, "R3");
    }

    /// Carries out a step.
    fn follow(&mut self, n: usize, step: Step) {
        let word = wire::pack_step(step);
        assert!(word < 1 << 53 && wire::unpack_step(word).is_some(), "{step:?}");
        assert!(!step.flags().commands, "there is no store");
        let time = self.time;
        let call = &mut self.calls[n];
        let silence = time - std::mem::replace(&mut call.heard, time);
        call.last = step;
        call.next_at = step.next().map(|span| time.saturating_add(span.as_micros()));
        for attempt in call.running.clone() {
            if step.stop() >> (attempt.wrapping_sub(1) & 7) & 1 == 1 && !call.stopped.contains(&attempt) {
                call.stopped.push(attempt);
                if call.request.abortable {
                    call.running.retain(|running| *running != attempt);
                }
            }
        }
        match step.action() {
            Action::Attempt { attempt, hedge } => self.start(n, attempt, hedge),
            Action::Wait { why } => {
                let parked =
                    matches!(why, Wait::Queue | Wait::Hold | Wait::Rate | Wait::Cooldown | Wait::Target);
                assert!(!parked || call.request.may_park, "{why:?}: it may not park");
                assert!(
                    !parked || step.next().is_some_and(|span| span <= Duration::from_secs(1)),
                    "R4: {step:?}"
                );
                assert!(why != Wait::Backoff || step.next().is_some(), "a backoff ends: {step:?}");
                assert!(why != Wait::Body || call.request.slot_until_body);
                assert_ne!(why, Wait::Store);
                let is_over = call.deadline.is_some_and(|deadline| deadline <= time) && !self.edge;
                assert!(!self.wide || !is_over || !call.running.is_empty(), "{why:?} after the deadline");
                self.timer(n, why);
            }
            Action::Done { verdict, result, .. } => {
                match verdict {
                    // R9: a grant is a lease of 5 s; anything else lasts 60 s beyond its end.
                    Verdict::Lost => assert!(silence >= 5_000_000, "lost after {silence} µs"),
                    Verdict::Stale => assert!(silence >= 60_000_000, "forgotten after {silence} µs"),
                    Verdict::Ok => assert!(result.is_some(), "an answer has an attempt"),
                    _ => {}
                }
                assert!(result.is_none() || call.attempts > 0, "the result of no attempt");
                call.done = true;
                if call.request.abortable {
                    call.running.clear();
                }
                self.seen.2 += 1;
            }
        }
    }

    fn start(&mut self, n: usize, attempt: u8, hedge: bool) {
        let time = self.time;
        let call = &mut self.calls[n];
        let others = call.running.iter().any(|attempt| !call.stopped.contains(attempt));
        assert_eq!(hedge, others, "an attempt beside another is a hedge, and nothing else is");
        assert!(!hedge || call.request.idempotent && call.request.replayable, "8.1");
        assert_eq!(u16::from(attempt), u16::from(call.attempts) + 1, "attempts are numbered in order");
        assert!(call.running.len() < 4, "R11: at most four at once");
        assert!(attempt < 9 || !call.running.contains(&(attempt - 8)), "R11: attempt n waits for n - 8");
        assert!(call.deadline.is_none_or(|deadline| deadline > time), "7.2: started after the deadline");
        assert!(attempt == 1 || call.request.replayable, "2.3: a one-shot body is sent again");
        assert!(!call.timed || self.edge || call.last.next().is_some(), "an attempt timeout has a timer");
        call.attempts = attempt;
        assert!(u64::from(attempt) <= call.most, "attempt {attempt} of {}", call.most);
        call.running.push(attempt);
        let (place, cost) = (call.place, u128::from(call.request.cost));
        self.seen.0 += 1;
        self.seen.1 += u64::from(hedge);
        self.timer(n, Wait::Running);
        if attempt == 1 {
            *self.taken.entry(place).or_default() += cost;
            self.rate_is_kept(place);
        }
        self.permits_are_kept(place);
    }

    /// A call with a deadline has a timer, and no timer is later than the deadline (R4, R8).
    fn timer(&self, n: usize, why: Wait) {
        let call = &self.calls[n];
        let Some(deadline) = call.deadline.filter(|_| !self.edge) else { return };
        let until = call.next_at.unwrap_or_else(|| panic!("{why:?} with a deadline and no timer"));
        assert!(until <= deadline || deadline <= self.time, "{why:?}: a timer beyond the deadline");
        assert!(why != Wait::Backoff || until < deadline || self.time == until, "R8");
    }

    /// I2, as the host counts: at most as many calls, or attempts, at once as a fixed bulkhead has permits. A nested
    /// call may share its parent's permit, and a call that was silent for long may have lost its permit.
    fn permits_are_kept(&self, place: (usize, usize)) {
        let Some((limit, by_attempt)) =
            self.bounds[place.0].permits.filter(|_| !self.few_routes && self.time < u64::MAX)
        else {
            return;
        };
        let here = self.calls.iter().filter(|call| {
            call.place == place
                && !call.done
                && call.request.parent.is_none()
                // The engine may have given up a stopped attempt that the host cannot abort (R11), while the host still
                // runs it.
                && call.stopped.is_empty()
                && self.time - call.heard < 60_000_000
        });
        let out: usize = if by_attempt {
            here.map(|call| call.running.len()).sum()
        } else {
            here.filter(|call| call.attempts > 0).count()
        };
        assert!(out <= limit, "I2: {out} out of {limit}");
    }

    /// Tokens taken are at most the burst and the tokens that flowed in, however the clock moved.
    fn rate_is_kept(&self, place: (usize, usize)) {
        let Some((permits, per, burst)) = self.bounds[place.0].rate.filter(|_| !self.few_routes) else {
            return;
        };
        let flowed = u128::from(self.time - self.born) * permits / per;
        let taken = self.taken[&place];
        assert!(taken <= burst + flowed, "{taken} tokens taken of {burst} and {flowed}");
    }

    /// Run after every step: checks the engine's invariants and the wakes.
    pub fn check(&mut self) {
        let mut wakes = Vec::new();
        self.engine.take_wakes(&mut wakes);
        for id in wakes {
            assert!(self.by_id.contains_key(&id), "a call was woken that never was");
        }
        if let Err(law) = self.engine.check() {
            panic!("{law}");
        }
        if self.wide {
            self.views_are_true();
        }
    }

    /// Behaves correctly from here on: every call must come to its one end, and nothing may be left behind (R1, R9, I1,
    /// I7).
    pub fn drain(&mut self) {
        // A clock below its highest reading has to catch up before any wait ends.
        self.reading = self.reading.max(self.clock.reading_at(self.time));
        self.look();
        if self.edge {
            return;
        }
        for round in 0..4_000_u32 {
            let Some(n) = (0..self.calls.len()).find(|n| !self.calls[*n].done) else { break };
            if let Some(attempt) = self.calls[n].running.first().copied() {
                self.send(n, Event::Finished { attempt, outcome: Outcome::of(Class::Ok) });
            } else {
                for other in n..self.calls.len() {
                    if !self.calls[other].done {
                        self.report_or_poll(other);
                    }
                }
                if !self.calls[n].done && self.calls[n].running.is_empty() {
                    let at = self.calls[n].next_at.expect("a wait without running attempts has a timer");
                    // A turn may be years away, and a parked call polls every second, so the host sleeps longer and
                    // longer.
                    let late = if round < 500 { 0 } else { 1 << (round / 50).min(46) };
                    self.sleep(at.saturating_sub(self.time).max(1) + late);
                    self.send(n, Event::Timer);
                }
            }
            self.check();
        }
        for n in 0..self.calls.len() {
            assert!(self.calls[n].done, "no end within 4,000 rounds: {:?}", self.calls[n].last);
            for attempt in self.calls[n].running.clone() {
                self.send(n, Event::Finished { attempt, outcome: Outcome::of(Class::Ok) });
            }
        }
        self.nothing_is_left();
    }

    fn report_or_poll(&mut self, n: usize) {
        match self.calls[n].running.first().copied() {
            Some(attempt) => self.send(n, Event::Finished { attempt, outcome: Outcome::of(Class::Ok) }),
            None => self.send(n, Event::Poll),
        }
    }

    fn nothing_is_left(&mut self) {
        // Later calls recycle the places of calls that were forgotten, or abandoned without a report.
        let late = Request { remaining: Some(Duration::ZERO), ..Request::default() };
        for _ in 0..4 {
            self.sleep(61_000_000);
            for _ in 0..self.calls.len().min(60) + 4 {
                self.begin((0, 0), late, None, None);
                assert!(self.calls.last().is_some_and(|call| call.done), "a call begins after its deadline");
            }
        }
        self.check();
        let snapshot = self.engine.snapshot(self.now());
        let left = (snapshot.live, snapshot.lingering, snapshot.lost, snapshot.waiting);
        assert_eq!(left, (0, 0, 0, 0), "live, lingering, lost, waiting");
        for route in &snapshot.routes {
            assert_eq!((route.active, route.hold.map_or(0, |hold| hold.held)), (0, 0), "{route:?}");
            assert!(route.pool.is_none_or(|pool| pool.in_flight == 0 && pool.waiting == 0), "{route:?}");
            assert!(route.throttle.is_none_or(|it| (0.0..=1.0).contains(&it.probability)), "{route:?}");
            let rate = route.send.and_then(|send| send.rate);
            assert!(rate.is_none_or(|rate| rate.is_finite() && rate > 0.0), "{route:?}");
        }
        for pool in &snapshot.pools {
            assert!(pool.pool.is_none_or(|pool| pool.in_flight == 0 && pool.waiting == 0), "{pool:?}");
        }
        wide::nothing_waits(&snapshot);
        let sum = |of: fn(&tidegate::Counts) -> u64| {
            snapshot.policies.iter().map(|(_, counts)| of(counts)).sum::<u64>()
        };
        let (attempts, hedges) = (sum(|counts| counts.attempts), sum(|counts| counts.hedges));
        if !self.replaced {
            assert_eq!(
                (attempts, hedges),
                (self.seen.0, self.seen.1),
                "I7: attempts and hedges, counted twice"
            );
        }
        if !self.forked && !self.replaced {
            assert_eq!(sum(|counts| counts.ends.iter().sum()), self.seen.2, "R1: as many ends as begins");
        }
    }
}

fn micros(policy: &Policy, key: &str) -> Option<u64> {
    match policy.value(key) {
        Some(Value::Number(micros)) => Some(micros as u64),
        _ => None,
    }
}

/// The limits that the host can check for a policy that shares no pool and is never retuned.
pub(super) fn bound(policy: &Policy, pools: &[PoolKind]) -> Bound {
    let number = |key: &str| micros(policy, key);
    let text = |key: &str, is: &str| policy.value(key) == Some(Value::Text(is));
    let mut bound = Bound::default();
    if !pools.contains(&PoolKind::Bulkhead) && text("bulkhead.kind", "fixed") {
        bound.permits = number("bulkhead.max_concurrency")
            .map(|limit| (limit as usize, text("bulkhead.unit", "attempt")));
    }
    if !pools.contains(&PoolKind::RateLimit) && text("rate_limit.unit", "call") {
        let settings =
            number("rate_limit.permits").zip(number("rate_limit.per")).zip(number("rate_limit.burst"));
        bound.rate = settings.map(|((permits, per), burst)| (permits.into(), per.into(), burst.into()));
    }
    bound
}
