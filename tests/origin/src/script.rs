//! The script of the origin's behaviour: its types and its validation.

mod dist;
pub(crate) mod read;
mod response;

pub use dist::Dist;
pub(crate) use dist::unit;
pub use read::ScriptError;
pub(crate) use response::RetryAfter;
pub use response::{Fault, Response};

use crate::provider::ProviderPlan;
use hyper::Method;
use read::{Item, Object};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;

/// A validated script. README.md documents the JSON it is read from.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    pub(crate) seed: u64,
    pub(crate) capacity: Option<CapacityPlan>,
    pub(crate) phases: Vec<Phase>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) sequences: HashMap<String, Vec<Arc<Response>>>,
    pub(crate) default: Arc<Response>,
    pub(crate) provider: Option<ProviderPlan>,
    /// The answer of `error_rate` if a phase names none.
    pub(crate) plain_error: Arc<Response>,
}

impl Script {
    /// Reads a script from JSON text.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        let value: Value = serde_json::from_str(text).map_err(|error| ScriptError {
            key: String::new(),
            value: format!("{} bytes", text.len()),
            rule: format!("must be JSON: {error}"),
        })?;
        Self::from_value(&value)
    }

    /// Reads a script from a JSON value.
    pub fn from_value(value: &Value) -> Result<Self, ScriptError> {
        let root = Item { key: String::new(), value };
        let object =
            root.object(&["seed", "capacity", "phases", "rules", "sequences", "default", "provider"])?;
        let capacity = object.item("capacity").map(|item| CapacityPlan::read(&item)).transpose()?;
        let queued = Queued { possible: capacity.is_some(), by_default: false };
        let phases = object.list("phases")?;
        let rules = object.list("rules")?;
        Ok(Self {
            seed: object.integer("seed", 0, u64::MAX)?.unwrap_or(1),
            phases: phases.iter().map(|item| Phase::read(item, queued)).collect::<Result<_, _>>()?,
            rules: rules.iter().map(|item| Rule::read(item, queued)).collect::<Result<_, _>>()?,
            sequences: object
                .item("sequences")
                .map_or(Ok(HashMap::new()), |item| sequences(&item, queued))?,
            default: Arc::new(match object.item("default") {
                Some(item) => Response::read(&item, Queued { by_default: true, ..queued })?,
                None => Response { uses_capacity: capacity.is_some(), ..Response::plain(200) },
            }),
            plain_error: Arc::new(Response::plain(500)),
            provider: object.item("provider").map(|item| ProviderPlan::read(&item)).transpose()?,
            capacity,
        })
    }

    /// The combined effect of the phases at `t`. Where phases overlap, the later one in the list wins, key by key.
    pub(crate) fn at(&self, t: f64) -> Weather {
        let mut now = Weather {
            workers: self.capacity.as_ref().map_or(0, |capacity| capacity.workers),
            service_factor: 1.0,
            error_rate: 0.0,
            error: self.plain_error.clone(),
            refuse: false,
        };
        for phase in self.phases.iter().filter(|phase| phase.from <= t && t < phase.until) {
            now.workers = phase.workers.unwrap_or(now.workers);
            now.service_factor = phase.service_factor.unwrap_or(now.service_factor);
            now.error_rate = phase.error_rate.unwrap_or(now.error_rate);
            now.refuse = phase.refuse.unwrap_or(now.refuse);
            if let Some(error) = &phase.error {
                now.error = error.clone();
            }
        }
        now
    }

    /// The next moment after `t` at which a phase begins or ends.
    pub(crate) fn next_change(&self, t: f64) -> Option<f64> {
        let edges = self.phases.iter().flat_map(|phase| [phase.from, phase.until]);
        edges.filter(|edge| *edge > t && edge.is_finite()).min_by(f64::total_cmp)
    }
}

impl Default for Script {
    /// The script `{}`: answers 200 with a small body at once.
    fn default() -> Self {
        Self::from_value(&Value::Object(serde_json::Map::new())).expect("the empty script is valid")
    }
}

/// `capacity`: workers behind one bounded queue.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CapacityPlan {
    pub workers: usize,
    pub queue: usize,
    pub service: Dist,
    pub when_full: Arc<Response>,
    pub notices_disconnect: bool,
}

/// One entry of `phases`: `None` leaves a setting unchanged.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Phase {
    from: f64,
    until: f64,
    workers: Option<usize>,
    service_factor: Option<f64>,
    error_rate: Option<f64>,
    error: Option<Arc<Response>>,
    refuse: Option<bool>,
}

/// The phases' effect at one moment.
pub(crate) struct Weather {
    pub workers: usize,
    pub service_factor: f64,
    pub error_rate: f64,
    pub error: Arc<Response>,
    pub refuse: bool,
}

/// One entry of `rules`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rule {
    method: Option<Method>,
    path: Option<String>,
    path_prefix: Option<String>,
    from: f64,
    until: f64,
    pub probability: f64,
    /// The rule answers at most this many requests.
    pub first: u64,
    pub respond: Arc<Response>,
}

impl Rule {
    /// All conditions except `first` and `probability`, which need the state of a run.
    pub(crate) fn matches(&self, method: &Method, path: &str, t: f64) -> bool {
        self.from <= t
            && t < self.until
            && self.method.as_ref().is_none_or(|wanted| wanted == method)
            && self.path.as_ref().is_none_or(|wanted| wanted == path)
            && self.path_prefix.as_ref().is_none_or(|wanted| path.starts_with(wanted.as_str()))
    }

    fn read(item: &Item<'_>, queued: Queued) -> Result<Self, ScriptError> {
        let object = item.object(&["match", "from", "until", "probability", "first", "respond"])?;
        let (from, until) = object.window()?;
        let respond = object.item("respond").ok_or_else(|| item.refuse("a rule needs respond"))?;
        let mut rule = Self {
            method: None,
            path: None,
            path_prefix: None,
            from,
            until,
            probability: object.number("probability", 0.0, 1.0)?.unwrap_or(1.0),
            first: object.integer("first", 0, u64::MAX)?.unwrap_or(u64::MAX),
            respond: Arc::new(Response::read(&respond, queued)?),
        };
        if let Some(item) = object.item("match") {
            let object = item.object(&["method", "path", "path_prefix"])?;
            if let Some(item) = object.item("method") {
                let name = item.text()?.as_bytes();
                rule.method =
                    Some(Method::from_bytes(name).map_err(|_| item.refuse("must be an HTTP method"))?);
            }
            rule.path = path(&object, "path")?;
            rule.path_prefix = path(&object, "path_prefix")?;
            if rule.path.is_some() && rule.path_prefix.is_some() {
                return Err(item.refuse("path and path_prefix exclude each other"));
            }
        }
        Ok(rule)
    }
}

/// Whether an answer may, and by default does, wait for a worker.
#[derive(Clone, Copy)]
pub(crate) struct Queued {
    possible: bool,
    by_default: bool,
}

impl Queued {
    pub(crate) fn read(self, object: &Object<'_>) -> Result<bool, ScriptError> {
        let asked = object.flag("uses_capacity")?;
        match object.item("uses_capacity") {
            Some(item) if asked == Some(true) && !self.possible => {
                Err(item.refuse("needs capacity in the script, and cannot stand in capacity.when_full"))
            }
            _ => Ok(asked.unwrap_or(self.by_default && self.possible)),
        }
    }
}

impl CapacityPlan {
    fn read(item: &Item<'_>) -> Result<Self, ScriptError> {
        let object = item.object(&["workers", "queue", "service", "when_full", "notices_disconnect"])?;
        let never = Queued { possible: false, by_default: false };
        Ok(Self {
            workers: object.integer("workers", 1, MOST_WORKERS)?.unwrap_or(8) as usize,
            queue: object.integer("queue", 0, 1_000_000)?.unwrap_or(200) as usize,
            service: object.item("service").map_or(Ok(Dist::constant(10.0)), |item| Dist::read(&item))?,
            when_full: Arc::new(match object.item("when_full") {
                Some(item) => Response::read(&item, never)?,
                None => Response::plain(503),
            }),
            notices_disconnect: object.flag("notices_disconnect")?.unwrap_or(false),
        })
    }
}

impl Phase {
    fn read(item: &Item<'_>, queued: Queued) -> Result<Self, ScriptError> {
        let object =
            item.object(&["from", "until", "workers", "service_factor", "error_rate", "error", "refuse"])?;
        let (from, until) = object.window()?;
        for key in ["workers", "service_factor"] {
            if let Some(item) = object.item(key).filter(|_| !queued.possible) {
                return Err(item.refuse("needs capacity in the script"));
            }
        }
        let error = object.item("error").map(|item| Response::read(&item, queued)).transpose()?;
        Ok(Self {
            from,
            until,
            workers: object.integer("workers", 0, MOST_WORKERS)?.map(|n| n as usize),
            service_factor: object.number("service_factor", 0.0, 1e6)?,
            error_rate: object.number("error_rate", 0.0, 1.0)?,
            error: error.map(Arc::new),
            refuse: object.flag("refuse")?,
        })
    }
}

const MOST_WORKERS: u64 = 100_000;

fn sequences(item: &Item<'_>, queued: Queued) -> Result<HashMap<String, Vec<Arc<Response>>>, ScriptError> {
    let Value::Object(map) = item.value else { return Err(item.refuse("must be an object of path: list")) };
    let mut all = HashMap::new();
    for (path, item) in Object::items(map, &item.key) {
        if !path.starts_with('/') {
            return Err(item.refuse("a path begins with /"));
        }
        let list = item
            .list()?
            .iter()
            .map(|item| Response::read(item, queued).map(Arc::new))
            .collect::<Result<Vec<_>, _>>()?;
        if list.is_empty() {
            return Err(item.refuse("must have at least one answer"));
        }
        all.insert(path.to_owned(), list);
    }
    Ok(all)
}

fn path(object: &Object<'_>, key: &str) -> Result<Option<String>, ScriptError> {
    match object.item(key) {
        Some(item) if !item.text()?.starts_with('/') => Err(item.refuse("a path begins with /")),
        Some(item) => Ok(Some(item.text()?.to_owned())),
        None => Ok(None),
    }
}
