//! Metrics: core's meter, and its series as JSON. Conversions and nothing else.

use tidegate::{Family, Meter, PolicyId, Reading, Series};
use wasm_bindgen::prelude::wasm_bindgen;

use crate::host::{Engine, host, with};
use crate::json::Json;

/// Which records core is to make, for those who listen and for the meter between them.
pub fn subscribe(engine: &mut Engine) {
    match (engine.heard, &engine.meter) {
        (true, _) => engine.core.subscribe(true),
        (false, Some(_)) => engine.core.subscribe_to(Meter::TYPES),
        (false, None) => engine.core.subscribe(false),
    }
}

/// Starts to count for metrics, if nobody has: `max_routes` routes of each policy have series of their own.
#[wasm_bindgen]
pub fn measure(engine: u32, max_routes: u32) {
    with(engine, |it| {
        it.meter.get_or_insert_with(|| Meter::new(max_routes as usize));
        subscribe(it);
    });
}

/// Series as a list in JSON: the family's place, policy, route, labels, and a number or counts and their sum.
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

/// What the route of the key in the input is called in labels: in the output.
#[wasm_bindgen]
pub fn label(engine: u32, policy: u32) {
    let key = host(|host| host.text(0, usize::MAX));
    let label = with(engine, |it| {
        let label = it.meter.as_mut().map(|meter| meter.label(PolicyId::from_word(policy), &key));
        label.unwrap_or("other").to_owned()
    });
    host(|host| host.output = label);
}

/// The families of metrics as JSON in the output: name, instrument, labels beside `policy` and `route`, and what it says;
/// and after them the upper bounds of histograms, in seconds.
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
    });
    host(|host| host.output = json.text);
}
