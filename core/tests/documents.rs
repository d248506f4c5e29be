//! Policy documents: what they say, and what they are told when they are wrong (semantics 0.3, 0.7, 0.8).

use tidegate::{Document, Domain, Policy, PolicyError, TABLE, Value};

fn shown(errors: &[PolicyError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn toml(text: &str) -> Vec<String> {
    shown(&Document::from_toml(text).expect_err("it has mistakes"))
}

fn json(text: &str) -> Vec<String> {
    shown(&Document::from_json(text).expect_err("it has mistakes"))
}

/// The mistakes of `[policy.p]` with these lines below it.
fn in_p(lines: &str) -> Vec<String> {
    toml(&format!("[policy.p]\n{lines}"))
}

#[test]
fn the_example_of_the_semantics_reads_the_same_nested_dotted_and_as_json() {
    let nested = Document::from_toml(
        r#"
        [policy.payments]
        preset = "http"
        deadline = "10s"
        retry = { max_attempts = 3, statuses = [429, 503], budget = { kind = "window", ttl = "10s" } }
        bulkhead = { kind = "fixed", max_concurrency = 10, max_queue = 4 }
        "#,
    )
    .unwrap();
    let dotted = Document::from_toml(
        r#"
        [policy.payments]
        preset = "http"
        deadline = "10000ms"
        retry.max_attempts = 3
        retry.statuses = [429, 503]
        [policy.payments.retry.budget]
        kind = "window"
        ttl = "10s"
        [policy.payments.bulkhead]
        max_queue = 4
        max_concurrency = 10
        "#,
    )
    .unwrap_or_else(|errors| panic!("{errors:#?}"));
    let json = Document::from_json(
        r#"{"policy": {"payments": {
            "preset": "http", "deadline": "10s",
            "retry": {"max_attempts": 3, "statuses": [429, 503], "budget": {"kind": "window", "ttl": "10s"}},
            "bulkhead": {"kind": "fixed", "max_concurrency": 10, "max_queue": 4}
        }}}"#,
    )
    .unwrap();
    assert_eq!(nested, dotted);
    assert_eq!(nested, json);
    let built = Policy::from_pairs(
        "payments",
        &[
            ("preset", Value::Text("http")),
            ("deadline", Value::Number(10e6)),
            ("retry.statuses", Value::Number(429.0)),
            ("retry.statuses", Value::Number(503.0)),
            ("retry.budget.ttl", Value::Number(10e6)),
            ("bulkhead.max_concurrency", Value::Number(10.0)),
            ("bulkhead.max_queue", Value::Number(4.0)),
        ],
    );
    assert_eq!(nested.policy("payments"), Ok(&built.unwrap()));
}

#[test]
fn all_mistakes_of_all_policies_come_at_once_with_line_key_value_and_rule() {
    let errors = toml(
        r#"
[policy.payments]
preset = "htpp"
deadline = 10
retry.max_attempts = 0
retry.backoff = { base = "1d", bse = "1s" }
retry.statuses = 503

[policy."eu west"]
bulkhead.max_queue = "lots"

[policy.empty]

[pool.shared]
limit = 3
[pools]
"#,
    );
    assert_eq!(
        errors,
        [
            r#"line 3: policy.payments.preset = "htpp": must be one of http"#,
            r#"line 4: policy.payments.deadline = 10: must be a span with a unit, such as "250ms" or "2s"; a bare number has none"#,
            r"line 5: policy.payments.retry.max_attempts = 0: must be a whole number from 1 to 255",
            r#"line 6: policy.payments.retry.backoff.bse = "1s": no such key; did you mean retry.backoff.base? the keys of retry.backoff are KEYS"#,
            r#"line 6: policy.payments.retry.backoff.base = "1d": must be a span such as "250ms" or "2s": a number and one of us, ms, s, m, h"#,
            r"line 7: policy.payments.retry.statuses = 503: must be a list, such as [408, 429]",
            r#"line 9: policy."eu west".bulkhead.max_concurrency = (absent): is required where there is a bulkhead, or bulkhead.pool"#,
            r#"line 10: policy."eu west".bulkhead.max_queue = "lots": must be a whole number from 0 to 10000000, or none"#,
            r"line 12: policy.empty = (empty): an empty policy does nothing; give it at least one component",
            r"line 15: pool.shared.limit = 3: no such kind of pool; the kinds are bulkhead, rate_limit, budget",
            r"line 16: pools = (a table): no such section; did you mean pool? the sections are policy, pool and targets",
        ]
        .map(|line| line.replace("must be one of http", &presets()).replace("KEYS", &backoff_keys()))
    );
}

/// The keys of backoff, whatever there are.
fn backoff_keys() -> String {
    let keys: Vec<_> = TABLE.iter().filter_map(|key| key.path.strip_prefix("retry.backoff.")).collect();
    keys.join(", ")
}

/// The rule of the key `preset`, whatever presets there are.
fn presets() -> String {
    let Domain::Choice(names) = TABLE[0].domain else { panic!("preset comes first") };
    format!("must be one of {}", names.join(", "))
}

#[test]
fn json_mistakes_have_lines_too() {
    let text = "{\"policy\": {\n \"p\": {\n  \"deadline\": 10,\n  \"retry\": {\"max_attempts\": 1e400,\n \"max_attempts\": 2}}}}";
    assert_eq!(
        json(text),
        [
            r#"line 3: policy.p.deadline = 10: must be a span with a unit, such as "250ms" or "2s"; a bare number has none"#,
            "line 4: policy.p.retry.max_attempts = 1e400: must be a whole number from 1 to 255",
            "line 5: policy.p.retry.max_attempts = 2: is given more than once",
        ]
    );
}

#[test]
fn a_value_is_shown_as_it_was_written() {
    assert_eq!(
        in_p(r#"deadline = "9000h""#),
        [r#"line 2: policy.p.deadline = "9000h": must be a span from 1us to 365 days"#]
    );
    assert_eq!(
        in_p("retry.max_attempts = 0x1_00"),
        ["line 2: policy.p.retry.max_attempts = 0x1_00: must be a whole number from 1 to 255"]
    );
    assert_eq!(
        in_p("retry.backoff.multiplier = nan"),
        ["line 2: policy.p.retry.backoff.multiplier = nan: must be a finite number from 1 to 1000"]
    );
    assert_eq!(
        in_p("retry.backoff.multiplier = 1e999"),
        ["line 2: policy.p.retry.backoff.multiplier = 1e999: must be a finite number from 1 to 1000"]
    );
    let long = in_p(&format!("slot_until = \"{}\"", "x".repeat(5_000)));
    assert!(long[0].len() < 250, "{long:?}");
}

#[test]
fn spans_have_units() {
    for good in ["10us", "250ms", "2s", "1.5s", "1m", "1h", "0.5h"] {
        assert!(Document::from_toml(&format!("policy.p.deadline = \"{good}\"")).is_ok(), "{good}");
    }
    assert!(in_p(r#"deadline = "1.5us""#)[0].ends_with("must be a span of whole microseconds"));
    assert!(in_p(r#"deadline = "10""#)[0].ends_with("a bare number has none"));
    assert!(in_p("deadline = 0")[0].ends_with("a bare number has none"));
    assert!(in_p("deadline = true")[0].ends_with("must be a span from 1us to 365 days"));
    assert!(in_p("deadline = 1979-05-27")[0].contains("deadline = 1979-05-27: must be a span from"));
    assert!(in_p("deadline = \"none\"")[0].contains("deadline = \"none\": must be a span such as"));
    assert!(
        in_p("bulkhead.acquire_timeout = 0\nbulkhead.max_concurrency = 1")[0]
            .ends_with("a bare number has none")
    );
    let none =
        "policy.p.bulkhead = { max_concurrency = 1, max_queue = \"none\", acquire_timeout = \"none\" }";
    assert!(Document::from_toml(none).is_ok());
}

#[test]
fn wrong_types_are_told_the_right_one() {
    for (text, expected) in [
        ("retry = 3", "policy.p.retry = 3: must be a table; the keys of retry are max_attempts, "),
        ("retry = [{}]", "policy.p.retry = [{}]: must be a table; the keys of retry are "),
        ("deadline = { s = 1 }", "policy.p.deadline = (a table): must be a span from 1us to 365 days"),
        ("deadline = [\"1s\"]", "policy.p.deadline = [\"1s\"]: must be a span from 1us to 365 days"),
        (
            "retry.max_attempts = \"3\"",
            "policy.p.retry.max_attempts = \"3\": must be a whole number from 1 to 255",
        ),
        (
            "retry.max_attempts = true",
            "policy.p.retry.max_attempts = true: must be a whole number from 1 to 255",
        ),
        ("retry.respect_retry_after = 1", "policy.p.retry.respect_retry_after = 1: must be true or false"),
        (
            "retry.respect_retry_after = \"true\"",
            "policy.p.retry.respect_retry_after = \"true\": must be true or false",
        ),
        (
            "retry.methods = \"GET\"",
            "policy.p.retry.methods = \"GET\": must be a list, such as [\"GET\", \"HEAD\"]",
        ),
        (
            "retry.methods = []",
            "policy.p.retry.methods = []: must have at least one value; leave the key out for the default",
        ),
        (
            "retry.statuses = [503, 404]",
            "policy.p.retry.statuses = 404: must be a status that can be retried: 408, 409, 429 or 500 to 599",
        ),
        ("retry.statuses = [[503]]", "policy.p.retry.statuses = [503]: must be a status"),
        (
            "breaker.failure_on = \"busy\"\nbreaker.consecutive = 1\nbreaker.break_duration = \"1s\"",
            "policy.p.breaker.failure_on = \"busy\": must be a list, such as [\"transient\", \"throttled\"]",
        ),
        (
            "kinds = [\"busy=throttled\"]\ndeadline = \"1s\"",
            "policy.p.kinds = [\"busy=throttled\"]: must be a table of names and classes, such as { busy = ",
        ),
        (
            "kinds.busy = \"thrttled\"\ndeadline = \"1s\"",
            "policy.p.kinds.busy = \"thrttled\": must be name=class: a name of a to z, 0 to 9 and _ that no class",
        ),
        ("kinds.busy = 3\ndeadline = \"1s\"", "policy.p.kinds.busy = 3: must be name=class: "),
        (
            "kinds.\"a.b\" = \"throttled\"\ndeadline = \"1s\"",
            "policy.p.kinds.\"a.b\" = \"throttled\": must be name=class: ",
        ),
        ("kinds = {}\ndeadline = \"1s\"", "policy.p.kinds = (a table): must have at least one value"),
        ("slot_until = 1", "policy.p.slot_until = 1: must be one of body, headers"),
        ("\"retry.max_attempts\" = 3", "policy.p.\"retry.max_attempts\" = 3: no such key; "),
        (
            "retry.max_attempts.x = 3",
            "policy.p.retry.max_attempts = (a table): must be a whole number from 1 to 255",
        ),
    ] {
        let errors = in_p(text);
        assert!(
            errors[0].strip_prefix("line 2: ").is_some_and(|e| e.starts_with(expected)),
            "{text}: {errors:#?}"
        );
        assert_eq!(errors.len(), 1, "{text}: {errors:#?}");
    }
    assert_eq!(toml("policy = 3"), ["line 1: policy = 3: must be a table of named policies"]);
    assert_eq!(toml("policy.p = 3"), ["line 1: policy.p = 3: must be a table of components"]);
    assert_eq!(toml("[[policy.p]]\ndeadline = \"1s\"").len(), 1);
    assert_eq!(json("3"), ["line 1: document = 3: must be a table with the section policy"]);
    assert_eq!(json("{\"policy\": null}"), ["line 1: policy = null: must be a table of named policies"]);
    assert!(json(r#"{"policy": {"p": {"deadline": null}}}"#)[0].contains("deadline = null: must be a span"));
}

#[test]
fn unknown_sections_are_told_the_known_one() {
    assert_eq!(
        toml("[policies.p]\ndeadline = \"1s\""),
        [
            "line 1: policies = (a table): no such section; did you mean policy? the sections are policy, pool and targets"
        ]
    );
    assert!(
        toml("defaults.p = 1")[0].ends_with("no such section; the sections are policy, pool and targets")
    );
}

#[test]
fn duplicates_are_found_wherever_they_stand_and_hide_no_other_mistake() {
    let errors = toml(
        "[policy.p]\ndeadline = \"1s\"\n\"deadline\" = \"2s\"\nretry = { max_attempts = 2, max_attempts = 0 }\nslot_until = 3\n",
    );
    assert_eq!(
        errors,
        [
            "line 3: policy.p.deadline = \"2s\": is given more than once",
            "line 4: policy.p.retry.max_attempts = 0: is given more than once",
            "line 5: policy.p.slot_until = 3: must be one of body, headers",
        ]
    );
    assert_eq!(
        toml("[policy.p]\ndeadline = \"1s\"\n[policy.q]\ndeadline = \"1s\"\n[policy.p]\ndeadline = \"2s\"\n"),
        ["line 5: policy.p = (a table): is given more than once"]
    );
    assert_eq!(
        json(r#"{"policy": {"p": {"deadline": "1s"}, "p": {"deadline": "1s"}}}"#),
        ["line 1: policy.p = (a table): is given more than once"]
    );
}

#[test]
fn a_text_that_does_not_parse_is_told_where() {
    let errors = toml("[policy.p]\ndeadline = 10s\nretry = {\n");
    assert!(errors[0].starts_with("line 2: document = deadline = 10s: is not TOML: "), "{errors:#?}");
    assert!(errors[0].contains("(column "), "{errors:#?}");
    let errors = json("{\"policy\":\n {\"p\" 3}}");
    assert_eq!(errors, ["line 2: document = {\"p\" 3}}: is not JSON: expected `:` (column 7)"]);
    assert_eq!(json("").len(), 1);
    assert_eq!(json("{} {}").len(), 1);
}

#[test]
fn documents_are_bounded() {
    let large = format!("#{}", "x".repeat(256 * 1024));
    assert_eq!(toml(&large), ["document = (262145 bytes): a document has at most 262144 bytes"]);
    assert_eq!(json(&large).len(), 1);
    let many = |n: usize| {
        let lines: Vec<_> = (0..n).map(|n| format!("policy.p{n}.deadline = \"1s\"")).collect();
        lines.join("\n")
    };
    assert_eq!(Document::from_toml(&many(1_000)).unwrap().policies().count(), 1_000);
    assert_eq!(
        toml(&many(1_001)),
        ["line 1: policy = (1001 policies): a document has at most 1000 policies"]
    );
    let named = |name: &str| format!("[policy.{name}]\ndeadline = \"1s\"");
    assert!(Document::from_toml(&named(&"x".repeat(100))).is_ok());
    let errors = toml(&named(&"x".repeat(101)));
    assert_eq!(errors.len(), 1);
    assert!(errors[0].ends_with("a name has 1 to 100 bytes and no control characters"), "{errors:?}");
    assert!(toml(&named("\"\"")).len() == 1 && toml(&named("\"a\\nb\"")).len() == 1);
}

#[test]
fn an_empty_table_is_a_component_with_its_defaults() {
    let three = Document::from_toml("policy.p.retry.max_attempts = 3").unwrap();
    assert_eq!(Document::from_toml("policy.p.retry = {}").unwrap(), three);
    assert_eq!(Document::from_toml("[policy.p.retry]").unwrap(), three);
    assert_eq!(
        in_p("bulkhead = {}"),
        [
            "line 1: policy.p.bulkhead.max_concurrency = (absent): is required where there is a bulkhead, or bulkhead.pool"
        ]
    );
    // Where all keys have defaults, the component is there; a key that has another's value does not say so.
    let throttle = Document::from_toml("policy.p.throttle = {}").unwrap();
    assert_eq!(throttle.policy("p").unwrap().value("throttle.k"), Some(Value::Number(2.0)));
    assert_eq!(
        in_p("rate_limit = {}"),
        [
            "line 1: policy.p.rate_limit.permits = (absent): is required where there is a rate limit, or rate_limit.pool",
            "line 1: policy.p.rate_limit.per = (absent): is required where there is a rate limit, or rate_limit.pool",
        ]
    );
    // A preset's own settings are not undone by it.
    let preset = |more: &str| Document::from_toml(&format!("[policy.p]\npreset = \"http\"\n{more}")).unwrap();
    assert_eq!(preset("retry = { budget = {} }"), preset(""));
    assert!(Document::from_toml("").unwrap().policies().next().is_none());
}

#[test]
fn kinds_are_a_table_of_names_and_classes() {
    let written = "policy.p = { kinds = { busy = \"throttled\", clash = \"conflict\" }, retry.retry_on = [\"busy\", \"clash\"] }";
    let document = Document::from_toml(written).unwrap();
    let policy = document.policy("p").unwrap();
    assert_eq!(policy.kinds().collect::<Vec<_>>(), ["busy", "clash"]);
    let text = "[policy.p]\nkinds.busy = \"throttled\"\nkinds.clash = \"conflict\"\nretry.retry_on = [\"busy\",\"clash\"]\n";
    assert_eq!(document.to_toml(), text);
    assert_eq!(Document::from_toml(text).unwrap(), document);
    assert_eq!(Document::from_json(&document.to_json()).unwrap(), document);
    assert!(document.to_json().contains("\"kinds\": {\n        \"busy\": \"throttled\",\n"));
    assert_eq!(
        json(r#"{"policy": {"p": {"deadline": "1s", "kinds": {"a": "conflict", "a": "conflict"}}}}"#),
        [r#"line 1: policy.p.kinds = "a": is declared more than once"#]
    );
}

#[test]
fn an_unknown_policy_is_told_the_known_ones() {
    let document =
        Document::from_toml("policy.a.deadline = \"1s\"\npolicy.payments.deadline = \"1s\"").unwrap();
    let error = document.policy("payment").unwrap_err();
    assert_eq!(error.known, ["a", "payments"]);
    assert_eq!(
        error.to_string(),
        "policy = \"payment\": no such policy; did you mean payments? the policies are a, payments"
    );
    assert_eq!(
        Document::default().policy("x").unwrap_err().to_string(),
        "policy = \"x\": no such policy; the document has none"
    );
}

#[test]
fn a_document_prints_what_it_was_given_with_the_preset_spelled_out() {
    let document = Document::from_toml(
        "policy.p = { deadline = \"1500ms\", preset = \"http\", retry.statuses = [503, 429], retry.respect_retry_after = false }\n[policy.\"a.b\".bulkhead]\nmax_concurrency = 5\nmax_queue = \"none\"\n",
    )
    .unwrap();
    let text = document.to_toml();
    assert!(text.starts_with("[policy.\"a.b\"]\nbulkhead.max_concurrency = 5\nbulkhead.max_queue = \"none\"\n\n[policy.p]\ndeadline = \"1.5s\"\nretry.max_attempts = 3\nretry.statuses = [503,429]\nretry.respect_retry_after = false\n"), "{text}");
    assert!(text.contains("retry.backoff.multiplier = 2\n"), "{text}");
    let small = Document::from_toml(
        "policy.p.retry = { max_attempts = 2, statuses = [503, 429], budget.ttl = \"5s\" }",
    );
    let expected = r#"{
  "policy": {
    "p": {
      "retry": {
        "max_attempts": 2,
        "statuses": [503,429],
        "budget": {
          "ttl": "5s"
        }
      }
    }
  }
}
"#;
    assert_eq!(small.unwrap().to_json(), expected);
    assert_eq!(Document::default().to_json(), "{\n  \"policy\": {}\n}\n");
    assert_eq!(Document::from_toml(&text).unwrap(), document);
}

#[test]
fn the_validator_takes_the_shared_documents_that_it_should() {
    let text = include_str!("../../tests/vectors/documents/documents.json");
    let vectors: serde_json::Value = serde_json::from_str(text).unwrap();
    let vectors = vectors["documents"].as_array().unwrap();
    assert!(vectors.len() > 30);
    for vector in vectors {
        let read = Document::from_json(&vector["document"].to_string());
        assert_eq!(read.is_ok(), vector["valid"].as_bool().unwrap(), "{}: {read:?}", vector["name"]);
        assert_eq!(
            read.err().map_or(0, |errors| errors.len()),
            usize::from(vector["valid"] == false),
            "{}",
            vector["name"]
        );
    }
}
