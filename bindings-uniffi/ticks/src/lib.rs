//! The current time, for hosts whose native half reads the clock. Two readings of the system's clock took a quarter of a call on the JVM
//! (ADR 0010) and half of one in Python (ADR 0083).
//!
//! The processor's counter stands in between two readings of the system's clock that are at most a millisecond apart; what it
//! counts by is measured anew all the time. So an error, whatever it comes from (a machine that is moved, a frequency that
//! changes), is one of less than a millisecond; core lets no time run back. Only on Linux on x86-64, and only where
//! the kernel itself trusts the counter, and reading it is at least twice as fast. Elsewhere the host reads its own clock.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // for a host, it reads the clock
#![cfg_attr(not(all(target_arch = "x86_64", target_os = "linux")), allow(dead_code))]

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// As far from a reading as the counter is believed.
const TRUSTED: Duration = Duration::from_millis(1);
/// What the counter counts by is measured over at least this, and at most that.
const LEAST: Duration = Duration::from_millis(10);
const MOST: Duration = Duration::from_secs(1);

/// A reading of both.
#[derive(Clone, Copy)]
struct Reading {
    ticks: u64,
    ns: u64,
}

/// A clock of the host's, known by its time at one moment.
pub struct Ticks {
    base: Instant,
    base_ns: u64,
    last: Reading,
    /// Where what the counter counts by is measured from.
    mark: Reading,
    /// Nanoseconds by tick, as a fraction of 2^32.
    rate: u64,
    /// Ticks after `last` that are believed; 0 while there is no rate.
    trusted: u64,
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn ticks() -> u64 {
    // SAFETY: every x86-64 has it.
    #[allow(unsafe_code)]
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn ticks() -> u64 {
    0
}

/// Does the kernel itself keep time by the counter?
fn trusted() -> bool {
    cfg!(all(target_arch = "x86_64", target_os = "linux"))
        && std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .is_ok_and(|source| source.trim() == "tsc")
}

/// Does the counter earn its place? It has to be read at least twice as fast as the system's clock, because the arithmetic around it
/// costs as much again: on some machines both cost the same.
fn worth(counter: Duration, clock: Duration) -> bool {
    counter * 2 < clock
}

/// Some ten microseconds of measuring.
fn quicker() -> bool {
    let base = Instant::now();
    worth(shortest(ticks), shortest(|| base.elapsed().as_nanos() as u64))
}

/// The shortest of a few rounds: what else the machine does only makes one longer.
fn shortest(read: impl Fn() -> u64) -> Duration {
    let round = || {
        let began = Instant::now();
        for _ in 0..32 {
            black_box(read());
        }
        began.elapsed()
    };
    (0..5).map(|_| round()).min().unwrap_or_default()
}

impl Ticks {
    /// A clock that says `ns` now; nothing where there is no counter to trust, or where it is no quicker.
    pub fn new(ns: u64) -> Option<Self> {
        static STANDS_IN: OnceLock<bool> = OnceLock::new();
        if !STANDS_IN.get_or_init(|| trusted() && quicker()) {
            return None;
        }
        let here = Reading { ticks: ticks(), ns };
        Some(Self { base: Instant::now(), base_ns: ns, last: here, mark: here, rate: 0, trusted: 0 })
    }

    /// The present, in microseconds.
    #[inline]
    pub fn now(&mut self) -> u64 {
        let ticks = ticks();
        let gone = ticks.wrapping_sub(self.last.ticks);
        if gone < self.trusted {
            return (self.last.ns + ((gone * self.rate) >> 32)) / 1_000;
        }
        let ns = self.base_ns.saturating_add(self.base.elapsed().as_nanos() as u64);
        self.read(Reading { ticks, ns });
        ns / 1_000
    }

    /// Takes a reading of both in.
    #[cold]
    fn read(&mut self, here: Reading) {
        self.last = here;
        let span = Duration::from_nanos(here.ns.saturating_sub(self.mark.ns));
        if span < LEAST {
            return;
        }
        let gone = here.ticks.wrapping_sub(self.mark.ticks);
        let rate = ((u128::from(here.ns - self.mark.ns) << 32) / u128::from(gone.max(1))) as u64;
        // From 0.1 to 10 GHz, and nobody slept.
        let known = span < MOST && (1 << 32) / 10 < rate && rate < 10 << 32;
        (self.rate, self.trusted) =
            if known { (rate, ((TRUSTED.as_nanos() << 32) / u128::from(rate)) as u64) } else { (0, 0) };
        self.mark = here;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> Ticks {
        let here = Reading { ticks: 0, ns: 0 };
        Ticks { base: Instant::now(), base_ns: 0, last: here, mark: here, rate: 0, trusted: 0 }
    }

    #[test]
    fn what_the_counter_counts_by_is_measured_and_believed_for_a_millisecond() {
        let mut clock = clock();
        clock.read(Reading { ticks: 15_000_000, ns: 5_000_000 });
        assert_eq!(clock.trusted, 0, "5 ms are too short to measure by");
        clock.read(Reading { ticks: 60_000_000, ns: 20_000_000 });
        assert!((2_999_000..=3_000_001).contains(&clock.trusted), "{}", clock.trusted);
        assert_eq!(clock.last.ns + ((3_000 * clock.rate) >> 32), 20_000_999, "3,000 ticks at 3 GHz");
    }

    #[test]
    fn a_counter_that_costs_as_much_as_the_clock_is_left_alone() {
        let ns = Duration::from_nanos;
        assert!(worth(ns(10), ns(22)) && !worth(ns(23), ns(19)) && !worth(ns(10), ns(20)));
        assert!(shortest(|| 1) < Duration::from_secs(1));
    }

    #[test]
    fn a_counter_that_is_wrong_is_not_believed() {
        let mut clock = clock();
        for (ticks, ns) in [(10, 20_000_000), (20, 2_000_000_000), (u64::MAX / 2, 2_020_000_000)] {
            clock.read(Reading { ticks, ns });
            assert_eq!(clock.trusted, 0, "{ticks} ticks in {ns} ns");
        }
        // It runs back: what has gone is more than any trust.
        clock.read(Reading { ticks: u64::MAX / 2 + 60_000_000, ns: 2_040_000_000 });
        assert!(clock.trusted > 0 && 5_u64.wrapping_sub(clock.last.ticks) > clock.trusted);
    }

    #[test]
    fn it_goes_with_the_systems_clock() {
        let Some(mut clock) = Ticks::new(7_000_000) else { return assert!(!(trusted() && quicker())) };
        let began = Instant::now();
        let mut worst = 0;
        while began.elapsed() < Duration::from_millis(100) {
            let before = began.elapsed().as_micros() as u64;
            let reading = clock.now();
            let after = began.elapsed().as_micros() as u64;
            worst = worst
                .max((7_000 + before).saturating_sub(reading + 2))
                .max(reading.saturating_sub(7_000 + after + 2));
        }
        assert!(worst < 1_000, "{worst} µs away");
        assert!(clock.trusted > 0, "it was never believed");
    }
}
