//! Weights of calls, and what their attempts settle (semantics 3.4 to 3.6).
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tidegate_tokio::settings::RateLimit;
use tidegate_tokio::tidegate::Document;
use tidegate_tokio::tower::{Facts, Requests};
use tidegate_tokio::{Attempt, Pool, PoolKind, Snapshot, Weights};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::world::*;

const LIMITS: [&str; 2] =
    ["rpm: permits=60 per=1m burst=3", "tpm: permits=60000 per=1m burst=10000 weight=tokens"];

/// Requests and tokens.
fn metered(engine: &Engine) -> Policy {
    plain(engine, "metered", 3).rate_limit(RateLimit::of_limits(LIMITS)).build().unwrap()
}

/// Tokens in the limits of the only route.
fn tokens(engine: &Engine) -> [i64; 2] {
    let limits = engine.snapshot().routes[0].limits.clone();
    [limits[0].tokens, limits[1].tokens]
}

/// Settles nothing.
async fn works(_: Attempt) -> io::Result<u8> {
    Ok(7)
}

#[tokio::test(start_paused = true)]
async fn an_attempt_reserves_and_settles() {
    let engine = Engine::new(7);
    let caller = metered(&engine).caller().weights([("tokens", 4_000)]);
    let (watched, kept) = (&engine, std::cell::Cell::new(None));
    let answer = caller.run(|attempt| {
        kept.set(Some(attempt));
        async move {
            assert_eq!(tokens(watched), [2, 6_000], "spec 3.6.1");
            assert!(attempt.settle("tokens", 1_000) && attempt.settle("tokens", 5_500));
            assert_eq!(
                tokens(watched),
                [2, 4_500],
                "spec 3.6.2: what exceeds the reservation is charged at once"
            );
            assert!(attempt.settle("tokens", 2_000), "a lower total is ignored");
            assert!(!attempt.settle("cents", 1), "no limit counts it");
            Ok::<_, io::Error>(7)
        }
    });
    assert_eq!(answer.await.unwrap(), 7);
    assert!(!kept.get().unwrap().settle("tokens", 9_000), "spec 3.6.7: it has ended");
    let limit = engine.snapshot().routes[0].limits[1].clone();
    assert_eq!((limit.tokens, limit.reserved, limit.settled), (4_500, 4_000, 5_500), "spec 3.6.3");
    let Snapshot { late_settlements, .. } = engine.snapshot();
    assert_eq!(late_settlements, 2);
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_used_comes_back_and_goes_to_the_waiters() {
    let engine = Engine::new(7);
    let waits = RateLimit::of_limits(LIMITS).wait(true).max_wait(Duration::from_secs(60));
    let policy = plain(&engine, "metered", 3).rate_limit(waits).build().unwrap();
    let caller = policy.caller().weights([("tokens", 6_000)]);
    let begun = tokio::time::Instant::now();
    let first = caller.run(|attempt| async move {
        tokio::time::sleep(ms(100)).await;
        attempt.settle("tokens", 500);
        Ok::<_, io::Error>(())
    });
    let (first, second) = tokio::join!(first, caller.run(works));
    assert!(first.is_ok() && second.is_ok());
    assert_eq!(begun.elapsed(), ms(100), "spec 3.6.3: the same step, and not when 2,000 tokens have come");
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn each_attempt_reserves_and_a_failed_one_counts_by_its_class() {
    let engine = Engine::new(7);
    let caller = metered(&engine).caller().weights([("tokens", 3_000)]);
    let answer = caller.run(|attempt| async move {
        match attempt.number {
            1 => Err(io::Error::from(io::ErrorKind::ConnectionRefused)), // never sent: counts nothing
            2 => Err(io::Error::from(io::ErrorKind::ConnectionReset)),   // may have been served: counts all
            _ => {
                attempt.settle("tokens", 500);
                Ok(())
            }
        }
    });
    answer.await.unwrap();
    let limit = engine.snapshot().routes[0].limits[1].clone();
    assert_eq!((limit.reserved, limit.settled), (9_000, 3_500), "spec 3.5.5 and 3.6.4");
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn calls_that_find_no_tokens_are_refused() {
    let engine = Engine::new(7);
    let caller = metered(&engine).caller().weights([("tokens", 6_000)]);
    assert!(caller.run(works).await.is_ok());
    assert_eq!(caller.run(works).await.unwrap_err().stopped().unwrap().code, Code::RateLimited, "spec 3.4.3");
    tokio::time::sleep(ms(2_000)).await;
    assert!(caller.run(works).await.is_ok(), "spec 3.6.4");
    let large = metered(&engine).caller().weights([("tokens", 10_001)]).run(works).await.unwrap_err();
    let large = large.stopped().unwrap();
    assert_eq!(large.code, Code::CostAboveBurst, "spec 3.5.4");
    assert!(large.to_string().starts_with("the call costs more than the rate limit can ever hold (policy"));
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_names_the_limit_the_weight_and_the_amount() {
    let engine = Engine::new(7);
    let policy = metered(&engine);
    let weighing = |amount| policy.caller().weights([("tokens", amount)]);
    assert!(weighing(6_000).run(works).await.is_ok());
    let refused = |error: Error<io::Error>| error.stopped().unwrap().clone();
    let tpm = refused(weighing(6_000).run(works).await.unwrap_err());
    assert_eq!(
        (tpm.limit(), tpm.weight(), tpm.amount()),
        (Some("tpm"), Some("tokens"), Some(6_000)),
        "spec 3.8.14"
    );
    let place = "policy \"metered\", route \"default\"";
    assert_eq!(tpm.to_string(), format!("the rate limit is used up ({place}, limit tpm, 6000 tokens)"));
    let large = refused(weighing(10_001).run(works).await.unwrap_err());
    assert_eq!(large.code, Code::CostAboveBurst);
    assert_eq!((large.limit(), large.weight(), large.amount()), (Some("tpm"), Some("tokens"), Some(10_001)));
    assert!(large.to_string().ends_with(&format!("({place}, limit tpm, 10001 tokens)")));
    for _ in 0..2 {
        assert!(weighing(1).run(works).await.is_ok());
    }
    let rpm = refused(weighing(1).run(works).await.unwrap_err());
    assert_eq!((rpm.limit(), rpm.weight(), rpm.amount()), (Some("rpm"), None, None), "spec 3.4.6");
    assert!(rpm.to_string().ends_with(&format!("({place}, limit rpm)")));
    let single = plain(&engine, "single", 3).rate_limit(RateLimit::new(1, ms(60_000))).build().unwrap();
    assert!(single.run(works).await.is_ok());
    let unnamed = refused(single.run(works).await.unwrap_err());
    assert_eq!((unnamed.limit(), unnamed.weight(), unnamed.amount()), (None, None, None));
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn wrong_and_missing_weights_are_named_and_nothing_begins() {
    let engine = Engine::new(7);
    let weighed = |name, amount| metered(&engine).caller().weights([(name, amount)]);
    for (caller, text) in [
        (weighed("token", 5), "weights = \"token\": no limit counts it; the weights are tokens"),
        (weighed("tokens", 1 << 53), "weights = tokens 9007199254740992: must be a whole number below 2^53"),
        (
            metered(&engine).caller(),
            "weights: the rate limit counts tokens; give each call an amount, or the limit a default",
        ),
    ] {
        let ended = caller.ended(works).await;
        let error = ended.result.unwrap_err();
        let stopped = error.stopped().unwrap();
        assert_eq!(
            stopped.to_string(),
            format!("{text} (policy \"metered\", route \"default\")"),
            "spec 3.5.3"
        );
        assert_eq!(
            (stopped.code, ended.report.attempts, ended.report.call()),
            (Code::CostAboveBurst, 0, None)
        );
        // The same through a layer, which begins its calls earlier.
        let service = caller.layer().layer(service_fn(|(): ()| async { Ok::<_, io::Error>(()) }));
        let error = service.oneshot(()).await.unwrap_err();
        assert!(error.to_string().starts_with(text), "{error}");
    }
    let without = plain(&engine, "plain", 3).build().unwrap().caller().weights([("tokens", 5)]);
    let error = without.run(works).await.unwrap_err().to_string();
    assert!(
        error.starts_with("weights = \"tokens\": the policy's rate limit has no weights; leave weights out")
    );
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn documents_and_pools_have_weights() {
    let engine = Engine::new(7);
    let document = Document::from_toml(
        r#"
        [policy.chat.rate_limit.limits]
        rpm = { permits = 60, per = "1m" }
        tpm = { permits = 60000, per = "1m", weight = "tokens", default = 500, max_debt = "none" }
        "#,
    );
    let policies = engine.load(&document.unwrap()).unwrap();
    assert_eq!(policies[0].run(works).await.unwrap(), 7);
    assert_eq!(tokens(&engine), [59, 59_500], "spec 3.4.1 and 3.5.3");
    let other = Engine::new(7);
    let limits = LIMITS.map(|limit| ("limits", tidegate_tokio::Value::Text(limit)));
    other.pool(Pool::from_pairs("tokens", PoolKind::RateLimit, &limits).unwrap()).unwrap();
    let limit = RateLimit::in_pool("tokens").unit(tidegate_tokio::settings::Unit::Attempt);
    let pooled = plain(&other, "pooled", 3).rate_limit(limit).build().unwrap();
    assert_eq!(pooled.caller().weights([("tokens", 4_000)]).run(works).await.unwrap(), 7);
    assert_eq!(other.snapshot().pools[0].limits[1].tokens, 6_000);
}

/// Says what a request's own header estimates.
#[derive(Clone)]
struct Estimated;

impl Requests<Request<Full<Bytes>>> for Estimated {
    fn replay(&self, request: &Request<Full<Bytes>>) -> Option<Request<Full<Bytes>>> {
        Some(request.clone())
    }

    fn facts<'a>(&self, request: &Request<Full<Bytes>>, facts: Facts<'a>) -> Facts<'a> {
        match request.headers().get("x-tokens").and_then(|it| it.to_str().ok()?.parse().ok()) {
            Some(tokens) => facts.weights([("tokens", tokens)]),
            None => facts,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_under_the_layer_has_weights() {
    let engine = Engine::new(7);
    let service = service_fn(|_| async { Ok::<_, io::Error>(Response::new(Full::<Bytes>::default())) });
    let client = metered(&engine).http_layer().requests(Estimated).layer(service);
    let request = || Request::get("http://model.example/");
    let extended = request().extension(Weights::new([("tokens", 2_500)])).body(Full::default()).unwrap();
    client.clone().oneshot(extended).await.unwrap();
    assert_eq!(tokens(&engine), [2, 7_500], "spec 3.5.1");
    let estimated = request().header("x-tokens", "1500").body(Full::default()).unwrap();
    client.clone().oneshot(estimated).await.unwrap();
    assert_eq!(tokens(&engine), [1, 6_000]);
    let error = client.oneshot(request().body(Full::default()).unwrap()).await.unwrap_err().to_string();
    assert!(error.starts_with("weights: the rate limit counts tokens"), "spec 3.5.3: {error}");
    nothing_left(&engine);
}

#[tokio::test]
async fn a_request_of_reqwest_has_weights() {
    counted(async {
        let world = World::new(How::Own);
        world.answers(&json!([{"status": 200}]));
        let guard = tidegate_tokio::reqwest::Guard::new(&metered(&world.engine));
        let heavy = Says::new(&metered(&world.engine)).weights([("tokens", 2_500)]);
        world.get(&heavy).await.unwrap().bytes().await.unwrap();
        assert!(tokens(&world.engine)[1] < 7_600, "spec 3.5.1");
        let client = reqwest_middleware::ClientBuilder::new(world.client.clone()).with(guard).build();
        let url = format!("{}/x", world.origin.url());
        let request = client.get(&url).with_extension(Weights::new([("tokens", 2_500)]));
        request.send().await.unwrap().bytes().await.unwrap();
        assert!(tokens(&world.engine)[1] < 5_200, "spec 3.5.1");
        let error = client.get(&url).send().await.unwrap_err();
        let reqwest_middleware::Error::Middleware(error) = error else { panic!("ours: {error}") };
        assert!(
            stopped_in(error.as_ref())
                .unwrap()
                .to_string()
                .starts_with("weights: the rate limit counts tokens")
        );
        world.done();
    })
    .await;
}
