//! Randomness without a source: every draw is a pure function of the engine's seed and of the purpose of the draw.
//!
//! Rule R7: a draw depends only on (seed, the call's ordinal, purpose, attempt). So for one order of `begin`s no
//! interleaving of later events can change it, and every language draws the same.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Purpose of a draw. The value is part of the draw: never renumber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Purpose {
    /// Jitter of the computed backoff (semantics 2.5).
    Backoff = 1,
    /// Jitter on top of a server's Retry-After (semantics 2.7).
    RetryAfter = 2,
    /// Whether the adaptive throttle admits a call (semantics 6.1).
    Throttle = 3,
    /// Jitter of a circuit breaker's break (semantics 5.2).
    Break = 4,
    /// When to test a lost store again (semantics 10.4).
    Probe = 5,
    /// Name of a process in the store.
    Process = 6,
    /// The first and the second target that a balanced group draws (semantics 17.2).
    Target = 7,
    /// See [`Purpose::Target`].
    OtherTarget = 8,
    /// When, within each second, a call asks whether the link is back (semantics 2.22).
    Link = 9,
    /// Jitter of a cooldown (semantics 16.2).
    Cooldown = 10,
}

/// One output of `SplitMix64` started at `state`.
#[inline]
pub(crate) fn split_mix(state: u64) -> u64 {
    SplitMix64::seed_from_u64(state).next_u64()
}

/// 64 random bits for (seed, ordinal, purpose, attempt) (semantics 2.5).
#[inline]
pub fn bits(seed: u64, ordinal: u64, purpose: Purpose, attempt: u8) -> u64 {
    let call = split_mix(seed ^ split_mix(ordinal));
    split_mix(call ^ ((purpose as u64) << 8 | u64::from(attempt)))
}

/// Uniform over the whole range `low..=high`: `low + ((bits · (high − low + 1)) >> 64)` (semantics 2.5).
#[inline]
pub fn uniform(bits: u64, low: u64, high: u64) -> u64 {
    let width = u128::from(high.saturating_sub(low)) + 1;
    low + ((u128::from(bits) * width) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_mix_gives_the_published_sequence() {
        // The first outputs for seed 1234567, as published with the reference implementation.
        let mut rng = SplitMix64::seed_from_u64(1_234_567);
        assert_eq!(rng.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(rng.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn the_ends_of_a_range_are_reached_and_never_passed() {
        assert_eq!(uniform(0, 10, 20), 10);
        assert_eq!(uniform(u64::MAX, 10, 20), 20);
        assert_eq!(uniform(u64::MAX, 0, u64::MAX), u64::MAX);
        assert_eq!(uniform(12_345, 7, 7), 7);
    }

    #[test]
    fn draws_differ_by_each_of_their_arguments() {
        let draw = bits(1, 2, Purpose::Backoff, 3);
        assert_eq!(draw, bits(1, 2, Purpose::Backoff, 3));
        assert_ne!(draw, bits(2, 2, Purpose::Backoff, 3));
        assert_ne!(draw, bits(1, 3, Purpose::Backoff, 3));
        assert_ne!(draw, bits(1, 2, Purpose::RetryAfter, 3));
        assert_ne!(draw, bits(1, 2, Purpose::Backoff, 4));
    }
}
