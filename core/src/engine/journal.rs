//! The journal: all inputs of the engine, so that they can be replayed (semantics 12.2).
//!
//! An input is a call on the engine that can change it. Steps, ids and random draws follow from the inputs and the
//! seed alone. So a replay into a fresh engine of the same seed and options gives the same answers, byte for byte.

mod text;

use std::collections::VecDeque;

use super::limits::Left;
use super::weights::Weights;
use super::{Clash, Engine, Options, RestoreError, Restored};
use crate::action::{CallId, Event, Flags, Link, PathId, PolicyId, Request, RouteId};
use crate::fleet::{CommandId, KeptReply, StoreCommand, StoreKind};
use crate::full::{Full, Part};
use crate::policy::{Policy, Pool};
use crate::step::Step;
use crate::time::{Duration, Time, WallTime};

pub use text::InputError;

/// One call on the engine. Times are the host's readings, unchanged.
///
/// `Display` writes it as one line of text, which `parse` reads:
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
    /// [`Engine::path_id`]; hashes replace the path, which may hold a secret.
    Path { route: RouteId, path: Box<str>, now: Time },
    /// [`Engine::begin`].
    Begin { route: RouteId, request: Request, now: Time },
    /// The weights of the call that the next input begins ([`Engine::begin_weighted`]).
    Weights { weights: Weights },
    /// [`Engine::settle_weight`].
    Settle { call: CallId, attempt: u8, name: Box<str>, total: u64, now: Time },
    /// [`Engine::note_quotas`].
    Left { call: CallId, left: Left, now: Time },
    /// [`Engine::note_wall`].
    Wall { wall: WallTime, now: Time },
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
    /// [`Engine::force_target`].
    ForceTarget { group: Box<str>, target: Box<str>, on: bool, now: Time },
    /// [`Engine::note_fallback`].
    Fallback { route: RouteId, ok: bool, now: Time },
    /// [`Engine::restore`].
    Restore { saved: Box<str>, elapsed: Duration, now: Time },
    /// [`Engine::after_fork`].
    Fork { seed: u64, now: Time },
    /// [`Engine::take_wakes`], if there were any: a step's flag says whether there are.
    Wakes,
    /// [`Engine::attach_store`].
    Store { kind: StoreKind, namespace: Box<str>, process: u64, now: Time },
    /// [`Engine::on_reply`].
    Reply { command: CommandId, reply: KeptReply, now: Time },
    /// [`Engine::take_commands`], if there were any, as for `Wakes`.
    Commands,
    /// [`Engine::set_link`].
    Link { link: Link, now: Time },
    /// [`Engine::lift_budgets`].
    LiftBudgets { on: bool },
    /// Not a call on the engine: `count` inputs before the next one were dropped, because the journal was full.
    /// Applying it does nothing. A replay refuses its line, because later inputs need the missing ones.
    Dropped { count: u64 },
}

/// Answer of the engine to an input.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)] // each is what the method of its input answers
pub enum Answer {
    Policy(Result<PolicyId, Clash>),
    Pool(Result<(), Clash>),
    Route(RouteId),
    Path(PathId),
    Begin(CallId, Step),
    Step(Step),
    Retuned(Result<Flags, Clash>),
    Flags(Flags),
    Noted,
    Settled(bool),
    Restored(Result<Restored, RestoreError>),
    Wakes(Vec<CallId>),
    Commands(Vec<StoreCommand>),
}

/// The inputs so far, or since they were last taken.
#[derive(Debug)]
pub(super) struct Journal {
    /// Seed of the engine.
    pub seed: u64,
    pub options: Options,
    /// Inputs that have not been taken, if a journal is kept.
    inputs: Option<Part<VecDeque<Input>>>,
    /// Whether nothing has been taken or dropped yet.
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
        // One input in, one out, so no push pays for the whole journal. The mark for missing inputs is not counted.
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

    /// Records a `begin`. Separate from [`Journal::write`], like the next method, because every call runs through
    /// here.
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

    /// Records an input if a journal is kept; otherwise this is one branch.
    #[inline(always)]
    #[allow(clippy::inline_always)] // a branch
    pub fn write(&mut self, input: impl FnOnce() -> Input) {
        if self.inputs.is_some() {
            self.push(input());
        }
    }

    /// All inputs since the engine was made, if none is missing.
    pub fn all(&self) -> Option<impl Iterator<Item = &Input>> {
        self.inputs.as_ref().filter(|_| self.whole).map(|inputs| inputs.iter())
    }
}

impl Engine {
    /// Moves the journal's inputs since the last time into `out`, oldest first. Only an engine made with
    /// [`Options::journal`] keeps a journal. It grows by about 80 bytes an event until it is taken, and holds at most
    /// [`Options::journal_limit`] inputs. Beyond that each new input drops the oldest, and [`Input::Dropped`]
    /// replaces the missing ones. A journal with missing inputs cannot be replayed, so take it in time.
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
                *out = taken.into(); // moves the buffer without copying, whatever its size
            } else {
                out.extend(taken);
            }
        }
    }

    /// The journal's inputs since they were last taken, oldest first; empty without a journal.
    pub fn journal(&self) -> impl Iterator<Item = &Input> {
        self.journal.inputs.iter().flat_map(|inputs| inputs.iter())
    }
}
