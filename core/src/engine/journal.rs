//! The journal: everything that was put into the engine, so that it can be put in again (semantics 12.2).
//!
//! An input is a call on the engine that can change it. Steps, ids and draws follow from the inputs and the seed alone,
//! so a replay into a fresh engine of the same seed and options gives the same answers, byte for byte.

mod text;

use std::collections::VecDeque;

use super::{Clash, Engine, Options, RestoreError, Restored};
use crate::action::{CallId, Event, Flags, PolicyId, Request, RouteId, Step, TargetId};
use crate::fleet::{CommandId, KeptReply, StoreCommand, StoreKind};
use crate::full::{Full, Part};
use crate::policy::{Policy, Pool};
use crate::time::{Duration, Time};

pub use text::InputError;

/// One call on the engine. Times are the host's readings, as they came.
///
/// `Display` writes it as one line of text, and `parse` reads that back:
///
/// ```
/// use tidegate::{CallId, Event, Input, Time};
/// let input: Input = "on 1500 16777216 finished 1 1 0 -".parse().unwrap();
/// assert!(matches!(input, Input::On { event: Event::Finished { attempt: 1, .. }, .. }));
/// assert_eq!(input.to_string(), "on 1500 16777216 finished 1 1 0 -");
///
/// let error = "on soon 16777216 poll".parse::<Input>().unwrap_err();
/// assert_eq!(error.to_string(), "now = soon: must be a whole number up to 18446744073709551615");
/// ```
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)] // the fields are the arguments of the methods
pub enum Input {
    /// [`Engine::policy`].
    Policy { policy: Box<Policy> },
    /// [`Engine::pool`].
    Pool { pool: Box<Pool>, now: Time },
    /// [`Engine::route`].
    Route { policy: PolicyId, key: Box<str>, now: Time },
    /// [`Engine::target`]; hashes stand in the place of the path, which may hold a secret.
    Target { route: RouteId, path: Box<str>, now: Time },
    /// [`Engine::begin`].
    Begin { route: RouteId, request: Request, now: Time },
    /// [`Engine::on`].
    On { call: CallId, event: Event, now: Time },
    /// [`Engine::retune`].
    Retune { policy: PolicyId, to: Box<Policy>, now: Time },
    /// [`Engine::release_policy`].
    Release { policy: PolicyId, keep: bool, now: Time },
    /// [`Engine::retune_pool`].
    RetunePool { to: Box<Pool>, now: Time },
    /// [`Engine::force_open`].
    Force { policy: PolicyId, route: Option<RouteId>, on: bool, now: Time },
    /// [`Engine::note_fallback`].
    Fallback { route: RouteId, ok: bool, now: Time },
    /// [`Engine::restore`].
    Restore { saved: Box<str>, elapsed: Duration, now: Time },
    /// [`Engine::after_fork`].
    Fork { seed: u64, now: Time },
    /// [`Engine::take_wakes`], where there were any: a step's flag tells whether there are.
    Wakes,
    /// [`Engine::attach_store`].
    Store { kind: StoreKind, namespace: Box<str>, process: u64, now: Time },
    /// [`Engine::on_reply`].
    Reply { command: CommandId, reply: KeptReply, now: Time },
    /// [`Engine::take_commands`], where there were any, as `Wakes`.
    Commands,
    /// [`Engine::lift_budgets`].
    LiftBudgets { on: bool },
    /// No call on the engine: so many inputs before the next one were dropped, because the journal was full. Applying it does
    /// nothing. A replay refuses its line, because the inputs after it need those that are missing.
    Dropped { count: u64 },
}

/// What the engine said to an input.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)] // each is what the method of its input answers
pub enum Answer {
    Policy(Result<PolicyId, Clash>),
    Pool(Result<(), Clash>),
    Route(RouteId),
    Target(TargetId),
    Begin(CallId, Step),
    Step(Step),
    Retuned(Result<Flags, Clash>),
    Flags(Flags),
    Noted,
    Restored(Result<Restored, RestoreError>),
    Wakes(Vec<CallId>),
    Commands(Vec<StoreCommand>),
}

/// The inputs so far, or since they were taken.
#[derive(Debug)]
pub(super) struct Journal {
    /// What the engine was made with.
    pub seed: u64,
    pub options: Options,
    /// Those that have not been taken, where a journal is kept.
    inputs: Option<Part<VecDeque<Input>>>,
    /// Has nothing been taken or dropped yet?
    whole: bool,
}

impl Journal {
    pub fn new(seed: u64, options: Options) -> Self {
        let inputs = Full::here().filter(|_| options.journal).map(|full| Part::new(VecDeque::new(), full));
        Self { seed, options, inputs, whole: true }
    }

    #[cold]
    #[inline(never)]
    fn push(&mut self, input: Input) {
        let Some(inputs) = &mut self.inputs else { return };
        inputs.push_back(input);
        if inputs.len() <= self.options.journal_limit.max(1) as usize {
            return;
        }
        self.whole = false;
        // One input in, one out: no push pays for the whole journal. The mark that some are missing is not counted.
        let count = match inputs.pop_front() {
            Some(Input::Dropped { count }) if inputs.len() <= self.options.journal_limit.max(1) as usize => {
                inputs.push_front(Input::Dropped { count });
                return;
            }
            Some(Input::Dropped { count }) => {
                inputs.pop_front();
                count + 1
            }
            _ => 1,
        };
        inputs.push_front(Input::Dropped { count });
    }

    /// Writes a `begin` down. Apart from [`Journal::write`], as is the next, because every call comes by here.
    #[inline(always)]
    pub fn begin(&mut self, route: RouteId, request: &Request, now: Time) {
        if self.inputs.is_some() {
            self.push(Input::Begin { route, request: *request, now });
        }
    }

    #[inline(always)]
    pub fn on(&mut self, call: CallId, event: &Event, now: Time) {
        if self.inputs.is_some() {
            self.push(Input::On { call, event: *event, now });
        }
    }

    /// Writes an input down, where a journal is kept; else this is one branch.
    #[inline(always)]
    #[allow(clippy::inline_always)] // a branch
    pub fn write(&mut self, input: impl FnOnce() -> Input) {
        if self.inputs.is_some() {
            self.push(input());
        }
    }

    /// All inputs since the engine was made, where they are still here.
    pub fn all(&self) -> Option<impl Iterator<Item = &Input>> {
        self.inputs.as_ref().filter(|_| self.whole).map(|inputs| inputs.iter())
    }
}

impl Engine {
    /// Moves the journal's inputs into `out`, those since the last time, oldest first. Only an engine made with
    /// [`Options::journal`] keeps one. It grows by about 80 bytes an event until it is taken, and keeps at most
    /// [`Options::journal_limit`] inputs: then each new one drops the oldest, and [`Input::Dropped`] stands in the place of
    /// those that are missing. A journal from which something is missing replays nothing, so take it in time.
    ///
    /// ```
    /// use tidegate::{Answer, Engine, Options, Policy, Request, Time, Value};
    /// let options = Options::default().journal(true);
    /// let mut engine = Engine::new(7, options);
    /// let policy = engine.policy(Policy::from_pairs("p", &[("preset", Value::Text("http"))]).unwrap()).unwrap();
    /// let now = Time::from_micros(0);
    /// let route = engine.route(policy, "eu", now);
    /// let (call, step) = engine.begin(route, &Request::default(), now);
    ///
    /// let mut inputs = Vec::new();
    /// engine.take_journal(&mut inputs);
    /// let lines: Vec<_> = inputs.iter().map(ToString::to_string).collect();
    /// assert_eq!(lines[2], "begin 0 1048576 190 - - 0");
    ///
    /// let mut again = Engine::new(7, options);
    /// let answers = again.replay(lines.iter().map(|line| line.parse().unwrap()));
    /// assert_eq!(answers[2], Answer::Begin(call, step));
    /// ```
    pub fn take_journal(&mut self, out: &mut Vec<Input>) {
        if let Some(inputs) = &mut self.journal.inputs {
            self.journal.whole &= inputs.is_empty();
            let taken = core::mem::take(&mut **inputs);
            if out.is_empty() {
                *out = taken.into(); // nothing is copied into another place, however many there are
            } else {
                out.extend(taken);
            }
        }
    }

    /// The journal's inputs since they were last taken, oldest first; empty where none is kept.
    pub fn journal(&self) -> impl Iterator<Item = &Input> {
        self.journal.inputs.iter().flat_map(|inputs| inputs.iter())
    }
}
