//! Pools in policy documents (semantics 0.4): how they are declared, named and printed, and what their mistakes are told.

use tidegate::{Document, Engine, Options, Pool, PoolKind, Time, Value};

fn toml(text: &str) -> Vec<String> {
    let errors = Document::from_toml(text).expect_err("it has mistakes");
    errors.iter().map(ToString::to_string).collect()
}

const WHOLE: &str = r#"
[pool.db]
bulkhead = { kind = "aimd", max_concurrency = 10, max_queue = 50, latency_threshold = "200ms" }

[pool."the api"]
rate_limit = { permits = 100, per = "1s" }

[pool.retries.budget]
kind = "tokens"
ratio = 0.1
max = 10

[policy.reads]
retry = { budget = { pool = "retries" } }
rate_limit = { pool = "the api", wait = true, max_wait = "1s" }
bulkhead = { pool = "db", acquire_timeout = "100ms" }

[policy.writes]
bulkhead.pool = "db"
"#;

#[test]
fn pools_of_all_kinds_are_read_printed_and_taken_in() {
    let document = Document::from_toml(WHOLE).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let pools: Vec<_> = document.pools().map(|pool| (pool.name(), pool.kind())).collect();
    let expected =
        [("db", PoolKind::Bulkhead), ("retries", PoolKind::Budget), ("the api", PoolKind::RateLimit)];
    assert_eq!(pools, expected);
    let api = Pool::from_pairs(
        "the api",
        PoolKind::RateLimit,
        &[("permits", Value::Number(100.0)), ("per", Value::Number(1e6))],
    );
    assert_eq!(document.pools().nth(2), api.as_ref().ok());
    let text = document.to_toml();
    assert!(
        text.starts_with("[pool.db]\nbulkhead.kind = \"aimd\"\nbulkhead.max_concurrency = 10\n"),
        "{text}"
    );
    assert!(text.contains("[pool.retries]\nbudget.kind = \"tokens\"\nbudget.ratio = 0.1\nbudget.max = 10\n"));
    assert!(
        text.contains("[pool.\"the api\"]\nrate_limit.permits = 100\nrate_limit.per = \"1s\"\n"),
        "{text}"
    );
    assert_eq!(Document::from_toml(&text).unwrap(), document);
    assert!(document.to_json().starts_with("{\n  \"pool\": {\n    \"db\": {\n      \"bulkhead\": {\n"));
    assert_eq!(Document::from_json(&document.to_json()).unwrap(), document);

    let now = Time::from_micros(0);
    let mut engine = Engine::new(1, Options::default());
    let policies = || document.policies().cloned();
    assert!(engine.policy(policies().next().unwrap()).is_err(), "its pools come first");
    for pool in document.pools() {
        engine.pool(pool.clone(), now).unwrap();
    }
    assert!(policies().all(|policy| engine.policy(policy).is_ok()));
}

#[test]
fn an_empty_table_is_a_pool_with_its_defaults() {
    let budget = Document::from_toml("pool.x.budget = {}").unwrap();
    assert_eq!(budget, Document::from_toml("pool.x.budget.kind = \"earned\"").unwrap());
    assert_eq!(
        toml("pool.x.bulkhead = {}"),
        ["line 1: pool.x.bulkhead.max_concurrency = (absent): is required where there is a bulkhead"]
    );
}

#[test]
fn all_mistakes_of_pools_come_at_once() {
    let errors = toml(
        r#"
[pool.a]
bulkhead = { max_concurrency = 0, acquire_timeout = "1s", max_que = 3 }
[pool.b]
bulkhed = { max_concurrency = 1 }
[pool.c]
bulkhead = { max_concurrency = 1 }
rate_limit = { permits = 1, per = "1s" }
[pool.d]
[pool.e]
budget = 3
[pool.f.budget]
kind = "ratio"
[pool.g.bulkhead]
acquire_timeout = 3
[pool.h.rate_limit]
permits = 1
per = "2"
wait = true
[pool.i.budget]
pool = "f"
"#,
    );
    let known = "the keys of bulkhead are kind, max_concurrency, ";
    let expected = [
        "line 3: pool.a.bulkhead.max_que = 3: no such key; did you mean max_queue? ",
        "line 3: pool.a.bulkhead.acquire_timeout = \"1s\": belongs to the policies that use the pool",
        "line 3: pool.a.bulkhead.max_concurrency = 0: must be a whole number from 1 to 1000000000",
        "line 5: pool.b.bulkhed = (a table): no such kind of pool; did you mean bulkhead? the kinds are bulkhead, rate_limit, budget",
        "line 8: pool.c.rate_limit = (a table): a pool is of one kind; give the other one a name of its own",
        "line 9: pool.d = (a table): must have a table named by its kind: bulkhead, rate_limit, budget",
        "line 11: pool.e.budget = 3: must be a table; the keys of retry.budget are kind, ",
        "line 12: pool.f.budget.ratio = (absent): is required where kind is ratio",
        "line 15: pool.g.bulkhead.acquire_timeout = 3: belongs to the policies that use the pool",
        "line 18: pool.h.rate_limit.per = \"2\": must be a span with a unit",
        "line 19: pool.h.rate_limit.wait = true: belongs to the policies that use the pool",
        "line 21: pool.i.budget.pool = \"f\": belongs to the policies that use the pool",
    ];
    assert_eq!(errors.len(), expected.len(), "{errors:#?}");
    for (found, expected) in errors.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}\n{expected}");
    }
    assert!(errors[0].contains(known), "{}", errors[0]);
}

#[test]
fn a_policy_that_names_no_pool_of_the_document_is_told_those_that_there_are() {
    let pools = "pool.db.bulkhead.max_concurrency = 1\npool.api.rate_limit = { permits = 1, per = \"1s\" }\n";
    let with = |policy: &str| toml(&format!("{pools}{policy}"));
    assert_eq!(
        with("policy.p.bulkhead.pool = \"dbs\""),
        [
            "line 3: policy.p.bulkhead.pool = \"dbs\": no such pool; did you mean db? the bulkhead pools are db"
        ]
    );
    assert_eq!(
        with("policy.p.bulkhead.pool = \"api\""),
        ["line 3: policy.p.bulkhead.pool = \"api\": is a rate_limit pool; the bulkhead pools are db"]
    );
    assert_eq!(
        with("policy.p.retry.budget.pool = \"x\""),
        ["line 3: policy.p.retry.budget.pool = \"x\": no such pool; the document has no budget pools"]
    );
    // Whatever else is wrong with the policy or the pool, and wherever they stand.
    assert_eq!(
        toml("policy.p = { bulkhead.pool = \"y\", deadline = 3 }\npool.x.bulkhead.max_concurrency = 0"),
        [
            "line 1: policy.p.deadline = 3: must be a span with a unit, such as \"250ms\" or \"2s\"; a bare number has none",
            "line 1: policy.p.bulkhead.pool = \"y\": no such pool; did you mean x? the bulkhead pools are x",
            "line 2: pool.x.bulkhead.max_concurrency = 0: must be a whole number from 1 to 1000000000",
        ]
    );
    for pool in ["pool.x.bulkhead.max_concurrency = 0", "pool.x = 3", "pool.x = {}", "pool.x.limit = 3"] {
        let errors = toml(&format!("policy.p.bulkhead.pool = \"x\"\n{pool}"));
        assert_eq!(errors.len(), 1, "a pool with mistakes is declared all the same: {errors:?}");
    }
}

#[test]
fn pools_are_tables_bounded_in_number_and_named_like_policies() {
    assert_eq!(toml("pool = 3"), ["line 1: pool = 3: must be a table of named pools"]);
    let kinds = "bulkhead, rate_limit, budget";
    assert_eq!(
        toml("pool.x = 3"),
        [format!("line 1: pool.x = 3: must be a table named by its kind: {kinds}")]
    );
    assert_eq!(
        toml("pool.\"\".budget = {}"),
        ["line 1: pool.\"\" = \"\": a name has 1 to 100 bytes and no control characters"]
    );
    let many = |n: usize| {
        let lines: Vec<_> = (0..n).map(|n| format!("pool.p{n}.budget = {{}}\n")).collect();
        lines.concat()
    };
    assert_eq!(Document::from_toml(&many(1_000)).unwrap().pools().count(), 1_000);
    assert_eq!(toml(&many(1_001)), ["line 1: pool = (1001 pools): a document has at most 1000 pools"]);
    assert_eq!(
        toml("[pool.x]\nbudget = {}\n[pool.x]\nbudget = {}\n"),
        ["line 3: pool.x = (a table): is given more than once"]
    );
}

#[test]
fn pools_from_pairs_have_their_own_keys_in_their_mistakes() {
    let told = |kind, pairs: &[(&str, Value<'_>)]| -> Vec<String> {
        Pool::from_pairs("x", kind, pairs).unwrap_err().iter().map(ToString::to_string).collect()
    };
    assert_eq!(told(PoolKind::Bulkhead, &[]), ["pool = (empty): has no keys of a bulkhead"]);
    assert_eq!(
        told(PoolKind::Budget, &[("kind", Value::Text("tokens"))]),
        [
            "ratio = (absent): is required where kind is tokens",
            "max = (absent): is required where kind is tokens",
        ]
    );
    assert_eq!(
        told(PoolKind::RateLimit, &[("burst", Value::Number(1.0)), ("unit", Value::Text("call"))]),
        [
            "unit = \"call\": belongs to the policies that use the pool",
            "permits = (absent): is required where there is a rate limit",
            "per = (absent): is required where there is a rate limit",
        ]
    );
    let pool = Pool::from_pairs("x", PoolKind::Budget, &[("ttl", Value::Number(2e6))]).unwrap();
    assert_eq!(pool.to_pairs(), [("ttl", Value::Number(2e6))]);
}
