//! The source of a call's attempts, and what each attempt knows of itself.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate::CallId;

use crate::engine::{Core, numbered};
use crate::policy::Site;

/// Facts about one attempt, given to the function that makes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Attempt {
    /// The attempt's number, from 1 on.
    pub number: u8,
    /// Whether it is a hedge, started beside a slow attempt.
    pub hedge: bool,
    /// Time left from the attempt's start until its attempt timeout or the call's deadline, whichever comes first;
    /// `None` if it has neither. The attempt is stopped then even if it ignores this.
    pub remaining: Option<Duration>,
    /// The number of the call's engine, and the call.
    pub(crate) call: (u64, CallId),
}

impl Attempt {
    /// The name of the target that the attempt goes to, if its policy has targets. [`target`](crate::target) finds it from inside the
    /// attempt.
    ///
    /// ```
    /// use tidegate_tokio::Engine;
    /// use tidegate_tokio::tidegate::Document;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let text = "targets.chat = {pick = 'ladder', members = ['large', 'small']}\npolicy.chat.targets = 'chat'";
    /// let chat = Engine::new(7).load(&Document::from_toml(text).unwrap()).unwrap().remove(0);
    /// let name = chat.run(|attempt| async move { Ok::<_, std::io::Error>(attempt.target()) });
    /// assert_eq!(name.await.unwrap().as_deref(), Some("large"));
    /// # }
    /// ```
    pub fn target(&self) -> Option<String> {
        let (engine, call) = self.call;
        target_of(engine, call, self.number)
    }

    /// Reports the total that the attempt has used so far of a weight, any number of times: see
    /// [`Caller::weights`](crate::Caller::weights). What exceeds the reservation is charged at once, and a lower total than before is
    /// ignored. At the attempt's end the last total holds, and what was reserved and not used comes back. An attempt that reports
    /// nothing counts what it had reserved, or nothing if it was refused or never sent.
    ///
    /// Returns false if the attempt has ended, or counts no such weight; such totals are counted
    /// ([`Snapshot::late_settlements`](crate::Snapshot::late_settlements)).
    pub fn settle(&self, weight: &str, total: u64) -> bool {
        let (engine, call) = self.call;
        let settle = |core: &mut Core, now| core.engine.settle_weight(call, self.number, weight, total, now);
        numbered(engine).is_some_and(|shared| shared.look(settle))
    }
}

/// The name of an attempt's target.
pub(crate) fn target_of(engine: u64, call: CallId, attempt: u8) -> Option<String> {
    numbered(engine)?.look(|core, _| core.engine.target_of(call, Some(attempt)).map(str::to_owned))
}

/// Makes a call's attempts.
pub(crate) trait Work<Fut> {
    /// Makes the next attempt; `None` where no further one can be made.
    fn attempt(&mut self, attempt: Attempt) -> Option<Fut>;
}

impl<Fut, F: FnMut(Attempt) -> Fut> Work<Fut> for F {
    #[inline]
    fn attempt(&mut self, attempt: Attempt) -> Option<Fut> {
        Some(self(attempt))
    }
}

/// An attempt under way. It is polled with the site and the judge of its call, so that it needs no references of its own to them.
pub(crate) trait Running<J, T, E> {
    fn poll_in(self: Pin<&mut Self>, site: &Site, judge: &J, cx: &mut Context<'_>) -> Poll<Result<T, E>>;
}

impl<Fut: Future<Output = Result<T, E>>, J, T, E> Running<J, T, E> for Fut {
    #[inline]
    fn poll_in(self: Pin<&mut Self>, _: &Site, _: &J, cx: &mut Context<'_>) -> Poll<Result<T, E>> {
        self.poll(cx)
    }
}

/// Makes attempts until the function returns `None`.
#[cfg(any(feature = "grpc", feature = "reqwest"))]
pub(crate) struct Optional<F>(pub F);

#[cfg(any(feature = "grpc", feature = "reqwest"))]
impl<Fut, F: FnMut(Attempt) -> Option<Fut>> Work<Fut> for Optional<F> {
    fn attempt(&mut self, attempt: Attempt) -> Option<Fut> {
        (self.0)(attempt)
    }
}
