//! Late responses are closed in every adapter: after calls whose responses drip, or begin after the deadline, no
//! connection, task or call is left, and no call ends more than a second after its deadline.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests are users: they spawn, sleep and look at the clock"
)]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::world::*;

/// In which way a server is late.
#[derive(Clone, Copy, Debug)]
enum Late {
    /// The complete head arrives after the deadline.
    Head,
    /// The head arrives byte by byte, and never ends.
    DrippedHead,
    /// The head arrives at once; the body arrives byte by byte, and never ends.
    DrippedBody,
}

/// A late server that counts the connections held open by its clients.
struct Server {
    address: SocketAddr,
    open: Arc<AtomicUsize>,
    seen: Arc<AtomicUsize>,
    over: Arc<AtomicBool>,
}

impl Server {
    fn start(late: Late) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (open, seen, over) = (Arc::default(), Arc::default(), Arc::default());
        let it = Self { address, open, seen, over };
        let (open, seen, over) = (Arc::clone(&it.open), Arc::clone(&it.seen), Arc::clone(&it.over));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                seen.fetch_add(1, Ordering::SeqCst);
                open.fetch_add(1, Ordering::SeqCst);
                let (open, over) = (Arc::clone(&open), Arc::clone(&over));
                thread::spawn(move || {
                    serve(stream, late, &over);
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        it
    }

    fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address); // wakes the listener
    }
}

/// Serves a connection until the client closes it, or the test is over.
fn serve(mut stream: TcpStream, late: Late, over: &AtomicBool) {
    let mut request = [0; 4_096];
    if stream.read(&mut request).is_ok_and(|count| count == 0) {
        return;
    }
    let whole = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello".as_slice();
    let (first, then) = match late {
        Late::Head => {
            thread::sleep(ms(200));
            (whole, b"".as_slice())
        }
        Late::DrippedHead => (b"HTTP/1.1 200 OK\r\nx: ".as_slice(), b"x".as_slice()),
        Late::DrippedBody => {
            (b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n".as_slice(), b"x".as_slice())
        }
    };
    if stream.write_all(first).is_err() {
        return;
    }
    stream.set_read_timeout(Some(ms(20))).unwrap();
    while !over.load(Ordering::SeqCst) {
        match stream.read(&mut request) {
            Ok(0) => return,
            Err(error) if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                return;
            }
            _ => {}
        }
        if stream.write_all(then).is_err() {
            return;
        }
    }
}

rules! {
    async fn what_arrives_late_is_closed(world: World) {
        for late in [Late::Head, Late::DrippedHead, Late::DrippedBody] {
            let server = Server::start(late);
            let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
            let before = tasks();
            let guard = world.says(&format!("{late:?}")).deadline(ms(80));
            for _ in 0..10 {
                let begun = Instant::now();
                let request = world.client.get(format!("http://{}/x", server.address));
                if let Ok(response) = world.send(&guard, request).await {
                    let read = response.bytes().await;
                    assert!(read.is_err(), "{late:?}: the deadline ends the reading");
                }
                // A server drips for as long as the client listens; the limit allows for a busy machine.
                assert!(begun.elapsed() < ms(10_000), "{late:?}: {:?}", begun.elapsed());
            }
            assert!(server.seen.load(Ordering::SeqCst) >= 10, "{late:?}: a connection each");
            // The client's connection tasks close their connections soon; this limit is generous.
            let end = Instant::now() + ms(10_000);
            while (server.open() > 0 || tasks() > before) && Instant::now() < end {
                tokio::time::sleep(ms(5)).await;
            }
            assert_eq!((server.open(), tasks().saturating_sub(before)), (0, 0), "{late:?}: connections and tasks");
            nothing_left(&world.engine);
        }
        world.done();
    }
}
