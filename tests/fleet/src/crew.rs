//! A crew: worker programs of any language, started together, and the lines that they print at their ends.

use serde_json::Value as Json;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The settings that all workers get.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Tokens per second of the whole fleet.
    pub rate: u32,
    /// Burst of the fleet's rate limit.
    pub burst: u32,
    /// Tokens that a worker leases at a time; with 1 it asks the store for each call.
    pub lease: u32,
    /// Calls per second of each worker.
    pub load: u32,
    /// Duration in seconds.
    pub seconds: u32,
    /// Whether there is a breaker, too.
    pub breaker: bool,
    /// The moment at which the first worker's upstream fails, in milliseconds.
    pub failing: Option<u32>,
}

/// Running workers.
#[derive(Debug)]
pub struct Crew {
    children: Vec<Child>,
    /// The moment at which all workers begin.
    pub zero: Instant,
    work: Work,
}

impl Crew {
    /// Starts the workers. They begin together after `setup`, which has to be long enough for the slowest to be ready.
    pub fn start(commands: &[Vec<String>], redis: SocketAddr, work: Work, setup: Duration) -> Self {
        let zero = Instant::now() + setup;
        let start = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970") + setup;
        let child = |(place, words): (usize, &Vec<String>)| {
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).args([
                "--redis",
                &redis.to_string(),
                "--start",
                &start.as_millis().to_string(),
            ]);
            for (name, value) in [
                ("--seconds", work.seconds),
                ("--load", work.load),
                ("--rate", work.rate),
                ("--burst", work.burst),
                ("--lease", work.lease),
                ("--breaker", u32::from(work.breaker)),
            ] {
                command.args([name, &value.to_string()]);
            }
            if let Some(at) = work.failing.filter(|_| place == 0) {
                command.args(["--failing", &at.to_string()]);
            }
            let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
            child.unwrap_or_else(|error| panic!("{}: {error}", words[0]))
        };
        Self { children: commands.iter().enumerate().map(child).collect(), zero, work }
    }

    /// Sleeps until this long after the beginning.
    pub fn until(&self, moment: Duration) {
        sleep((self.zero + moment).saturating_duration_since(Instant::now()));
    }

    /// Waits for all workers, and returns the line of each.
    pub fn join(mut self) -> Vec<Json> {
        let limit = Duration::from_secs(u64::from(self.work.seconds) + 20);
        let until = self.zero + limit;
        while self.children.iter_mut().any(|child| matches!(child.try_wait(), Ok(None))) {
            assert!(Instant::now() < until, "a worker has not ended {limit:?} after it began");
            sleep(Duration::from_millis(20));
        }
        let children = std::mem::take(&mut self.children);
        children.into_iter().map(|child| line(&child.wait_with_output().expect("its output"))).collect()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for child in &mut self.children {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

fn line(output: &std::process::Output) -> Json {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "a worker failed: {}", output.status);
    serde_json::from_str(text.lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The numbers of a list in a worker's line.
pub fn numbers(line: &Json, name: &str) -> Vec<u64> {
    line[name].as_array().map(|list| list.iter().filter_map(Json::as_u64).collect()).unwrap_or_default()
}

/// Attempts of all workers in each 50 ms.
pub fn starts(lines: &[Json]) -> Vec<u64> {
    let all: Vec<Vec<u64>> = lines.iter().map(|line| numbers(line, "starts")).collect();
    let length = all.iter().map(Vec::len).max().unwrap_or(0);
    (0..length).map(|at| all.iter().map(|list| list.get(at).copied().unwrap_or(0)).sum()).collect()
}

/// Changes of a worker's breaker: moment in microseconds, state (0 closed, 1 open, 2 half-open).
pub fn breaker(line: &Json) -> Vec<(u64, u64)> {
    let pair = |it: &Json| Some((it[0].as_u64()?, it[1].as_u64()?));
    line["breaker"].as_array().map(|list| list.iter().filter_map(pair).collect()).unwrap_or_default()
}
