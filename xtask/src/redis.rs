//! Finds the Redis server for the tests of the fleet. The tests start their own servers with it, on free ports.

use crate::cargo;
use crate::report::{Counts, Report, Verdict};
use crate::run::{Cmd, Error, Result};
use crate::setup::Shop;
use std::path::PathBuf;
use std::{env, process};

/// Environment variable with the program's path; without it tests use `redis-server` from the path.
pub const PROGRAM: &str = "TIDEGATE_REDIS_SERVER";
/// Set if a server must be available: a test that needs one then fails without it instead of being skipped.
const REQUIRED: &str = "TIDEGATE_REDIS_REQUIRED";
/// The name in the summary of all steps that need a server.
pub const FLEET: &str = "Fleet";
/// The package's name on Debian and its descendants.
const PACKAGE: &str = "redis-server";

/// Runs all steps.
pub fn steps(shop: &Shop, report: &mut Report) {
    let mut found = None;
    report.make(FLEET, "a Redis server", &["fleet: "], || match program(shop) {
        Ok(program) => {
            found = Some(program);
            Verdict::Passed(Counts::default())
        }
        Err(why) if required(shop) => Verdict::Failed(Counts::default(), why.0),
        Err(why) => Verdict::NotRun(why.0),
    });
    report.step(FLEET, "scripts, a cluster and faults", || match &found {
        Some(program) => {
            let tests = cargo(shop).args(["test", "--no-fail-fast", "-p", "tidegate-fleet-tests"]);
            Verdict::tests(tests.env(PROGRAM, program).stream(), Counts::from_cargo)
        }
        None => Verdict::NotRun("there is no Redis server".into()),
    });
    report.step(FLEET, "a partition between network namespaces", || match (&found, namespaces()) {
        (None, _) => Verdict::NotRun("there is no Redis server".into()),
        (Some(_), Err(Error(why))) => Verdict::NotRun(why),
        (Some(program), Ok(())) => {
            let partition = ["-p", "tidegate-fleet-tests", "--test", "partition", "--", "--ignored"];
            let tests = cargo(shop).args(["test", "--no-fail-fast"]).args(partition);
            Verdict::tests(tests.env(PROGRAM, program).stream(), Counts::from_cargo)
        }
    });
}

/// Checks that this process may make network namespaces, connect two of them, and drop packets between them.
fn namespaces() -> Result {
    let name = format!("tidegate-look-{}", process::id());
    let ip = |words: &[&str]| Cmd::new("ip").args(words).capture()?.ok().map(drop);
    let refused = |Error(why)| Error(format!("this needs network namespaces (Linux, iproute2, root): {why}"));
    ip(&["netns", "add", &name]).map_err(refused)?;
    let looked = ip(&["-n", &name, "link", "add", "name", "tide0", "type", "veth", "peer", "name", "tide1"])
        .and_then(|()| ip(&["-n", &name, "route", "add", "blackhole", "10.77.2.2/32"]))
        .and_then(|()| ip(&["netns", "exec", &name, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]));
    ip(&["netns", "del", &name])?;
    looked.map_err(refused)
}

/// Adds the server's program to a command of tests that start servers; installs it if need be. Without a program the
/// tests are counted as skipped, or fail where a server is required.
pub fn with_server(shop: &Shop, command: Cmd) -> Cmd {
    let command = match program(shop) {
        Ok(program) => command.env(PROGRAM, program),
        Err(_) => command,
    };
    if required(shop) { command.env(REQUIRED, "1") } else { command }
}

/// Whether a server is required: where one may be installed, as in CI.
fn required(shop: &Shop) -> bool {
    shop.install && answers(&PathBuf::from("apt-get")).is_ok()
}

/// The server's program: as named by the variable, from the path, or installed by apt.
pub fn program(shop: &Shop) -> Result<PathBuf> {
    if let Some(named) = env::var_os(PROGRAM) {
        let named = PathBuf::from(named);
        return answers(&named).map(|()| named).map_err(|Error(why)| Error(format!("{PROGRAM}: {why}")));
    }
    let known = ["redis-server", "valkey-server"].map(PathBuf::from);
    let on_path = || known.iter().find(|program| answers(program).is_ok()).cloned();
    if let Some(program) = on_path() {
        return Ok(program);
    }
    let missing = || {
        Error(format!("neither redis-server nor valkey-server is on this machine; {PROGRAM} may name one"))
    };
    if !required(shop) {
        return Err(missing());
    }
    // Fails with a message if the process may not install packages. No server is started: the tests start their own.
    let install = ["install", "--yes", "--quiet", "--no-install-recommends", PACKAGE];
    Cmd::new("apt-get").args(["update", "--quiet"]).quiet()?;
    Cmd::new("apt-get").args(install).env("DEBIAN_FRONTEND", "noninteractive").quiet()?;
    on_path().ok_or_else(missing)
}

fn answers(program: &PathBuf) -> Result {
    Cmd::new(program).arg("--version").capture()?.ok().map(drop)
}
