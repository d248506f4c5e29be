//! Exports metrics to the facade `metrics`, with the names and labels of `docs/telemetry.md`.

use std::fmt;
use std::sync::Arc;

use metrics::{Label, SharedString, Unit, counter, gauge, histogram};
use tidegate::{Family, Instrument, Meter, Reading, Timed};

use crate::engine::{Engine, Shared};
use crate::events::{Event, Subscription};

/// Exports an engine's metrics to the recorder of the facade `metrics`: see [`Engine::metrics`]. Dropping it ends the
/// export.
#[must_use = "nothing is measured once it is dropped"]
pub struct Metrics {
    shared: Arc<Shared>,
    max_routes: usize,
    _spans: Arc<Subscription>,
}

impl Engine {
    /// Starts to count for the facade `metrics`. The first `max_routes` routes of each policy have their own series;
    /// the others share `other`. The engine's first caller of this function decides the number.
    ///
    /// Histograms are recorded when events happen. Counters and gauges are counted in the engine and exported by
    /// [`Metrics::publish`].
    ///
    /// ```
    /// use tidegate_tokio::Engine;
    /// let metrics = Engine::shared().metrics(20);
    /// // In the handler of a scrape, or every few seconds:
    /// metrics.publish();
    /// ```
    pub fn metrics(&self, max_routes: usize) -> Metrics {
        for family in Family::ALL {
            let (name, meaning) = (family.name(), family.meaning());
            let seconds = name.trim_end_matches("_total").ends_with("_seconds");
            let unit = if seconds { Unit::Seconds } else { Unit::Count };
            match family.instrument() {
                Instrument::Counter => metrics::describe_counter!(name, unit, meaning),
                Instrument::Gauge => metrics::describe_gauge!(name, unit, meaning),
                Instrument::Histogram => metrics::describe_histogram!(name, unit, meaning),
            }
        }
        let shared = Arc::clone(&self.shared);
        self.shared.listeners.metered(&self.shared, max_routes, |_, _, _| ());
        let weak = Arc::downgrade(&self.shared);
        let types: Vec<_> = Timed::ALL.iter().map(|timed| timed.what).collect();
        let mut one = self.shared.listeners.spans.lock();
        let spans = one.upgrade().unwrap_or_else(|| {
            let listens = move |event: &Event| {
                if let Some(shared) = weak.upgrade() {
                    span(&shared, event);
                }
            };
            Arc::new(self.listen(&types, listens))
        });
        *one = Arc::downgrade(&spans);
        drop(one);
        Metrics { shared, max_routes, _spans: spans }
    }
}

/// Records the span that an event has for a histogram.
fn span(shared: &Shared, event: &Event) {
    let Some(Timed { waits, family, .. }) = Timed::of(event.what, event.why) else { return };
    let value = if waits { event.wait } else { event.elapsed };
    let (Some(value), Some(policy)) = (value, &event.policy) else { return };
    let route = shared.listeners.label(shared, policy, event.route.as_deref().unwrap_or_default());
    let labels =
        vec![Label::new("policy", SharedString::from(Arc::clone(policy))), Label::new("route", route)];
    histogram!(family.name(), labels).record(value);
}

impl Metrics {
    /// Exports the current values of counters and gauges.
    pub fn publish(&self) {
        let listeners = &self.shared.listeners;
        let all = listeners.metered(&self.shared, self.max_routes, Meter::read);
        for series in all {
            let names = series.family.labels().iter().copied().zip(series.labels);
            let own = names.map(|(name, value)| Label::new(name, value));
            let labels: Vec<_> = [Label::new("policy", series.policy), Label::new("route", series.route)]
                .into_iter()
                .chain(own)
                .collect();
            let name = series.family.name();
            match (series.family.instrument(), series.reading) {
                (Instrument::Counter, Reading::Number(value)) => {
                    counter!(name, labels).absolute(value as u64);
                }
                (Instrument::Gauge, Reading::Number(value)) => gauge!(name, labels).set(value),
                // Recorded when the events happened.
                (Instrument::Histogram, _) | (_, Reading::Histogram { .. }) => {}
            }
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("max_routes", &self.max_routes).finish_non_exhaustive()
    }
}
