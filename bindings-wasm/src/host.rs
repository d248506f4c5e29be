//! State on this side of the border: engines by handle, and the input and output texts.

use std::cell::RefCell;

use tidegate::{CallId, Engine as Core};
#[cfg(not(tidegate_small))]
use {crate::pages::Reader, tidegate::Meter};

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
    pub readers: Vec<Option<Reader>>,
}

/// A value on its way to core.
pub enum Staged {
    Number(f64),
    Word(String),
}

#[derive(Default)]
pub struct Host {
    pub input: Vec<u8>,
    pub output: String,
    pub staged: Vec<(String, Staged)>,
    /// Documents by number.
    #[cfg(not(tidegate_small))]
    pub documents: Vec<Option<tidegate::Document>>,
    /// Readers of streamed answers by number.
    #[cfg(not(tidegate_small))]
    pub streams: Vec<Option<tidegate::answer::EventStream>>,
    /// Readers of what answers have used, by number.
    #[cfg(not(tidegate_small))]
    pub usages: Vec<Option<tidegate::answer::UsageReader>>,
}

impl Host {
    /// A part of the input as text. Invalid UTF-8 is replaced by U+FFFD, which no key and no name contains.
    pub fn text(&self, from: usize, to: usize) -> String {
        let to = to.min(self.input.len());
        let bytes = &self.input[from.min(to)..to];
        #[cfg(not(tidegate_small))]
        return String::from_utf8_lossy(bytes).into_owned();
        // SAFETY: only `say` in ts/engine/native.ts writes the input, with a `TextEncoder`, which always writes UTF-8.
        #[cfg(tidegate_small)]
        unsafe {
            String::from_utf8_unchecked(bytes.to_vec())
        }
    }

    /// Stores an engine and returns its handle.
    #[allow(clippy::unused_self)] // handles are the host's
    pub fn add(&mut self, engine: Engine) -> u32 {
        ENGINES.with_borrow_mut(|engines| {
            engines.push(Some(Box::new(engine)));
            engines.len() as u32 - 1
        })
    }

    #[allow(clippy::unused_self)]
    pub fn remove(&mut self, engine: u32) {
        ENGINES.with_borrow_mut(|engines| {
            if let Some(place) = engines.get_mut(engine as usize) {
                *place = None;
            }
        });
    }
}

thread_local! {
    static HOST: RefCell<Host> = RefCell::default();
    static ENGINES: RefCell<Vec<Option<Box<Engine>>>> = const { RefCell::new(Vec::new()) };
}

/// Puts an item into the first free place of a list, and returns the place.
#[cfg(not(tidegate_small))]
pub fn free<T>(list: &mut Vec<Option<T>>, item: T) -> u32 {
    let free = list.iter().position(Option::is_none).unwrap_or(list.len());
    if free == list.len() {
        list.push(None);
    }
    list[free] = Some(item);
    free as u32
}

/// Runs work with the texts.
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
