//! The engine as WebAssembly, for JavaScript. The crate only converts; it has no logic of its own.
//!
//! Words are those of `core/src/wire.rs`. Each is exact as `f64`, because it is below 2^53. The functions of every call (`begin`,
//! `begun`, `on`) exchange only numbers. Texts are rare: the host writes them into `input`, and reads results longer than a number
//! from `output`. `wasm-bindgen` generates the TypeScript types (`docs/adr/0025-one-import.md`). Exports that only the full engine
//! has are in the files that `tidegate_small` leaves out.

#[cfg(not(tidegate_small))]
mod documents;
#[cfg(not(tidegate_small))]
mod fleet;
#[cfg(not(tidegate_small))]
mod full;
mod host;
#[cfg(not(tidegate_small))]
mod inspect;
#[cfg(not(tidegate_small))]
mod json;
#[cfg(not(tidegate_small))]
mod meter;
#[cfg(not(tidegate_small))]
mod metered;
#[cfg(not(tidegate_small))]
mod pages;
#[cfg(not(tidegate_small))]
mod slab;
#[cfg(not(tidegate_small))]
mod streams;
mod texts;

use tidegate::{
    CallId, Clash, Engine as Core, HttpFailure, Kind, Link, Options, Policy, PolicyId, Request, RouteId,
    Time, Value, Verdict, WallTime, wire,
};
use wasm_bindgen::prelude::wasm_bindgen;

use host::{Engine, with};
use texts::{answer, mistakes, pieces, staged, texts};

/// The result for a malformed word: the host composed one that has no meaning. No step has this value.
const NO_WORD: f64 = -1.0;

fn time(us: f64) -> Time {
    Time::from_micros(us as u64)
}

/// Makes an engine with this seed (64 bits in two halves) and returns its handle. It keeps `history` records about calls with
/// trouble (semantics 12.4); the small engine keeps none.
#[wasm_bindgen]
pub fn engine(seed_high: u32, seed_low: u32, max_routes: u32, journal: u32, history: u32) -> u32 {
    let options = Options::default().max_routes(max_routes).journal(journal != 0).history(history);
    #[cfg(not(tidegate_small))]
    let options = options.weights(true).quotas(true).wall_clock(true);
    let core = Core::new(u64::from(seed_high) << 32 | u64::from(seed_low), options);
    let begun = CallId::from_word(0);
    host::add(Engine {
        core,
        begun,
        woken: Vec::new(),
        #[cfg(not(tidegate_small))]
        meter: None,
        #[cfg(not(tidegate_small))]
        heard: false,
        #[cfg(not(tidegate_small))]
        readers: slab::Slab::default(),
    })
}

/// Drops an engine. Its handle is not reused.
#[wasm_bindgen]
pub fn forget_engine(engine: u32) {
    host::remove(engine);
}

/// Makes every retry pass without asking its budget, if `on` is not 0; for tests.
#[wasm_bindgen]
pub fn lift_budgets(engine: u32, on: u32) {
    with(engine, |it| it.core.lift_budgets(on != 0));
}

/// Says the state of the device's link: 0 ok, 1 metered, 2 offline.
#[wasm_bindgen]
pub fn set_link(engine: u32, link: u32, now: f64) {
    if let Some(link) = Link::ALL.get(link as usize) {
        with(engine, |it| it.core.set_link(*link, time(now)));
    }
}

/// Takes in the staged pairs as a policy, named by the input. Returns its number, or −1 with the mistakes in the output.
#[wasm_bindgen]
pub fn policy(engine: u32) -> f64 {
    let taken = staged(Policy::from_pairs).map_err(|errors| mistakes(&errors)).and_then(|policy| {
        with(engine, |it| it.core.policy(policy)).map_err(|clash| clashed("policy", &clash))
    });
    answer(taken.map(|number| f64::from(number.to_word())))
}

/// A clash with the state of an engine, in the form of a mistake.
fn clashed(what: &str, clash: &Clash) -> String {
    pieces([what, &clash.name, clash.rule])
}

/// The route of a policy with the key in the input.
#[wasm_bindgen]
pub fn route(engine: u32, policy: u32, now: f64) -> f64 {
    let key = texts(|it| it.text(0, usize::MAX));
    with(engine, |it| it.core.route(PolicyId::from_word(policy), &key, time(now)).to_word()) as f64
}

/// Begins a call. Returns its first step, or −1 for a malformed request. `begun` returns the call's id.
#[wasm_bindgen]
pub fn begin(engine: u32, route: f64, flags: u32, remaining: f64, parent: f64, target: f64, now: f64) -> f64 {
    let request: Option<Request> =
        wire::unpack_request(u64::from(flags), remaining as u64, parent as u64, target as u64);
    let Some(request) = request else { return NO_WORD };
    with(engine, |it| {
        let (call, step) = it.core.begin(RouteId::from_word(route as u64), &request, time(now));
        it.begun = call;
        wire::pack_step(step) as f64
    })
}

/// The id of the call that has begun last.
#[wasm_bindgen]
pub fn begun(engine: u32) -> f64 {
    with(engine, |it| it.begun.to_word() as f64)
}

/// Reports an event of a call. Returns its next step, or −1 for a malformed event.
#[wasm_bindgen]
pub fn on(engine: u32, call: f64, event: f64, now: f64) -> f64 {
    let Some(event) = wire::unpack_event(event as u64) else { return NO_WORD };
    with(engine, |it| wire::pack_step(it.core.on(CallId::from_word(call as u64), event, time(now))) as f64)
}

/// The number of calls that can continue because of events since the last time; `woken` returns their ids.
#[wasm_bindgen]
pub fn wakes(engine: u32) -> u32 {
    with(engine, |it| {
        it.woken.clear();
        it.core.take_wakes(&mut it.woken);
        it.woken.len() as u32
    })
}

/// The id of a call counted by `wakes`.
#[wasm_bindgen]
pub fn woken(engine: u32, place: u32) -> f64 {
    with(engine, |it| it.woken.get(place as usize).map_or(0.0, |call| call.to_word() as f64))
}

/// The outcome of an HTTP response, at its position in the word of a Finished event. The input has its headers: name, NUL, value,
/// NUL, and so on.
#[wasm_bindgen]
pub fn classify(engine: u32, policy: u32, status: u32, wall_us: f64) -> f64 {
    let input = texts(|it| std::mem::take(&mut it.input));
    let mut pieces = input.split(|byte| *byte == 0);
    let mut headers = Vec::new();
    while let (Some(name), Some(value)) = (pieces.next(), pieces.next()) {
        headers.push((name, value));
    }
    let failure = HttpFailure { status: status as u16, headers: &headers };
    let wall = WallTime::from_unix_micros(wall_us as u64);
    let policy = PolicyId::from_word(policy);
    with(engine, |it| wire::pack_outcome(it.core.classify_read(policy, &failure, b"", wall)) as f64)
}

/// Whether a request with the method in the input may be repeated without an idempotency key.
#[wasm_bindgen]
pub fn retries_method(engine: u32, policy: u32) -> u32 {
    let method = texts(|it| it.text(0, usize::MAX));
    with(engine, |it| it.core.retries_method(PolicyId::from_word(policy), &method)).into()
}

/// Whether the fallback applies to this end: the number of its verdict, the kind of its failure (from 32 on: no failure), and
/// whether the policy's classifier judged it.
#[wasm_bindgen]
pub fn falls_back(engine: u32, policy: u32, verdict: u32, failure: u32, judged: u32) -> u32 {
    let Some(verdict) = Verdict::ALL.get(verdict as usize) else { return 0 };
    let failure = u8::try_from(failure).ok().and_then(Kind::new);
    with(engine, |it| it.core.falls_back(PolicyId::from_word(policy), *verdict, failure, judged != 0)).into()
}

/// Whether a policy may repeat a call after an ambiguous failure, so that its effect may happen twice.
#[wasm_bindgen]
pub fn may_do_twice(engine: u32, policy: u32) -> u32 {
    with(engine, |it| it.core.policy_of(PolicyId::from_word(policy)).is_some_and(Policy::may_do_twice)).into()
}

/// The value in force of a policy's key (the input): a number, spans in microseconds. If the value is a word, returns NaN with the
/// word in the output; without a value, returns NaN with an empty output.
#[wasm_bindgen]
pub fn setting(engine: u32, policy: u32) -> f64 {
    let key = texts(|it| it.text(0, usize::MAX));
    with(engine, |it| {
        let word = match it.core.setting(PolicyId::from_word(policy), &key) {
            Some(Value::Number(number)) => return number,
            Some(Value::Text(word)) => word.to_owned(),
            None => String::new(),
        };
        texts(|it| it.output = word);
        f64::NAN
    })
}
