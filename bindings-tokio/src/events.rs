//! Events of an engine, one flat record each, for listeners (semantics 12.1).

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tidegate::fleet::Loss;
use tidegate::{CallId, Meter, Record, RecordType, Verdict, Wait};
use tokio::sync::{Semaphore, mpsc};

use crate::engine::{Engine, Shared};

/// One event of an engine. Fields that its type does not use are absent.
///
/// `Display` writes it as a log line.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct Event {
    /// The event's type.
    pub what: RecordType,
    /// Sequence number of all events of an engine, from 1 on; a gap means that events were dropped.
    pub seq: u64,
    /// The policy's name.
    pub policy: Option<Arc<str>>,
    /// The route's key.
    pub route: Option<Arc<str>>,
    /// The call that the event is about.
    pub call: Option<CallId>,
    /// The attempt, from 1 on; 0 if there is none. For the end of a call, the number of attempts that it made.
    pub attempt: u8,
    /// Whether the attempt is a hedge, started beside another one.
    pub hedge: bool,
    /// How the attempt ended, or what decided the call: the name of a class, or of a kind that the policy declares.
    pub kind: Option<Arc<str>>,
    /// Why a call ended or was refused.
    pub reason: Option<Verdict>,
    /// What a call waits for or waited for.
    pub why: Option<Wait>,
    /// Length of the wait that begins or that has ended.
    pub wait: Option<Duration>,
    /// Time since the call or the attempt began.
    pub elapsed: Option<Duration>,
    /// Refusals of the same kind that were left out since the one before.
    pub suppressed: u64,
    /// The rejection of this call was left out, so a log should leave this event out too.
    pub quiet: bool,
    /// The old and the new value. For a breaker 0 is closed, 1 open, 2 half-open; for a limit they are permits; for a
    /// throttle probabilities.
    pub change: Option<(f64, f64)>,
    /// For `store_degraded`: why the store counts as lost.
    pub loss: Option<Loss>,
}

impl Event {
    fn of(record: &Record, engine: &tidegate::Engine) -> Self {
        let policy = record.policy.and_then(|policy| engine.policy_of(policy));
        Self {
            what: record.what,
            seq: record.seq,
            policy: policy.map(|policy| policy.name().into()),
            route: record.route.and_then(|route| engine.key_of(route)).map(Into::into),
            call: record.call,
            attempt: record.attempt,
            hedge: record.hedge,
            kind: record.kind.and_then(|kind| match (kind.class(), policy) {
                (Some(class), _) => Some(class.name().into()),
                (None, Some(policy)) => policy.name_of(kind).map(Into::into),
                (None, None) => None,
            }),
            reason: record.verdict,
            why: record.why,
            wait: record.wait.map(crate::clock::std),
            elapsed: record.elapsed.map(crate::clock::std),
            suppressed: record.suppressed.into(),
            quiet: record.quiet,
            change: record.change,
            loss: record.loss,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let again = |f: &mut fmt::Formatter<'_>| match self.wait {
            Some(wait) => write!(f, ", another try makes sense in {wait:?}"),
            None => Ok(()),
        };
        match self.what {
            RecordType::RetryScheduled => {
                write!(f, "retry {}", self.attempt.saturating_sub(1))?;
                self.place(f)?;
                let after = self.kind.as_deref().unwrap_or("a failure");
                write!(f, " in {:?} after {after}", self.wait.unwrap_or_default())
            }
            RecordType::Rejected => {
                match self.attempt {
                    0 => f.write_str("call refused")?,
                    attempt => write!(f, "attempt {attempt} refused")?,
                }
                self.place(f)?;
                write!(f, ": {}", self.reason.map_or("", Verdict::name))?;
                again(f)?;
                match self.suppressed {
                    0 => Ok(()),
                    more => write!(f, ", and {more} like it before"),
                }
            }
            what => {
                f.write_str(&what.name().replace('_', " "))?;
                self.place(f)?;
                if let Some(reason) = self.reason {
                    write!(f, ": {}", reason.name())?;
                }
                if let Some(loss) = self.loss {
                    write!(f, ": {}", loss.name())?;
                }
                if let Some((from, to)) = self.breaker() {
                    return write!(f, ": {from} → {to}");
                }
                match self.change {
                    Some((from, to)) => write!(f, ": {from} → {to}"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// `Debug` writes the fields that are present, with names for a breaker's states and for the reason of a lost store.
impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut it = f.debug_struct("Event");
        it.field("what", &format_args!("{}", self.what.name())).field("seq", &self.seq);
        let mut text = |name: &str, text: Option<&str>| {
            if let Some(text) = text {
                it.field(name, &text);
            }
        };
        text("policy", self.policy.as_deref());
        text("route", self.route.as_deref());
        text("kind", self.kind.as_deref());
        text("reason", self.reason.map(Verdict::name));
        text("loss", self.loss.map(Loss::name));
        if let Some(call) = self.call {
            it.field("call", &call.to_word());
        }
        if self.attempt > 0 {
            it.field("attempt", &self.attempt);
        }
        if self.hedge {
            it.field("hedge", &true);
        }
        if let Some(why) = self.why {
            it.field("why", &why);
        }
        if let Some(wait) = self.wait {
            it.field("wait", &wait);
        }
        if let Some(elapsed) = self.elapsed {
            it.field("elapsed", &elapsed);
        }
        if self.suppressed > 0 {
            it.field("suppressed", &self.suppressed);
        }
        match (self.breaker(), self.change) {
            (Some((from, to)), _) => it.field("change", &format_args!("{from} → {to}")),
            (None, Some((from, to))) => it.field("change", &format_args!("{from} → {to}")),
            (None, None) => &mut it,
        }
        .finish_non_exhaustive()
    }
}

impl Event {
    /// For `breaker_changed`: the names of the old and the new state, `closed`, `open` or `half-open`.
    pub fn breaker(&self) -> Option<(&'static str, &'static str)> {
        let (from, to) = self.change.filter(|_| self.what == RecordType::BreakerChanged)?;
        let name = |state: f64| ["closed", "open", "half-open"][(state as usize).min(2)];
        Some((name(from), name(to)))
    }

    fn place(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.policy, &self.route) {
            (Some(policy), Some(route)) => write!(f, " (policy {policy}, route {route})"),
            (Some(policy), None) => write!(f, " (policy {policy})"),
            (None, Some(route)) => write!(f, " (pool {route})"),
            (None, None) => Ok(()),
        }
    }
}

type Callback = dyn Fn(&Event) + Send + Sync;

/// A subscription's function and its types.
struct Listener {
    number: u64,
    types: Vec<RecordType>,
    callback: Arc<Callback>,
}

/// The listeners of an engine.
#[derive(Default)]
pub(crate) struct Listeners {
    all: RwLock<Vec<Listener>>,
    numbers: AtomicU64,
    meter: Mutex<Option<Meter>>,
    scratch: Mutex<Vec<Record>>,
    /// What records spans for metrics: one listener, however often the engine's metrics are asked for.
    #[cfg(feature = "metrics")]
    pub spans: Mutex<std::sync::Weak<Subscription>>,
}

impl Listeners {
    /// Delivers pending events to the listeners. A listener that panics breaks nothing, and still gets later events.
    pub fn publish(&self, shared: &Shared) {
        let callbacks: Vec<_> = {
            let all = self.all.read();
            all.iter().map(|listener| (listener.types.clone(), Arc::clone(&listener.callback))).collect()
        };
        let events: Vec<Event> = {
            let mut scratch = self.scratch.lock();
            let mut meter = self.meter.lock();
            shared.look(|core, _| {
                if !core.listening || !core.engine.has_records() {
                    return Vec::new();
                }
                core.engine.take_records(&mut scratch);
                if let Some(meter) = &mut *meter {
                    scratch.iter().for_each(|record| meter.add(&core.engine, record));
                }
                let records = scratch.drain(..).filter(|_| !callbacks.is_empty());
                records.map(|record| Event::of(&record, &core.engine)).collect()
            })
        };
        for event in &events {
            for (_, callback) in callbacks.iter().filter(|(types, _)| types.contains(&event.what)) {
                let _ = catch_unwind(AssertUnwindSafe(|| callback(event)));
            }
        }
    }

    /// Sets the record types that the engine has to write: those that any listener or the meter needs.
    fn subscribe(&self, shared: &Shared) {
        // Held until the engine has the types. If two subscriptions change at once, the later update then includes
        // both.
        let all = self.all.read();
        let mut types: Vec<_> = all.iter().flat_map(|listener| listener.types.clone()).collect();
        if self.meter.lock().is_some() {
            types.extend_from_slice(Meter::TYPES);
        }
        shared.look(|core, _| {
            core.engine.subscribe_to(&types);
            core.listening = !types.is_empty();
        });
    }

    /// The label of a route in metrics.
    #[cfg(feature = "metrics")]
    pub fn label(&self, shared: &Shared, policy: &str, key: &str) -> String {
        let mut meter = self.meter.lock();
        let policy = shared.look(|core, _| core.engine.policy_named(policy));
        let label = meter.as_mut().zip(policy).map(|(meter, policy)| meter.label(policy, key));
        label.unwrap_or("other").to_owned()
    }

    /// Runs `work` with the meter, which is made if there is none, and the engine.
    #[cfg(feature = "metrics")]
    pub fn metered<R>(
        &self,
        shared: &Shared,
        max_routes: usize,
        work: impl FnOnce(&mut Meter, &tidegate::Engine, tidegate::Time) -> R,
    ) -> R {
        self.publish(shared);
        let new = {
            let mut meter = self.meter.lock();
            let new = meter.is_none();
            meter.get_or_insert_with(|| Meter::new(max_routes));
            new
        };
        if new {
            self.subscribe(shared);
        }
        let mut meter = self.meter.lock();
        let meter = meter.get_or_insert_with(|| Meter::new(max_routes));
        shared.look(|core, now| work(meter, &core.engine, now))
    }
}

/// A subscription to events. Dropping it ends it and its listener.
#[must_use = "a subscription ends when it is dropped"]
pub struct Subscription {
    /// The engine; `None` for a listener that stays.
    shared: Option<Arc<Shared>>,
    number: u64,
}

impl Subscription {
    /// Keeps the listener for as long as the engine lives.
    pub fn forever(mut self) {
        // The listener is the engine's, which this must not keep alive.
        self.shared = None;
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let Some(shared) = &self.shared else { return };
        let ended: Vec<_> = {
            let mut all = shared.listeners.all.write();
            all.extract_if(.., |listener| listener.number == self.number).collect()
        };
        drop(ended); // without the lock: a listener may hold another subscription
        shared.listeners.subscribe(shared);
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Events in a queue: see [`Engine::events`].
#[derive(Debug)]
pub struct Events {
    queue: mpsc::Receiver<Event>,
    _subscription: Subscription,
}

impl Events {
    /// Waits for the next event. Cancel-safe.
    pub async fn next(&mut self) -> Option<Event> {
        self.queue.recv().await
    }

    /// The next event, if there is one already.
    pub fn try_next(&mut self) -> Option<Event> {
        self.queue.try_recv().ok()
    }
}

impl Engine {
    /// Calls `listener` with each event of these types until the subscription is dropped. `RecordType::ALL` selects all
    /// types.
    ///
    /// The listener runs in the task of the call that caused the event, before that call continues, so it should be
    /// quick. A listener that panics breaks nothing. Types without a listener cost nothing.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// use tidegate_tokio::settings::Preset;
    /// use tidegate_tokio::{Engine, Policy, RecordType};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let engine = Engine::new(7);
    /// let policy = Policy::builder("shop").preset(Preset::Http).engine(&engine).build().unwrap();
    /// let heard = Arc::new(Mutex::new(Vec::new()));
    /// let lines = Arc::clone(&heard);
    /// let subscription = engine.listen(&[RecordType::RetryScheduled, RecordType::GaveUp], move |event| {
    ///     lines.lock().unwrap().push(event.to_string());
    /// });
    /// let broken = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    /// let _ = policy.run(|_| async { Err::<(), _>(broken()) }).await;
    /// drop(subscription);
    /// assert_eq!(heard.lock().unwrap().len(), 3);
    /// assert_eq!(heard.lock().unwrap()[2], "gave up (policy shop, route default): attempts");
    /// # }
    /// ```
    pub fn listen(
        &self,
        types: &[RecordType],
        listener: impl Fn(&Event) + Send + Sync + 'static,
    ) -> Subscription {
        let listeners = &self.shared.listeners;
        let number = listeners.numbers.fetch_add(1, Ordering::Relaxed);
        listeners.all.write().push(Listener { number, types: types.to_vec(), callback: Arc::new(listener) });
        listeners.subscribe(&self.shared);
        Subscription { shared: Some(Arc::clone(&self.shared)), number }
    }

    /// Delivers events through a queue of at most `capacity` events (at least one). Events that arrive while it is full
    /// are dropped, and the gap in `seq` shows how many: a slow reader delays no call.
    ///
    /// ```
    /// use tidegate_tokio::settings::Preset;
    /// use tidegate_tokio::{Engine, Policy, RecordType};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let engine = Engine::new(7);
    /// let policy = Policy::builder("shop").preset(Preset::Http).engine(&engine).build().unwrap();
    /// let mut events = engine.events(RecordType::ALL, 100);
    /// policy.run(|_| async { Ok::<_, std::io::Error>(()) }).await.unwrap();
    /// assert_eq!(events.next().await.unwrap().what, RecordType::AttemptStarted);
    /// assert_eq!(events.next().await.unwrap().what, RecordType::AttemptDone);
    /// assert_eq!(events.next().await.unwrap().what, RecordType::CallDone);
    /// assert!(events.try_next().is_none());
    /// # }
    /// ```
    pub fn events(&self, types: &[RecordType], capacity: usize) -> Events {
        let (sender, queue) = mpsc::channel(capacity.clamp(1, Semaphore::MAX_PERMITS));
        let subscription = self.listen(types, move |event| {
            let _ = sender.try_send(event.clone());
        });
        Events { queue, _subscription: subscription }
    }
}
