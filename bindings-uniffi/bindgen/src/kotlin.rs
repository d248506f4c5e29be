//! Kotlin's half of the surface: types and functions from uniffi's metadata, carried by JNI (`jni.rs` writes the other end).
//!
//! Numbers cross as they are. Everything else crosses as bytes in uniffi's own format: big-endian, lengths and variants as 32 bits.

#![allow(clippy::self_only_used_in_recursion)] // the methods of a value's type are asked alike

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use uniffi_bindgen::interface::{Argument, AsType, ComponentInterface, Enum, Field, Object, Record, Type};

use crate::names::{camel, pascal};

/// Records that users see, and how Kotlin calls them. They and what they hold are classes of the package `dev.tidegate`.
const PUBLIC: [(&str, &str); 5] = [
    ("CallExplanation", "CallExplanation"),
    ("Event", "TidegateEvent"),
    ("Replayed", "Replayed"),
    ("Restored", "Restored"),
    ("Snapshot", "Snapshot"),
];

/// A function of the surface, as both ends of JNI need it.
pub struct Export {
    /// The native method's name.
    pub java: String,
    /// The function that uniffi exports.
    pub symbol: String,
    /// The function that clones the object that a method belongs to.
    pub receiver: Option<String>,
    pub arguments: Vec<Type>,
    pub answer: Option<Type>,
}

/// Every function, method and constructor, and for each object what clones and frees it.
pub fn exports(ci: &ComponentInterface) -> Vec<Export> {
    let mut exports = Vec::new();
    let mut add =
        |symbol: &str, receiver: Option<String>, arguments: Vec<&Argument>, answer: Option<&Type>| {
            let (_, name) = symbol.split_once("_fn_").unwrap_or(("", symbol));
            exports.push(Export {
                java: camel(name),
                symbol: symbol.to_owned(),
                receiver,
                arguments: arguments.iter().map(AsType::as_type).collect(),
                answer: answer.cloned(),
            });
        };
    for function in ci.function_definitions() {
        add(function.ffi_func().name(), None, function.arguments(), function.return_type());
    }
    for object in ci.object_definitions() {
        let clone = object.ffi_object_clone().name();
        for constructor in object.constructors() {
            add(constructor.ffi_func().name(), None, constructor.arguments(), Some(&Type::UInt64));
        }
        for method in object.methods() {
            add(method.ffi_func().name(), Some(clone.to_owned()), method.arguments(), method.return_type());
        }
    }
    for object in ci.object_definitions() {
        for (symbol, answer) in
            [(object.ffi_object_clone().name(), Some(Type::UInt64)), (object.ffi_object_free().name(), None)]
        {
            let (_, name) = symbol.split_once("_fn_").unwrap_or(("", symbol));
            let (java, symbol) = (camel(name), symbol.to_owned());
            exports.push(Export { java, symbol, receiver: None, arguments: vec![Type::UInt64], answer });
        }
    }
    exports.sort_unstable_by(|one, other| one.java.cmp(&other.java)); // metadata has no order
    exports
}

/// The text of both files: the internal half, and the records that users see.
pub fn render(ci: &ComponentInterface, hash: u64) -> Result<(String, String), String> {
    let public = PUBLIC.map(|(name, kotlin)| (name.to_owned(), kotlin.to_owned())).into();
    Writer { ci, public: reachable(ci, public) }.render(hash)
}

/// These records, and those that they hold, by uniffi's name.
pub fn reachable(ci: &ComponentInterface, mut names: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut open: Vec<_> = names.keys().cloned().collect();
    while let Some(name) = open.pop() {
        let Some(record) = ci.get_record_definition(&name) else { continue };
        let mut held = BTreeSet::new();
        for field in record.fields() {
            records(&field.as_type(), &mut held);
        }
        for name in held {
            if !names.contains_key(&name) {
                names.insert(name.clone(), name.clone());
                open.push(name);
            }
        }
    }
    names
}

fn records(of: &Type, found: &mut BTreeSet<String>) {
    match of {
        Type::Record { name, .. } => drop(found.insert(name.clone())),
        Type::Optional { inner_type } | Type::Sequence { inner_type } => records(inner_type, found),
        Type::Map { key_type, value_type } => {
            records(key_type, found);
            records(value_type, found);
        }
        _ => {}
    }
}

/// How a type crosses, in a class of its own: the JVM loads those of the types that cross, and no others.
fn border(name: &str, functions: &str) -> String {
    format!("\ninternal object {name}Border {{\n{functions}}}\n")
}

struct Writer<'a> {
    ci: &'a ComponentInterface,
    public: BTreeMap<String, String>,
}

const HEAD: &str =
    "// Written by bindings-uniffi/bindgen from the interface of tidegate-uniffi. Built, not committed.\n\n";

impl Writer<'_> {
    fn render(&self, hash: u64) -> Result<(String, String), String> {
        let mut inner = format!(
            "{HEAD}@file:Suppress(\"all\")\n\npackage dev.tidegate.ffi\n\nimport java.nio.ByteBuffer\n\n"
        );
        let mut outer = format!("{HEAD}package dev.tidegate\n");
        for kotlin in self.public.values() {
            let _ = writeln!(inner, "import dev.tidegate.{kotlin}");
        }
        let _ = write!(
            inner,
            "\n/** The functions of the library. */\ninternal object Ffi {{\n    const val HASH: Long = {}L\n",
            hash.cast_signed()
        );
        for export in exports(self.ci) {
            inner += &native(&export);
        }
        inner += "}\n";
        for record in self.ci.record_definitions() {
            match self.public.get(record.name()) {
                Some(name) => outer += &self.public_record(name, record)?,
                None => inner += &self.record(record)?,
            }
            inner += &self.record_border(record)?;
        }
        for of in self.ci.enum_definitions() {
            inner += &self.choice(of)?;
        }
        for object in self.ci.object_definitions() {
            inner += &self.object(object)?;
        }
        for function in self.ci.function_definitions() {
            let call =
                self.call(function.ffi_func().name(), &[], &function.arguments(), function.throws_type())?;
            inner += &self.function(
                "internal ",
                function.name(),
                &function.arguments(),
                function.return_type(),
                &call,
            )?;
        }
        Ok((inner, outer))
    }

    /// Kotlin's type. What users see has signed numbers, which Java has too.
    fn name(&self, of: &Type, signed: bool) -> Result<String, String> {
        Ok(match of {
            Type::UInt8 if !signed => "UByte".into(),
            Type::UInt16 if !signed => "UShort".into(),
            Type::UInt32 if !signed => "UInt".into(),
            Type::UInt64 if !signed => "ULong".into(),
            Type::UInt8 | Type::UInt16 | Type::UInt32 => "Int".into(),
            Type::UInt64 | Type::Int64 => "Long".into(),
            Type::Float64 => "Double".into(),
            Type::Boolean => "Boolean".into(),
            Type::String => "String".into(),
            Type::Bytes => "ByteArray".into(),
            Type::Object { name, .. } | Type::Enum { name, .. } => name.clone(),
            Type::Record { name, .. } => self.public.get(name).unwrap_or(name).clone(),
            Type::Box { inner_type } => self.name(inner_type, signed)?,
            Type::Optional { inner_type } => format!("{}?", self.name(inner_type, signed)?),
            Type::Sequence { inner_type } => format!("List<{}>", self.name(inner_type, signed)?),
            Type::Map { key_type, value_type } => {
                format!("Map<{}, {}>", self.name(key_type, signed)?, self.name(value_type, signed)?)
            }
            other => return Err(format!("{other:?}: no type of this kind crosses to Kotlin yet")),
        })
    }

    /// Reads a value from `buf`.
    fn read(&self, of: &Type, signed: bool) -> Result<String, String> {
        Ok(match of {
            Type::UInt8 if signed => "(buf.get().toInt() and 0xff)".into(),
            Type::UInt16 if signed => "(buf.getShort().toInt() and 0xffff)".into(),
            Type::UInt32 if signed => "buf.getInt()".into(),
            Type::UInt64 if signed => "buf.getLong()".into(),
            Type::Int64 => "buf.getLong()".into(),
            Type::UInt8 => "buf.get().toUByte()".into(),
            Type::UInt16 => "buf.getShort().toUShort()".into(),
            Type::UInt32 => "buf.getInt().toUInt()".into(),
            Type::UInt64 => "buf.getLong().toULong()".into(),
            Type::Float64 => "buf.getDouble()".into(),
            Type::Boolean => "(buf.get() != 0.toByte())".into(),
            Type::String => "buf.text()".into(),
            Type::Bytes => "buf.bytes()".into(),
            Type::Object { name, .. } => format!("{name}(Raw(buf.getLong()))"),
            Type::Enum { name, .. } | Type::Record { name, .. } => format!("{name}Border.read(buf)"),
            Type::Box { inner_type } => self.read(inner_type, signed)?,
            Type::Optional { inner_type } => format!("buf.option {{ {} }}", self.read(inner_type, signed)?),
            Type::Sequence { inner_type } => format!("buf.list {{ {} }}", self.read(inner_type, signed)?),
            Type::Map { key_type, value_type } => {
                format!(
                    "buf.map({{ {} }}) {{ {} }}",
                    self.read(key_type, signed)?,
                    self.read(value_type, signed)?
                )
            }
            other => return Err(format!("{other:?}: no type of this kind crosses to Kotlin yet")),
        })
    }

    /// Writes the value of an expression to `out`; nothing that users see is written.
    fn write(&self, of: &Type, value: &str, depth: usize) -> Result<String, String> {
        let (one, other) = (format!("it{depth}"), format!("of{depth}"));
        Ok(match of {
            Type::UInt8 => format!("out.writeByte({value}.toInt())"),
            Type::UInt16 => format!("out.writeShort({value}.toInt())"),
            Type::UInt32 => format!("out.writeInt({value}.toInt())"),
            Type::UInt64 => format!("out.writeLong({value}.toLong())"),
            Type::Int64 => format!("out.writeLong({value})"),
            Type::Float64 => format!("out.writeDouble({value})"),
            Type::Boolean => format!("out.writeByte(if ({value}) 1 else 0)"),
            Type::String => format!("out.text({value})"),
            Type::Bytes => format!("out.bytes({value})"),
            Type::Object { name, .. } => format!("out.writeLong({})", cloned(name, value)),
            Type::Enum { name, .. } | Type::Record { name, .. } => {
                format!("{name}Border.write({value}, out)")
            }
            Type::Box { inner_type } => self.write(inner_type, value, depth)?,
            Type::Optional { inner_type } => {
                format!("out.option({value}) {{ {one} -> {} }}", self.write(inner_type, &one, depth + 1)?)
            }
            Type::Sequence { inner_type } => {
                format!("out.list({value}) {{ {one} -> {} }}", self.write(inner_type, &one, depth + 1)?)
            }
            Type::Map { key_type, value_type } => format!(
                "out.map({value}) {{ {one}, {other} -> {}; {} }}",
                self.write(key_type, &one, depth + 1)?,
                self.write(value_type, &other, depth + 1)?
            ),
            other => return Err(format!("{other:?}: no type of this kind crosses to Rust yet")),
        })
    }

    /// An argument as JNI takes it.
    fn lower(&self, of: &Type, value: &str) -> Result<String, String> {
        Ok(match of {
            Type::UInt8 => format!("{value}.toByte()"),
            Type::UInt16 => format!("{value}.toShort()"),
            Type::UInt32 => format!("{value}.toInt()"),
            Type::UInt64 => format!("{value}.toLong()"),
            Type::Float64 => value.into(),
            Type::Boolean => format!("(if ({value}) 1 else 0).toByte()"),
            Type::String => format!("{value}.utf8()"),
            Type::Object { name, .. } => cloned(name, value),
            other => format!("written {{ out -> {} }}", self.write(other, value, 0)?),
        })
    }

    /// What a call answers, from what JNI gives.
    fn lift(&self, of: Option<&Type>, call: &str) -> Result<String, String> {
        Ok(match of {
            None | Some(Type::Float64) => call.into(),
            Some(Type::UInt8) => format!("{call}.toUByte()"),
            Some(Type::UInt16) => format!("{call}.toUShort()"),
            Some(Type::UInt32) => format!("{call}.toUInt()"),
            Some(Type::UInt64) => format!("{call}.toULong()"),
            Some(Type::Boolean) => format!("{call} != 0.toByte()"),
            Some(Type::String) => format!("{call}.decodeToString()"),
            Some(Type::Object { name, .. }) => format!("{name}(Raw({call}))"),
            Some(other) => format!("lifted({call}) {{ buf -> {} }}", self.read(other, false)?),
        })
    }

    /// A call of a native method, its mistakes thrown as what they are.
    fn call(
        &self,
        symbol: &str,
        first: &[&str],
        arguments: &[&Argument],
        throws: Option<&Type>,
    ) -> Result<String, String> {
        let (_, name) = symbol.split_once("_fn_").unwrap_or(("", symbol));
        let mut given: Vec<_> = first.iter().map(|&it| it.to_owned()).collect();
        for argument in arguments {
            given.push(self.lower(&argument.as_type(), &format!("`{}`", camel(argument.name())))?);
        }
        let call = format!("Ffi.{}({})", camel(name), given.join(", "));
        Ok(match throws {
            Some(Type::Enum { name, .. }) => format!("failing({{ {name}Border.read(it) }}) {{ {call} }}"),
            _ => call,
        })
    }

    fn parameters(&self, arguments: &[&Argument]) -> Result<String, String> {
        let one =
            |it: &&Argument| Ok(format!("`{}`: {}", camel(it.name()), self.name(&it.as_type(), false)?));
        Ok(arguments.iter().map(one).collect::<Result<Vec<_>, String>>()?.join(", "))
    }

    fn function(
        &self,
        indent: &str,
        name: &str,
        arguments: &[&Argument],
        answer: Option<&Type>,
        call: &str,
    ) -> Result<String, String> {
        let (name, parameters) = (camel(name), self.parameters(arguments)?);
        let of = answer.map_or(Ok("Unit".to_owned()), |of| self.name(of, false))?;
        Ok(format!("{indent}fun `{name}`({parameters}): {of} = {}\n", self.lift(answer, call)?))
    }

    fn record(&self, record: &Record) -> Result<String, String> {
        let fields = self.fields(record.fields(), "val ", false)?;
        Ok(format!("\ninternal data class {}({fields})\n", record.name()))
    }

    fn fields(&self, fields: &[Field], before: &str, signed: bool) -> Result<String, String> {
        let one =
            |it: &Field| Ok(format!("{before}`{}`: {}", camel(it.name()), self.name(&it.as_type(), signed)?));
        Ok(fields.iter().map(one).collect::<Result<Vec<_>, String>>()?.join(", "))
    }

    /// How a record crosses. A public one only ever comes from the engine.
    fn record_border(&self, record: &Record) -> Result<String, String> {
        let signed = self.public.contains_key(record.name());
        let (name, kotlin) =
            (record.name(), self.public.get(record.name()).map_or(record.name(), String::as_str));
        let read: Result<Vec<_>, _> =
            record.fields().iter().map(|it| self.read(&it.as_type(), signed)).collect();
        let mut text = format!("    fun read(buf: ByteBuffer): {kotlin} = {kotlin}({})\n", read?.join(", "));
        if !signed {
            let _ = writeln!(text, "\n    fun write(value: {kotlin}, out: Bytes) {{");
            for field in record.fields() {
                let value = format!("value.`{}`", camel(field.name()));
                let _ = writeln!(text, "        {}", self.write(&field.as_type(), &value, 0)?);
            }
            text += "    }\n";
        }
        Ok(border(name, &text))
    }

    /// A class that users see: fields that can be read, what is equal by its fields, and no more promises.
    fn public_record(&self, name: &str, record: &Record) -> Result<String, String> {
        let mut text = doc(record.docstring(), "");
        let _ = writeln!(text, "public class {name} internal constructor(");
        for field in record.fields() {
            text += &doc(field.docstring(), "    ");
            let _ = writeln!(
                text,
                "    public val {}: {},",
                camel(field.name()),
                self.name(&field.as_type(), true)?
            );
        }
        let names: Vec<_> = record.fields().iter().map(|it| camel(it.name())).collect();
        let shown: Vec<_> = names.iter().map(|it| format!("{it}=${it}")).collect();
        // A record with a text for people shows that.
        let shown = if names.iter().any(|it| it == "text") {
            "$text".to_owned()
        } else {
            format!("{name}({})", shown.join(", "))
        };
        let _ = write!(
            text,
            ") {{\n    private fun all(): List<Any?> = listOf({})\n\n    override fun equals(other: Any?): Boolean = other is {name} && all() == other.all()\n\n    override fun hashCode(): Int = all().hashCode()\n\n    override fun toString(): String = \"{shown}\"\n}}\n",
            names.join(", ")
        );
        Ok(format!("\n{}", text.trim_start()))
    }

    /// An enum with fields, or an error.
    fn choice(&self, of: &Enum) -> Result<String, String> {
        let (name, error) = (of.name(), self.ci.is_name_used_as_error(of.name()));
        let parent = if error { " : Exception()" } else { "" };
        let mut text = format!("\ninternal sealed class {name}{parent} {{\n");
        let (mut read, mut write) = (String::new(), String::new());
        for (place, variant) in (1..).zip(of.variants()) {
            let title = pascal(variant.name());
            let fields = self.fields(variant.fields(), "val ", false)?;
            let values: Result<Vec<_>, _> =
                variant.fields().iter().map(|it| self.read(&it.as_type(), false)).collect();
            let given =
                if variant.has_fields() { format!("({})", values?.join(", ")) } else { String::new() };
            let _ = writeln!(read, "        {place} -> {name}.{title}{given}");
            let _ = write!(write, "            is {name}.{title} -> {{ out.writeInt({place})");
            for field in variant.fields() {
                let value = format!("value.`{}`", camel(field.name()));
                let _ = write!(write, "; {}", self.write(&field.as_type(), &value, 0)?);
            }
            write += " }\n";
            let shown: Vec<_> =
                variant.fields().iter().map(|it| format!("{0}=${0}", camel(it.name()))).collect();
            let message = format!(" {{ override val message: String get() = \"{}\" }}", shown.join(", "));
            let _ = match (variant.has_fields(), error) {
                (false, _) => writeln!(text, "    object {title} : {name}()"),
                (true, false) => writeln!(text, "    data class {title}({fields}) : {name}()"),
                (true, true) => writeln!(text, "    class {title}({fields}) : {name}(){message}"),
            };
        }
        text += "}\n";
        let mut both = format!(
            "    fun read(buf: ByteBuffer): {name} = when (val variant = buf.getInt()) {{\n{read}        else -> throw IllegalStateException(\"{name} has no variant $variant\")\n    }}\n"
        );
        if !error {
            let _ = write!(
                both,
                "\n    fun write(value: {name}, out: Bytes) {{\n        when (value) {{\n{write}        }}\n    }}\n"
            );
        }
        Ok(text + &border(name, &both))
    }

    fn object(&self, object: &Object) -> Result<String, String> {
        let (name, low) = (object.name(), object.name().to_lowercase());
        let mut text = format!(
            "\ninternal class {name}(raw: Raw) : Owned(raw, {{ Ffi.{}(it) }}) {{\n",
            camel(&format!("free_{low}"))
        );
        for constructor in object.constructors() {
            let parameters = self.parameters(&constructor.arguments())?;
            let call = self.call(
                constructor.ffi_func().name(),
                &[],
                &constructor.arguments(),
                constructor.throws_type(),
            )?;
            if !constructor.is_primary_constructor() {
                let _ = writeln!(
                    text,
                    "    companion object {{ fun `{}`({parameters}): {name} = {name}(Raw({call})) }}",
                    camel(constructor.name())
                );
                continue;
            }
            let _ = writeln!(text, "    constructor({parameters}) : this(Raw({call}))");
        }
        for method in object.methods() {
            let call = self.call(
                method.ffi_func().name(),
                &["this", "pointer"],
                &method.arguments(),
                method.throws_type(),
            )?;
            text +=
                &self.function("    ", method.name(), &method.arguments(), method.return_type(), &call)?;
        }
        Ok(text + "}\n")
    }
}

/// An object on its way to Rust: a reference of its own.
fn cloned(name: &str, value: &str) -> String {
    format!("Ffi.{}({value}.pointer)", camel(&format!("clone_{}", name.to_lowercase())))
}

/// The declaration of a native method. A method's object goes along, so that it is not collected meanwhile.
fn native(export: &Export) -> String {
    let mut parameters: Vec<_> = Vec::new();
    if export.receiver.is_some() {
        parameters.extend(["owner: Any".to_owned(), "pointer: Long".to_owned()]);
    }
    for (place, of) in export.arguments.iter().enumerate() {
        parameters.push(format!("a{place}: {}", carried(of)));
    }
    let answer = export.answer.as_ref().map_or("Unit", carried);
    format!("    @JvmStatic external fun {}({}): {answer}\n", export.java, parameters.join(", "))
}

/// What a value is while it crosses.
fn carried(of: &Type) -> &'static str {
    match of {
        Type::UInt8 | Type::Boolean => "Byte",
        Type::UInt16 => "Short",
        Type::UInt32 => "Int",
        Type::UInt64 | Type::Object { .. } => "Long",
        Type::Float64 => "Double",
        _ => "ByteArray",
    }
}

fn doc(text: Option<&str>, indent: &str) -> String {
    let text = text.unwrap_or_default().trim().replace("*/", "* /");
    let lines: Vec<_> = text.lines().map(|line| format!("{indent} * {}", line.trim())).collect();
    format!("{indent}/**\n{}\n{indent} */\n", lines.join("\n"))
}
