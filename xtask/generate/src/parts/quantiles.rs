//! How slow: estimators of quantiles in bounded memory.

use super::Ret::{MaybeReal, Nothing, Real, U32, U64};
use super::{Arg, Kind, Part, arg, part};

const GROUP: &str = "quantile";

// Core bounds what it is given to these, silently; for users a number outside them is a mistake.
fn quantile() -> Arg {
    arg("p", Kind::Real(0.001, 0.999)).told("The quantile, 0.001 to 0.999; 0.5 is the median.")
}

const OBSERVE: &str = "Takes in one value. NaN and the infinities are ignored.";

pub fn parts() -> Vec<Part> {
    vec![p2_quantile(), windowed_p2_quantile(), sketch()]
}

fn p2_quantile() -> Part {
    part(
            GROUP,
            "P2Quantile",
            "One quantile of all values so far, from five markers: the P² algorithm (`docs/spec.md`, 9.1).

            Jain and Chlamtac, CACM 28(10), 1985. 88 bytes, whatever the number of values; there is no forgetting.
            Exact below five values; a quantile far from the middle is told too low (or high) until some 3 ÷ (1 − p)
            values have moved the marker to its place.",
        )
        .beside(quantile())
        .examples(
            ">>> median = P2Quantile(0.5)
>>> for value in range(1, 1002):
...     median.observe(value)
>>> median.estimate, median.count
(501.0, 1001)",
            "val median = P2Quantile(0.5)
for (latency in listOf(0.02, 0.15, 0.74)) median.observe(latency)
median.estimate // 0.15",
            "let median = try Parts.P2Quantile(0.5)
for latency in [0.02, 0.15, 0.74] { median.observe(latency) }",
        )
        .does("observe", &[arg("x", Kind::Float)], Nothing, OBSERVE)
        .swift("observe(_ x)")
        .has("estimate", MaybeReal, "The estimate; {none} before the first value.")
        .has("count", U64, "How many values have been taken in.")
}

fn windowed_p2_quantile() -> Part {
    part(
        GROUP,
        "WindowedP2Quantile",
        "One quantile of the last ½ to 1 windows, whatever came before (`docs/spec.md`, 9.2).

            Two overlapping `P2Quantile`s, so that old values are forgotten and there is always an answer.",
    )
    .beside(quantile())
    .beside(
        arg("window", Kind::Whole(10, 32))
            .told("How many values are remembered at most; 10 to {u32}. An odd window is one value shorter."),
    )
    .examples(
        ">>> p95 = WindowedP2Quantile(0.95, window=512)
>>> for latency in [0.020] * 10_000 + [0.080] * 512:
...     p95.observe(latency)
>>> p95.estimate
0.08",
        "val p99 = WindowedP2Quantile(0.99, window = 1_000)
p99.observe(0.02)",
        "",
    )
    .does("observe", &[arg("x", Kind::Float)], Nothing, OBSERVE)
    .swift("observe(_ x)")
    .has("estimate", MaybeReal, "The estimate; {none} before the first value, exact below five.")
    .has("count", U32, "How many values are behind the estimate.")
    .does("reset", &[], Nothing, "Forgets all values.")
}

fn sketch() -> Part {
    part(
            GROUP,
            "DDSketch",
            "All quantiles within a relative accuracy, and sketches that can be merged (`docs/spec.md`, 9.3).

            Masson, Rim and Lee, VLDB 2019, with integer arithmetic: the same bins on every machine and in every
            language. At most 2,048 bins, 16 KiB; a negative value counts as zero. A sketch is data: equal ones
            compare equal, and it can be sent as words.",
        )
        .beside(
            arg("alpha", Kind::Real(0.001, 0.25))
                .or("0.01")
                .told("The relative accuracy, 0.001 to 0.25; by default 0.01, so 1 %."),
        )
        .examples(
            ">>> here, there = DDSketch(alpha=0.01), DDSketch(alpha=0.01)
>>> for ms in range(1, 501):
...     here.add(ms)
>>> for ms in range(501, 1002):
...     there.add(ms)
>>> here.merge(there)
>>> here.count, here.max, abs(here.quantile(0.5) - 501) <= 5.01
(1001, 1001.0, True)
>>> DDSketch.from_words(here.to_words()) == here
True",
            "val sketch = DDSketch()
for (latency in listOf(0.02, 0.15, 0.74)) sketch.add(latency)
sketch.quantile(0.5) // 0.15, within 1 %",
            "",
        )
        .does("add", &[arg("x", Kind::Float)], Nothing, OBSERVE)
        .swift("add(_ x)")
        .does(
            "quantile",
            &[arg("q", Kind::Real(0.0, 1.0))],
            MaybeReal,
            "What stands for the value of rank ⌊q·(count − 1)⌋, counted from 0: 0 is the least, 1 the greatest.

            Those two are exact, all others within `alpha` of the true value, relative to it. {None} of an empty
            sketch. `q` is 0 to 1.",
        )
        .swift("-")
        .has("count", U64, "How many values have been taken in.")
        .has("sum", Real, "The sum of the values, in the order in which they came.")
        .has("min", MaybeReal, "The least value, exactly; {none} of an empty sketch.")
        .has("max", MaybeReal, "The greatest value, exactly; {none} of an empty sketch.")
        .has("alpha", Real, "The relative accuracy that is kept: at most what was asked for.")
        .has("gamma", Real, "(1 + alpha)/(1 − alpha): no bin is wider. Sketches of the same gamma can be merged.")
        .does("clear", &[], Nothing, "Forgets all values and keeps the accuracy.")
}
