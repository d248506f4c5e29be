use super::*;
use proptest::prelude::*;

const VARIANTS: [Gradient2Variant; 4] =
    [Gradient2Variant::Guarded, Gradient2Variant::Steady, Gradient2Variant::Plain, Gradient2Variant::Netflix];

fn settings(variant: Gradient2Variant) -> Gradient2Settings {
    Gradient2Settings {
        max_concurrency: 200,
        min_concurrency: 1,
        long_window: 600,
        rtt_tolerance: 1.5,
        headroom: 4.0,
        variant,
    }
}

/// Feeds `count` samples of one RTT in µs, one a µs, of calls that use the whole limit.
fn told(limit: &mut Gradient2, rtt: u64, count: u64, from: u64) -> f64 {
    for n in from..from + count {
        let now = n + 1_000_000_000;
        let started = Time::from_micros(now - rtt);
        limit.on_latency(Duration::from_micros(rtt), started, limit.limit(), Time::from_micros(now));
    }
    limit.exact()
}

#[test]
fn the_reference_follows_its_published_vector() {
    let vector = crate::published::vector("gradient2_netflix.json");
    let reference = Gradient2Settings { min_concurrency: 20, ..settings(Gradient2Variant::Netflix) };

    let mut limit = Gradient2::new(reference);
    for expected in vector["constant_rtt_saturated_limit"].as_array().unwrap() {
        assert!((told(&mut limit, 5_000, 1, 0) - expected.as_f64().unwrap()).abs() < 1e-9);
    }

    let table = vector["capacity_10_rtt_100ms_times_max_1_inflight_over_10"].as_object().unwrap();
    let full = table["reaches_200_at_update"].as_u64().unwrap();
    let mut limit = Gradient2::new(reference);
    let mut checked = 0;
    for update in 1..=full {
        let in_flight = u64::from(limit.limit());
        assert!(in_flight < 200, "update {update}");
        told(&mut limit, 100_000 * in_flight.max(10) / 10, 1, update);
        if let Some(expected) = table.get(&update.to_string()) {
            assert_eq!(u64::from(limit.limit()), expected.as_u64().unwrap(), "update {update}");
            checked += 1;
        }
    }
    assert_eq!((limit.limit(), checked), (200, table.len() - 1));
}

/// Semantics 11: "Gradient2 that cannot fall below 2 × `queue_size` or drifts back up under sustained slowness".
#[test]
fn the_defects_of_the_seed_are_in_its_variant_only() {
    let slow = |variant| {
        let mut limit = Gradient2::new(Gradient2Settings { max_concurrency: 16, ..settings(variant) });
        told(&mut limit, 1_000, 200, 0);
        let fallen = (0..60).map(|n| told(&mut limit, 10_000, 1, n * 20_000)).fold(f64::MAX, f64::min);
        let later = (60..400).map(|n| told(&mut limit, 10_000, 1, n * 20_000)).fold(0.0, f64::max);
        (fallen, later)
    };
    let (fallen, _) = slow(Gradient2Variant::Plain);
    assert!((8.0..9.0).contains(&fallen), "never below 2 · headroom: {fallen}");
    let (fallen, later) = slow(Gradient2Variant::Guarded);
    assert!(fallen.to_bits() == 1.0f64.to_bits(), "{fallen}");
    assert!(later > 15.0, "and back up within 400 samples, as the baseline averages what is slow: {later}");
    let (fallen, later) = slow(Gradient2Variant::Steady);
    assert!(fallen < 2.1 && later < 8.0, "down, and there for all of them: {fallen} {later}");
}

#[test]
fn one_spike_does_not_halve_twice_and_drops_count_where_they_should() {
    for variant in VARIANTS {
        let guarded = matches!(variant, Gradient2Variant::Guarded | Gradient2Variant::Steady);
        let mut limit = Gradient2::new(settings(variant));
        told(&mut limit, 1_000, 100, 0);
        let before = limit.exact();
        let now = Time::from_micros(2_000_000_000);
        let started = Time::from_micros(1_999_000_000);
        for _ in 0..5 {
            limit.on_drop(started, limit.limit(), now);
        }
        let expected = if guarded { before * 0.5 } else { before };
        assert_eq!(limit.exact().to_bits(), expected.to_bits(), "{variant:?}");
        // A drop at the moment of the cut belongs to the old epoch; one a microsecond later begins a new one.
        limit.on_drop(now, limit.limit(), now.after(Duration::from_secs(1)));
        assert_eq!(limit.exact().to_bits(), expected.to_bits(), "{variant:?}");
        limit.on_drop(now.after(Duration::from_micros(1)), limit.limit(), now.after(Duration::from_secs(1)));
        assert_eq!(limit.exact() < expected, guarded, "{variant:?}");
    }
}

/// Feeds samples of one RTT, enough for a decision (ten, or half the limit), at `millis`, of calls that started one
/// RTT earlier, plus `late` µs.
fn epoch(limit: &mut Gradient2, rtt: u64, in_flight: u32, millis: u64, late: u64) -> f64 {
    let now = Time::from_micros(millis * 1_000);
    for _ in 0..12 {
        let started = Time::from_micros(millis * 1_000 - rtt + late);
        limit.on_latency(Duration::from_micros(rtt), started, in_flight, now);
    }
    limit.baseline().unwrap()
}

#[test]
fn a_steady_baseline_learns_from_others_and_not_from_its_own_queue() {
    let mut limit = Gradient2::new(settings(Gradient2Variant::Steady));
    let close =
        |found: f64, expected: f64| assert!((found - expected).abs() < 1e-6, "{found}, not {expected}");
    close(epoch(&mut limit, 1_000, 20, 100, 0), 1_000.0);
    close(limit.exact(), 20.8);
    // Slower, within the tolerance, and at the limit: our own queue may be the cause.
    close(epoch(&mut limit, 1_400, 20, 200, 0), 1_000.0);
    // Slower with little in flight: the server is the cause. Faster: the queue has emptied. Weight 22/601, from 11
    // samples.
    close(epoch(&mut limit, 1_400, 5, 300, 0), 1_000.0 + 400.0 * 22.0 / 601.0);
    let before = limit.exact();
    close(epoch(&mut limit, 900, 20, 400, 0), 1_014.642_263 - 114.642_263 * 22.0 / 601.0);
    let long = limit.baseline().unwrap();
    // Too slow: cut to nine tenths of what the baseline allows; the mean after a cut raises the baseline by a
    // twentieth at most.
    close(epoch(&mut limit, 1_600, 20, 500, 0), long);
    close(limit.exact(), (before + 0.8) * 0.9 * long / 1_600.0);
    close(epoch(&mut limit, 1_600, 12, 600, 0), long * 1.05);
    close(epoch(&mut limit, 1_110, 12, 700, 0), 1_110.0);
    close(epoch(&mut limit, 1_400, 12, 800, 0), 1_110.0);
}

#[test]
fn a_steady_baseline_from_a_bad_time_recovers() {
    let mut limit = Gradient2::new(settings(Gradient2Variant::Steady));
    epoch(&mut limit, 3_000, 20, 100, 0);
    // More than twice the mean: the decay takes 5 % in addition to the average.
    let expected = (3_000.0 - 2_000.0 * 22.0 / 601.0) * 0.95;
    assert!((epoch(&mut limit, 1_000, 20, 200, 0) - expected).abs() < 1e-6);
    let twice = (200..300).take_while(|n| epoch(&mut limit, 1_000, 20, n * 5, 0) > 2_000.0).count();
    assert!(twice < 8, "{twice}");
}

#[test]
fn a_steady_epoch_is_of_calls_that_started_after_it() {
    let mut limit = Gradient2::new(settings(Gradient2Variant::Steady));
    epoch(&mut limit, 1_000, 20, 100, 0);
    let before = limit.clone();
    epoch(&mut limit, 1_000, 20, 101, 0);
    assert_eq!(limit, before, "they started at the decision");
    epoch(&mut limit, 1_000, 20, 101, 1);
    assert!(limit.exact() > before.exact());
}

#[test]
fn little_in_flight_moves_nothing() {
    for variant in VARIANTS {
        let mut limit = Gradient2::new(settings(variant));
        let at = Time::from_micros;
        for n in 0..500 {
            limit.on_latency(
                Duration::from_micros(1 + n % 7 * 900),
                at(n * 10_000 + 1),
                9,
                at(n * 10_000 + 9_000),
            );
            limit.on_drop(at(n * 10_000 + 2), 9, at(n * 10_000 + 9_001));
        }
        assert_eq!(limit.exact().to_bits(), 20.0f64.to_bits(), "{variant:?}");
        assert!(limit.baseline().is_some() && !limit.is_fresh());
        for n in 500..520 {
            limit.on_latency(Duration::from_micros(1), at(n * 10_000 + 1), 10, at(n * 10_000 + 9_000));
        }
        assert!(limit.exact() > 20.0, "{variant:?}: half is enough");
    }
}

#[test]
fn a_first_rtt_of_nothing_harms_nobody() {
    for variant in VARIANTS {
        let mut limit = Gradient2::new(settings(variant));
        told(&mut limit, 0, 1, 0);
        for n in 0..100 {
            told(&mut limit, 1_000, 1, 10_000 + n * 5_000);
        }
        assert!(limit.exact() >= 1.0 && limit.baseline().unwrap() >= 1.0, "{variant:?}");
        assert!(told(&mut limit, 1_000, 30_000, 1_000_000) > 20.0, "{variant:?}: it recovers");
    }
}

#[test]
fn begins_at_twenty_within_its_range_and_a_retune_keeps_what_it_knows() {
    for (min, max, first) in [(1, 200, 20), (1, 8, 8), (50, 200, 50), (9, 4, 4), (0, 0, 1)] {
        let range = Gradient2Settings { min_concurrency: min, max_concurrency: max, ..settings(VARIANTS[0]) };
        assert!(Gradient2::new(range).limit() == first && Gradient2::new(range).is_fresh());
    }
    let mut limit = Gradient2::new(settings(VARIANTS[0]));
    told(&mut limit, 1_000, 30, 0);
    let baseline = limit.baseline();
    limit.retune(Gradient2Settings { max_concurrency: 30, ..settings(VARIANTS[2]) });
    assert_eq!((limit.limit(), limit.baseline()), (30, baseline));
    limit.retune(Gradient2Settings { min_concurrency: 90, ..settings(VARIANTS[1]) });
    assert_eq!((limit.limit(), limit.baseline()), (90, baseline));
}

proptest! {
    #[test]
    fn the_limit_stays_within_its_range(
        variant in prop::sample::select(VARIANTS.to_vec()),
        range in (0u32..50, 0u32..50), window in any::<u32>(), numbers in (any::<f64>(), any::<f64>()),
        steps in prop::collection::vec(
            (0u8..4, prop::sample::select(vec![0, 1, 1_000, u64::MAX]), any::<u64>(), any::<u32>(), any::<u64>()), 1..120),
    ) {
        let settings = Gradient2Settings {
            min_concurrency: range.0, max_concurrency: range.1, long_window: window,
            rtt_tolerance: numbers.0, headroom: numbers.1, variant,
        };
        let mut limit = Gradient2::new(settings);
        let (least, most) = (range.0.clamp(1, range.1.max(1)), range.1.max(1));
        for (op, rtt, started, in_flight, now) in steps {
            let (started, now) = (Time::from_micros(started), Time::from_micros(now));
            match op {
                0 => limit.on_drop(started, in_flight, now),
                _ => limit.on_latency(Duration::from_micros(rtt), started, in_flight, now),
            }
            prop_assert!((f64::from(least)..=f64::from(most)).contains(&limit.exact()));
            prop_assert!((least..=most).contains(&limit.limit()));
            prop_assert!(limit.baseline().is_none_or(f64::is_finite));
        }
    }
}
