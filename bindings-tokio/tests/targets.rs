//! Targets: attempts learn which model, provider or key they go to (semantics 17).
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

use std::cell::RefCell;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tidegate_tokio::tidegate::Document;
use tidegate_tokio::{Code, Policies, carry, target};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::support::broken;
use crate::world::*;

const LADDER: &str = r#"
[targets.chat]
pick = "ladder"
members = ["large", "small"]
default.breaker = { consecutive = 1, break_duration = "10s" }
[policy.chat]
targets = "chat"
retry = { max_attempts = 2, backoff = { base = "1ms", max = "1ms" } }
[policy.inner]
deadline = "5s"
"#;
const HEDGED: &str = r#"
[targets.chat]
pick = "ladder"
members = ["large", "small"]
[policy.chat]
targets = "chat"
hedge = { delay = "1ms", max_attempts = 2, budget = { kind = "none" } }
"#;

fn policies(engine: &Engine, text: &str) -> Policies {
    engine.policies(Document::from_toml(text).unwrap()).unwrap()
}

fn chat(engine: &Engine) -> Policy {
    policies(engine, LADDER).get("chat").unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_function_learns_its_target_and_fails_over() {
    let engine = Engine::new(7);
    let (chat, seen) = (chat(&engine), RefCell::new(Vec::new()));
    let ask = || {
        chat.run(|attempt| {
            let made = target();
            let seen = &seen;
            async move {
                tokio::task::yield_now().await;
                assert_eq!(
                    (made.as_deref(), attempt.target()),
                    (target().as_deref(), target()),
                    "spec 17.2.11"
                );
                seen.borrow_mut().push(target().unwrap());
                if target().as_deref() == Some("large") { Err(broken()) } else { Ok(target()) }
            }
        })
    };
    assert_eq!(target(), None);
    assert_eq!(ask().await.unwrap().as_deref(), Some("small"), "spec 17.4.1");
    assert_eq!(ask().await.unwrap().as_deref(), Some("small"), "the first one's breaker is open");
    assert_eq!(*seen.borrow(), ["large", "small", "small"]);
    assert_eq!(target(), None);
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn an_inner_call_and_a_carried_task_see_the_target_around_them() {
    let engine = Engine::new(7);
    let all = policies(&engine, LADDER);
    let (chat, inner) = (all.get("chat").unwrap(), all.get("inner").unwrap());
    let seen = chat.run(|_| {
        let inner = &inner;
        async move {
            let nested = inner.run(|attempt| async move { Ok::<_, io::Error>((attempt.target(), target())) });
            let nested = nested.await.map_err(|_| broken())?;
            let carried = tokio::spawn(carry(async { target() })).await.unwrap();
            let bare = tokio::spawn(async { target() }).await.unwrap();
            Ok::<_, io::Error>((nested, carried, bare))
        }
    });
    let large = || Some("large".to_owned());
    assert_eq!(seen.await.unwrap(), ((None, large()), large(), None));
}

#[tokio::test(start_paused = true)]
async fn each_attempt_of_a_race_keeps_its_own_target() {
    let engine = Engine::new(7);
    let chat = policies(&engine, HEDGED).get("chat").unwrap();
    let seen = RefCell::new(Vec::new());
    let answer = chat.run(|attempt| {
        let seen = &seen;
        async move {
            let wait = if attempt.hedge { ms(5) } else { ms(4) };
            tokio::time::sleep(wait).await;
            seen.borrow_mut().push((attempt.number, attempt.target(), target()));
            tokio::time::sleep(if attempt.hedge { ms(1) } else { ms(60_000) }).await;
            Ok::<_, io::Error>(target())
        }
    });
    assert_eq!(answer.await.unwrap().as_deref(), Some("small"));
    let (large, small) = (Some("large".to_owned()), Some("small".to_owned()));
    // The hedge is the newest attempt when the first one asks: spec 17.4.6.
    assert_eq!(*seen.borrow(), [(1, large.clone(), large), (2, small.clone(), small)]);
}

#[tokio::test(start_paused = true)]
async fn no_target_is_a_refusal_with_a_time() {
    let engine = Engine::new(7);
    let chat = chat(&engine);
    chat.run(|_| async { Err::<(), _>(broken()) }).await.unwrap_err();
    let refused = chat.run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap_err();
    let stopped = refused.stopped().expect("spec 17.3.1");
    assert_eq!((stopped.code, stopped.report.attempts), (Code::NoTarget, 0));
    assert!(stopped.report.retry_in.is_some_and(|wait| wait > ms(9_000)), "spec 17.3.2");
    let targets = engine.snapshot().targets;
    let shown: Vec<_> =
        targets.iter().map(|it| (&*it.group, &*it.name, it.attempts, it.breaker.is_some())).collect();
    assert_eq!(shown, [("chat", "large", 1, true), ("chat", "small", 1, true)]);
}

#[tokio::test(start_paused = true)]
async fn a_service_under_the_layer_maps_the_target_to_a_host() {
    let engine = Engine::new(7);
    let client = service_fn(|request: Request<Full<Bytes>>| async move {
        let host = format!("{}.example", target().unwrap());
        let status = if host == "large.example" { 503 } else { 200 };
        assert_eq!(request.uri().host(), Some("chat.example"), "the route is the request's own");
        let body = Full::new(Bytes::from(host));
        Ok::<_, io::Error>(Response::builder().status(status).body(body).unwrap())
    });
    let client = chat(&engine).http_layer().layer(client);
    let request = Request::get("http://chat.example/").body(Full::<Bytes>::default()).unwrap();
    let response = client.oneshot(request).await.unwrap();
    let (status, body) =
        (response.status(), http_body_util::BodyExt::collect(response).await.unwrap().to_bytes());
    assert_eq!((status.as_u16(), &body[..]), (200, &b"small.example"[..]));
    assert_eq!(engine.snapshot().targets[0].attempts, 1);
}

#[tokio::test(start_paused = true)]
async fn an_operator_closes_a_target() {
    let engine = Engine::new(7);
    let chat = chat(&engine);
    let ask = async || chat.run(|it| async move { Ok::<_, io::Error>(it.target()) }).await.unwrap();
    chat.force_target("large", true).unwrap();
    assert_eq!(ask().await.as_deref(), Some("small"), "spec 17.3.5");
    assert!(engine.snapshot().targets[0].forced);
    chat.force_target("large", false).unwrap();
    assert_eq!(ask().await.as_deref(), Some("large"));
    let wrong = chat.force_target("huge", true).unwrap_err();
    assert_eq!((&*wrong.name, wrong.rule), ("chat/huge", "there is no such target in this engine"));
}

#[tokio::test(start_paused = true)]
async fn a_reload_changes_the_members_of_a_group() {
    let engine = Engine::new(7);
    let policies = policies(&engine, LADDER);
    let ask =
        async || policies.get("chat").unwrap().run(|it| async move { Ok::<_, io::Error>(it.target()) }).await;
    assert_eq!(ask().await.unwrap().as_deref(), Some("large"));
    let to = LADDER.replace(r#"["large", "small"]"#, r#"["tiny", "large"]"#);
    let changes = policies.reload(Document::from_toml(&to).unwrap()).unwrap();
    assert_eq!(
        (changes.added, changes.changed, changes.removed),
        (vec![], vec!["targets.chat".to_owned()], vec![])
    );
    assert_eq!(ask().await.unwrap().as_deref(), Some("tiny"), "spec 17.1.8");
}
