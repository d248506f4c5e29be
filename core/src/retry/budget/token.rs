//! Tokens of budgets, counted in millionths.

/// One token in micro-tokens: fractions are added without drift.
pub(crate) const TOKEN: u64 = 1_000_000;

/// A fraction of a token, rounded to the nearest micro-token.
pub(crate) fn micro_tokens(tokens: f64) -> u64 {
    (tokens * TOKEN as f64 + 0.5) as u64
}
