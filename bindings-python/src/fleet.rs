//! Interface of the fleet: attaches a store, hands out commands, takes in replies. Conversions only: core alone defines the
//! commands and interprets the replies.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tidegate::fleet::{CommandId, MemoryStore as Core, Reply, StoreKind};

use crate::engine::Engine;
use crate::lock::Lock;

/// An engine's side of its store.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Fleet {
    engine: Py<Engine>,
}

/// A command as the Python half carries it: id, words, the place of the word that routes it, microseconds.
type Command<'py> = (u64, Vec<Bound<'py, PyBytes>>, u8, u64);

#[pymethods]
impl Fleet {
    #[new]
    fn new(engine: Py<Engine>) -> Self {
        Self { engine }
    }

    /// Attaches the store: its kind is `lua` or `plain`; keys begin with the namespace; `process` are random bits that name
    /// this process. The calls that can go on.
    fn attach(&self, py: Python<'_>, kind: &str, namespace: &str, process: u64) -> PyResult<Vec<u64>> {
        let Some(kind) = StoreKind::ALL.into_iter().find(|known| known.name() == kind) else {
            return Err(PyValueError::new_err(format!("no store is {kind}")));
        };
        let (mut state, now) = self.engine.get().at_now(py);
        let flags = state.core.attach_store(kind, namespace, process, now);
        Ok(state.woken(flags).unwrap_or_default())
    }

    /// The commands that steps have made since the last time, oldest first: id, words, the place of the word that a
    /// cluster routes by, and the microseconds that the answer may take.
    #[pyo3(signature = () -> "list[tuple[int, list[bytes], int, int]]")]
    fn take<'py>(&self, py: Python<'py>) -> Vec<Command<'py>> {
        let commands = std::mem::take(&mut self.engine.get().state.lock(py).commands);
        let words = |words: Vec<Vec<u8>>| words.iter().map(|word| PyBytes::new(py, word)).collect();
        let carried = commands.into_iter().map(|command| {
            (command.id.to_word(), words(command.words), command.key, command.within.as_micros())
        });
        carried.collect()
    }

    /// What came of a command: the store's answer or, `failed`, the text of its error; None where there was no answer. The
    /// calls that can go on because of it, and also none of them where there is something to tell or to send.
    #[pyo3(signature = (command, answer: "bytes | None", failed = false) -> "list[int] | None")]
    fn reply(&self, py: Python<'_>, command: u64, answer: Option<&[u8]>, failed: bool) -> Option<Vec<u64>> {
        let reply = match answer {
            None => Reply::Lost,
            Some(text) if failed => Reply::Error(text),
            Some(bytes) => Reply::Bytes(bytes),
        };
        let (mut state, now) = self.engine.get().at_now(py);
        let flags = state.core.on_reply(CommandId::from_word(command), reply, now);
        state.woken(flags)
    }

    /// The command that takes back a pool's slots whose leases are over; None if the pool is not the fleet's.
    #[pyo3(signature = (pool) -> "list[bytes] | None")]
    fn reaping<'py>(&self, py: Python<'py>, pool: &str) -> Option<Vec<Bound<'py, PyBytes>>> {
        let words = self.engine.get().state.lock(py).core.reap_command(pool);
        words.map(|words| words.iter().map(|word| PyBytes::new(py, word)).collect())
    }
}

/// A store in memory, for tests: what Redis would answer to an engine's commands.
#[pyclass(frozen, module = "tidegate._native")]
pub struct MemoryStore {
    store: Lock<Core>,
}

#[pymethods]
impl MemoryStore {
    #[new]
    fn new() -> Self {
        Self { store: Lock::new(Core::new()) }
    }

    /// Carries out one command at a moment, in microseconds: whether it is an answer and no error, and its text.
    #[pyo3(signature = (words: "list[bytes]", now_us) -> "tuple[bool, bytes]")]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn execute<'py>(&self, py: Python<'py>, words: Vec<Vec<u8>>, now_us: u64) -> (bool, Bound<'py, PyBytes>) {
        let answer = self.store.lock(py).execute(&words, now_us);
        match answer {
            Ok(bytes) => (true, PyBytes::new(py, &bytes)),
            Err(text) => (false, PyBytes::new(py, text.as_bytes())),
        }
    }

    /// What is stored at a moment: a line a key.
    fn describe(&self, py: Python<'_>, now_us: u64) -> Vec<String> {
        self.store.lock(py).describe(now_us)
    }
}
