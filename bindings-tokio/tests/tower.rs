//! The layer together with tower's own services.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

use std::future::{Future, pending};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use crate::support::{broken, ms, nothing_left, once, plain};
use parking_lot::Mutex;
use tidegate_tokio::settings::{Bulkhead, Hedge, HedgeBudget, RateLimit};
use tidegate_tokio::tower::{Facts, Once, Requests};
use tidegate_tokio::{Code, Engine, Error, Verdict};
use tokio::time::{Instant, sleep};
use tower::limit::ConcurrencyLimitLayer;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, service_fn};

/// A service that counts the calls of its clones, and enforces tower's contract: it panics if it is called without
/// being ready.
struct Strict {
    ready: bool,
    calls: Arc<AtomicU32>,
    failures: u32,
}

impl Clone for Strict {
    /// A clone has to become ready itself.
    fn clone(&self) -> Self {
        Self { ready: false, calls: Arc::clone(&self.calls), failures: self.failures }
    }
}

impl Service<u32> for Strict {
    type Response = u32;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<u32>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: u32) -> Self::Future {
        assert!(std::mem::replace(&mut self.ready, false), "called before it was ready");
        let fails = self.calls.fetch_add(1, Ordering::Relaxed) < self.failures;
        Box::pin(async move { if fails { Err(broken()) } else { Ok(request) } })
    }
}

counted!(each_attempt_waits_until_its_own_clone_is_ready);

async fn each_attempt_waits_until_its_own_clone_is_ready() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 3).build().unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let mut service = policy.layer().layer(Strict { ready: false, calls: Arc::clone(&calls), failures: 2 });
    let start = Instant::now();
    assert_eq!(service.ready().await.unwrap().call(7).await.unwrap(), 7);
    assert_eq!((calls.load(Ordering::Relaxed), start.elapsed()), (3, ms(300)));
    // Uses the same service again: `call` left a service that is not ready, so it has to become ready first.
    assert_eq!(service.ready().await.unwrap().call(8).await.unwrap(), 8);
    nothing_left(&engine);
}

counted!(not_ready_inside_is_not_ready_outside_and_nothing_is_reserved);

async fn not_ready_inside_is_not_ready_outside_and_nothing_is_reserved() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 1).bulkhead(Bulkhead::fixed(1)).build().unwrap();
    let limited = ServiceBuilder::new()
        .layer(policy.layer())
        .layer(ConcurrencyLimitLayer::new(1))
        .service(service_fn(|(): ()| pending::<io::Result<()>>()));
    let (mut one, mut other) = (limited.clone(), limited);
    let hangs = one.ready().await.unwrap().call(());
    let mut hangs = pin!(hangs);
    assert!(once(hangs.as_mut()).await.is_pending());
    let mut ready = Box::pin(other.ready());
    assert!(once(ready.as_mut()).await.is_pending(), "the service inside has no place");
    drop(ready);
    assert_eq!(engine.snapshot().live, 1, "a clone that waits to be ready is no call");

    // A service that is ready and never called blocks no other caller.
    let open =
        policy.caller().route("open").layer().layer(service_fn(|(): ()| async { Ok::<_, io::Error>(()) }));
    let (mut idle, mut busy) = (open.clone(), open);
    idle.ready().await.unwrap();
    busy.ready().await.unwrap().call(()).await.unwrap();
}

counted!(a_call_that_waits_for_the_policy_gives_back_what_the_service_inside_has_reserved);

async fn a_call_that_waits_for_the_policy_gives_back_what_the_service_inside_has_reserved() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 1).bulkhead(Bulkhead::fixed(1).max_queue(5)).build().unwrap();
    let work = service_fn(|span: u64| async move {
        sleep(ms(span)).await;
        Ok::<_, io::Error>(())
    });
    let shared = ServiceBuilder::new().layer(ConcurrencyLimitLayer::new(2)).service(work);
    let mut guarded = policy.layer().layer(shared.clone());
    let mut first = pin!(guarded.ready().await.unwrap().call(50));
    assert!(once(first.as_mut()).await.is_pending());
    let mut queued = pin!(guarded.ready().await.unwrap().call(10));
    assert!(once(queued.as_mut()).await.is_pending());
    // The running call takes one of the inner service's two places. The call that waits for the policy takes none.
    let mut direct = shared;
    let mut ready = Box::pin(direct.ready());
    assert!(once(ready.as_mut()).await.is_ready());
    drop(ready);
    drop(direct);
    let start = Instant::now();
    let (one, other) = tokio::join!(first, queued);
    assert!(one.is_ok() && other.is_ok());
    assert_eq!(start.elapsed(), ms(60));
    nothing_left(&engine);
}

counted!(a_refusal_is_an_error_at_once_and_fits_tower_stacks);

async fn a_refusal_is_an_error_at_once_and_fits_tower_stacks() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 1).bulkhead(Bulkhead::fixed(1)).build().unwrap();
    let service = ServiceBuilder::new().buffer(4).layer(policy.layer()).service(service_fn(|(): ()| async {
        sleep(ms(10)).await;
        Ok::<_, io::Error>(())
    }));
    let one = tokio::spawn(service.clone().oneshot(()));
    sleep(ms(1)).await;
    let error: BoxError = service.oneshot(()).await.unwrap_err();
    let ours = error.downcast_ref::<Error<io::Error>>().expect("our error, through a buffer");
    assert_eq!(ours.stopped().unwrap().code, Code::BulkheadFull);
    one.await.unwrap().unwrap();
    nothing_left(&engine);
}

counted!(what_cannot_be_sent_again_is_sent_once);

async fn what_cannot_be_sent_again_is_sent_once() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 3).build().unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let service =
        policy.layer().requests(Once).layer(Strict { ready: false, calls: Arc::clone(&calls), failures: 9 });
    let error = service.oneshot(1).await.unwrap_err();
    assert!(matches!(error, Error::Failed(_, report) if report.reason == Verdict::OneShotBody));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

/// A request or a service that counts its clones.
struct Counted(Arc<AtomicU32>);

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.0.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl Service<Counted> for Counted {
    type Response = ();
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<()>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Counted) -> Self::Future {
        std::future::ready(Ok(()))
    }
}

counted!(what_is_never_sent_again_is_not_cloned);

async fn what_is_never_sent_again_is_not_cloned() {
    let engine = Engine::new(1);
    for (attempts, clones) in [(1, (0, 0)), (2, (1, 1))] {
        let policy = plain(&engine, &format!("p{attempts}"), attempts).build().unwrap();
        let (services, requests) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let mut service = policy.layer().layer(Counted(Arc::clone(&services)));
        service.ready().await.unwrap().call(Counted(Arc::clone(&requests))).await.unwrap();
        let made = (services.load(Ordering::Relaxed), requests.load(Ordering::Relaxed));
        assert_eq!(made, clones, "with {attempts} attempts");
    }
    nothing_left(&engine);
}

counted!(an_attempt_that_starts_in_call_is_inside_the_call);

async fn an_attempt_that_starts_in_call_is_inside_the_call() {
    let engine = Engine::new(1);
    let outer = plain(&engine, "outer", 2).build().unwrap();
    let inner = plain(&engine, "inner", 3).build().unwrap();
    let made = Arc::new(AtomicU32::new(0));
    let (counted, own) = (Arc::clone(&made), inner.clone());
    // The service makes its call when it is called, not when its future is polled.
    let mut service = outer.layer().layer(service_fn(move |(): ()| {
        let layered = own.layer().layer(Strict { ready: false, calls: Arc::clone(&counted), failures: 9 });
        let mut call = Box::pin(layered.oneshot(1));
        let first = call.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop()));
        async move {
            match first {
                Poll::Ready(ended) => ended,
                Poll::Pending => call.await,
            }
        }
    }));
    let error = service.ready().await.unwrap().call(()).await.unwrap_err();
    let Error::Failed(Error::Failed(_, report), _) = error else { panic!("the error itself: {error}") };
    assert_eq!(
        (report.reason, made.load(Ordering::Relaxed)),
        (Verdict::Nested, 2),
        "one for each of the outer one"
    );
    nothing_left(&engine);
}

counted!(a_call_that_waits_and_is_refused_later_or_never_polled_leaves_nothing);

async fn a_call_that_waits_and_is_refused_later_or_never_polled_leaves_nothing() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 1)
        .bulkhead(Bulkhead::fixed(1).max_queue(1).acquire_timeout(Some(ms(50))))
        .build()
        .unwrap();
    let mut service = policy.layer().layer(service_fn(|(): ()| pending::<io::Result<()>>()));
    let holds = service.ready().await.unwrap().call(());
    let waits = service.ready().await.unwrap().call(());
    let refused = service.ready().await.unwrap().call(());
    assert_eq!(engine.snapshot().live, 2, "a call begins when it is made");
    assert_eq!(refused.await.unwrap_err().stopped().unwrap().reason, Verdict::QueueFull);
    let start = Instant::now();
    assert_eq!(waits.await.unwrap_err().stopped().unwrap().reason, Verdict::AcquireTimeout);
    assert_eq!(start.elapsed(), ms(50));
    drop(holds);
    nothing_left(&engine);
    assert_eq!(crate::support::ends(&engine, "p", Verdict::Cancelled), 1);
}

#[derive(Clone)]
struct Fickle(Arc<AtomicU32>);

impl Requests<u32> for Fickle {
    fn replay(&self, request: &u32) -> Option<u32> {
        (self.0.fetch_add(1, Ordering::Relaxed) < 2).then_some(*request)
    }

    fn facts<'a>(&self, request: &u32, facts: Facts<'a>) -> Facts<'a> {
        facts.route(if *request < 10 { "low" } else { "high" }).cost(2)
    }
}

counted!(a_replay_that_changes_its_mind_ends_the_call_with_the_last_answer);

async fn a_replay_that_changes_its_mind_ends_the_call_with_the_last_answer() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 5).build().unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let layer = policy.layer().requests(Fickle(Arc::default()));
    let service = layer.layer(Strict { ready: false, calls: Arc::clone(&calls), failures: 9 });
    let error = service.oneshot(1).await.unwrap_err();
    assert!(matches!(error, Error::Failed(..)), "{error:?}");
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    nothing_left(&engine);
}

counted!(requests_say_their_route_and_cost);

async fn requests_say_their_route_and_cost() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 1).rate_limit(RateLimit::new(4, ms(60_000))).build().unwrap();
    let layer = policy.layer().requests(Fickle(Arc::default()));
    let service = layer.layer(service_fn(|_: u32| async { Ok::<_, io::Error>(()) }));
    service.clone().oneshot(1).await.unwrap();
    service.clone().oneshot(1).await.unwrap();
    assert!(service.clone().oneshot(1).await.unwrap_err().is_rejected(), "two tokens each, four in all");
    service.clone().oneshot(11).await.unwrap();
    let mut routes: Vec<_> = policy.routes().into_iter().map(|route| route.key).collect();
    routes.sort();
    assert_eq!(routes, ["high", "low"]);
}

counted!(a_hedge_has_a_clone_of_its_own_and_a_dropped_response_is_a_cancelled_call);

async fn a_hedge_has_a_clone_of_its_own_and_a_dropped_response_is_a_cancelled_call() {
    let engine = Engine::new(1);
    let policy = tidegate_tokio::Policy::builder("p")
        .engine(&engine)
        .hedge(Hedge::new(ms(20)).budget(HedgeBudget::none()))
        .bulkhead(Bulkhead::fixed(5))
        .build()
        .unwrap();
    let seen = Arc::new(Mutex::new(0));
    let service = policy.layer().layer(service_fn(move |(): ()| {
        let number = {
            let mut seen = seen.lock();
            *seen += 1;
            *seen
        };
        async move {
            sleep(ms(if number % 2 == 1 { 500 } else { 10 })).await;
            Ok::<_, io::Error>(number)
        }
    }));
    let start = Instant::now();
    assert_eq!(service.clone().oneshot(()).await.unwrap(), 2);
    assert_eq!(start.elapsed(), ms(30));
    let mut dropped = Box::pin(service.oneshot(()));
    assert!(once(dropped.as_mut()).await.is_pending());
    drop(dropped);
    nothing_left(&engine);
    assert_eq!(crate::support::ends(&engine, "p", Verdict::Cancelled), 1);
}

#[tokio::test(start_paused = true)]
async fn new_settings_reach_everything_that_is_made_of_a_policy() {
    let engine = Engine::new(1);
    let (one, other) = (plain(&engine, "p", 1).build().unwrap(), plain(&engine, "p", 1).build().unwrap());
    let mut services = [&one, &other].map(|policy| {
        let strict = Strict { ready: false, calls: Arc::default(), failures: 2 };
        policy.layer().layer(strict)
    });
    one.retune(plain(&engine, "p", 3).settings().unwrap()).unwrap();
    for service in &mut services {
        assert_eq!(service.ready().await.unwrap().call(7).await.unwrap(), 7);
    }
    // So do those of a document.
    let document = |attempts: u32| {
        let text = format!("policy.q.retry = {{max_attempts = {attempts}, budget = {{kind = 'none'}}}}");
        tidegate_tokio::tidegate::Document::from_toml(&text).unwrap()
    };
    let policies = engine.policies(document(1)).unwrap();
    let same = document(1).policies().next().unwrap().clone();
    let other = tidegate_tokio::Policy::new_in(&engine, same).unwrap();
    policies.reload(document(3)).unwrap();
    let mut service = other.layer().layer(Strict { ready: false, calls: Arc::default(), failures: 2 });
    assert_eq!(service.ready().await.unwrap().call(7).await.unwrap(), 7);
    nothing_left(&engine);
}

counted!(a_panic_of_the_service_gives_the_permit_back);

async fn a_panic_of_the_service_gives_the_permit_back() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 3).bulkhead(Bulkhead::fixed(1)).build().unwrap();
    let calls = AtomicU32::new(0);
    let mut service = policy.layer().layer(service_fn(|(): ()| {
        assert!(calls.fetch_add(1, Ordering::Relaxed) > 0, "the first call breaks before it has a future");
        async { Ok::<_, io::Error>(()) }
    }));
    let panics = std::panic::AssertUnwindSafe(|| drop(service.call(())));
    assert!(std::panic::catch_unwind(panics).is_err());
    nothing_left(&engine);
    assert_eq!(crate::support::ends(&engine, "p", Verdict::Cancelled), 1);
    service.ready().await.unwrap().call(()).await.unwrap();
    nothing_left(&engine);
}

/// Requests that each state a deadline.
#[derive(Clone)]
struct Within;

impl Requests<u64> for Within {
    fn replay(&self, _: &u64) -> Option<u64> {
        None
    }

    fn facts<'a>(&self, request: &u64, facts: Facts<'a>) -> Facts<'a> {
        facts.deadline(ms(*request))
    }
}

counted!(of_a_requests_deadline_and_its_callers_the_earlier_holds);

async fn of_a_requests_deadline_and_its_callers_the_earlier_holds() {
    let engine = Engine::new(1);
    let caller = plain(&engine, "p", 1).build().unwrap().caller().deadline(ms(200));
    let service = caller.layer().requests(Within).layer(service_fn(|_: u64| pending::<io::Result<()>>()));
    for (own, ends) in [(50, 50), (900, 200)] {
        let start = Instant::now();
        let error = service.clone().oneshot(own).await.unwrap_err();
        assert_eq!((error.stopped().unwrap().code, start.elapsed()), (Code::DeadlineExceeded, ms(ends)));
    }
}
