//! Private servers: on a free port of this machine, with their own folder, ended when their handles are dropped.

use crate::resp::{Connection, Word};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

/// The longest time for a server to answer its first command, or for a cluster to agree.
const START: Duration = Duration::from_secs(20);
/// Environment variable with the program's path; `cargo xtask test` sets it.
const PROGRAM: &str = "TIDEGATE_REDIS_SERVER";

/// A `redis-server` or `valkey-server`.
#[derive(Debug)]
pub struct Server {
    child: Option<Child>,
    address: SocketAddr,
    folder: PathBuf,
    options: Vec<String>,
    /// The command prefix if the server runs in another namespace than the test; the test then connects by a socket
    /// file.
    inside: Vec<String>,
}

impl Server {
    /// Starts a server that stores nothing on disk. Further options are placed before the port.
    pub fn start(options: &[&str]) -> Self {
        Self::begin(options, free_port(), Vec::new())
    }

    /// Starts a server in another namespace with this command prefix. The test itself talks to it by a socket file, so
    /// it works whatever the state of that network.
    pub fn start_inside(inside: Vec<String>, address: SocketAddr) -> Self {
        Self::begin(&["--protected-mode", "no"], address, inside)
    }

    fn begin(options: &[&str], address: SocketAddr, inside: Vec<String>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("tidegate-redis-{}-{number}", process::id()));
        fs::create_dir_all(&folder).expect("a folder of its own");
        let options = options.iter().map(ToString::to_string).collect();
        let mut server = Self { child: None, address, folder, options, inside };
        server.start_again();
        server
    }

    /// Starts the server at the same address, empty, after [`kill`](Self::kill).
    pub fn start_again(&mut self) {
        assert!(self.child.is_none(), "it runs");
        let program = env::var_os(PROGRAM).unwrap_or_else(|| "redis-server".into());
        let mut command = match self.inside.split_first() {
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(&program).arg("--unixsocket").arg(self.door());
                command
            }
            None => Command::new(&program),
        };
        command.args(&self.options).args(["--save", "", "--appendonly", "no", "--bind"]);
        command.arg(self.address.ip().to_string());
        command.args(["--port", &self.address.port().to_string(), "--dir"]);
        // A server's Lua sorts texts as its locale does; the tests compare what was sorted.
        command.env("LC_ALL", "C");
        command.arg(&self.folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn();
        let child = child.unwrap_or_else(|error| {
            panic!(
                "{}: {error}; install it (apt-get install redis-server), or name it in {PROGRAM}",
                program.display()
            )
        });
        self.child = Some(child);
        let until = Instant::now() + START;
        loop {
            let answer = self.reach().and_then(|mut it| it.run(&[b"PING".to_vec()]));
            match answer {
                Ok(Word::Text(_)) => return,
                _ if self.has_ended() => panic!("{} has ended: does it know its options?", program.display()),
                _ if Instant::now() > until => panic!("no answer from {}: {answer:?}", self.address),
                _ => thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// The address at which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A new connection.
    pub fn connect(&self) -> Connection {
        self.reach().unwrap_or_else(|error| panic!("{}: {error}", self.address))
    }

    fn reach(&self) -> std::io::Result<Connection> {
        if self.inside.is_empty() {
            Connection::open(self.address)
        } else {
            Connection::open_file(&self.door())
        }
    }

    fn door(&self) -> PathBuf {
        self.folder.join("door")
    }

    /// Number of scripts run since the server started.
    pub fn scripts_run(&self) -> u64 {
        let stats = self.connect().ok("INFO commandstats").text();
        let calls = |name: &str| -> u64 {
            let line = stats.lines().find_map(|line| line.strip_prefix(name));
            let count = line.and_then(|line| line.split(['=', ',']).nth(1));
            count.map_or(0, |count| count.parse().expect("a count"))
        };
        calls("cmdstat_evalsha:") + calls("cmdstat_eval:")
    }

    /// Keys with our prefix that never expire.
    pub fn keys_without_end(&self) -> Vec<String> {
        let mut connection = self.connect();
        let Word::List(keys) = connection.ok("KEYS tidegate:*") else { panic!("a list") };
        assert!(!keys.is_empty(), "no keys at all");
        let stays =
            |key: &String| connection.run(&crate::words(&format!("PTTL {key}"))).unwrap().text() == "-1";
        keys.iter().map(Word::text).filter(stays).collect()
    }

    /// `kill -9`: all data is lost.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }

    /// `SIGSTOP`: connections stay open, and nothing answers.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// `SIGCONT`: commands sent meanwhile are answered.
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    /// Major and minor version.
    pub fn version(&self) -> (u32, u32) {
        let info = self.connect().ok("INFO server").text();
        let line = info.lines().find_map(|line| line.strip_prefix("redis_version:")).expect("a version");
        let mut parts = line.split('.').map(|part| part.trim().parse().expect("a number"));
        (parts.next().expect("major"), parts.next().expect("minor"))
    }

    fn has_ended(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(Some(_))))
    }

    fn signal(&self, signal: &str) {
        let id = self.child.as_ref().expect("it runs").id().to_string();
        // In a Turkish locale procps' `kill` does not know CONT.
        let status = Command::new("kill").args([signal, &id]).env("LC_ALL", "C").status().expect("kill");
        assert!(status.success(), "kill {signal} {id}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Three nodes that share the slots.
#[derive(Debug)]
pub struct Cluster {
    /// The nodes, in the order of their slots.
    pub nodes: Vec<Server>,
}

impl Cluster {
    /// Starts three nodes, and waits until they agree on the cluster's state.
    pub fn start() -> Self {
        let options = [
            "--cluster-enabled",
            "yes",
            "--cluster-config-file",
            "nodes.conf",
            "--cluster-node-timeout",
            "5000",
        ];
        let nodes: Vec<Server> = (0..3).map(|_| Server::start(&options)).collect();
        for (place, node) in nodes.iter().enumerate() {
            let mut it = node.connect();
            let (first, last) = (place * 5_462, ((place + 1) * 5_462 - 1).min(16_383));
            // `ADDSLOTSRANGE` exists only since Redis 7.
            let slots: Vec<String> = (first..=last).map(|slot| slot.to_string()).collect();
            it.ok(&format!("CLUSTER ADDSLOTS {}", slots.join(" ")));
            it.ok(&format!("CLUSTER SET-CONFIG-EPOCH {}", place + 1));
        }
        for node in &nodes[1..] {
            nodes[0].connect().ok(&format!("CLUSTER MEET 127.0.0.1 {}", node.address().port()));
        }
        let until = Instant::now() + START;
        for node in &nodes {
            let mut it = node.connect();
            loop {
                let info = it.ok("CLUSTER INFO").text();
                if info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3") {
                    break;
                }
                assert!(Instant::now() < until, "no cluster after {START:?}: {info}");
                thread::sleep(Duration::from_millis(20));
            }
        }
        Self { nodes }
    }

    /// The index of the node that holds a key.
    pub fn node_of(&self, key: &[u8]) -> usize {
        usize::from(slot(key)) / 5_462
    }
}

/// The slot of a key: CRC-16 (XMODEM) of its hash tag, or of the whole key if it has none.
pub fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        rest.iter().position(|byte| *byte == b'}').filter(|length| *length > 0).map(|length| &rest[..length])
    });
    let crc = tag.unwrap_or(key).iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    });
    crc % 16_384
}

/// A port that was free a moment ago. A cluster's bus uses the port 10,000 above, so only low ports are used.
fn free_port() -> SocketAddr {
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("its address");
        let bus = address.port().checked_add(10_000);
        if bus.is_some_and(|bus| TcpListener::bind((Ipv4Addr::LOCALHOST, bus)).is_ok()) {
            return address;
        }
    }
}
