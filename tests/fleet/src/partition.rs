//! A private network that can be partitioned: three Linux network namespaces in a row for the workers, a router and the
//! store.
//!
//! It does not touch the machine's own network: both cables connect namespaces, and the router's drop rules apply to
//! these alone. Namespaces are named after the process that made them; the next process removes those of a process that
//! was killed.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = "tidegate-fleet-";
/// The addresses of the store and of the workers.
const STORE: &str = "10.77.2.2";
const WORKERS: &str = "10.77.1.2";

/// A partition: packets that the network does not carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wall {
    /// Packets to the store are dropped silently.
    ToStore,
    /// Packets from the store are dropped silently: the store still carries out the commands that it gets.
    FromStore,
    /// The cable is pulled: packets are lost both ways, and the router reports the destination as unreachable.
    Cable,
}

/// The namespaces, removed when this value is dropped.
#[derive(Debug)]
pub struct Network {
    workers: String,
    router: String,
    store: String,
}

impl Network {
    /// Makes the network.
    ///
    /// # Panics
    /// Without permission to make namespaces: `cargo xtask test` checks that before it runs such a test.
    pub fn lay() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        remove_leftovers();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |part: &str| format!("{PREFIX}{}-{number}-{part}", process::id());
        let it = Self { workers: name("workers"), router: name("router"), store: name("store") };
        for name in it.names() {
            ip(&["netns", "add", name]);
        }
        for (name, at, gate, cable) in
            [(&it.workers, WORKERS, "10.77.1.1", "workers"), (&it.store, STORE, "10.77.2.1", "store")]
        {
            let router = ["-n", &it.router];
            let ends = ["link", "add", cable, "type", "veth", "peer", "name", "way", "netns", name];
            ip(&[&router[..], &ends].concat());
            ip(&[&router[..], &["addr", "add", &format!("{gate}/24"), "dev", cable]].concat());
            ip(&[&router[..], &["link", "set", "dev", cable, "up"]].concat());
            ip(&["-n", name, "addr", "add", &format!("{at}/24"), "dev", "way"]);
            ip(&["-n", name, "link", "set", "dev", "way", "up"]);
            ip(&["-n", name, "route", "add", "default", "via", gate]);
        }
        let forward = "echo 1 > /proc/sys/net/ipv4/ip_forward";
        ip(&["netns", "exec", &it.router, "sh", "-c", forward]);
        it
    }

    /// The command prefix that starts a program in the workers' namespace.
    pub fn among_workers(&self) -> Vec<String> {
        inside(&self.workers)
    }

    /// The command prefix that starts a program in the store's namespace.
    pub fn at_store(&self) -> Vec<String> {
        inside(&self.store)
    }

    /// The address at which the store has to listen.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(STORE.parse().expect("an address"), 6_379)
    }

    /// Begins a partition.
    pub fn raise(&self, wall: Wall) {
        self.set(wall, true);
    }

    /// Ends it.
    pub fn lower(&self, wall: Wall) {
        self.set(wall, false);
    }

    fn set(&self, wall: Wall, up: bool) {
        let verb = if up { "add" } else { "del" };
        let blackhole = |to: &str| ip(&["-n", &self.router, "route", verb, "blackhole", &format!("{to}/32")]);
        match wall {
            Wall::ToStore => blackhole(STORE),
            Wall::FromStore => blackhole(WORKERS),
            Wall::Cable => {
                let to = if up { "down" } else { "up" };
                ip(&["-n", &self.router, "link", "set", "dev", "store", to]);
            }
        }
    }

    fn names(&self) -> [&String; 3] {
        [&self.workers, &self.router, &self.store]
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.names().into_iter().for_each(|name| remove(name));
    }
}

fn inside(name: &str) -> Vec<String> {
    ["ip", "netns", "exec", name].map(str::to_owned).to_vec()
}

fn ip(words: &[&str]) {
    let output = Command::new("ip").args(words).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("ip: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {}: {}: {}", words.join(" "), output.status, said.trim());
}

/// The output of a command; empty if the command fails.
fn told(words: &[&str]) -> String {
    let output = Command::new("ip").args(words).stdin(Stdio::null()).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

/// Ends the processes in one of our namespaces and removes it. Ignores errors, because it runs while tests fail.
fn remove(name: &str) {
    let mut processes = String::new();
    for id in told(&["netns", "pids", name]).split_whitespace().filter(|id| id.parse::<u32>().is_ok()) {
        let _ = write!(processes, "{id} ");
    }
    if !processes.is_empty() {
        drop(Command::new("kill").arg("-9").args(processes.split_whitespace()).status());
    }
    drop(Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status());
}

/// Removes namespaces whose processes no longer exist.
fn remove_leftovers() {
    for line in told(&["netns", "list"]).lines() {
        let Some(name) = line.split_whitespace().next().filter(|name| name.starts_with(PREFIX)) else {
            continue;
        };
        let maker = name[PREFIX.len()..].split('-').next().unwrap_or_default();
        if maker.parse::<u32>().is_ok() && !Path::new("/proc").join(maker).exists() {
            remove(name);
        }
    }
}
