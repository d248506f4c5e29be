//! hyper's client under a policy, by the tower layer: `cargo run -p tidegate-tokio --example hyper --features tower,reqwest -- http://host/path`.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::TokioExecutor;
use tidegate_tokio::tower::{Facts, Requests};
use tidegate_tokio::{Class, Outcome, Policy};
use tower::{Layer, ServiceExt};

/// What the layer has to know of a request: how to send it again, and what may be repeated.
#[derive(Clone)]
struct Http;

impl Requests<Request<Full<Bytes>>> for Http {
    fn replay(&self, request: &Request<Full<Bytes>>) -> Option<Request<Full<Bytes>>> {
        Some(request.clone())
    }

    fn facts<'a>(&self, request: &Request<Full<Bytes>>, facts: Facts<'a>) -> Facts<'a> {
        facts
            .route(request.uri().authority().map_or("", |host| host.as_str()))
            .method(request.method().as_str())
    }
}

/// Gets a page, and tells its status and text.
///
/// # Errors
/// The client's own error, or the policy's.
pub async fn get(url: &str) -> Result<(u16, String), Box<dyn std::error::Error + Send + Sync>> {
    let policy = Policy::builder(format!("hyper example {url}"))
        .preset("http")
        .attempt_timeout(Duration::from_secs(2))
        .bulkhead_max_concurrency(16)
        .build()?;
    let judge = policy.clone();
    let caller =
        policy.caller().classify(move |result: Result<&Response<Incoming>, &ClientError>| match result {
            Ok(response) => {
                let headers = response.headers().iter();
                let headers = headers.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
                judge.outcome_of(response.status().as_u16(), headers)
            }
            Err(error) if error.is_connect() => Outcome::of(Class::NeverSent),
            Err(_) => Outcome::of(Class::Transient),
        });
    let client = Client::builder(TokioExecutor::new()).build_http();
    let service = caller.layer().requests(Http).layer(client);
    let response = service.oneshot(Request::get(url).body(Full::default())?).await?;
    let status = response.status().as_u16();
    let text = String::from_utf8_lossy(&response.into_body().collect().await?.to_bytes()).into_owned();
    Ok((status, text))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://example.com/".into());
    let (status, text) = get(&url).await?;
    println!("{status}\n{text}");
    Ok(())
}
