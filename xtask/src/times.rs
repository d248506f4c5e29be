//! Durations of the steps of `cargo xtask test` on this machine: stored below the target folder, and shown before the
//! next run.

use crate::run::seconds;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use std::{fmt::Write, fs};

/// Ticks per second of the times in `/proc`; Linux's interface to programs fixes it.
const TICKS: u64 = 100;

/// The duration of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Took {
    /// Wall-clock time.
    pub clock: Duration,
    /// CPU time of all processors, in programs that have ended. Zero if the system does not report it.
    pub cpu: Duration,
}

impl Took {
    /// Adds two durations.
    pub fn plus(self, other: Self) -> Self {
        Self { clock: self.clock + other.clock, cpu: self.cpu + other.cpu }
    }
}

/// The last duration of each step that passed, by name.
#[derive(Clone, Debug, Default)]
pub struct Times {
    file: Option<PathBuf>,
    steps: BTreeMap<String, Took>,
}

impl Times {
    /// Reads the durations of earlier runs. A missing file or an unknown line counts as no duration.
    pub fn read(file: PathBuf) -> Self {
        let text = fs::read_to_string(&file).unwrap_or_default();
        let steps = text.lines().filter_map(parse).collect();
        Self { file: Some(file), steps }
    }

    /// Writes the durations for the next run. They are not essential, so an error is only printed.
    pub fn keep(&self) {
        let Some(file) = &self.file else { return };
        let mut text = String::new();
        for (name, took) in &self.steps {
            let _ = writeln!(text, "{} {} {name}", took.clock.as_millis(), took.cpu.as_millis());
        }
        if let Err(error) = fs::write(file, text) {
            println!("cannot write {}: {error}", file.display());
        }
    }

    /// The last duration of this step.
    pub fn of(&self, name: &str) -> Option<Took> {
        self.steps.get(name).copied()
    }

    /// Replaces the duration of a step.
    pub fn record(&mut self, name: &str, took: Took) {
        self.steps.insert(name.to_owned(), took);
    }

    /// The sum of the last durations of these steps.
    pub fn sum(&self, names: &[String]) -> Took {
        names.iter().filter_map(|name| self.of(name)).fold(Took::default(), Took::plus)
    }

    /// The steps that will run and their expected duration, a line per language; ends with `first` if most have never
    /// run here.
    pub fn announcement(&self, names: &[String], first: &str) -> String {
        let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
        for name in names {
            let group = name.split_once(": ").map_or(name.as_str(), |(group, _)| group);
            match groups.iter_mut().find(|(known, _)| *known == group) {
                Some((_, steps)) => steps.push(name.clone()),
                None => groups.push((group, vec![name.clone()])),
            }
        }
        let mut lines = vec![format!("── plan: {} steps", names.len())];
        for (group, steps) in &groups {
            let Took { clock, .. } = self.sum(steps);
            let known = steps.iter().filter(|step| self.of(step).is_some()).count();
            let last = if known == 0 { "never run here".into() } else { seconds(clock) };
            lines.push(format!("{last:>16}  {group}: {} steps", steps.len()));
        }
        let known = names.iter().filter(|name| self.of(name).is_some()).count();
        let whole = self.sum(names);
        lines.push(if known * 2 < names.len() {
            first.to_owned()
        } else {
            format!(
                "About {} in all, {} of CPU, as the last run took.",
                seconds(whole.clock),
                seconds(whole.cpu)
            )
        });
        lines.join("\n")
    }
}

/// Parses a line of the file: milliseconds of wall-clock and CPU time, then the step's name.
fn parse(line: &str) -> Option<(String, Took)> {
    let mut words = line.splitn(3, ' ');
    let mut span = || words.next()?.parse().ok().map(Duration::from_millis);
    let took = Took { clock: span()?, cpu: span()? };
    Some((words.next()?.to_owned(), took))
}

/// CPU time of this process and of its children that have ended.
pub fn cpu_time() -> Duration {
    fs::read_to_string("/proc/self/stat")
        .ok()
        .and_then(|stat| ticks(&stat))
        .map_or(Duration::ZERO, |ticks| Duration::from_millis(ticks.saturating_mul(1_000 / TICKS)))
}

/// The sum of `utime`, `stime`, `cutime` and `cstime`: fields 14 to 17 of proc(5). Field 2, the program's name, is in
/// brackets and may contain blanks.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let times: Vec<u64> = fields.split(' ').skip(11).take(4).filter_map(|field| field.parse().ok()).collect();
    (times.len() == 4).then(|| times.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(clock: u64, cpu: u64) -> Took {
        Took { clock: Duration::from_secs(clock), cpu: Duration::from_secs(cpu) }
    }

    #[test]
    fn times_are_kept_from_run_to_run() {
        let file = std::env::temp_dir().join(format!("tidegate-times-{}", std::process::id()));
        let mut times = Times::read(file.clone());
        times.record("rust core: tests", took(60, 100));
        times.record("python: ruff: lint", took(1, 1));
        times.keep();
        let read = Times::read(file.clone());
        fs::remove_file(&file).expect("it was written");
        assert_eq!(read.of("rust core: tests"), Some(took(60, 100)));
        assert_eq!(read.of("python: ruff: lint"), Some(took(1, 1)));
        assert_eq!(read.of("python: mypy"), None);
    }

    #[test]
    fn what_is_no_line_of_ours_is_no_time() {
        assert_eq!(parse("1500 900 rust core: tests").map(|(name, _)| name), Some("rust core: tests".into()));
        for line in ["", "1500", "1500 x name", "one two name", "1500 900"] {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    #[test]
    fn a_first_run_says_so_and_about_how_long_it_takes() {
        let names = ["rust core: tests", "python: tests"].map(String::from);
        let text = Times::default().announcement(&names, "About an hour.");
        assert!(
            text.contains("2 steps") && text.ends_with("\nAbout an hour.") && text.contains("never run here"),
            "{text}"
        );
    }

    #[test]
    fn a_later_run_says_how_long_the_last_one_took() {
        let names = ["rust core: tests", "rust core: gate", "python: tests"].map(String::from);
        let mut times = Times::default();
        times.record("rust core: tests", took(60, 100));
        times.record("python: tests", took(120, 130));
        let text = times.announcement(&names, "");
        assert!(text.contains("About 3 min 00 s in all, 3 min 50 s of CPU"), "{text}");
        assert!(text.contains("1 min 00 s  rust core: 2 steps"), "{text}");
    }

    #[test]
    fn cpu_time_is_read_past_a_name_with_blanks_and_brackets() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 10 20 30 40 20 0 1 0 5 0 0";
        assert_eq!(ticks(stat), Some(100));
        assert_eq!(ticks("7 (a S 1"), None);
    }
}
