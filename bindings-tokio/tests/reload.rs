//! A document that changes while its policies are in use. Every test's clock is paused.

use crate::support::{broken, nothing_left};
use tidegate_tokio::tidegate::Document;
use tidegate_tokio::{BuildError, Engine, Policy};
use tokio::sync::Notify;

const OLD: &str = r#"
[pool.db]
bulkhead = { max_concurrency = 1, max_queue = 9 }
[policy.charges]
retry = { max_attempts = 3, backoff = { base = "0s", max = "0s" }, budget = { kind = "none" } }
[policy.reads]
bulkhead.pool = "db"
[policy.gone]
retry.max_attempts = 2
"#;
const NEW: &str = r#"
[pool.db]
bulkhead = { max_concurrency = 2, max_queue = 9 }
[policy.charges]
retry = { max_attempts = 2, backoff = { base = "0s", max = "0s" }, budget = { kind = "none" } }
[policy.reads]
bulkhead.pool = "db"
[policy.search]
retry.max_attempts = 2
"#;

fn document(text: &str) -> Document {
    Document::from_toml(text).unwrap()
}

async fn fail(policy: &Policy) -> u32 {
    policy.caller().ended(|_| async { Err::<(), _>(broken()) }).await.report.attempts.into()
}

#[tokio::test(start_paused = true)]
async fn everything_goes_over_and_what_is_counted_stays() {
    let engine = Engine::new(7);
    let policies = engine.policies(document(OLD)).unwrap();
    let (charges, gone) = (policies.get("charges").unwrap(), policies.get("gone").unwrap());
    assert_eq!(fail(&charges).await, 3);
    let before = policies.digest();
    let changes = policies.reload(document(NEW)).unwrap();
    assert_eq!(changes.added, ["policy.search"]);
    assert_eq!(changes.changed, ["pool.db", "policy.charges"]);
    assert_eq!(changes.removed, ["policy.gone"]);
    assert_eq!(policies.digest(), format!("{:016x}", document(NEW).digest()));
    assert_ne!(policies.digest(), before);
    assert_eq!(fail(&charges).await, 2, "the policy that its callers have");
    let attempts =
        |name: &str| engine.snapshot().policies.iter().find(|(of, _)| of == name).map(|(_, it)| it.attempts);
    assert_eq!(attempts("charges"), Some(5));
    assert_eq!(policies.names(), ["charges", "reads", "search"]);
    assert_eq!(fail(&policies.get("search").unwrap()).await, 2);
    assert!(policies.get("gone").is_err());
    assert_eq!(fail(&gone).await, 2, "its callers still have it");
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_grows_admits_who_waits() {
    let engine = Engine::new(7);
    let policies = engine.policies(document(OLD)).unwrap();
    let reads = policies.get("reads").unwrap();
    let (entered, leave) = (Notify::new(), Notify::new());
    let read = || async {
        let run = reads.run(|_| async {
            entered.notify_one();
            leave.notified().await;
            Ok::<_, std::io::Error>(())
        });
        run.await.unwrap();
    };
    let reload = async {
        entered.notified().await;
        policies.reload(document(NEW)).unwrap();
        entered.notified().await;
        leave.notify_waiters();
    };
    tokio::join!(read(), read(), reload);
    nothing_left(&engine);
}

#[tokio::test(start_paused = true)]
async fn or_nothing_does() {
    let engine = Engine::new(7);
    let policies = engine.policies(document(OLD)).unwrap();
    let _mine =
        Policy::builder("mine").deadline(std::time::Duration::from_secs(7)).engine(&engine).build().unwrap();
    let digest = policies.digest();
    let wrong = "pool.db.rate_limit = { permits = 1, per = '1s' }\npolicy.reads.deadline = '1s'\npolicy.mine.deadline = '1s'";
    let error = policies.reload(document(wrong)).unwrap_err();
    assert!(error.to_string().contains("; "), "`?` carries it, and it lists all mistakes: {error}");
    let BuildError::Mistakes(mistakes) = error else { panic!("{error}") };
    let named: Vec<_> = mistakes.iter().map(|it| format!("{} {}", it.key, it.value)).collect();
    assert_eq!(named, [r#"pool "db""#, r#"policy "mine""#, r#"policy "reads""#]);
    assert_eq!((policies.digest(), policies.names().len()), (digest, 3));
    assert_eq!(fail(&policies.get("charges").unwrap()).await, 3, "as it was");
}
