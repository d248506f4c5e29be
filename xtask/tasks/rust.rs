//! The ten tasks of a new user in Rust. `cargo xtask install-check` puts the blocks of the guide in place of the lines that
//! begin with `//@`, the address of a server in place of `https://api.example`, and runs this with the packed crates.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;
use tidegate_tokio::Policy;
use tidegate_tokio::reqwest::{Guard, SendWith};
use tokio::runtime::Builder;

const SERVER: &str = "https://api.example";

type Done = Result<(), Box<dyn StdError>>;

fn plain(name: &str) -> Result<Policy, tidegate_tokio::BuildError> {
    Policy::builder(name).deadline(Duration::from_secs(10)).build()
}

async fn wrap_the_client() -> Done {
    let shop_url = format!("{SERVER}/client");
    //@ docs/rust/using-with.md: .send_with(&shop)
    Ok(())
}

async fn wrap_a_function() -> Done {
    //@ docs/rust.md: Policy::builder("payments")
    Ok(())
}

#[derive(Debug)]
enum SdkError {
    Api { code: u16 },
    Io(io::Error),
}

/// A method of an SDK whose errors have a status.
async fn pods(client: &reqwest::Client) -> Result<u64, SdkError> {
    let lost = |error| SdkError::Io(io::Error::other(error));
    let answer = client.get(format!("{SERVER}/pods")).send().await.map_err(lost)?;
    match answer.status().as_u16() {
        200 => Ok(answer.bytes().await.map_err(lost)?.len() as u64),
        code => Err(SdkError::Api { code }),
    }
}

async fn wrap_an_sdk() -> Done {
    //@ docs/rust/using-with.md: Policy::builder("cluster")
    let client = reqwest::Client::new();
    let ended = cluster.ended(|_| pods(&client)).await;
    assert_eq!(ended.report.attempts, 2, "the first answer was a 503");
    assert!(ended.result.is_ok_and(|bytes| bytes > 0));
    Ok(())
}

async fn limit() -> Done {
    //@ docs/rust.md: Policy::builder("mail")
    let error = mail.run(|_| async { Ok::<_, io::Error>(()) }).await.unwrap_err();
    assert_eq!(error.stopped().unwrap().code, tidegate_tokio::Code::RateLimited);
    Ok(())
}

async fn set_a_deadline() -> Done {
    let soon = Guard::new(&plain("soon")?).deadline(Duration::from_millis(300));
    let error = reqwest::Client::new().get(format!("{SERVER}/slow")).send_with(&soon).await.unwrap_err();
    assert_eq!(error.stopped().unwrap().code, tidegate_tokio::Code::DeadlineExceeded);
    Ok(())
}

async fn set_a_deadline_for_nested_calls() -> Done {
    //@ docs/rust.md: Bounds::new().deadline
    Ok(())
}

async fn stream() -> Done {
    let client = reqwest::Client::new();
    //@ docs/rust.md: Policy::builder("streamed chat")
    assert_eq!(response.extensions().get::<tidegate_tokio::Report>().unwrap().attempts, 2);
    Ok(())
}

async fn cancel() -> Done {
    //@ docs/rust.md: Policy::builder("single")
    let policy = plain("dropped")?;
    let (client, guard) = (reqwest::Client::new(), Guard::new(&policy));
    let request = client.get(format!("{SERVER}/slow")).send_with(&guard);
    assert!(tokio::time::timeout(Duration::from_millis(100), request).await.is_err());
    assert_eq!(policy.engine().snapshot().live, 0);
    Ok(())
}

async fn see_why() -> Done {
    //@ docs/rust.md: Options::default().journal(true)
    assert!(error.explain().unwrap().to_string().contains("attempt 3"));
    Ok(())
}

async fn measure() -> Done {
    //@ docs/rust.md: Policy::builder("measured")
    Ok(())
}

async fn test_with_time_under_control() -> Done {
    //@ docs/rust.md: Policy::builder("tested")
    Ok(())
}

/// Runs one task on a runtime of its own, whose clock stands still if it is `paused`.
fn task(name: &str, paused: bool, work: impl Future<Output = Done>) {
    let runtime = Builder::new_current_thread().enable_all().start_paused(paused).build().unwrap();
    runtime.block_on(work).unwrap_or_else(|error| panic!("{name}: {error}"));
    println!("done: {name}");
}

fn main() {
    task("wrap the client", false, wrap_the_client());
    task("wrap a function", false, wrap_a_function());
    task("wrap an SDK", false, wrap_an_sdk());
    task("limit", false, limit());
    task("set a deadline", false, set_a_deadline());
    task("set a deadline for nested calls", true, set_a_deadline_for_nested_calls());
    task("stream", false, stream());
    task("cancel", false, cancel());
    task("see why", false, see_why());
    task("measure", false, measure());
    task("test with time under control", true, test_with_time_under_control());
}
