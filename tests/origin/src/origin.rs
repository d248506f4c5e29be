//! An origin inside a test or a bench.

use crate::control::control;
use crate::script::Script;
use crate::series::Bucket;
use crate::server::{Port, Stage, conduct};
use crate::stats::{Entry, Stats};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

/// Options for starting an [`Origin`].
#[derive(Debug, Clone)]
pub struct Options {
    /// The data port; 0 takes a free one.
    pub port: u16,
    /// The control port; 0 takes a free one.
    pub control_port: u16,
    /// The first script.
    pub script: Script,
    /// Threads of the origin's own runtime.
    pub threads: usize,
}

impl Default for Options {
    /// Free ports, the empty script, two threads.
    fn default() -> Self {
        Self { port: 0, control_port: 0, script: Script::default(), threads: 2 }
    }
}

/// A running origin. Dropping it ends it.
///
/// It has its own runtime, so a test may use it from synchronous code, from any runtime, and with that runtime's clock
/// paused. The methods below block for well under a millisecond.
pub struct Origin {
    stage: Arc<Stage>,
    data: SocketAddr,
    control: SocketAddr,
    runtime: Option<Runtime>,
}

impl Origin {
    /// Binds both ports on 127.0.0.1 and starts to serve. On return the first script is in force.
    pub fn start(options: Options) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(options.threads.max(1))
            .enable_all()
            .thread_name("origin")
            .build()?;
        let port = Port::take(options.port)?;
        let control_port = Port::take(options.control_port)?;
        let (data, control_address) = (port.address, control_port.address);
        let listener = {
            let _context = runtime.enter();
            TcpListener::from_std(control_port.listen()?)?
        };
        let stage = Arc::new(Stage::new(options.script));
        runtime.spawn(conduct(stage.clone(), port));
        runtime.spawn(control(stage.clone(), listener));
        let origin = Self { stage, data, control: control_address, runtime: Some(runtime) };
        let first = origin.stage.clone();
        origin.wait(async move { first.settled(1).await })?;
        Ok(origin)
    }

    /// `http://127.0.0.1:PORT` of the data port.
    pub fn url(&self) -> String {
        format!("http://{}", self.data)
    }

    /// `http://127.0.0.1:PORT` of the control port.
    pub fn control_url(&self) -> String {
        format!("http://{}", self.control)
    }

    /// The data port's address.
    pub fn address(&self) -> SocketAddr {
        self.data
    }

    /// The control port's address.
    pub fn control_address(&self) -> SocketAddr {
        self.control
    }

    /// Does what `PUT /script` does: replaces behaviour, counters, clock and seed. On return the script is in force.
    pub fn play(&self, script: Script) -> io::Result<()> {
        let stage = self.stage.clone();
        self.wait(async move { stage.play(Some(script)).await })
    }

    /// Does what `POST /reset` does: starts the same script from its beginning.
    pub fn reset(&self) -> io::Result<()> {
        let stage = self.stage.clone();
        self.wait(async move { stage.play(None).await })
    }

    /// As `GET /stats`.
    pub fn stats(&self) -> Stats {
        self.stage.run().ledger.stats(self.stage.open())
    }

    /// As `GET /log`: the last 10,000 requests, oldest first.
    pub fn log(&self) -> Vec<Entry> {
        self.stage.run().ledger.log()
    }

    /// As `GET /series?bucket=width`: the actual width in seconds, and the buckets.
    pub fn series(&self, width: f64) -> (f64, Vec<Bucket>) {
        self.stage.run().ledger.series(width)
    }

    /// Blocks this thread on a channel, because a runtime's own `block_on` panics inside another runtime.
    fn wait(&self, task: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
        let (done, when_done) = mpsc::channel();
        let runtime = self.runtime.as_ref().expect("present until dropped");
        runtime.spawn(async move {
            task.await;
            let _ = done.send(());
        });
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the data port could not be opened");
        when_done.recv_timeout(Duration::from_secs(5)).map_err(late)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background(); // a blocking shutdown panics inside another runtime
        }
    }
}
