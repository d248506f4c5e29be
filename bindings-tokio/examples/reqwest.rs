//! reqwest under a policy: `cargo run -p tidegate-tokio --example reqwest --features reqwest -- http://host/path`.

use std::time::Duration;

use tidegate_tokio::reqwest::{Guard, SendWith};
use tidegate_tokio::settings::{Bulkhead, Preset};
use tidegate_tokio::{Policy, RecordType, Report};

/// Gets a page and returns its status, its text and the number of attempts.
///
/// # Errors
/// The client's own error, or the policy's.
pub async fn get(url: &str) -> Result<(u16, String, u8), Box<dyn std::error::Error + Send + Sync>> {
    let policy = Policy::builder(format!("reqwest example {url}"))
        .preset(Preset::Http)
        .attempt_timeout(Duration::from_secs(2))
        .bulkhead(Bulkhead::fixed(16))
        .build()?;
    let _log = policy
        .engine()
        .listen(&[RecordType::RetryScheduled, RecordType::GaveUp], |event| eprintln!("{event}"));
    let client = reqwest::Client::builder().retry(reqwest::retry::never()).no_proxy().build()?;
    let response = client.get(url).send_with(&Guard::new(&policy)).await?;
    let attempts = response.extensions().get::<Report>().map_or(1, |report| report.attempts);
    Ok((response.status().as_u16(), response.text().await?, attempts))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://example.com/".into());
    let (status, text, attempts) = get(&url).await?;
    println!("{status} after {attempts} attempts\n{text}");
    Ok(())
}
