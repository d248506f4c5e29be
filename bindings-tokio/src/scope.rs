//! What calls inherit from around them: deadlines, criticality, and the call they are nested in.
//!
//! A level is around what is polled while it is on this thread's stack of levels, and no longer: futures push theirs
//! before they poll what is inside, and pop it after.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;
use tidegate::{CallId, Criticality};
use tokio::time::Instant;

use crate::clock;

/// One level of what is around the code that runs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Level {
    /// The call that runs here, and the number of its engine.
    pub call: Option<(u64, CallId)>,
    /// When everything inside has to end.
    pub ends: Option<Instant>,
    pub criticality: Option<Criticality>,
}

/// What a call takes from around it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inherited {
    pub parent: Option<CallId>,
    pub ends: Option<Instant>,
    pub criticality: Option<Criticality>,
}

thread_local! {
    static LEVELS: RefCell<Vec<Level>> = const { RefCell::new(Vec::new()) };
}

/// A level that is around until this is dropped.
pub(crate) struct Entered(usize);

impl Entered {
    pub fn new(level: Level) -> Self {
        LEVELS.with_borrow_mut(|levels| {
            let place = levels.len();
            levels.push(level);
            Self(place)
        })
    }

    fn all(more: &[Level]) -> Self {
        LEVELS.with_borrow_mut(|levels| {
            let place = levels.len();
            levels.extend_from_slice(more);
            Self(place)
        })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // A thread that ends has no levels any more.
        let _ = LEVELS.try_with(|levels| levels.borrow_mut().truncate(self.0));
    }
}

/// What a call of this engine inherits.
pub(crate) fn inherited(engine: u64) -> Inherited {
    LEVELS.with_borrow(|levels| {
        let mut found = Inherited::default();
        for level in levels.iter().rev() {
            found.ends = earlier(found.ends, level.ends);
            found.criticality = found.criticality.or(level.criticality);
            found.parent = found.parent.or(level.call.filter(|call| call.0 == engine).map(|(_, call)| call));
        }
        found
    })
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// What holds for every call made inside a future, in whatever policy.
///
/// ```
/// use std::time::Duration;
/// use tidegate_tokio::{Bounds, Criticality, Error, Policy};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let policy = Policy::builder("shop").preset("http").build().unwrap();
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

    /// Time in which everything inside has to end, from [`Bounds::around`] on. The earlier of nested deadlines wins.
    pub const fn deadline(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// How much the calls inside matter to queues, where they do not say so themselves.
    pub const fn criticality(self, criticality: Criticality) -> Self {
        Self { criticality: Some(criticality), ..self }
    }

    /// The future with these bounds around it.
    ///
    /// A task that is spawned inside is outside again; [`carry`] takes the bounds along.
    pub fn around<F: Future>(self, future: F) -> Within<F> {
        let ends = self.deadline.map(|span| clock::after(Instant::now(), clock::span(span)));
        Within { future, levels: vec![Level { call: None, ends, criticality: self.criticality }] }
    }
}

/// A future with everything around it that is around this line: deadlines, criticality, and the calls that it is made in.
/// For tasks, which inherit nothing by themselves.
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
    Within { future, levels: LEVELS.with_borrow(Clone::clone) }
}

/// Time left of the deadlines around this line; `None` where there is none.
pub fn time_left() -> Option<Duration> {
    let ends = LEVELS.with_borrow(|levels| levels.iter().fold(None, |ends, level| earlier(ends, level.ends)));
    ends.map(|ends| ends.saturating_duration_since(Instant::now()))
}

pin_project! {
    /// A future with bounds around it: see [`Bounds::around`] and [`carry`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are polled"]
    pub struct Within<F> {
        #[pin]
        future: F,
        levels: Vec<Level>,
    }
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let _entered = Entered::all(this.levels);
        this.future.poll(cx)
    }
}
