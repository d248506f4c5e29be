//! The scope of calls: deadlines, criticality and the parent call that nested calls inherit.
//!
//! A scope is set on this thread only while a future inside it is polled: futures set theirs before they poll their
//! contents, and restore the previous one afterwards.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tidegate::{CallId, Criticality};
use tokio::time::Instant;

use crate::clock;

/// The number of an engine and one of its calls; engines count from 1, and 0 means no call.
type Call = (u64, CallId);

/// Limits for every call inside the scope.
#[derive(Clone, Copy, Debug, Default)]
struct Limits {
    /// The moment by which every call inside has to end.
    ends: Option<Instant>,
    criticality: Option<Criticality>,
}

impl Limits {
    /// Combines these limits with those outside: the earlier end, and the innermost criticality.
    fn inside(self, outer: Self) -> Self {
        Self { ends: earlier(self.ends, outer.ends), criticality: self.criticality.or(outer.criticality) }
    }
}

/// Values that a call inherits from its scope.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inherited {
    pub parent: Option<CallId>,
    pub ends: Option<Instant>,
    pub criticality: Option<Criticality>,
}

// Every call reads the first two, so they are plain values without registration, borrows or destructors.
thread_local! {
    /// The innermost call.
    static CALL: Cell<Call> = const { Cell::new(NONE) };
    static LIMITS: Cell<Limits> = const { Cell::new(Limits { ends: None, criticality: None }) };
    /// Calls around the innermost one where calls of several engines are nested, outermost first. Few programs have a second
    /// engine.
    static FARTHER: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
    /// The attempts around, outermost first, that go to targets: their call, and their number.
    static AIMED: RefCell<Vec<(Call, u8)>> = const { RefCell::new(Vec::new()) };
}

const NONE: Call = (0, CallId::from_word(0));

/// Makes a call the current one until this is dropped.
pub(crate) struct Inside {
    before: Call,
    /// Whether the previous call was moved to `FARTHER`.
    farther: bool,
}

impl Inside {
    #[inline]
    pub fn new(engine: u64, call: CallId) -> Self {
        let before = CALL.replace((engine, call));
        let farther = before.0 != 0 && before.0 != engine;
        if farther {
            push(before);
        }
        Self { before, farther }
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        CALL.set(self.before);
        if self.farther {
            pop();
        }
    }
}

#[cold]
fn push(call: Call) {
    FARTHER.with_borrow_mut(|farther| farther.push(call));
}

#[cold]
fn pop() {
    // The list may be gone already while its thread ends.
    let _ = FARTHER.try_with(|farther| farther.borrow_mut().pop());
}

/// Makes an attempt the innermost one with a target until this is dropped.
pub(crate) struct Aimed(());

impl Aimed {
    #[cold]
    pub fn new(engine: u64, call: CallId, attempt: u8) -> Self {
        AIMED.with_borrow_mut(|aimed| aimed.push(((engine, call), attempt)));
        Self(())
    }
}

impl Drop for Aimed {
    fn drop(&mut self) {
        // The list may be gone already while its thread ends.
        let _ = AIMED.try_with(|aimed| aimed.borrow_mut().pop());
    }
}

/// The name of the target that the running attempt goes to; `None` outside of such an attempt. A function, or a service under the
/// policy, maps the name, which is that of the document, to a URL, a model or a key: so no secret need be in the document. Of nested
/// calls the innermost one with targets counts.
///
/// It follows the attempt's future. A spawned task has none unless it is wrapped in [`carry`].
///
/// ```
/// use tidegate_tokio::tidegate::Document;
/// use tidegate_tokio::{Engine, target};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let text = "targets.chat = {pick = 'ladder', members = ['large', 'small']}\npolicy.chat.targets = 'chat'";
/// let policies = Engine::new(7).policies(Document::from_toml(text).unwrap()).unwrap();
/// let chat = policies.get("chat").unwrap();
/// let name = chat.run(|_| async { Ok::<_, std::io::Error>(target()) }).await;
/// assert_eq!(name.unwrap().as_deref(), Some("large"));
/// assert_eq!(target(), None);
/// # }
/// ```
pub fn target() -> Option<String> {
    let ((engine, call), attempt) = AIMED.with_borrow(|aimed| aimed.last().copied())?;
    crate::run::target_of(engine, call, attempt)
}

/// Whether a call is around.
#[cfg(feature = "grpc")]
pub(crate) fn is_inside() -> bool {
    CALL.get().0 != 0
}

/// The innermost call, of any engine.
#[cfg(feature = "_bodies")]
pub(crate) fn innermost() -> Option<Call> {
    Some(CALL.get()).filter(|call| call.0 != 0)
}

/// The innermost call, if it is one of this engine's.
#[cfg(feature = "_bodies")]
pub(crate) fn current(engine: u64) -> Option<CallId> {
    let (number, call) = CALL.get();
    (number == engine && number != 0).then_some(call)
}

/// Values that a call of this engine inherits.
#[inline]
pub(crate) fn inherited(engine: u64) -> Inherited {
    let Limits { ends, criticality } = LIMITS.get();
    let (parent, ends) = match CALL.get() {
        (0, _) => (None, ends),
        // The engine knows the deadline of a call of its own. Few calls have others around.
        (number, call) if number == engine && is_alone() => (Some(call), ends),
        innermost => among(engine, innermost, ends),
    };
    Inherited { parent, ends, criticality }
}

/// Whether no call of another engine is around the innermost one.
#[inline]
fn is_alone() -> bool {
    FARTHER.try_with(|farther| farther.borrow().is_empty()).unwrap_or(true)
}

/// The innermost call of this engine, and the earliest end of the scope and of the calls of other engines (semantics 7.3.3). All
/// engines read tokio's clock.
#[cold]
fn among(engine: u64, innermost: Call, ends: Option<Instant>) -> (Option<CallId>, Option<Instant>) {
    let mut calls = FARTHER.try_with(|farther| farther.borrow().clone()).unwrap_or_default();
    calls.push(innermost);
    let parent = calls.iter().rev().find(|call| call.0 == engine).map(|call| call.1);
    let others = calls.iter().filter(|call| call.0 != engine);
    let theirs = others.filter_map(|(number, call)| crate::engine::numbered(*number)?.end_of(*call));
    (parent, theirs.chain(ends).min())
}

#[inline]
fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Limits for every call made inside a future, under any policy.
///
/// ```
/// use std::time::Duration;
/// use tidegate_tokio::settings::Preset;
/// use tidegate_tokio::{Bounds, Criticality, Error, Policy};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let policy = Policy::builder("shop").preset(Preset::Http).build().unwrap();
/// let bounds = Bounds::new().deadline(Duration::from_secs(2)).criticality(Criticality::Critical);
/// let ended = bounds
///     .around(async {
///         assert_eq!(tidegate_tokio::time_left(), Some(Duration::from_secs(2)));
///         policy.run(|_| std::future::pending::<Result<(), std::io::Error>>()).await
///     })
///     .await;
/// assert_eq!(ended.unwrap_err().stopped().unwrap().code.name(), "deadline_exceeded");
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[must_use = "bounds hold inside what they are put around"]
pub struct Bounds {
    deadline: Option<Duration>,
    criticality: Option<Criticality>,
}

impl Bounds {
    /// No bounds yet.
    pub const fn new() -> Self {
        Self { deadline: None, criticality: None }
    }

    /// Limits the time of everything inside, counted from [`Bounds::around`]. The earliest of nested deadlines wins.
    pub const fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Sets how important the calls inside are to queues, unless they set it themselves.
    pub const fn criticality(self, criticality: Criticality) -> Self {
        Self { criticality: Some(criticality), ..self }
    }

    /// Wraps the future in these bounds.
    ///
    /// A task spawned inside does not inherit them; [`carry`] takes them along.
    pub fn around<F: Future>(self, future: F) -> Within<F> {
        let ends = self.deadline.map(|span| clock::after(Instant::now(), clock::span(span)));
        Within {
            future,
            limits: Limits { ends, criticality: self.criticality },
            calls: Vec::new(),
            aimed: None,
        }
    }
}

/// Wraps a future in the scope of the caller: deadlines, criticality and parent calls. Use it for spawned tasks, which
/// inherit nothing by themselves.
///
/// ```
/// use std::time::Duration;
/// use tidegate_tokio::{Bounds, carry, time_left};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let ends = Bounds::new().deadline(Duration::from_secs(1)).around(async {
///     let bare = tokio::spawn(async { time_left() }).await.unwrap();
///     let carried = tokio::spawn(carry(async { time_left() })).await.unwrap();
///     (bare, carried)
/// });
/// assert_eq!(ends.await, (None, Some(Duration::from_secs(1))));
/// # }
/// ```
pub fn carry<F: Future>(future: F) -> Within<F> {
    let mut calls = FARTHER.with_borrow(Clone::clone);
    calls.extend(Some(CALL.get()).filter(|call| call.0 != 0));
    Within { future, limits: LIMITS.get(), calls, aimed: AIMED.with_borrow(|aimed| aimed.last().copied()) }
}

/// Time left until the earliest deadline of the current scope; `None` if it has none.
pub fn time_left() -> Option<Duration> {
    LIMITS.get().ends.map(|ends| ends.saturating_duration_since(Instant::now()))
}

pin_project! {
    /// A future inside bounds: see [`Bounds::around`] and [`carry`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are polled"]
    pub struct Within<F> {
        #[pin]
        future: F,
        limits: Limits,
        // Outermost first.
        calls: Vec<Call>,
        aimed: Option<(Call, u8)>,
    }
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let _entered = Entered::new(*this.limits, this.calls);
        let _aimed = this.aimed.map(|((engine, call), attempt)| Aimed::new(engine, call, attempt));
        this.future.poll(cx)
    }
}

/// The previous scope, restored when this is dropped.
struct Entered {
    limits: Limits,
    call: Call,
    farther: usize,
}

impl Entered {
    fn new(limits: Limits, calls: &[Call]) -> Self {
        let before = Self { limits: LIMITS.get(), call: CALL.get(), farther: FARTHER.with_borrow(Vec::len) };
        LIMITS.set(limits.inside(before.limits));
        for call in calls {
            let outer = CALL.replace(*call);
            if outer.0 != 0 {
                push(outer);
            }
        }
        before
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        LIMITS.set(self.limits);
        CALL.set(self.call);
        // The list may be gone already while its thread ends.
        let _ = FARTHER.try_with(|farther| farther.borrow_mut().truncate(self.farther));
    }
}
