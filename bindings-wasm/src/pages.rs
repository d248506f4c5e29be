//! Page-by-page reading, so that the event loop can run between two pages (ADR 0022).

use tidegate::{Engine as Core, Meter, ReadPages, RouteView, SavePages, SavedPart, SnapshotPages};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::host::{Engine, with};
use crate::texts::texts;
use crate::{json, meter, time};

/// The number of routes of a snapshot, or series, that one page writes as JSON; each takes about 10 µs.
const WRITTEN: usize = 16;

/// A reading in progress.
#[expect(clippy::large_enum_variant, reason = "a host has one reader at a time")]
pub enum Reader {
    /// With the routes that have been read and not yet written.
    Snapshot(SnapshotPages, Vec<RouteView>),
    /// With whether all pages have been saved.
    Save(SavePages, bool),
    /// With whether all pages have been read.
    Series(ReadPages, bool),
}

/// Begins to read the snapshot (0), the state to be saved (1) or the series (2). Returns the reader's number, for `page`.
#[wasm_bindgen]
pub fn pages(engine: u32, what: u32) -> u32 {
    let reader = match what {
        0 => Reader::Snapshot(SnapshotPages::default(), Vec::new()),
        1 => Reader::Save(SavePages::default(), false),
        _ => Reader::Series(ReadPages::default(), false),
    };
    with(engine, |it| it.readers.add(reader))
}

/// Reads or writes the next page, and returns whether there is another. The output has the page's JSON, or nothing: a list of
/// routes or of series, and at the end (except for series) an object with everything else. The last page removes the reader.
#[wasm_bindgen]
pub fn page(engine: u32, reader: u32, now: f64) -> u32 {
    let (text, more) = with(engine, |it| {
        let Engine { core, meter, readers, .. } = it;
        let Some(reading) = readers.get(reader) else { return (String::new(), false) };
        let (text, more) = reading.page(core, meter.as_mut(), now);
        if !more {
            readers.remove(reader);
        }
        (text, more)
    });
    texts(|it| it.output = text);
    more.into()
}

impl Reader {
    fn page(&mut self, core: &Core, meter: Option<&mut Meter>, now: f64) -> (String, bool) {
        let now = time(now);
        match self {
            Self::Snapshot(pages, routes) => {
                if routes.is_empty() {
                    if !core.snapshot_page(pages, now) {
                        return (json::snapshot(&std::mem::take(pages).finish()), false);
                    }
                    *routes = pages.take_routes();
                    return (String::new(), true);
                }
                let written = routes.len().min(WRITTEN);
                (json::routes(&routes.drain(..written).collect::<Vec<_>>()), true)
            }
            Self::Save(pages, done) => {
                if !*done {
                    *done = !core.save_page(pages, now);
                    return (String::new(), true);
                }
                match pages.take_part() {
                    Some(SavedPart::Routes(list)) => (list, true),
                    Some(SavedPart::Rest(rest)) => (rest, false),
                    None => (String::new(), false),
                }
            }
            Self::Series(pages, done) => {
                let some = pages.take(WRITTEN);
                if !some.is_empty() {
                    return (meter::listed(&some), true);
                }
                if *done {
                    return (String::new(), false);
                }
                *done = !meter.is_some_and(|meter| meter.read_page(core, pages, now));
                (String::new(), true)
            }
        }
    }
}
