//! The command `bench`: what a call costs in each language, beside peers, in one run and on one page.

use crate::cargo;
use crate::demo::present;
use crate::run::{Cmd, Error, Result, step};
use crate::setup::{Shop, Venv};
use crate::{fleet, js, jvm, swift};
use std::fs;
use std::path::Path;

/// Where the last page and its figures are kept in the tree.
const KEPT: &str = "docs/benchmarks";
/// The variable by which a bench learns where its rows go.
const ROWS: &str = "TIDEGATE_BENCH_ROWS";

/// A language's benches: its name, and what runs them once; the flag says whether this is the first run. Later runs leave
/// out what has no row on the page.
type Bench = (&'static str, fn(&Shop, &Venv, &Path, bool) -> Result);

const BENCHES: [Bench; 6] = [
    ("rust", rust),
    ("python", python),
    ("javascript", javascript),
    ("jvm", |shop, venv, rows, _| jvm::bench(shop, venv, (ROWS, rows))),
    ("swift", |shop, _, rows, _| swift::bench(shop, (ROWS, rows))),
    ("fleet", fleet),
];

/// `cargo xtask bench [--runs N] [--keep] [language…]`: runs the benches beside their peers, N times in turn (1), and
/// writes one page of medians and ranges into `target/bench`. With `--keep` the page takes the place of the one in the
/// tree, with which every run is compared, and texts that quote figures get those of the page.
pub fn bench(shop: &Shop, runs: u32, keep: bool, only: &[String]) -> Result {
    if let Some(wrong) = only.iter().find(|name| BENCHES.iter().all(|(language, _)| language != name)) {
        let names = BENCHES.map(|(language, _)| language).join(", ");
        return Err(Error(format!("there is no bench `{wrong}`; there are {names}")));
    }
    let page = present(shop, "bench/page.py")?;
    let folder = shop.target.join("bench");
    fs::create_dir_all(&folder).map_err(Error::at("make", &folder))?;
    let rows = folder.join("runs.tsv");
    fs::write(&rows, load()).map_err(Error::at("write", &rows))?;
    let venv = fleet::with_peers(shop)?;
    for run in 1..=runs {
        for (language, bench) in BENCHES {
            if only.is_empty() || only.iter().any(|name| name == language) {
                println!("── bench: {language}, run {run} of {runs}");
                bench(shop, &venv, &rows, run == 1)?;
            }
        }
        let so_far = fs::read_to_string(&rows).map_err(Error::at("read", &rows))?;
        fs::write(&rows, so_far + &load()).map_err(Error::at("write", &rows))?;
    }
    let kept = shop.root.join(KEPT);
    let out = if keep { &kept } else { &folder };
    println!("── bench: the page");
    venv.script(&page).arg(&rows).arg("--kept").arg(&kept).arg("--out").arg(out).inherit()?;
    println!("the page: {}", out.join("README.md").display());
    if keep {
        venv.script(&present(shop, "bench/quoted.py")?).inherit()?;
    }
    Ok(())
}

/// A line of the rows that says how busy the machine is.
fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().filter(|figure| !figure.is_empty());
    load.map(|load| format!("\tload\t\t\t{load}\t\n")).unwrap_or_default()
}

fn fleet(shop: &Shop, venv: &Venv, rows: &Path, first: bool) -> Result {
    let args: &[&str] = if first { &[] } else { &["--alone", "--rounds", "1"] };
    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
    fleet::beside_peers(shop, venv, &args, (ROWS, rows))
}

fn rust(shop: &Shop, _: &Venv, rows: &Path, _: bool) -> Result {
    let bench = |features: &[&str], program: &str, args: &[&str]| {
        let run = ["run", "-q", "--release", "-p", "tidegate-bench-core", "--bin", program];
        cargo(shop).args(run).args(features).arg("--").args(args).env(ROWS, rows).inherit()
    };
    bench(&[], "tidegate-bench-core", &[])?;
    bench(&["--features", "peers"], "tidegate-bench-peers", &[])?;
    bench(&["--features", "host"], "tidegate-bench-host", &["ns", "http_bare", "http_layer", "host_run"])
}

fn python(shop: &Shop, venv: &Venv, rows: &Path, _: bool) -> Result {
    ["happy_path", "decorated", "contended", "parts", "over_httpx", "memory"].into_iter().try_for_each(
        |name| venv.script(&present(shop, &format!("bench/python/{name}.py"))?).env(ROWS, rows).inherit(),
    )
}

fn javascript(shop: &Shop, _: &Venv, rows: &Path, first: bool) -> Result {
    if let Err(why) = step("javascript: build the package", || js::built(shop).and_then(|_| js::peers(shop)))
    {
        println!("not run: {why}");
        return Ok(());
    }
    // Bytes are exact, so one run has them all.
    let exact: &[&str] = if first { &["bytes"] } else { &[] };
    ["run", "more", "fetch"].iter().chain(exact).try_for_each(|name| {
        Cmd::new("node").arg(present(shop, &format!("bench/js/{name}.mjs"))?).env(ROWS, rows).inherit()
    })?;
    match js::page(shop) {
        Ok(start) => start.env(ROWS, rows).inherit(),
        Err(why) => {
            println!("the start of a page: not run: {why}");
            Ok(())
        }
    }
}
