//! Engines on a real Redis that is lost, paused, slow, full, demoted or replaced: invariants that hold meanwhile, and
//! recovery.
//!
//! Every test also checks that each call ends, that waits stay within `store_timeout`, that each transition writes one
//! record, and that the rate is normal again at the end. Noticed: every process notices within 600 ms, and from then on
//! the p99 of waits is below 5 ms. Share: on local shares the fleet makes about its rate, and at most a burst more.
//! Loss: how many bursts and sets of outstanding leases may be granted again (10.6).
//!
//! | Fault | noticed | share | loss | charged once | keys end |
//! |---|---|---|---|---|---|
//! | killed, back empty | yes | yes | 2 | yes | yes |
//! | paused | yes | yes | 1 | yes | yes |
//! | slow, answers lost, silent, refused, garbage | yes | yes | 1 | yes | yes |
//! | a partition (`partition.rs`: either way, and the cable) | yes | yes | 1 | yes | yes |
//! | slow within the timeout | no loss | | 0 | yes | yes |
//! | FLUSHALL, SCRIPT FLUSH | no loss | | 3 for three | yes | yes |
//! | OOM | yes | yes | 1 | yes | yes |
//! | wrong types, after a FLUSHALL | yes | yes | 2 | yes | yes |
//! | READONLY, with a resync | yes | yes | 2 | yes | yes |
//! | failover | yes | yes | 2 | yes | yes |
//!
//! `whole.rs` and the vectors check that a script is atomic; `chaos_slots.rs` checks slots.

use std::time::{Duration, Instant};

use tidegate::{Class, RecordType, Value, Verdict};
use tidegate_fleet_tests::{Process, Proxy, Server, Way};
use tokio::task::JoinSet;
use tokio::time::sleep;

const RATE: u32 = 200;
const BURST: u32 = 40;
const LEASE: u32 = 10;
const PROCESSES: u32 = 4;
/// Calls per second of each process: twice the fleet's rate in total.
const LOAD: u32 = 100;
const SECOND: u64 = 1_000_000;
/// `store_timeout`. Longer than its default, so that a busy machine does not count as a fault.
const TIMEOUT: Duration = Duration::from_millis(200);

fn pairs(on_loss: &'static str) -> Vec<(&'static str, Value<'static>)> {
    vec![
        ("rate_limit.permits", Value::Number(f64::from(RATE))),
        ("rate_limit.per", Value::Number(1e6)),
        ("rate_limit.burst", Value::Number(f64::from(BURST))),
        ("rate_limit.lease", Value::Number(f64::from(LEASE))),
        ("rate_limit.store", Value::Text("fleet")),
        ("rate_limit.on_loss", Value::Text(on_loss)),
        ("store_timeout", Value::Number(TIMEOUT.as_micros() as f64)),
    ]
}

/// A fleet under load, and a fault from `FAULT` on.
struct World {
    server: Server,
    proxy: Proxy,
    fleet: Vec<Process>,
    zero: Instant,
}

/// Beginning and end of the fault; the load ends at `END`.
const FAULT: u64 = SECOND;
const HEALED: u64 = 2 * SECOND + 200_000;
const END: u64 = 6 * SECOND;

impl World {
    async fn new(on_loss: &'static str) -> Self {
        Self::on(Server::start(&[]), on_loss).await
    }

    async fn on(server: Server, on_loss: &'static str) -> Self {
        let proxy = Proxy::start(server.address()).await;
        let zero = Instant::now();
        let process = |n: u32| Process::new(u64::from(n) + 1, &pairs(on_loss), proxy.address(), zero);
        let fleet = (0..PROCESSES).map(process).collect();
        Self { server, proxy, fleet, zero }
    }

    /// Starts the load, from now to the end.
    fn load(&self) -> JoinSet<()> {
        let run = |process: &Process| {
            let process = process.clone();
            async move { process.load(LOAD, END, |_| Class::Ok).await }
        };
        self.fleet.iter().map(run).collect()
    }

    async fn until(&self, moment: u64) {
        sleep(Duration::from_micros(moment).saturating_sub(self.zero.elapsed())).await;
    }

    fn total(&self, count: impl Fn(&tidegate_fleet_tests::Seen) -> u64) -> u64 {
        self.fleet.iter().map(|process| process.seen(&count)).sum()
    }

    /// Attempts of the whole fleet within these moments.
    fn started(&self, from: u64, to: u64) -> u64 {
        self.total(|seen| seen.starts.iter().filter(|at| (from..to).contains(at)).count() as u64)
    }

    fn ended(&self, verdict: Verdict) -> u64 {
        self.total(|seen| seen.ends.get(&verdict).copied().unwrap_or(0))
    }

    /// Checks the invariants that hold after every test, whatever the fault was. `events` counts losses of data or of
    /// the store.
    fn check(&self, events: u64, faulty: (u64, u64)) {
        let (begun, ended) = (self.total(|seen| seen.begun), self.total(|seen| seen.ends.values().sum()));
        assert_eq!(begun, ended, "every call ends, once (R1)");
        let known = [Verdict::Ok, Verdict::RateLimited, Verdict::StoreUnavailable];
        assert_eq!(known.map(|verdict| self.ended(verdict)).iter().sum::<u64>(), ended, "nothing else");

        // 10.6: beyond the declared rate, one burst at first, and for each event one burst and the outstanding leases.
        let (rate, burst) = (u64::from(RATE), u64::from(BURST));
        let leases = u64::from(PROCESSES * LEASE);
        // A process that has not yet noticed that the store is back uses its local share, while the others use the
        // whole rate.
        let late: u64 = self.fleet.iter().map(|process| late(process, faulty.1)).sum();
        let mixed = late * rate / u64::from(PROCESSES) / SECOND;
        let most = rate * END / SECOND + burst + events * (burst + leases) + mixed;
        println!(
            "{} attempts, of {most} at most; {mixed} by shares after it was back",
            self.started(0, u64::MAX)
        );
        let all = self.started(0, u64::MAX);
        assert!(all <= most, "{all} attempts, of {most} at most after {events} events");

        for process in &self.fleet {
            let (down, up) = process
                .seen(|seen| (seen.told(RecordType::StoreDegraded), seen.told(RecordType::StoreRecovered)));
            assert_eq!(down.len(), up.len(), "it has come back by itself: down {down:?}, up {up:?}");
            assert!(down.iter().zip(&up).all(|(down, up)| down < up), "one record a transition");
            assert!(down.iter().skip(1).zip(&up).all(|(down, up)| down > up), "one record a transition");
            assert!(up.iter().all(|up| *up < faulty.1 + 3_200_000), "back at {up:?}, healed at {}", faulty.1);
            let longest = process.seen(|seen| seen.waits.iter().map(|it| it.1).max());
            assert!(longest < Some(TIMEOUT + SLACK), "a call has waited for {longest:?}");
        }
        // The rate is normal again once the store is back.
        let (from, to) = (END - SECOND, END);
        let after = self.started(from, to);
        assert!((rate * 8 / 10..=rate * 12 / 10).contains(&after), "{after} in the last second, of {rate}");
    }

    /// Checks that every process noticed the loss within the timeout, and that calls were decided at once from then on.
    fn check_noticed(&self, (from, to): (u64, u64)) {
        for process in &self.fleet {
            let down = process.seen(|seen| seen.told(RecordType::StoreDegraded));
            let first = *down.first().unwrap_or_else(|| panic!("a process has not noticed"));
            // A lease and the pending command may delay it.
            assert!((from..from + 600_000).contains(&first), "noticed at {first}");
            let waits = process.seen(|seen| seen.waits_within(first, to));
            let p99 = waits[waits.len() * 99 / 100];
            println!("noticed after {} ms; p99 of the waits {p99:?}", (first - from) / 1_000);
            assert!(
                p99 < TIMEOUT / 4, // calls do not wait for the store
                "p99 of the added latency is {p99:?} among {}",
                waits.len()
            );
        }
    }

    /// Checks that under `local` the fleet makes about its rate, and never more.
    fn check_local_share(&self, (from, to): (u64, u64)) {
        let (from, rate) = (from + 600_000, u64::from(RATE));
        let (found, due) = (self.started(from, to), rate * (to - from) / SECOND);
        println!("{found} attempts on the local shares, of {due}");
        assert!((due / 2..=due + u64::from(BURST)).contains(&found), "{found} attempts, of {due}");
    }

    /// Checks that no command was carried out twice: the servers have run no more commands than were given to the
    /// clients. `before` is the count of a server that has been killed since.
    fn check_charged_once(&self, server: &Server, before: u64) {
        let run = server.scripts_run() + before;
        let given = self.total(|seen| seen.commands);
        println!("{given} commands given to the clients, {run} carried out");
        assert!(run > 0 && run <= given, "{run} were carried out, {given} given");
    }
}

/// For how long after the store was back a process still used its local share, in microseconds.
fn late(process: &Process, healed: u64) -> u64 {
    let up = process.seen(|seen| seen.told(RecordType::StoreRecovered));
    up.last().map_or(0, |up| up.saturating_sub(healed))
}

/// Time that a busy machine may add to a wait.
const SLACK: Duration = Duration::from_millis(800);
const FAULTY: (u64, u64) = (FAULT, HEALED);

fn fleet_test<F: Future<Output = ()>>(story: F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), story).await.expect("within a minute");
    });
}

#[test]
fn without_a_fault_the_rate_is_kept_and_few_calls_touch_the_store() {
    fleet_test(async {
        let world = World::new("local").await;
        world.load().join_all().await;
        world.check(0, FAULTY);
        world.check_charged_once(&world.server, 0);
        assert_eq!(world.server.keys_without_end(), [""; 0]);
        assert_eq!(world.total(|seen| seen.told(RecordType::StoreDegraded).len() as u64), 0);
    });
}

#[test]
fn killed_and_started_again_empty() {
    fleet_test(async {
        let mut world = World::new("local").await;
        let load = world.load();
        world.until(FAULT).await;
        let before = world.server.scripts_run();
        world.server.kill();
        world.until(HEALED).await;
        world.server.start_again();
        load.join_all().await;
        world.check_noticed(FAULTY);
        world.check_local_share(FAULTY);
        world.check(2, FAULTY);
        world.check_charged_once(&world.server, before);
        assert_eq!(world.server.keys_without_end(), [""; 0]);
    });
}

#[test]
fn paused_and_resumed() {
    fleet_test(async {
        let world = World::new("local").await;
        let load = world.load();
        world.until(FAULT).await;
        world.server.pause();
        world.until(HEALED).await;
        world.server.resume();
        load.join_all().await;
        world.check_noticed(FAULTY);
        world.check_local_share(FAULTY);
        world.check(1, FAULTY);
        world.check_charged_once(&world.server, 0);
        assert_eq!(world.server.keys_without_end(), [""; 0]);
    });
}

/// One state of the proxy for a while: slow beyond the timeout, without replies, silent, closed, garbage.
fn bad_way(way: Way) {
    fleet_test(async move {
        let world = World::new("local").await;
        let load = world.load();
        world.until(FAULT).await;
        world.proxy.set(way);
        world.until(HEALED).await;
        world.proxy.set(Way::Clear);
        load.join_all().await;
        world.check_noticed(FAULTY);
        world.check_local_share(FAULTY);
        world.check(1, FAULTY);
        world.check_charged_once(&world.server, 0);
        assert_eq!(world.server.keys_without_end(), [""; 0]);
    });
}

#[test]
fn slower_than_the_timeout() {
    bad_way(Way::Slow(TIMEOUT + TIMEOUT / 2));
}

#[test]
fn commands_are_carried_out_and_their_answers_lost() {
    bad_way(Way::NoAnswers);
}

#[test]
fn a_partition_that_says_nothing() {
    bad_way(Way::Silent);
}

#[test]
fn connections_are_refused() {
    bad_way(Way::Closed);
}

#[test]
fn answers_that_are_garbage() {
    bad_way(Way::Garbage);
}

/// Slower, but within the timeout: the store does not count as lost, and calls wait no longer than the delay.
#[test]
fn slow_but_within_the_timeout() {
    fleet_test(async {
        let world = World::new("local").await;
        let load = world.load();
        world.until(FAULT).await;
        world.proxy.set(Way::Slow(Duration::from_millis(10)));
        world.until(HEALED).await;
        world.proxy.set(Way::Clear);
        load.join_all().await;
        world.check(0, FAULTY);
        world.check_charged_once(&world.server, 0);
        assert_eq!(world.server.keys_without_end(), [""; 0]);
    });
}

/// Data and scripts are lost repeatedly: each time at most one more burst is granted, and no call fails.
#[test]
fn data_and_scripts_are_lost() {
    fleet_test(async {
        let world = World::new("local").await;
        let load = world.load();
        for event in 0..5 {
            world.until(FAULT + event * 400_000).await;
            let mut connection = world.server.connect();
            connection.ok(if event % 2 == 0 { "FLUSHALL" } else { "SCRIPT FLUSH" });
        }
        load.join_all().await;
        world.check(3, FAULTY);
        world.check_charged_once(&world.server, 0);
        assert_eq!(world.server.keys_without_end(), [""; 0]);
        assert_eq!(
            world.total(|seen| seen.told(RecordType::StoreDegraded).len() as u64),
            0,
            "NOSCRIPT is no loss"
        );
    });
}

/// Commands get an error reply other than NOSCRIPT. `begin` and `end` are the commands that cause and end it.
fn bad_answers(begin: &'static [&'static str], end: &'static [&'static str], events: u64) {
    fleet_test(async move {
        let world = World::new("local").await;
        let load = world.load();
        world.until(FAULT).await;
        let mut connection = world.server.connect();
        for command in begin {
            connection.ok(command);
        }
        world.until(HEALED).await;
        for command in end {
            connection.ok(command);
        }
        load.join_all().await;
        world.check_noticed(FAULTY);
        world.check_local_share(FAULTY);
        world.check(events, FAULTY);
        world.check_charged_once(&world.server, 0);
        assert_eq!(world.server.keys_without_end(), [""; 0]);
    });
}

#[test]
fn a_full_store() {
    bad_answers(
        &["CONFIG SET maxmemory-policy noeviction", "CONFIG SET maxmemory 1"],
        &["CONFIG SET maxmemory 0"],
        1,
    );
}

#[test]
fn other_types_under_our_keys() {
    // In one transaction, because a process would write its own key between the two commands.
    let begin = &["MULTI", "FLUSHALL", "RPUSH tidegate:{r|api|eu}:rl mine", "EXEC"];
    bad_answers(begin, &["DEL tidegate:{r|api|eu}:rl"], 2);
}

#[test]
fn a_replica_that_takes_no_writes() {
    fleet_test(async {
        let other = Server::start(&[]);
        let world = World::new("local").await;
        let load = world.load();
        world.until(FAULT).await;
        let mut connection = world.server.connect();
        connection.ok(&format!("REPLICAOF 127.0.0.1 {}", other.address().port()));
        world.until(HEALED).await;
        connection.ok("REPLICAOF NO ONE");
        load.join_all().await;
        world.check_noticed(FAULTY);
        world.check_local_share(FAULTY);
        // The server has replicated the other one's empty data, which makes two events.
        world.check(2, FAULTY);
        world.check_charged_once(&world.server, 0);
        assert_eq!(world.server.keys_without_end(), [""; 0]);
    });
}

/// The primary dies, and a replica that lags behind is promoted.
#[test]
fn a_failover_to_a_replica() {
    fleet_test(async {
        let (primary, replica) = (Server::start(&["--repl-diskless-sync-delay", "0"]), Server::start(&[]));
        let mut connection = replica.connect();
        connection.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.address().port()));
        let until = Instant::now() + Duration::from_secs(20);
        while !connection.ok("INFO replication").text().contains("master_link_status:up") {
            assert!(Instant::now() < until, "a replica that does not follow");
            sleep(Duration::from_millis(20)).await;
        }
        let mut world = World::on(primary, "local").await;
        let load = world.load();
        world.until(FAULT).await;
        let before = world.server.scripts_run();
        world.server.kill();
        world.until(HEALED).await;
        connection.ok("REPLICAOF NO ONE");
        world.proxy.lead_to(replica.address()).await;
        load.join_all().await;
        world.check_noticed(FAULTY);
        world.check_local_share(FAULTY);
        world.check(2, FAULTY);
        world.check_charged_once(&replica, before);
        assert_eq!(replica.keys_without_end(), [""; 0]);
    });
}

#[test]
fn on_loss_closed_refuses_and_open_lets_all_pass() {
    for on_loss in ["closed", "open"] {
        fleet_test(async move {
            let world = World::new(on_loss).await;
            let load = world.load();
            world.until(FAULT).await;
            world.proxy.set(Way::Silent);
            world.until(HEALED).await;
            world.proxy.set(Way::Clear);
            load.join_all().await;
            world.check_noticed(FAULTY);
            let offered = u64::from(PROCESSES * LOAD) * (HEALED - FAULT - 600_000) / SECOND;
            let passed = world.started(FAULT + 600_000, HEALED);
            if on_loss == "closed" {
                world.check(0, FAULTY);
                assert_eq!(passed, 0, "nothing passes");
                assert!(world.ended(Verdict::StoreUnavailable) > offered * 8 / 10);
            } else {
                assert!(passed > offered * 8 / 10, "{passed} of {offered} pass");
                assert_eq!(world.ended(Verdict::StoreUnavailable), 0);
            }
        });
    }
}
