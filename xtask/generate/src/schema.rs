//! The JSON Schema of policy documents, for editors: what they can tell while somebody types. The validator in core
//! has the last word; where a rule cannot be said here, the schema lets the document pass.

use serde_json::{Map, Value as Json, json};
use tidegate::{Domain, Key};

use crate::facts::{
    Required, default_key, keys_of, name_of, preset_sets, required, table_of, tables_of, values,
};

const SPAN: &str = "[0-9]+(\\.[0-9]+)?(us|ms|s|m|h)";

pub fn text() -> String {
    format!("{:#}\n", schema())
}

pub fn schema() -> Json {
    let required = required();
    let mut policy = table("", "A named set of components. It has at least one.", &required);
    policy["minProperties"] = json!(1);
    let rules: Vec<_> = required.iter().filter_map(conditional).collect();
    if !rules.is_empty() {
        policy["allOf"] = rules.into();
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tidegate policy document",
        "description": "Generated from core/src/policy/table.rs by `cargo xtask generate`.",
        "type": "object",
        "properties": {
            "policy": {
                "description": "Policies by name.",
                "type": "object",
                "maxProperties": 1000,
                "propertyNames": { "minLength": 1, "maxLength": 100 },
                "additionalProperties": { "$ref": "#/$defs/policy" },
            },
        },
        "additionalProperties": false,
        "$defs": { "policy": policy },
    })
}

/// A table of keys.
fn table(path: &str, doc: &str, required: &[Required]) -> Json {
    let mut properties = Map::new();
    for key in keys_of(path) {
        properties.insert(name_of(key.path).into(), value(key));
    }
    for (below, doc) in tables_of(path) {
        properties.insert(name_of(below).into(), table(below, doc, required));
    }
    let mut schema = json!({ "description": doc, "type": "object", "properties": properties, "additionalProperties": false });
    // A preset may have given what is left out here.
    let needed = required.iter().filter(|rule| table_of(rule.path) == path && rule.by.is_none());
    let needed: Vec<_> =
        needed.filter(|rule| !preset_sets(rule.path)).map(|rule| name_of(rule.path)).collect();
    if !needed.is_empty() {
        schema["required"] = needed.into();
    }
    schema
}

/// "Where this key has that value, that one must stand", for policies without a preset.
fn conditional(rule: &Required) -> Option<Json> {
    let (chooser, choice) = rule.by?;
    Some(json!({
        "if": { "allOf": [{ "not": { "required": ["preset"] } }, nested(chooser, json!({ "const": choice }))] },
        "then": nested(rule.path, json!(true)),
    }))
}

/// The key is there, and its value is like this.
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
        Domain::Real { min, max } => {
            json!({ "type": "number", "minimum": number(min), "maximum": number(max) })
        }
        Domain::Flag => json!({ "type": "boolean" }),
        Domain::Choice(words) => json!({ "enum": words }),
        Domain::Statuses => {
            let item = json!({ "anyOf": [
                { "enum": [408, 429] }, { "type": "integer", "minimum": 500, "maximum": 599 }
            ] });
            json!({ "type": "array", "items": item, "minItems": 1 })
        }
        Domain::Words(words) => json!({ "type": "array", "items": { "enum": words }, "minItems": 1 }),
    };
    schema["description"] = match key.domain {
        // The words are listed by the schema itself.
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
        Domain::Statuses | Domain::Words(_) => key.default.split(' ').map(word).collect(),
        Domain::Count { .. } | Domain::Real { .. } => word(key.default),
    })
}

/// A whole number is written as one: 1000, not 1000.0.
fn number(n: f64) -> Json {
    if n.fract() == 0.0 { json!(n as i64) } else { json!(n) }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
