//! The data port: opens and closes with the script's phases, and serves its connections.

use crate::fault::ExitSlot;
use crate::respond::respond;
use crate::run::Run;
use crate::script::Script;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use socket2::{Domain, Protocol, Socket, Type};
use std::future::{pending, poll_fn};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// State shared by the data port, the control port and the embedding program.
pub(crate) struct Stage {
    run: watch::Sender<Arc<Run>>,
    /// The run whose listener state is in force.
    in_force: watch::Sender<u64>,
    connections: AtomicU64,
    open: AtomicU64,
}

impl Stage {
    pub(crate) fn new(script: Script) -> Self {
        Self {
            run: watch::Sender::new(Arc::new(Run::new(1, Arc::new(script)))),
            in_force: watch::Sender::new(0),
            connections: AtomicU64::new(0),
            open: AtomicU64::new(0),
        }
    }

    pub(crate) fn run(&self) -> Arc<Run> {
        self.run.borrow().clone()
    }

    /// Connections open now.
    pub(crate) fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Begins a new run, of `script` or of the previous script, and waits until the port is open or closed as the
    /// script says.
    pub(crate) async fn play(&self, script: Option<Script>) {
        let mut id = 0;
        self.run.send_modify(|run| {
            id = run.id + 1;
            *run = Arc::new(Run::new(id, script.map_or_else(|| run.script.clone(), Arc::new)));
        });
        self.settled(id).await;
    }

    /// Waits until the run `id`, or a later one, is in force.
    pub(crate) async fn settled(&self, id: u64) {
        // Fails only if the sender is gone, but `self` owns it.
        let _ = self.in_force.subscribe().wait_for(|in_force| *in_force >= id).await;
    }
}

/// A port on 127.0.0.1 that stays reserved while nothing listens on it.
pub(crate) struct Port {
    pub address: SocketAddr,
    /// Bound and never listening: connections are refused, and no other socket (such as a client's own ephemeral port)
    /// gets the number. Only Linux allows a listener beside it.
    #[cfg(target_os = "linux")]
    _guard: Socket,
}

impl Port {
    /// Takes `port`, or any free one for 0.
    pub(crate) fn take(port: u16) -> io::Result<Self> {
        let guard = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        let address = guard.local_addr()?.as_socket().expect("an IPv4 socket has an IP address");
        let port = Self {
            address,
            #[cfg(target_os = "linux")]
            _guard: guard,
        };
        drop(port.listen()?); // fails now if another program listens on the port
        Ok(port)
    }

    pub(crate) fn listen(&self) -> io::Result<std::net::TcpListener> {
        let socket = bind(self.address)?;
        socket.listen(4096)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    }
}

fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Runs the data port for ever: accepts connections, and follows the phases of the run in force.
pub(crate) async fn conduct(stage: Arc<Stage>, port: Port) {
    let mut runs = stage.run.subscribe();
    let mut listener = None;
    loop {
        let run = runs.borrow_and_update().clone();
        let t = run.ledger.t();
        let now = run.script.at(t);
        if let Some(capacity) = &run.capacity {
            capacity.set_workers(now.workers);
        }
        if now.refuse {
            listener = None;
        } else if listener.is_none() {
            let Ok(opened) = port.listen().and_then(TcpListener::from_std) else {
                sleep(Duration::from_millis(20)).await; // out of descriptors; try again
                continue;
            };
            listener = Some(opened);
        }
        stage.in_force.send_replace(run.id);
        let next = run.script.next_change(t).map(|t| run.ledger.started() + Duration::from_secs_f64(t));
        loop {
            tokio::select! {
                accepted = accept(listener.as_ref()) => match accepted {
                    Ok(stream) => {
                        run.ledger.accepted();
                        tokio::spawn(serve(stage.clone(), stream));
                    }
                    // Out of descriptors, or the client has disconnected.
                    Err(_) => sleep(Duration::from_millis(5)).await,
                },
                _ = runs.changed() => break,
                () = until(next) => break,
            }
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.map(|(stream, _)| stream),
        None => pending().await,
    }
}

async fn until(moment: Option<std::time::Instant>) {
    match moment {
        Some(moment) => sleep_until(Instant::from_std(moment)).await,
        None => pending().await,
    }
}

async fn serve(stage: Arc<Stage>, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let number = stage.connections.fetch_add(1, Ordering::Relaxed) + 1;
    stage.open.fetch_add(1, Ordering::Relaxed);
    let _open = Open(&stage);
    let exit = ExitSlot::default();
    let service = service_fn(|request| Box::pin(respond(stage.run(), number, exit.clone(), request)));
    let mut http = http1::Builder::new();
    http.header_read_timeout(None); // idle connections stay open: tests use them to check clients' pools
    let mut connection = http.serve_connection(TokioIo::new(stream), service);
    // The error means that the client left or that the script ends this connection. In both cases `exit` holds the
    // remaining work, if there is any.
    let _ = poll_fn(|cx| connection.poll_without_shutdown(cx)).await;
    let stream = connection.into_parts().io.into_inner();
    if let Some(exit) = exit.take() {
        exit.play(stream).await;
    }
}

struct Open<'a>(&'a Stage);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
