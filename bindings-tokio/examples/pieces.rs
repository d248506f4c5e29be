//! What timeouts of a stream cost: reads answers of 100,000 small events, bare and under a policy, in turn, and tells the
//! processor's time for a piece.
//!
//! `cargo run --release -p tidegate-tokio --example pieces`

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body::Body;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tidegate_tokio::reqwest::{Guard, SendWith as _};
use tidegate_tokio::settings::Counts;
use tidegate_tokio::{Engine, Policy};
use tokio::time::Instant;
use tower::{Layer as _, ServiceExt as _};

/// What is measured, each with the place of the bare client beside it.
const NAMES: [(&str, usize); 8] = [
    ("hyper", 0),
    ("hyper, bytes", 0),
    ("hyper, sse_data", 0),
    ("reqwest", 3),
    ("reqwest, bytes", 3),
    ("reqwest, sse_data", 3),
    ("hyper, in a body that passes pieces on", 0),
    ("reqwest, in a body that passes pieces on", 3),
];
const PIECES: usize = 100_000;
const ROUNDS: usize = 41;
const EVENT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" tide\"}}]}\n\n";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = format!("http://{}/", server()?);
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(measure(&url))
}

/// A server that answers each request with a stream of events, each in a chunk of its own.
#[allow(clippy::disallowed_methods, reason = "an example is a user: it has a thread")]
fn server() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let chunk = format!("{:x}\r\n{EVENT}\r\n", EVENT.len());
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{}0\r\n\r\n",
        chunk.repeat(PIECES)
    );
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || serve(stream, answer.as_bytes()));
        }
    });
    Ok(address)
}

/// Answers each request of a connection.
fn serve(mut stream: TcpStream, answer: &[u8]) -> std::io::Result<()> {
    let mut head = [0; 4_096];
    while stream.read(&mut head)? > 0 {
        stream.write_all(answer)?;
    }
    Ok(())
}

/// Nanoseconds for which this thread, in which client and policy run, has used a processor. Where the system does not count
/// them: since a moment.
#[allow(clippy::disallowed_methods, reason = "an example is a user: it reads a file")]
fn used() -> u64 {
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let counted = counted.and_then(|text| text.split(' ').next()?.parse().ok());
    counted.unwrap_or_else(|| START.elapsed().as_nanos() as u64)
}

static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);

/// Reads a body to its end.
async fn read<B: Body<Data = Bytes>>(body: B) -> usize
where
    B::Error: std::fmt::Debug,
{
    let mut body = std::pin::pin!(body);
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame.expect("a piece").data_ref().map_or(0, Bytes::len);
    }
    bytes
}

async fn measure(url: &str) -> Result<(), Box<dyn std::error::Error>> {
    let long = Duration::from_secs(60);
    let policy = |counts| {
        let policy = Policy::builder("p").engine(&Engine::new(7)).first_byte_timeout(long).idle_timeout(long);
        policy.counts(counts).deadline(10 * long).build()
    };
    let (bytes, events) = (policy(Counts::Bytes)?, policy(Counts::SseData)?);
    let request = || Request::get(url).header("accept", "text/event-stream").body(Empty::<Bytes>::new());
    let hyper = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let client = reqwest::Client::builder().no_proxy().build()?;
    let mut times = [const { Vec::new() }; NAMES.len()];
    for _ in 0..ROUNDS {
        for (way, times) in times.iter_mut().enumerate() {
            let begun = used();
            let size = match way {
                0 => read(hyper.clone().oneshot(request()?).await?.into_body()).await,
                1 => {
                    read(bytes.http_layer().layer(hyper.clone()).oneshot(request()?).await?.into_body()).await
                }
                2 => {
                    read(events.http_layer().layer(hyper.clone()).oneshot(request()?).await?.into_body())
                        .await
                }
                3 => read(reqwest::Body::from(client.get(url).send().await?)).await,
                // The least that a body around a body costs.
                6 => {
                    read(hyper.clone().oneshot(request()?).await?.into_body().map_frame(|frame| frame)).await
                }
                7 => read(reqwest::Body::wrap(reqwest::Body::from(client.get(url).send().await?))).await,
                way => {
                    let guard = Guard::new(if way == 4 { &bytes } else { &events });
                    let request = client.get(url).header("accept", "text/event-stream");
                    read(reqwest::Body::from(request.send_with(&guard).await?)).await
                }
            };
            assert_eq!(size, PIECES * EVENT.len());
            times.push((used() - begun) as f64 / PIECES as f64);
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        (times[ROUNDS / 2], times[0])
    };
    let found = times.each_mut().map(median);
    for (n, (name, bare)) in NAMES.into_iter().enumerate() {
        let bare = found[bare];
        println!(
            "{name}: {:.0} ns a piece (least {:.0}), {:+.1} % (least {:+.1} %)",
            found[n].0,
            found[n].1,
            (found[n].0 / bare.0 - 1.0) * 100.0,
            (found[n].1 / bare.1 - 1.0) * 100.0
        );
    }
    Ok(())
}
