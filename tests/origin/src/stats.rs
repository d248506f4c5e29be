//! The ledger: a count and a log of everything the data port received since the script began.

use crate::series::{Bucket, Series};
use hyper::HeaderMap;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Counts since the script began.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Stats {
    /// Seconds since the script began.
    pub t: f64,
    /// Requests whose head arrived.
    pub requests: u64,
    /// Requests not yet answered whose client is still connected.
    pub in_flight: u64,
    /// Complete answers handed to the connection, by status.
    pub by_status: BTreeMap<u16, u64>,
    /// Answers broken on the wire, by fault; `refused` is a request on an old connection in a refuse phase.
    pub by_fault: BTreeMap<&'static str, u64>,
    /// Requests by path without query; from 1,000 different paths on, the rest is counted as `(other)`.
    pub by_path: BTreeMap<String, u64>,
    /// Connections accepted.
    pub connections_accepted: u64,
    /// Connections open now, including those from before the script began.
    pub connections_open: u64,
    /// Requests that a worker of `capacity` works on now.
    pub in_service: usize,
    /// Requests that wait for a worker now.
    pub queued: usize,
    /// The most that were in service at once.
    pub max_in_service: usize,
    /// The most that were queued at once.
    pub max_queued: usize,
    /// Requests whose client left before the answer.
    pub abandoned: u64,
    /// Bytes of request bodies.
    pub body_bytes: u64,
}

/// One request as it was received, and its result.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// Counts requests since the script began, from 0.
    pub seq: u64,
    /// Seconds since the script began.
    pub t: f64,
    /// As sent.
    pub method: String,
    /// Path with query, as sent.
    pub path: String,
    /// Header pairs in order; names in lower case.
    pub headers: Vec<(String, String)>,
    /// Length of the body in bytes.
    pub body_length: u64,
    /// The body's first 4 KiB as text, with replacement characters where it is not UTF-8.
    pub body: String,
    /// Number of the connection, unique in the life of this origin.
    pub connection: u64,
    /// The status sent, also if a fault followed the head; `None` before an answer.
    pub status: Option<u16>,
    /// The fault's name, if the answer was one.
    pub fault: Option<&'static str>,
    /// The client left before the answer.
    pub abandoned: bool,
    /// Seconds since the script began at which the answer was handed to the connection.
    pub answered_t: Option<f64>,
}

/// The record of one run of a script.
pub(crate) struct Ledger {
    started: Instant,
    books: Mutex<Books>,
}

#[derive(Default)]
struct Books {
    stats: Stats,
    log: VecDeque<Entry>,
    series: Series,
}

const LOG_LENGTH: usize = 10_000;
const MOST_PATHS: usize = 1_000;
/// The number of bytes of a body that are kept as text.
const BODY_KEPT: usize = 4096;

impl Ledger {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), books: Mutex::default() }
    }

    /// Seconds since the script began.
    pub(crate) fn t(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    pub(crate) fn accepted(&self) {
        self.books().stats.connections_accepted += 1;
    }

    /// Enters a request; dropping the answer unanswered records that the client has left.
    pub(crate) fn received(
        self: &Arc<Self>,
        method: &str,
        path: &str,
        headers: &HeaderMap,
        connection: u64,
    ) -> Pending {
        let pair = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let mut entry = Entry {
            seq: 0,
            t: 0.0,
            method: method.to_owned(),
            path: path.to_owned(),
            headers: headers.iter().map(pair).collect(),
            body_length: 0,
            body: String::new(),
            connection,
            status: None,
            fault: None,
            abandoned: false,
            answered_t: None,
        };
        let mut books = self.books();
        let t = self.t(); // read under the lock, so that the log is in the order of its times
        let stats = &mut books.stats;
        (entry.seq, entry.t) = (stats.requests, t);
        stats.requests += 1;
        stats.in_flight += 1;
        let bare = path.split('?').next().unwrap_or_default();
        if let Some(count) = stats.by_path.get_mut(bare) {
            *count += 1;
        } else {
            let name = if stats.by_path.len() < MOST_PATHS { bare } else { "(other)" };
            *stats.by_path.entry(name.to_owned()).or_default() += 1;
        }
        books.series.at(t).arrivals += 1;
        let seq = entry.seq;
        if books.log.len() == LOG_LENGTH {
            books.log.pop_front();
        }
        books.log.push_back(entry);
        drop(books);
        Pending { ledger: self.clone(), seq, open: true }
    }

    /// Records the queue's levels after a change. Called under the queue's lock, so that levels arrive in order.
    pub(crate) fn levels(&self, in_service: usize, queued: usize) {
        let mut books = self.books();
        let t = self.t();
        let stats = &mut books.stats;
        (stats.in_service, stats.queued) = (in_service, queued);
        stats.max_in_service = stats.max_in_service.max(in_service);
        stats.max_queued = stats.max_queued.max(queued);
        books.series.level(t, in_service, queued);
    }

    pub(crate) fn stats(&self, connections_open: u64) -> Stats {
        Stats { t: self.t(), connections_open, ..self.books().stats.clone() }
    }

    pub(crate) fn log(&self) -> Vec<Entry> {
        self.books().log.iter().cloned().collect()
    }

    /// The series in buckets of at least `width` seconds, with the actual width.
    pub(crate) fn series(&self, width: f64) -> (f64, Vec<Bucket>) {
        let mut books = self.books();
        let t = self.t();
        books.series.grouped(t, width)
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner) // counts stay usable after a panic elsewhere
    }
}

impl Books {
    fn entry(&mut self, seq: u64) -> Option<&mut Entry> {
        let first = self.log.front()?.seq;
        self.log.get_mut(usize::try_from(seq.checked_sub(first)?).ok()?)
    }
}

/// A request in flight. Dropped before its end, it counts as abandoned.
pub(crate) struct Pending {
    ledger: Arc<Ledger>,
    seq: u64,
    open: bool,
}

impl Pending {
    pub(crate) fn body(&self, length: u64, kept: &[u8]) {
        let mut books = self.ledger.books();
        books.stats.body_bytes += length;
        if let Some(entry) = books.entry(self.seq) {
            entry.body_length = length;
            entry.body = String::from_utf8_lossy(&kept[..kept.len().min(BODY_KEPT)]).into_owned();
        }
    }

    /// Records that a complete answer was handed to the connection.
    pub(crate) fn answered(mut self, status: u16) {
        self.close(Some(status), None);
    }

    /// Records that a fault ends the request; `status` if its head was sent.
    pub(crate) fn faulted(mut self, fault: &'static str, status: Option<u16>) {
        self.close(status, Some(fault));
    }

    /// Records that the fault `hang` begins: it is counted at once, while the request stays in flight.
    pub(crate) fn hangs(&self, fault: &'static str) {
        let mut books = self.ledger.books();
        let t = self.ledger.t();
        *books.stats.by_fault.entry(fault).or_default() += 1;
        *books.series.at(t).faults.entry(fault).or_default() += 1;
        if let Some(entry) = books.entry(self.seq) {
            entry.fault = Some(fault);
        }
    }

    fn close(&mut self, status: Option<u16>, fault: Option<&'static str>) {
        self.open = false;
        let mut books = self.ledger.books();
        let t = self.ledger.t();
        books.stats.in_flight -= 1;
        let bucket = books.series.at(t);
        match (fault, status) {
            (Some(fault), _) => {
                *bucket.faults.entry(fault).or_default() += 1;
                *books.stats.by_fault.entry(fault).or_default() += 1;
            }
            (None, status) => {
                let status = status.unwrap_or_default();
                if status < 400 {
                    bucket.ok += 1;
                } else {
                    *bucket.errors.entry(status).or_default() += 1;
                }
                *books.stats.by_status.entry(status).or_default() += 1;
            }
        }
        if let Some(entry) = books.entry(self.seq) {
            (entry.status, entry.fault, entry.answered_t) = (status, fault, Some(t));
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let mut books = self.ledger.books();
        let t = self.ledger.t();
        books.stats.in_flight -= 1;
        books.stats.abandoned += 1;
        books.series.at(t).abandoned += 1;
        if let Some(entry) = books.entry(self.seq) {
            entry.abandoned = true;
        }
    }
}
