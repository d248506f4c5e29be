//! Quantiles of lists of values by `DDSketch`, for `tests/differential/quantiles.py`, which compares them with a peer's.
//!
//! A line in: α, the quantiles asked for, and lists of values, separated by `|`. Each list goes into a sketch of its own, and
//! all are merged through their words. A line out: the accuracy that is kept, the count, the sum, and the answers.

use std::io::{BufRead, Write};

use tidegate::DDSketch;

fn main() {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("text");
        let lists: Vec<Vec<f64>> = line.split('|').map(numbers).collect();
        let [alpha, asked, lists @ ..] = lists.as_slice() else {
            panic!("α | quantiles | values, not {line}")
        };
        let mut whole = DDSketch::new(alpha[0]);
        for list in lists {
            let mut sketch = DDSketch::new(alpha[0]);
            for x in list {
                sketch.add(*x);
            }
            let sketch = DDSketch::from_words(&sketch.to_words()).expect("its own words");
            whole.merge(&sketch).expect("the same accuracy");
        }
        let answers = asked.iter().map(|q| whole.quantile(*q).unwrap_or(f64::NAN));
        let head = [whole.alpha(), whole.count() as f64, whole.sum()];
        let told: Vec<String> = head.into_iter().chain(answers).map(|x| x.to_string()).collect();
        writeln!(out, "{}", told.join(" ")).expect("a reader");
        out.flush().expect("a reader");
    }
}

fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().map(|word| word.parse().expect("a number")).collect()
}
