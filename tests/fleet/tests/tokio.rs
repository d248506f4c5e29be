//! The Rust host on a real server, with redis-rs: engines of two processes share a rate; the server is killed and comes
//! back.

use std::io;
use std::time::{Duration, Instant};

use tidegate_fleet_tests::Server;
use tidegate_tokio::fleet::{LazyRedisStore, RedisStore, StoreKind};
use tidegate_tokio::settings::{OnLoss, RateLimit, StateOf};
use tidegate_tokio::{Code, Engine, Policy, RecordType};

async fn process(seed: u64, server: &Server) -> (Engine, Policy) {
    let client = redis::Client::open(format!("redis://{}", server.address())).expect("an address");
    let settings = redis::aio::ConnectionManagerConfig::new().set_max_delay(Duration::from_millis(50));
    let connection = client.get_connection_manager_with_config(settings).await.expect("a server");
    let engine = Engine::new(seed);
    engine.attach_store(RedisStore::new(connection), StoreKind::Lua, "tokio");
    let policy = Policy::builder("partner")
        .engine(&engine)
        .rate_limit(RateLimit::new(200, Duration::from_secs(1)).burst(10).lease(1).store(StateOf::Fleet))
        .build()
        .expect("a good policy");
    (engine, policy)
}

/// Makes calls for a while. Returns how many were admitted, and the longest call.
async fn calls(policy: Policy, span: Duration) -> (u32, Duration) {
    let (until, mut good, mut longest) = (Instant::now() + span, 0, Duration::ZERO);
    while Instant::now() < until {
        let start = Instant::now();
        match policy.run(|_| async { Ok::<_, io::Error>(()) }).await {
            Ok(()) => good += 1,
            Err(error) => assert_eq!(error.stopped().expect("ours").code, Code::RateLimited),
        }
        longest = longest.max(start.elapsed());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    (good, longest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_engines_share_a_rate_while_the_server_is_killed_and_comes_back() {
    let mut server = Server::start(&[]);
    let (one, other) = (process(1, &server).await, process(2, &server).await);
    let both = |span| {
        let tasks = [&one, &other].map(|(_, policy)| tokio::spawn(calls(policy.clone(), span)));
        async move {
            let mut sum = (0, Duration::ZERO);
            for task in tasks {
                let (good, longest) = task.await.expect("calls");
                sum = (sum.0 + good, sum.1.max(longest));
            }
            sum
        }
    };
    let start = Instant::now();
    let (granted, _) = both(Duration::from_secs(2)).await;
    let most = 200.0 * start.elapsed().as_secs_f64() + 10.0;
    assert!(f64::from(granted) <= most * 1.01, "{granted} of {most}");
    assert!(f64::from(granted) >= 100.0, "{granted} of {most}");

    let mut events = one.0.events(&[RecordType::StoreDegraded, RecordType::StoreRecovered], 10);
    server.kill();
    let (granted, longest) = both(Duration::from_secs(2)).await;
    assert!(granted > 50, "its share goes on: {granted}");
    // Twenty times `store_timeout`: no call waits for a client that keeps reconnecting.
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    assert_eq!(events.try_next().expect("an event").what, RecordType::StoreDegraded);
    server.start_again();
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        both(Duration::from_millis(500)).await;
        if let Some(event) = events.try_next() {
            assert_eq!(event.what, RecordType::StoreRecovered);
            break;
        }
        assert!(Instant::now() < end, "it does not come back");
    }
    one.0.check().expect("the books");
}

/// An engine that connects at its first command, and a policy. Attaching the store does not wait.
fn lazy(url: String) -> (Engine, Policy) {
    let client = redis::Client::open(url).expect("an address");
    let store = LazyRedisStore::new(move || {
        let client = client.clone();
        async move { client.get_multiplexed_async_connection().await }
    });
    let engine = Engine::new(1);
    engine.attach_store(store, StoreKind::Lua, "lazy");
    let limit = RateLimit::new(200, Duration::from_secs(1)).burst(10).lease(1);
    let limit = limit.store(StateOf::Fleet).on_loss(OnLoss::Closed);
    let policy = Policy::builder("partner").engine(&engine).rate_limit(limit).build().expect("a good policy");
    (engine, policy)
}

async fn code(policy: &Policy) -> Option<Code> {
    let call = policy.run(|_| async { Ok::<_, io::Error>(()) });
    // Much longer than `store_timeout`, and much shorter than a client that keeps trying.
    let ended = tokio::time::timeout(Duration::from_secs(5), call).await.expect("store_timeout holds");
    ended.err().map(|error| error.stopped().expect("ours").code)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_a_store_that_is_gone_and_a_right_one_brings_it_back() {
    let server = Server::start(&[]);
    server.connect().ok("CONFIG SET requirepass right");
    let (engine, policy) = lazy(format!("redis://:wrong@{}", server.address()));
    let mut events = engine.events(&[RecordType::StoreDegraded, RecordType::StoreRecovered], 10);
    assert_eq!(code(&policy).await, Some(Code::StoreUnavailable));
    assert_eq!(events.next().await.expect("an event").what, RecordType::StoreDegraded);
    let mut admin = redis::Client::open(format!("redis://:right@{}", server.address())).expect("an address");
    redis::cmd("CONFIG").arg("SET").arg("requirepass").arg("wrong").exec(&mut admin).expect("it is set");
    let end = Instant::now() + Duration::from_secs(30);
    while code(&policy).await.is_some() {
        assert!(Instant::now() < end, "it does not come back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(events.next().await.expect("an event").what, RecordType::StoreRecovered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_answers_holds_nobody_up() {
    // A server that accepts connections and never replies.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let (engine, policy) = lazy(format!("redis://{}", silent.local_addr().expect("its address")));
    for _ in 0..3 {
        assert_eq!(code(&policy).await, Some(Code::StoreUnavailable));
    }
    engine.check().expect("the books");
}
