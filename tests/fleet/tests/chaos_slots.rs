//! A fleet's bulkhead on a real Redis that is killed, paused, or unreachable: how many calls run meanwhile, and that no
//! slot stays allocated without a holder.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tidegate::{Class, RecordType, Value, Verdict};
use tidegate_fleet_tests::{Process, Proxy, Server, Way, Word};
use tokio::task::JoinSet;
use tokio::time::sleep;

const LIMIT: u32 = 8;
const PROCESSES: u32 = 4;
/// Calls per second of each process, and the duration of a call: together twice what the slots allow.
const LOAD: u32 = 100;
const TAKES: Duration = Duration::from_millis(40);
const SECOND: u64 = 1_000_000;
const TIMEOUT: Duration = Duration::from_millis(200);
/// Long enough that calls in a queue rarely time out on a busy machine.
const PATIENCE: Duration = Duration::from_millis(300);
/// Time that a machine four times slower adds. A wait without bound would be far longer.
const SLACK: Duration = Duration::from_millis(900);
const LEASE: u64 = SECOND;

/// Beginning and end of the fault. By `WELL` the last process has found the store (a probe at most 3 s after the fault)
/// and leases without a holder have ended. The load ends at `END`.
const FAULT: u64 = SECOND;
const HEALED: u64 = 2 * SECOND + 200_000;
const WELL: u64 = HEALED + 3_200_000 + LEASE;
const END: u64 = WELL + SECOND + 500_000;

fn pairs() -> Vec<(&'static str, Value<'static>)> {
    let number = |number: f64| Value::Number(number);
    vec![
        ("bulkhead.max_concurrency", number(f64::from(LIMIT))),
        ("bulkhead.max_queue", number(20.0)),
        ("bulkhead.acquire_timeout", number(PATIENCE.as_micros() as f64)),
        ("bulkhead.lease_ttl", number(LEASE as f64)),
        ("bulkhead.store", Value::Text("fleet")),
        ("store_timeout", number(TIMEOUT.as_micros() as f64)),
    ]
}

struct World {
    server: Server,
    proxy: Proxy,
    fleet: Vec<Process>,
    zero: Instant,
}

impl World {
    async fn new() -> Self {
        let server = Server::start(&[]);
        let proxy = Proxy::start(server.address()).await;
        let zero = Instant::now();
        let process = |n: u32| Process::new(u64::from(n) + 1, &pairs(), proxy.address(), zero);
        let fleet = (0..PROCESSES).map(process).collect();
        Self { server, proxy, fleet, zero }
    }

    /// Runs the load to its end, and checks that every call ends.
    fn load(&self) -> JoinSet<()> {
        let run = |process: &Process| {
            let process = process.clone();
            async move {
                let mut calls = JoinSet::new();
                let gap = SECOND / u64::from(LOAD);
                let mut next = process.now();
                while next < END {
                    sleep(Duration::from_micros(next.saturating_sub(process.now()))).await;
                    let it = process.clone();
                    calls.spawn(async move { it.call(Class::Ok, TAKES).await });
                    while calls.try_join_next().is_some() {}
                    next += gap;
                }
                let all = async { while calls.join_next().await.is_some() {} };
                tokio::time::timeout(Duration::from_secs(5), all).await.expect("every call ends (R1)");
            }
        };
        self.fleet.iter().map(run).collect()
    }

    async fn until(&self, moment: u64) {
        sleep(Duration::from_micros(moment).saturating_sub(self.zero.elapsed())).await;
    }

    /// The most attempts that ran at once within these moments in the whole fleet, counting each attempt for its
    /// minimum duration.
    fn peak(&self, from: u64, to: u64) -> i64 {
        let takes = u64::try_from(TAKES.as_micros()).unwrap();
        let starts = self.fleet.iter().flat_map(|process| process.seen(|seen| seen.starts.clone()));
        let within = starts.filter(|start| (from..to - takes).contains(start));
        let mut turns: Vec<(u64, i64)> = within.flat_map(|start| [(start, 1), (start + takes, -1)]).collect();
        turns.sort_unstable();
        turns
            .iter()
            .scan(0, |running, (_, turn)| {
                Some({
                    *running += turn;
                    *running
                })
            })
            .max()
            .unwrap_or(0)
    }

    async fn check(&self) {
        let known = [Verdict::Ok, Verdict::QueueFull, Verdict::AcquireTimeout];
        for process in &self.fleet {
            let (begun, ended, fine) = process.seen(|seen| {
                let fine: u64 = known.iter().filter_map(|verdict| seen.ends.get(verdict)).sum();
                (seen.begun, seen.ends.values().sum::<u64>(), fine)
            });
            assert_eq!((begun, ended), (ended, fine), "every call ends, once, as it should");
            let (down, up) = process
                .seen(|seen| (seen.told(RecordType::StoreDegraded), seen.told(RecordType::StoreRecovered)));
            assert!(!down.is_empty() && down.len() == up.len(), "down {down:?}, up {up:?}");
            assert!(up.iter().all(|up| *up < HEALED + 3_200_000), "back at {up:?}");
            let (longest, at) = process.seen(|seen| seen.waits.iter().map(|it| (it.1, it.0)).max()).unwrap();
            assert!(longest < PATIENCE + SLACK, "a call that began at {at} has waited for {longest:?}");
        }
        let (before, gone) = (self.peak(0, FAULT), self.peak(FAULT, HEALED));
        let (back, after) = (self.peak(HEALED, WELL), self.peak(WELL, END));
        println!(
            "{before} at once; {gone} without the store, {back} while it is found again, {after} when all is well"
        );
        let (limit, processes) = (i64::from(LIMIT), i64::from(PROCESSES));
        assert!((limit - 1..=limit).contains(&before), "{before} at once of {limit}");
        // Slots that were held when the store was lost, and one for each process that held none.
        assert!((1..=limit + processes).contains(&gone), "{gone} at once without the store");
        // Processes that have found the store may use all slots, while the others keep using those that they held.
        assert!((1..=2 * limit + processes).contains(&back), "{back} at once while the store is found again");
        assert!((limit - 1..=limit).contains(&after), "{after} at once of {limit}, when all is well");
        // Holders release their slots. A slot that was granted in a lost reply becomes free when its lease ends.
        sleep(Duration::from_micros(LEASE + 200_000)).await;
        let mut connection = self.server.connect();
        let now: f64 = match connection.ok("TIME") {
            Word::List(parts) => parts[0].text().parse::<f64>().unwrap() * 1e6,
            other => panic!("{other:?}"),
        };
        let out = connection.ok(&format!("ZCOUNT tidegate:{{r|api|eu}}:bh {now:.0} +inf")).text();
        assert_eq!(out, "0", "a slot that nobody uses");
    }
}

/// The tests run one at a time, because they measure waits.
static ALONE: Mutex<()> = Mutex::new(());

fn fleet_test<F: Future<Output = ()>>(story: F) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), story).await.expect("within a minute");
    });
}

/// The store comes back empty: processes that hold slots keep them until they renew.
#[test]
fn killed_and_started_again_empty() {
    fleet_test(async {
        let mut world = World::new().await;
        let load = world.load();
        world.until(FAULT).await;
        world.server.kill();
        world.until(HEALED).await;
        world.server.start_again();
        load.join_all().await;
        world.check().await;
    });
}

/// Each process keeps using the slots that it held; one that held none may use one.
#[test]
fn paused_and_resumed() {
    fleet_test(async {
        let world = World::new().await;
        let load = world.load();
        world.until(FAULT).await;
        world.server.pause();
        world.until(HEALED).await;
        world.server.resume();
        load.join_all().await;
        world.check().await;
    });
}

/// Slots are granted but the replies are lost: the slots become free when their leases end.
#[test]
fn commands_are_carried_out_and_their_answers_lost() {
    fleet_test(async {
        let world = World::new().await;
        let load = world.load();
        world.until(FAULT).await;
        world.proxy.set(Way::NoAnswers);
        world.until(HEALED).await;
        world.proxy.set(Way::Clear);
        load.join_all().await;
        world.check().await;
    });
}
