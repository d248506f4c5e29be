//! The reference page: one table for each component, and the settings of each preset.

use std::fmt::Write;

use tidegate::{Document, Policy, TABLES, Value};

use crate::facts::{Required, keys_of, name_of, pools, presets, required, values, when_absent};

const HEAD: &str = "\
<!-- Generated from core/src/policy/components by `cargo xtask generate`; do not edit. -->

# Policy documents: every key

Every key of a policy document. The same options with the names, types and units of each language:
[Python](reference/python.md), [JavaScript](reference/javascript.md), [Kotlin](reference/kotlin.md), [Swift](reference/swift.md),
[Rust](reference/rust.md).

A document nests or dots the keys, as in `retry.backoff.base`. In documents a span is a string with a unit (`us`, `ms`, `s`, `m`, `h`), such as `\"250ms\"` or `\"1.5s\"`;
a bare number is an error. An empty table (`retry = {}`) is a component with all its defaults; a component that is left out
is not there. `policy.schema.json` beside this page tells the same to editors.
";

const POOLS: &str = "
## Pools

A component that several policies share: one queue, one bucket, one budget for all of them and all their routes. A document
declares it once, as a table named by its kind, and policies name it:

```toml
[pool.db]
bulkhead = { max_concurrency = 10, max_queue = 50 }

[policy.reads]
bulkhead = { pool = \"db\", acquire_timeout = \"100ms\" }
```

Its own keys stand in the pool and nowhere else; what a preset has of them does not count. A document that names a pool declares it.

| Kind | Keys of the pool | Named by | What stays the policy's own |
|---|---|---|---|
";

const TARGETS: &str = "
## Groups of targets

Models, providers, regions or keys that attempts can go to. A document declares the group, and policies name it:

```toml
[targets.chat]
pick = \"ladder\"
max_queue = 100
max_wait = \"5s\"
default.breaker = { consecutive = 5, break_duration = \"30s\" }
members = [{ name = \"large\", rate_limit = { permits = 500, per = \"1m\" } }, \"small\"]

[policy.chat]
targets = \"chat\"
```

| Key | Values | Default | Meaning |
|---|---|---|---|
| `pick` | one of ladder, balanced | required | ladder: the first member that admits the attempt; balanced: the better of two that are drawn by their shares. |
| `members` | a list of 1 to 16 names, or of tables with a `name` | required | The targets, in the order of a ladder. |
| `max_queue` | a whole number from 0 to 10000000 | `0` | Calls that may wait until a member admits them, in one queue; 0 is no queue. |
| `max_wait` | a span from 1us to 365 days | `1s` | `max_queue`: how long a call waits for a member. |
| `default` | a table as a member's, without a name | off | What each member has that does not give the key itself. |
| `share` of a member | a whole number from 1 to 1000 | `1` | How often balanced draws it, relative to the others. |
| `only_after` of a member | a list of classes and kinds of failure | off | Only calls that have failed so go to it, such as those that are too long for the others (`too_long`). |
| `attempt_timeout` of a member | a span from 1us to 1h | that of the policy | Timeout of an attempt at this target. |
| `rate_limit` of a member | `permits`, `per`, `burst` | off | Attempts per span. |
| `bulkhead` of a member | its keys but those of a queue, `unit` and `pool` | off | Attempts at once. |
| `breaker` of a member | its keys but `unit` | off | When to leave it to the others. |
| `cooldown` of a member | `base`, `max` (60 s), `quota_wait` (5 minutes) | off | How long to leave it to the others after it was throttled, or after its quota was spent or its key not accepted; then few attempts at first. |

A policy with `targets` has no `breaker`, `throttle`, `cooldown`, `retry.hold` and `retry.send_rate` of its own. It may have `retry.failover_on`: classes and kinds of failure that are not
retried, after which an attempt at another target starts at once where one admits it.
";

pub fn text() -> String {
    let required = required();
    let mut page = HEAD.to_owned();
    section(&mut page, "", "The policy itself", "Its components are the tables below.", &required);
    for (path, doc) in TABLES {
        section(&mut page, path, &format!("`{path}`"), doc, &required);
    }
    page += POOLS;
    for pool in pools() {
        let beside: Vec<_> = pool.beside.iter().map(|path| format!("`{}`", name_of(path))).collect();
        let _ = writeln!(
            page,
            "| `{}` | those of `{}` without {} | `{}` | {} |",
            pool.kind,
            pool.table,
            beside.join(", "),
            pool.name,
            beside.iter().filter(|name| *name != "`pool`").cloned().collect::<Vec<_>>().join(", ")
        );
    }
    page += TARGETS;
    page += "\n## Presets\n\nA policy may start from one of these, `preset = \"http\"`, and override any key. What a preset leaves out \
             has its default.\n";
    for preset in presets() {
        let _ = write!(page, "\n### `{preset}`\n{}\n```toml\n{}```\n", warning(preset), settings(preset));
    }
    page
}

fn section(page: &mut String, path: &str, title: &str, doc: &str, required: &[Required]) {
    let _ =
        write!(page, "\n## {title}\n\n{doc}\n\n| Key | Values | Default | Meaning |\n|---|---|---|---|\n");
    for key in keys_of(path) {
        let name = key.path.rsplit('.').next().unwrap_or(key.path);
        let default = when_absent(key, required);
        let _ = writeln!(page, "| `{name}` | {} | {default} | {} |", values(key), key.doc);
    }
}

/// The effect of a preset's own budget on a server that has been overloaded (docs/explanation/experiments.md, "Other presets").
fn warning(preset: &str) -> String {
    let (dead, runs) = match preset {
        "httpware" => (218, 312),
        "aws_standard" | "aws_adaptive" => (59, 312),
        "aws_2026" => (48, 312),
        "graph" => (16, 156),
        "llm" => {
            return "\nBeside `rate_limit.limits` it has `rate_limit.learn = \"down\"`, and beside `targets` `retry.failover_on = [\"quota_spent\"]` \
                    and no cooldown.\n"
                .to_owned();
        }
        _ => return String::new(),
    };
    format!(
        "\nThe budget is the published one, and does not always let an overloaded server recover: after a pulse of overload, {dead} of \
         {runs} simulated\nservers, which first attempts loaded to 76 % at most, stayed down ([experiments](explanation/experiments.md#other-presets)). \
         `retry.budget.kind = \"earned\"`\nbeside the preset bounds the added load to 18 %; no server of the presets that have it stayed \
         down.\n"
    )
}

/// The pairs of a preset in the form of a document.
fn settings(preset: &str) -> String {
    let policy = Policy::from_pairs(preset, &[("preset", Value::Text(preset))]);
    let document: Document = policy.into_iter().collect();
    document.to_toml().lines().skip(1).map(|line| line.to_owned() + "\n").collect()
}
