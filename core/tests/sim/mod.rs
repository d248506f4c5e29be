//! A server and its clients as discrete events: no clock, no threads, every run the same.
//!
//! The server has `slots`. Each serves one call in `service`, give or take `jitter`; calls beyond the slots wait in line.
//! **Capacity** is the number of slots: the concurrency at which latency begins to rise (up to it, a call takes the service
//! time; at n calls, n / slots times that). The rate at capacity is slots / service, and a load of 1 is that rate.
//!
//! Clients call at a rate that does not depend on the answers. A call beyond its client's limit is refused at once.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use tidegate::rng::{self, Purpose};
use tidegate::{Aimd, Duration, Gradient2, Time};

/// Completions in a window, the unit of time of the bounds that are asserted.
pub const WINDOW: usize = 100;

/// What a client asks, and what it tells.
pub trait Limiter {
    fn limit(&self) -> f64;
    fn on_done(&mut self, rtt: Duration, started: Time, in_flight: u32, now: Time);
}

impl Limiter for Aimd {
    fn limit(&self) -> f64 {
        f64::from(Aimd::limit(self))
    }

    fn on_done(&mut self, rtt: Duration, _: Time, _: u32, now: Time) {
        self.on_latency(rtt, now);
    }
}

impl Limiter for Gradient2 {
    fn limit(&self) -> f64 {
        f64::from(Gradient2::limit(self))
    }

    fn on_done(&mut self, rtt: Duration, started: Time, in_flight: u32, now: Time) {
        self.on_latency(rtt, started, in_flight, now);
    }
}

/// The means of one window; latency in service times, the rest in capacities.
#[derive(Clone, Debug)]
pub struct Window {
    /// Of each client.
    pub limits: Vec<f64>,
    pub latency: f64,
    pub throughput: f64,
    /// Of the calls that were asked for.
    pub refused: f64,
}

/// The smallest and the largest of a figure over windows.
pub fn range(windows: &[Window], figure: impl Fn(&Window) -> f64) -> (f64, f64) {
    windows.iter().map(figure).fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(x), high.max(x)))
}

/// The mean of a figure over windows.
pub fn mean(windows: &[Window], figure: impl Fn(&Window) -> f64) -> f64 {
    windows.iter().map(figure).sum::<f64>() / windows.len() as f64
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Call,
    Done { client: usize, started: u64 },
}

pub struct World<L> {
    pub clients: Vec<(L, u32)>,
    pub slots: usize,
    pub service: f64,
    pub jitter: f64,
    seed: u64,
    drawn: u64,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    serving: usize,
    line: VecDeque<(usize, u64)>,
}

impl<L: Limiter> World<L> {
    /// A server of `slots` with a service time of 100 ms give or take a twentieth, at which nobody has called yet.
    pub fn new(slots: usize, clients: Vec<L>, seed: u64) -> Self {
        let mut events = BinaryHeap::new();
        events.push(Reverse((1, 0, Event::Call)));
        let clients = clients.into_iter().map(|limiter| (limiter, 0)).collect();
        let (service, jitter) = (100_000.0, 0.05);
        Self {
            clients,
            slots,
            service,
            jitter,
            seed,
            drawn: 0,
            now: 0,
            events,
            serving: 0,
            line: VecDeque::new(),
        }
    }

    /// Lets clients call at this load until `windows` of completions have passed.
    pub fn run(&mut self, load: f64, windows: usize) -> Vec<Window> {
        (0..windows).map(|_| self.window(load)).collect()
    }

    fn window(&mut self, load: f64) -> Window {
        let (began, mut asked, mut refused, mut latency, mut done) = (self.now, 0, 0, 0, 0);
        let mut limits = vec![0.0; self.clients.len()];
        while done < WINDOW {
            let Reverse((now, _, event)) = self.events.pop().unwrap();
            self.now = now;
            match event {
                Event::Call => {
                    asked += 1;
                    refused += usize::from(!self.call());
                    let gap = self.service / self.slots as f64 / load * self.around(0.1);
                    self.push(gap, Event::Call);
                }
                Event::Done { client, started } => {
                    done += 1;
                    latency += now - started;
                    self.done(client, started);
                    for (sum, (limiter, _)) in limits.iter_mut().zip(&self.clients) {
                        *sum += limiter.limit();
                    }
                }
            }
        }
        let span = (self.now - began) as f64 / self.service;
        Window {
            limits: limits.iter().map(|sum| sum / WINDOW as f64 / self.slots as f64).collect(),
            latency: latency as f64 / WINDOW as f64 / self.service,
            throughput: WINDOW as f64 / span / self.slots as f64,
            refused: refused as f64 / f64::from(asked.max(1)),
        }
    }

    /// One call, of a client chosen at random; false if it is refused.
    fn call(&mut self) -> bool {
        let client = rng::uniform(self.draw(), 0, self.clients.len() as u64 - 1) as usize;
        let (limiter, in_flight) = &mut self.clients[client];
        if f64::from(*in_flight) >= limiter.limit() {
            return false;
        }
        *in_flight += 1;
        if self.serving < self.slots {
            self.serve(client, self.now);
        } else {
            self.line.push_back((client, self.now));
        }
        true
    }

    fn done(&mut self, client: usize, started: u64) {
        let (limiter, in_flight) = &mut self.clients[client];
        let rtt = Duration::from_micros(self.now - started);
        limiter.on_done(rtt, Time::from_micros(started), *in_flight, Time::from_micros(self.now));
        *in_flight -= 1;
        self.serving -= 1;
        if let Some((client, started)) = self.line.pop_front() {
            self.serve(client, started);
        }
    }

    fn serve(&mut self, client: usize, started: u64) {
        self.serving += 1;
        let takes = self.service * self.around(self.jitter);
        self.push(takes, Event::Done { client, started });
    }

    fn push(&mut self, delay: f64, event: Event) {
        self.drawn += 1;
        self.events.push(Reverse((self.now + (delay as u64).max(1), self.drawn, event)));
    }

    /// 1, give or take `part`, evenly.
    fn around(&mut self, part: f64) -> f64 {
        1.0 + part * (2.0 * (self.draw() >> 11) as f64 / (1u64 << 53) as f64 - 1.0)
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        rng::bits(self.seed, self.drawn, Purpose::Backoff, 1)
    }
}
