//! Subscriptions to an engine's records, and the records that hooks have not received yet.
//!
//! A step that produces records takes them from core under the lock, and stores them for its thread. The thread delivers
//! them to the hooks after the step, before it waits. Metrics are updated natively, so a call without failures runs no
//! Python code for them.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::{Engine as Core, Meter, Record, RecordType};

thread_local! {
    /// Records of this thread's steps that hooks have not received yet, each with its engine's number.
    static PENDING: RefCell<Vec<(u64, Record)>> = const { RefCell::new(Vec::new()) };
}

/// Subscriptions to one engine's records.
pub struct Listeners {
    /// Number of the engine within the process.
    id: u64,
    /// Record types that hooks subscribe to, one bit each.
    hooks: u32,
    /// Types among them that only the log reads: dropped where it is disabled at their level.
    quiet: u32,
    pub meter: Option<Meter>,
    /// Buffer for one step; empty between steps.
    taken: Vec<Record>,
}

/// Returns whether the record's type is in the set.
fn has(types: u32, record: &Record) -> bool {
    types & 1 << record.what as u32 != 0
}

impl Listeners {
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { id, hooks: 0, quiet: 0, meter: None, taken: Vec::new() }
    }

    /// Number of the engine within the process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Replaces the subscriptions of hooks and of the log, one bit for each type.
    pub fn listen(&mut self, core: &mut Core, hooks: u32, quiet: u32) {
        (self.hooks, self.quiet) = (hooks, quiet);
        self.subscribe(core);
    }

    /// Starts to count for metrics, unless it has been started.
    pub fn measure(&mut self, core: &mut Core, max_routes: usize) {
        self.meter.get_or_insert_with(|| Meter::new(max_routes));
        self.subscribe(core);
    }

    /// Tells core which records hooks and meter need.
    fn subscribe(&self, core: &mut Core) {
        let wanted = |what: &RecordType| self.hooks & 1 << *what as u32 != 0;
        let mut types: Vec<_> = RecordType::ALL.iter().copied().filter(wanted).collect();
        if self.meter.is_some() {
            types.extend(Meter::TYPES);
        }
        core.subscribe_to(&types);
    }

    /// Takes the records of a step from core, counts them, and keeps those for hooks. Returns whether any was kept.
    #[cold]
    #[inline(never)]
    pub fn take_from(&mut self, core: &mut Core) -> bool {
        core.take_records(&mut self.taken);
        if let Some(meter) = &mut self.meter {
            self.taken.iter().for_each(|record| meter.add(core, record));
        }
        let wanted = self.taken.iter().filter(|record| has(self.hooks, record));
        let any = PENDING.with_borrow_mut(|all| {
            let before = all.len();
            all.extend(wanted.map(|record| (self.id, *record)));
            all.len() > before
        });
        self.taken.clear();
        any
    }

    /// Takes this thread's records for this engine's hooks, oldest first; drops the log's own if `hushed`.
    pub fn take_pending(&self, hushed: bool) -> Vec<Record> {
        let left_out = if hushed { self.quiet } else { 0 };
        let mut taken = Vec::new();
        PENDING.with_borrow_mut(|all| {
            all.retain(|(of, record)| {
                if *of == self.id && !has(left_out, record) {
                    taken.push(*record);
                }
                *of != self.id
            });
        });
        taken
    }

    /// Returns whether all of this thread's records are this engine's and for the log only.
    pub fn are_all_quiet(&self) -> bool {
        let is_quiet = |(of, record): &(u64, Record)| *of == self.id && has(self.quiet, record);
        PENDING.with_borrow(|all| all.iter().all(is_quiet))
    }
}

/// Drops this thread's records of an engine.
pub fn forget_pending(id: u64) {
    PENDING.with_borrow_mut(|all| all.retain(|(of, _)| *of != id));
}
