//! A host whose calls carry weights, for the tests of sets of limits.

#![allow(missing_docs)] // test support

use crate::host::{Host, at, of};
use Value::{Number, Text};
use tidegate::{Action, CallId, Class, LimitView, Options, Policy, Request, Step, Value};

pub const RPM: (&str, Value<'static>) = ("rate_limit.limits", Text("rpm: permits=60 per=1m burst=3"));
pub const TPM: (&str, Value<'static>) =
    ("rate_limit.limits", Text("tpm: permits=60000 per=1m burst=10000 weight=tokens"));
pub const WAIT: [(&str, Value<'static>); 2] =
    [("rate_limit.wait", Number(1.0)), ("rate_limit.max_wait", Number(60e6))];

pub fn host(pairs: &[(&str, Value<'_>)]) -> Host {
    Host::with(pairs, Options::default().weights(true))
}

pub fn begin(host: &mut Host, tokens: u64, micros: u64) -> (CallId, Step) {
    let weights = host.engine.weights(host.route, [("tokens", tokens)]).unwrap();
    let begun = host.engine.begin_weighted(host.route, &Request::default(), weights, at(micros));
    host.engine.check().unwrap();
    begun
}

/// Begins a call that starts at once.
pub fn start(host: &mut Host, tokens: u64, micros: u64) -> CallId {
    let (call, step) = begin(host, tokens, micros);
    assert_eq!(step.action(), Action::Attempt { attempt: 1, hedge: false });
    call
}

pub fn settle(host: &mut Host, call: CallId, attempt: u8, total: u64, micros: u64) -> bool {
    let told = host.engine.settle_weight(call, attempt, "tokens", total, at(micros));
    host.engine.check().unwrap();
    told
}

pub fn finish(host: &mut Host, call: CallId, attempt: u8, class: Class, micros: u64) -> Step {
    let step = host.finish(call, attempt, of(class), micros);
    host.engine.check().unwrap();
    step
}

pub fn limit(host: &Host, name: &str, micros: u64) -> LimitView {
    let view = host.engine.snapshot(at(micros));
    view.routes[0].limits.iter().find(|limit| limit.name == name).expect("the set has this limit").clone()
}

pub fn tokens(host: &Host, micros: u64) -> i64 {
    limit(host, "tpm", micros).tokens
}

pub fn mistakes(pairs: &[(&str, Value<'_>)]) -> Vec<String> {
    Policy::from_pairs("p", pairs).unwrap_err().iter().map(ToString::to_string).collect()
}
