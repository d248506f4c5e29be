//! Errors that are repeated: real errors of libraries (semantics 1.5), and errors that stacks of tower and applications
//! box.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they open sockets, sleep and look at the clock"
)]

use std::error::Error as StdError;
use std::fmt;
use std::io::{self, ErrorKind};
use std::time::Duration;

use crate::support::{broken, ms, plain};
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tidegate_tokio::settings::Bulkhead;
use tidegate_tokio::{
    BoxError, Class, Code, Engine, Error, Failure, Options, Outcome, Policy, Verdict, stopped_in,
};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

fn policy() -> Policy {
    plain(&Engine::new(1), "p", 3).build().unwrap()
}

fn class(error: &impl Failure) -> Class {
    error.outcome().kind.class().unwrap()
}

/// An address at which nothing listens.
async fn closed() -> std::net::SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// A server that reads a request and closes without a response, `times` times.
async fn rude(times: usize) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for _ in 0..times {
            let (mut socket, _) = listener.accept().await.unwrap();
            let _ = socket.read(&mut [0; 1024]).await;
        }
    });
    at
}

#[derive(Debug)]
struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("busy")
    }
}

impl StdError for Busy {}

/// An error that wraps a cause.
#[derive(Debug)]
struct Layered(BoxError);

impl fmt::Display for Layered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("layered")
    }
}

impl StdError for Layered {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.0)
    }
}

#[tokio::test]
async fn errors_of_the_system_are_judged_by_the_list_of_numbers() {
    let refused = TcpStream::connect(closed().await).await.unwrap_err();
    assert_eq!(class(&refused), Class::NeverSent);
    let absent = tokio::net::lookup_host("no-such-host.invalid:80").await.map(|_| ()).unwrap_err();
    assert_eq!(class(&absent), Class::NeverSent, "{absent:?}");
    assert_eq!(class(&std::fs::read("/no/such/file").unwrap_err()), Class::Permanent);
    assert_eq!(class(&std::fs::File::create("/").unwrap_err()), Class::Permanent);
    assert_eq!(class(&io::Error::other("a bug")), Class::Permanent);
    for (kind, expected) in [
        (ErrorKind::ConnectionRefused, Class::NeverSent),
        (ErrorKind::HostUnreachable, Class::NeverSent),
        (ErrorKind::NetworkUnreachable, Class::NeverSent),
        (ErrorKind::NetworkDown, Class::NeverSent),
        (ErrorKind::AddrNotAvailable, Class::NeverSent),
        (ErrorKind::ConnectionReset, Class::Transient),
        (ErrorKind::ConnectionAborted, Class::Transient),
        (ErrorKind::NotConnected, Class::Transient),
        (ErrorKind::BrokenPipe, Class::Transient),
        (ErrorKind::WouldBlock, Class::Transient),
        (ErrorKind::Interrupted, Class::Transient),
        (ErrorKind::ResourceBusy, Class::Transient),
        (ErrorKind::UnexpectedEof, Class::Transient),
        (ErrorKind::WriteZero, Class::Transient),
        (ErrorKind::TimedOut, Class::Timeout),
        (ErrorKind::PermissionDenied, Class::Permanent),
        (ErrorKind::InvalidInput, Class::Permanent),
        (ErrorKind::InvalidData, Class::Permanent),
        (ErrorKind::AddrInUse, Class::Permanent),
    ] {
        assert_eq!(class(&io::Error::from(kind)), expected, "{kind:?}");
    }
    #[cfg(target_os = "linux")]
    for (number, expected) in [
        (112, Class::NeverSent), // EHOSTDOWN
        (102, Class::Transient), // ENETRESET
        (105, Class::Transient), // ENOBUFS
        (28, Class::Permanent),  // ENOSPC
    ] {
        assert_eq!(class(&io::Error::from_raw_os_error(number)), expected, "{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn timeouts_of_tokio_and_of_tower_are_timeouts() {
    let slow = tokio::time::timeout(ms(10), std::future::pending::<()>()).await.unwrap_err();
    assert_eq!(class(&slow), Class::Timeout);
    let service = ServiceBuilder::new()
        .timeout(ms(10))
        .service(service_fn(|(): ()| std::future::pending::<Result<(), io::Error>>()));
    assert_eq!(class(&service.oneshot(()).await.unwrap_err()), Class::Timeout);
}

#[tokio::test]
async fn errors_of_reqwest_are_judged_by_what_they_are() {
    let client = reqwest::Client::builder().retry(reqwest::retry::never()).no_proxy().build().unwrap();
    let get = |url: String| client.get(url).send();
    assert_eq!(class(&get(format!("http://{}/", closed().await)).await.unwrap_err()), Class::NeverSent);
    assert_eq!(class(&get("http://no-such-host.invalid/".into()).await.unwrap_err()), Class::NeverSent);
    assert_eq!(class(&get(format!("http://{}/", rude(1).await)).await.unwrap_err()), Class::Transient);
    assert_eq!(class(&client.get("no url").send().await.unwrap_err()), Class::Permanent);
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let slow = client.get(url).timeout(ms(50)).send().await.unwrap_err();
    assert_eq!(class(&slow), Class::Timeout);
    for (status, expected) in [
        (503, Class::Transient),
        (500, Class::Transient),
        (429, Class::Throttled),
        (404, Class::Permanent),
        (400, Class::Permanent),
    ] {
        let answer = http::Response::builder().status(status).body("").unwrap();
        let error = reqwest::Response::from(answer).error_for_status().unwrap_err();
        assert_eq!(class(&error), expected, "{status}");
    }
}

/// R12: the policy's statuses decide about a status that an error carries.
#[tokio::test(start_paused = true)]
async fn a_status_on_an_error_is_judged_under_the_policy() {
    let http = Policy::builder("h").engine(&Engine::new(1)).preset(tidegate_tokio::settings::Preset::Http);
    let http = http.build().unwrap();
    for (status, attempts) in [(503, 3), (501, 1), (404, 1)] {
        let work = |_| async move {
            let answer = http::Response::builder().status(status).body("").unwrap();
            reqwest::Response::from(answer).error_for_status().map(|_| ())
        };
        http.engine().lift_budgets(true);
        let error = http.run(work).await.unwrap_err();
        assert_eq!(error.report().attempts, attempts, "{status}");
    }
}

#[tokio::test]
async fn errors_of_hyper_are_judged_by_what_they_are() {
    let client = Client::builder(TokioExecutor::new()).retry_canceled_requests(false).build_http();
    let get = |at: String| client.request(Request::get(at).body(Full::<Bytes>::default()).unwrap());
    assert_eq!(class(&get(format!("http://{}/", closed().await)).await.unwrap_err()), Class::NeverSent);
    assert_eq!(class(&get("http://no-such-host.invalid/".into()).await.unwrap_err()), Class::NeverSent);
    assert_eq!(class(&get(format!("http://{}/", rude(1).await)).await.unwrap_err()), Class::Transient);
    // No scheme that the client supports: a mistake in the request.
    let mistaken = get("/relative".into()).await.unwrap_err();
    assert_eq!(class(&mistaken), Class::Permanent, "{mistaken:?}");
}

#[tokio::test]
async fn errors_of_redis_are_judged_by_what_they_are() {
    let client = redis::Client::open(format!("redis://{}/", closed().await)).unwrap();
    let refused = client.get_multiplexed_async_connection().await.map(|_| ()).unwrap_err();
    assert_eq!(class(&refused), Class::NeverSent);
    let wrong = redis::Client::open("no url").map(|_| ()).unwrap_err();
    assert_eq!(class(&wrong), Class::Permanent);
    for (reply, expected) in [
        (&b"-LOADING Redis is loading the dataset in memory\r\n"[..], Class::Transient),
        (b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n", Class::Transient),
        (b"-WRONGTYPE Operation against a key\r\n", Class::Permanent),
    ] {
        let error = match redis::parse_redis_value(reply) {
            Ok(value) => value.extract_error().unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(class(&error), expected, "{error:?}");
    }
}

/// R12: `run` and `http_layer` follow the same rule.
#[tokio::test(start_paused = true)]
async fn an_unknown_error_is_permanent_everywhere_and_the_note_says_how_to_change_that() {
    let policy = policy();
    let error = policy.run(|_| async { Err::<(), BoxError>(Box::new(Busy)) }).await.unwrap_err();
    let note = "not retried: the error is not listed as an error that may pass; to repeat it: policy.on::<MyError>(), or classify";
    assert_eq!((error.report().attempts, &*error.report().note().unwrap()), (1, note));

    let client = service_fn(|_: Request<Full<Bytes>>| async { Err::<http::Response<Full<Bytes>>, _>(Busy) });
    let request = Request::get("http://shop.example/").body(Full::default()).unwrap();
    let error = policy.http_layer().layer(client).oneshot(request.clone()).await.unwrap_err();
    let note = "not retried: Busy is not listed as an error that may pass; to repeat it: policy.on::<Busy>(), or classify";
    assert_eq!((error.report().attempts, &*error.report().note().unwrap()), (1, note));

    // There is no note without retries (1.5.16), nor about an error that a classifier judges.
    let single = plain(&Engine::new(1), "single", 1).build().unwrap();
    let error = single.run(|_| async { Err::<(), BoxError>(Box::new(Busy)) }).await.unwrap_err();
    assert_eq!(error.report().note(), None);
    let judged =
        policy.caller().classify(|_: Result<&(), &Busy>| tidegate_tokio::Outcome::of(Class::Permanent));
    assert_eq!(judged.run(|_| async { Err::<(), _>(Busy) }).await.unwrap_err().report().note(), None);
}

#[tokio::test(start_paused = true)]
async fn errors_that_on_names_are_repeated_wherever_they_are() {
    let policy = policy();
    let attempts = |error: Error<_>| -> u8 {
        let error: Error<BoxError> = error;
        error.report().attempts
    };
    let busy = policy.on::<Busy>();
    assert_eq!(busy.run(|_| async { Err::<(), _>(Busy) }).await.unwrap_err().report().attempts, 3);
    let boxed = || -> BoxError { Box::new(Layered(Box::new(Busy))) };
    assert_eq!(attempts(busy.run(|_| async { Err::<(), _>(boxed()) }).await.unwrap_err()), 3);
    let also = busy.on::<Layered>();
    assert_eq!(
        also.run(|_| async { Err::<(), _>(Layered("?".into())) }).await.unwrap_err().report().attempts,
        3
    );
    // The table judges errors that are not named.
    let also = policy.on::<Busy>();
    assert_eq!(
        also.run(|_| async { Err::<(), _>(Layered("?".into())) }).await.unwrap_err().report().attempts,
        1
    );
    assert_eq!(also.run(|_| async { Err::<(), _>(broken()) }).await.unwrap_err().report().attempts, 3);
    let gone = || io::Error::from(ErrorKind::NotFound);
    assert_eq!(also.run(|_| async { Err::<(), _>(gone()) }).await.unwrap_err().report().attempts, 1);
    assert_eq!(
        policy.on::<io::Error>().run(|_| async { Err::<(), _>(gone()) }).await.unwrap_err().report().attempts,
        3
    );
}

#[tokio::test]
async fn causes_are_walked_eight_deep() {
    let nested = |depth: usize| {
        let mut error: BoxError = Box::new(broken());
        for _ in 1..depth {
            error = Box::new(Layered(error));
        }
        error
    };
    assert_eq!(class(&nested(8)), Class::Transient);
    assert_eq!(class(&nested(9)), Class::Permanent);
    assert_eq!(class(&io::Error::other(Layered(Box::new(broken())))), Class::Transient);
}

/// R3: `anyhow::Error` inside `run`.
#[tokio::test(start_paused = true)]
async fn errors_of_anyhow_are_judged_by_what_they_hold() {
    use anyhow::Context as _;
    let policy = policy();
    let mut attempts = 0;
    let work = |_| {
        attempts += 1;
        async { Err::<(), _>(broken()).context("while the order was read") }
    };
    let error: Error<anyhow::Error> = policy.run(work).await.unwrap_err();
    assert_eq!(error.to_string(), "while the order was read");
    assert_eq!(attempts, 3);
    // The error also passes out through `?`.
    let outer = async { Ok::<(), anyhow::Error>(policy.run(|_| async { Err::<(), _>(broken()) }).await?) };
    assert!(outer.await.unwrap_err().is::<Error<io::Error>>());
    let boxed = |error: Error<anyhow::Error>| error.into_boxed();
    assert_eq!(boxed(error).to_string(), "while the order was read");
}

/// R3: tower's own layers, which box errors, below and above.
#[tokio::test(start_paused = true)]
async fn boxed_layers_fit_between_those_of_tower() {
    let engine = Engine::new(1);
    let policy = plain(&engine, "p", 3).bulkhead(Bulkhead::fixed(1)).build().unwrap();
    let slow = service_fn(|span: Duration| async move {
        tokio::time::sleep(span).await;
        Ok::<_, io::Error>(7)
    });
    let mut stack = ServiceBuilder::new()
        .load_shed()
        .buffer(4)
        .timeout(ms(5_000))
        .layer(policy.layer().boxed())
        .load_shed()
        .timeout(ms(100))
        .service(slow);
    assert_eq!(stack.ready().await.unwrap().call(ms(10)).await.unwrap(), 7);
    // A timeout in an inner layer is repeated, and reaches the caller unchanged.
    let error = stack.ready().await.unwrap().call(ms(1_000)).await.unwrap_err();
    let elapsed = error.source().map_or_else(|| error.is::<tower::timeout::error::Elapsed>(), |_| false);
    assert!(elapsed, "{error:?}");
    assert_eq!(engine.snapshot().policies[0].1.attempts, 4);

    // Tidegate's own error is found behind the box, with the call's own last error as its cause.
    let hasty = plain(&engine, "hasty", 3).deadline(ms(250)).build().unwrap();
    let stack = ServiceBuilder::new().layer(hasty.layer().boxed()).timeout(ms(100)).service(slow);
    let error = stack.oneshot(ms(1_000)).await.unwrap_err();
    assert_eq!(stopped_in(&*error).unwrap().code, Code::DeadlineExceeded);
    assert_eq!(error.source().unwrap().to_string(), "request timed out");
}

/// R13.
#[tokio::test(start_paused = true)]
async fn each_error_and_each_ended_call_explains_itself() {
    let engine = Engine::with_options(1, Options::default().journal(true).journal_limit(100));
    let policy = plain(&engine, "p", 2).build().unwrap();
    let error = policy.run(|_| async { Err::<(), _>(broken()) }).await.unwrap_err();
    assert!(error.explain().unwrap().to_string().contains("attempt 2"));
    let ended = policy.caller().ended(|_| async { Ok::<_, io::Error>(1) }).await;
    assert!(ended.report.explain().unwrap().to_string().contains("ended as ok"));
    assert_eq!(
        engine.explain(ended.report.call().unwrap()).unwrap().to_string(),
        ended.report.explain().unwrap().to_string()
    );
    // The journal is bounded: old calls are forgotten.
    for _ in 0..100 {
        policy.run(|_| async { Ok::<_, io::Error>(1) }).await.unwrap();
    }
    assert!(error.explain().is_none());
    assert!(engine.take_journal().lines.len() <= 100);
    drop((policy, engine));
    assert!(ended.report.explain().is_none(), "its engine is gone");
}

/// Semantics 1.6.
mod nested {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test(start_paused = true)]
    async fn what_an_inner_policy_must_not_repeat_an_outer_one_does_not_repeat() {
        let engine = Engine::new(1);
        let outer = plain(&engine, "outer", 3).build().unwrap();
        for (engine, both) in [(&engine, 3), (&Engine::new(2), 9)] {
            let inner = plain(engine, "inner", 3).build().unwrap();
            for (caller, attempts) in [
                (inner.caller(), both),
                (inner.caller().idempotent(false), 1),
                (inner.caller().replayable(false), 1),
            ] {
                let made = AtomicUsize::new(0);
                let work = || {
                    caller.run(|_| {
                        made.fetch_add(1, Ordering::Relaxed);
                        async { Err::<(), _>(broken()) }
                    })
                };
                outer.run(|_| work()).await.unwrap_err();
                assert_eq!(made.swap(0, Ordering::Relaxed), attempts, "typed");
                let boxed = outer.run(|_| async { Ok::<_, BoxError>(work().await?) });
                boxed.await.unwrap_err();
                assert_eq!(made.swap(0, Ordering::Relaxed), attempts, "boxed");
                let any = outer.run(|_| async { Ok::<_, anyhow::Error>(work().await?) });
                any.await.unwrap_err();
                assert_eq!(made.swap(0, Ordering::Relaxed), attempts, "anyhow");
            }
        }
    }

    #[derive(Debug)]
    struct Busy;

    impl fmt::Display for Busy {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("busy")
        }
    }

    impl StdError for Busy {}

    #[tokio::test(start_paused = true)]
    async fn an_error_that_is_named_is_found_in_a_call_of_an_inner_policy() {
        let engine = Engine::new(1);
        let of = |name| plain(&engine, name, 3).build().unwrap();
        let (outer, inner) = (of("outer").on::<Busy>(), of("inner").on::<Busy>());
        let made = AtomicUsize::new(0);
        let work = || {
            inner.run(|_| {
                made.fetch_add(1, Ordering::Relaxed);
                async { Err::<(), _>(Busy) }
            })
        };
        outer.run(|_| work()).await.unwrap_err();
        assert_eq!(made.swap(0, Ordering::Relaxed), 3);
        outer.run(|_| async { Ok::<_, anyhow::Error>(work().await?) }).await.unwrap_err();
        assert_eq!(made.swap(0, Ordering::Relaxed), 3);
    }

    /// Semantics 1.6.2.
    #[tokio::test(start_paused = true)]
    async fn an_outer_policy_takes_the_class_and_the_wait_that_an_inner_one_has_found() {
        let engine = Engine::new(1);
        let (outer, inner) =
            (plain(&engine, "outer", 3).build().unwrap(), plain(&engine, "inner", 3).build().unwrap());
        let wait = Some(tidegate_tokio::tidegate::Duration::from_millis(700));
        let busy = Outcome { retry_after: wait, ..Outcome::of(Class::Throttled) };
        let inner = inner.caller().classify(move |result: Result<&(), &io::Error>| match result {
            Ok(()) => Outcome::of(Class::Ok),
            Err(_) => busy,
        });
        let made = AtomicUsize::new(0);
        let work = || {
            inner.run(|_| {
                made.fetch_add(1, Ordering::Relaxed);
                async { Err::<(), _>(io::Error::from(io::ErrorKind::NotFound)) }
            })
        };
        let begun = tokio::time::Instant::now();
        outer.run(|_| work()).await.unwrap_err();
        assert_eq!(made.swap(0, Ordering::Relaxed), 3);
        assert!(begun.elapsed() >= ms(1_400), "the wait is the inner one's, twice");
        outer.run(|_| async { Ok::<_, anyhow::Error>(work().await?) }).await.unwrap_err();
        assert_eq!(made.swap(0, Ordering::Relaxed), 3, "boxed");
        // The outer one's own word goes before.
        let never = outer.caller().classify(|result: Result<&(), &Error<io::Error>>| {
            Outcome::of(if result.is_ok() { Class::Ok } else { Class::Permanent })
        });
        never.run(|_| work()).await.unwrap_err();
        assert_eq!(made.swap(0, Ordering::Relaxed), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_with_a_fallback_can_be_spawned() {
        let caller = policy().caller();
        let task = tokio::spawn(async move {
            caller.run_or_else(|_| async { Err::<u8, _>(broken()) }, async |_| Ok::<_, io::Error>(7)).await
        });
        assert_eq!(task.await.unwrap().unwrap(), 7);
    }
}

#[tokio::test]
async fn an_error_of_reqwests_middlewares_is_that_in_it_wherever_it_is() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = reqwest::Client::builder().timeout(ms(20)).build().unwrap();
    let late = async || {
        let url = format!("http://{}/", silent.local_addr().unwrap());
        reqwest_middleware::Error::from(client.get(url).send().await.unwrap_err())
    };
    assert_eq!(class(&late().await), Class::Timeout);
    assert_eq!(class(&anyhow::Error::from(late().await)), Class::Timeout);
    let boxed: BoxError = late().await.into();
    assert_eq!(class(&boxed), Class::Timeout);
    // One that `on` does not name goes by the table, too.
    let mut attempts = 0;
    let named = policy().on::<io::Error>();
    let error = named.run(|_| {
        attempts += 1;
        late_error(late())
    });
    assert!(error.await.is_err());
    assert_eq!(attempts, 3);
}

async fn late_error(
    error: impl Future<Output = reqwest_middleware::Error>,
) -> Result<(), reqwest_middleware::Error> {
    Err(error.await)
}

/// Semantics 1.6.4: two guards in one chain.
#[tokio::test]
async fn an_error_that_an_inner_guard_must_not_repeat_an_outer_one_does_not_repeat() {
    use tidegate_tokio::reqwest::Guard;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", silent.local_addr().unwrap());
    let engine = Engine::new(1);
    let of = |name| Guard::new(&plain(&engine, name, 2).build().unwrap()).idempotent(true);
    let late = reqwest::Client::builder().timeout(ms(20)).build().unwrap();
    for (name, idempotent, calls) in
        [("repeats", true, (Verdict::Nested, 2)), ("harms", false, (Verdict::Method, 1))]
    {
        let (outer, inner) = (of("outer"), of(name).idempotent(idempotent));
        let client = reqwest_middleware::ClientBuilder::new(late.clone()).with(outer).with(inner).build();
        let error = client.get(&url).send().await.unwrap_err();
        assert!(matches!(error, reqwest_middleware::Error::Reqwest(_)), "{error:?}");
        assert_eq!(crate::support::ends(&engine, name, calls.0), calls.1, "calls of the inner one");
    }
}
