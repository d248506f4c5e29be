//! An engine's output: records for hooks, metrics, the journal, explanations, saved state. Conversions only; core
//! decides about the contents.

use std::collections::BTreeMap;

use pyo3::exceptions::{PyException, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyList, PyTuple};
use tidegate::{
    CallId, Duration, Family, Input, Meter, PolicyId, ReadPages, Reading, Record, RecordType, SavePages,
    Series, Time, Timed,
};

use crate::engine::Engine;
use crate::state::State;
use crate::{listeners, pairs, scope};

pyo3::import_exception!(tidegate._engine.errors, StateError);

/// `logging.INFO`.
const INFO: u8 = 20;

/// Has this thread nothing to tell but what only the log would write, at a level at which it writes nothing, and is there
/// nothing to send? Then that is dropped, and no Python runs.
pub fn hush(engine: &Engine, py: Python<'_>) -> PyResult<bool> {
    static LOGGER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let (id, all_quiet) = {
        let state = engine.state.lock(py);
        if !state.commands.is_empty() {
            return Ok(false);
        }
        (state.listeners.id(), state.listeners.are_all_quiet())
    };
    let modules = scope::globals(py).map_err(|raised| raised.take(py))?.modules.bind(py);
    if !all_quiet || modules.contains(intern!(py, "structlog"))? {
        return Ok(false); // structlog may be configured to log everything, so the logging hook must decide
    }
    if modules.contains(intern!(py, "logging"))? {
        let logger = LOGGER.get_or_try_init(py, || {
            py.import("logging")?.call_method1("getLogger", ("tidegate",)).map(Bound::unbind)
        });
        let asked = logger.and_then(|logger| {
            logger.bind(py).call_method1(intern!(py, "isEnabledFor"), (INFO,))?.is_truthy()
        });
        match asked {
            Ok(false) => {}
            Ok(true) => return Ok(false),
            // The logging hook will raise the same error, which is then logged. An interrupt must reach the program.
            Err(error) if error.is_instance_of::<PyException>(py) => return Ok(false),
            Err(interrupt) => return Err(interrupt),
        }
    }
    listeners::forget_pending(id);
    Ok(true)
}

/// A bit for each of these types.
fn bits(names: &[String]) -> PyResult<u32> {
    names.iter().try_fold(0, |bits, name| {
        let what = RecordType::ALL.iter().find(|what| what.name() == name);
        let what = what.ok_or_else(|| PyValueError::new_err(format!("no record is a {name}")))?;
        Ok(bits | 1 << *what as u32)
    })
}

/// The name of the policy, the key of the route, and the name of the kind, as far as they are known.
type Names = (Option<String>, Option<String>, Option<String>);

fn names(state: &State, record: &Record) -> Names {
    let policy = record.policy.and_then(|policy| state.core.policy_of(policy));
    let kind = record.kind.and_then(|kind| policy?.name_of(kind)).map(str::to_owned);
    let route = record.route.and_then(|route| state.core.key_of(route));
    (policy.map(|policy| policy.name().to_owned()), route.map(str::to_owned), kind)
}

fn seconds(span: Duration) -> f64 {
    span.as_micros() as f64 / 1e6
}

fn moment(at: Time) -> f64 {
    at.as_micros() as f64 / 1e6
}

/// A record as the first fields of the Python half's `Record`.
fn tuple<'py>(py: Python<'py>, record: &Record, names: Names) -> PyResult<Bound<'py, PyTuple>> {
    let (policy, route, kind) = names;
    let side = |of: fn((f64, f64)) -> f64| -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(level) = record.change.map(of) else { return Ok(None) };
        Ok(Some(match record.what {
            RecordType::BreakerChanged => {
                let name = ["closed", "open", "half_open"][(level as usize).min(2)];
                name.into_pyobject(py)?.into_any()
            }
            RecordType::LimitChanged if level >= f64::from(u32::MAX) => return Ok(None),
            _ => level.into_pyobject(py)?.into_any(),
        }))
    };
    let fields: [Bound<'py, PyAny>; 17] = [
        record.what.name().into_pyobject(py)?.into_any(),
        record.seq.into_pyobject(py)?.into_any(),
        moment(record.at).into_pyobject(py)?.into_any(),
        policy.into_pyobject(py)?,
        route.into_pyobject(py)?,
        record.call.map(CallId::to_word).into_pyobject(py)?,
        record.attempt.into_pyobject(py)?.into_any(),
        record.hedge.into_pyobject(py)?.to_owned().into_any(),
        kind.into_pyobject(py)?,
        record.reason().into_pyobject(py)?,
        record.why.map(tidegate::Wait::name).into_pyobject(py)?,
        record.wait.map(seconds).into_pyobject(py)?,
        record.elapsed.map(seconds).into_pyobject(py)?,
        record.suppressed.into_pyobject(py)?.into_any(),
        record.quiet.into_pyobject(py)?.to_owned().into_any(),
        side(|(from, _)| from)?.into_pyobject(py)?,
        side(|(_, to)| to)?.into_pyobject(py)?,
    ];
    PyTuple::new(py, fields)
}

fn reading<'py>(py: Python<'py>, reading: &Reading) -> PyResult<Bound<'py, PyAny>> {
    Ok(match reading {
        Reading::Number(number) => number.into_pyobject(py)?.into_any(),
        Reading::Histogram { counts, sum } => (counts, sum).into_pyobject(py)?.into_any(),
    })
}

/// What an engine tells, for the Python half.
#[pyclass(frozen, module = "tidegate._native")]
pub struct Inspector {
    engine: Py<Engine>,
}

impl Inspector {
    fn with<T>(&self, py: Python<'_>, work: impl FnOnce(&mut State, Time) -> T) -> T {
        let (mut state, now) = self.engine.get().at_now(py);
        work(&mut state, now)
    }
}

#[pymethods]
impl Inspector {
    #[new]
    fn new(engine: Py<Engine>) -> Self {
        Self { engine }
    }

    /// Sets what hooks listen to, and what of it `take_records` may leave out: names of record types.
    #[pyo3(signature = (types: "list[str]", quiet: "list[str]") -> "None")]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn listen(&self, py: Python<'_>, types: Vec<String>, quiet: Vec<String>) -> PyResult<()> {
        let (hooks, quiet) = (bits(&types)?, bits(&quiet)?);
        self.with(py, |state, _| {
            let State { core, listeners, .. } = state;
            listeners.listen(core, hooks, quiet);
        });
        Ok(())
    }

    /// The records that this thread's steps have made since the last time, oldest first; without the quiet ones, `hushed`.
    #[pyo3(signature = (hushed) -> "list[tuple[object, ...]]")]
    fn take_records<'py>(&self, py: Python<'py>, hushed: bool) -> PyResult<Bound<'py, PyList>> {
        let taken = self.with(py, |state, _| {
            let records = state.listeners.take_pending(hushed);
            records.into_iter().map(|record| (record, names(state, &record))).collect::<Vec<_>>()
        });
        let tuples = taken.into_iter().map(|(record, names)| tuple(py, &record, names));
        PyList::new(py, tuples.collect::<PyResult<Vec<_>>>()?)
    }

    /// Starts to count for metrics, if nobody has: `max_routes` routes of each policy have series of their own.
    fn measure(&self, py: Python<'_>, max_routes: usize) {
        self.with(py, |state, _| {
            let State { core, listeners, .. } = state;
            listeners.measure(core, max_routes);
        });
    }

    /// All series: the family's place in `families`, policy, route, labels, and a number or the counts and the sum.
    #[pyo3(signature = () -> "list[tuple[int, str, str, list[str], float | tuple[list[int], float]]]")]
    fn series<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let mut pages = ReadPages::default();
        while self.with(py, |state, now| {
            let State { core, listeners, .. } = state;
            listeners.meter.as_mut().is_some_and(|meter| meter.read_page(core, &mut pages, now))
        }) {
            py.detach(|| {}); // lets calls of other threads run between two pages
        }
        let series = pages.finish();
        let list = PyList::empty(py);
        for Series { family, policy, route, labels, reading: of } in series {
            list.append((family as usize, policy, route, labels, reading(py, &of)?))?;
        }
        Ok(list)
    }

    /// What a route is called in labels: its key, or `other`.
    fn label(&self, py: Python<'_>, policy: &str, route: &str) -> String {
        self.with(py, |state, _| {
            let State { core, listeners, .. } = state;
            let known = listeners.meter.as_mut().zip(core.policy_named(policy));
            known.map_or("other", |(meter, policy)| meter.label(policy, route)).to_owned()
        })
    }

    /// Tests the engine: it stays out of the way unless `active`; `attempts` makes so many without waits, 0 leaves them as
    /// they are, and `cap` keeps those that a policy has fewer. The calls that can go on because of it.
    #[pyo3(signature = (active, attempts, cap) -> "list[int] | None")]
    fn test(&self, py: Python<'_>, active: bool, attempts: u8, cap: bool) -> PyResult<Option<Vec<u64>>> {
        let attempts = (attempts > 0).then_some((attempts, cap));
        let woken = self.with(py, |state, now| state.test(active, attempts, now));
        woken.map_err(|clash| pairs::clashes("policy", &clash))
    }

    /// Records that were dropped, because nobody had taken those before them.
    fn dropped(&self, py: Python<'_>) -> u64 {
        self.with(py, |state, _| state.core.records_dropped())
    }

    /// The journal's lines since they were last taken; `take` takes them.
    #[pyo3(signature = (take) -> "list[str]")]
    fn journal(&self, py: Python<'_>, take: bool) -> Vec<String> {
        self.with(py, |state, _| {
            if take {
                let mut inputs = Vec::new();
                state.core.take_journal(&mut inputs);
                return inputs.iter().map(ToString::to_string).collect();
            }
            state.core.journal().map(ToString::to_string).collect()
        })
    }

    /// Puts a journal's lines in: what the engine said to each, and where its clock stands then, in microseconds. Raises
    /// `ValueError` for a line that is none.
    #[pyo3(signature = (lines: "list[str]") -> "tuple[list[str], int]")]
    #[allow(clippy::needless_pass_by_value)] // extracted from Python objects
    fn replay(&self, py: Python<'_>, lines: Vec<String>) -> PyResult<(Vec<String>, u64)> {
        let mut inputs = Vec::new();
        for (number, line) in lines.iter().enumerate() {
            let input: Input = line.parse().map_err(|error| {
                PyValueError::new_err(format!("journal, line {}: {error}: {line}", number + 1))
            })?;
            inputs.push(input);
        }
        let (answers, now) = self.with(py, |state, _| {
            let answers = state.core.replay(inputs);
            (answers, state.core.now().as_micros())
        });
        Ok((answers.iter().map(|answer| format!("{answer:?}")).collect(), now))
    }

    /// What the engine has learned, as text.
    fn save(&self, py: Python<'_>) -> String {
        let mut pages = SavePages::default();
        while self.with(py, |state, now| state.core.save_page(&mut pages, now)) {
            py.detach(|| {}); // lets calls of other threads run between two pages
        }
        pages.finish()
    }

    /// Goes on from a saved state: routes, those left out, unknown policies and pools, components that start fresh.
    #[pyo3(signature = (text, elapsed_us) -> "tuple[int, int, list[tuple[str, str]], list[tuple[str, str, str]]]")]
    #[allow(clippy::type_complexity)] // a tuple of what there is
    fn restore(
        &self,
        py: Python<'_>,
        text: &str,
        elapsed_us: u64,
    ) -> PyResult<(u32, u32, Vec<(&'static str, String)>, Vec<(&'static str, String, &'static str)>)> {
        let elapsed = Duration::from_micros(elapsed_us);
        let restored = self.with(py, |state, now| {
            state.note_wall(now);
            state.core.restore(text, elapsed, now)
        });
        let restored = restored.map_err(|error| StateError::new_err(error.to_string()))?;
        Ok((restored.routes, restored.left_out, restored.unknown, restored.dropped))
    }

    /// What a policy comes to, as plain dictionaries and lists; `text` is for people.
    #[pyo3(signature = (policy) -> "dict[str, object] | None")]
    fn explain_policy<'py>(&self, py: Python<'py>, policy: u32) -> PyResult<Option<Bound<'py, PyDict>>> {
        let explained = self.with(py, |state, _| state.core.explain_policy(PolicyId::from_word(policy)));
        let Some(of) = explained else { return Ok(None) };
        let dict = PyDict::new(py);
        dict.set_item("text", of.to_string())?;
        dict.set_item("policy", &of.policy)?;
        let components = PyList::empty(py);
        for component in &of.components {
            let settings = PyDict::new(py);
            for (key, value) in &component.settings {
                settings.set_item(key, value)?;
            }
            components.append((component.name, component.meaning, settings))?;
        }
        dict.set_item("components", components)?;
        dict.set_item("max_attempts", of.max_attempts)?;
        dict.set_item("max_wait", of.max_wait.map(seconds))?;
        dict.set_item("max_time", of.max_time.map(seconds))?;
        dict.set_item("load", (of.load.per_call, of.load.per_second, of.load.burst))?;
        dict.set_item("memory_per_route", of.memory_per_route)?;
        dict.set_item("warnings", of.warnings)?;
        Ok(Some(dict))
    }

    /// How things stand with a call, or why it ended, as plain dictionaries and lists; `text` is for people.
    #[pyo3(signature = (call) -> "dict[str, object] | None")]
    fn explain_call<'py>(&self, py: Python<'py>, call: u64) -> PyResult<Option<Bound<'py, PyDict>>> {
        let explained = self.with(py, |state, _| {
            let of = state.core.explain_call(CallId::from_word(call))?;
            let names: Vec<_> = of.story.iter().map(|record| names(state, record)).collect();
            Some((of, names))
        });
        let Some((of, names)) = explained else { return Ok(None) };
        let dict = PyDict::new(py);
        dict.set_item("text", of.to_string())?;
        dict.set_item("call", of.call.to_word())?;
        dict.set_item("policy", &of.policy)?;
        dict.set_item("route", &of.route)?;
        dict.set_item("began", moment(of.began))?;
        dict.set_item("at", moment(of.at))?;
        dict.set_item("attempts", of.attempts)?;
        dict.set_item("standing", &of.standing)?;
        dict.set_item("why", of.why.map(tidegate::Wait::name))?;
        dict.set_item("until", of.until.map(moment))?;
        dict.set_item("deadline", of.deadline.map(moment))?;
        dict.set_item("reason", of.verdict.map(tidegate::Verdict::name))?;
        dict.set_item("numbers", &of.numbers)?;
        let story = of.story.iter().zip(names).map(|(record, names)| tuple(py, record, names));
        dict.set_item("story", PyList::new(py, story.collect::<PyResult<Vec<_>>>()?)?)?;
        Ok(Some(dict))
    }
}

/// The types of records, in the order of their numbers: name, and what it tells.
#[pyfunction]
#[pyo3(signature = () -> "list[tuple[str, str]]")]
pub fn record_types() -> Vec<(&'static str, &'static str)> {
    RecordType::ALL.iter().map(|what| (what.name(), what.meaning())).collect()
}

/// What each verdict means.
#[pyfunction]
#[pyo3(signature = () -> "dict[str, str]")]
pub fn verdicts() -> BTreeMap<&'static str, &'static str> {
    tidegate::Verdict::ALL.iter().map(|verdict| (verdict.name(), verdict.meaning())).collect()
}

/// The families of metrics: name, instrument, labels beside `policy` and `route`, and what it says.
#[pyfunction]
#[pyo3(signature = () -> "list[tuple[str, str, list[str], str]]")]
pub fn families() -> Vec<(&'static str, &'static str, Vec<&'static str>, &'static str)> {
    let family = |of: &Family| (of.name(), of.instrument().name(), of.labels().to_vec(), of.meaning());
    Family::ALL.iter().map(family).collect()
}

/// Which records feed a histogram: type, what the call waited for if only such records count, whether it takes the wait
/// instead of the elapsed time, and the family's place in `families`.
#[pyfunction]
#[pyo3(signature = () -> "list[tuple[str, str | None, bool, int]]")]
pub fn timed() -> Vec<(&'static str, Option<&'static str>, bool, usize)> {
    let fed = |it: &Timed| (it.what.name(), it.why.map(tidegate::Wait::name), it.waits, it.family as usize);
    Timed::ALL.iter().map(fed).collect()
}

/// The upper bounds of histograms, in seconds.
#[pyfunction]
#[pyo3(signature = () -> "list[float]")]
pub fn bounds() -> Vec<f64> {
    Meter::BOUNDS.to_vec()
}
