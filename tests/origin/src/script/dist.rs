//! Distributions of spans of time.

use super::read::{Item, ScriptError};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use std::time::Duration;

/// A duration that is drawn again each time.
#[derive(Debug, Clone, PartialEq)]
pub struct Dist {
    shape: Shape,
    /// No draw is longer than this, in milliseconds.
    longest_ms: f64,
}

#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Constant { ms: f64 },
    Exponential { mean_ms: f64 },
    Uniform { min_ms: f64, max_ms: f64 },
    Lognormal { median_ms: f64, sigma: f64 },
    Pareto { min_ms: f64, alpha: f64 },
}

/// A day: longer than any test, and short enough for all arithmetic.
const LONGEST_MS: f64 = 86_400_000.0;

impl Dist {
    /// Always `ms` milliseconds.
    pub fn constant(ms: f64) -> Self {
        Self { shape: Shape::Constant { ms: ms.clamp(0.0, LONGEST_MS) }, longest_ms: LONGEST_MS }
    }

    /// One draw. A constant draws nothing from `rng`.
    pub(crate) fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> Duration {
        let ms = match self.shape {
            Shape::Constant { ms } => ms,
            Shape::Exponential { mean_ms } => -mean_ms * unit(rng).ln(),
            Shape::Uniform { min_ms, max_ms } => min_ms + (max_ms - min_ms) * unit(rng),
            Shape::Lognormal { median_ms, sigma } => median_ms * (sigma * normal(rng)).exp(),
            Shape::Pareto { min_ms, alpha } => min_ms * unit(rng).powf(-1.0 / alpha),
        };
        Duration::from_secs_f64(ms.clamp(0.0, self.longest_ms) / 1e3)
    }

    pub(crate) fn read(item: &Item<'_>) -> Result<Self, ScriptError> {
        if item.value.is_number() {
            return Ok(Self::constant(item.number(0.0, LONGEST_MS)?));
        }
        if !item.value.is_object() {
            return Err(item.refuse("must be milliseconds or {\"kind\": …}"));
        }
        let all = item.object(&["kind", "mean_ms", "min_ms", "max_ms", "median_ms", "sigma", "alpha"])?;
        let kind = all.text("kind")?.ok_or_else(|| item.refuse("needs kind: a distribution is named"))?;
        let keys: &[&str] = match kind {
            "constant" => &["kind", "mean_ms"],
            "exponential" => &["kind", "mean_ms", "max_ms"],
            "uniform" => &["kind", "min_ms", "max_ms"],
            "lognormal" => &["kind", "median_ms", "mean_ms", "sigma", "max_ms"],
            "pareto" => &["kind", "min_ms", "mean_ms", "alpha", "max_ms"],
            _ => {
                let kind = all.item("kind").expect("kind was read above");
                return Err(kind.refuse("must be constant, exponential, uniform, lognormal or pareto"));
            }
        };
        let object = item.object(keys)?; // names a key of another kind
        let ms = |key: &str| object.number(key, 0.0, LONGEST_MS);
        let needed = |key: &str| ms(key)?.ok_or_else(|| item.refuse(format!("kind {kind} needs {key}")));
        let either = |rule: &str| item.refuse(format!("kind {kind} needs {rule}"));
        let longest_ms = ms("max_ms")?.unwrap_or(LONGEST_MS);
        let shape = match kind {
            "constant" => Shape::Constant { ms: needed("mean_ms")? },
            "exponential" => Shape::Exponential { mean_ms: needed("mean_ms")? },
            "uniform" => {
                let (min_ms, max_ms) = (needed("min_ms")?, needed("max_ms")?);
                if max_ms < min_ms {
                    return Err(item.refuse("max_ms must not be less than min_ms"));
                }
                Shape::Uniform { min_ms, max_ms }
            }
            "lognormal" => {
                let sigma = object.number("sigma", 0.0, 10.0)?.ok_or_else(|| either("sigma"))?;
                let median_ms = match (ms("median_ms")?, ms("mean_ms")?) {
                    (Some(median), None) => median,
                    (None, Some(mean)) => mean * (-sigma * sigma / 2.0).exp(),
                    _ => return Err(either("exactly one of median_ms and mean_ms")),
                };
                Shape::Lognormal { median_ms, sigma }
            }
            _ => {
                let alpha = object.number("alpha", 0.01, 100.0)?.ok_or_else(|| either("alpha"))?;
                let min_ms = match (ms("min_ms")?, ms("mean_ms")?) {
                    (Some(min), None) => min,
                    (None, Some(mean)) if alpha > 1.0 => mean * (alpha - 1.0) / alpha,
                    _ => {
                        return Err(either(
                            "exactly one of min_ms and mean_ms (mean_ms only with alpha above 1)",
                        ));
                    }
                };
                Shape::Pareto { min_ms, alpha }
            }
        };
        Ok(Self { shape, longest_ms })
    }
}

/// Uniform in (0, 1]: never 0, so that its logarithm is finite.
pub(crate) fn unit(rng: &mut Xoshiro256PlusPlus) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

/// Standard normal, by Box and Muller; the second value is thrown away to keep no state.
fn normal(rng: &mut Xoshiro256PlusPlus) -> f64 {
    (-2.0 * unit(rng).ln()).sqrt() * (std::f64::consts::TAU * unit(rng)).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;
    use serde_json::{Value, json};

    fn read(value: &Value) -> Result<Dist, ScriptError> {
        Dist::read(&Item { key: "delay".to_owned(), value })
    }

    fn draws(value: &Value) -> Vec<f64> {
        let dist = read(value).expect("a valid distribution");
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut all: Vec<f64> = (0..40_000).map(|_| dist.draw(&mut rng).as_secs_f64() * 1e3).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    fn near(actual: f64, expected: f64) {
        assert!((actual / expected - 1.0).abs() < 0.03, "{actual} is not near {expected}");
    }

    fn mean(all: &[f64]) -> f64 {
        all.iter().sum::<f64>() / all.len() as f64
    }

    #[test]
    fn each_kind_has_the_moments_it_promises() {
        near(mean(&draws(&json!(25))), 25.0);
        near(mean(&draws(&json!({"kind": "constant", "mean_ms": 3.5}))), 3.5);
        near(mean(&draws(&json!({"kind": "exponential", "mean_ms": 40}))), 40.0);
        let uniform = draws(&json!({"kind": "uniform", "min_ms": 10, "max_ms": 30}));
        near(mean(&uniform), 20.0);
        assert!(uniform[0] >= 10.0 && uniform[uniform.len() - 1] <= 30.0);
        near(draws(&json!({"kind": "lognormal", "median_ms": 50, "sigma": 0.5}))[20_000], 50.0);
        near(mean(&draws(&json!({"kind": "lognormal", "mean_ms": 50, "sigma": 0.5}))), 50.0);
        let pareto = draws(&json!({"kind": "pareto", "min_ms": 10, "alpha": 3}));
        near(mean(&pareto), 15.0);
        assert!(pareto[0] >= 10.0);
        near(mean(&draws(&json!({"kind": "pareto", "mean_ms": 15, "alpha": 3}))), 15.0);
    }

    #[test]
    fn max_ms_cuts_a_tail() {
        let all = draws(&json!({"kind": "pareto", "min_ms": 10, "alpha": 1, "max_ms": 100}));
        near(all[all.len() - 1], 100.0);
    }

    #[test]
    fn a_key_of_another_kind_is_named() {
        let error = read(&json!({"kind": "constant", "mean_ms": 1, "sigma": 2}))
            .expect_err("sigma is not constant's");
        assert_eq!(error.to_string(), "delay.sigma = 2: unknown key; known here: kind, mean_ms");
    }
}
