//! The store in memory against the vectors of the fleet's scripts (`tests/README.md`). The Lua itself reads them in
//! `tests/fleet`.
#![allow(clippy::disallowed_methods, reason = "a test reads its vectors")]

use std::path::PathBuf;

use serde_json::Value as Json;
use tidegate::fleet::{MemoryStore, SCRIPTS};

fn words(json: &Json) -> Vec<Vec<u8>> {
    json.as_array().unwrap().iter().map(|word| word.as_str().unwrap().as_bytes().to_vec()).collect()
}

fn read(kind: &str) -> Json {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/vectors/fleet/{kind}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn the_store_in_memory_does_what_the_model_says() {
    for script in SCRIPTS {
        let file = read(script.name);
        let mut steps = 0;
        for case in file["cases"].as_array().unwrap() {
            let mut store = MemoryStore::new();
            for (place, step) in case["steps"].as_array().unwrap().iter().enumerate() {
                let here = format!("{}: {}, step {place}: {step}", script.name, case["name"]);
                let now = step["at"].as_u64().unwrap();
                if step.get("do").is_some() {
                    assert!(store.execute(&words(&step["do"]), now).is_ok(), "{here}");
                } else {
                    let keys = words(&case["keys"]);
                    assert_eq!(keys.len(), script.keys.len(), "{here}");
                    let count = keys.len().to_string().into_bytes();
                    let mut command = vec![b"EVAL".to_vec(), script.source.into(), count];
                    command.extend([keys, words(&step["args"])].concat());
                    match store.execute(&command, now) {
                        Ok(reply) => {
                            assert_eq!(step["reply"].as_str(), str::from_utf8(&reply).ok(), "{here}");
                        }
                        Err(error) => {
                            let first = error.split(' ').next();
                            assert_eq!(step["error"].as_str(), first, "{here}: {error}");
                        }
                    }
                }
                let state: Vec<_> = store.describe(now).into_iter().map(Json::from).collect();
                assert_eq!(Json::from(state), step["state"], "{here}");
                steps += 1;
            }
        }
        assert!(steps > 100, "{} has {steps}", script.name);
    }
}

/// What stands in a document may be anything, and so may what a wrong host sends.
#[test]
fn no_command_makes_the_store_panic() {
    let words =
        ["", "0", "-1", "4503599627370496", "4503599627370497", "18446744073709551616", "x", "2", "k"];
    let mut store = MemoryStore::new();
    let mut state = 1_u64;
    let mut draw = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let (mut answered, mut refused) = (0, 0);
    for _ in 0..200_000 {
        let names = ["EVAL", "EVALSHA", "SET", "GET", "DEL", "INCRBY", "PEXPIRE", "PTTL", "HSET", "ZADD", ""];
        let mut command = vec![names[draw(names.len())].as_bytes().to_vec()];
        if command[0].starts_with(b"EVAL") {
            let script = SCRIPTS[draw(4)];
            let source = if command[0] == b"EVAL" { script.source } else { script.sha };
            let keys =
                if script.keys.len() == 3 { ["3", "k", "q", "w"].as_slice() } else { &["2", "k", "q"] };
            command.extend([&[source], keys].concat().into_iter().map(|word| word.as_bytes().to_vec()));
        }
        command.extend((0..draw(12)).map(|_| words[draw(words.len())].as_bytes().to_vec()));
        let now = [0, 1, 1_800_000_000_000_000, 1 << 52, u64::MAX][draw(5)];
        match store.execute(&command, now) {
            Ok(_) => answered += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(answered > 5_000 && refused > 5_000, "{answered} answered, {refused} refused");
}
