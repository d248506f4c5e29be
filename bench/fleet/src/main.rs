//! One process of the fleet's bench, in Rust: makes decisions of one contender as fast as it can.
//!
//! It takes the arguments that every worker takes, and prints the lines that `README.md` describes. One thread runs
//! everything, as in the other languages; it yields to I/O whenever it reads the clock.

use std::collections::HashMap;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs, io, process};

use redis::Client;
use redis::aio::MultiplexedConnection;
use tidegate_tokio::fleet::{RedisStore, StoreKind};
use tidegate_tokio::settings::{RateLimit, StateOf};
use tidegate_tokio::{Caller, Code, Engine, Policy};
use tokio::task::{JoinSet, spawn_blocking, yield_now};

/// Admitted decisions are reported per slice of this length.
const BIN: Duration = Duration::from_millis(100);
/// Approximate time between two readings of the clock.
const LONG: Duration = Duration::from_millis(1);
/// Time for warm-up decisions, which are not counted.
const WARM: Duration = Duration::from_millis(200);
/// The largest number of latencies that are kept.
const MOST: usize = 200_000;

const LOCAL: &str = "rust: tidegate, a local rate";
const LEASED: &str = "rust: tidegate, leased";
const STRICT: &str = "rust: tidegate, strict";
const BARE: &str = "rust: a bare INCR";

/// The contender that decides.
enum Contender {
    /// A policy of Tidegate's and its engine.
    Ours(Caller, Engine),
    /// A bare `INCR`: the lowest possible cost of asking a server.
    Bare(MultiplexedConnection),
}

impl Contender {
    async fn new(name: &str, given: &Given) -> Self {
        let client = Client::open(format!("redis://{}", given.text("redis"))).expect("an address");
        let connection = client.get_multiplexed_async_connection().await.expect("a server");
        if name == BARE {
            return Self::Bare(connection);
        }
        // The seed identifies the process in the fleet.
        let engine = Engine::new(u64::from(process::id()));
        let mut policy = Policy::builder("bench").engine(&engine);
        let mut limit = RateLimit::new(given.number("rate"), Duration::from_secs(1));
        if name != LOCAL {
            engine.attach_store(RedisStore::new(connection), StoreKind::Lua, "tidegate");
            // The peers wait without limit. Where sixteen processes share two cores, 50 ms would often be exceeded.
            limit = limit.store(StateOf::Fleet);
            policy = policy.store_timeout(Duration::from_secs(1));
        }
        if name == STRICT {
            limit = limit.lease(1);
        }
        let policy = policy.rate_limit(limit).build().unwrap_or_else(|error| panic!("{error}"));
        Self::Ours(policy.caller().route("eu"), engine)
    }

    /// Makes one decision: whether it is admitted.
    async fn decide(&self) -> bool {
        match self {
            Self::Ours(caller, _) => match caller.run(|_| ready(Ok::<_, io::Error>(()))).await {
                Ok(()) => true,
                Err(error) => {
                    let code = error.stopped().map(|stopped| stopped.code);
                    assert_eq!(code, Some(Code::RateLimited), "{error}");
                    false
                }
            },
            Self::Bare(connection) => {
                let asked: i64 = redis::cmd("INCR")
                    .arg("bench")
                    .query_async(&mut connection.clone())
                    .await
                    .expect("an answer");
                asked > 0
            }
        }
    }

    /// Decisions that were made without the store's reply. The figures of a run with any of them measure something
    /// else.
    fn lost(&self) -> u64 {
        match self {
            Self::Ours(_, engine) => {
                engine.snapshot().policies.iter().map(|(_, counts)| counts.store_fallbacks).sum()
            }
            Self::Bare(_) => 0,
        }
    }
}

/// The command line's arguments.
struct Given(HashMap<String, String>);

impl Given {
    fn text(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_else(|| panic!("--{name} is missing"))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> T {
        let text = self.text(name);
        text.parse().unwrap_or_else(|_| panic!("--{name} {text}: must be a number"))
    }

    fn span(&self, name: &str) -> Duration {
        Duration::from_secs_f64(self.number(name))
    }
}

/// Counts of all loops of the process.
struct Tally {
    start: Instant,
    seconds: Duration,
    pause: Duration,
    decisions: AtomicU64,
    admits: Vec<AtomicU64>,
}

impl Tally {
    /// Makes decisions until the time is up.
    async fn count(&self, who: &Contender) {
        let (mut now, mut length) = (self.start, 1_u32);
        while now - self.start < self.seconds {
            let mut admitted = 0;
            for _ in 0..length {
                if who.decide().await {
                    admitted += 1;
                } else if !self.pause.is_zero() {
                    tokio::time::sleep(self.pause).await;
                }
            }
            yield_now().await;
            let before = std::mem::replace(&mut now, Instant::now());
            self.decisions.fetch_add(u64::from(length), Ordering::Relaxed);
            let bin = ((now - self.start).as_micros() / BIN.as_micros()) as usize;
            self.admits[bin.min(self.admits.len() - 1)].fetch_add(admitted, Ordering::Relaxed);
            let took = now - before;
            if took < LONG / 2 {
                length = (length * 2).min(4_096);
            } else if took > LONG {
                length = (length / 2).max(1);
            }
        }
    }
}

/// Latencies of single decisions in nanoseconds, sorted.
async fn sample(who: &Contender, seconds: Duration) -> Vec<u128> {
    let mut taken = Vec::new();
    let mut now = Instant::now();
    let until = now + seconds;
    while now < until && taken.len() < MOST {
        who.decide().await;
        let before = std::mem::replace(&mut now, Instant::now());
        taken.push((now - before).as_nanos());
        if taken.len() % 100 == 0 {
            yield_now().await;
            now = Instant::now();
        }
    }
    taken.sort_unstable();
    taken
}

/// CPU time of the process's only thread, in seconds; known on Linux only.
fn cpu() -> Option<f64> {
    let told = fs::read_to_string("/proc/self/schedstat").ok()?;
    Some(told.split(' ').next()?.parse::<f64>().ok()? / 1e9)
}

/// Reads a line from the parent process without blocking the runtime.
async fn hear() -> String {
    let line = spawn_blocking(|| {
        let mut line = String::new();
        io::stdin().read_line(&mut line).map(|_| line)
    });
    line.await.expect("a thread").expect("a line")
}

/// The version of a dependency in the lock file.
fn locked(name: &str) -> &'static str {
    let mut lines = include_str!("../../../Cargo.lock").lines();
    lines.find(|line| *line == format!("name = \"{name}\""));
    lines.next().and_then(|line| line.split('"').nth(1)).unwrap_or("?")
}

fn or_null(number: Option<impl ToString>) -> String {
    number.map_or_else(|| "null".to_owned(), |number| number.to_string())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    if words == ["--list"] {
        println!(
            r#"{{"versions": {{"redis-rs": "{}"}}, "contenders": ["{LOCAL}", "{LEASED}", "{STRICT}", "{BARE}"]}}"#,
            locked("redis")
        );
        return;
    }
    let pairs = words.chunks_exact(2);
    let given =
        Given(pairs.map(|pair| (pair[0].trim_start_matches("--").to_owned(), pair[1].clone())).collect());
    let name = given.text("contender");
    assert!([LOCAL, LEASED, STRICT, BARE].contains(&name), "--contender {name}: there is none");
    let who = Arc::new(Contender::new(name, &given).await);
    sample(&who, WARM).await;
    println!("ready");
    let line = hear().await;
    let start = Duration::from_millis(line.trim().parse().expect("milliseconds"));
    let wait = (UNIX_EPOCH + start).duration_since(SystemTime::now()).expect("a start that is to come");
    tokio::time::sleep(wait).await;
    let seconds = given.span("seconds");
    let bins = (seconds.as_micros() / BIN.as_micros()) as usize + 1;
    let tally = Arc::new(Tally {
        start: Instant::now(),
        seconds,
        pause: Duration::from_micros(given.number("pause")),
        decisions: AtomicU64::default(),
        admits: (0..bins).map(|_| AtomicU64::default()).collect(),
    });
    let before = cpu();
    let mut loops = JoinSet::new();
    for _ in 0..given.number("at-once") {
        let (who, tally) = (Arc::clone(&who), Arc::clone(&tally));
        loops.spawn(async move { tally.count(&who).await });
    }
    loops.join_all().await;
    let used = cpu().zip(before).map(|(after, before)| after - before);
    let wall = tally.start.elapsed().as_secs_f64();
    println!("counted");
    hear().await;
    let taken = sample(&who, given.span("sample")).await;
    let quantile = |part: usize| or_null(taken.get(taken.len() * part / 100));
    let admits: Vec<u64> = tally.admits.iter().map(|it| it.load(Ordering::Relaxed)).collect();
    println!(
        r#"{{"decisions": {}, "admitted": {}, "admits": {admits:?}, "cpu_s": {}, "wall_s": {wall}, "p50_ns": {}, "p99_ns": {}, "lost": {}}}"#,
        tally.decisions.load(Ordering::Relaxed),
        admits.iter().sum::<u64>(),
        or_null(used),
        quantile(50),
        quantile(99),
        who.lost()
    );
}
