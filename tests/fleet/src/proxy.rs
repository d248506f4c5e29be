//! A proxy between a process and its store that can delay, swallow or break their traffic.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The state of the connection between process and store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Passes everything on unchanged.
    Clear,
    /// Delays each packet by this much.
    Slow(Duration),
    /// Commands arrive and are carried out; their replies are dropped.
    NoAnswers,
    /// A partition: everything is dropped silently.
    Silent,
    /// Connections are closed at once.
    Closed,
    /// Replies are bytes that are no protocol.
    Garbage,
}

/// A proxy to one server.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    way: watch::Sender<Way>,
    to: Arc<Mutex<SocketAddr>>,
}

impl Proxy {
    /// Starts to listen on a free port of this machine.
    pub async fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("its address");
        let (way, seen) = watch::channel(Way::Clear);
        let to = Arc::new(Mutex::new(to));
        let target = Arc::clone(&to);
        tokio::spawn(async move {
            // The task ends with its runtime.
            while let Ok((client, _)) = listener.accept().await {
                let to = *target.lock().unwrap_or_else(PoisonError::into_inner);
                tokio::spawn(connect(client, to, seen.clone()));
            }
        });
        Self { address, way, to }
    }

    /// The address at which the proxy listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the state from now on, also for open connections.
    pub fn set(&self, way: Way) {
        self.way.send_replace(way);
    }

    /// Directs new connections to another server, as a failover does, and closes open ones.
    pub async fn lead_to(&self, to: SocketAddr) {
        *self.to.lock().unwrap_or_else(PoisonError::into_inner) = to;
        self.set(Way::Closed);
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.set(Way::Clear);
    }
}

async fn connect(client: TcpStream, to: SocketAddr, way: watch::Receiver<Way>) {
    if *way.borrow() == Way::Closed {
        return;
    }
    let Ok(server) = TcpStream::connect(to).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let mut closed = way.clone();
    tokio::select! {
        () = carry(from_client, to_server, way.clone(), false) => {}
        () = carry(from_server, to_client, way, true) => {}
        _ = closed.wait_for(|way| *way == Way::Closed) => {}
    }
}

async fn carry(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    way: watch::Receiver<Way>,
    answers: bool,
) {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let Ok(count @ 1..) = from.read(&mut buffer).await else { return };
        let now = *way.borrow();
        let bytes: &[u8] = match now {
            Way::Slow(delay) => {
                tokio::time::sleep(delay).await;
                &buffer[..count]
            }
            Way::Silent => continue,
            Way::NoAnswers if answers => continue,
            Way::Garbage if answers => b"$3\r\n1 x\r\n",
            Way::Closed => return,
            Way::Clear | Way::NoAnswers | Way::Garbage => &buffer[..count],
        };
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}
