//! The estimators against the vectors that every language shares (`tests/README.md`), bit for bit.
#![allow(clippy::disallowed_methods, reason = "a test reads its vectors")]

use std::path::PathBuf;

use serde_json::Value as Json;
use tidegate::{DDSketch, P2Quantile, WindowedP2Quantile};

fn file(path: &str) -> Json {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors").join(path);
    serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap()
}

fn list(json: &Json) -> &[Json] {
    json.as_array().unwrap_or_else(|| panic!("a list, not {json}"))
}

/// A number, written as text to be exact. `serde_json`'s own numbers may be off in the last bit.
fn real(json: &Json) -> f64 {
    json.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("a number as text, not {json}"))
}

fn reals(json: &Json) -> Vec<f64> {
    list(json).iter().map(real).collect()
}

/// The bits of a number or of its absence.
fn bits(json: &Json) -> Option<u64> {
    (!json.is_null()).then(|| real(json).to_bits())
}

fn words(json: &Json) -> Vec<u64> {
    list(json).iter().map(|word| word.as_str().unwrap().parse().unwrap()).collect()
}

#[test]
fn p2() {
    let file = file("quantile/p2.json");
    let mut looks_taken = 0;
    for case in list(&file["cases"]) {
        let name = &case["name"];
        let mut it = P2Quantile::new(real(&case["p"]));
        let mut looks = list(&case["looks"]).iter().peekable();
        for (place, x) in reals(&case["observations"]).into_iter().enumerate() {
            it.observe(x);
            let Some(look) = looks.next_if(|look| look["after"] == place + 1) else { continue };
            assert_eq!(it.count(), look["count"], "{name}: {look}");
            assert_eq!(it.estimate().map(f64::to_bits), bits(&look["estimate"]), "{name}: {look}");
            let expected = look.get("heights").map(|heights| {
                let positions = list(&look["positions"]).iter().filter_map(Json::as_u64);
                (reals(heights).into_iter().map(f64::to_bits).collect(), positions.collect())
            });
            let markers = it.markers().map(|(q, n)| (q.map(f64::to_bits).to_vec(), n.to_vec()));
            assert_eq!(markers, expected, "{name}: {look}");
            looks_taken += 1;
        }
        assert!(looks.next().is_none(), "{name}: looks that are never taken");
    }
    assert!(looks_taken > 500, "{looks_taken}");
}

#[test]
fn windowed() {
    let file = file("quantile/windowed.json");
    for case in list(&file["cases"]) {
        let window = case["window"].as_u64().unwrap() as u32;
        let mut it = WindowedP2Quantile::new(real(&case["p"]), window);
        let observations = reals(&case["observations"]);
        assert_eq!(observations.len(), list(&case["looks"]).len());
        for (x, look) in observations.into_iter().zip(list(&case["looks"])) {
            it.observe(x);
            assert_eq!(it.estimate().map(f64::to_bits), bits(&look[0]), "{}: {look}", case["name"]);
            assert_eq!(it.count(), look[1], "{}: {look}", case["name"]);
        }
    }
}

#[test]
fn ddsketch() {
    let file = file("quantile/ddsketch.json");
    for case in list(&file["cases"]) {
        let alpha = real(&case["alpha"]);
        let mut parts = list(&case["parts"]).iter().map(|part| {
            let mut sketch = DDSketch::new(alpha);
            for x in reals(part) {
                sketch.add(x);
            }
            sketch
        });
        let mut whole = parts.next().unwrap();
        for part in parts {
            whole.merge(&part).unwrap();
        }
        assert_eq!(whole.count(), case["count"], "{case}");
        assert_eq!(whole.sum().to_bits(), real(&case["sum"]).to_bits(), "{case}");
        assert_eq!(whole.min().map(f64::to_bits), bits(&case["min"]), "{case}");
        assert_eq!(whole.max().map(f64::to_bits), bits(&case["max"]), "{case}");
        for pair in list(&case["quantiles"]) {
            let found = whole.quantile(real(&pair[0])).map(f64::to_bits);
            assert_eq!(found, bits(&pair[1]), "{pair} of {case}");
        }
        assert_eq!(whole.to_words(), words(&case["words"]), "{case}");
        assert_eq!(DDSketch::from_words(&words(&case["words"])), Ok(whole), "{case}");
    }
    for case in list(&file["malformed"]) {
        let told = format!("{:?}", DDSketch::from_words(&words(&case["words"])).unwrap_err());
        let rule = told.split('(').next().unwrap_or_default().to_lowercase();
        assert_eq!(rule, case["rule"].as_str().unwrap().replace('_', ""), "{case}");
    }
}

/// Jain and Chlamtac's worked example, with exact arithmetic to compare with. The numbers here are JSON's, within
/// tolerances; the last digit of the end is pinned besides.
#[test]
fn the_worked_example_of_1985() {
    let file = file("published/p2_worked_example.json");
    let tolerance = file["tolerance"].as_f64().unwrap();
    let mut it = P2Quantile::new(file["p"].as_f64().unwrap());
    let mut checked = (0, 0);
    for (place, x) in list(&file["observations"]).iter().enumerate() {
        it.observe(x.as_f64().unwrap());
        let after = (place + 1).to_string();
        let Some(expected) = file["positions"].get(&after) else { continue };
        let (heights, positions) = it.markers().unwrap();
        assert_eq!(positions.to_vec(), list(expected).iter().filter_map(Json::as_u64).collect::<Vec<_>>());
        checked.0 += 1;
        if let Some(exact) = file["heights_exact_rounded_6"].get(&after) {
            for (height, exact) in heights.iter().zip(list(exact)) {
                assert!((height - exact.as_f64().unwrap()).abs() <= 5.1e-7, "{heights:?} after {after}");
            }
            checked.1 += 1;
        }
    }
    assert_eq!(checked, (16, 3));
    let (top, bottom) = file["final_estimate_exact"].as_str().unwrap().split_once('/').unwrap();
    let exact = top.parse::<f64>().unwrap() / bottom.parse::<f64>().unwrap();
    let estimate = it.estimate().unwrap();
    assert!((estimate - exact).abs() <= tolerance);
    assert_eq!(
        estimate.to_bits(),
        4.440_634_353_260_338_f64.to_bits(),
        "the order of the operations has changed"
    );
}
