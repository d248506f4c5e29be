//! A Redis for the tests of the fleet: the program. Tests start servers of their own with it, on free ports.

use crate::cargo;
use crate::report::{Counts, Report, Verdict};
use crate::run::{Cmd, Error, Result};
use crate::setup::Shop;
use std::path::PathBuf;
use std::{env, process};

/// Names the program; tests take `redis-server` of the path where it is not set.
pub const PROGRAM: &str = "TIDEGATE_REDIS_SERVER";
/// Set where there has to be a server: a test that needs one then fails without it, where it would be skipped otherwise.
const REQUIRED: &str = "TIDEGATE_REDIS_REQUIRED";
/// How the summary calls all that needs one.
pub const FLEET: &str = "Fleet";
/// What Debian and its descendants call it.
const PACKAGE: &str = "redis-server";

/// All steps.
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

/// May this process make network namespaces, lay a cable into one, and drop what would go through it?
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

/// A command of tests that start servers of their own: with the program, installed here if need be. Without one they are skipped
/// and counted so, but not where it should have been there.
pub fn with_server(shop: &Shop, command: Cmd) -> Cmd {
    let command = match program(shop) {
        Ok(program) => command.env(PROGRAM, program),
        Err(_) => command,
    };
    if required(shop) { command.env(REQUIRED, "1") } else { command }
}

/// Does there have to be one? Where one may be installed, as in CI.
fn required(shop: &Shop) -> bool {
    shop.install && answers(&PathBuf::from("apt-get")).is_ok()
}

/// The server's program: as named, on the path, or installed by apt.
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
    // Without the right to install this fails and says so. Nothing is started: the tests start their own.
    let install = ["install", "--yes", "--quiet", "--no-install-recommends", PACKAGE];
    Cmd::new("apt-get").args(["update", "--quiet"]).quiet()?;
    Cmd::new("apt-get").args(install).env("DEBIAN_FRONTEND", "noninteractive").quiet()?;
    on_path().ok_or_else(missing)
}

fn answers(program: &PathBuf) -> Result {
    Cmd::new(program).arg("--version").capture()?.ok().map(drop)
}
