//! Processes that are partitioned from their store: real namespaces, real packets that do not arrive.
//!
//! `cargo xtask test` runs these if it may make network namespaces, and reports them as not run otherwise.

use serde_json::Value as Json;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tidegate_fleet_tests::Server;
use tidegate_fleet_tests::crew::{Crew, Work, numbers, starts};
use tidegate_fleet_tests::partition::{Network, Wall};

const PROCESSES: u32 = 4;
const WORK: Work =
    Work { rate: 200, burst: 40, lease: 10, load: 100, seconds: 6, breaker: false, failing: None };
/// `store_timeout`. Longer than its default, so that a busy machine does not count as a fault.
const TIMEOUT: u64 = 200_000;
/// Time that a busy machine may add to a wait.
const SLACK: u64 = 100_000;
const SECOND: u64 = 1_000_000;
/// Beginning and end of the partition, in microseconds after the start.
const FROM: u64 = SECOND;
const TO: u64 = 2_200_000;
/// The partition may go unnoticed for this long, because of a lease and the pending command.
const NOTICED: u64 = 600_000;
/// Length in microseconds of one bucket in lists of attempts.
const BUCKET: u64 = 50_000;

/// The tests run one at a time, because they measure waits.
static ALONE: Mutex<()> = Mutex::new(());

/// Observations of one test.
struct Story {
    lines: Vec<Json>,
    /// Commands that the store carried out during the partition, without those sent just before.
    carried_out: u64,
    /// The same with those: a busy machine may send all that it sends during a partition at its beginning.
    from_its_beginning: u64,
    /// All commands that the store carried out.
    all: u64,
}

fn tell(wall: Wall) -> Story {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let network = Network::lay();
    let server = Server::start_inside(network.at_store(), network.address());
    let worker = [env!("CARGO_BIN_EXE_fleet-worker"), "--store-timeout", &(TIMEOUT / 1_000).to_string()]
        .map(str::to_owned);
    let worker = [network.among_workers(), worker.to_vec()].concat();
    let setup = Duration::from_secs(2);
    let crew = Crew::start(&vec![worker; PROCESSES as usize], server.address(), WORK, setup);
    let moment = |micros| crew.until(Duration::from_micros(micros));

    moment(FROM);
    network.raise(wall);
    let raised = server.scripts_run();
    moment(FROM + 20_000);
    let before = server.scripts_run();
    moment(TO - 20_000);
    let after = server.scripts_run();
    let (carried_out, from_its_beginning) = (after - before, after - raised);
    moment(TO);
    network.lower(wall);
    let lines = crew.join();
    assert_eq!(server.keys_without_end(), [""; 0]);
    Story { lines, carried_out, from_its_beginning, all: server.scripts_run() }
}

fn number(line: &Json, name: &str) -> u64 {
    line[name].as_u64().unwrap_or_else(|| panic!("{name} in {line}"))
}

impl Story {
    fn sum(&self, name: &str) -> u64 {
        self.lines.iter().map(|line| number(line, name)).sum()
    }

    /// Attempts of the whole fleet within these moments.
    fn started(&self, from: u64, to: u64) -> u64 {
        starts(&self.lines)[(from / BUCKET) as usize..(to / BUCKET) as usize].iter().sum()
    }

    fn check(&self) {
        let (rate, burst) = (u64::from(WORK.rate), u64::from(WORK.burst));
        let (end, leases) = (u64::from(WORK.seconds) * SECOND, u64::from(PROCESSES * WORK.lease));
        assert_eq!(self.sum("begun"), self.sum("ended"), "every call ends (R1)");
        let mut late = 0;
        for line in &self.lines {
            let (down, up) = (numbers(line, "degraded"), numbers(line, "recovered"));
            let ([down], [up]) = (&down[..], &up[..]) else { panic!("gone at {down:?}, back at {up:?}") };
            assert!((FROM..FROM + NOTICED).contains(down), "noticed at {down}");
            // The first probe comes after at most 1.5 s, and if it fails another one at most 3 s later.
            assert!((TO..TO + 3_200_000).contains(up), "back at {up}");
            late += up - TO;
            let (calls, p99) = (number(line, "alone"), number(line, "alone_wait_p99_us"));
            assert!(calls > 50 && p99 < 5_000, "p99 of {calls} calls without the store: {p99} µs");
            let longest = number(line, "wait_longest_us");
            assert!(longest < TIMEOUT + SLACK, "a call has waited for {longest} µs");
            println!(
                "gone at {down}, back at {up}; p99 of {calls} calls meanwhile {p99} µs, longest wait {longest} µs"
            );
        }
        // On local shares the fleet makes about its rate, and at most a burst more.
        let (from, to) = (FROM + NOTICED, TO);
        let (found, due) = (self.started(from, to), rate * (to - from) / SECOND);
        println!("{found} attempts on the local shares, of {due}");
        assert!((due / 2..=due + burst).contains(&found), "{found} attempts on the local shares, of {due}");
        // The bound of 10.6, plus the local shares of processes that had not yet found the store again.
        let most = rate * end / SECOND + burst + burst + leases + late * rate / u64::from(PROCESSES) / SECOND;
        let all = self.started(0, end);
        println!("{all} attempts, of {most} at most");
        assert!(all <= most, "{all} attempts, of {most} at most");
        let after = self.started(end - SECOND, end);
        assert!((rate * 8 / 10..=rate * 12 / 10).contains(&after), "{after} in the last second, of {rate}");
        let given = self.sum("commands");
        println!("{given} commands given to the clients, {} carried out", self.all);
        assert!(self.all > 0 && self.all <= given, "{} were carried out, {given} given", self.all);
    }
}

#[test]
#[ignore = "needs the right to make network namespaces: cargo xtask test"]
fn nothing_arrives_at_the_store() {
    let story = tell(Wall::ToStore);
    assert_eq!(story.carried_out, 0, "the wall holds");
    story.check();
}

#[test]
#[ignore = "needs the right to make network namespaces: cargo xtask test"]
fn what_the_store_has_done_is_not_heard_of() {
    let story = tell(Wall::FromStore);
    assert!(story.from_its_beginning > 0, "one way is open");
    story.check();
}

#[test]
#[ignore = "needs the right to make network namespaces: cargo xtask test"]
fn the_cable_is_pulled() {
    let story = tell(Wall::Cable);
    assert_eq!(story.carried_out, 0, "there is no way");
    story.check();
}
