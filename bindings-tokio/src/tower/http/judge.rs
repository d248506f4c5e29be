//! How responses and errors of an HTTP client are classified.

use std::error::Error as StdError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use http::{Extensions, HeaderMap, Response, StatusCode};
use http_body::Body;
use tidegate::{CallId, Class, Outcome, class_of_status};

use crate::classify::{Finding, Judge, Judgement};
use crate::drain::Buffered;
use crate::http::{has_body, judged_inside, note_quotas, outcome_of, reads};
use crate::listed::found_in;
use crate::policy::Site;
use crate::streams::Held;
use crate::usage::Used;

pub(super) type Opine = dyn Fn(StatusCode, &HeaderMap) -> Option<Outcome> + Send + Sync;

/// Classifies errors of an HTTP client. Functions of `&E` implement it.
pub trait Errors<E> {
    /// The outcome of an attempt that ended with this error.
    fn outcome(&self, error: &E) -> Outcome;

    /// The finding about this error, which may leave the decision to the policy.
    #[doc(hidden)]
    fn finding(&self, error: &E) -> Finding {
        Finding::Outcome(self.outcome(error))
    }
}

impl<E, F: Fn(&E) -> Outcome> Errors<E> for F {
    fn outcome(&self, error: &E) -> Outcome {
        self(error)
    }
}

/// The default: classifies errors by the table that all languages share. An error that is not listed, by itself or by a
/// cause, is permanent, and the report's note says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ByCauses;

impl<E: StdError + 'static> Errors<E> for ByCauses {
    fn outcome(&self, error: &E) -> Outcome {
        self.finding(error).under(|status, _| Outcome::of(class_of_status(status)))
    }

    fn finding(&self, error: &E) -> Finding {
        found_in(error)
    }
}

/// Classifies responses by their status, and errors by the error classifier.
pub(super) struct HttpJudge<C> {
    pub opine: Option<Arc<Opine>>,
    pub errors: C,
    /// Makes totals of what answers say that they have used.
    pub used: Option<Arc<Used>>,
    pub head: bool,
    /// Whether a good response is delivered with its first piece.
    pub holds: bool,
    /// Whether another attempt may follow a failed response.
    pub repeats: bool,
}

impl<C> HttpJudge<C> {
    pub fn of(
        &self,
        site: &Site,
        status: StatusCode,
        (headers, extensions): (&HeaderMap, &Extensions),
        body: &[u8],
    ) -> Outcome {
        // Called twice for a failed response: before its body is read, and when the attempt's outcome is reported.
        let opine =
            |opine: &Arc<Opine>| catch_unwind(AssertUnwindSafe(|| opine(status, headers))).ok().flatten();
        let said = self.opine.as_ref().and_then(opine);
        said.unwrap_or_else(|| judged_inside(outcome_of(site, status.as_u16(), headers, body), extensions))
    }
}

impl<A: Body, E, C: Errors<E>> Judge<Response<Buffered<A>>, E> for HttpJudge<C>
where
    Buffered<A>: Body,
{
    fn judge(&self, site: &Site, result: &Result<Response<Buffered<A>>, E>) -> Judgement {
        let response = match result {
            Ok(response) => response,
            Err(error) => {
                let said = catch_unwind(AssertUnwindSafe(|| self.errors.finding(error)));
                let permanent = |_| Outcome::of(Class::Permanent);
                return Judgement::Outcome(said.map_or_else(permanent, |finding| site.outcome_in(finding)));
            }
        };
        let read = reads(site, response.status()).then(|| response.body().beginning());
        let held = if self.holds { response.extensions().get::<Held>() } else { None };
        let outcome = if let Some(failure) = held.and_then(|held| held.failure) {
            judged_inside(failure, response.extensions())
        } else {
            let said = (response.headers(), response.extensions());
            self.of(site, response.status(), said, &read.unwrap_or_default())
        };
        let follows = !self.head && has_body(response.status(), response.body().size_hint().exact());
        if outcome.kind == Class::Ok.into() && follows && site.request.slot_until_body {
            Judgement::Head
        } else {
            Judgement::Outcome(outcome)
        }
    }

    fn note_quotas(&self, site: &Site, call: CallId, result: &Result<Response<Buffered<A>>, E>) {
        if let Ok(response) = result {
            note_quotas(site, call, response.headers());
        }
    }

    fn unlisted(&self, error: &E) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.errors.finding(error))).is_ok_and(|it| it == Finding::Unlisted)
    }

    /// Keeps a small response, whose body has been read; drops a large one, which closes it before the next attempt.
    fn release(&self, result: Result<Response<Buffered<A>>, E>) -> Option<Result<Response<Buffered<A>>, E>> {
        match result {
            Ok(response) if !response.body().is_whole() => None,
            kept => Some(kept),
        }
    }
}
