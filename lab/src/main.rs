//! Prints the tables: `cargo run --release -p tidegate-lab -- E6 --seeds 100`.

use std::process::ExitCode;
use tidegate_lab::experiments::{
    cap, cost, e1, e2, e3, e4, e5, e6, e7, e10, e15, harm, lone, recovery, slow,
};
use tidegate_lab::rules;
use tidegate_lab::table::Table;
use tidegate_lab::world::Rule;

const USAGE: &str = "\
usage: tidegate-lab <table>… [--seeds N] [--policy PRESET]

  E1 to E7, E10, E15   published experiments
  recovery slow        promise 4: dead runs after the triggers of E6 and E7 (of --policy; http is promised, others shown)
  lone cost            what the default budget gives a lone client, and what it costs beside the window
  harm                 promise 5: a million calls (--seeds 10: ten million) to a healthy service
  cap                  a limit that follows loss, under a hidden cap of concurrency
  all                  everything

--seeds: runs in each cell (default 20; E4: 100). Ends with 1 where a figure is outside its bounds.";

fn main() -> ExitCode {
    #[expect(clippy::disallowed_methods, reason = "this program's arguments; the lab itself has none")]
    let args: Vec<String> = std::env::args().skip(1).collect();
    match tables(&args) {
        Ok(tables) => {
            let mut failures = Vec::new();
            for table in tables {
                let table = table();
                println!("{table}");
                failures.extend(table.failures());
            }
            for failure in &failures {
                eprintln!("outside its bounds: {failure}");
            }
            if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(why) => {
            eprintln!("{why}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

type Job = Box<dyn Fn() -> Table>;

/// The tables that the arguments select.
fn tables(args: &[String]) -> Result<Vec<Job>, String> {
    let (mut names, mut seeds, mut policy) = (Vec::new(), None, "http".to_owned());
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--seeds" => {
                let value = rest.next().and_then(|value| value.parse::<u64>().ok()).filter(|n| *n > 0);
                seeds = Some(value.ok_or("--seeds takes a whole number from 1 on")?);
            }
            "--policy" => policy.clone_from(rest.next().ok_or("--policy takes a name")?),
            name => names.push(name.to_owned()),
        }
    }
    let (rule, promised) = rule(&policy)?;
    if names.iter().any(|name| name == "all") {
        names = [
            "E1", "E2", "E3", "E4", "E5", "E6", "E7", "E10", "E15", "recovery", "slow", "lone", "cost",
            "harm", "cap",
        ]
        .map(String::from)
        .to_vec();
    }
    if names.is_empty() {
        return Err("no table is named".into());
    }
    let n = seeds.unwrap_or(20);
    let job = |name: String| -> Result<Job, String> {
        let rule = rule.clone();
        Ok(match name.as_str() {
            "E1" => Box::new(move || e1(n)),
            "E2" => Box::new(move || e2(n)),
            "E3" => Box::new(move || e3(n)),
            "E4" => Box::new(move || e4(seeds.unwrap_or(100))),
            "E5" => Box::new(move || e5(n)),
            "E6" => Box::new(move || e6(n)),
            "E7" => Box::new(move || e7(n)),
            "E10" => Box::new(move || e10(n)),
            "E15" => Box::new(move || e15(n)),
            "recovery" => Box::new(move || recovery(&rule, n, promised)),
            "slow" => Box::new(move || slow(&rule, n, promised)),
            "cap" => Box::new(move || cap(n)),
            "lone" => Box::new(move || lone(n)),
            "cost" => Box::new(move || cost(n)),
            "harm" => Box::new(move || harm(seeds.unwrap_or(1) * 1_000_000)),
            other => return Err(format!("there is no table {other:?}")),
        })
    };
    names.into_iter().map(job).collect()
}

/// Finds a policy by name, and whether promise 4 is made for it.
fn rule(name: &str) -> Result<(Rule, bool), String> {
    if name == "window" {
        return Ok((rules::window(), false));
    }
    let found = rules::PRESETS.iter().find(|preset| **preset == name);
    let found = found.ok_or_else(|| {
        format!("there is no preset {name:?}; there are {}, and window", rules::PRESETS.join(", "))
    })?;
    Ok((rules::preset(found), matches!(name, "http" | "transient")))
}
