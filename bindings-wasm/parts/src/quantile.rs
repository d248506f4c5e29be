// Generated from xtask/generate/src/parts by `cargo xtask generate`; do not edit.

//! Estimators of quantiles in bounded memory: what latency do 95 % of the calls not exceed?

use crate::handles::{keep, with};
use crate::maybe;
use crate::texts::{answer, texts};
use wasm_bindgen::prelude::wasm_bindgen;

/// A new one.
#[wasm_bindgen]
pub fn p2_quantile(p: f64) -> u32 {
    keep(tidegate::P2Quantile::new(p))
}

/// Adds one value. NaN and the infinities are ignored.
#[wasm_bindgen]
pub fn p2_quantile_observe(part: u32, x: f64) {
    with(part, |it: &mut tidegate::P2Quantile| it.observe(x));
}

/// The estimate; `None` before the first value.
#[wasm_bindgen]
pub fn p2_quantile_estimate(part: u32) -> f64 {
    maybe(with(part, |it: &mut tidegate::P2Quantile| it.estimate()))
}

/// Number of values.
#[wasm_bindgen]
pub fn p2_quantile_count(part: u32) -> f64 {
    with(part, |it: &mut tidegate::P2Quantile| it.count()) as f64
}

/// A new one.
#[wasm_bindgen]
pub fn windowed_p2_quantile(p: f64, window: u32) -> u32 {
    keep(tidegate::WindowedP2Quantile::new(p, window))
}

/// Adds one value. NaN and the infinities are ignored.
#[wasm_bindgen]
pub fn windowed_p2_quantile_observe(part: u32, x: f64) {
    with(part, |it: &mut tidegate::WindowedP2Quantile| it.observe(x));
}

/// The estimate; `None` before the first value, exact below five.
#[wasm_bindgen]
pub fn windowed_p2_quantile_estimate(part: u32) -> f64 {
    maybe(with(part, |it: &mut tidegate::WindowedP2Quantile| it.estimate()))
}

/// Number of values behind the estimate.
#[wasm_bindgen]
pub fn windowed_p2_quantile_count(part: u32) -> f64 {
    with(part, |it: &mut tidegate::WindowedP2Quantile| it.count()).into()
}

/// Forgets all values.
#[wasm_bindgen]
pub fn windowed_p2_quantile_reset(part: u32) {
    with(part, |it: &mut tidegate::WindowedP2Quantile| it.reset());
}

/// A new one.
#[wasm_bindgen]
pub fn dd_sketch(alpha: f64) -> u32 {
    keep(tidegate::DDSketch::new(alpha))
}

/// Adds one value. NaN and the infinities are ignored.
#[wasm_bindgen]
pub fn dd_sketch_add(part: u32, x: f64) {
    with(part, |it: &mut tidegate::DDSketch| it.add(x));
}

/// Estimate of the value of rank ⌊q·(count − 1)⌋, counted from 0: 0 is the least, 1 the greatest.
#[wasm_bindgen]
pub fn dd_sketch_quantile(part: u32, q: f64) -> f64 {
    maybe(with(part, |it: &mut tidegate::DDSketch| it.quantile(q)))
}

/// Number of values.
#[wasm_bindgen]
pub fn dd_sketch_count(part: u32) -> f64 {
    with(part, |it: &mut tidegate::DDSketch| it.count()) as f64
}

/// The sum of the values, in the order in which they came.
#[wasm_bindgen]
pub fn dd_sketch_sum(part: u32) -> f64 {
    with(part, |it: &mut tidegate::DDSketch| it.sum())
}

/// The least value, exactly; `None` of an empty sketch.
#[wasm_bindgen]
pub fn dd_sketch_min(part: u32) -> f64 {
    maybe(with(part, |it: &mut tidegate::DDSketch| it.min()))
}

/// The greatest value, exactly; `None` of an empty sketch.
#[wasm_bindgen]
pub fn dd_sketch_max(part: u32) -> f64 {
    maybe(with(part, |it: &mut tidegate::DDSketch| it.max()))
}

/// The relative accuracy that is kept: at most what was asked for.
#[wasm_bindgen]
pub fn dd_sketch_alpha(part: u32) -> f64 {
    with(part, |it: &mut tidegate::DDSketch| it.alpha())
}

/// (1 + alpha)/(1 − alpha): no bin is wider. Sketches of the same gamma can be merged.
#[wasm_bindgen]
pub fn dd_sketch_gamma(part: u32) -> f64 {
    with(part, |it: &mut tidegate::DDSketch| it.gamma())
}

/// Forgets all values and keeps the accuracy.
#[wasm_bindgen]
pub fn dd_sketch_clear(part: u32) {
    with(part, |it: &mut tidegate::DDSketch| it.clear());
}

/// The sketch as whole numbers of 64 bits: five, and one for each bin that holds values. Exact.
#[wasm_bindgen]
pub fn dd_sketch_to_words(part: u32) {
    let words: Vec<_> =
        with(part, |it: &mut tidegate::DDSketch| it.to_words()).iter().map(u64::to_string).collect();
    texts(|it| it.output = words.join(" "));
}

/// Takes in all that another sketch holds, as if each of its values had been added here.
#[wasm_bindgen]
pub fn dd_sketch_merge(part: u32, other: u32) -> f64 {
    let other = &&mut with(other, |it: &mut tidegate::DDSketch| it.clone());
    answer(
        with(part, |it: &mut tidegate::DDSketch| it.merge(other))
            .map(|()| 0.0)
            .map_err(|error| error.to_string()),
    )
}

/// Are they equal, to the last count?
#[wasm_bindgen]
pub fn dd_sketch_equals(part: u32, other: u32) -> u32 {
    let other = &&mut with(other, |it: &mut tidegate::DDSketch| it.clone());
    with(part, |it: &mut tidegate::DDSketch| it.eq(other)).into()
}

/// The sketch that the words in the input are: its handle, or −1 and in the output the rule that they break.
#[wasm_bindgen]
pub fn sketch_from_words() -> f64 {
    let text = texts(|it| it.text(0, usize::MAX));
    let words: Vec<_> = text.split_terminator(' ').filter_map(|word| word.parse().ok()).collect();
    let sketch = tidegate::DDSketch::from_words(&words);
    answer(sketch.map(|it| keep(it).into()).map_err(|error| error.to_string()))
}
