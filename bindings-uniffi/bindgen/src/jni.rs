//! The library's end of JNI: a line for each function, for the macro of `bindings-uniffi/src/jni/glue.rs`.

use std::fmt::Write as _;

use uniffi_bindgen::interface::{ComponentInterface, Type};

use crate::kotlin::{Export, exports};

/// Says which interface both ends were made from: FNV-1a of the lines and of the fields of all types.
pub fn hash(ci: &ComponentInterface) -> u64 {
    let mut types: Vec<_> = ci.record_definitions().iter().map(|it| format!("{it:?}")).collect();
    types.extend(ci.enum_definitions().iter().map(|it| format!("{it:?}")));
    types.sort_unstable();
    let (types, lines) = (types.concat(), exports(ci).iter().map(line).collect::<String>());
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    lines.bytes().chain(types.bytes()).fold(0xcbf2_9ce4_8422_2325, step)
}

/// The file.
pub fn render(ci: &ComponentInterface) -> String {
    let mut text = String::from(
        "//! Written by `cargo xtask generate` (`bindings-uniffi/bindgen`) from the interface that uniffi exports.\n\n",
    );
    let _ = write!(
        text,
        "use super::glue::export;\n\n/// The interface that these lines were made from.\npub const HASH: u64 = 0x{};\n\n",
        grouped(hash(ci))
    );
    exports(ci).iter().map(line).for_each(|line| text += &line);
    text
}

/// Hexadecimal digits in groups of four.
fn grouped(number: u64) -> String {
    let digits = format!("{number:016x}");
    [&digits[..4], &digits[4..8], &digits[8..12], &digits[12..]].join("_")
}

fn line(export: &Export) -> String {
    let arguments: Vec<_> =
        export.arguments.iter().enumerate().map(|(place, of)| format!("a{place}: {}", carried(of))).collect();
    let receiver = export.receiver.as_ref().map_or_else(String::new, |clone| format!(" of {clone}"));
    let answer = export.answer.as_ref().map_or("()", carried);
    let Export { java, symbol, .. } = export;
    format!(
        "export!(Java_dev_tidegate_ffi_Ffi_{java} = {symbol}{receiver} ({}) -> {answer});\n",
        arguments.join(", ")
    )
}

fn carried(of: &Type) -> &'static str {
    match of {
        Type::UInt8 => "u8",
        Type::Boolean => "i8",
        Type::UInt16 => "u16",
        Type::UInt32 => "u32",
        Type::UInt64 | Type::Object { .. } => "u64",
        Type::Float64 => "f64",
        _ => "RustBuffer",
    }
}
