//! hyper's client under a policy, by the tower layer: `cargo run -p tidegate-tokio --example hyper --features http -- http://host/path`.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tidegate_tokio::Policy;
use tidegate_tokio::settings::{Bulkhead, Preset};
use tower::{Layer, ServiceExt};

/// Gets a page and returns its status and text.
///
/// # Errors
/// The client's own error, or the policy's.
pub async fn get(url: &str) -> Result<(u16, String), Box<dyn std::error::Error + Send + Sync>> {
    let policy = Policy::builder(format!("hyper example {url}"))
        .preset(Preset::Http)
        .attempt_timeout(Duration::from_secs(2))
        .bulkhead(Bulkhead::fixed(16))
        .build()?;
    // The policy repeats requests that were cancelled before they were sent, so the client must not.
    let client = Client::builder(TokioExecutor::new()).retry_canceled_requests(false).build_http();
    let service = policy.http_layer().layer(client);
    let response = service.oneshot(Request::get(url).body(Full::<Bytes>::default())?).await?;
    let status = response.status().as_u16();
    let text = response.into_body().collect().await?.to_bytes();
    Ok((status, String::from_utf8_lossy(&text).into_owned()))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://example.com/".into());
    let (status, text) = get(&url).await?;
    println!("{status}\n{text}");
    Ok(())
}
