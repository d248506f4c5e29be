//! A waker may do anything when it is dropped, including using the engine, so none may be dropped under the engine's
//! lock (bug 12 of `tests/museum`, where tokio hung).
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test that would hang runs in a thread of its own, and is given up after a minute"
)]

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use crate::support::{nothing_left, plain};
use tidegate_tokio::Engine;
use tidegate_tokio::settings::Bulkhead;

/// A waker that takes the engine's lock when it is woken and when it is dropped.
struct Nosy {
    engine: Engine,
    dropped: Arc<AtomicU32>,
}

impl Wake for Nosy {
    fn wake(self: Arc<Self>) {
        let _locked = self.engine.snapshot();
    }
}

impl Drop for Nosy {
    fn drop(&mut self) {
        let _locked = self.engine.snapshot();
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs a call that waits in a queue: its wakers are replaced, woken, and dropped with it.
fn wakers_come_and_go() -> u32 {
    let dropped = Arc::new(AtomicU32::new(0));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _inside = runtime.enter();
    let engine = Engine::new(7);
    let nosy = || Waker::from(Arc::new(Nosy { engine: engine.clone(), dropped: dropped.clone() }));
    let policy = plain(&engine, "p", 1)
        .bulkhead(Bulkhead::fixed(1).max_queue(10).acquire_timeout(None))
        .build()
        .unwrap();
    let forever = |_| std::future::pending::<Result<(), io::Error>>();
    {
        let mut holder = Box::pin(policy.run(forever));
        let mut waiting = Box::pin(policy.run(forever));
        let mut other = pin!(policy.run(forever));
        assert!(holder.as_mut().poll(&mut Context::from_waker(&nosy())).is_pending());
        for _ in 0..3 {
            // Each poll registers another waker, which replaces the one before.
            assert!(waiting.as_mut().poll(&mut Context::from_waker(&nosy())).is_pending());
        }
        assert!(other.as_mut().poll(&mut Context::from_waker(&nosy())).is_pending());
        // The slot goes to the waiting call, whose waker is woken and dropped.
        drop(holder);
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&nosy())).is_pending());
        // A waiting call is dropped while its waker is still registered.
        drop(waiting);
    }
    nothing_left(&engine);
    drop(policy);
    dropped.load(Ordering::Relaxed)
}

#[test]
fn a_waker_that_uses_the_engine_when_it_is_dropped_hangs_nothing() {
    let (done, told) = mpsc::channel();
    std::thread::spawn(move || done.send(wakers_come_and_go()));
    let dropped = told.recv_timeout(Duration::from_secs(60)).expect("a waker was dropped under the lock");
    assert!(dropped >= 5, "all wakers are dropped: {dropped}");
}
