//! What the estimators promise, whatever values they are told (semantics 9).

use proptest::prelude::*;
use tidegate::{DDSketch, MergeError, WordsError};

/// The least value that counts as one.
const LEAST: f64 = f64::MIN_POSITIVE;

fn of(alpha: f64, values: &[f64]) -> DDSketch {
    let mut sketch = DDSketch::new(alpha);
    for x in values {
        sketch.add(*x);
    }
    sketch
}

/// The values as a sketch counts them, in ascending order.
fn counted(values: &[f64]) -> Vec<f64> {
    let mut taken: Vec<f64> = values.iter().filter(|x| x.is_finite()).map(|x| x.max(0.0)).collect();
    taken.sort_by(f64::total_cmp);
    taken
}

fn rank(q: f64, count: usize) -> usize {
    (q * (count - 1) as f64).floor() as usize
}

/// Values of latencies, with zeros, negative ones and what is no number.
fn latency() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => 1e-3f64..1e4,
        2 => (-9i32..9).prop_map(|e| f64::from_bits(((e + 1_023) as u64) << 52)),
        1 => prop::sample::select(vec![0.0, -0.0, -3.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, LEAST, LEAST / 4.0]),
    ]
}

/// Any number at all.
fn any_value() -> impl Strategy<Value = f64> {
    any::<u64>().prop_map(f64::from_bits)
}

/// Equal but for the sum, whose last digits depend on the order.
fn equal_counts(one: &DDSketch, other: &DDSketch) -> bool {
    let counts = |sketch: &DDSketch| {
        let mut words = sketch.to_words();
        words.remove(2);
        words
    };
    let close = (one.sum() - other.sum()).abs() <= 1e-9 * one.sum();
    close && counts(one) == counts(other)
}

proptest! {
    #[test]
    fn quantiles_are_within_the_accuracy(
        alpha in 0.001f64..0.25,
        values in prop::collection::vec(1f64..1e1, 1..300),
        qs in prop::collection::vec(0.0f64..=1.0, 1..20),
    ) {
        let (sketch, sorted) = (of(alpha, &values), counted(&values));
        for q in qs {
            let (found, exact) = (sketch.quantile(q).unwrap(), sorted[rank(q, sorted.len())]);
            prop_assert!((found - exact).abs() <= alpha * exact, "{found} for {exact}");
        }
    }

    /// Of any numbers at all: high quantiles keep the accuracy, and below the collapsed bin nothing is too low. What is
    /// less than the least normal number is zero.
    #[test]
    fn any_numbers_are_survived(values in prop::collection::vec(any_value(), 1..200), q in 0.0f64..=1.0) {
        let (sketch, sorted) = (of(0.01, &values), counted(&values));
        prop_assert_eq!(sketch.count(), sorted.len() as u64);
        prop_assert_eq!((sketch.min(), sketch.max()), (sorted.first().copied(), sorted.last().copied()));
        prop_assert!(sketch.sum().is_finite());
        match sketch.quantile(q) {
            None => prop_assert!(sorted.is_empty()),
            Some(found) => {
                let exact = sorted[rank(q, sorted.len())];
                let close = (found - exact).abs() <= 0.01 * exact || (exact < LEAST && found < LEAST);
                let far_below = exact < sorted[sorted.len() - 1] / 1e15;
                prop_assert!(close || far_below && found >= exact * 0.99, "{found} for {exact}");
            }
        }
    }

    #[test]
    fn quantiles_ascend_and_stay_between_the_ends(
        values in prop::collection::vec(latency(), 0..200),
        mut qs in prop::collection::vec(-0.5f64..1.5, 2..20),
    ) {
        let sketch = of(0.02, &values);
        qs.sort_by(f64::total_cmp);
        let found: Vec<_> = qs.iter().map(|q| sketch.quantile(*q)).collect();
        prop_assert!(found.is_sorted(), "{found:?}");
        prop_assert!(found.iter().all(|x| *x >= sketch.min() && *x <= sketch.max()));
        prop_assert_eq!((sketch.quantile(0.0), sketch.quantile(1.0)), (sketch.min(), sketch.max()));
        prop_assert_eq!(sketch.quantile(f64::NAN), None);
    }

    #[test]
    fn merging_is_adding_everything_to_one(
        parts in prop::collection::vec(prop::collection::vec(latency(), 0..60), 3),
        wild in any::<bool>(),
        scale in prop::sample::select(vec![1e-200, 1.0, 1e200]),
    ) {
        // Scaled apart, most values are collapsed, and it must not matter when.
        let mut parts = parts;
        if wild {
            for x in &mut parts[1] {
                *x *= scale;
            }
        }
        let [a, b, c] = [0, 1, 2].map(|place| of(0.01, &parts[place]));
        let merged = |one: &DDSketch, other: &DDSketch| {
            let mut sum = one.clone();
            assert_eq!(sum.merge(other), Ok(()));
            sum
        };
        let all = of(0.01, &parts.concat());
        prop_assert!(equal_counts(&merged(&a, &b), &merged(&b, &a)));
        prop_assert!(equal_counts(&merged(&merged(&a, &b), &c), &all));
        prop_assert!(equal_counts(&merged(&a, &merged(&b, &c)), &all));
        prop_assert_eq!(merged(&a, &DDSketch::new(0.01)), a);
    }

    #[test]
    fn words_are_exact(values in prop::collection::vec(prop_oneof![latency(), any_value()], 0..200), alpha in 0.001f64..0.25) {
        let sketch = of(alpha, &values);
        prop_assert_eq!(DDSketch::from_words(&sketch.to_words()), Ok(sketch));
    }

    /// Words that anybody has meddled with: an error, or a sketch whose words they are and that works.
    #[test]
    fn no_words_panic(
        values in prop::collection::vec(latency(), 0..40),
        bits in prop::collection::vec((any::<prop::sample::Index>(), 0u32..64), 1..6),
        cut in 0usize..3,
        q in 0.0f64..=1.0,
    ) {
        let mut words = of(0.01, &values).to_words();
        for (place, bit) in bits {
            let place = place.index(words.len());
            words[place] ^= 1 << bit;
        }
        words.truncate(words.len() - cut);
        if let Ok(mut sketch) = DDSketch::from_words(&words) {
            prop_assert_eq!(&sketch.to_words(), &words);
            let found = sketch.quantile(q);
            prop_assert!(found >= sketch.min() && found <= sketch.max());
            let twin = sketch.clone();
            let twice = sketch.merge(&twin);
            prop_assert!(twice.is_err() || sketch.count() == 2 * twin.count());
        }
    }

    #[test]
    fn arbitrary_words_are_refused_or_are_a_sketch(words in prop::collection::vec(any::<u64>(), 0..12)) {
        if let Ok(sketch) = DDSketch::from_words(&words) {
            prop_assert_eq!(sketch.to_words(), words);
        }
    }
}

#[test]
fn sketches_of_different_accuracy_do_not_merge() {
    let (mut one, other) = (of(0.01, &[1.0]), of(0.02, &[2.0]));
    let before = one.clone();
    let told = one.merge(&other);
    assert_eq!(told, Err(MergeError::Accuracy { ours: 0.375 / 38.0, theirs: 0.375 / 19.0 }));
    assert!(told.unwrap_err().to_string().contains("different bins"));
    assert_eq!(one, before);
    assert!(one.gamma() < other.gamma());
    assert!((one.gamma() - (1.0 + one.alpha()) / (1.0 - one.alpha())).abs() < 1e-15);
}

#[test]
fn the_least_value_is_one_and_anything_less_is_zero() {
    let below = f64::from_bits(LEAST.to_bits() - 1);
    let sketch = of(0.01, &[below, LEAST, LEAST, 2.0 * LEAST]);
    assert_eq!(sketch.to_words()[1], 1, "one zero");
    let found = sketch.quantile(0.5).unwrap();
    assert!((found - LEAST).abs() <= 0.01 * LEAST, "{found:e}");
    let zeros = of(0.01, &[0.0, below, below, 1.0]);
    assert_eq!((zeros.to_words()[1], zeros.quantile(0.5)), (3, Some(0.0)));
}

/// Each rule of the words broken on its own.
#[test]
fn malformed_words_name_the_rule() {
    let good = of(0.01, &[0.0, 1.0, 1.0, 64.0]).to_words();
    assert_eq!(good.len(), 7);
    let with = |place: usize, word: u64| {
        let mut words = good.clone();
        words[place] = word;
        DDSketch::from_words(&words).unwrap_err()
    };
    let head = |bits: u64, shift: u32, mask: u64| with(0, good[0] & !(mask << shift) | bits << shift);
    assert_eq!(DDSketch::from_words(&[]), Err(WordsError::TooShort));
    assert_eq!(DDSketch::from_words(&good[..4]), Err(WordsError::TooShort));
    assert_eq!(DDSketch::from_words(&good[..6]), Err(WordsError::Length));
    assert_eq!(DDSketch::from_words(&[&good[..], &[1]].concat()), Err(WordsError::Length));
    assert_eq!(head(0, 0, 0xff), WordsError::Version(0));
    assert_eq!(head(2, 0, 0xff), WordsError::Version(2));
    for m in [0, 1, 376, 0xffff] {
        assert_eq!(head(m, 8, 0xffff), WordsError::Accuracy(m as u16));
    }
    assert_eq!(head(3, 24, 0xffff), WordsError::Length);
    assert_eq!(head(0, 40, 0xff_ffff), WordsError::Range, "below the first bin of an f64");
    assert_eq!(head(0xff_ffff, 40, 0xff_ffff), WordsError::Range);
    assert_eq!(
        head((1 << 23) + 1, 40, 0xff_ffff),
        WordsError::Contradiction,
        "the greatest value is elsewhere"
    );
    assert_eq!(with(1, 0), WordsError::Contradiction, "a least value of zero, and no zeros");
    assert_eq!(with(1, u64::MAX), WordsError::Full);
    assert_eq!(with(1, (1 << 53) - 3), WordsError::Full);
    for odd in [f64::NAN, f64::INFINITY, -1.0, -0.0] {
        for place in 2..5 {
            assert_eq!(with(place, odd.to_bits()), WordsError::NotANumber);
        }
    }
    assert_eq!(with(2, 63.0_f64.to_bits()), WordsError::Contradiction, "a sum below the greatest");
    assert_eq!(with(3, 1.0_f64.to_bits()), WordsError::Contradiction, "zeros above the least");
    assert_eq!(with(4, 1.0_f64.to_bits()), WordsError::Contradiction, "the highest bin is another");
    assert_eq!(with(5, 1 << 53 | 2), WordsError::Order);
    assert_eq!(with(6, 1), WordsError::Order);
    assert_eq!(with(5, 0), WordsError::EmptyBin);
    assert_eq!(with(6, 2_047 << 53), WordsError::EmptyBin);
    let mut long = good.clone();
    long[0] += 1 << 24;
    long[6] |= 2_047 << 53;
    long.push(1 << 53 | 1);
    assert_eq!(DDSketch::from_words(&long), Err(WordsError::Range), "2,049 bins");
    let empty = DDSketch::new(0.01).to_words();
    assert_eq!(DDSketch::from_words(&[empty[0] | 1 << 40, 0, 0, 0, 0]), Err(WordsError::Range));
    assert_eq!(DDSketch::from_words(&[empty[0], 0, 1, 0, 0]), Err(WordsError::Contradiction));
    assert_eq!(DDSketch::from_words(&empty), Ok(DDSketch::new(0.01)));
    // Least and greatest value in the right bins, and the wrong way round.
    let mut swapped = of(0.01, &[1.0, 1.001]).to_words();
    swapped.swap(3, 4);
    assert_eq!(DDSketch::from_words(&swapped), Err(WordsError::Contradiction));
    // A greatest value of zero, although there are bins.
    assert_eq!(with(4, 0), WordsError::Contradiction);
    // The least value in another bin than the first.
    let mut other = of(0.01, &[1.0, 2.0]).to_words();
    other[3] = 1.5_f64.to_bits();
    assert_eq!(DDSketch::from_words(&other), Err(WordsError::Contradiction));
}
