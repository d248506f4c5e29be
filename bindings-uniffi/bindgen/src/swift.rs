//! The records that users of Swift see, as structs of their own: uniffi's have writable properties, numbers without a sign, and spans
//! as microseconds.

use std::fmt::Write as _;

use uniffi_bindgen::interface::{AsType, ComponentInterface, Field, Record, Type};

use crate::kotlin::reachable;
use crate::names::camel;

/// Records that users see. They and what they hold are types of the module `Tidegate`.
const PUBLIC: [&str; 4] = ["CallExplanation", "Event", "Restored", "Snapshot"];

/// The text of `Views.swift`.
pub fn render(ci: &ComponentInterface) -> Result<String, String> {
    let mut text = "// Written by bindings-uniffi/bindgen from the interface of tidegate-uniffi. Built, not committed.\n\n\
        internal import TidegateNative\n"
        .to_owned();
    let public = reachable(ci, PUBLIC.map(|name| (name.to_owned(), name.to_owned())).into());
    for record in ci.record_definitions().iter().filter(|record| public.contains_key(record.name())) {
        text += &structure(record)?;
    }
    Ok(text)
}

fn structure(record: &Record) -> Result<String, String> {
    let name = record.name();
    let (mut fields, mut init) = (String::new(), String::new());
    for field in record.fields() {
        let native = camel(field.name());
        let ours = spelled(field);
        let of = field.as_type();
        let _ = writeln!(
            fields,
            "{}    public let {ours}: {}",
            doc(field.docstring(), "    "),
            swift(&of, is_span(field))?
        );
        let value = converted(&of, is_span(field), &format!("of.{native}"))?;
        let _ = writeln!(init, "        {ours} = {value}");
    }
    Ok(format!(
        "\n{}public struct {name}: Sendable, Hashable {{\n{fields}\n    init(_ of: TidegateNative.{name}) {{\n{init}    }}\n}}\n",
        doc(record.docstring(), "")
    ))
}

/// Is it a span, or a moment of the engine's clock, in microseconds?
fn is_span(field: &Field) -> bool {
    field.name().ends_with("_us")
}

fn spelled(field: &Field) -> String {
    camel(field.name().strip_suffix("_us").unwrap_or(field.name()))
}

fn swift(of: &Type, span: bool) -> Result<String, String> {
    Ok(match of {
        Type::UInt64 if span => "Duration".into(),
        Type::UInt8 | Type::UInt16 | Type::UInt32 | Type::Int64 => "Int".into(),
        Type::UInt64 => "UInt64".into(),
        Type::Float64 => "Double".into(),
        Type::Boolean => "Bool".into(),
        Type::String => "String".into(),
        Type::Record { name, .. } => name.clone(),
        Type::Optional { inner_type } => format!("{}?", swift(inner_type, span)?),
        Type::Sequence { inner_type } => format!("[{}]", swift(inner_type, span)?),
        Type::Map { key_type, value_type } => {
            format!("[{}: {}]", swift(key_type, false)?, swift(value_type, span)?)
        }
        other => return Err(format!("{other:?}: no type of this kind is in a record of Swift's yet")),
    })
}

/// A value of uniffi's as ours.
fn converted(of: &Type, span: bool, value: &str) -> Result<String, String> {
    let each = |method: &str, inner: &Type| {
        Ok::<_, String>(match converted(inner, span, "$0")?.as_str() {
            "$0" => value.to_owned(),
            work => format!("{value}.{method} {{ {work} }}"),
        })
    };
    Ok(match of {
        Type::UInt64 if span => format!("Duration.microseconds({value})"),
        Type::UInt8 | Type::UInt16 | Type::UInt32 | Type::Int64 => format!("Int({value})"),
        Type::Record { name, .. } => format!("{name}({value})"),
        Type::Optional { inner_type } | Type::Sequence { inner_type } => each("map", inner_type)?,
        Type::Map { value_type, .. } => each("mapValues", value_type)?,
        _ => value.into(),
    })
}

fn doc(text: Option<&str>, indent: &str) -> String {
    text.unwrap_or_default()
        .trim()
        .lines()
        .fold(String::new(), |all, line| format!("{all}{indent}/// {}\n", line.trim()))
}
