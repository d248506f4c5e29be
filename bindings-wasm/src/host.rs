//! State on this side of the border: engines by handle, and what the host refers to by number.

use std::cell::RefCell;

use tidegate::{CallId, Engine as Core};
#[cfg(not(tidegate_small))]
use {crate::pages::Reader, crate::slab::Slab, tidegate::Meter};

/// An engine, and results of a crossing that the host can still ask for.
pub struct Engine {
    pub core: Core,
    /// The call that has begun last.
    pub begun: CallId,
    /// The calls counted by `wakes`.
    pub woken: Vec<CallId>,
    /// Counts records; present once the host has asked for metrics.
    #[cfg(not(tidegate_small))]
    pub meter: Option<Meter>,
    /// Whether the host listens to records.
    #[cfg(not(tidegate_small))]
    pub heard: bool,
    /// Page-by-page readers, by number.
    #[cfg(not(tidegate_small))]
    pub readers: Slab<Reader>,
}

/// What the host refers to by number.
#[cfg(not(tidegate_small))]
#[derive(Default)]
pub struct Host {
    /// Documents.
    pub documents: Slab<tidegate::Document>,
    /// Readers of streamed answers.
    pub streams: Slab<tidegate::answer::EventStream>,
    /// Readers of what answers have used.
    pub usages: Slab<tidegate::answer::UsageReader>,
}

thread_local! {
    #[cfg(not(tidegate_small))]
    static HOST: RefCell<Host> = RefCell::default();
    static ENGINES: RefCell<Vec<Option<Box<Engine>>>> = const { RefCell::new(Vec::new()) };
}

/// Stores an engine and returns its handle.
pub fn add(engine: Engine) -> u32 {
    ENGINES.with_borrow_mut(|engines| {
        engines.push(Some(Box::new(engine)));
        engines.len() as u32 - 1
    })
}

pub fn remove(engine: u32) {
    ENGINES.with_borrow_mut(|engines| {
        if let Some(place) = engines.get_mut(engine as usize) {
            *place = None;
        }
    });
}

/// Runs work with what the host refers to by number.
#[cfg(not(tidegate_small))]
pub fn host<T>(work: impl FnOnce(&mut Host) -> T) -> T {
    HOST.with_borrow_mut(work)
}

/// Runs work with an engine.
///
/// # Panics
/// An unknown handle is a bug of the JavaScript half, and traps.
#[inline]
pub fn with<T>(engine: u32, work: impl FnOnce(&mut Engine) -> T) -> T {
    ENGINES.with_borrow_mut(|engines| match engines.get_mut(engine as usize) {
        Some(Some(engine)) => work(engine),
        _ => panic!("no engine has this handle"),
    })
}
