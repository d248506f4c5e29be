//! Weights: what a call will use of the limits that count more than calls (semantics 3.5).

use std::sync::Arc;

use tidegate::{Action, CallId, Request, RouteId, Step, Time, Verdict, WeightError};

use crate::builder::Pairs;
use crate::settings::RateLimit;

/// What a call will use of the limits that count a weight, by the weights' names. Each attempt reserves it, and gets back what it
/// has not used when it ends ([`Attempt::settle`](crate::Attempt::settle)).
///
/// A weight that is not named takes its limit's default. A call that names a weight which no limit counts, that has neither amount
/// nor default for one, or whose amount is 2^53 or more, does not begin: it ends with
/// [`Code::CostAboveBurst`](crate::Code::CostAboveBurst), and the message names the weight.
///
/// Give it to calls with [`Caller::weights`](crate::Caller::weights), to requests of reqwest with `Guard::weights`, and to requests
/// under the layer for HTTP, or of reqwest-middleware, as an extension:
///
/// ```
/// use bytes::Bytes;
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use tidegate_tokio::settings::RateLimit;
/// use tidegate_tokio::{Engine, Policy, Weights};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let engine = Engine::new(7);
/// let limits = ["rpm: permits=500 per=1m", "tpm: permits=200000 per=1m weight=tokens default=1000"];
/// let chat = Policy::builder("chat").engine(&engine).rate_limit(RateLimit::of_limits(limits)).build().unwrap();
/// let client = service_fn(|_| async { Ok::<_, std::io::Error>(Response::new(Full::<Bytes>::default())) });
/// let client = chat.http_layer().layer(client);
/// let request = Request::post("http://model.example/").extension(Weights::new([("tokens", 1_800)]));
/// client.oneshot(request.body(Full::<Bytes>::default()).unwrap()).await.unwrap();
/// assert_eq!(engine.snapshot().routes[0].limits[1].tokens, 198_200);
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Weights(Arc<[(Box<str>, u64)]>);

impl Weights {
    /// These amounts, whole numbers below 2^53, by the names of the weights.
    pub fn new<N: Into<Box<str>>>(amounts: impl IntoIterator<Item = (N, u64)>) -> Self {
        Self(amounts.into_iter().map(|(name, amount)| (name.into(), amount)).collect())
    }

    pub(crate) fn named(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, amount)| (&**name, *amount))
    }
}

impl<N: Into<Box<str>>, const COUNT: usize> From<[(N, u64); COUNT]> for Weights {
    fn from(amounts: [(N, u64); COUNT]) -> Self {
        Self::new(amounts)
    }
}

/// Begins a call with weights. If they are not those of its route, the step says so and no call begins.
#[cold]
pub(crate) fn begin(
    engine: &mut tidegate::Engine,
    route: RouteId,
    request: &Request,
    weights: &Weights,
    now: Time,
) -> (CallId, Step) {
    let verdict = match engine.weights(route, weights.named()) {
        Ok(weights) => return engine.begin_weighted(route, request, weights, now),
        Err(WeightError::StaleRoute) => Verdict::StaleRoute,
        Err(_) => Verdict::CostAboveBurst,
    };
    let action = Action::Done { verdict, result: None, retry_in: None };
    (CallId::from_word(0), Step::new(action, None))
}

impl RateLimit {
    /// A set of limits, of which a call takes all or none: texts such as `tpm: permits=200000 per=1m weight=tokens`. See
    /// [`limits`](Self::limits).
    ///
    /// ```
    /// use tidegate_tokio::settings::RateLimit;
    /// use tidegate_tokio::{Error, Policy};
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// let limits = ["rpm: permits=500 per=1m", "tpm: permits=200000 per=1m weight=tokens"];
    /// let policy = Policy::builder("metered").rate_limit(RateLimit::of_limits(limits)).build().unwrap();
    /// let large = policy.caller().weights([("tokens", 300_000)]);
    /// let refused = large.run(|_| async { Ok::<_, std::io::Error>(()) }).await;
    /// assert!(matches!(refused, Err(Error::Stopped(stopped, None)) if stopped.code.name() == "cost_above_burst"));
    /// # }
    /// ```
    pub fn of_limits<T: Into<String>>(limits: impl IntoIterator<Item = T>) -> Self {
        let mut pairs = Pairs::new();
        for limit in limits {
            pairs.set("rate_limit.limits", limit.into());
        }
        Self { pairs }
    }
}
