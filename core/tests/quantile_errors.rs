//! How far P² is from the truth, by family of distribution (semantics 9.1): measured against sorted values, and held.
#![allow(clippy::disallowed_methods, reason = "samples are drawn through logarithms; no decision is")]

use tidegate::rng::{Purpose, bits};
use tidegate::{P2Quantile, WindowedP2Quantile};

/// A value from two draws between 0 and 1.
type Draw = fn(f64, f64) -> f64;

const FAMILIES: [(&str, Draw); 4] = [
    ("uniform", |u, _| u),
    ("exponential", |u, _| -(1.0 - u).ln()),
    // Box and Muller; σ = 1, a long tail.
    ("lognormal", |u, v| ((-2.0 * (1.0 - u).ln()).sqrt() * (core::f64::consts::TAU * v).cos()).exp()),
    // A cache: four calls in five take about 10 ms, the others about a second.
    ("bimodal", |u, v| if u < 0.8 { 0.010 + 0.002 * v } else { 1.0 + v }),
];

fn values(family: usize, run: u64, count: u64) -> Vec<f64> {
    let unit =
        |n: u64, attempt: u8| (bits(run, n, Purpose::Backoff, attempt) >> 11) as f64 / (1_u64 << 53) as f64;
    (0..count).map(|n| FAMILIES[family].1(unit(n, 1), unit(n, 2))).collect()
}

/// The estimate of P² after all of these.
fn p2(p: f64, values: &[f64]) -> f64 {
    let mut it = P2Quantile::new(p);
    for x in values {
        it.observe(*x);
    }
    it.estimate().unwrap()
}

/// How far the estimate's rank is from p, as a part of all values.
fn rank_error(estimate: f64, p: f64, values: &[f64]) -> f64 {
    let below = values.iter().filter(|x| **x <= estimate).count();
    (below as f64 / values.len() as f64 - p).abs()
}

/// Mean and worst error over as many runs as the iterator has.
fn summary(errors: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut sum, mut worst, mut count) = (0.0, 0.0_f64, 0.0);
    for error in errors {
        (sum, worst, count) = (sum + error, worst.max(error), count + 1.0);
    }
    (sum / count, worst)
}

/// The bounds are what was measured, with a third to a half on top. A middle quantile of two far modes is the weak spot
/// of a parabola through five points: the median of the bimodal family is the last row, and the rest do not need it.
#[test]
fn p2_is_as_exact_as_was_measured() {
    for (count, runs, mean, worst) in [(512, 40, 0.010, 0.045), (10_000, 10, 0.002, 0.004)] {
        for (family, (name, _)) in FAMILIES.iter().enumerate() {
            let streams: Vec<_> = (0..runs).map(|run| values(family, run, count)).collect();
            for p in [0.5, 0.9, 0.95, 0.99] {
                let found = summary(streams.iter().map(|stream| rank_error(p2(p, stream), p, stream)));
                let (mean, worst) = match (*name, count) {
                    ("bimodal", 512) if p < 0.9 => (0.18, 0.40),
                    ("bimodal", _) if p < 0.9 => (0.02, 0.09),
                    _ => (mean, worst),
                };
                assert!(found.0 <= mean && found.1 <= worst, "{name}, p = {p}, {count} values: {found:?}");
            }
        }
    }
}

/// The latency that hedges wait for: p95 over two windows of 512.
#[test]
fn the_windowed_p95_is_as_exact_as_was_measured() {
    for (family, (name, _)) in FAMILIES.iter().enumerate() {
        let errors = (0..8).flat_map(|run| {
            let stream = values(family, run, 2_048);
            let mut it = WindowedP2Quantile::new(0.95, 512);
            let mut errors = Vec::new();
            for (place, x) in stream.iter().enumerate() {
                it.observe(*x);
                if place >= 512 && place % 16 == 0 {
                    let recent = &stream[place + 1 - it.count() as usize..=place];
                    errors.push(rank_error(it.estimate().unwrap(), 0.95, recent));
                }
            }
            errors
        });
        let found = summary(errors);
        assert!(found.0 <= 0.009 && found.1 <= 0.10, "{name}: {found:?}");
    }
}

/// The middle marker starts at the median of five whatever p is, and has its place after about 3 ÷ (1 − p) values.
#[test]
fn far_quantiles_need_some_values_to_get_to_their_place() {
    for (family, (name, _)) in FAMILIES.iter().enumerate() {
        let mut population = values(family, 999, 2_000);
        population.sort_by(f64::total_cmp);
        let rank = |count| {
            let ranks = (0..100).map(|run| {
                let estimate = p2(0.95, &values(family, run, count));
                population.partition_point(|x| *x <= estimate) as f64 / 2_000.0
            });
            summary(ranks).0
        };
        let (five, sixty) = (rank(5), rank(60));
        assert!((0.4..0.6).contains(&five), "{name}: {five}");
        assert!((0.92..0.97).contains(&sixty), "{name}: {sixty}");
    }
}
