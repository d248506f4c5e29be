//! Events, `tracing` and `metrics`: their contents and names, and that they cost nothing until they are enabled.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

mod support;

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use parking_lot::Mutex;
use support::{broken, ms, nothing_left, plain};
use tidegate_tokio::settings::{Backoff, Breaker, Bulkhead, Retry};
use tidegate_tokio::tidegate::Family;
use tidegate_tokio::{Engine, RecordType};
use tokio::time::sleep;
use tower::{Layer as _, ServiceExt as _, service_fn};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Level, Metadata as TraceMetadata, Subscriber};

/// A recorder that keeps values by the series' name and labels.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<BTreeMap<String, Vec<f64>>>>);

struct Series(Kept, String);

impl Series {
    fn tell(&self, value: f64) {
        self.0.0.lock().entry(self.1.clone()).or_default().push(value);
    }
}

impl CounterFn for Series {
    fn increment(&self, value: u64) {
        self.tell(value as f64);
    }

    fn absolute(&self, value: u64) {
        self.tell(value as f64);
    }
}

impl GaugeFn for Series {
    fn increment(&self, value: f64) {
        self.tell(value);
    }

    fn decrement(&self, value: f64) {
        self.tell(-value);
    }

    fn set(&self, value: f64) {
        self.tell(value);
    }
}

impl HistogramFn for Series {
    fn record(&self, value: f64) {
        self.tell(value);
    }
}

impl Kept {
    fn series(&self, key: &Key) -> Arc<Series> {
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        Arc::new(Series(self.clone(), format!("{}{{{}}}", key.name(), labels.join(","))))
    }

    fn last(&self, series: &str) -> Option<f64> {
        self.0.lock().get(series)?.last().copied()
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, key: KeyName, _: Option<Unit>, _: SharedString) {
        self.0.lock().insert(format!("described {}", key.as_str()), Vec::new());
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.describe_counter(key, unit, text);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, text: SharedString) {
        self.describe_counter(key, unit, text);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.series(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.series(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.series(key))
    }
}

#[test]
fn metrics_have_the_names_and_labels_of_every_language() {
    let kept = Kept::default();
    metrics::with_local_recorder(&kept, || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let engine = Engine::new(1);
            let policy = plain(&engine, "p", 2).bulkhead(Bulkhead::fixed(1).max_queue(5)).build().unwrap();
            let metrics = engine.metrics(1);
            let _twice = engine.metrics(1); // records no span a second time
            let work = |_| async {
                sleep(ms(100)).await;
                Ok::<_, io::Error>(())
            };
            let (one, two) = tokio::join!(policy.run(work), policy.run(work));
            assert!(one.is_ok() && two.is_ok());
            let _ = policy.run(|_| async { Err::<(), _>(broken()) }).await;
            policy.caller().route("beyond").run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap();
            assert_eq!(
                kept.last("tidegate_calls_total{policy=p,route=default,outcome=ok}"),
                None,
                "not published yet"
            );
            metrics.publish();
        });
    });
    for family in Family::ALL {
        assert!(kept.0.lock().contains_key(&format!("described {}", family.name())), "{}", family.name());
    }
    let last = |series: &str| kept.last(series);
    assert_eq!(last("tidegate_calls_total{policy=p,route=default,outcome=ok}"), Some(2.0));
    assert_eq!(last("tidegate_calls_total{policy=p,route=default,outcome=attempts}"), Some(1.0));
    assert_eq!(
        last("tidegate_calls_total{policy=p,route=other,outcome=ok}"),
        Some(1.0),
        "one route has a series of its own"
    );
    assert_eq!(last("tidegate_attempts_total{policy=p,route=default,outcome=transient}"), Some(2.0));
    assert_eq!(last("tidegate_retries_total{policy=p,route=default,reason=transient}"), Some(1.0));
    assert_eq!(last("tidegate_bulkhead_capacity{policy=p,route=default}"), Some(1.0));
    assert_eq!(last("tidegate_bulkhead_in_flight{policy=p,route=default}"), Some(0.0));
    let spans = kept.0.lock()["tidegate_call_duration_seconds{policy=p,route=default}"].clone();
    assert_eq!(spans.len(), 3);
    assert!((spans[1] - 0.2).abs() < 0.01, "{spans:?}");
    let waits = kept.0.lock()["tidegate_bulkhead_acquire_latency_seconds{policy=p,route=default}"].clone();
    assert!(waits.len() == 1 && (waits[0] - 0.1).abs() < 0.01, "{waits:?}");
}

const METERED: &str = r#"
[targets.chat]
pick = "ladder"
members = ["large", "small"]
default.cooldown = { base = "10s" }
[policy.chat]
targets = "chat"
first_byte_timeout = "5s"
retry = { max_attempts = 2, methods = ["POST"] }
[policy.chat.rate_limit]
limits.tpm = { permits = 60000, per = "1m", burst = 10000, weight = "tokens" }
"#;

/// Spec 12.5: one host's part is to hand the series on.
#[test]
fn metered_and_streaming_services_have_their_series() {
    let kept = Kept::default();
    metrics::with_local_recorder(&kept, || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let engine = Engine::new(1);
            let metrics = engine.metrics(1);
            let document = tidegate_tokio::tidegate::Document::from_toml(METERED).unwrap();
            let policy = engine.policies(document).unwrap().get("chat").unwrap();
            let client = service_fn(|_: Request<Full<Bytes>>| async {
                let status = if tidegate_tokio::target().as_deref() == Some("large") { 429 } else { 200 };
                sleep(ms(100)).await;
                let answer = Response::builder().status(status).header("content-type", "text/event-stream");
                Ok::<_, io::Error>(answer.body(Full::<Bytes>::from("data: high\n\n")).unwrap())
            });
            let weights = tidegate_tokio::Weights::new([("tokens", 600)]);
            let request = Request::post("http://model.example/").header("accept", "text/event-stream");
            let request = request.extension(weights).body(Full::default()).unwrap();
            let answer = policy.http_layer().layer(client).oneshot(request).await.unwrap();
            assert_eq!(answer.status(), 200);
            answer.into_body().collect().await.unwrap();
            metrics.publish();
        });
    });
    let kept = kept.0.lock();
    let like = |name: &str, labels: &str| {
        let found: Vec<_> =
            kept.iter().filter(|(key, _)| key.starts_with(name) && key.ends_with(labels)).collect();
        assert_eq!(found.len(), 1, "{name} {labels}: {:?}", kept.keys());
        found[0].1.clone()
    };
    assert_eq!(
        like("tidegate_rate_limit_reserved_total{policy=chat,", "limit=tpm,weight=tokens}"),
        [1_200.0]
    );
    let delivery = like("tidegate_stream_delivery_seconds{policy=chat,", "}");
    assert!(delivery.len() == 1 && (delivery[0] - 0.1).abs() < 0.01, "{delivery:?}");
    for (name, target) in [("attempts", "large"), ("attempts", "small"), ("failovers", "large")] {
        let name = format!("tidegate_target_{name}_total{{policy=,route=chat,");
        assert_eq!(like(&name, &format!("target={target}}}")), [1.0]);
    }
    assert_eq!(like("tidegate_cooldown_closings_total{policy=,route=chat,", "target=large}"), [1.0]);
    assert_eq!(like("tidegate_cooldown_state{policy=,route=chat,", "target=large}"), [1.0]);
}

/// Keeps log lines in the form `LEVEL name=value …`.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>, Arc<AtomicU64>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &TraceMetadata<'_>) -> bool {
        metadata.target() == "tidegate" && *metadata.level() <= Level::INFO
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = Text(format!("span {}", span.metadata().name()));
        span.record(&mut text);
        self.0.lock().push(text.0);
        Id::from_u64(1 + self.1.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text(event.metadata().level().to_string());
        event.record(&mut text);
        self.0.lock().push(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn tracing_has_a_line_for_what_people_look_for() {
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 2).breaker(Breaker::by_consecutive(1, ms(1_000))).build().unwrap();
    let tracing = engine.trace(RecordType::ALL);
    let _ = policy.run(|_| async { Err::<(), _>(broken()) }).await;
    let _ = policy.run(|_| async { Ok::<_, io::Error>(()) }).await;
    drop(tracing);
    let _ = policy.run(|_| async { Ok::<_, io::Error>(()) }).await;
    let lines = lines.0.lock().clone();
    assert_eq!(lines.len(), 4, "{lines:#?}");
    let has = |n: usize, parts: &[&str]| parts.iter().all(|part| lines[n].contains(part));
    assert!(
        has(
            0,
            &[
                "INFO",
                "type=\"retry_scheduled\"",
                "policy=\"p\"",
                "route=\"default\"",
                "wait_s=0.1",
                "kind=\"transient\""
            ]
        ),
        "{lines:#?}"
    );
    assert!(
        lines.iter().any(|line| line.contains("breaker_changed") && line.contains("closed → open")),
        "{lines:#?}"
    );
    assert!(lines.iter().any(|line| line.contains("gave_up")), "{lines:#?}");
    assert!(has(3, &["WARN", "type=\"rejected\"", "reason=\"breaker_open\""]), "{lines:#?}");
    nothing_left(&engine);
}

#[tokio::test]
async fn a_repeat_of_a_request_has_a_span_that_says_so() {
    use tidegate_origin::{Options, Origin, Script};
    use tidegate_tokio::reqwest::{Guard, SendWith};
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    let origin = Origin::start(Options::default()).unwrap();
    let script = serde_json::json!({"sequences": {"/x": [{"status": 503}, {}]}});
    origin.play(Script::from_value(&script).unwrap()).unwrap();
    let engine = Engine::new(1);
    let guard = Guard::new(
        &plain(&engine, "p", 3).retry(Retry::new().backoff(Backoff::new().base(ms(1)))).build().unwrap(),
    );
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    client.get(format!("{}/x", origin.url())).send_with(&guard).await.unwrap();
    let spans: Vec<_> = lines.0.lock().iter().filter(|line| line.starts_with("span")).cloned().collect();
    assert_eq!(spans, ["span repeat http.request.resend_count=1"]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_who_is_slow_or_gone_holds_nobody_up() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 1).build().unwrap();
    let mut slow = engine.events(&[RecordType::CallDone], 2);
    let gone = engine.events(RecordType::ALL, 1);
    for _ in 0..10 {
        policy.run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap();
    }
    drop(gone);
    assert_eq!(slow.next().await.unwrap().what, RecordType::CallDone);
    assert!(slow.try_next().is_some() && slow.try_next().is_none(), "two are kept");
    policy.run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap();
    assert!(slow.next().await.unwrap().seq > 10, "the gap shows what is missing");
    drop(slow);
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn events_and_chains_of_causes_say_names_and_each_text_once() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 3)
        .deadline(ms(100))
        .retry(Retry::new().backoff(Backoff::new().base(ms(60))))
        .build()
        .unwrap();
    let policy_b = plain(&engine, "b", 1).breaker(Breaker::by_consecutive(1, ms(1_000))).build().unwrap();
    let mut events = engine.events(&[RecordType::BreakerChanged], 10);
    let chain = |error: &dyn std::error::Error| {
        let mut texts = vec![error.to_string()];
        let mut next = error.source();
        while let Some(cause) = next {
            texts.push(cause.to_string());
            next = cause.source();
        }
        texts
    };
    // The first attempt fails; the deadline stops the second.
    let tries = AtomicU64::new(0);
    let cut = policy.run(|_| async {
        if tries.fetch_add(1, Ordering::Relaxed) == 0 {
            return Err::<(), _>(broken());
        }
        sleep(ms(500)).await;
        Ok(())
    });
    let texts = chain(&cut.await.unwrap_err());
    assert_eq!(texts[0], "the deadline passed (policy \"p\", route \"default\")");
    assert_eq!(texts[1..], [broken().to_string()], "the call's own last error, and no text twice");
    // A refusal has no error of the call's own, so its code is logged instead.
    let _ = policy_b.run(|_| async { Err::<(), _>(broken()) }).await;
    let refused = policy_b.run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap_err();
    assert_eq!(chain(&refused)[1..], ["breaker_open"]);
    let boxed: Box<dyn std::error::Error + Send + Sync> = Box::new(refused);
    let found = tidegate_tokio::stopped_in(&*boxed).expect("ours, behind any type");
    assert_eq!(found.code, tidegate_tokio::Code::BreakerOpen);
    let opened = events.next().await.unwrap();
    assert_eq!(opened.breaker(), Some(("closed", "open")));
    let text = format!("{opened:?}");
    assert!(text.contains("change: closed → open") && text.contains("what: breaker_changed"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_nobody_takes_is_bounded() {
    let engine = Engine::with_options(1, tidegate_tokio::Options::default().journal(true));
    let policy = plain(&engine, "p", 1).build().unwrap();
    for _ in 0..60_000 {
        policy.run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap();
    }
    let journal = engine.take_journal();
    assert_eq!((journal.dropped, journal.lines.len()), (20_002, 100_000));
    assert_eq!(engine.take_journal().lines.len(), 0);
}
