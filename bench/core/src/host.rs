//! Instructions of the Rust host, for the gate: `instructions NAME COUNT` makes COUNT calls and nothing else.
//!
//! `host_run` and `host_layer` are calls that work at once. `http_bare` sends requests to a service that answers at
//! once; `http_layer` sends the same requests through the layer for HTTP clients.

use std::convert::Infallible;
use std::env::args;
use std::future::Future;
use std::hint::black_box;
use std::io;
use std::time::Instant;

use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use tidegate_bench_core::counting::{Counting, tally};
use tidegate_bench_core::rows::keep;
use tidegate_bench_core::scenarios::FULL;
use tidegate_tokio::{Engine, Options, Policy};
use tokio::runtime::Builder;
use tower::{Layer, Service, ServiceExt as _, service_fn};

#[global_allocator]
static COUNTING: Counting = Counting;

type Body = Full<&'static [u8]>;

fn policy(options: Options) -> Policy {
    let settings = tidegate::Policy::from_pairs("p", FULL).expect("a good policy");
    Policy::new_in(&Engine::with_options(7, options), settings).expect("the only one")
}

/// Sends requests and reads the answers to their ends.
async fn send<S, A>(mut client: S, calls: u64)
where
    S: Service<Request<Body>, Response = Response<A>>,
    S::Error: std::fmt::Debug,
    A: http_body::Body,
    A::Error: std::fmt::Debug,
{
    for _ in 0..calls {
        let request = Request::get("http://shop.example/orders/7").body(Body::default()).expect("a request");
        let answer = client.ready().await.expect("it is ready").call(request).await.expect("an answer");
        black_box(answer.into_body().collect().await.expect("a body"));
    }
}

/// Makes calls of one scenario.
async fn make(name: &str, calls: u64) {
    let answer = |_| async { Ok::<_, io::Error>(Response::new(Body::new(b"{}"))) };
    match name {
        "host_run" | "host_run_history" => {
            let history = if name == "host_run" { 0 } else { 512 };
            let policy = policy(Options::default().history(history));
            for _ in 0..calls {
                black_box(policy.run(|_| async { Ok::<_, Infallible>(()) }).await).expect("it works");
            }
        }
        "host_layer" => {
            let work = service_fn(|(): ()| async { Ok::<_, Infallible>(()) });
            let mut service = policy(Options::default()).layer().layer(work);
            for _ in 0..calls {
                service.ready().await.expect("it is ready").call(()).await.expect("it works");
            }
        }
        "http_bare" => send(service_fn(answer), calls).await,
        "http_layer" => send(policy(Options::default()).http_layer().layer(service_fn(answer)), calls).await,
        _ => panic!("no scenario {name}"),
    }
}

fn run(work: impl Future<Output = ()>) {
    Builder::new_current_thread().enable_time().build().expect("a runtime").block_on(work);
}

fn main() {
    const CALLS: u64 = 20_000;
    let args: Vec<String> = args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["instructions", name, count] => run(make(name, count.parse().expect("a count"))),
        // Pairs in turn, so that a change of the machine's speed meets all of them.
        ["ns", ref names @ ..] => {
            let mut figures = vec![Vec::new(); names.len()];
            for _ in 0..61 {
                for (name, figures) in names.iter().zip(&mut figures) {
                    let start = Instant::now();
                    run(make(name, CALLS));
                    figures.push(start.elapsed().as_secs_f64() * 1e9 / CALLS as f64);
                }
            }
            for (name, figures) in names.iter().zip(&mut figures) {
                figures.sort_by(f64::total_cmp);
                let before = tally();
                run(make(name, CALLS));
                let allocations = tally().since(before).times as f64 / CALLS as f64;
                println!(
                    "{name}: {:.0} ns (least {:.0}), {allocations:.1} allocations",
                    figures[30], figures[0]
                );
                keep("through http_layer", name, "ns", figures[0], "");
            }
        }
        _ => panic!("usage: tidegate-bench-host instructions NAME COUNT | ns NAME …"),
    }
}
