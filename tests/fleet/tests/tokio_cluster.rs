//! The Rust host on a cluster of three nodes, with redis-rs's own cluster connection, with and without scripts.

use std::io;
use std::time::{Duration, Instant};

use tidegate_fleet_tests::{Cluster, Word};
use tidegate_tokio::fleet::{RedisStore, StoreKind};
use tidegate_tokio::settings::{RateLimit, StateOf};
use tidegate_tokio::{Code, Engine, Policy, RecordType};
use tokio::time::sleep;

type Connection = redis::cluster_async::ClusterConnection;

async fn connected(cluster: &Cluster) -> Connection {
    let nodes = cluster.nodes.iter().map(|node| format!("redis://{}", node.address()));
    let client = redis::cluster::ClusterClient::builder(nodes).retries(0).build().expect("addresses");
    client.get_async_connection().await.expect("a cluster")
}

/// A process with a rate limit shared by the fleet. With scripts the limit is strict.
fn process(seed: u64, connection: &Connection, kind: StoreKind, namespace: &str) -> (Engine, Policy) {
    let engine = Engine::new(seed);
    engine.attach_store(RedisStore::new(connection.clone()), kind, namespace);
    let policy = Policy::builder("partner")
        .engine(&engine)
        .store_timeout(Duration::from_secs(2))
        .rate_limit(RateLimit::new(20, Duration::from_secs(1)).burst(20).lease(1).store(StateOf::Fleet))
        .build()
        .expect("a good policy");
    (engine, policy)
}

/// Makes this many calls, alternating between the policies. Returns how many were admitted.
async fn passed(policies: [&Policy; 2], route: &str, calls: usize) -> u32 {
    let mut passed = 0;
    for number in 0..calls {
        let caller = policies[number % 2].caller().route(route);
        match caller.run(|_| async { Ok::<_, io::Error>(()) }).await {
            Ok(()) => passed += 1,
            Err(error) => assert_eq!(error.stopped().expect("ours").code, Code::RateLimited),
        }
    }
    passed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_command_goes_to_the_node_of_its_key() {
    let cluster = Cluster::start();
    let connection = connected(&cluster).await;
    for (kind, namespace, bursts) in [(StoreKind::Lua, "lua", 1.0), (StoreKind::Plain, "plain", 2.0)] {
        let [(one, first), (other, second)] = [1, 2].map(|seed| process(seed, &connection, kind, namespace));
        let mut lost = one.events(&[RecordType::StoreDegraded], 10);
        for tenant in 0..12 {
            let began = Instant::now();
            let passed = passed([&first, &second], &format!("tenant {tenant}"), 50).await;
            let most = 20.0 * bursts + 20.0 * began.elapsed().as_secs_f64() + 1.0;
            assert!(passed >= 20 && f64::from(passed) <= most, "{namespace}: {passed} of {most}");
            if tenant == 6 {
                cluster.nodes[1].connect().ok("SCRIPT FLUSH");
            }
        }
        assert!(lost.try_next().is_none(), "the store was there all the time");
        sleep(Duration::from_millis(10)).await;
        for engine in [one, other] {
            engine.check().expect("the books");
        }
        for node in &cluster.nodes {
            let Word::List(keys) = node.connect().ok(&format!("KEYS {namespace}:*")) else {
                panic!("a list")
            };
            assert!(!keys.is_empty(), "every node has had work");
            let errors = node.connect().ok("INFO errorstats").text();
            assert!(!errors.contains("MOVED"), "none was asked for what another has: {errors}");
        }
    }
}
