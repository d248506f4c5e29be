//! Metrics: core's meter, and its series as JSON. This file only converts.

use tidegate::{Family, Meter, PolicyId, Reading, Series, Timed, Wait};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::host::{Engine, with};
use crate::json::Json;
use crate::texts::texts;

/// Selects the records that core makes: those for the listeners and those for the meter.
pub fn subscribe(engine: &mut Engine) {
    match (engine.heard, &engine.meter) {
        (true, _) => engine.core.subscribe(true),
        (false, Some(_)) => engine.core.subscribe_to(Meter::TYPES),
        (false, None) => engine.core.subscribe(false),
    }
}

/// Starts to count for metrics, unless already started: `max_routes` routes of each policy have series of their own.
#[wasm_bindgen]
pub fn measure(engine: u32, max_routes: u32) {
    with(engine, |it| {
        it.meter.get_or_insert_with(|| Meter::new(max_routes as usize));
        subscribe(it);
    });
}

/// Series as a JSON list: index of the family, policy, route, labels, and a number or counts and their sum.
pub fn listed(series: &[Series]) -> String {
    let mut json = Json::default();
    json.list(|json| series.iter().for_each(|one| written(json, one)));
    json.text
}

fn written(json: &mut Json, of: &Series) {
    json.list(|json| {
        json.whole(of.family as u64);
        json.string(&of.policy);
        json.string(&of.route);
        json.list(|json| of.labels.iter().for_each(|label| json.string(label)));
        match &of.reading {
            Reading::Number(number) => json.real(*number),
            Reading::Histogram { counts, sum } => json.list(|json| {
                json.list(|json| counts.iter().for_each(|count| json.whole(*count)));
                json.real(*sum);
            }),
        }
    });
}

/// Writes the label of the route with the key in the input to the output.
#[wasm_bindgen]
pub fn label(engine: u32, policy: u32) {
    let key = texts(|it| it.text(0, usize::MAX));
    let label = with(engine, |it| {
        let label = it.meter.as_mut().map(|meter| meter.label(PolicyId::from_word(policy), &key));
        label.unwrap_or("other").to_owned()
    });
    texts(|it| it.output = label);
}

/// Writes the families of metrics to the output, as JSON: name, instrument, labels besides `policy` and `route`, and meaning; then
/// the upper bounds of histograms, in seconds; then which events feed a histogram: type, what the call waited for or an empty text, whether it takes the event's
/// `wait` instead of `elapsed`, and the index of the family.
#[wasm_bindgen]
pub fn families() {
    let mut json = Json::default();
    json.list(|json| {
        json.list(|json| {
            for family in Family::ALL {
                json.list(|json| {
                    json.string(family.name());
                    json.string(family.instrument().name());
                    json.list(|json| family.labels().iter().for_each(|label| json.string(label)));
                    json.string(family.meaning());
                });
            }
        });
        json.list(|json| Meter::BOUNDS.iter().for_each(|bound| json.real(*bound)));
        json.list(|json| {
            for timed in Timed::ALL {
                json.list(|json| {
                    json.string(timed.what.name());
                    json.string(timed.why.map_or("", Wait::name));
                    json.whole(u64::from(timed.waits));
                    json.whole(timed.family as u64);
                });
            }
        });
    });
    texts(|it| it.output = json.text);
}
