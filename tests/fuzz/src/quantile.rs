//! Words of a sketch from anywhere: an error, or a sketch whose every quantile is in range (semantics 9.4, I22).

use tidegate::DDSketch;

use crate::input::Input;

/// Words that are almost a sketch (a real sketch's words, damaged), or any words.
pub fn quantile_words(data: &[u8]) {
    let mut input = Input::new(data);
    let mut words = if input.chance(60) {
        Vec::new()
    } else {
        let mut sketch = DDSketch::new(input.real());
        for _ in 0..input.below(40) {
            sketch.add(input.real().abs());
        }
        holds(&sketch);
        assert_eq!(DDSketch::from_words(&sketch.to_words()).as_ref(), Ok(&sketch));
        sketch.to_words()
    };
    for _ in 0..input.below(5) {
        let place = input.below(words.len().max(1));
        match (input.below(5), words.get_mut(place)) {
            (0, Some(word)) => *word ^= 1 << input.below(64),
            (1, Some(word)) => *word = word.wrapping_add(1),
            (2, Some(word)) => *word = input.word(),
            (3, Some(_)) => drop(words.remove(place)),
            _ => words.push(input.word()),
        }
    }
    while !input.is_empty() && words.len() < 200 {
        words.push(input.word());
    }
    let Ok(mut sketch) = DDSketch::from_words(&words) else { return };
    holds(&sketch);
    // A sketch read from words gives back the same words.
    assert_eq!(sketch.to_words(), words);
    let mut other = DDSketch::new(sketch.alpha());
    other.add(1.0);
    let before = sketch.clone();
    if sketch.merge(&other).is_ok() {
        holds(&sketch);
        assert_eq!(sketch.count(), before.count() + 1);
    } else {
        assert_eq!(sketch, before, "a merge that fails changes nothing");
    }
    for x in [0.0, f64::MAX, f64::NAN, 5e-324, -1.0] {
        sketch.add(x);
        holds(&sketch);
    }
}

/// Quantiles are finite, ascend, and lie between the least and the greatest value.
fn holds(sketch: &DDSketch) {
    let quantiles: Vec<_> = [0.0, 0.01, 0.25, 0.5, 0.9, 0.999, 1.0].map(|q| sketch.quantile(q)).to_vec();
    if sketch.count() == 0 {
        assert!(quantiles.iter().all(Option::is_none) && sketch.min().is_none() && sketch.max().is_none());
        return;
    }
    let (min, max) = (sketch.min().expect("values"), sketch.max().expect("values"));
    assert!(min.is_finite() && max.is_finite() && 0.0 <= min && min <= max, "{min} to {max}");
    assert!(sketch.sum().is_finite() && sketch.sum() >= 0.0, "{}", sketch.sum());
    let values: Vec<f64> = quantiles.into_iter().map(|value| value.expect("values")).collect();
    assert!(values.is_sorted(), "{values:?}");
    // Within the accuracy: the middle of a bin may lie a little beyond its values.
    assert!(values.iter().all(|value| (min..=max).contains(value)), "{values:?} of {min} to {max}");
    assert!(sketch.quantile(f64::NAN).is_none_or(f64::is_finite));
}
