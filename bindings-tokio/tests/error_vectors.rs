//! Chains of errors that every language judges alike (`tests/vectors/errors`, semantics 1.5).
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests are users: they read files")]

use std::error::Error as StdError;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;
use std::{fmt, fs};

use serde_json::Value;
use tidegate_tokio::settings::{Breaker, Preset, RateLimit, Retry};
use tidegate_tokio::tidegate::wire::pack_outcome;
use tidegate_tokio::{BoxError, ByTable, Class, Classify, Engine, Finding, Outcome, Policy};
use tonic::metadata::MetadataMap;

/// An error of a type that no table lists.
#[derive(Debug)]
struct Plain(Option<BoxError>);

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an error")
    }
}

impl StdError for Plain {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.as_deref().map(|cause| cause as _)
    }
}

/// The kind of this name, or the error of the number that std has no kind for.
fn system_error(name: &str) -> io::Error {
    let number = match name {
        "ECONNREFUSED" => return ErrorKind::ConnectionRefused.into(),
        "EHOSTUNREACH" => return ErrorKind::HostUnreachable.into(),
        "ENETUNREACH" => return ErrorKind::NetworkUnreachable.into(),
        "ENETDOWN" => return ErrorKind::NetworkDown.into(),
        "EADDRNOTAVAIL" => return ErrorKind::AddrNotAvailable.into(),
        "ECONNRESET" => return ErrorKind::ConnectionReset.into(),
        "ECONNABORTED" => return ErrorKind::ConnectionAborted.into(),
        "EPIPE" => return ErrorKind::BrokenPipe.into(),
        "ENOTCONN" => return ErrorKind::NotConnected.into(),
        "EAGAIN" | "EWOULDBLOCK" => return ErrorKind::WouldBlock.into(),
        "EINTR" => return ErrorKind::Interrupted.into(),
        "EBUSY" => return ErrorKind::ResourceBusy.into(),
        "ETIMEDOUT" => return ErrorKind::TimedOut.into(),
        "ENOENT" => return ErrorKind::NotFound.into(),
        "EACCES" => return ErrorKind::PermissionDenied.into(),
        "EINVAL" => return ErrorKind::InvalidInput.into(),
        "EHOSTDOWN" => [112, 64, 10_064],
        "ENETRESET" => [102, 52, 10_052],
        "ESHUTDOWN" => [108, 58, 10_058],
        "ENOBUFS" => [105, 55, 10_055],
        other => panic!("no system error {other}"),
    };
    let place = [cfg!(target_os = "linux"), cfg!(target_vendor = "apple"), cfg!(windows)];
    io::Error::from_raw_os_error(number[place.iter().position(|here| *here).unwrap()])
}

/// An inner policy's end with this code.
async fn ended(code: &str) -> BoxError {
    let hour = Duration::from_secs(3_600);
    let moment = Duration::from_millis(1);
    let inner = Policy::builder("inner").engine(&Engine::new(1));
    let inner = match code {
        "breaker_open" => inner.breaker(Breaker::by_consecutive(1, hour)),
        "attempt_timeout" => inner.attempt_timeout(moment),
        "deadline_exceeded" => inner.deadline(moment),
        _ => inner.rate_limit(RateLimit::new(1, hour)),
    };
    let inner = inner.build().unwrap();
    match code {
        "breaker_open" => {
            inner.run(|_| async { Err::<(), _>(io::Error::from(ErrorKind::TimedOut)) }).await.unwrap_err();
        }
        "forced_open" => inner.force_open(None, true),
        _ => {}
    }
    let cost = if code == "cost_above_burst" { 2 } else { 1 };
    let ended =
        inner.caller().cost(cost).run(|_| std::future::pending::<io::Result<()>>()).await.unwrap_err();
    assert_eq!(ended.stopped().unwrap().code.name(), code);
    ended.into_boxed()
}

/// The error that a chain describes.
async fn built(chain: &[Value]) -> BoxError {
    let mut cause = None;
    for node in chain.iter().rev() {
        cause = Some(error_of(node, cause).await);
    }
    cause.unwrap()
}

async fn error_of(node: &Value, cause: Option<BoxError>) -> BoxError {
    if let Some(name) = node["errno"].as_str() {
        return Box::new(system_error(name));
    }
    if let Some(code) = node["ours"].as_str() {
        return ended(code).await;
    }
    if let Some(status) = node["status"].as_u64() {
        let answer = http::Response::builder().status(u16::try_from(status).unwrap()).body("").unwrap();
        return Box::new(reqwest::Response::from(answer).error_for_status().unwrap_err());
    }
    if let Some(code) = node["grpc"].as_i64() {
        let mut metadata = MetadataMap::new();
        if let Some(pushback) = node["pushback"].as_str() {
            metadata.insert("grpc-retry-pushback-ms", pushback.parse().unwrap());
        }
        let code = tonic::Code::from_i32(i32::try_from(code).unwrap());
        return Box::new(tonic::Status::with_metadata(code, "failed", metadata));
    }
    match node["type"].as_str() {
        None => Box::new(Plain(cause)),
        Some("wraps_transient") => Box::new(redis::RedisError::from(io::Error::other(cause.unwrap()))),
        Some("timeout") => {
            Box::new(tokio::time::timeout(Duration::ZERO, std::future::pending::<()>()).await.unwrap_err())
        }
        Some("transient") => Box::new(io::Error::from(ErrorKind::UnexpectedEof)),
        Some("conflict") => Box::new(tower::load_shed::error::Overloaded::new()),
        Some("permanent") => {
            Box::new(redis::RedisError::from((redis::ErrorKind::InvalidClientConfig, "wrong")))
        }
        Some(other) => panic!("no error of type {other}"),
    }
}

fn outcome(finding: &Finding, policy: &Policy) -> Outcome {
    match finding {
        Finding::Outcome(outcome) => *outcome,
        Finding::Status(status, headers) => {
            policy.outcome_of(*status, headers.iter().map(|(name, value)| (name.as_bytes(), &value[..])))
        }
        _ => Outcome::of(Class::Permanent),
    }
}

/// Semantics 1.5: the rule that walks causes.
#[tokio::test(start_paused = true)]
async fn chains_of_errors_are_judged_by_one_rule() {
    let engine = Engine::new(1);
    let listed = Policy::builder("listed").preset(Preset::Http).retry(Retry::new().statuses([500, 429]));
    let policies = [
        ("default", Policy::builder("default").preset(Preset::Http).engine(&engine).build().unwrap()),
        ("listed", listed.engine(&engine).build().unwrap()),
    ];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/errors");
    let mut played = 0;
    for file in fs::read_dir(folder).unwrap() {
        let file: Value = serde_json::from_slice(&fs::read(file.unwrap().path()).unwrap()).unwrap();
        for case in file["cases"].as_array().unwrap() {
            if !case["hosts"].as_array().unwrap().contains(&"rust".into()) {
                continue;
            }
            played += 1;
            let chain = case["chain"].as_array().unwrap();
            let (_, policy) = policies.iter().find(|(name, _)| case["policy"] == **name).unwrap();
            let error = built(chain).await;
            let finding = Classify::<(), _>::finding(&ByTable, Err(&error));
            assert_eq!(pack_outcome(outcome(&finding, policy)), case["word"], "{case}: {finding:?}");
            assert_eq!(finding == Finding::Unlisted, case["note"], "{case}: {finding:?}");
        }
    }
    assert!(played > 140, "{played}");
}
