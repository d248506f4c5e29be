//! An engine behind its one lock, and what the shell keeps beside it: wakers of waiting calls, a clock, listeners.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use rand::TryRng as _;
use rand::rngs::SysRng;
use tidegate::{
    Action, Answer, CallExplanation, CallId, Clash, Event, Flags, Input, Link, Options, PolicyId, Pool,
    Request, RestoreError, Restored, RouteId, SavePages, Snapshot, SnapshotPages, Step, Time, Verdict, Wait,
};
use tokio::time::Instant;

use crate::clock::{self, Clock};
use crate::error::JournalError;
use crate::events::Listeners;
use crate::lock::Lock;
use crate::policy::Handles;
use crate::weights::{self, Weights};

/// Records about calls with trouble that an engine keeps by default.
const HISTORY: u32 = 512;

/// Holds everything that policies share: routes, permits, budgets. A process has one by default. Clones are the same
/// engine.
///
/// Its time is tokio's: under `start_paused` the test's clock drives every wait. Calls of one engine may live in
/// several runtimes.
///
/// ```
/// use tidegate_tokio::settings::Preset;
/// use tidegate_tokio::{Engine, Policy};
/// let engine = Engine::new(7);
/// let policy = Policy::builder("shop").preset(Preset::Http).engine(&engine).build().unwrap();
/// assert_eq!(engine.snapshot().policies[0].0, "shop");
/// assert_eq!(policy.name(), "shop");
/// ```
#[derive(Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    core: Lock<Core>,
    clock: Clock,
    /// Identifies the engine where calls of several engines are nested; from 1 on.
    pub number: u64,
    pub listeners: Listeners,
    /// What is made of each policy, so that new settings reach all of it.
    pub handles: Handles,
    #[cfg(feature = "fleet")]
    pub link: OnceLock<crate::fleet::Link>,
}

/// The data behind the lock.
pub(crate) struct Core {
    pub engine: tidegate::Engine,
    /// Wakers of waiting calls.
    waiters: BTreeMap<CallId, Waker>,
    /// Wakers of calls that can proceed, until a task that does not hold the lock wakes them.
    ready: Vec<Waker>,
    ids: Vec<CallId>,
    /// Whether any listener is subscribed.
    pub listening: bool,
}

impl Core {
    /// Reports the wall clock, where limits refill by its windows.
    #[inline]
    fn note_wall(&mut self, now: Time) {
        if self.engine.needs_wall() {
            self.engine.note_wall(clock::wall(), now);
        }
    }

    /// Collects the work that a step leaves for after the lock: wakers, store commands and events. Returns true if
    /// there is any.
    #[inline]
    pub fn after(&mut self, flags: Flags) -> bool {
        if !flags.wakes && !flags.commands && !self.listening {
            return false;
        }
        self.collect(flags)
    }

    #[inline(never)]
    fn collect(&mut self, flags: Flags) -> bool {
        if flags.wakes {
            self.engine.take_wakes(&mut self.ids);
            for id in self.ids.drain(..) {
                self.ready.extend(self.waiters.remove(&id));
            }
        }
        flags.commands || !self.ready.is_empty() || (self.listening && self.engine.has_records())
    }
}

/// The engine's reply to an event: a step, the moment from which its span counts, and whether it leaves work for other calls, the
/// store or listeners.
#[derive(Clone, Copy)]
pub(crate) struct Reply {
    pub step: Step,
    pub at: Instant,
    pub others: bool,
}

impl Shared {
    fn new(seed: u64, options: Options) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        Self {
            core: Lock::new(Core {
                engine: tidegate::Engine::new(seed, options.weights(true).quotas(true).wall_clock(true)),
                waiters: BTreeMap::new(),
                ready: Vec::new(),
                ids: Vec::new(),
                listening: false,
            }),
            clock: Clock::new(),
            number: NUMBERS.fetch_add(1, Ordering::Relaxed),
            listeners: Listeners::default(),
            handles: Handles::default(),
            #[cfg(feature = "fleet")]
            link: OnceLock::new(),
        }
    }

    /// Begins a call on a route. Looks the route up again if the engine has evicted it.
    #[inline]
    pub fn begin(
        &self,
        route: &AtomicU64,
        to: (PolicyId, &str),
        request: &mut Request,
        (path, ends): (Option<&str>, Option<Instant>),
        weights: Option<&Weights>,
    ) -> (CallId, Reply) {
        let (now, at) = self.clock.now();
        if let Some(ends) = ends {
            let left = clock::span(ends.saturating_duration_since(at));
            request.remaining = Some(request.remaining.map_or(left, |own| own.min(left)));
        }
        let mut call = CallId::from_word(0);
        let step = self.begin_at(now, route, to, request, (path, weights), &mut call);
        (call, Reply { step, at, others: step.flags().wakes })
    }

    /// Begins a call at this moment. The step's flag `wakes` tells whether there is work for other calls, the store or listeners; a third
    /// value in the result would be returned through memory (ADR 0082).
    fn begin_at(
        &self,
        now: Time,
        route: &AtomicU64,
        (policy, key): (PolicyId, &str),
        request: &mut Request,
        (path, weights): (Option<&str>, Option<&Weights>),
        call: &mut CallId,
    ) -> Step {
        let mut core = self.core.lock();
        core.note_wall(now);
        loop {
            // Relaxed: the word is a hint; the engine answers `StaleRoute` to a stale one.
            let mut id = RouteId::from_word(route.load(Ordering::Relaxed));
            if id.to_word() == 0 {
                id = core.engine.route(policy, key, now);
                route.store(id.to_word(), Ordering::Relaxed);
            }
            if let Some(path) = path {
                request.path = core.engine.path_id(id, path, now);
            }
            let (id, step) = match weights {
                None => core.engine.begin(id, request, now),
                Some(weights) => weights::begin(&mut core.engine, id, request, weights, now),
            };
            if !step.ends_with(Verdict::StaleRoute) {
                *call = id;
                return step.with_wakes(core.after(step.flags()));
            }
            route.store(0, Ordering::Relaxed);
        }
    }

    /// Gives the engine an event of a call that is not waiting. If the step is a wait that ends by a wake, no waker is
    /// registered yet.
    #[inline]
    pub fn say(&self, call: CallId, event: Event) -> Reply {
        let (now, at) = self.clock.now();
        let step = self.say_at(now, call, event);
        Reply { step, at, others: step.flags().wakes }
    }

    /// Gives the engine an event at this moment. The flag `wakes` means what it means in [`begin_at`](Self::begin_at).
    fn say_at(&self, now: Time, call: CallId, event: Event) -> Step {
        let mut core = self.core.lock();
        let step = core.engine.on(call, event, now);
        step.with_wakes(core.after(step.flags()))
    }

    /// Gives the engine an event of a call. If the step is a wait that ends by a wake, `waker` is registered under the
    /// same lock; otherwise the waker of a `parked` call is removed.
    #[inline]
    pub fn advance(&self, call: CallId, event: Event, waker: Option<&Waker>, parked: bool) -> Reply {
        let (now, at) = self.clock.now();
        let mut core = self.core.lock();
        let step = core.engine.on(call, event, now);
        let before = match (step.action(), waker) {
            (Action::Wait { why }, Some(waker)) if wakes(why) => core.waiters.insert(call, waker.clone()),
            _ if parked => core.waiters.remove(&call),
            _ => None,
        };
        let others = core.after(step.flags());
        drop(core);
        drop(before); // without the lock: the waker may be the last reference to its task
        Reply { step, at, others }
    }

    /// Runs `work` on the engine, then wakes the calls that it lets proceed.
    pub fn with<R>(&self, work: impl FnOnce(&mut Core, Time) -> (R, Flags)) -> R {
        let (now, _) = self.clock.now();
        let mut core = self.core.lock();
        let (result, flags) = work(&mut core, now);
        let others = core.after(flags);
        drop(core);
        if others {
            self.tend();
        }
        result
    }

    /// Runs `look` on the engine, for work that lets no waiting call proceed.
    pub fn look<R>(&self, look: impl FnOnce(&mut Core, Time) -> R) -> R {
        let (now, _) = self.clock.now();
        look(&mut self.core.lock(), now)
    }

    /// The moment of a live call's deadline; `None` without one.
    #[cold]
    pub fn end_of(&self, call: CallId) -> Option<Instant> {
        let (now, at) = self.clock.now();
        let left = self.core.lock().engine.time_left(call, now).call?;
        Some(clock::after(at, left))
    }

    /// Wakes calls that can proceed, sends store commands and delivers events to listeners. Must run without the lock.
    #[inline(never)]
    pub fn tend(&self) {
        loop {
            let mut batch = [const { None }; 8];
            let more = {
                let mut core = self.core.lock();
                let count = core.ready.len().min(batch.len());
                for (place, waker) in batch.iter_mut().zip(core.ready.drain(..count)) {
                    *place = Some(waker);
                }
                !core.ready.is_empty()
            };
            batch.into_iter().flatten().for_each(Waker::wake);
            if !more {
                break;
            }
        }
        #[cfg(feature = "fleet")]
        self.carry();
        self.listeners.publish(self);
    }

    /// Sends the engine's pending commands to the store.
    #[cfg(feature = "fleet")]
    fn carry(&self) {
        let Some(link) = self.link.get() else { return };
        let mut commands = Vec::new();
        self.core.lock().engine.take_commands(&mut commands);
        for command in commands {
            link.carry(command);
        }
    }
}

/// Engines by their numbers. Reports hold a number only, so a copied report keeps no engine alive.
static NUMBERED: Mutex<BTreeMap<u64, Weak<Shared>>> = Mutex::new(BTreeMap::new());

/// The engine of this number, if it still exists.
pub(crate) fn numbered(number: u64) -> Option<Arc<Shared>> {
    NUMBERED.lock().get(&number)?.upgrade()
}

impl Drop for Shared {
    fn drop(&mut self) {
        NUMBERED.lock().remove(&self.number);
    }
}

/// Whether another call's event can end this wait.
pub(crate) const fn wakes(why: Wait) -> bool {
    match why {
        Wait::Hold | Wait::Rate | Wait::Queue | Wait::Store | Wait::Cooldown | Wait::Target => true,
        Wait::Running | Wait::Backoff | Wait::Body => false,
    }
}

impl Engine {
    /// A separate engine, for a test or for an upstream that shares nothing. The seed is its only source of randomness.
    /// It keeps a history of 512 records about calls with trouble (70 kB), which [`Error::explain`](crate::Error::explain)
    /// reads.
    pub fn new(seed: u64) -> Self {
        Self::with_options(seed, Options::default().history(HISTORY))
    }

    /// A separate engine with options, such as a bound on routes or a journal. `Options::default()` keeps no history; add
    /// [`Options::history`] to explain calls that have ended.
    pub fn with_options(seed: u64, options: Options) -> Self {
        let shared = Arc::new(Shared::new(seed, options));
        NUMBERED.lock().insert(shared.number, Arc::downgrade(&shared));
        Self { shared }
    }

    /// The engine of the process, made at its first use, with a seed from the operating system.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Engine> = OnceLock::new();
        SHARED.get_or_init(|| Self::new(random()))
    }

    /// Adds a pool or a group of targets, which policies made afterwards can name. Adding the same name with the same settings again changes
    /// nothing.
    ///
    /// # Errors
    /// The engine has a pool of this name with other settings or of another kind.
    pub fn pool(&self, pool: Pool) -> Result<(), Clash> {
        self.shared.with(|core, now| (core.engine.pool(pool, now), Flags::default()))
    }

    /// Changes the settings of a pool while it is in use.
    ///
    /// # Errors
    /// The engine has no pool of this name, or it is of another kind.
    pub fn retune_pool(&self, to: Pool) -> Result<(), Clash> {
        self.shared.with(|core, now| match core.engine.retune_pool(to, now) {
            Ok(flags) => (Ok(()), flags),
            Err(clash) => (Err(clash), Flags::default()),
        })
    }

    /// Adds all pools, groups of targets and policies of a document, in the order of their names.
    ///
    /// # Errors
    /// The engine has one of these names with other settings. Names before it have been added.
    #[cfg(feature = "documents")]
    pub fn load(&self, document: &tidegate::Document) -> Result<Vec<crate::Policy>, crate::BuildError> {
        for pool in document.pools() {
            self.pool(pool.clone())?;
        }
        document.policies().map(|policy| crate::Policy::new_in(self, policy.clone())).collect()
    }

    /// Adds all pools and policies of a document that may be replaced by newer versions later:
    /// [`Policies::reload`](crate::Policies::reload).
    ///
    /// # Errors
    /// As [`load`](Self::load).
    #[cfg(feature = "documents")]
    pub fn policies(&self, document: tidegate::Document) -> Result<crate::Policies, crate::BuildError> {
        crate::Policies::new(self, document)
    }

    /// Reads the state of the engine: calls, waiters, and the counts of each policy, route and pool. It is read in
    /// pages, and calls may run between two pages, so only each route by itself is consistent.
    pub fn snapshot(&self) -> Snapshot {
        let mut pages = SnapshotPages::default();
        while self.shared.look(|core, now| core.engine.snapshot_page(&mut pages, now)) {}
        pages.finish()
    }

    /// Explains why a call waits, or why it ended as it did, with the numbers used. Events carry the call's id
    /// ([`Event::call`](crate::Event::call)). A call that has ended is found in the history ([`Options::history`]) if it
    /// did not just work, or in a journal: the engine must be made with [`Options::journal`], and the journal must
    /// neither have grown past 100,000 inputs ([`Options::journal_limit`]) nor have been taken.
    ///
    /// ```
    /// use tidegate_tokio::settings::Preset;
    /// use tidegate_tokio::{Engine, Options, Policy, RecordType};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let engine = Engine::with_options(7, Options::default().journal(true));
    /// let policy = Policy::builder("shop").preset(Preset::Http).engine(&engine).build().unwrap();
    /// let mut events = engine.events(&[RecordType::CallDone], 10);
    /// policy.run(|_| async { Ok::<_, std::io::Error>(()) }).await.unwrap();
    /// let call = events.next().await.unwrap().call.unwrap();
    /// let explained = engine.explain(call).expect("the journal has it").to_string();
    /// assert!(explained.contains("ended as ok"), "{explained}");
    /// assert!(engine.take_journal().lines.iter().any(|line| line.starts_with("begin ")));
    /// assert!(engine.explain(call).is_none(), "the journal has been taken");
    /// # }
    /// ```
    pub fn explain(&self, call: CallId) -> Option<CallExplanation> {
        self.shared.look(|core, _| core.engine.explain_call(call))
    }

    /// Takes the journal of an engine that was made with [`Options::journal`]: its inputs since the last time, one line
    /// each, oldest first. It keeps at most the last 100,000 inputs ([`Options::journal_limit`]); take it more often to
    /// get all.
    pub fn take_journal(&self) -> Journal {
        self.shared.look(|core, _| {
            let mut inputs = Vec::new();
            core.engine.take_journal(&mut inputs);
            let (dropped, inputs) = match inputs.split_first() {
                Some((Input::Dropped { count }, rest)) => (*count, rest),
                _ => (0, &inputs[..]),
            };
            Journal { lines: inputs.iter().map(ToString::to_string).collect(), dropped }
        })
    }

    /// Feeds the lines of a journal, written in any language, to the engine, and returns the engine's answer to each. A
    /// new engine with the same seed and `max_routes` as the journal's makes the same decisions. Use it for
    /// explanations and tests, not for calls: its time is the journal's from then on.
    ///
    /// ```
    /// use tidegate_tokio::{Engine, Options};
    /// let journal = r#"policy "shop" preset="http"
    /// route 0 0 "eu"
    /// begin 5 1048576 190 - - 0"#;
    /// let again = Engine::with_options(7, Options::default().journal(true));
    /// let answers = again.replay(journal.lines()).unwrap();
    /// assert_eq!(format!("{:?}", answers[1]), "Route(RouteId(1048576))");
    /// assert_eq!(again.snapshot().live, 1);
    /// ```
    ///
    /// # Errors
    /// The first line that is not a journal line. No line has been applied then.
    pub fn replay(
        &self,
        lines: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Vec<Answer>, JournalError> {
        let parsed = lines.into_iter().enumerate().map(|(place, line)| {
            let line = line.as_ref();
            line.parse().map_err(|error| JournalError { line: place + 1, text: line.to_owned(), error })
        });
        let inputs = parsed.collect::<Result<Vec<Input>, _>>()?;
        Ok(self.shared.look(|core, _| core.engine.replay(inputs)))
    }

    /// Tells the engine the state of the device's link to its networks, as the platform reports it. The first state is
    /// [`Link::Ok`].
    ///
    /// While the link is [`Link::Offline`], first attempts still start, retries and hedges wait until it is back (at
    /// most until the deadline or `retry_time_limit`; without both, `max_retry_after` after the failure), and what fails to connect
    /// is no evidence for a breaker. Then they start within a second, spread evenly. While it is [`Link::Metered`], no
    /// hedges start.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate_tokio::settings::Preset;
    /// use tidegate_tokio::{Engine, Link, Policy};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let engine = Engine::new(7);
    /// let policy = Policy::builder("shop").preset(Preset::Http).engine(&engine).build().unwrap();
    /// engine.set_link(Link::Offline);
    /// let back = tokio::spawn({
    ///     let engine = engine.clone();
    ///     async move {
    ///         tokio::time::sleep(Duration::from_secs(20)).await;
    ///         engine.set_link(Link::Ok);
    ///     }
    /// });
    /// let failed = || std::io::Error::from(std::io::ErrorKind::NetworkUnreachable);
    /// let answer = policy.run(|attempt| async move { if attempt.number == 1 { Err(failed()) } else { Ok(7) } }).await;
    /// assert_eq!(answer.unwrap(), 7);
    /// # back.await.unwrap();
    /// # }
    /// ```
    pub fn set_link(&self, link: Link) {
        self.shared.look(|core, now| core.engine.set_link(link, now));
    }

    /// Grants every retry without asking its budget while `on`, for tests that need a certain number of attempts. Such
    /// a retry costs nothing. Budgets still count calls and answers, and decide again once this is off.
    ///
    /// ```
    /// use tidegate_tokio::settings::{Preset, Retry};
    /// use tidegate_tokio::{Engine, Policy};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let engine = Engine::new(7);
    /// let policy = Policy::builder("shop").preset(Preset::Http).retry(Retry::new().max_attempts(9)).engine(&engine).build().unwrap();
    /// engine.lift_budgets(true);
    /// let mut attempts = 0;
    /// let failed = || std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    /// policy.run(|_| { attempts += 1; async move { Err::<(), _>(failed()) } }).await.unwrap_err();
    /// assert_eq!(attempts, 9);
    /// # }
    /// ```
    pub fn lift_budgets(&self, on: bool) {
        self.shared.look(|core, _| core.engine.lift_budgets(on));
    }

    /// Saves the learned state (budgets, limits, breakers, throttles) as JSON for [`Engine::restore`].
    pub fn save(&self) -> String {
        let mut pages = SavePages::default();
        while self.shared.look(|core, now| core.engine.save_page(&mut pages, now)) {}
        pages.finish()
    }

    /// Restores a saved state that is `age` old. Call it after the policies and pools have been made, and before the
    /// first call.
    ///
    /// # Errors
    /// The text is not a saved state, or the engine has begun calls. Nothing has changed then.
    pub fn restore(&self, saved: &str, age: Duration) -> Result<Restored, RestoreError> {
        self.shared.look(|core, now| {
            core.note_wall(now);
            core.engine.restore(saved, clock::span(age), now)
        })
    }

    /// Checks the engine's invariants, for tests: permits are conserved, capacities are kept, no waiter is left behind,
    /// and no more wakers are registered than calls wait.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(&self) -> Result<(), String> {
        self.shared.look(|core, now| {
            core.engine.check()?;
            let (waiting, registered) = (core.engine.snapshot(now).waiting, core.waiters.len());
            if registered > waiting as usize {
                return Err(format!("{registered} are registered to be woken, and {waiting} wait"));
            }
            Ok(())
        })
    }
}

/// The inputs of an engine's journal: see [`Engine::take_journal`].
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Journal {
    /// The inputs, one line each. Engines of every language can replay them.
    pub lines: Vec<String>,
    /// Number of older inputs that were dropped before the journal was taken. A journal that lacks inputs replays
    /// nothing.
    pub dropped: u64,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("number", &self.shared.number).finish_non_exhaustive()
    }
}

/// Draws a number from the operating system's random source. A generator of this process would give both processes of a
/// fork the same numbers.
pub(crate) fn random() -> u64 {
    SysRng.try_next_u64().expect("the operating system has a random source")
}
