//! What is kept on this side of the border: engines by handle, and the texts that come in and go out.

use std::cell::RefCell;

use tidegate::{CallId, Engine as Core};
#[cfg(not(tidegate_small))]
use {crate::pages::Reader, tidegate::Meter};

/// An engine, and what a crossing has left to be asked for.
pub struct Engine {
    pub core: Core,
    /// The call that has begun last.
    pub begun: CallId,
    /// The calls that `wakes` has counted.
    pub woken: Vec<CallId>,
    /// Counts records, once somebody has asked for metrics.
    #[cfg(not(tidegate_small))]
    pub meter: Option<Meter>,
    /// Does anybody listen to records?
    #[cfg(not(tidegate_small))]
    pub heard: bool,
    /// What is being read page by page, by number.
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
}

impl Host {
    /// A part of the input, as text: what is no UTF-8 is replaced, which no key and no name has.
    pub fn text(&self, from: usize, to: usize) -> String {
        let to = to.min(self.input.len());
        let bytes = &self.input[from.min(to)..to];
        #[cfg(not(tidegate_small))]
        return String::from_utf8_lossy(bytes).into_owned();
        // SAFETY: `say` in ts/engine/native.ts alone writes the input, from a `TextEncoder`, which writes UTF-8 whatever it is given.
        #[cfg(tidegate_small)]
        unsafe {
            String::from_utf8_unchecked(bytes.to_vec())
        }
    }

    /// Takes an engine in: its handle.
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

/// Works with the texts.
pub fn host<T>(work: impl FnOnce(&mut Host) -> T) -> T {
    HOST.with_borrow_mut(work)
}

/// Works with an engine.
///
/// # Panics
/// A handle that names none is a mistake of the JavaScript half, and traps.
#[inline]
pub fn with<T>(engine: u32, work: impl FnOnce(&mut Engine) -> T) -> T {
    ENGINES.with_borrow_mut(|engines| match engines.get_mut(engine as usize) {
        Some(Some(engine)) => work(engine),
        _ => panic!("no engine has this handle"),
    })
}
