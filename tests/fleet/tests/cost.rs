//! What a command of each script costs the server, by its own CPU time: `docs/fleet.md` has the figures.

use tidegate::fleet::{COOLDOWN, LIMITS, RATE, Script};
use tidegate_fleet_tests::{Connection, Server};

const ROUNDS: usize = 5;
const COMMANDS: usize = 20_000;

/// Seconds of CPU that the server has used.
fn used(connection: &mut Connection) -> f64 {
    let info = connection.ok("INFO cpu").text();
    let field = |name: &str| -> f64 {
        let line = info.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.parse().unwrap()
    };
    field("used_cpu_user:") + field("used_cpu_sys:")
}

fn command(script: Script, args: &[&str]) -> Vec<Vec<u8>> {
    let keys = script.keys.iter().map(|end| format!("t:{{r|api|eu}}{end}"));
    let head = ["EVALSHA", script.sha, &script.keys.len().to_string()].map(str::to_string);
    let words = head.into_iter().chain(keys).chain(args.iter().map(ToString::to_string));
    words.map(String::into_bytes).collect()
}

/// Specification 10.14.12, and 10.2: what runs in the server for each command.
#[test]
fn a_command_of_a_set_runs_as_many_commands_in_the_server_as_the_specification_says() {
    let server = Server::start(&[]);
    let mut connection = server.connect();
    let load = [b"SCRIPT".to_vec(), b"LOAD".to_vec(), LIMITS.source.as_bytes().to_vec()];
    connection.run(&load).unwrap();
    let granted = ["aa 0 0", "rpm 10 1000000 10 0 1 1 0 0", "tpm 10 1000000 100 100 50 50 0 0"];
    let refused = ["aa 0 0", "rpm 10 1000000 10 0 1 1 0 0", "tpm 10 1000000 100 100 90 90 0 0"];
    let charged = ["aa 0 7", "rpm 10 1000000 10 0 0 0 0 0", "tpm 10 1000000 100 100 0 0 0 5"];
    let reads = ["evalsha", "time", "hmget", "zcard"];
    for (args, more) in
        [(granted, &["hset", "pexpire"][..]), (refused, &[]), (charged, &["hset", "pexpire", "get", "set"])]
    {
        let mut expected = [&reads[..], more].concat();
        expected.sort_unstable();
        assert_eq!(ran(&mut connection, &command(LIMITS, &args)), expected, "{args:?}");
    }
}

/// R14: a strict rate takes four commands, and a refusal writes nothing. The process is recorded once a second, by a second
/// argument.
#[test]
fn a_strict_rate_runs_four_commands_in_the_server_and_a_refusal_three() {
    let server = Server::start(&[]);
    let mut connection = server.connect();
    let load = [b"SCRIPT".to_vec(), b"LOAD".to_vec(), RATE.source.as_bytes().to_vec()];
    connection.run(&load).unwrap();
    let one = command(RATE, &["1 1000000000 3 1 1 0"]);
    let new = ran(&mut connection, &one);
    assert_eq!(
        new,
        ["evalsha", "get", "set", "time", "zcard"],
        "a new bucket asks how many processes there are"
    );
    assert_eq!(ran(&mut connection, &one), ["evalsha", "get", "set", "time"]);
    assert_eq!(ran(&mut connection, &one), ["evalsha", "get", "set", "time"]);
    assert_eq!(ran(&mut connection, &one), ["evalsha", "get", "time"], "the burst of three is spent");
}

/// The names of the commands that run in the server for one command, in the order of the alphabet.
fn ran(connection: &mut Connection, command: &[Vec<u8>]) -> Vec<String> {
    connection.ok("CONFIG RESETSTAT");
    assert!(connection.run(command).unwrap().into_reply().is_ok());
    let stats = connection.ok("INFO commandstats").text();
    let lines = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="));
    let mut ran = Vec::new();
    for (name, rest) in lines.filter(|(name, _)| !name.starts_with("config") && *name != "info") {
        assert_eq!(rest.split(',').next(), Some("1"), "{name} runs once");
        ran.push(name.to_owned());
    }
    ran.sort_unstable();
    ran
}

/// Prints µs of CPU per command, the median of rounds that alternate between the commands.
#[test]
#[ignore = "a measurement: run it alone, with --release and --nocapture"]
fn what_a_command_costs_the_server() {
    let server = Server::start(&[]);
    let mut connection = server.connect();
    for script in [RATE, LIMITS, COOLDOWN] {
        let load = [b"SCRIPT".to_vec(), b"LOAD".to_vec(), script.source.as_bytes().to_vec()];
        connection.run(&load).unwrap();
    }
    let (rpm, tpm) =
        ("rpm 1000000 1000000 1000000 0 1 1 0 0", "tpm 900000000 1000000 900000000 9000 1800 1800 0 0");
    let charged = "tpm 900000000 1000000 900000000 9000 1800 1800 0 7";
    let commands = [
        ("a single rate, granted", command(RATE, &["1000000 1000000 1000000 1 1 0"])),
        ("a set of one limit, granted", command(LIMITS, &["aa 0 0", rpm])),
        ("a set of two limits, granted", command(LIMITS, &["aa 0 0", rpm, tpm])),
        (
            "a set of two limits, with a charge that has counted",
            command(LIMITS, &["aa 0 4503599627370000", rpm, charged]),
        ),
        ("a set of two limits, refused", command(LIMITS, &["aa 0 0", rpm, "few 1 1000000 1 0 1 1 0 0"])),
        (
            "a set of four limits, granted",
            command(LIMITS, &["aa 0 0", rpm, tpm, &rpm.replace("rpm", "b"), &tpm.replace("tpm", "c")]),
        ),
        ("a cooldown, read", command(COOLDOWN, &["0 0"])),
    ];
    let mut found = vec![Vec::new(); commands.len()];
    for _ in 0..ROUNDS {
        for (place, (_, words)) in commands.iter().enumerate() {
            let before = used(&mut connection);
            for _ in 0..COMMANDS / 1_000 {
                assert_eq!(connection.pipeline(&vec![words.clone(); 1_000]).unwrap().len(), 1_000);
            }
            found[place].push((used(&mut connection) - before) * 1e6 / COMMANDS as f64);
        }
    }
    for ((name, _), mut costs) in commands.into_iter().zip(found) {
        costs.sort_by(f64::total_cmp);
        println!(
            "{name}: {:.1} µs (of {ROUNDS}: {:.1} to {:.1})",
            costs[ROUNDS / 2],
            costs[0],
            costs[ROUNDS - 1]
        );
    }
}
