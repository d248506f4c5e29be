//! Packs a file: `tidegate-wasm-packer FROM TO`. Says how long it was, and where its code starts and ends.

#![allow(clippy::disallowed_methods)] // it is a tool, and no part of the engine

use std::process::ExitCode;
use std::{env, fs};

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    let [from, to] = &arguments[..] else {
        eprintln!("tidegate-wasm-packer FROM TO");
        return ExitCode::FAILURE;
    };
    let packed = fs::read(from).map(|module| tidegate_wasm_packer::pack(&module));
    match packed.and_then(|packed| fs::write(to, &packed.bytes).map(|()| packed.sizes)) {
        Ok(sizes) => {
            println!("{sizes:?}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{}: {error}", from.display());
            ExitCode::FAILURE
        }
    }
}
