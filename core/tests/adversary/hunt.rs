//! Looks for the worst scenario: random ones, and mutations of the worst of each sort that it has met.

use std::collections::BTreeMap;
use std::panic;

use super::genome::{Dice, Genome};
use super::host::{Spared, play};
use super::judge::Judgement;

/// What was found: a scenario that breaks a promise.
#[derive(Debug)]
pub struct Found {
    pub genome: Genome,
    pub what: String,
    pub tried: u64,
}

/// A scenario's excess; a panic is an excess without end.
pub fn judge(genome: &Genome, spared: Spared) -> Judgement {
    panic::catch_unwind(|| play(genome, spared)).unwrap_or_else(|why| {
        let text = why.downcast_ref::<String>().cloned();
        let text = text.or_else(|| why.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Judgement { excess: f64::INFINITY, what: text.unwrap_or_default(), sort: 0 }
    })
}

/// Hunts from a seed, `more(tried)` scenarios long.
pub fn hunt(seed: u64, spared: Spared, mut more: impl FnMut(u64) -> bool) -> Result<u64, Found> {
    let mut dice = Dice::new(seed);
    let mut worst: BTreeMap<u64, (f64, Genome)> = BTreeMap::new();
    let mut tried = 0;
    while more(tried) {
        let random = worst.is_empty() || dice.below(4) == 0;
        let genome = if random {
            Genome::random(&mut dice)
        } else {
            // Two of the kept, and the worse of them: what is nearest to its bound is looked at most.
            let mut pick = || worst.values().nth(dice.below(worst.len())).expect("below its length").clone();
            let (one, two) = (pick(), pick());
            let (from, other) = if one.0 >= two.0 { (one.1, two.1) } else { (two.1, one.1) };
            from.mutated(&other, &mut dice)
        };
        tried += 1;
        let verdict = judge(&genome, spared);
        if verdict.excess > 1e-6 {
            return Err(Found { genome, what: verdict.what, tried });
        }
        // The worst of each sort is kept, so that one sort does not drown the others.
        if worst.get(&verdict.sort).is_none_or(|(excess, _)| verdict.excess >= *excess) {
            worst.insert(verdict.sort, (verdict.excess, genome));
        }
    }
    Ok(tried)
}
