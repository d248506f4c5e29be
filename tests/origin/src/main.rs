//! `tidegate-origin`: the origin as a process, for hosts in other languages.

#![forbid(unsafe_code)]

use std::io::{self, Read, Write};
use std::process::ExitCode;
use tidegate_origin::{Options, Origin, Script};

const USAGE: &str = "usage: tidegate-origin [--port N] [--control-port N] [--script FILE]
Serves on 127.0.0.1, prints one line of JSON with its two addresses, and ends when its standard input does.";

fn main() -> ExitCode {
    match options(std::env::args().skip(1)).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("tidegate-origin: {why}");
            ExitCode::from(2)
        }
    }
}

fn options(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options::default();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value\n{USAGE}"));
        match arg.as_str() {
            "--port" => options.port = port(&arg, &value()?)?,
            "--control-port" => options.control_port = port(&arg, &value()?)?,
            "--script" => {
                let file = value()?;
                let text = std::fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
                options.script = Script::parse(&text).map_err(|error| format!("{file}: {error}"))?;
            }
            _ => return Err(format!("{arg}: unknown\n{USAGE}")),
        }
    }
    Ok(options)
}

fn port(arg: &str, value: &str) -> Result<u16, String> {
    value.parse().map_err(|_| format!("{arg} = {value:?}: must be a number from 0 to 65535"))
}

fn run(options: Options) -> Result<(), String> {
    let origin = Origin::start(options).map_err(|error| format!("cannot start: {error}"))?;
    let ready = format!(r#"{{"url":"{}","control":"{}"}}"#, origin.url(), origin.control_url());
    let mut out = io::stdout().lock();
    writeln!(out, "{ready}")
        .and_then(|()| out.flush())
        .map_err(|error| format!("nobody reads my address: {error}"))?;
    // The pipe closes when the parent dies for any reason, so the origin never outlives its test.
    let mut sink = [0; 1024];
    while io::stdin().read(&mut sink).is_ok_and(|n| n > 0) {}
    Ok(())
}
