//! The JSON Schema of policy documents, with which editors check a document while it is typed. The validator in core decides; where
//! JSON Schema cannot express a rule, the schema accepts the document.

use serde_json::{Map, Value as Json, json};
use tidegate::{Domain, Key, Pool, PoolKind, TABLE, Value};

use crate::facts::{
    OF_DOCUMENTS, PoolFacts, Reason, Required, bases, default_key, doc_of, keys_of, name_of, pools,
    preset_sets, required, sample, table_of, tables_of, values, words_for_kinds,
};

const KIND: &str = "^[a-z][a-z0-9_]{0,49}$";
const SPAN: &str = "[0-9]+(\\.[0-9]+)?(us|ms|s|m|h)";

pub fn text() -> String {
    format!("{:#}\n", schema())
}

pub fn schema() -> Json {
    let required = required();
    let mut policy = table("", "A named set of components. It has at least one.", &required);
    policy["minProperties"] = json!(1);
    for path in OF_DOCUMENTS {
        let key = TABLE.iter().find(|key| key.path == path).expect("a key of documents");
        let table = match table_of(path) {
            "" => &mut policy,
            table => &mut policy["properties"][table],
        };
        table["properties"][name_of(path)] = value(key);
    }
    let rules = required.iter().filter_map(conditional);
    policy["allOf"] = rules.chain(pools().iter().map(elsewhere)).collect();
    policy["not"] = json!({ "required": ["breaker", "throttle"] });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tidegate policy document",
        "description": "Generated from core/src/policy/components by `cargo xtask generate`.",
        "type": "object",
        "properties": {
            "policy": {
                "description": "Policies by name.",
                "type": "object",
                "maxProperties": 1000,
                "propertyNames": { "minLength": 1, "maxLength": 100 },
                "additionalProperties": { "$ref": "#/$defs/policy" },
            },
            "pool": {
                "description": "Pools by name: components that several policies share.",
                "type": "object",
                "maxProperties": 1000,
                "propertyNames": { "minLength": 1, "maxLength": 100 },
                "additionalProperties": { "$ref": "#/$defs/pool" },
            },
            "targets": {
                "description": "Groups of targets by name: models, providers, regions or keys that attempts can go to.",
                "type": "object",
                "maxProperties": 1000,
                "propertyNames": { "minLength": 1, "maxLength": 98 },
                "additionalProperties": { "$ref": "#/$defs/targets" },
            },
        },
        "additionalProperties": false,
        "$defs": { "policy": policy, "pool": pool(&required), "target": target(), "targets": targets() },
    })
}

/// The schema of a target: the keys that a group takes for one.
fn target() -> Json {
    let mut properties = Map::new();
    for path in ["rate_limit", "bulkhead", "breaker", "cooldown"] {
        let mut own = table(path, doc_of(path), &[]);
        let keys = own["properties"].as_object_mut().expect("a table");
        keys.retain(|name, _| {
            let key = TABLE.iter().find(|key| key.path == format!("{path}.{name}")).expect("a key");
            let given =
                [("pick", Value::Text("ladder")), ("member", Value::Text("a")), (key.path, sample(key))];
            let errors = Pool::from_pairs("x", PoolKind::Targets, &given).err().unwrap_or_default();
            errors.iter().all(|error| !error.rule.starts_with("a target has"))
        });
        properties.insert(path.into(), own);
    }
    properties.insert("share".into(), json!({
        "type": "integer", "minimum": 1, "maximum": 1000,
        "description": "How often a balanced group draws the target, relative to the others. 1 where absent.",
    }));
    properties.insert("attempt_timeout".into(), json!({
        "type": "string", "pattern": format!("^{SPAN}$"),
        "description": "Timeout of an attempt at this target, of at most an hour, in place of the policy's.",
    }));
    json!({ "description": "What a target has.", "type": "object", "properties": properties, "additionalProperties": false })
}

/// The schema of a group of targets.
fn targets() -> Json {
    let name = json!({ "type": "string", "minLength": 1, "maxLength": 98 });
    let mut member = target();
    member["properties"]["name"] = name.clone();
    member["properties"]["only_after"] = json!({
        "type": "array", "minItems": 1, "items": { "type": "string", "pattern": KIND },
        "description": "Classes and kinds of failure: only calls that have failed so go to the target.",
    });
    member["required"] = json!(["name"]);
    json!({
        "description": "A group of targets, and how one is picked.",
        "type": "object",
        "properties": {
            "pick": { "enum": ["ladder", "balanced"], "description": "ladder: the first that admits; balanced: the better of two that are drawn by their shares." },
            "max_queue": { "type": "integer", "minimum": 0, "maximum": 10_000_000, "description": "Calls that may wait until a member admits them, in one queue. 0, the default, is no queue." },
            "max_wait": { "type": "string", "pattern": format!("^{SPAN}$"), "description": "max_queue: how long a call waits for a member. 1s where absent." },
            "default": { "$ref": "#/$defs/target" },
            "members": { "type": "array", "minItems": 1, "maxItems": 16, "items": { "anyOf": [name, member] } },
        },
        "required": ["pick", "members"],
        "additionalProperties": false,
    })
}

/// The schema of a pool: one table, named by its kind, with the keys of the pool.
fn pool(required: &[Required]) -> Json {
    let mut kinds = Map::new();
    for PoolFacts { kind, table: path, beside, .. } in pools() {
        let doc = doc_of(path).replace(", per route", "");
        let mut own = table(path, &doc, &[]);
        for key in beside {
            own["properties"].as_object_mut().expect("a table").remove(name_of(key));
        }
        let needed: Vec<_> =
            required.iter().filter(|rule| table_of(rule.path) == path && rule.by.is_none()).collect();
        if !needed.is_empty() {
            let names: Json = needed.iter().map(|rule| name_of(rule.path)).collect();
            if path == "rate_limit" {
                own["anyOf"] = json!([{ "required": names }, { "required": ["limits"] }]);
            } else {
                own["required"] = names;
            }
        }
        let chosen = required.iter().filter_map(|rule| match rule.by {
            Some(Reason::Choice(chooser, choice)) if table_of(chooser) == path => {
                let mut when = vec![nested(name_of(chooser), json!({ "const": choice }))];
                when.extend(
                    rule.unless.map(|(key, word)| without(&nested(name_of(key), json!({ "const": word })))),
                );
                let when = if when.len() == 1 { when.remove(0) } else { json!({ "allOf": when }) };
                Some(json!({ "if": when, "then": nested(name_of(rule.path), json!(true)) }))
            }
            _ => None,
        });
        let chosen: Vec<_> = chosen.collect();
        if !chosen.is_empty() {
            own["allOf"] = chosen.into();
        }
        kinds.insert(kind.name().into(), own);
    }
    json!({
        "description": "A component that several policies share: one table, named by its kind.",
        "type": "object",
        "properties": kinds,
        "minProperties": 1,
        "maxProperties": 1,
        "additionalProperties": false,
    })
}

/// The rule "Where this key names a pool, the pool's own keys are not allowed here."
fn elsewhere(pool: &PoolFacts) -> Json {
    let own: Vec<_> = pool.beside.iter().map(|path| name_of(path)).collect();
    json!({
        "if": nested(pool.name, json!(true)),
        "then": nested(pool.table, json!({ "propertyNames": { "enum": own } })),
    })
}

/// The schema of a table of keys.
fn table(path: &str, doc: &str, required: &[Required]) -> Json {
    let mut properties = Map::new();
    for key in keys_of(path) {
        properties.insert(name_of(key.path).into(), value(key));
    }
    for (below, doc) in tables_of(path) {
        properties.insert(name_of(below).into(), table(below, doc, required));
    }
    let mut schema = json!({ "description": doc, "type": "object", "properties": properties, "additionalProperties": false });
    // A preset may have set the keys that are left out here.
    let needed = required.iter().filter(|rule| table_of(rule.path) == path && !preset_sets(rule.path));
    let (mut plainly, mut either, mut beside) = (Vec::new(), Vec::new(), Map::new());
    for rule in needed {
        let name = name_of(rule.path);
        match (rule.by, rule.instead) {
            (None, None) => plainly.push(name),
            (None, Some(instead)) => {
                let mut any = vec![json!({ "required": [name] }), json!({ "required": [name_of(instead)] })];
                if path == "rate_limit" {
                    any.push(json!({ "required": ["limits"] })); // each limit of a set has its own
                }
                either.push(json!({ "anyOf": any }));
            }
            (Some(Reason::Beside(key)), _) => {
                let list = beside.entry(name_of(key)).or_insert_with(|| json!([]));
                list.as_array_mut().expect("a list").push(name.into());
            }
            (Some(Reason::Choice(..)), _) => {}
        }
    }
    if !plainly.is_empty() {
        schema["required"] = plainly.into();
    }
    if !either.is_empty() {
        schema["allOf"] = either.into();
    }
    if !beside.is_empty() {
        schema["dependentRequired"] = beside.into();
    }
    schema
}

/// The rule "Where this key has that value, that one is required", for policies without a preset.
fn conditional(rule: &Required) -> Option<Json> {
    let Some(Reason::Choice(chooser, choice)) = rule.by else { return None };
    let mut when =
        vec![without(&json!({ "required": ["preset"] })), nested(chooser, json!({ "const": choice }))];
    when.extend(rule.unless.map(|(key, word)| without(&nested(key, json!({ "const": word })))));
    Some(json!({ "if": { "allOf": when }, "then": nested(rule.path, json!(true)) }))
}

/// The condition that another one does not hold.
fn without(condition: &Json) -> Json {
    json!({ "not": condition })
}

/// The condition that the key is present with a value of this schema.
fn nested(path: &str, value: Json) -> Json {
    path.rsplit('.').fold(value, |inner, name| json!({ "properties": { name: inner }, "required": [name] }))
}

fn value(key: &Key) -> Json {
    let mut schema = match key.domain {
        Domain::Span { none: false, .. } => json!({ "type": "string", "pattern": format!("^{SPAN}$") }),
        Domain::Span { none: true, .. } => {
            json!({ "type": "string", "pattern": format!("^({SPAN}|none)$") })
        }
        Domain::Count { min, max, none: false } => {
            json!({ "type": "integer", "minimum": min, "maximum": max })
        }
        Domain::Count { min, max, none: true } => {
            json!({ "anyOf": [{ "type": "integer", "minimum": min, "maximum": max }, { "const": "none" }] })
        }
        Domain::Real { min, max, none: false } => {
            json!({ "type": "number", "minimum": number(min), "maximum": number(max) })
        }
        Domain::Real { min, max, none: true } => {
            let range = json!({ "type": "number", "minimum": number(min), "maximum": number(max) });
            json!({ "anyOf": [range, { "const": "none" }] })
        }
        Domain::Flag => json!({ "type": "boolean" }),
        Domain::Choice(words) => json!({ "enum": words }),
        Domain::Statuses => {
            let item = json!({ "anyOf": [
                { "enum": [408, 409, 429] }, { "type": "integer", "minimum": 500, "maximum": 599 }
            ] });
            json!({ "type": "array", "items": item, "minItems": 1 })
        }
        Domain::Words(words) => json!({ "type": "array", "items": { "enum": words }, "minItems": 1 }),
        Domain::KindWords(words) => {
            let item = json!({ "anyOf": [{ "enum": words }, { "type": "string", "pattern": KIND }] });
            json!({ "type": "array", "items": item, "minItems": 1 })
        }
        Domain::Kinds => {
            let taken = [words_for_kinds(), &["ok", "cancelled"]].concat();
            json!({
                "type": "object",
                "propertyNames": { "pattern": KIND, "not": { "enum": taken } },
                "additionalProperties": { "enum": bases() },
                "minProperties": 1,
                "maxProperties": 23,
            })
        }
        Domain::Limits => {
            let whole =
                |least: u64| json!({ "type": "integer", "minimum": least, "maximum": (1_u64 << 53) - 1 });
            let span = json!({ "type": "string", "pattern": format!("^{SPAN}$") });
            let none = json!({ "anyOf": [whole(0), { "const": "none" }] });
            let limit = json!({
                "type": "object",
                "properties": {
                    "permits": whole(1), "per": span, "burst": whole(1),
                    "weight": { "type": "string", "pattern": KIND }, "default": whole(0), "max_debt": none,
                    "refill": { "enum": ["continuous", "window"] }, "anchor": span,
                },
                "required": ["permits", "per"],
                "dependentRequired": { "default": ["weight"], "max_debt": ["weight"], "anchor": ["refill"] },
                "additionalProperties": false,
            });
            json!({
                "type": "object",
                "propertyNames": { "pattern": KIND },
                "additionalProperties": limit,
                "minProperties": 1,
                "maxProperties": 4,
            })
        }
        Domain::Shares => {
            let share = "^.{1,100}=(1000|[1-9][0-9]{0,2})$";
            json!({ "anyOf": [
                {
                    "type": "object",
                    "propertyNames": { "minLength": 1, "maxLength": 100 },
                    "additionalProperties": { "type": "integer", "minimum": 1, "maximum": 1000 },
                    "minProperties": 1,
                },
                { "type": "array", "items": { "type": "string", "pattern": share }, "minItems": 1 },
            ] })
        }
        Domain::Name => json!({ "type": "string", "minLength": 1, "maxLength": 100 }),
    };
    schema["description"] = match key.domain {
        // The schema itself lists the words.
        Domain::Choice(_) => key.doc.into(),
        _ => format!("{} {}.", key.doc, capital(&values(key))).into(),
    };
    if let Some(default) = default(key) {
        schema["default"] = default;
    }
    schema
}

fn default(key: &Key) -> Option<Json> {
    if key.default.is_empty() || default_key(key).is_some() {
        return None;
    }
    let word = |word: &str| word.parse().map_or_else(|_| json!(word), number);
    Some(match key.domain {
        Domain::Span { .. } | Domain::Choice(_) => key.default.into(),
        Domain::Flag => (key.default == "true").into(),
        Domain::Statuses | Domain::Words(_) | Domain::KindWords(_) => {
            key.default.split(' ').map(word).collect()
        }
        Domain::Count { .. } | Domain::Real { .. } => word(key.default),
        Domain::Kinds | Domain::Limits | Domain::Shares | Domain::Name => return None,
    })
}

/// A whole number without a fraction: 1000, not 1000.0.
fn number(n: f64) -> Json {
    if n.fract() == 0.0 { json!(n as i64) } else { json!(n) }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
