//! A world as stateright sees it: states, actions, and what must always hold.

use std::hash::{Hash, Hasher};

use stateright::{Model, Property};
use tidegate::{Engine, Load, Options, Policy, Value};

use crate::host::Host;

/// What can happen next. Calls are numbered in the order in which they begin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Act {
    /// The next call begins, on this route, within that call.
    Begin { route: u8, within: Option<u8> },
    /// The oldest or the newest running attempt of a call ends.
    End { call: u8, newest: bool, how: How },
    /// Its caller gives up.
    Cancel(u8),
    /// Its owner looks; where it was woken, that is when it hears of it.
    Poll(u8),
    /// The clock goes on to its timer, which fires; timers before it are late then.
    Due(u8),
    /// A minute and a second in which nobody reports.
    Silence,
    /// The settings of the other half are in force from now on.
    Retune,
    /// An operator refuses all calls, or stops that.
    Force(bool),
    /// The process ends; another goes on from what was saved.
    Restart,
}

/// How an attempt ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum How {
    Ok,
    Failure,
    /// A permanent failure whose server says: try again.
    Again,
}

/// The settings of a policy.
pub type Pairs = &'static [(&'static str, Value<'static>)];

/// A world: its settings, and what can happen in it.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // independent of each other
pub struct World {
    pub name: &'static str,
    pub pairs: Pairs,
    /// What a retune changes to, and back.
    pub other: Option<Pairs>,
    pub calls: u8,
    pub routes: u8,
    pub max_routes: u32,
    pub hows: &'static [How],
    /// Calls may be made within calls.
    pub nests: bool,
    /// Can the host stop an attempt at once?
    pub abortable: bool,
    pub forces: bool,
    pub restarts: bool,
}

/// A world whose policies are made, which takes longer than to replay a path.
#[derive(Debug)]
pub struct Small {
    pub world: World,
    /// The two settings of its policy.
    pub(crate) policies: [Policy; 2],
    /// The most that either allows.
    pub(crate) load: Load,
}

impl World {
    /// # Panics
    /// Where its settings are no policy.
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

/// Where a world stands.
#[derive(Clone, Debug)]
pub struct State {
    path: Vec<Act>,
    /// A digest of the whole engine, and of what its host knows.
    print: u64,
    /// The rule that the last action broke.
    pub broken: Option<String>,
    /// What can happen next.
    next: Vec<Act>,
    /// What has been seen on the way: a retry, a waiter, a refusal of the budget.
    pub seen: [bool; 3],
}

// The path is how to come here, not where this is.
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
    /// Replays a path; the state that it leads to.
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

    /// From this state a host that behaves brings every call to its end, and nothing is left behind.
    ///
    /// # Errors
    /// What is left, or the rule that is broken.
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
