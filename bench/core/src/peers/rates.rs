//! A rate limit alone in front of a service: Tidegate's layer beside tower's, tower-resilience's, and governor in a
//! layer as users write it. In a full pipeline the other costs hide the difference.

use std::future::{Ready, ready};
use std::hint::black_box;
use std::task::{Context, Poll};
use std::time::Duration as Span;

use super::stacks::{Fault, RATE, Tokens, drive, runtime, tokens};
use super::{Row, row};
use tidegate::Value;
use tidegate_tokio::{Engine, Policy};
use tower::{Layer, Service, ServiceBuilder, service_fn};
use tower_resilience::ratelimiter::RateLimiterLayer;

fn answer((): ()) -> Ready<Result<(), Fault>> {
    ready(black_box(Ok(())))
}

/// A service behind governor.
#[derive(Clone)]
struct Governed<S> {
    inner: S,
    tokens: std::sync::Arc<Tokens>,
}

impl<S: Service<(), Error = Fault, Future = Ready<Result<(), Fault>>, Response = ()>> Service<()>
    for Governed<S>
{
    type Response = ();
    type Error = Fault;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, (): ()) -> Self::Future {
        match self.tokens.check() {
            Ok(()) => self.inner.call(()),
            Err(_) => ready(Err(Fault)),
        }
    }
}

pub fn rows() -> Vec<Row> {
    vec![policy_row(), layer_row(), governor_row(), tower_resilience_row()]
}

fn policy() -> Policy {
    let pairs = [
        ("rate_limit.permits", Value::Number(1e9)),
        ("rate_limit.per", Value::Number(1e6)),
        ("retry.max_attempts", Value::Number(1.0)),
    ];
    let settings = tidegate::Policy::from_pairs("p", &pairs).expect("a good policy");
    Policy::new_in(&Engine::new(7), settings).expect("the only one")
}

fn policy_row() -> Row {
    let (runtime, policy) = (runtime(), policy());
    row(RATE, "tidegate-tokio: Policy::run", move |calls| {
        runtime.block_on(async {
            for _ in 0..calls {
                assert!(black_box(policy.run(|_| answer(())).await).is_ok());
            }
        });
    })
}

fn layer_row() -> Row {
    let (runtime, policy) = (runtime(), policy());
    let mut stack = policy.layer().layer(service_fn(answer));
    row(RATE, "tidegate-tokio: the tower layer", move |calls| runtime.block_on(drive(&mut stack, calls)))
}

fn governor_row() -> Row {
    let runtime = runtime();
    let mut stack = Governed { inner: service_fn(answer), tokens: tokens().into() };
    row(RATE, "governor in a layer of twenty lines", move |calls| runtime.block_on(drive(&mut stack, calls)))
}

fn tower_resilience_row() -> Row {
    let runtime = runtime();
    let mut stack = runtime.block_on(async {
        let rate = RateLimiterLayer::builder()
            .limit_for_period(1_000_000_000)
            .refresh_period(Span::from_secs(1))
            .build()
            .expect("a good rate");
        ServiceBuilder::new().layer(rate).service(service_fn(answer))
    });
    row(RATE, "tower-resilience: RateLimiterLayer", move |calls| runtime.block_on(drive(&mut stack, calls)))
}
