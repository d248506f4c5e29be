//! Weights of calls and what their attempts settle (semantics 3.5, 3.6), what requests and answers say about both (15.6, 15.7), and the
//! targets of attempts (17). This file only converts.

use tidegate::answer::{Estimate, Quotas, UsageReader};
use tidegate::{CallId, RouteId, WallTime, WeightError, wire};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::host::{host, with};
use crate::json::Json;
use crate::texts::{answer, texts};
use crate::{NO_WORD, time};

/// Begins a call as `begin` does. The input has the amounts of its weights: name, NUL, amount, NUL, and so on. Returns −1 with an
/// empty output for a malformed request, and −1 with the mistake in the output for wrong weights.
#[wasm_bindgen]
#[allow(clippy::too_many_arguments)] // the words of a request
pub fn begin_weighted(
    engine: u32,
    route: f64,
    flags: u32,
    remaining: f64,
    parent: f64,
    target: f64,
    now: f64,
) -> f64 {
    let input = texts(|it| {
        it.output.clear();
        it.text(0, usize::MAX)
    });
    let request = wire::unpack_request(u64::from(flags), remaining as u64, parent as u64, target as u64);
    let Some(request) = request else { return NO_WORD };
    let mut pieces = input.split_terminator('\0');
    let named = std::iter::from_fn(|| Some((pieces.next()?, pieces.next()?.parse().unwrap_or(u64::MAX))));
    let route = RouteId::from_word(route as u64);
    answer(with(engine, |it| {
        let (call, step) = match it.core.weights(route, named) {
            Ok(weights) => it.core.begin_weighted(route, &request, weights, time(now)),
            Err(WeightError::StaleRoute) => it.core.begin(route, &request, time(now)), // its answer says so
            Err(error) => return Err(error.to_string()),
        };
        it.begun = call;
        Ok(wire::pack_step(step) as f64)
    }))
}

/// Writes to the output why calls of a route need amounts of weights; nothing where they need none.
#[wasm_bindgen]
pub fn lacking_weights(engine: u32, route: f64) {
    let missing = match with(engine, |it| it.core.weights(RouteId::from_word(route as u64), [])) {
        Err(error @ WeightError::Missing { .. }) => error.to_string(),
        _ => String::new(),
    };
    texts(|it| it.output = missing);
}

/// Settles the total that an attempt has used so far of the weight that the input names. Returns 0 where the attempt has ended, or
/// counts no such weight.
#[wasm_bindgen]
pub fn settle(engine: u32, call: f64, attempt: u32, total: f64, now: f64) -> u32 {
    let name = texts(|it| it.text(0, usize::MAX));
    let call = CallId::from_word(call as u64);
    with(engine, |it| it.core.settle_weight(call, attempt as u8, &name, total as u64, time(now))).into()
}

/// Reports the headers of an answer to a call, which may say what is left of the service's quotas. The input has them: name, NUL,
/// value, NUL, and so on.
#[wasm_bindgen]
pub fn note_quotas(engine: u32, call: f64, now: f64) {
    let input = texts(|it| std::mem::take(&mut it.input));
    let mut pieces = input.split(|byte| *byte == 0);
    let mut headers = Vec::new();
    while let (Some(name), Some(value)) = (pieces.next(), pieces.next()) {
        headers.push((name, value));
    }
    let left = Quotas::read(&headers, WallTime::from_unix_micros(0)).left();
    with(engine, |it| it.core.note_quotas(CallId::from_word(call as u64), left, time(now)));
}

/// Writes the name of the target of a call's newest attempt to the output; nothing where it has none.
#[wasm_bindgen]
pub fn target_of(engine: u32, call: f64) {
    let call = CallId::from_word(call as u64);
    let name = with(engine, |it| it.core.target_of(call, None).map(str::to_owned)).unwrap_or_default();
    texts(|it| it.output = name);
}

/// Writes to the output which limit of a set refused a call, each part followed by NUL: all in words, the limit's name, and the weight
/// that it counts with the call's amount; nothing where no set refused it. Ask after the step that ended the call.
#[wasm_bindgen]
pub fn refusal_of(engine: u32, call: f64) {
    let call = CallId::from_word(call as u64);
    let text = with(engine, |it| {
        let refusal = it.core.refusal_of(call)?;
        let weight = refusal.weight.map(|(name, amount)| format!("{name}\0{amount}\0")).unwrap_or_default();
        Some(format!("{refusal}\0{}\0{weight}", refusal.limit))
    });
    texts(|it| it.output = text.unwrap_or_default());
}

/// Reads a request to a language model: the input has its path, of this length, and its body. Writes a JSON list to the output: tokens
/// of the prompt, the most tokens of the answer or null, and whether the answer is going to be a stream.
#[wasm_bindgen]
pub fn estimate(path: u32) {
    texts(|it| {
        let (path, body) = it.input.split_at((path as usize).min(it.input.len()));
        let estimate = Estimate::read(path, body);
        let mut json = Json::default();
        json.list(|json| {
            json.whole(estimate.input);
            maybe(json, estimate.output);
            json.whole(estimate.stream.into());
        });
        it.output = json.text;
    });
}

/// Makes a reader of what an answer has used, and returns its number.
#[wasm_bindgen]
pub fn usage() -> u32 {
    host(|host| host.usages.add(UsageReader::new()))
}

/// Reads the piece in the input.
#[wasm_bindgen]
pub fn read_usage(reader: u32) {
    host(|host| {
        if let Some(usage) = host.usages.get(reader) {
            texts(|it| usage.read(&it.input));
        }
    });
}

/// Writes what a reader has read to the output, as a JSON list: tokens of the prompt, of those the cached ones, and of the answer; null
/// for what the answer does not say.
#[wasm_bindgen]
pub fn usage_of(reader: u32) {
    host(|host| {
        let Some(reader) = host.usages.get(reader) else { return };
        let usage = reader.usage();
        let mut json = Json::default();
        json.list(|json| {
            for count in [usage.input, usage.cached, usage.output] {
                maybe(json, count);
            }
        });
        texts(|it| it.output = json.text);
    });
}

/// Drops a reader. Its number may be given to the next one.
#[wasm_bindgen]
pub fn forget_usage(reader: u32) {
    host(|host| host.usages.remove(reader));
}

fn maybe(json: &mut Json, count: Option<u64>) {
    match count {
        Some(count) => json.whole(count),
        None => json.literal("null"),
    }
}
