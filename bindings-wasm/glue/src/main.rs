//! Runs wasm-bindgen on a module built by cargo: `tidegate-wasm-glue <module.wasm> <folder> <name>` writes the module, its types
//! and its glue. The lock file pins the version of wasm-bindgen, so nothing else needs to be installed.

use std::error::Error;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [module, folder, name] = &args[..] else {
        return Err("three arguments: the module, a folder, and the name of what is written".into());
    };
    Bindgen::new().input_path(module).bundler(true)?.typescript(true).out_name(name).generate(folder)?;
    Ok(())
}
