//! Engines on a real server that forbids scripts: rates in windows, and breaks as keys that expire.

use std::thread;
use std::time::{Duration as Span, Instant};

use tidegate::Value::{Number, Text};
use tidegate::fleet::{Reply, StoreKind};
use tidegate::{
    Action, Class, Engine, Event, Options, Outcome, Policy, Request, RouteId, Time, Value, Verdict,
};
use tidegate_fleet_tests::{Connection, Server, documented};

/// A process that carries out each command at once.
struct Process {
    engine: Engine,
    route: RouteId,
    connection: Connection,
    born: Instant,
    commands: Vec<String>,
}

impl Process {
    fn new(server: &Server, seed: u64, pairs: &[(&'static str, Value<'static>)]) -> Self {
        let mut engine = Engine::new(seed, Options::default());
        let now = Time::from_micros(0);
        let _ = engine.attach_store(StoreKind::Plain, "shop", seed, now);
        let policy = engine.policy(Policy::from_pairs("api", pairs).unwrap()).unwrap();
        let route = engine.route(policy, "eu", now);
        // Authenticates as a user that may call only the commands listed in docs/fleet.md.
        let allowed: Vec<String> =
            documented("without scripts").iter().map(|name| format!("+{name}")).collect();
        let mut connection = server.connect();
        if server.version() >= (7, 0) {
            connection.ok(&format!("ACL SETUSER app reset on >secret ~shop:* {}", allowed.join(" ")));
            connection.ok("AUTH app secret");
        }
        Self { engine, route, connection, born: Instant::now(), commands: Vec::new() }
    }

    fn now(&self) -> Time {
        Time::from_micros(u64::try_from(self.born.elapsed().as_micros()).unwrap())
    }

    fn drain(&mut self) {
        let mut commands = Vec::new();
        while {
            self.engine.take_commands(&mut commands);
            !commands.is_empty()
        } {
            let command = commands.remove(0);
            self.commands.push(String::from_utf8_lossy(&command.words[0]).into_owned());
            assert!(command.words[usize::from(command.key)].starts_with(b"shop:{r|api|eu}:"));
            let answer = self.connection.run(&command.words).unwrap().into_reply();
            let reply = match &answer {
                Ok(bytes) => Reply::Bytes(bytes),
                Err(text) => Reply::Error(text.as_bytes()),
            };
            assert!(answer.is_ok(), "{answer:?}");
            let now = self.now();
            let _ = self.engine.on_reply(command.id, reply, now);
            self.engine.take_wakes(&mut Vec::new());
        }
    }

    /// Makes one call, which ends with `class` if it is admitted.
    fn call(&mut self, class: Class) -> Verdict {
        let now = self.now();
        let (call, mut step) = self.engine.begin(self.route, &Request::default(), now);
        loop {
            self.drain();
            let now = self.now();
            step = match step.action() {
                Action::Attempt { attempt, .. } => {
                    let outcome = Outcome::of(class);
                    self.engine.on(call, Event::Finished { attempt, outcome }, now)
                }
                Action::Wait { .. } => self.engine.on(call, Event::Poll, now),
                Action::Done { verdict, .. } => return verdict,
            };
        }
    }
}

fn without_scripts() -> Server {
    Server::start(&["--rename-command", "EVAL", "", "--rename-command", "EVALSHA", ""])
}

#[test]
fn two_processes_share_a_rate_that_is_kept_by_windows() {
    let server = without_scripts();
    let pairs = [
        ("rate_limit.permits", Number(100.0)),
        ("rate_limit.per", Number(1e6)),
        ("rate_limit.burst", Number(30.0)),
        ("rate_limit.lease", Number(1.0)),
        ("rate_limit.store", Text("fleet")),
        // Longer than its default, so that a busy machine does not count as a fault.
        ("store_timeout", Number(2e6)),
    ];
    let mut both = [1, 2].map(|seed| Process::new(&server, seed, &pairs));
    let (begun, mut ok, mut refused) = (Instant::now(), [0, 0], 0);
    while begun.elapsed() < Span::from_millis(1_200) {
        for (process, ok) in both.iter_mut().zip(&mut ok) {
            match process.call(Class::Ok) {
                Verdict::Ok => *ok += 1,
                Verdict::RateLimited => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        thread::sleep(Span::from_millis(1));
    }
    // A window is 300 ms, so the elapsed time touches at most this many.
    let windows = begun.elapsed().as_millis() / 300 + 2;
    let all = ok[0] + ok[1];
    assert!((90..=30 * windows).contains(&all), "{ok:?} in {windows} windows, {refused} refused");
    assert!(ok[0].abs_diff(ok[1]) < all / 3 && refused > 50, "{ok:?}, {refused} refused");
    assert!(both.iter().all(|it| it.commands.iter().all(|word| !word.starts_with("EVAL"))));
    let mut connection = server.connect();
    assert_ne!(connection.ok("PTTL shop:{r|api|eu}:rw").text(), "-1", "it ends");
    thread::sleep(Span::from_millis(330));
    assert_eq!(connection.ok("DBSIZE").text(), "0", "nothing is left");
}

#[test]
fn a_break_is_everybodys_until_a_probe_closes_it() {
    let server = without_scripts();
    let pairs = [
        ("breaker.consecutive", Number(3.0)),
        ("breaker.break_duration", Number(400e3)),
        ("breaker.break_factor", Number(1.0)),
        ("breaker.store", Text("fleet")),
        ("store_exchange", Number(20e3)),
        ("retry.max_attempts", Number(1.0)),
    ];
    let [mut one, mut other] = [1, 2].map(|seed| Process::new(&server, seed, &pairs));
    assert_eq!(other.call(Class::Ok), Verdict::Ok);
    for _ in 0..3 {
        assert_ne!(one.call(Class::Transient), Verdict::BreakerOpen);
    }
    let opened = Instant::now();
    assert_eq!(one.call(Class::Ok), Verdict::BreakerOpen);
    thread::sleep(Span::from_millis(25));
    // This call only starts the query; the next call uses its reply.
    other.call(Class::Ok);
    assert_eq!(other.call(Class::Ok), Verdict::BreakerOpen, "it has seen no failure itself");
    let mut connection = server.connect();
    let left: i64 = connection.ok("PTTL shop:{r|api|eu}:bm").text().parse().unwrap();
    assert!((60_000..=60_401).contains(&left), "{left}");
    // The break ends for both; the first successful probe deletes the key, and the other process follows.
    while other.call(Class::Ok) == Verdict::BreakerOpen {
        assert!(opened.elapsed() < Span::from_secs(5), "open for ever");
        thread::sleep(Span::from_millis(10));
    }
    assert!(opened.elapsed() >= Span::from_millis(380), "{:?}", opened.elapsed());
    while connection.ok("DBSIZE").text() != "0" {
        assert!(opened.elapsed() < Span::from_secs(5), "never closed");
        other.call(Class::Ok);
        thread::sleep(Span::from_millis(10));
    }
    while one.call(Class::Ok) != Verdict::Ok {
        assert!(opened.elapsed() < Span::from_secs(5), "one is left behind");
        thread::sleep(Span::from_millis(10));
    }
    for word in ["SET", "PTTL", "GET", "DEL"] {
        assert!(one.commands.iter().chain(&other.commands).any(|it| it == word), "{word} was never sent");
    }
}
