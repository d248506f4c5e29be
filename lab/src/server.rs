//! Servers as the published experiments describe them.

use crate::dice::Dice;
use std::collections::VecDeque;
use tidegate::Class;

/// One attempt on its way through a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Job {
    /// The place of its call in the world.
    pub call: u32,
    /// Which call of those that had that place.
    pub life: u32,
    /// The attempt's number.
    pub attempt: u8,
}

/// What a server does with an attempt that arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// It answers after so many microseconds.
    After(u64, Class),
    /// It works for so many microseconds, and answers then; `Server::leave` is due at that moment.
    Works(u64),
    /// It has put the attempt into its queue.
    Queued,
    /// It has dropped the attempt and never answers.
    Dropped,
    /// The attempt is the only one: it is served for so many microseconds; `Server::served` is due at that moment.
    Serves(u64),
}

/// In which order a queue is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The oldest attempt first.
    Fifo,
    /// The newest first.
    Lifo,
    /// The oldest first, but those older than so many microseconds are dropped without work.
    Expiring(u64),
}

/// When a server fails everything.
#[derive(Clone, Debug)]
pub enum Outages {
    /// Never.
    Never,
    /// For `length` µs at the end of each `period` µs.
    Every {
        /// From one outage's end to the next one's.
        period: u64,
        /// Of an outage.
        length: u64,
    },
    /// Exponential times up and down with these means in µs; begins up.
    Random {
        /// Between outages.
        up: f64,
        /// Of an outage.
        down: f64,
        /// Until when the present state holds, and whether it is an outage. Begin with `(0, true)`.
        state: (u64, bool),
        /// Its own, so that every policy meets the same outages.
        dice: Dice,
    },
}

impl Outages {
    /// Is this moment in an outage?
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
    /// Answers after a random time; a share of the answers are failures. It has no capacity that could be exceeded.
    Failing {
        /// Probability that an attempt fails.
        probability: f64,
        /// When it fails everything.
        outages: Outages,
        /// Mean of the exponential latency, in µs.
        latency: f64,
    },
    /// Works on everything at once; an attempt takes `base + slope · (attempts in work)` µs, fixed when it arrives (E6).
    Crowd {
        /// µs when alone.
        base: f64,
        /// µs for each attempt in work.
        slope: f64,
        /// Attempts in work.
        working: u32,
    },
    /// One exponential service after the other, from a queue of bounded length (E7).
    Queue(Queue),
}

/// One exponential service after the other, from a queue of bounded length.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Mean service time in µs.
    pub mean: f64,
    /// Attempts that it holds, the one in service included.
    pub capacity: usize,
    /// Which is served next.
    pub order: Order,
    /// Is an attempt that finds it full refused at once? Otherwise it is dropped, and its caller hears nothing.
    pub refuses: bool,
    /// From µs, to µs: the server works at this fraction of its speed.
    pub slow: (u64, u64, f64),
    waiting: VecDeque<(Job, u64)>,
    serving: Option<Job>,
}

impl Queue {
    /// An empty one that drops what it cannot hold.
    pub fn new(mean: f64, capacity: usize, order: Order) -> Self {
        let (waiting, serving) = (VecDeque::new(), None);
        Self { mean, capacity, order, refuses: false, slow: (0, 0, 1.0), waiting, serving }
    }

    fn span(&self, dice: &mut Dice, now: u64) -> u64 {
        let (from, to, speed) = self.slow;
        dice.exponential(if (from..to).contains(&now) { self.mean / speed } else { self.mean })
    }

    /// The attempt in service is done; it, and the time that the next one takes, if there is one.
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
    /// The server of E6 for a capacity in attempts a second: at that rate its latency reaches `timeout` µs, of which a
    /// third is its latency when alone. With 66.7 a second and 3 s it is the one published: 1 s + 10 ms · concurrency.
    pub fn crowd(capacity: f64, timeout: f64) -> Self {
        Self::Crowd { base: timeout / 3.0, slope: 2e6 / (3.0 * capacity), working: 0 }
    }

    /// The server of E7 for a capacity in attempts a second: a queue of ten seconds' work.
    pub fn queue(capacity: f64, order: Order) -> Self {
        Self::Queue(Queue::new(1e6 / capacity, (10.0 * capacity) as usize, order))
    }

    /// An attempt arrives.
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

    /// An attempt in work is done.
    pub fn leave(&mut self) {
        if let Self::Crowd { working, .. } = self {
            *working -= 1;
        }
    }

    /// The attempt in service is done: it, and the time the next one takes.
    pub fn served(&mut self, dice: &mut Dice, now: u64) -> (Option<Job>, Option<u64>) {
        match self {
            Self::Queue(queue) => queue.served(dice, now),
            Self::Failing { .. } | Self::Crowd { .. } => (None, None),
        }
    }
}
