//! A transparent client: it shows the bytes that arrived and how the connection ended.

use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tidegate_origin::{Options, Origin, Script};

/// Longer than any operation here, so that a hang fails a test instead of stopping it.
const PATIENCE: Duration = Duration::from_secs(5);

pub fn origin(script: &Value) -> Origin {
    let script = Script::from_value(script).expect("the test's script is valid");
    Origin::start(Options { script, ..Options::default() }).expect("two free ports")
}

pub struct Client {
    stream: TcpStream,
    unread: Vec<u8>,
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }
}

/// How a connection ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Fin,
    Rst,
}

impl Client {
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, unread: Vec::new() })
    }

    pub fn send(&mut self, method: &str, path: &str, extra: &str, body: &[u8]) {
        let head =
            format!("{method} {path} HTTP/1.1\r\nhost: x\r\n{extra}content-length: {}\r\n\r\n", body.len());
        self.stream.write_all(&[head.as_bytes(), body].concat()).expect("the origin reads");
    }

    pub fn write(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).expect("the origin reads");
    }

    /// The bytes that arrive in the next `span`, which always passes completely.
    pub fn whatever_comes_within(&mut self, span: Duration) -> Vec<u8> {
        std::thread::sleep(span);
        self.stream.set_nonblocking(true).expect("a live socket");
        while self.more().is_ok() {}
        self.stream.set_nonblocking(false).expect("a live socket");
        std::mem::take(&mut self.unread)
    }

    pub fn reply(&mut self) -> io::Result<Reply> {
        let end = loop {
            if let Some(at) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            self.more()?;
        };
        let head = String::from_utf8(self.unread.drain(..end).collect()).expect("a head is text");
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status line");
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap_or((line.trim_end_matches(':'), "")))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length = length.map_or(0, |(_, value)| value.parse().expect("a length"));
        while self.unread.len() < length {
            self.more()?;
        }
        let body = self.unread.drain(..length).collect();
        Ok(Reply { status: status.parse().expect("a status"), headers, body })
    }

    /// All bytes until the end of the connection, and how it ended.
    pub fn rest(&mut self) -> (Vec<u8>, End) {
        loop {
            match self.more() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return (std::mem::take(&mut self.unread), End::Fin);
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return (std::mem::take(&mut self.unread), End::Rst);
                }
                Err(error) => panic!("neither FIN nor RST: {error}"),
            }
        }
    }

    /// The socket's error some time after the end, such as a reset that followed the FIN.
    pub fn afterwards(&self) -> Option<io::Error> {
        std::thread::sleep(Duration::from_millis(50));
        self.stream.take_error().expect("a live socket")
    }

    fn more(&mut self) -> io::Result<()> {
        let mut piece = [0; 16384];
        let n = self.stream.read(&mut piece)?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.unread.extend_from_slice(&piece[..n]);
        Ok(())
    }
}

/// A connection on which one request has been sent.
pub fn asked(origin: &Origin, path: &str) -> Client {
    let mut client = Client::connect(origin.address()).expect("the origin listens");
    client.send("GET", path, "", b"");
    client
}

/// Sends one request on a new connection.
pub fn get(origin: &Origin, path: &str) -> Reply {
    asked(origin, path).reply().expect("a whole answer")
}

/// Sends one request to the control port.
pub fn control(origin: &Origin, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut client = Client::connect(origin.control_address()).expect("the control port listens");
    client.send(method, path, "", body.as_bytes());
    let reply = client.reply().expect("a whole answer");
    (reply.status, serde_json::from_slice(&reply.body).expect("control answers JSON"))
}

/// Waits until `holds`; panics with `what` if it never does.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
