//! Figures to the facade `metrics`, under the names and labels of `docs/telemetry.md`.

use std::fmt;
use std::sync::Arc;

use metrics::{Label, SharedString, Unit, counter, gauge, histogram};
use tidegate::{Family, Instrument, Meter, Reading, RecordType, Wait};

use crate::engine::{Engine, Shared};
use crate::events::{Event, Subscription};

/// An engine whose figures go to the recorder of the facade `metrics`: see [`Engine::metrics`]. Ends when it is dropped.
#[must_use = "nothing is measured once it is dropped"]
pub struct Metrics {
    shared: Arc<Shared>,
    max_routes: usize,
    _spans: Subscription,
}

impl Engine {
    /// Counts for the facade `metrics` from now on; the first `max_routes` routes of each policy have series of their own, the others
    /// share `other`. Of one engine the first to ask decides how many.
    ///
    /// Histograms are told as things happen; counters and levels are counted in the engine, and told by [`Metrics::publish`].
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
            let unit = if name.ends_with("_seconds") { Unit::Seconds } else { Unit::Count };
            match family.instrument() {
                Instrument::Counter => metrics::describe_counter!(name, unit, meaning),
                Instrument::Gauge => metrics::describe_gauge!(name, unit, meaning),
                Instrument::Histogram => metrics::describe_histogram!(name, unit, meaning),
            }
        }
        let shared = Arc::clone(&self.shared);
        self.shared.listeners.metered(&self.shared, max_routes, |_, _, _| ());
        let weak = Arc::downgrade(&self.shared);
        let spans = self.listen(&[RecordType::CallDone, RecordType::Granted], move |event| {
            if let Some(shared) = weak.upgrade() {
                span(&shared, event);
            }
        });
        Metrics { shared, max_routes, _spans: spans }
    }
}

/// A call's length, or how long it waited for a permit.
fn span(shared: &Shared, event: &Event) {
    let (family, value) = match (event.what, event.why) {
        (RecordType::CallDone, _) => (Family::CallDuration, event.elapsed),
        (RecordType::Granted, Some(Wait::Queue)) => (Family::AcquireLatency, event.wait),
        _ => return,
    };
    let (Some(value), Some(policy)) = (value, &event.policy) else { return };
    let route = shared.listeners.label(shared, policy, event.route.as_deref().unwrap_or_default());
    let labels =
        vec![Label::new("policy", SharedString::from(Arc::clone(policy))), Label::new("route", route)];
    histogram!(family.name(), labels).record(value);
}

impl Metrics {
    /// Tells counters and levels as they are now.
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
                // Told as they came.
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
