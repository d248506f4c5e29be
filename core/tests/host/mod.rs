//! A host that does what it is told, for short stories about the engine.

#![allow(missing_docs, dead_code)] // test support; not every story uses all of it

use Value::{Number, Text};
use tidegate::{
    Action, CallId, Class, Engine, Event, Options, Outcome, Policy, PolicyId, Request, RouteId, Step, Time,
    Value, Verdict, Wait,
};

pub const SECOND: u64 = 1_000_000;

pub struct Host {
    pub engine: Engine,
    pub policy: PolicyId,
    pub route: RouteId,
}

impl Host {
    pub fn new(pairs: &[(&str, Value<'_>)]) -> Self {
        Self::with(pairs, Options::default())
    }

    pub fn with(pairs: &[(&str, Value<'_>)], options: Options) -> Self {
        let mut engine = Engine::new(42, options);
        let policy = engine.policy(Policy::from_pairs("p", pairs).unwrap()).unwrap();
        let route = engine.route(policy, "r", at(0));
        Self { engine, policy, route }
    }

    pub fn begin(&mut self, request: Request, micros: u64) -> (CallId, Step) {
        self.engine.begin(self.route, &request, at(micros))
    }

    pub fn start(&mut self, request: Request, micros: u64) -> CallId {
        let (call, step) = self.begin(request, micros);
        assert_eq!(step.action(), Action::Attempt { attempt: 1, hedge: false });
        call
    }

    pub fn park(&mut self, micros: u64) -> CallId {
        let (call, step) = self.begin(Request::default(), micros);
        assert_eq!(step.action(), Action::Wait { why: Wait::Queue });
        call
    }

    pub fn finish(&mut self, call: CallId, attempt: u8, outcome: Outcome, micros: u64) -> Step {
        self.engine.on(call, Event::Finished { attempt, outcome }, at(micros))
    }

    pub fn poll(&mut self, call: CallId, micros: u64) -> Step {
        self.engine.on(call, Event::Poll, at(micros))
    }

    pub fn wakes(&mut self) -> Vec<CallId> {
        let mut wakes = Vec::new();
        self.engine.take_wakes(&mut wakes);
        wakes
    }
}

pub fn at(micros: u64) -> Time {
    Time::from_micros(micros)
}

pub fn of(class: Class) -> Outcome {
    Outcome::of(class)
}

pub fn verdict(step: Step) -> Verdict {
    match step.action() {
        Action::Done { verdict, .. } => verdict,
        action => panic!("not done: {action:?}"),
    }
}

pub fn http(more: &[(&'static str, Value<'static>)]) -> Vec<(&'static str, Value<'static>)> {
    [&[("preset", Text("http"))], more].concat()
}

pub fn bulkhead(limit: f64, queue: f64) -> Vec<(&'static str, Value<'static>)> {
    vec![("bulkhead.max_concurrency", Number(limit)), ("bulkhead.max_queue", Number(queue))]
}
