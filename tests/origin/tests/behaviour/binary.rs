//! The process: it prints one line of JSON, and ends with its parent.

use crate::client::{Client, eventually};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

fn started(args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tidegate-origin"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs")
}

#[test]
fn it_prints_its_addresses_serves_its_script_and_ends_with_its_input() {
    let file = std::env::temp_dir().join(format!("tidegate-origin-{}.json", std::process::id()));
    std::fs::write(&file, r#"{"default": {"status": 207}}"#).expect("a temporary file");
    let mut child = started(&["--port", "0", "--script", file.to_str().expect("a text path")]);
    let mut out = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("one line");
    let ready: Value = serde_json::from_str(&line).expect("JSON");
    let address = |key: &str| {
        let url = ready[key].as_str().expect("a URL");
        url.strip_prefix("http://127.0.0.1:")
            .expect("on loopback")
            .parse()
            .map(|port: u16| ([127, 0, 0, 1], port))
    };
    let data = address("url").expect("a port").into();
    let control = address("control").expect("a port").into();
    for (address, path, status) in [(data, "/", 207), (control, "/stats", 200)] {
        let mut client = Client::connect(address).expect("it listens");
        client.send("GET", path, "", b"");
        assert_eq!(client.reply().expect("an answer").status, status);
    }
    drop(child.stdin.take());
    eventually("it ends by itself", || child.try_wait().expect("our child").is_some());
    assert!(child.wait().expect("our child").success());
    let mut more = String::new();
    out.read_to_string(&mut more).expect("the rest");
    assert_eq!(more, "", "exactly one line");
    std::fs::remove_file(&file).expect("our file");
}

#[test]
fn a_wrong_argument_or_script_is_told() {
    for (args, message) in [
        (["--port", "x"], "--port = \"x\": must be a number from 0 to 65535"),
        (["--prot", "1"], "--prot: unknown"),
        (["--script", "/nowhere.json"], "/nowhere.json: "),
    ] {
        let out = started(&args).wait_with_output().expect("our child");
        let error = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2));
        assert!(error.contains(message) && out.stdout.is_empty(), "{error}");
    }
}
