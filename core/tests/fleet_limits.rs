//! Sets of limits of a fleet (semantics 10.14): one script takes all limits or none, and what is settled is settled once.
#![allow(clippy::disallowed_methods, reason = "a test reads the seed to replay")]

use crate::fleet::{Faults, Pairs, SECOND, STORE_CLOCK, Sim, Usage};
use Value::{Number, Text};
use tidegate::fleet::{MemoryStore, Reply, StoreCommand, StoreKind};
use tidegate::{
    Action, CallId, Class, Duration, Engine, Event, Options, Outcome, Policy, PolicyId, RecordType, Request,
    RouteId, Time, Value, Verdict, Wait,
};

const RPM: (&str, Value<'static>) = ("rate_limit.limits", Text("rpm: permits=200 per=1s burst=100"));
const TPM: (&str, Value<'static>) =
    ("rate_limit.limits", Text("tpm: permits=20000 per=1s burst=10000 weight=tokens"));

fn limits(more: &[(&'static str, Value<'static>)]) -> Pairs {
    let base = [
        RPM,
        TPM,
        ("rate_limit.store", Text("fleet")),
        ("rate_limit.wait", Number(1.0)),
        ("rate_limit.max_wait", Number(1e6)),
        ("retry.max_attempts", Number(1.0)),
    ];
    [&base, more].concat()
}

fn options() -> Options {
    Options::default().weights(true)
}

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("FLEET_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => (1..=count).collect(),
    }
}

/// The store's level of a limit of 20,000 a second and 10,000 at once, as of now.
fn level(sim: &mut Sim) -> i64 {
    let now = STORE_CLOCK + sim.now;
    let lines = sim.store.describe(now);
    let Some(set) = lines.iter().find(|line| line.contains(":ws ") && line.contains(" hash ")) else {
        return 10_000;
    };
    let text = set.split_once("tpm=").unwrap().1;
    let numbers: Vec<i64> = text.split(' ').take(2).map(|word| word.parse().unwrap()).collect();
    (numbers[0] + (now.cast_signed() - numbers[1]).max(0) / 50).min(10_000)
}

/// What was seen at a moment: the store's level, what the processes have leased and have not reported, and forgiven.
struct Seen {
    at: u64,
    level: i64,
    leased: i64,
    owed: i64,
    forgiven: u64,
}

fn look(sim: &mut Sim) -> Seen {
    let now = Time::from_micros(sim.now);
    let (mut leased, mut owed, mut forgiven) = (0, 0, 0);
    for process in &sim.processes {
        let view = process.engine.snapshot(now).routes[0].limits[1].clone();
        leased += view.tokens.max(0);
        owed += (-view.tokens).max(0);
        forgiven += view.forgiven;
    }
    Seen { at: sim.now, level: level(sim), leased, owed, forgiven }
}

/// The bound of 3.6.10 and 10.14.9, over each window between two of these moments.
fn check_bound(sim: &Sim, seen: &[Seen], spare: i64, here: &str) {
    let usages: Vec<Usage> = sim.processes.iter().flat_map(|it| it.usages.iter().copied()).collect();
    let sum = |of: &dyn Fn(&Usage) -> Option<u64>| -> i64 {
        usages.iter().filter_map(of).sum::<u64>().cast_signed()
    };
    for (first, a) in seen.iter().enumerate() {
        for b in &seen[first + 1..] {
            let inside = |it: &Usage| it.from > a.at && it.from <= b.at;
            let used = sum(&|it| inside(it).then_some(it.used));
            let alone = sum(&|it| (inside(it) && it.alone).then_some(it.used));
            // Also what came back to a lease and may be spent within a second, or is on its way to the store.
            let over = sum(&|it| {
                let counts = it.from <= a.at && it.to.saturating_add(1_100_000) > a.at;
                counts.then(|| it.reserved.saturating_sub(it.used))
            });
            let under =
                sum(&|it| (it.from <= b.at && it.to > b.at).then(|| it.used.saturating_sub(it.reserved)));
            let flowed = ((b.at - a.at) / 50 + 1).cast_signed();
            let forgiven = (b.forgiven - a.forgiven).cast_signed();
            let debt = (-b.level).max(0) + b.owed;
            let bound = flowed + 10_000 + a.leased + spare + over + under + debt + forgiven + alone;
            assert!(used <= bound, "{here}, {} to {}: {used} used, at most {bound}", a.at, b.at);
        }
    }
}

fn watch(sim: &mut Sim, from: u64, to: u64) -> Vec<Seen> {
    let mut seen = Vec::new();
    for moment in (from..to).step_by(197_000) {
        sim.run_to(moment);
        seen.push(look(sim));
    }
    seen
}

/// Specification 10.14.9: under delays, lost and repeated replies; calls use from nothing to twice what they reserve.
#[test]
fn usage_stays_within_the_bound_over_every_window_of_a_fleet() {
    for seed in seeds(8) {
        let mut faults = if seed % 4 == 0 { Faults::none() } else { Faults::all() };
        faults.garbled = 0; // a store that answers what ours does not is another test's matter
        if seed % 4 == 1 {
            (faults.delay, faults.lost, faults.unanswered, faults.forgotten) = ((100, 45_000), 0, 0, 0);
        }
        // The tokens are what is short, not the requests.
        let mut pairs = limits(&[]);
        pairs[0] = ("rate_limit.limits", Text("rpm: permits=5000 per=1s"));
        let mut sim = Sim::with(StoreKind::Lua, options(), seed, 4, &pairs, Faults::none());
        sim.uses = Some([(0, 2_000), (0, 1_000), (900, 1_500)][(seed % 3) as usize]);
        sim.service = (5_000, 400_000);
        sim.load((4_000, 12_000), (1, 400), 50);
        // Until a process has heard of the others, its own share is the whole rate.
        sim.run_to(SECOND);
        sim.faults = faults;
        let seen = watch(&mut sim, SECOND, 9 * SECOND);
        let alone = sim.processes.iter().flat_map(|it| &it.usages).any(|it| it.alone);
        assert_eq!(alone, seed % 4 > 1, "seed {seed}: the store was lost");
        // A lease of each process, and as much on its way.
        check_bound(&sim, &seen, 4 * 2 * 1_000, &format!("seed {seed}"));
        let used: u64 = sim.processes.iter().flat_map(|it| &it.usages).map(|it| it.used).sum();
        assert!(used > 150_000, "seed {seed}: the load is there, {used}");
        sim.run(10 * SECOND);
    }
}

/// Specification 10.14.1 and 10.14.3: what the store grants, and the processes use, is the declared rate, and no more
/// commands than decisions.
#[test]
fn a_fleet_uses_its_rate_and_asks_less_often_than_it_decides() {
    let mut sim = Sim::with(StoreKind::Lua, options(), 3, 4, &limits(&[]), Faults::none());
    sim.uses = Some((1_000, 1_000));
    sim.load((1_000, 9_000), (50, 150), 0);
    sim.run(10 * SECOND);
    let started: usize =
        sim.processes.iter().map(|it| it.started.iter().filter(|it| it.0 < 10 * SECOND).count()).sum();
    let commands: u64 = sim.processes.iter().map(|it| it.commands).sum();
    let begun: u64 = sim.processes.iter().map(|it| it.begun).sum();
    println!("{begun} begun, {started} started, {commands} commands");
    assert!(commands < begun / 4, "{commands} commands for {begun} decisions");
    // 200 a second and 100 at once; 20,000 tokens a second are as many calls of 100.
    assert!((1_900..=2_200).contains(&started), "{started}");
    for process in &sim.processes {
        assert!(process.started.len() > 300, "each gets a part: {}", process.started.len());
    }
}

/// Specification 10.14.8: while the store is lost the processes' shares together are the rate, and the store counts what
/// was spent from them.
#[test]
fn without_the_store_the_shares_are_the_rate() {
    for seed in seeds(4) {
        let mut faults = Faults::none();
        faults.gone = vec![(2 * SECOND, 5 * SECOND)];
        let mut sim = Sim::with(StoreKind::Lua, options(), seed, 4, &limits(&[]), faults);
        sim.uses = Some((500, 1_500));
        sim.service = (5_000, 50_000);
        sim.load((1_000, 8_000), (50, 150), 0);
        sim.run_to(10 * SECOND);
        let mut usages: Vec<(u64, u64)> =
            sim.processes.iter().flat_map(|it| it.usages.iter().map(|it| (it.from, it.used))).collect();
        usages.sort_unstable();
        let used = |from: u64, to: u64| -> u64 {
            usages.iter().filter(|it| (from..to).contains(&it.0)).map(|it| it.1).sum()
        };
        let alone = used(2_300_000, 5 * SECOND);
        assert!(
            (40_000..=20_000 * 27 / 10 + 10_000).contains(&alone),
            "seed {seed}: {alone} without the store"
        );
        for tenth in 20..90 {
            let worst = used(tenth * 100_000, tenth * 100_000 + SECOND);
            assert!(worst <= 20_000 + 10_000 + 4_000, "seed {seed}: {worst} in the second from {tenth}");
        }
        for process in &sim.processes {
            assert_eq!(process.told(RecordType::StoreRecovered), 1);
        }
        sim.run(11 * SECOND);
    }
}

#[test]
fn on_loss_open_lets_all_pass_and_closed_refuses() {
    for (on_loss, more, refused) in [("open", true, false), ("closed", false, true)] {
        let mut faults = Faults::none();
        faults.gone = vec![(SECOND, 60 * SECOND)];
        let pairs = limits(&[("rate_limit.on_loss", Text(on_loss))]);
        let mut sim = Sim::with(StoreKind::Lua, options(), 5, 3, &pairs, faults);
        sim.uses = Some((500, 1_500));
        sim.load((1_000, 3_000), (50, 150), 0);
        sim.run(4 * SECOND);
        let late: usize =
            sim.processes.iter().map(|it| it.started.iter().filter(|it| it.0 > 2 * SECOND).count()).sum();
        // Three processes with 500 calls a second each.
        assert_eq!(late > 2_500, more, "{on_loss}: {late}");
        assert_eq!(sim.ended(Verdict::StoreUnavailable) > 500, refused, "{on_loss}");
    }
}

/// Whatever the network does and however calls end, all is well in the end, and each call has ended.
#[test]
fn under_any_faults_every_call_ends_and_the_fleet_goes_on() {
    for seed in seeds(16) {
        let mut faults = Faults::all();
        faults.gone = vec![(2 * SECOND, 3 * SECOND)];
        let mut sim = Sim::with(StoreKind::Lua, options(), seed, 4, &limits(&[]), faults);
        sim.parks = seed % 4 != 0;
        sim.swing = if seed % 5 == 0 { 100_000 } else { 0 };
        sim.uses = Some((0, 2_000));
        sim.load((1_000, 8_000), (1, 900), 100);
        for second in 1..6 {
            sim.run_to(second * SECOND);
            let fails = sim.dice.hits(500);
            sim.processes[0].class = if fails { Class::Transient } else { Class::Ok };
        }
        sim.faults = Faults::none();
        sim.run_to(12 * SECOND);
        for process in &sim.processes {
            let late = process.started.iter().filter(|it| it.0 > 11 * SECOND).count();
            assert!(late > 5, "seed {seed}: {late} calls in the last second");
        }
        sim.run(13 * SECOND);
    }
}

/// One process, whose answers the test gives.
struct Alone {
    engine: Engine,
    policy: PolicyId,
    route: RouteId,
    store: MemoryStore,
}

fn at(micros: u64) -> Time {
    Time::from_micros(micros)
}

impl Alone {
    fn new(pairs: &Pairs) -> Self {
        let mut engine = Engine::new(1, options());
        let _ = engine.attach_store(StoreKind::Lua, "", 1, at(0));
        let policy = engine.policy(Policy::from_pairs("api", pairs).unwrap()).unwrap();
        let route = engine.route(policy, "eu", at(0));
        Self { engine, policy, route, store: MemoryStore::new() }
    }

    fn begin(&mut self, tokens: u64, now: u64) -> (CallId, Action) {
        let weights = self.engine.weights(self.route, [("tokens", tokens)]).unwrap();
        let (call, step) = self.engine.begin_weighted(self.route, &Request::default(), weights, at(now));
        (call, step.action())
    }

    /// A call that has come to its attempt, with the store's help.
    fn start(&mut self, tokens: u64, now: u64) -> CallId {
        let (call, action) = self.begin(tokens, now);
        if !matches!(action, Action::Attempt { .. }) {
            assert_eq!(action, Action::Wait { why: Wait::Store });
            self.serve(now);
            let step = self.engine.on(call, Event::Poll, at(now));
            assert!(matches!(step.action(), Action::Attempt { .. }), "{step:?}");
        }
        self.serve(now);
        call
    }

    fn finish(&mut self, call: CallId, used: u64, now: u64) {
        assert!(self.engine.settle_weight(call, 1, "tokens", used, at(now)));
        let outcome = Outcome::of(Class::Ok);
        let _ = self.engine.on(call, Event::Finished { attempt: 1, outcome }, at(now));
    }

    fn commands(&mut self) -> Vec<StoreCommand> {
        let mut commands = Vec::new();
        self.engine.take_commands(&mut commands);
        commands
    }

    /// Executes what is out, until nothing is.
    fn serve(&mut self, now: u64) {
        loop {
            let commands = self.commands();
            if commands.is_empty() {
                self.engine.check().unwrap();
                return;
            }
            for command in commands {
                let answer = self.store.execute(&command.words, STORE_CLOCK + now);
                let reply = match &answer {
                    Ok(bytes) => Reply::Bytes(bytes),
                    Err(text) => Reply::Error(text.as_bytes()),
                };
                let _ = self.engine.on_reply(command.id, reply, at(now));
            }
        }
    }

    /// The store's level of the tokens, as it was when something was last written.
    fn level(&mut self, now: u64) -> i64 {
        let lines = self.store.describe(STORE_CLOCK + now);
        let text = lines.iter().find_map(|line| line.split_once("tpm=")).unwrap().1;
        text.split(' ').next().unwrap().parse().unwrap()
    }

    fn leased(&self, now: u64) -> i64 {
        self.engine.snapshot(at(now)).routes[0].limits[1].tokens
    }
}

/// The last argument of the tokens' limit in a command, and the number of the charge.
fn charge(command: &StoreCommand) -> (String, String) {
    let word = |at: usize| String::from_utf8_lossy(&command.words[at]).into_owned();
    let last = |text: String| text.rsplit(' ').next().unwrap().to_string();
    (last(word(8)), last(word(6)))
}

/// Slow limits, of which a lease is one token.
fn slow() -> Pairs {
    let mut pairs = limits(&[]);
    pairs[0] = ("rate_limit.limits", Text("rpm: permits=10 per=1s burst=100"));
    pairs[1] = ("rate_limit.limits", Text("tpm: permits=10 per=1s burst=10000 weight=tokens"));
    pairs
}

/// Specification 10.14.4 and 10.14.5.
#[test]
fn unused_weight_returns_to_the_lease_and_debt_goes_with_the_next_command() {
    let mut it = Alone::new(&slow());
    let call = it.start(4_000, 0);
    let (before, leased) = (it.level(0), it.leased(0));
    assert_eq!(before + leased, 6_000);
    it.finish(call, 1_000, 0);
    assert_eq!(it.leased(0), leased + 3_000, "no command, and no round trip for the next call");
    assert!(it.commands().is_empty());
    let call = it.start(3_000, 0);
    it.finish(call, 5_000, 0);
    assert!(it.leased(0) < -1_000, "what the lease lacks is owed: {}", it.leased(0));
    let owed = -it.leased(0);
    let (call, _) = it.begin(500, 0);
    let command = it.commands().remove(0);
    assert_eq!(charge(&command).0, owed.to_string());
    let answer = it.store.execute(&command.words, STORE_CLOCK).unwrap();
    let _ = it.engine.on_reply(command.id, Reply::Bytes(&answer), at(0));
    assert!(matches!(it.engine.on(call, Event::Poll, at(0)).action(), Action::Attempt { .. }));
    // 1,000 and 5,000 used, 500 reserved; the rest is leased or in the store.
    assert_eq!(it.level(0) + it.leased(0), 10_000 - 1_000 - 5_000 - 500);
    it.finish(call, 9_000, 0);
    let (_, action) = it.begin(1, 0);
    it.serve(0);
    assert!(matches!(action, Action::Wait { .. }), "{action:?}");
    assert_eq!(it.level(0), 10_000 - 1_000 - 5_000 - 9_000, "the store's level is negative");
}

/// Specification 10.14.3.
#[test]
fn leased_tokens_go_back_when_they_are_a_second_old() {
    let mut it = Alone::new(&limits(&[]));
    let call = it.start(100, 0);
    it.finish(call, 100, 0);
    let leased = it.leased(0);
    assert!(leased >= 900, "what 50 ms bring: {leased}");
    assert_eq!((it.leased(999_999), it.leased(1_000_000)), (leased, 0));
    let (call, _) = it.begin(100, 1_100_000);
    let command = it.commands().remove(0);
    let words = String::from_utf8_lossy(&command.words[8]).into_owned();
    assert_eq!(words.rsplit(' ').nth(1), Some(leased.to_string().as_str()), "{words}");
    let answer = it.store.execute(&command.words, STORE_CLOCK + 1_100_000).unwrap();
    let _ = it.engine.on_reply(command.id, Reply::Bytes(&answer), at(1_100_000));
    assert!(matches!(it.engine.on(call, Event::Poll, at(1_100_000)).action(), Action::Attempt { .. }));
    it.serve(1_100_000);
    assert_eq!(it.level(1_100_000) + it.leased(1_100_000), 10_000 - 100, "none is lost, and none is minted");
}

/// Specification 10.14.6: a charge whose answer is lost is sent again, and counts once.
#[test]
fn a_charge_counts_once_whatever_happens_to_its_answers() {
    let mut it = Alone::new(&slow());
    let call = it.start(1_000, 0);
    it.finish(call, 3_000, 0);
    let all = it.level(0) + it.leased(0);
    assert_eq!(all, 7_000);
    // Executed, and never answered: the store counts as lost.
    let (_, action) = it.begin(10, 1_000);
    assert!(matches!(action, Action::Wait { why: Wait::Store }), "{action:?}");
    let first = it.commands().remove(0);
    it.store.execute(&first.words, STORE_CLOCK + 1_000).unwrap();
    let level = it.level(1_000);
    let _ = it.engine.on_reply(first.id, Reply::Lost, at(60_000));
    // The next command names the same charge again.
    let mut now = 60_000;
    let again = loop {
        now += 500_000;
        assert!(now < 10 * SECOND);
        let _ = it.begin(1, now);
        if let Some(command) = it.commands().pop() {
            break command;
        }
    };
    assert_eq!(charge(&again), charge(&first));
    assert_ne!(charge(&first).1, "0");
    let answer = it.store.execute(&again.words, STORE_CLOCK + now).unwrap();
    let flowed = (now / 100_000 + 1).cast_signed();
    assert!(it.level(now) >= level - 100 && it.level(now) <= level + flowed, "it has counted once");
    let _ = it.engine.on_reply(again.id, Reply::Bytes(&answer), at(now));
    now += 4 * SECOND;
    let _ = it.begin(9_000, now);
    let next = it.commands();
    assert!(next.iter().all(|it| charge(it).1 != charge(&first).1), "the store has confirmed it");
}

/// Specification 10.14.2 and 10.14.7: the refusal names the limit that frees last.
#[test]
fn all_limits_or_none_and_the_refusal_names_the_last() {
    let mut pairs = slow();
    pairs[3] = ("rate_limit.wait", Number(0.0));
    pairs.remove(4);
    let mut it = Alone::new(&pairs);
    let call = it.start(9_000, 0);
    let _ = call;
    let rpm = it.engine.snapshot(at(0)).routes[0].limits[0].clone();
    let (call, action) = it.begin(2_000, 0);
    assert_eq!(action, Action::Wait { why: Wait::Store });
    it.serve(0);
    let step = it.engine.on(call, Event::Poll, at(0));
    assert!(matches!(step.action(), Action::Done { verdict: Verdict::RateLimited, .. }), "{step:?}");
    assert_eq!(it.engine.refusal_of(call).unwrap().to_string(), "limit tpm, 2000 tokens");
    assert_eq!(it.engine.snapshot(at(0)).routes[0].limits[0].tokens, rpm.tokens, "and takes no other");
    let (_, action) = it.begin(2_000, 1_000);
    let Action::Done { verdict: Verdict::RateLimited, retry_in: Some(left), .. } = action else {
        panic!("{action:?}")
    };
    assert!((95_000..=101_000).contains(&left.as_millis_ceil()), "1,000 tokens at 10 a second: {left:?}");
    assert_eq!(it.engine.last_refusal().map(|it| it.limit), Some("tpm"));
    // A smaller one passes: the store has the tokens.
    it.start(500, 2_000);
}

/// Semantics 3.4.6: while the store is lost, too, also for amounts that a process's share never holds.
#[test]
fn without_the_store_each_refusal_names_its_limit() {
    let mut faults = Faults::none();
    faults.gone = vec![(2 * SECOND, 5 * SECOND)];
    let mut sim = Sim::with(StoreKind::Lua, options(), 1, 4, &limits(&[]), faults);
    sim.uses = Some((500, 1_500));
    sim.load((10_000, 80_000), (100, 6_000), 0);
    sim.run(6 * SECOND); // looks at the refusal of each call
    assert!(sim.ended(Verdict::RateLimited) > 100);
}

/// Semantics 3.4.6 and 3.5.4: so does the next attempt of a call above a burst that has shrunk.
#[test]
fn a_repeat_above_a_burst_that_has_shrunk_names_the_limit() {
    let pairs = |tpm| {
        let mut pairs = limits(&[("retry.backoff.base", Number(0.0))]);
        pairs[1] = ("rate_limit.limits", Text(tpm));
        pairs[5] = ("retry.max_attempts", Number(2.0));
        pairs
    };
    let mut it = Alone::new(&pairs("tpm: permits=20000 per=1s burst=10000 weight=tokens"));
    let call = it.start(9_000, 0);
    let smaller = pairs("tpm: permits=20000 per=1s burst=5000 weight=tokens");
    let _ = it.engine.retune(it.policy, Policy::from_pairs("api", &smaller).unwrap(), at(0)).unwrap();
    let outcome = Outcome::of(Class::Transient);
    let mut step = it.engine.on(call, Event::Finished { attempt: 1, outcome }, at(SECOND));
    if let Action::Wait { .. } = step.action() {
        step = it.engine.on(call, Event::Timer, at(2 * SECOND));
    }
    assert!(matches!(step.action(), Action::Done { verdict: Verdict::Readmission, .. }), "{step:?}");
    assert_eq!(it.engine.refusal_of(call).unwrap().to_string(), "limit tpm, 9000 tokens");
}

/// Specification 10.11.1.
#[test]
fn a_store_mints_nothing_whatever_it_answers() {
    let huge = (1_u64 << 52) - 1;
    for answer in [
        format!("0 0 1 {huge} 0 {huge} {huge}"),
        format!("0 0 {huge} 0 0 0 0"),
        format!("{huge} 7 1 5 0 5 0"),
        format!("{huge} 2 0 0 0 0 0"),
        "0 0 1 0 0 0 0".into(),
        "1 0 1".into(),
    ] {
        let mut it = Alone::new(&limits(&[]));
        let (call, _) = it.begin(5_000, 0);
        for turn in 0..20 {
            for command in it.commands() {
                let _ = it.engine.on_reply(command.id, Reply::Bytes(answer.as_bytes()), at(turn));
            }
        }
        it.engine.check().unwrap();
        assert!(it.leased(20) <= 5_000 + 2_000, "{answer}: {}", it.leased(20));
        assert_eq!(it.engine.snapshot(at(20)).routes[0].limits[1].forgiven, 0, "{answer}");
        let step = it.engine.on(call, Event::Poll, at(20));
        assert!(step.next().is_none_or(|next| next <= Duration::from_secs(1)), "{answer}: {step:?}");
    }
}

/// Specification 10.14.13: a retune into the fleet and out of it, to other limits, and a fork; commands are out meanwhile.
#[test]
fn retunes_and_forks_keep_the_books() {
    let mut it = Alone::new(&limits(&[]));
    let call = it.start(2_000, 0);
    let (waiter, _) = it.begin(9_900, 0);
    let out = it.commands();
    let mut local = limits(&[]);
    local.remove(2);
    let to = |pairs: &Pairs| Policy::from_pairs("api", pairs).unwrap();
    let _ = it.engine.retune(it.policy, to(&local), at(1_000)).unwrap();
    it.engine.check().unwrap();
    for command in out {
        let answer = it.store.execute(&command.words, STORE_CLOCK + 1_000).unwrap_or_default();
        let _ = it.engine.on_reply(command.id, Reply::Bytes(&answer), at(2_000));
    }
    it.engine.check().unwrap();
    it.finish(call, 500, 3_000);
    let step = it.engine.on(waiter, Event::Poll, at(4_000));
    assert!(matches!(step.action(), Action::Wait { .. } | Action::Attempt { .. }), "{step:?}");
    let mut turned = limits(&[]);
    turned.swap(0, 1);
    let _ = it.engine.retune(it.policy, to(&turned), at(5_000)).unwrap();
    it.serve(5_000);
    let _ = it.engine.on(waiter, Event::Cancel, at(6_000));
    let call = it.start(100, 7_000);
    let _ = it.engine.after_fork(9, at(8_000));
    it.engine.check().unwrap();
    let outcome = Outcome::of(Class::Ok);
    let _ = it.engine.on(call, Event::Finished { attempt: 1, outcome }, at(9_000));
    it.start(100, 10_000);
}

/// Specification 10.9.4 and 10.14.11.
#[test]
fn it_needs_scripts_and_does_not_learn() {
    let mut engine = Engine::new(1, options().quotas(true));
    let _ = engine.attach_store(StoreKind::Plain, "", 1, at(0));
    let told = engine.policy(Policy::from_pairs("api", &limits(&[])).unwrap()).unwrap_err().to_string();
    assert!(told.contains("beside rate_limit.limits needs a store that runs scripts"), "{told}");
    let mut engine = Engine::new(1, options().quotas(true));
    let _ = engine.attach_store(StoreKind::Lua, "", 1, at(0));
    let learns = limits(&[("rate_limit.learn", Text("down"))]);
    let told = engine.policy(Policy::from_pairs("api", &learns).unwrap()).unwrap_err().to_string();
    assert!(told.contains("rate_limit.learn = down means nothing where rate_limit.store is fleet"), "{told}");
}
