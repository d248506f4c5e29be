//! The control port: a separate listener, which no fault affects and on which nothing is counted.

use crate::provider::ProviderCommand;
use crate::run::Run;
use crate::script::Script;
use crate::server::Stage;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::sleep;

/// Serves the control port for ever.
pub(crate) async fn control(stage: Arc<Stage>, listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(Duration::from_millis(5)).await; // out of descriptors
            continue;
        };
        let _ = stream.set_nodelay(true);
        let stage = stage.clone();
        let service = service_fn(move |request| {
            let stage = stage.clone();
            async move { Ok::<_, Infallible>(route(&stage, request).await) }
        });
        tokio::spawn(async move {
            let mut http = http1::Builder::new();
            http.header_read_timeout(None);
            let _ = http.serve_connection(TokioIo::new(stream), service).await; // its client left: nothing to do
        });
    }
}

type Answer = Response<Full<Bytes>>;

async fn route(stage: &Stage, request: Request<Incoming>) -> Answer {
    let path = request.uri().path().to_owned();
    let methods: Vec<&Method> =
        ROUTES.iter().filter(|(_, known)| *known == path).map(|(method, _)| method).collect();
    if methods.is_empty() {
        let known: Vec<String> = ROUTES.iter().map(|(method, path)| format!("{method} {path}")).collect();
        return refuse(StatusCode::NOT_FOUND, format!("{path}: unknown; known: {}", known.join(", ")));
    }
    if !methods.contains(&request.method()) {
        let methods: Vec<&str> = methods.iter().map(|method| method.as_str()).collect();
        return refuse(
            StatusCode::METHOD_NOT_ALLOWED,
            format!("{path} is for {}, not {}", methods.join(" and "), request.method()),
        );
    }
    let run = stage.run();
    match path.as_str() {
        "/script" => script(stage, request.into_body()).await,
        "/reset" => {
            stage.play(None).await;
            done()
        }
        "/stats" => json_answer(StatusCode::OK, &run.ledger.stats(stage.open())),
        "/provider" if request.method() == Method::PUT => command(&run, request.into_body()).await,
        "/provider" => match &run.provider {
            Some(provider) => json_answer(StatusCode::OK, &provider.used()),
            None => refuse(StatusCode::CONFLICT, NO_PROVIDER),
        },
        "/log" => json_answer(StatusCode::OK, &run.ledger.log()),
        _ => match bucket(request.uri().query().unwrap_or_default()) {
            Ok(width) => {
                let (bucket, buckets) = run.ledger.series(width);
                json_answer(StatusCode::OK, &json!({"bucket": bucket, "buckets": buckets}))
            }
            Err(why) => refuse(StatusCode::BAD_REQUEST, why),
        },
    }
}

const NO_PROVIDER: &str = "provider: the script in force has none";

const ROUTES: [(Method, &str); 7] = [
    (Method::PUT, "/script"),
    (Method::POST, "/reset"),
    (Method::GET, "/stats"),
    (Method::GET, "/log"),
    (Method::GET, "/series"),
    (Method::GET, "/provider"),
    (Method::PUT, "/provider"),
];

/// The text of a command's body.
async fn text(body: Incoming) -> Result<String, String> {
    const LARGEST: usize = 16 * 1024 * 1024;
    let read = Limited::new(body, LARGEST).collect().await.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&read.to_bytes()).into_owned())
}

/// Replaces faults and limits of the run's provider.
async fn command(run: &Run, body: Incoming) -> Answer {
    let Some(provider) = &run.provider else { return refuse(StatusCode::CONFLICT, NO_PROVIDER) };
    let read = text(body).await;
    match read.and_then(|text| ProviderCommand::parse(&text).map_err(|error| error.to_string())) {
        Ok(command) => {
            provider.command(command);
            done()
        }
        Err(why) => refuse(StatusCode::BAD_REQUEST, why),
    }
}

async fn script(stage: &Stage, body: Incoming) -> Answer {
    let read = text(body).await;
    match read.and_then(|text| Script::parse(&text).map_err(|error| error.to_string())) {
        Ok(script) => {
            stage.play(Some(script)).await;
            done()
        }
        Err(why) => refuse(StatusCode::BAD_REQUEST, why),
    }
}

fn bucket(query: &str) -> Result<f64, String> {
    let mut width = 1.0;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if key != "bucket" {
            return Err(format!("{key} = {value:?}: unknown key; known here: bucket"));
        }
        let number: Option<f64> = value.parse().ok();
        width = number
            .filter(|width| (0.0..=86_400.0).contains(width))
            .ok_or_else(|| format!("bucket = {value:?}: must be a number of seconds from 0 to 86400"))?;
    }
    Ok(width)
}

fn done() -> Answer {
    json_answer(StatusCode::OK, &json!({"ok": true}))
}

fn refuse(status: StatusCode, why: impl Into<String>) -> Answer {
    json_answer(status, &json!({"error": why.into()}))
}

fn json_answer(status: StatusCode, value: &impl serde::Serialize) -> Answer {
    let text = serde_json::to_vec(value).expect("maps with text keys and finite numbers are JSON");
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
