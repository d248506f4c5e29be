//! The commands that `docs/fleet.md` lists for a user's ACL are exactly those that the scripts call.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value as Json;
use tidegate::fleet::{PROLOGUE, SCRIPTS};
use tidegate_fleet_tests::{Connection, Server, documented};

/// Replaces the line that reads the server's clock, so that the time of a vector is an argument.
const CLOCK: &str = "local now = tonumber(table.remove(ARGV))\n";

/// The rows of the table, by script.
const ROWS: [(&str, &str); 6] = [
    ("rate", "rate"),
    ("breaker", "breaker"),
    ("slots", "bulkhead"),
    ("digest", "latencies"),
    ("cooldown", "cooldown"),
    ("limits", "sets of limits"),
];

/// Makes a user that may call only these commands, and authenticates this connection as that user.
fn limited(server: &Server, commands: &BTreeSet<String>) -> Connection {
    let allowed: Vec<String> = commands.iter().map(|name| format!("+{name}")).collect();
    let mut admin = server.connect();
    admin.ok(&format!("ACL SETUSER app reset on >secret ~tidegate:* {}", allowed.join(" ")));
    admin.ok("CONFIG RESETSTAT");
    let mut connection = server.connect();
    connection.ok("AUTH app secret");
    connection
}

/// The commands that the server has run since the statistics were reset, without the tests' own.
fn run_since(server: &Server) -> BTreeSet<String> {
    let stats = server.connect().ok("INFO commandstats").text();
    let names = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split(':').next());
    let own = ["auth", "info", "flushall", "config|resetstat", "acl|setuser"];
    names.filter(|name| !own.contains(name)).map(ToString::to_string).collect()
}

fn allowed(answer: Result<Vec<u8>, String>, here: &str) {
    if let Err(error) = answer {
        let refused = ["NOPERM", "can't run", "can't access"].iter().any(|word| error.contains(word));
        assert!(!refused, "{here}: {error}");
    }
}

fn bytes(json: &Json) -> Vec<Vec<u8>> {
    json.as_array().unwrap().iter().map(|word| word.as_str().unwrap().as_bytes().to_vec()).collect()
}

#[test]
fn a_user_with_the_documented_commands_runs_every_script_and_needs_all_of_them() {
    let server = Server::start(&[]);
    if server.version() < (7, 0) {
        println!("Redis 6 and older know no ACL of what scripts call; nothing to see");
        return;
    }
    for script in SCRIPTS {
        let (_, row) = ROWS.into_iter().find(|(name, _)| *name == script.name).unwrap();
        let commands: BTreeSet<String> =
            documented("all with scripts").union(&documented(row)).cloned().collect();
        let mut user = limited(&server, &commands);
        let words = |how: &str, source: &str, keys: &[Vec<u8>], args: &[Vec<u8>]| {
            let head = [how, source, &keys.len().to_string()].map(|word| word.as_bytes().to_vec());
            [&head[..], keys, args].concat()
        };
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let path = path.join(format!("../vectors/fleet/{}.json", script.name));
        let file: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let timed = script.source.replacen(PROLOGUE, CLOCK, 1);
        for case in file["cases"].as_array().unwrap() {
            server.connect().ok("FLUSHALL");
            let keys = bytes(&case["keys"]);
            for step in case["steps"].as_array().unwrap().iter().filter(|step| step.get("args").is_some()) {
                let here = format!("{}: {}: {step}", script.name, case["name"]);
                let (mut args, now) = (bytes(&step["args"]), step["at"].to_string());
                // The script as it is sent, which reads the server's clock.
                let plain = words("EVAL", script.source, &keys, &args);
                allowed(user.run(&plain).unwrap().into_reply(), &here);
                let named = words("EVALSHA", script.sha, &keys, &args);
                allowed(user.run(&named).unwrap().into_reply(), &here);
                args.push(now.into_bytes());
                let at = words("EVAL", &timed, &keys, &args);
                allowed(user.run(&at).unwrap().into_reply(), &here);
            }
        }
        let ran = run_since(&server);
        // A command that all scripts may call need not be called by this one.
        let spare: BTreeSet<String> = documented("all with scripts");
        let (more, fewer) = (ran.difference(&commands), commands.difference(&ran));
        assert_eq!(more.collect::<Vec<_>>(), Vec::<&String>::new(), "{} calls more", script.name);
        let fewer: Vec<_> = fewer.filter(|name| !spare.contains(*name)).collect();
        assert_eq!(fewer, Vec::<&String>::new(), "{} does not call these", script.name);
    }
}
