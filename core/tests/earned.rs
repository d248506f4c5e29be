//! The default budget (semantics 2.20): what it repairs, and what load it adds. ADR 0018 has the figures.

use Value::{Number, Text};
use tidegate::{
    Action, Class, EarnedBudget, EarnedSettings, Engine, Event, Options, Outcome, Policy, Request, RouteId,
    Time, Value, Verdict,
};

/// Clients of one server: a route each. Attempts end at once, as a random number says.
struct Clients {
    engine: Engine,
    routes: Vec<RouteId>,
    bits: u64,
    calls: u64,
    attempts: u64,
}

impl Clients {
    fn new(pairs: &[(&str, Value<'_>)], clients: usize, seed: u64) -> Self {
        let mut all = vec![("retry.backoff.base", Number(0.0)), ("retry.max_attempts", Number(3.0))];
        all.extend_from_slice(pairs);
        let mut engine = Engine::new(seed, Options::default());
        let policy = engine.policy(Policy::from_pairs("p", &all).unwrap()).unwrap();
        let routes =
            (0..clients).map(|n| engine.route(policy, &n.to_string(), Time::from_micros(0))).collect();
        Self { engine, routes, bits: seed, calls: 0, attempts: 0 }
    }

    /// A number below `n`, from `SplitMix64`.
    fn below(&mut self, n: u64) -> u64 {
        self.bits = self.bits.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.bits;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (x ^ (x >> 31)) % n
    }

    /// One call of a client, whose attempts end as `outcome` says; its verdict.
    fn call(&mut self, client: usize, now: u64, mut outcome: impl FnMut(&mut Self) -> Class) -> Verdict {
        let now = Time::from_micros(now);
        let (call, mut step) = self.engine.begin(self.routes[client], &Request::default(), now);
        self.calls += 1;
        loop {
            match step.action() {
                Action::Attempt { attempt, .. } => {
                    self.attempts += 1;
                    let outcome = Outcome::of(outcome(self));
                    step = self.engine.on(call, Event::Finished { attempt, outcome }, now);
                }
                Action::Done { verdict, .. } => return verdict,
                Action::Wait { .. } => panic!("nothing waits here"),
            }
        }
    }

    /// Attempts per call of `clients` that make 100 calls a second together for 100 s, half of which fail: E2.
    fn at_half_failures(pairs: &[(&str, Value<'_>)], clients: usize, seed: u64) -> f64 {
        let mut world = Self::new(pairs, clients, seed);
        for place in 0..10_000 {
            let client = world.below(clients as u64) as usize;
            world.call(
                client,
                place * 10_000,
                |it| if it.below(2) == 0 { Class::Transient } else { Class::Ok },
            );
        }
        world.attempts as f64 / world.calls as f64
    }
}

#[test]
fn a_first_call_may_use_all_its_attempts() {
    let mut world = Clients::new(&[], 1, 1);
    let mut left = 2;
    let verdict = world.call(0, 0, |_| {
        left -= 1;
        if left >= 0 { Class::Transient } else { Class::Ok }
    });
    assert_eq!((verdict, world.attempts), (Verdict::Ok, 3), "503, 503, 200");
}

#[test]
fn start_follows_the_attempts_unless_it_is_given() {
    let left = |pairs: &[(&str, Value<'_>)]| {
        let mut engine = Engine::new(1, Options::default());
        let policy = engine.policy(Policy::from_pairs("p", pairs).unwrap()).unwrap();
        engine.route(policy, "r", Time::from_micros(0));
        engine.snapshot(Time::from_micros(0)).routes[0].budget
    };
    let attempts = |n| ("retry.max_attempts", Number(n));
    assert_eq!(left(&[("preset", Text("http"))]), Some(2));
    assert_eq!(left(&[("preset", Text("transient"))]), Some(2));
    assert_eq!(left(&[("preset", Text("occ"))]), Some(100), "a window");
    assert_eq!(left(&[attempts(2.0)]), Some(1));
    assert_eq!(left(&[attempts(255.0)]), Some(4));
    assert_eq!(left(&[attempts(2.0), ("retry.budget.start", Number(9.0))]), Some(9));
    assert_eq!(left(&[attempts(2.0), ("retry.budget.start", Number(0.0))]), Some(0));
    assert_eq!(left(&[("hedge.delay", Number(0.0)), ("hedge.max_attempts", Number(4.0))]), Some(3));
    // A key that only a window has makes it one, where no kind is named.
    assert_eq!(
        left(&[("preset", Text("http")), ("retry.budget.min_retries_per_sec", Number(1.0))]),
        Some(10)
    );
    let both = [("retry.budget.kind", Text("earned")), ("retry.budget.ttl", Number(1e6))];
    assert_eq!(left(&both), Some(2));
}

#[test]
fn half_failures_cost_at_most_a_sixth_more_even_for_many_new_clients() {
    for (clients, most) in [(1, 1.15), (10, 1.15), (100, 1.15), (1_000, 1.3)] {
        let mean = (0..5).map(|seed| Clients::at_half_failures(&[], clients, seed)).sum::<f64>() / 5.0;
        println!("E2, {clients} clients: {mean:.3} attempts per call");
        assert!(mean <= most, "{clients} clients: {mean}");
    }
    // What was the default before.
    let window = Clients::at_half_failures(&[("retry.budget.kind", Text("window"))], 1_000, 0);
    println!("E2, 1000 clients, window: {window:.3}");
    assert!(window > 1.7);
}

#[test]
fn a_lone_client_gets_its_retries() {
    for gap in [1_000_000, 20_000_000] {
        let (mut repeated, mut wanted) = (0, 0);
        for seed in 0..20 {
            let mut world = Clients::new(&[], 1, seed);
            for place in 0..1_000 {
                let (before, mut failed) = (world.attempts, false);
                world.call(0, place * gap, |it| {
                    let fails = !failed && it.below(10) == 0;
                    failed |= fails;
                    if fails { Class::Transient } else { Class::Ok }
                });
                wanted += u32::from(failed);
                repeated += u32::from(failed && world.attempts - before == 2);
            }
        }
        let share = f64::from(repeated) / f64::from(wanted);
        println!("lone client, one call each {} s: {share:.3} of its retries", gap / 1_000_000);
        assert!(share >= 0.95, "{repeated} of {wanted}");
    }
}

#[test]
fn failures_throttles_and_cancelled_calls_earn_nothing() {
    for class in [
        Class::Transient,
        Class::Throttled,
        Class::Timeout,
        Class::Conflict,
        Class::Ignored,
        Class::Cancelled,
    ] {
        let mut world =
            Clients::new(&[("retry.budget.ratio", Number(1.0)), ("retry.budget.start", Number(0.0))], 1, 1);
        for _ in 0..50 {
            world.call(0, 0, |_| class);
        }
        assert_eq!(world.attempts, 50, "{class:?}");
        world.call(0, 0, |_| Class::Permanent);
        let mut left = 1;
        world.call(0, 0, |_| {
            left -= 1;
            if left >= 0 { Class::Transient } else { Class::Ok }
        });
        assert_eq!(world.attempts, 53, "one answer, one retry");
    }
}

#[test]
fn it_keeps_two_retries_for_each_call_of_an_outage_of_one_second() {
    let mut budget = EarnedBudget::new(EarnedSettings::default());
    for n in 0..3_000 {
        let now = Time::from_micros(n * 10_000);
        budget.on_call(now);
        budget.on_answer(now);
    }
    let kept = budget.balance(Time::from_micros(30_000_000));
    assert!((200..=252).contains(&kept), "100 calls a second, 0.18 each, of the last 14 s: {kept}");
}

#[test]
fn lifted_budgets_refuse_nothing_and_go_on_from_where_they_were() {
    for kind in ["earned", "window", "ratio", "share", "tokens", "quota"] {
        let mut pairs = vec![
            ("retry.max_attempts", Number(9.0)),
            ("retry.budget.kind", Text(kind)),
            ("retry.backoff.base", Number(0.0)),
        ];
        pairs.extend(match kind {
            "earned" => vec![("retry.budget.start", Number(1.0))],
            "window" => vec![("retry.budget.min_retries_per_sec", Number(0.0))],
            "ratio" => vec![("retry.budget.ratio", Number(0.1))],
            "share" => vec![("retry.budget.min_retries", Number(0.0)), ("retry.budget.share", Number(0.0))],
            "tokens" => vec![("retry.budget.max", Number(2.0)), ("retry.budget.ratio", Number(0.1))],
            _ => vec![("retry.budget.capacity", Number(5.0))],
        });
        let mut clients = Clients::new(&[], 1, 7);
        let mut engine = Engine::new(7, Options::default().journal(true));
        let policy = engine.policy(Policy::from_pairs("p", &pairs).unwrap()).unwrap();
        clients.routes = vec![engine.route(policy, "r", Time::from_micros(0))];
        clients.engine = engine;
        clients.engine.lift_budgets(true);
        assert_eq!(clients.call(0, 0, |_| Class::Transient), Verdict::Attempts, "{kind}");
        assert_eq!(clients.attempts, 9, "{kind}");
        clients.engine.lift_budgets(false);
        assert_eq!(clients.call(0, 0, |_| Class::Transient), Verdict::Budget, "{kind}");
        // The start has been left to it: lifted retries cost nothing.
        let left = u64::from(matches!(kind, "earned" | "quota"));
        assert_eq!(clients.attempts, 9 + 1 + left, "{kind}");
        // A journal has the switch.
        let lines: Vec<_> = clients.engine.journal().map(ToString::to_string).collect();
        assert!(lines.contains(&"lift_budgets 1".to_owned()), "{lines:?}");
        let mut again = Engine::new(7, Options::default().journal(true));
        again.replay(lines.iter().map(|line| line.parse().unwrap()));
        assert_eq!(again.save(Time::from_micros(9)), clients.engine.save(Time::from_micros(9)), "{kind}");
    }
}
