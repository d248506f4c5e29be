//! Exports that only the full module has.

use tidegate::{CallId, Duration, HttpFailure, Policy, PolicyId, Pool, PoolKind, RouteId, WallTime, wire};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::host::with;
use crate::json::{self, listed};
use crate::texts::{answer, mistakes, pieces, staged, texts};
use crate::{NO_WORD, clashed, meter, time};

/// Removes an owner of a policy. `keep` keeps the policy's counts, for a later policy of the same name.
#[wasm_bindgen]
pub fn release(engine: u32, policy: u32, keep: u32, now: f64) {
    with(engine, |it| it.core.release_policy(PolicyId::from_word(policy), keep != 0, time(now)));
}

/// Gives a policy the staged pairs as its settings. Returns 0, and `wakes` lists the calls that can continue; or −1, as for
/// `policy`.
#[wasm_bindgen]
pub fn retune(engine: u32, policy: u32, now: f64) -> f64 {
    let retuned = staged(Policy::from_pairs).map_err(|errors| mistakes(&errors)).and_then(|to| {
        let retuned = with(engine, |it| it.core.retune(PolicyId::from_word(policy), to, time(now)));
        retuned.map_err(|clash| clashed("policy", &clash))
    });
    answer(retuned.map(|_| 0.0))
}

/// Takes in the staged pairs as a pool, or gives them to an existing pool as its settings. Returns 0, or −1 as for `policy`. Kinds
/// are in the order of `PoolKind::ALL`.
#[wasm_bindgen]
pub fn pool(engine: u32, kind: u32, again: u32, now: f64) -> f64 {
    let Some(kind) = PoolKind::ALL.get(kind as usize) else { return NO_WORD };
    let made = staged(|name, pairs| Pool::from_pairs(name, *kind, pairs));
    let taken = made.map_err(|errors| mistakes(&errors)).and_then(|pool| {
        let taken = with(engine, |it| match again {
            0 => it.core.pool(pool, time(now)),
            _ => it.core.retune_pool(pool, time(now)).map(drop),
        });
        taken.map_err(|clash| clashed("pool", &clash))
    });
    answer(taken.map(|()| 0.0))
}

/// The number of the path in the input, for `begin`; 0 if the policy holds no retries.
#[wasm_bindgen]
pub fn target(engine: u32, route: f64, now: f64) -> f64 {
    let path = texts(|it| it.text(0, usize::MAX));
    with(engine, |it| it.core.path_id(RouteId::from_word(route as u64), &path, time(now)).to_word()) as f64
}

/// The outcome of an HTTP response of whose body the beginning was read, at its position in the word of a Finished event. The input has
/// so many headers: name, NUL, value, NUL, and so on; then the body.
#[wasm_bindgen]
pub fn classify_read(engine: u32, policy: u32, status: u32, wall_us: f64, headers: u32) -> f64 {
    let input = texts(|it| std::mem::take(&mut it.input));
    let (mut rest, mut pairs) = (&input[..], Vec::new());
    for _ in 0..headers {
        let mut pieces = rest.splitn(3, |byte| *byte == 0);
        let (Some(name), Some(value)) = (pieces.next(), pieces.next()) else { break };
        pairs.push((name, value));
        rest = pieces.next().unwrap_or_default();
    }
    let failure = HttpFailure { status: status as u16, headers: &pairs };
    let wall = WallTime::from_unix_micros(wall_us as u64);
    let policy = PolicyId::from_word(policy);
    with(engine, |it| wire::pack_outcome(it.core.classify_read(policy, &failure, rest, wall)) as f64)
}

/// Refuses all calls of a policy (or only of the route, if that is not 0), or admits them again. Then call `wakes`.
#[wasm_bindgen]
pub fn force_open(engine: u32, policy: u32, route: f64, on: u32, now: f64) {
    let route = (route > 0.0).then(|| RouteId::from_word(route as u64));
    with(engine, |it| {
        let _ = it.core.force_open(PolicyId::from_word(policy), route, on != 0, time(now));
    });
}

/// Refuses all attempts at a target, or admits them again; the input has the names of group and target, each terminated by NUL. Returns 0,
/// or −1 with the mistake in the output.
#[wasm_bindgen]
pub fn force_target(engine: u32, on: u32, now: f64) -> f64 {
    let names = texts(|it| it.text(0, usize::MAX));
    let mut names = names.split('\0');
    let (group, target) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
    let forced = with(engine, |it| it.core.force_target(group, target, on != 0, time(now)));
    answer(forced.map(|_| 0.0).map_err(|clash| clashed("target", &clash)))
}

/// Microseconds until the deadline of a call; negative without one, and for a call that has ended.
#[wasm_bindgen]
pub fn time_left(engine: u32, call: f64, now: f64) -> f64 {
    let left = with(engine, |it| it.core.time_left(CallId::from_word(call as u64), time(now)).call);
    left.map_or(-1.0, |span| span.as_micros() as f64)
}

/// The kinds of failure that a policy declares, in the order of their numbers, which start at 9: name and base class, each
/// terminated by NUL.
#[wasm_bindgen]
pub fn kinds(engine: u32, policy: u32) {
    let text = with(engine, |it| kinds_of(it.core.policy_of(PolicyId::from_word(policy))));
    texts(|it| it.output = text);
}

/// The state of the engine, as JSON.
#[wasm_bindgen]
pub fn snapshot(engine: u32, now: f64) {
    let view = with(engine, |it| it.core.snapshot(time(now)));
    texts(|it| it.output = json::snapshot(&view));
}

/// The learned state of the engine, as JSON for `restore`.
#[wasm_bindgen]
pub fn save(engine: u32, now: f64) {
    let saved = with(engine, |it| it.core.save(time(now)));
    texts(|it| it.output = saved);
}

/// Reports the wall clock, in milliseconds since 1970, where limits refill by its windows; without one it does nothing. Returns
/// whether there are such limits.
#[wasm_bindgen]
pub fn note_wall(engine: u32, wall_ms: f64, now: f64) -> u32 {
    with(engine, |it| {
        if it.core.needs_wall() {
            it.core.note_wall(WallTime::from_unix_micros((wall_ms * 1_000.0) as u64), time(now));
        }
        it.core.needs_wall().into()
    })
}

/// Restores the result of `save` in the input, which has this age. Returns 0, with a report in the output, or −1, with the reason
/// in the output.
#[wasm_bindgen]
pub fn restore(engine: u32, elapsed_us: f64, now: f64) -> f64 {
    let saved = texts(|it| it.text(0, usize::MAX));
    let elapsed = Duration::from_micros(elapsed_us as u64);
    match with(engine, |it| it.core.restore(&saved, elapsed, time(now))) {
        Ok(restored) => {
            texts(|it| it.output = json::restored(&restored));
            0.0
        }
        Err(error) => answer(Err(error.to_string())),
    }
}

/// Starts or stops keeping records for `records`.
#[wasm_bindgen]
pub fn subscribe(engine: u32, on: u32) {
    with(engine, |it| {
        it.heard = on != 0;
        meter::subscribe(it);
    });
}

/// Counts the new records for metrics and, if there is a listener, writes them to the output as a JSON list. Returns the number of
/// records dropped so far.
#[wasm_bindgen]
pub fn records(engine: u32) -> f64 {
    with(engine, |it| {
        let mut records = Vec::new();
        it.core.take_records(&mut records);
        if let Some(meter) = &mut it.meter {
            for record in &records {
                meter.add(&it.core, record);
            }
        }
        if it.heard {
            let text = listed(records.iter().map(ToString::to_string));
            texts(|it| it.output = text);
        }
        it.core.records_dropped() as f64
    })
}

/// Writes the key of a route to the output, for a record; an evicted route has an empty key.
#[wasm_bindgen]
pub fn key_of(engine: u32, route: f64) {
    let key = with(engine, |it| it.core.key_of(RouteId::from_word(route as u64)).map(str::to_owned));
    texts(|it| it.output = key.unwrap_or_default());
}

/// The kinds that a policy declares, as name and base.
fn kinds_of(policy: Option<&Policy>) -> String {
    let base = |policy: &Policy, name| policy.kind_of(name).map_or("", |kind| policy.class_of(kind).name());
    pieces(policy.iter().flat_map(|policy| policy.kinds().flat_map(|name| [name, base(policy, name)])))
}

/// Records that a caller got the value of a fallback instead of an error on this route, or that the fallback failed.
#[wasm_bindgen]
pub fn note_fallback(engine: u32, route: f64, ok: u32, now: f64) {
    with(engine, |it| it.core.note_fallback(RouteId::from_word(route as u64), ok != 0, time(now)));
}
