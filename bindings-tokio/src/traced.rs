//! Forwards events to `tracing`.

use tidegate::{RecordType, Verdict, Wait};
use tracing::Level;

use crate::engine::Engine;
use crate::events::{Event, Subscription};

impl Engine {
    /// Writes events of these types to `tracing` under the target `tidegate`, in the span of their call's task, until
    /// the subscription is dropped. Events contain names and numbers only: no URLs, no error texts.
    ///
    /// Refusals, calls without success and breaker changes are warnings; retries and limit changes are infos; events of
    /// every call are debug. Refusals of one kind on one route are written once a second, with a count.
    ///
    /// ```
    /// use tidegate_tokio::{Engine, RecordType};
    /// let subscription = Engine::shared().trace(RecordType::ALL);
    /// # drop(subscription);
    /// ```
    pub fn trace(&self, types: &[RecordType]) -> Subscription {
        self.listen(types, write)
    }
}

fn write(event: &Event) {
    if event.quiet {
        return;
    }
    macro_rules! at {
        ($level:expr) => {
            tracing::event!(
                target: "tidegate",
                $level,
                r#type = event.what.name(),
                policy = event.policy.as_deref(),
                route = event.route.as_deref(),
                call = event.call.map(tidegate::CallId::to_word),
                attempt = (event.attempt > 0).then_some(event.attempt),
                hedge = event.hedge.then_some(true),
                kind = event.kind.as_deref(),
                reason = event.reason.map(Verdict::name),
                why = event.why.map(Wait::name),
                wait_s = event.wait.map(|span| span.as_secs_f64()),
                elapsed_s = event.elapsed.map(|span| span.as_secs_f64()),
                suppressed = (event.suppressed > 0).then_some(event.suppressed),
                from = event.change.map(|change| change.0),
                to = event.change.map(|change| change.1),
                "{event}"
            )
        };
    }
    match level(event.what) {
        Level::WARN => at!(Level::WARN),
        Level::INFO => at!(Level::INFO),
        _ => at!(Level::DEBUG),
    }
}

const fn level(what: RecordType) -> Level {
    match what {
        RecordType::GaveUp
        | RecordType::Rejected
        | RecordType::Shed
        | RecordType::StreamStalled
        | RecordType::BreakerChanged
        | RecordType::DeadlineExceeded
        | RecordType::LeaseReclaimed
        | RecordType::StoreDegraded
        | RecordType::ForcedOpen => Level::WARN,
        RecordType::RetryScheduled
        | RecordType::RetrySuppressed
        | RecordType::LimitChanged
        | RecordType::ThrottleChanged
        | RecordType::HoldChanged
        | RecordType::CooldownChanged
        | RecordType::StoreRecovered
        | RecordType::PolicyRetuned
        | RecordType::ForcedCleared
        | RecordType::Fallback => Level::INFO,
        RecordType::CallDone
        | RecordType::AttemptStarted
        | RecordType::AttemptDone
        | RecordType::Queued
        | RecordType::Granted
        | RecordType::HedgeStarted
        | RecordType::HedgeWon
        | RecordType::StreamDelivered => Level::DEBUG,
    }
}
