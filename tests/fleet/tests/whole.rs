//! A decision is atomic: whatever the server refuses within a script, no part of the script takes effect.

use tidegate::fleet::{BREAKER, COOLDOWN, DIGEST, LIMITS, RATE, SLOTS, Script};
use tidegate_fleet_tests::{Connection, Server, Word, words};

/// Runs a script on its first and second key. Each word of `args` is an argument; if it contains bars, each part
/// between them is.
fn ask(connection: &mut Connection, script: Script, args: &str) -> Word {
    let mut command = vec![b"EVAL".to_vec(), script.source.into(), script.keys.len().to_string().into()];
    command.extend(script.keys.iter().map(|end| key(script, end)));
    if args.contains('|') {
        command.extend(args.split('|').map(|part| part.as_bytes().to_vec()));
    } else {
        command.extend(words(args));
    }
    connection.run(&command).unwrap()
}

fn key(script: Script, end: &str) -> Vec<u8> {
    format!("t:{{{}}}{end}", script.name).into_bytes()
}

/// All stored data, without the times to live.
fn stored(connection: &mut Connection) -> Vec<String> {
    let Word::List(keys) = connection.ok("KEYS *") else { panic!("a list") };
    let mut found: Vec<String> = keys
        .iter()
        .map(|key| {
            let name = key.text();
            let read = match connection.ok(&format!("TYPE {name}")).text().as_str() {
                "hash" => format!("HGETALL {name}"),
                "zset" => format!("ZRANGE {name} 0 -1 WITHSCORES"),
                _ => format!("GET {name}"),
            };
            format!("{name}: {:?}", connection.ok(&read))
        })
        .collect();
    found.sort();
    found
}

/// For each script that writes: calls that prepare its data, and the call under test.
fn questions() -> Vec<(Script, Vec<&'static str>, &'static str)> {
    vec![
        (RATE, vec!["10 1000000 20 5 1 0|a"], "10 1000000 20 3 1 2|b"),
        (RATE, vec!["10 1000000 20 20 1 0|a"], "10 1000000 20 3 1 0|b"),
        // A vote, and a vote that opens the breaker.
        (BREAKER, vec!["1 a 0 1000000 3 60000000"], "1 b 0 1000000 3 60000000"),
        (BREAKER, vec!["1 a 0 1000000 3 60000000"], "1 b 0 1000000 1 60000000"),
        (SLOTS, vec!["0 a 3 30000000 2 0", "0 c 3 30000000 2 0"], "0 b 3 30000000 5 0"),
        (SLOTS, vec!["0 a 3 30000000 2 0", "0 c 3 30000000 2 0"], "0 b 9 90000000 5 0"),
        (DIGEST, vec!["a 60000000 500000 5 1 7 2"], "b 60000000 500000 5 3 6 1 7 1 8 1"),
        (COOLDOWN, vec!["5000000 1|"], "9000000 2|"),
        (
            LIMITS,
            vec!["aa 1 1|rpm 10 1000000 9 0 1 1 0 0|tpm 10 1000000 900 100 9 9 0 5"],
            "bb 1 2|rpm 10 1000000 9 0 1 1 1 0|tpm 10 1000000 900 100 9 9 0 50",
        ),
    ]
}

/// Checks that a refused script changes nothing: `make` brings the server into the state, `unmake` out of it, and
/// `word` is in the error. Redis checks memory only before a script's first write, and not for a write that needs none,
/// so a script that passes the check runs completely.
fn refused(make: &[&str], unmake: &[&str], word: &str) {
    let server = Server::start(&[]);
    let mut connection = server.connect();
    for (script, before, question) in questions() {
        connection.ok("FLUSHALL");
        for args in before {
            assert!(matches!(ask(&mut connection, script, args), Word::Text(_)), "{}: {args}", script.name);
        }
        let was = stored(&mut connection);
        assert!(!was.is_empty(), "{}", script.name);
        for command in make {
            connection.ok(command);
        }
        let answer = ask(&mut connection, script, question);
        let is = stored(&mut connection);
        for command in unmake {
            connection.ok(command);
        }
        if let (Word::Text(reply), "OOM") = (&answer, word) {
            let all = match script.name {
                "slots" => connection.ok("ZCARD t:{slots}:bh").text(),
                "digest" => "9".into(), // 3 from before, and 6 new
                other => panic!("{other}: {answer:?}"),
            };
            let told = String::from_utf8_lossy(reply).into_owned();
            let place = if script.name == "slots" { 2 } else { 0 };
            assert_eq!(told.split(' ').nth(place), Some(&*all), "{}: all of it, or nothing", script.name);
            continue;
        }
        assert!(
            matches!(&answer, Word::Error(text) if text.contains(word)),
            "{} {question}: {answer:?}",
            script.name
        );
        assert_eq!(is, was, "{} {question}: {answer:?}", script.name);
        assert!(
            matches!(ask(&mut connection, script, question), Word::Text(_)),
            "{} {question}",
            script.name
        );
        assert_ne!(stored(&mut connection), was, "{} {question}: it does write", script.name);
    }
}

#[test]
fn a_full_server_does_nothing_by_halves() {
    refused(
        &["CONFIG SET maxmemory-policy noeviction", "CONFIG SET maxmemory 1"],
        &["CONFIG SET maxmemory 0"],
        "OOM",
    );
}

#[test]
fn a_replica_does_nothing_by_halves() {
    refused(&["REPLICAOF 127.0.0.1 1"], &["REPLICAOF NO ONE"], "READONLY");
}

/// If one of a script's keys has a type of someone else's data, the other key stays unchanged.
#[test]
fn another_type_under_one_key_leaves_the_other_alone() {
    let server = Server::start(&[]);
    let mut connection = server.connect();
    for (script, before, question) in questions() {
        for place in 0..script.keys.len() {
            connection.ok("FLUSHALL");
            for args in &before {
                assert!(matches!(ask(&mut connection, script, args), Word::Text(_)), "{args}");
            }
            let theirs = String::from_utf8(key(script, script.keys[place])).unwrap();
            connection.ok(&format!("DEL {theirs}"));
            connection.ok(&format!("RPUSH {theirs} mine"));
            let dump = |connection: &mut Connection| -> Vec<Word> {
                let others = script.keys.iter().enumerate().filter(|(other, _)| *other != place);
                let names = others.map(|(_, end)| String::from_utf8(key(script, end)).unwrap());
                names.map(|name| connection.run(&words(&format!("DUMP {name}"))).unwrap()).collect()
            };
            let was = dump(&mut connection);
            let answer = ask(&mut connection, script, question);
            assert!(
                matches!(&answer, Word::Error(text) if text.contains("WRONGTYPE")),
                "{}: {answer:?}",
                script.name
            );
            assert_eq!(dump(&mut connection), was, "{}", script.name);
            assert_eq!(
                connection.ok(&format!("LRANGE {theirs} 0 -1")),
                Word::List(vec![Word::Text(b"mine".to_vec())])
            );
        }
    }
}
