//! The scripts on a cluster of three nodes: each decision in one slot, scripts that a node has lost, keys that expire.

use tidegate::fleet::{SCRIPTS, Script};
use tidegate_fleet_tests::{Cluster, Connection, Server, slot};

const PID: &str = "00000000000000aa";

/// Arguments with which the script does its normal work.
fn arguments(script: Script) -> Vec<&'static str> {
    match script.name {
        "rate" => vec!["10 1000000 20 5 1 0", PID],
        "breaker" => vec!["1", PID, "0", "1000000", "2", "500000"],
        "slots" => vec!["0", PID, "9", "30000000", "2", "0"],
        "cooldown" => vec!["5000000 1"],
        "limits" => {
            vec!["00000000000000aa 1 0", "rpm 10 1000000 20 0 5 1 0 0", "tpm 10 1000000 90 9 9 9 0 1"]
        }
        _ => vec![PID, "10000000", "900000", "-7", "3", "12", "1"],
    }
}

fn command(how: &str, script: Script, keys: &[String]) -> Vec<Vec<u8>> {
    let source = if how == "EVAL" { script.source } else { script.sha };
    let count = keys.len().to_string();
    let words = [how, source, &count].into_iter().chain(keys.iter().map(String::as_str));
    words.chain(arguments(script)).map(|word| word.as_bytes().to_vec()).collect()
}

fn keys(script: Script, entity: usize) -> Vec<String> {
    script.keys.iter().map(|end| format!("tidegate:{{r|api|tenant {entity}}}{end}")).collect()
}

fn run(node: &mut Connection, words: &[Vec<u8>]) -> Result<String, String> {
    node.run(words).unwrap().into_reply().map(|bytes| String::from_utf8(bytes).unwrap())
}

fn fails(answer: Result<String, String>, with: &str) {
    let error = answer.expect_err(with);
    assert!(error.starts_with(with), "{error}");
}

#[test]
fn a_slot_is_what_the_server_says() {
    let server = Server::start(&["--cluster-enabled", "yes"]);
    let mut connection = server.connect();
    for key in
        ["", "a", "123456789", "{a}b", "x{a}b{c}", "{}a", "a{b", "a}b{", "{{a}}", "tidegate:{r|api|-}:rl"]
    {
        let ask = [b"CLUSTER".to_vec(), b"KEYSLOT".to_vec(), key.into()];
        assert_eq!(connection.run(&ask).unwrap().text(), slot(key.as_bytes()).to_string(), "{key}");
    }
}

#[test]
fn every_decision_is_in_one_slot_and_a_node_that_lost_the_scripts_is_sent_them_again() {
    let cluster = Cluster::start();
    let mut nodes: Vec<Connection> = cluster.nodes.iter().map(Server::connect).collect();
    let mut used = [0; 3];
    for (place, script) in SCRIPTS.into_iter().enumerate() {
        for entity in 0..40 {
            let keys = keys(script, entity);
            let home = slot(keys[0].as_bytes());
            assert!(keys.iter().all(|key| slot(key.as_bytes()) == home), "{keys:?}");
            let home = cluster.node_of(keys[0].as_bytes());
            let (by_name, by_source) = (command("EVALSHA", script, &keys), command("EVAL", script, &keys));
            if used[home] & (1 << place) == 0 {
                used[home] |= 1 << place;
                fails(run(&mut nodes[home], &by_name), "NOSCRIPT");
            }
            assert!(run(&mut nodes[home], &by_source).is_ok());
            assert!(run(&mut nodes[home], &by_name).is_ok());
            fails(run(&mut nodes[(home + 1) % 3], &by_source), "MOVED");
        }
        // Two entities are in two slots: the server itself would refuse a script that uses both.
        let two = [keys(script, 0)[0].clone(), keys(script, 1).last().unwrap().clone()];
        fails(
            run(&mut nodes[cluster.node_of(two[0].as_bytes())], &command("EVAL", script, &two)),
            "CROSSSLOT",
        );
    }
    assert!(used.iter().all(|scripts| *scripts == 0b11_1111), "every node has had work");

    nodes[1].ok("SCRIPT FLUSH");
    let (mut lost, mut kept) = (0, 0);
    for script in SCRIPTS {
        for entity in 0..40 {
            let keys = keys(script, entity);
            let home = cluster.node_of(keys[0].as_bytes());
            let by_name = run(&mut nodes[home], &command("EVALSHA", script, &keys));
            if home == 1 {
                fails(by_name, "NOSCRIPT");
                lost += 1;
            } else {
                assert!(by_name.is_ok(), "the other nodes still have them");
                kept += 1;
            }
        }
        let keys = (0..40)
            .map(|entity| keys(script, entity))
            .find(|it| cluster.node_of(it[0].as_bytes()) == 1)
            .unwrap();
        assert!(run(&mut nodes[1], &command("EVAL", script, &keys)).is_ok());
        assert!(run(&mut nodes[1], &command("EVALSHA", script, &keys)).is_ok(), "one EVAL is enough");
    }
    assert!(lost > 20 && kept > 40, "{lost} lost, {kept} kept");
    let mut found = 0;
    for node in &mut nodes {
        found += no_key_stays(node);
    }
    assert!(found > 200, "{found} keys");
}

/// Checks that every key of a server expires, within 71 s. Returns the number of keys.
fn no_key_stays(node: &mut Connection) -> usize {
    let tidegate_fleet_tests::Word::List(keys) = node.ok("KEYS *") else { panic!("a list") };
    for key in &keys {
        let ask = [b"PTTL".to_vec(), key.text().into_bytes()];
        let left: i64 = node.run(&ask).unwrap().text().parse().unwrap();
        assert!((1..=71_000).contains(&left), "{} lives {left} ms", key.text());
    }
    keys.len()
}

/// On the server's own clock, and repeatedly: everything that a script writes expires.
#[test]
fn keys_end_by_themselves() {
    let server = Server::start(&[]);
    let mut connection = server.connect();
    for (script, args) in [
        // The bucket is full again after 10 ms, and the key expires a second later. The processes' keys last ten
        // seconds.
        (SCRIPTS[0], ["100 1000000 5 1 1 0", PID].as_slice()),
        // A closing of 1 ms.
        (SCRIPTS[4], &["1000 1"]),
        // Full again after 10 ms; the number of the charge stays for ten minutes, so there is none.
        (SCRIPTS[5], &["00aa 1 0", "tpm 100 1000000 50 9 1 1 0 0"]),
        // A lease of 1 ms.
        (SCRIPTS[2], &["0", PID, "9", "1000", "12", "0"]),
        // Two slices of 1 ms.
        (SCRIPTS[3], &[PID, "1000", "900000", "-7", "3"]),
    ] {
        let mut words = command("EVAL", script, &keys(script, 1));
        words.truncate(3 + script.keys.len());
        words.extend(args.iter().map(|word| word.as_bytes().to_vec()));
        assert!(run(&mut connection, &words).is_ok());
        assert!(no_key_stays(&mut connection) > 0);
    }
    let until = std::time::Instant::now() + std::time::Duration::from_secs(8);
    loop {
        let left = connection.ok("KEYS *");
        let tidegate_fleet_tests::Word::List(left) = left else { panic!("a list") };
        if left.iter().all(|key| key.text().ends_with(":p")) {
            break;
        }
        assert!(std::time::Instant::now() < until, "still there: {left:?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
