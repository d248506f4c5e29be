//! The TypeScript types of the functions that the npm package's module of parts exports, read from its sources.

use super::text::camel;

/// The sources that are written by hand.
const BY_HAND: [&str; 3] = [
    include_str!("../../../../bindings-wasm/parts/src/slab.rs"),
    include_str!("../../../../bindings-wasm/parts/src/store.rs"),
    include_str!("../../../../bindings-wasm/parts/src/texts.rs"),
];

/// The file of the types.
pub fn file(generated: &[(String, String)]) -> (String, String) {
    let sources = generated.iter().filter(|(path, _)| path.starts_with("bindings-wasm/parts/"));
    let sources = sources.map(|(_, text)| text.as_str()).chain(BY_HAND);
    let lines: Vec<_> = sources.flat_map(|text| text.split("extern \"C\" fn ").skip(1)).map(method).collect();
    let text = format!(
        "// {}\n\nimport type {{ Memory }} from \"../engine/global_types.js\";\n\n\
         /** The exports of the module: numbers in and out, 64-bit words as `bigint`. */\n\
         export interface Native {{\n  readonly memory: Memory;\n{}}}\n",
        super::GENERATED,
        lines.concat()
    );
    ("bindings-wasm/ts/parts/exports.ts".into(), text)
}

/// The method of a function, which begins with its name.
fn method(function: &str) -> String {
    let (name, rest) = function.split_once('(').expect("arguments");
    let (args, rest) = rest.split_once(')').expect("their end");
    let kind = |kind: &str| if kind == "u64" { "bigint" } else { "number" };
    let args = args.split(',').filter_map(|arg| arg.trim().split_once(": "));
    let args: Vec<_> = args.map(|(name, of)| format!("{}: {}", camel(name), kind(of))).collect();
    let result = rest.trim_start().strip_prefix("-> ").map_or("void", |_| "number");
    format!("  {name}({}): {result};\n", args.join(", "))
}
