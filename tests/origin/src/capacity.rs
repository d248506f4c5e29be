//! Capacity: a number of workers behind one bounded first-in, first-out queue.

use crate::stats::Ledger;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

/// Workers and their queue.
pub(crate) struct Capacity {
    bound: usize,
    ledger: Arc<Ledger>,
    desk: Mutex<Desk>,
}

struct Desk {
    workers: usize,
    busy: usize,
    next_id: u64,
    waiting: VecDeque<(u64, oneshot::Sender<Instant>)>,
}

/// The furthest in the past that a worker's next start may be; see [`Ticket::served`].
const MOST_CATCH_UP: Duration = Duration::from_millis(5);

impl Capacity {
    pub(crate) fn new(workers: usize, bound: usize, ledger: Arc<Ledger>) -> Self {
        Self {
            bound,
            ledger,
            desk: Mutex::new(Desk { workers, busy: 0, next_id: 0, waiting: VecDeque::new() }),
        }
    }

    /// Takes a worker or a place in the queue; `None` if the queue is full.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Ticket> {
        let mut desk = self.desk();
        let free = desk.busy < desk.workers && desk.waiting.is_empty();
        if !free && desk.waiting.len() >= self.bound {
            return None;
        }
        let (grant, granted) = oneshot::channel();
        let id = desk.next_id;
        desk.next_id += 1;
        desk.waiting.push_back((id, grant));
        desk.hand_out(Instant::now());
        self.publish(&desk);
        Some(Ticket { capacity: self.clone(), id, granted, end: None })
    }

    /// Changes the number of workers. Busy workers beyond the number finish their requests.
    pub(crate) fn set_workers(&self, workers: usize) {
        let mut desk = self.desk();
        if desk.workers != workers {
            desk.workers = workers;
            desk.hand_out(Instant::now());
            self.publish(&desk);
        }
    }

    fn publish(&self, desk: &Desk) {
        self.ledger.levels(desk.busy, desk.waiting.len());
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    fn hand_out(&mut self, start: Instant) {
        while self.busy < self.workers {
            let Some((_, grant)) = self.waiting.pop_front() else { return };
            self.busy += 1;
            // A ticket that is being dropped finds that it is no longer in the queue, and releases the worker.
            let _ = grant.send(start);
        }
    }
}

/// A place in the queue, later a worker. Dropping it releases whichever it is.
pub(crate) struct Ticket {
    capacity: Arc<Capacity>,
    id: u64,
    granted: oneshot::Receiver<Instant>,
    end: Option<Instant>,
}

impl Ticket {
    /// Waits for a worker and holds it for the time that `service` returns when service begins.
    ///
    /// A worker's next service begins when the one before was due to end, not when its timer fired: timers tick in
    /// whole milliseconds, and their delays would add up to a capacity well below the scripted one.
    pub(crate) async fn served(mut self, service: impl FnOnce() -> Duration) {
        // The sender stays in the queue until it sends, so an error cannot happen while this ticket exists.
        let start = (&mut self.granted).await.unwrap_or_else(|_| Instant::now());
        let end = start + service();
        self.end = Some(end);
        if end > Instant::now() {
            sleep_until(end).await;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut desk = self.capacity.desk();
        if let Ok(place) = desk.waiting.binary_search_by_key(&self.id, |(id, _)| *id) {
            desk.waiting.remove(place);
        } else {
            desk.busy -= 1;
            let now = Instant::now();
            let due = self.end.filter(|end| *end <= now).unwrap_or(now);
            desk.hand_out(due.max(now - MOST_CATCH_UP));
        }
        self.capacity.publish(&desk);
    }
}
