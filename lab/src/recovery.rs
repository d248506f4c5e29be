//! Whether a fleet recovers from a trigger: promise 4, on the servers of E6 and E7.

use crate::server::{Order, Server};
use crate::world::{Bound, Load, Rule, SECOND, World};

/// The attempt timeout of E6 and E7, in seconds.
pub const TIMEOUT: f64 = 3.0;
/// The moment at which a trigger begins, in seconds.
pub const BEGINS: u64 = 20;
/// How long goodput is measured, in seconds.
pub const MEASURED: u64 = 55;
/// The goodput below which a run counts as dead.
pub const DEAD: f64 = 0.9;
/// Retries per call of the default budget.
pub const RATIO: f64 = 0.18;

/// An event that overloads the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// E6: the load grows by 60 % of the capacity for this many seconds.
    Pulse(u64),
    /// E7: the queue is full of calls when the run begins.
    Full,
    /// E7: the server works at 20 % of its speed for 20 s.
    Cut,
}

/// The triggers of the grid.
pub const TRIGGERS: [Trigger; 6] = [
    Trigger::Pulse(2),
    Trigger::Pulse(5),
    Trigger::Pulse(10),
    Trigger::Pulse(20),
    Trigger::Full,
    Trigger::Cut,
];

impl Trigger {
    /// The trigger's name in the tables.
    pub fn name(self) -> String {
        match self {
            Self::Pulse(seconds) => format!("pulse {seconds} s"),
            Self::Full => "full queue".into(),
            Self::Cut => "cut to 20 %".into(),
        }
    }

    /// The moment at which it ends, in seconds.
    pub const fn over(self) -> u64 {
        match self {
            Self::Pulse(seconds) => BEGINS + seconds,
            Self::Full => 0,
            Self::Cut => BEGINS + 20,
        }
    }
}

/// One cell of the grid.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The clients' policy.
    pub rule: Rule,
    /// Number of clients.
    pub clients: u32,
    /// The server's capacity, in attempts per second.
    pub capacity: f64,
    /// First attempts per second.
    pub load: f64,
    /// The event that overloads the server.
    pub trigger: Trigger,
    /// Seconds between the trigger's end and the measurement.
    pub patience: u64,
    /// Whether a recovery at any time until then is enough. In the half hour that slow clients have, noise may overload
    /// a small server again.
    pub by_then: bool,
    /// A bound that is checked at every attempt.
    pub bound: Option<Bound>,
}

/// The results of a run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Run {
    /// Successes per call, from `patience` after the trigger on.
    pub goodput: f64,
    /// Seconds after the trigger's end from which [`MEASURED`] seconds were good, if that was before `patience`.
    pub recovered: Option<u64>,
    /// Attempts per call in the same time.
    pub attempts: f64,
    /// Attempts that exceeded the bound, at any time.
    pub broken: u64,
    /// Number of calls simulated.
    pub calls: u64,
}

/// The share of a server's capacity for which promise 4 holds; noise alone uses the rest of a small server.
pub fn share(capacity: f64) -> f64 {
    0.9_f64.min(1.0 - 1.75 / (capacity * TIMEOUT).sqrt())
}

/// First attempts per second at which a fleet recovers, with a budget of `ratio` retries per call.
pub fn safe_load(capacity: f64, ratio: f64) -> f64 {
    capacity * share(capacity) / (1.0 + ratio)
}

impl Cell {
    /// A cell at the safe load of the default budget.
    pub fn safe(rule: &Rule, clients: u32, capacity: f64, trigger: Trigger) -> Self {
        let load = safe_load(capacity, RATIO);
        Self {
            rule: rule.clone(),
            clients,
            capacity,
            load,
            trigger,
            patience: 100,
            by_then: false,
            bound: None,
        }
    }

    /// Mean time between two calls of one client, in seconds.
    pub fn gap(&self) -> f64 {
        f64::from(self.clients) / self.load
    }

    /// Calls that each client makes before the run to fill its budget.
    fn warm_up(&self) -> u32 {
        30.max((15.0 / self.gap()) as u32)
    }

    /// Runs the cell with this seed.
    pub fn run(&self, seed: u64) -> Run {
        let from = self.trigger.over() + self.patience;
        let until = from + MEASURED;
        let (server, load) = match self.trigger {
            Trigger::Pulse(_) => {
                let pulse = (BEGINS, self.trigger.over());
                let server = Server::crowd(self.capacity, TIMEOUT * SECOND as f64);
                (server, Load::pulse(self.load, 0.6 * self.capacity, pulse, until))
            }
            Trigger::Full => (Server::queue(self.capacity, Order::Fifo), Load::steady(self.load, until)),
            Trigger::Cut => {
                let mut server = Server::queue(self.capacity, Order::Fifo);
                if let Server::Queue(queue) = &mut server {
                    queue.slow = (BEGINS * SECOND, self.trigger.over() * SECOND, 0.2);
                }
                (server, Load::steady(self.load, until))
            }
        };
        let mut world = World::new(&self.rule, self.clients, server, seed);
        world.bound = self.bound;
        world.warm(self.warm_up(), self.load);
        if self.trigger == Trigger::Full {
            world.burst((10.0 * self.capacity) as u32);
        }
        world.run(&load);
        let (begun, _, attempts) = world.totals(from, until);
        let calls = world.ends.iter().sum();
        let attempts = attempts as f64 / begun.max(1) as f64;
        let over = self.trigger.over();
        let good = |after: &u64| world.goodput(over + after, over + after + MEASURED) >= DEAD;
        let recovered = (0..=self.patience).step_by(5).find(good);
        Run { goodput: world.goodput(from, until), recovered, attempts, broken: world.broken, calls }
    }

    /// Runs the cell with the seeds 1 to `seeds`.
    pub fn runs(&self, seeds: u64) -> Summary {
        let mut sum = Summary::default();
        for seed in 1..=seeds {
            let run = self.run(seed);
            sum.runs += 1;
            let alive = if self.by_then { run.recovered.is_some() } else { run.goodput >= DEAD };
            sum.dead += u64::from(!alive);
            sum.worst = sum.worst.min(run.goodput);
            sum.slowest = sum.slowest.max(run.recovered.unwrap_or(self.patience));
            sum.attempts = sum.attempts.max(run.attempts);
            sum.broken += run.broken;
            sum.calls += run.calls;
        }
        sum
    }
}

/// The results of a cell's runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Summary {
    /// Number of runs.
    pub runs: u64,
    /// Number of runs that stayed dead.
    pub dead: u64,
    /// The lowest goodput of all runs.
    pub worst: f64,
    /// The longest time until a run had recovered, in seconds.
    pub slowest: u64,
    /// The highest number of attempts per call.
    pub attempts: f64,
    /// Attempts that exceeded the bound.
    pub broken: u64,
    /// Number of calls simulated.
    pub calls: u64,
}

impl Default for Summary {
    fn default() -> Self {
        Self { runs: 0, dead: 0, worst: 1.0, slowest: 0, attempts: 0.0, broken: 0, calls: 0 }
    }
}

impl Summary {
    /// Combines two summaries.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            runs: self.runs + other.runs,
            dead: self.dead + other.dead,
            worst: self.worst.min(other.worst),
            slowest: self.slowest.max(other.slowest),
            attempts: self.attempts.max(other.attempts),
            broken: self.broken + other.broken,
            calls: self.calls + other.calls,
        }
    }
}

/// The capacities of the grid, in attempts per second.
pub const CAPACITIES: [f64; 8] = [5.0, 10.0, 20.0, 50.0, 66.7, 100.0, 200.0, 500.0];
/// The numbers of clients of the grid.
pub const CLIENTS: [u32; 4] = [1, 10, 100, 1_000];
/// The longest mean gap between two calls of one client for which promise 4 grants 100 s.
pub const GAP: f64 = 20.0;

/// The cells of promise 4 for a policy: all capacities, clients and triggers whose clients call often enough.
pub fn grid(rule: &Rule) -> Vec<Cell> {
    let mut cells = Vec::new();
    for capacity in CAPACITIES {
        for clients in CLIENTS {
            for trigger in TRIGGERS {
                let cell = Cell::safe(rule, clients, capacity, trigger);
                if cell.gap() <= GAP {
                    cells.push(cell);
                }
            }
        }
    }
    cells
}

/// The cells of clients that call less often: they get 20 s plus five mean gaps.
pub fn slow_grid(rule: &Rule) -> Vec<Cell> {
    let mut cells = Vec::new();
    for capacity in [5.0, 10.0, 20.0] {
        for clients in [100, 1_000] {
            for trigger in TRIGGERS {
                let cell = Cell::safe(rule, clients, capacity, trigger);
                if cell.gap() > GAP {
                    let patience = (20.0 + 5.0 * cell.gap()) as u64;
                    cells.push(Cell { patience, by_then: true, ..cell });
                }
            }
        }
    }
    cells
}
