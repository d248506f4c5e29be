//! A small world as a stateright model: states, actions, and invariants.

use std::hash::{Hash, Hasher};

use stateright::{Model, Property};
use tidegate::{Engine, Load, Options, Policy, Value};

use crate::host::Host;

/// The possible actions. Calls are numbered in the order in which they begin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Act {
    /// The next call begins, on this route, nested in the call `within`.
    Begin { route: u8, within: Option<u8> },
    /// The oldest or the newest running attempt of a call ends.
    End { call: u8, newest: bool, how: How },
    /// The caller cancels the call.
    Cancel(u8),
    /// The call's owner polls; a woken owner learns by that poll that the call can proceed.
    Poll(u8),
    /// The clock advances to the call's timer, which fires; earlier timers are late then.
    Due(u8),
    /// 61 seconds pass without a report.
    Silence,
    /// The other of the two settings comes into force.
    Retune,
    /// An operator forces the breaker open, or ends that.
    Force(bool),
    /// The process ends; another one starts from the saved state.
    Restart,
}

/// How an attempt ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum How {
    Ok,
    Failure,
    /// A permanent failure whose server says that the call may be tried again.
    Again,
}

/// The settings of a policy.
pub type Pairs = &'static [(&'static str, Value<'static>)];

/// A world: its settings, and the actions that are possible in it.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent of each other
pub struct World {
    pub name: &'static str,
    pub pairs: Pairs,
    /// The settings to which a retune changes, and back.
    pub other: Option<Pairs>,
    pub calls: u8,
    pub routes: u8,
    pub max_routes: u32,
    pub hows: &'static [How],
    /// Whether calls may be nested.
    pub nests: bool,
    /// Whether the host can abort an attempt at once.
    pub abortable: bool,
    pub forces: bool,
    pub restarts: bool,
}

/// A world with its policies built, because building them takes longer than replaying a path.
#[derive(Debug)]
pub struct Small {
    pub world: World,
    /// The two settings of its policy.
    pub(crate) policies: [Policy; 2],
    /// The larger load bound of the two settings.
    pub(crate) load: Load,
}

impl World {
    /// # Panics
    /// If the settings are not a valid policy.
    pub fn prepare(self) -> Small {
        let policies = [self.pairs, self.other.unwrap_or(self.pairs)].map(|pairs| {
            Policy::from_pairs("p", pairs).unwrap_or_else(|why| panic!("{}: {why:?}", self.name))
        });
        let loads = policies.clone().map(|policy| {
            let mut engine = Engine::new(1, Options::default());
            let id = engine.policy(policy).expect("the only one");
            engine.explain_policy(id).expect("it was taken in").load
        });
        let [one, two] = loads;
        let load = Load {
            per_call: one.per_call.max(two.per_call),
            per_second: one.per_second.max(two.per_second),
            burst: one.burst.max(two.burst),
        };
        Small { world: self, policies, load }
    }
}

/// The state of a world after a path.
#[derive(Clone, Debug)]
pub struct State {
    path: Vec<Act>,
    /// A digest of the whole engine and of its host's state.
    print: u64,
    /// The rule that the last action broke.
    pub broken: Option<String>,
    /// The actions that are possible next.
    next: Vec<Act>,
    /// Whether the path contains a retry, a waiter, and a refusal by the budget.
    pub seen: [bool; 3],
}

// Two paths that lead to the same state are equal, so the path is not compared.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.print == other.print && self.broken.is_some() == other.broken.is_some()
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.print.hash(state);
        self.broken.is_some().hash(state);
    }
}

impl Small {
    /// Replays a path and returns the state that it leads to.
    pub fn at(&self, path: Vec<Act>) -> State {
        let mut host = Host::new(self);
        let mut broken = None;
        for act in &path {
            broken = host.act(*act).and_then(|()| host.rules()).err();
            if broken.is_some() {
                break;
            }
        }
        let next = if broken.is_some() { Vec::new() } else { host.choices() };
        State { print: host.print(), broken, next, seen: host.seen, path }
    }

    /// Checks that a host that behaves correctly from this state brings every call to its end, and that nothing is left
    /// behind.
    ///
    /// # Errors
    /// The remaining calls or permits, or the broken rule.
    pub fn drains(&self, state: &State) -> Result<(), String> {
        let mut host = Host::new(self);
        for act in &state.path {
            host.act(*act)?;
        }
        host.drain()
    }
}

impl Model for Small {
    type State = State;
    type Action = Act;

    fn init_states(&self) -> Vec<State> {
        vec![self.at(Vec::new())]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Act>) {
        actions.extend(&state.next);
    }

    fn next_state(&self, last: &State, action: Act) -> Option<State> {
        let mut path = last.path.clone();
        path.push(action);
        Some(self.at(path))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("every rule holds", |_: &Self, state: &State| state.broken.is_none()),
            Property::always("a host that behaves ends every call", |world: &Self, state: &State| {
                world.drains(state).is_ok()
            }),
        ]
    }
}
