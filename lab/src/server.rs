//! Servers as in the published experiments.

use crate::dice::Dice;
use std::collections::VecDeque;
use tidegate::Class;

/// One attempt at a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// The index of its call in the world.
    pub call: u32,
    /// Counts the calls that have used this index.
    pub life: u32,
    /// The attempt's number.
    pub attempt: u8,
}

/// A server's reaction to an attempt that arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// It answers after this many microseconds.
    After(u64, Class),
    /// It works for this many microseconds and answers then; the caller must call `Server::leave` at that moment.
    Works(u64),
    /// It has queued the attempt.
    Queued,
    /// It has dropped the attempt and never answers.
    Dropped,
    /// The attempt is the only one: it is served for this many microseconds; the caller must call `Server::served`
    /// then.
    Serves(u64),
}

/// The order in which a queue is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The oldest attempt first.
    Fifo,
    /// The newest first.
    Lifo,
    /// The oldest first, but attempts older than this many microseconds are dropped without work.
    Expiring(u64),
}

/// The times in which a server fails every attempt.
#[derive(Clone, Debug)]
pub enum Outages {
    /// Never.
    Never,
    /// For `length` µs at the end of each `period` µs.
    Every {
        /// From the end of one outage to the end of the next.
        period: u64,
        /// Length of an outage.
        length: u64,
    },
    /// Exponential times between outages and in outages, with these means in µs; begins without an outage.
    Random {
        /// Mean time between outages.
        up: f64,
        /// Mean length of an outage.
        down: f64,
        /// The end of the present state, and whether it is an outage. Begin with `(0, true)`.
        state: (u64, bool),
        /// A separate generator, so that every policy meets the same outages.
        dice: Dice,
    },
}

impl Outages {
    /// Whether this moment is in an outage.
    fn hold(&mut self, now: u64) -> bool {
        match self {
            Self::Never => false,
            Self::Every { period, length } => now % *period >= *period - *length,
            Self::Random { up, down, state: (until, is_down), dice } => {
                while now >= *until {
                    *is_down = !*is_down;
                    *until += dice.exponential(if *is_down { *down } else { *up });
                }
                *is_down
            }
        }
    }
}

/// A server.
#[derive(Clone, Debug)]
pub enum Server {
    /// Answers after a random time; a share of the answers are failures. Its capacity is unlimited.
    Failing {
        /// Probability that an attempt fails.
        probability: f64,
        /// When it fails every attempt.
        outages: Outages,
        /// Mean of the exponential latency, in µs.
        latency: f64,
    },
    /// Works on all attempts at once; an attempt takes `base + slope · (attempts in work)` µs, fixed when it arrives
    /// (E6).
    Crowd {
        /// Latency without other attempts, in µs.
        base: f64,
        /// Additional µs for each attempt in work.
        slope: f64,
        /// Number of attempts in work.
        working: u32,
    },
    /// Serves attempts one by one with exponential times, from a queue of bounded length (E7).
    Queue(Queue),
}

/// Serves attempts one by one with exponential times, from a queue of bounded length.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Mean service time in µs.
    pub mean: f64,
    /// Attempts that it holds, including the one in service.
    pub capacity: usize,
    /// The order of service.
    pub order: Order,
    /// Whether an attempt that finds the queue full is refused at once. Otherwise it is dropped, and its caller gets no
    /// answer.
    pub refuses: bool,
    /// Start and end in µs of a time in which the server works at this fraction of its speed.
    pub slow: (u64, u64, f64),
    waiting: VecDeque<(Job, u64)>,
    serving: Option<Job>,
}

impl Queue {
    /// An empty queue that drops attempts beyond its capacity.
    pub fn new(mean: f64, capacity: usize, order: Order) -> Self {
        let (waiting, serving) = (VecDeque::new(), None);
        Self { mean, capacity, order, refuses: false, slow: (0, 0, 1.0), waiting, serving }
    }

    fn span(&self, dice: &mut Dice, now: u64) -> u64 {
        let (from, to, speed) = self.slow;
        dice.exponential(if (from..to).contains(&now) { self.mean / speed } else { self.mean })
    }

    /// Ends the service of an attempt. Returns the attempt, and the service time of the next one, if there is one.
    pub fn served(&mut self, dice: &mut Dice, now: u64) -> (Option<Job>, Option<u64>) {
        let done = self.serving.take();
        loop {
            let next = match self.order {
                Order::Lifo => self.waiting.pop_back(),
                Order::Fifo | Order::Expiring(_) => self.waiting.pop_front(),
            };
            let Some((job, since)) = next else { return (done, None) };
            if let Order::Expiring(age) = self.order
                && now - since >= age
            {
                continue;
            }
            self.serving = Some(job);
            return (done, Some(self.span(dice, now)));
        }
    }
}

/// How long a refusal or a local answer travels, in µs.
const TRIP: u64 = 1_000;

impl Server {
    /// The server of E6 for a capacity in attempts per second: at that rate its latency reaches `timeout` µs, of which
    /// a third is its latency without other attempts. With 66.7 per second and 3 s it is the published server: 1 s + 10
    /// ms · concurrency.
    pub fn crowd(capacity: f64, timeout: f64) -> Self {
        Self::Crowd { base: timeout / 3.0, slope: 2e6 / (3.0 * capacity), working: 0 }
    }

    /// The server of E7 for a capacity in attempts per second: a queue that holds ten seconds of work.
    pub fn queue(capacity: f64, order: Order) -> Self {
        Self::Queue(Queue::new(1e6 / capacity, (10.0 * capacity) as usize, order))
    }

    /// Takes an attempt that arrives.
    pub fn arrive(&mut self, job: Job, dice: &mut Dice, now: u64) -> Reply {
        match self {
            Self::Failing { probability, outages, latency } => {
                let down = outages.hold(now);
                let fails = dice.chance(*probability) || down;
                let class = if fails { Class::Transient } else { Class::Ok };
                Reply::After(dice.exponential(*latency), class)
            }
            Self::Crowd { base, slope, working } => {
                *working += 1;
                Reply::Works((*base + *slope * f64::from(*working)) as u64)
            }
            Self::Queue(queue) => {
                if queue.serving.is_none() {
                    queue.serving = Some(job);
                    return Reply::Serves(queue.span(dice, now));
                }
                if queue.waiting.len() + 1 >= queue.capacity {
                    return if queue.refuses { Reply::After(TRIP, Class::Transient) } else { Reply::Dropped };
                }
                queue.waiting.push_back((job, now));
                Reply::Queued
            }
        }
    }

    /// Ends the work on an attempt.
    pub fn leave(&mut self) {
        if let Self::Crowd { working, .. } = self {
            *working -= 1;
        }
    }

    /// Ends the service of an attempt. Returns the attempt, and the service time of the next one.
    pub fn served(&mut self, dice: &mut Dice, now: u64) -> (Option<Job>, Option<u64>) {
        match self {
            Self::Queue(queue) => queue.served(dice, now),
            Self::Failing { .. } | Self::Crowd { .. } => (None, None),
        }
    }
}
