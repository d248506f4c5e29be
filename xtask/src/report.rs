//! The report of `cargo xtask test`: counts read from the runners' closing lines, and the summary at the end.

use crate::run::{Error, Output, Result, seconds};
use crate::times::{Times, Took, cpu_time};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Numbers of tests that a runner reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tests that passed.
    pub passed: u32,
    /// Tests that failed, including errors outside a test's body.
    pub failed: u32,
    /// Tests without a verdict: skipped, ignored, expected to fail.
    pub skipped: u32,
}

/// The result of a step.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The step passed. A plain check (format, types) has no counts.
    Passed(Counts),
    /// The step failed; the text says what to look at.
    Failed(Counts, String),
    /// The step could not run, for this reason. Never counted as passed.
    NotRun(String),
}

/// The results of all steps, in order.
#[derive(Default)]
pub struct Report {
    steps: Vec<Step>,
    /// How long each step took the last time it ran on this machine.
    times: Times,
    /// Names of the remaining steps, if a plan was made.
    planned: Vec<String>,
    /// While planning: the names of steps that build something, with the prefixes of the names of steps that need it.
    makers: Vec<(String, &'static [&'static str])>,
    /// True while the steps are only listed, not run.
    planning: bool,
    /// Whether the plan selects steps: a step that it does not name is not run.
    chosen: bool,
}

struct Step {
    group: &'static str,
    title: String,
    verdict: Verdict,
    took: Took,
}

impl Step {
    fn name(&self) -> String {
        name(self.group, &self.title)
    }
}

fn name(group: &str, title: &str) -> String {
    format!("{}: {title}", group.to_lowercase())
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Sums cargo's `test result:` lines: one per test binary, and one for the doctests.
    pub fn from_cargo(text: &str) -> Self {
        let mut sum = Self::default();
        for line in text.lines().filter_map(|line| line.trim().strip_prefix("test result: ")) {
            for (number, word) in numbered(line.split_once(". ").map_or(line, |(_, counts)| counts), ';') {
                match word {
                    "passed" => sum.passed += number,
                    "failed" => sum.failed += number,
                    "ignored" => sum.skipped += number,
                    _ => {}
                }
            }
        }
        sum
    }

    /// Reads vitest's closing lines: `Tests  2 failed | 31 passed | 1 skipped (34)`.
    pub fn from_vitest(text: &str) -> Self {
        let mut sum = Self::default();
        for line in text.lines().filter_map(|line| line.trim().strip_prefix("Tests ")) {
            let counts = line.rsplit_once('(').map_or(line, |(counts, _)| counts);
            for (number, word) in numbered(counts, '|') {
                match word {
                    "passed" => sum.passed += number,
                    "failed" => sum.failed += number,
                    "skipped" | "todo" => sum.skipped += number,
                    _ => {}
                }
            }
        }
        sum
    }

    /// Reads Swift Testing's lines: `✔ Test run with 52 tests passed after …`, or `✘ … failed after … with 2 issues.`, where
    /// each test that failed has a line of its own; and those of skipped tests.
    pub fn from_swift(text: &str) -> Self {
        let lines = || text.lines().map(|line| line.trim_start_matches(|c: char| !c.is_ascii_alphabetic()));
        let count = |suffix: &str| {
            let tests = lines().filter(|line| line.starts_with("Test ") && !line.starts_with("Test run "));
            u32::try_from(tests.filter(|line| line.contains(suffix)).count()).unwrap_or(u32::MAX)
        };
        let run =
            lines().find_map(|line| line.strip_prefix("Test run with ")?.split(' ').next()?.parse().ok());
        let (failed, skipped) = (count(" failed after "), count(" skipped"));
        Self { passed: run.unwrap_or(0_u32).saturating_sub(failed + skipped), failed, skipped }
    }

    /// Reads pytest's closing line: `== 2 failed, 31 passed, 1 skipped in 0.12s ==`, with or without the equals signs.
    pub fn from_pytest(text: &str) -> Self {
        let mut sum = Self::default();
        let lines = text.lines().rev().map(|line| line.trim_matches([' ', '=']));
        let closing = lines.filter_map(|line| line.rsplit_once(" in ")).find_map(|(counts, took)| {
            (took.starts_with(|c: char| c.is_ascii_digit()) && numbered(counts, ',').next().is_some())
                .then_some(counts)
        });
        for (number, word) in numbered(closing.unwrap_or_default(), ',') {
            match word {
                "passed" => sum.passed += number,
                "failed" | "error" | "errors" => sum.failed += number,
                "skipped" | "xfailed" | "xpassed" => sum.skipped += number,
                _ => {}
            }
        }
        sum
    }
}

/// The pairs of number and word in a list such as `3 passed, 1 failed`.
fn numbered(text: &str, between: char) -> impl Iterator<Item = (u32, &str)> {
    text.split(between).filter_map(|part| {
        let (number, word) = part.trim().split_once(' ')?;
        Some((number.parse().ok()?, word.trim()))
    })
}

/// How many failed tests the summary names for each step. All of them stand where the step ran.
const NAMED: usize = 12;

/// What the runner said of each failed test, as lines below a step's reason: of a long run often only the end is kept.
fn fallen(text: &str) -> String {
    let mut named: Vec<String> = Vec::new();
    for line in text.lines().map(without_colours) {
        let line = line.trim_end();
        let says = line.starts_with("FAILED ")                                   // pytest
            || line.trim_start().starts_with("FAIL ")                            // vitest
            || line.starts_with("[ERROR]   ") && line.contains(':')              // Surefire
            || line.starts_with("test ") && line.ends_with(" ... FAILED")        // cargo
            || line.contains("Test ") && line.contains(" recorded an issue at "); // Swift Testing
        let line = line.trim();
        if says && !named.iter().any(|other| other == line) {
            named.push(line.to_owned());
        }
    }
    let more = named.len().saturating_sub(NAMED);
    let shown =
        named.iter().take(NAMED).map(|line| format!("\n   {}", line.chars().take(400).collect::<String>()));
    let rest = (more > 0).then(|| format!("\n   and {more} more"));
    shown.chain(rest).collect()
}

/// A line without the escapes that colour it.
fn without_colours(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('m').map_or("", |(_, rest)| rest))
}

impl Verdict {
    /// The verdict of a step without counts.
    pub fn check<T>(result: Result<T>) -> Self {
        match result {
            Ok(_) => Self::Passed(Counts::default()),
            Err(Error(why)) => Self::Failed(Counts::default(), why),
        }
    }

    /// The verdict of a test runner's step. A runner that reports success but ran no test has failed.
    pub fn tests(result: Result<Output>, count: impl Fn(&str) -> Counts) -> Self {
        let output = match result {
            Ok(output) => output,
            Err(Error(why)) => return Self::Failed(Counts::default(), why),
        };
        let counts = count(&output.text);
        if !output.status.success() || counts.failed > 0 {
            Self::Failed(counts, output.error().0 + &fallen(&output.text))
        } else if counts.passed == 0 {
            Self::Failed(counts, format!("no test passed: {}", output.error()))
        } else {
            Self::Passed(counts)
        }
    }
}

impl Report {
    /// Lists the steps without running them, prints their names and their last durations, and returns the report that
    /// runs them. `steps` is called once here, and again by the caller with the returned report. With words in `only`
    /// it selects the steps whose names contain one of them, and the steps that build something for these. `first` says
    /// how long the steps take on a new machine.
    pub fn planned(
        times: Times,
        only: &[String],
        first: &str,
        steps: impl FnOnce(&mut Self),
    ) -> Result<Self> {
        let mut plan = Self { times, planning: true, ..Self::default() };
        steps(&mut plan);
        if !only.is_empty() {
            plan.choose(only)?;
        }
        let first = if plan.chosen { "How long they take is not known here." } else { first };
        println!("{}", plan.times.announcement(&plan.planned, first));
        Ok(Self { planning: false, ..plan })
    }

    fn choose(&mut self, only: &[String]) -> Result {
        let mut kept: Vec<String> = Vec::new();
        for words in only {
            let words = words.to_lowercase();
            let named: Vec<_> =
                self.planned.iter().filter(|name| name.to_lowercase().contains(&words)).cloned().collect();
            if named.is_empty() {
                let all = self.planned.join("\n   ");
                return Err(Error(format!("no step has `{words}` in its name; the steps are\n   {all}")));
            }
            kept.extend(named);
        }
        // From the last to the first: a step that builds something may itself need another step.
        for (maker, needed_by) in self.makers.iter().rev() {
            let needed =
                |name: &String| needed_by.iter().any(|beginning| name.to_lowercase().starts_with(beginning));
            if kept.iter().any(needed) {
                kept.push(maker.clone());
            }
        }
        self.planned.retain(|name| kept.contains(name));
        self.chosen = true;
        Ok(())
    }

    /// Runs a step that builds something for the steps whose names begin with one of `needed_by`.
    pub fn make(
        &mut self,
        group: &'static str,
        title: &str,
        needed_by: &'static [&'static str],
        work: impl FnOnce() -> Verdict,
    ) -> bool {
        if self.planning {
            self.makers.push((name(group, title), needed_by));
        }
        self.step(group, title, work)
    }

    /// Announces a step, runs it, and records and prints its verdict. Returns whether it passed.
    pub fn step(&mut self, group: &'static str, title: &str, work: impl FnOnce() -> Verdict) -> bool {
        if self.planning {
            self.planned.push(name(group, title));
            return false;
        }
        if self.chosen && !self.planned.contains(&name(group, title)) {
            return false;
        }
        println!("\n── {}{}", name(group, title), self.progress(&name(group, title)));
        let (started, cpu) = (Instant::now(), cpu_time());
        let verdict = work();
        let took = Took { clock: started.elapsed(), cpu: cpu_time().saturating_sub(cpu) };
        match &verdict {
            Verdict::Passed(_) => println!("   passed in {}", seconds(took.clock)),
            Verdict::Failed(_, why) => println!("   FAILED after {}: {why}", seconds(took.clock)),
            Verdict::NotRun(why) => println!("   not run: {why}"),
        }
        let passed = matches!(verdict, Verdict::Passed(_));
        if passed {
            self.times.record(&name(group, title), took);
        }
        self.steps.push(Step { group, title: title.to_owned(), verdict, took });
        passed
    }

    /// The step's position in the plan, its last duration, and the estimate for the remaining steps.
    fn progress(&self, step: &str) -> String {
        let Some(place) = self.planned.iter().position(|planned| planned == step) else {
            return String::new();
        };
        let left = self.times.sum(&self.planned[place..]).clock;
        let last = self.times.of(step).map(|took| format!(", last time {}", seconds(took.clock)));
        let left = (left > Duration::ZERO).then(|| format!(", about {} left", seconds(left)));
        let (last, left) = (last.unwrap_or_default(), left.unwrap_or_default());
        format!("   ({} of {}{last}{left})", place + 1, self.planned.len())
    }

    /// Prints the summary, and stores the durations for the next run. The exit code is success if nothing failed.
    pub fn close(&self) -> ExitCode {
        println!("\n{}", self.summary());
        self.times.keep();
        let failed = self.steps.iter().any(|step| matches!(step.verdict, Verdict::Failed(..)));
        if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    /// Every step with its duration, a line per language, the failures, the steps that were not run, and a last line
    /// with the counts.
    fn summary(&self) -> String {
        let mut lines = vec![String::from("── summary")];
        for step in &self.steps {
            let word = match step.verdict {
                Verdict::Passed(_) => "passed",
                Verdict::Failed(..) => "FAILED",
                Verdict::NotRun(_) => "not run",
            };
            let Took { clock, cpu } = step.took;
            lines.push(format!(
                "{word:<8} {:>12}  CPU {:>12}  {}",
                seconds(clock),
                seconds(cpu),
                step.name()
            ));
        }
        let whole = self.steps.iter().fold(Took::default(), |sum, step| sum.plus(step.took));
        lines.push(format!("{:<8} {:>12}  CPU {:>12}", "in all", seconds(whole.clock), seconds(whole.cpu)));
        lines.push(format!("\n{:<16}{:<9}{:>8}{:>8}{:>9}   steps", "", "", "passed", "failed", "skipped"));
        let mut groups: Vec<&str> = Vec::new();
        for step in &self.steps {
            if !groups.contains(&step.group) {
                groups.push(step.group);
            }
        }
        let mut total = Counts::default();
        for group in groups {
            let (line, counts) = self.row(group);
            lines.push(line);
            total.add(counts);
        }
        for step in &self.steps {
            match &step.verdict {
                Verdict::Failed(_, why) => lines.push(format!("\nFAILED   {}\n   {why}", step.name())),
                Verdict::NotRun(why) => lines.push(format!("\nnot run  {}\n   {why}", step.name())),
                Verdict::Passed(_) => {}
            }
        }
        lines.push(format!("\n{} passed, {} failed", total.passed, total.failed));
        lines.join("\n")
    }

    /// The line of one language. A failed check without failed tests counts as one failed test: the closing line must
    /// not look green when the exit code is red.
    fn row(&self, group: &str) -> (String, Counts) {
        let (mut sum, mut passed, mut failed, mut not_run) = (Counts::default(), 0, 0, 0);
        for step in self.steps.iter().filter(|step| step.group == group) {
            match &step.verdict {
                Verdict::Passed(counts) => {
                    passed += 1;
                    sum.add(*counts);
                }
                Verdict::Failed(counts, _) => {
                    failed += 1;
                    sum.add(Counts { failed: counts.failed.max(1), ..*counts });
                }
                Verdict::NotRun(_) => not_run += 1,
            }
        }
        let word = match (failed, passed) {
            (0, 0) => "not run",
            (0, _) => "passed",
            _ => "FAILED",
        };
        let others = [(failed, "failed"), (not_run, "not run")].into_iter().filter(|(number, _)| *number > 0);
        let others = others.fold(String::new(), |all, (number, word)| format!("{all}, {number} {word}"));
        let Counts { passed: held, failed: fell, skipped } = sum;
        let line = format!("{group:<16}{word:<9}{held:>8}{fell:>8}{skipped:>9}   {passed} passed{others}");
        (line, sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: u32, failed: u32, skipped: u32) -> Counts {
        Counts { passed, failed, skipped }
    }

    #[test]
    fn cargos_lines_are_summed() {
        let text = "running 2 tests\n\
            test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
            test result: FAILED. 10 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.20s\n";
        assert_eq!(Counts::from_cargo(text), counts(12, 3, 1));
        assert_eq!(Counts::from_cargo("error: could not compile"), counts(0, 0, 0));
    }

    #[test]
    fn pytests_closing_line_is_read_with_and_without_rules() {
        let long = "== short test summary info ==\nFAILED t.py::a - in 3\n=== 2 failed, 31 passed, 1 skipped in 0.12s ===\n";
        assert_eq!(Counts::from_pytest(long), counts(31, 2, 1));
        assert_eq!(Counts::from_pytest("..\n7 passed in 61.20s (0:01:01)\n"), counts(7, 0, 0));
        assert_eq!(Counts::from_pytest("1 passed, 1 xfailed, 3 warnings, 2 errors in 0.1s"), counts(1, 2, 1));
        assert_eq!(Counts::from_pytest("no tests ran in 0.01s"), counts(0, 0, 0));
    }

    #[test]
    fn vitests_closing_line_is_read() {
        let long =
            " Test Files  1 failed | 4 passed (5)\n      Tests  2 failed | 31 passed | 1 skipped (34)\n";
        assert_eq!(Counts::from_vitest(long), counts(31, 2, 1));
        assert_eq!(Counts::from_vitest("     Tests  7 passed (7)"), counts(7, 0, 0));
        assert_eq!(Counts::from_vitest("Tests  no tests"), counts(0, 0, 0));
    }

    #[test]
    fn swifts_lines_are_read() {
        let good = "◇ Test words() started.\n✔ Test words() passed after 0.1 seconds.\n✔ Test run with 52 tests passed after 2.3 seconds.\n";
        assert_eq!(Counts::from_swift(good), counts(52, 0, 0));
        let bad = "✘ Test a() recorded an issue at T.swift:3:6: x\n✘ Test a() failed after 0.1 seconds with 1 issue.\n\
            ➜ Test b() skipped.\n✘ Test run with 5 tests failed after 1 seconds with 1 issue.\n";
        assert_eq!(Counts::from_swift(bad), counts(3, 1, 1));
        assert_eq!(Counts::from_swift("error: fatalError\n"), counts(0, 0, 0));
    }

    #[test]
    fn the_failed_tests_of_every_runner_are_named_in_the_summary() {
        let text = "\
test words::are_read ... FAILED
test words::are_kept ... ok
FAILED tests/test_a.py::test_b - assert 1 == 2
 \u{1b}[31mFAIL\u{1b}[39m  test/a.test.ts > waits
[ERROR] Failures: 
[ERROR]   AlterTest.waits:123 expected 1 but was 2
[ERROR]   AlterTest.waits:123 expected 1 but was 2
[ERROR] Tests run: 906, Failures: 1, Errors: 0, Skipped: 0
✘ Test waits() recorded an issue at T.swift:3:6: x
✘ Test waits() failed after 0.1 seconds with 1 issue.
";
        let named = fallen(text);
        let lines: Vec<_> = named.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        assert_eq!(
            lines,
            [
                "test words::are_read ... FAILED",
                "FAILED tests/test_a.py::test_b - assert 1 == 2",
                "FAIL  test/a.test.ts > waits",
                "[ERROR]   AlterTest.waits:123 expected 1 but was 2",
                "✘ Test waits() recorded an issue at T.swift:3:6: x",
            ]
        );
        let many = (0..20).map(|it| format!("test t{it} ... FAILED")).collect::<Vec<_>>().join("\n");
        assert!(fallen(&many).ends_with("\n   and 8 more"), "{}", fallen(&many));
        assert_eq!(fallen("all passed"), "");
    }

    #[test]
    fn text_after_the_closing_line_does_not_hide_it() {
        assert_eq!(
            Counts::from_pytest("3 passed in 0.1s\nsys:1: warning found in 1 place\n"),
            counts(3, 0, 0)
        );
    }

    #[test]
    fn a_runner_that_ran_nothing_has_not_passed() {
        let nothing = || crate::run::Cmd::new("sh").args(["-c", "echo no tests ran in 0.01s"]).capture();
        assert!(matches!(Verdict::tests(nothing(), Counts::from_pytest), Verdict::Failed(..)));
    }

    #[test]
    fn the_last_line_is_red_when_a_check_without_tests_failed() {
        let mut report = Report::default();
        report.step("Rust core", "tests", || Verdict::Passed(counts(5, 0, 1)));
        report.step("Python", "types", || Verdict::check::<()>(Err(Error("mypy".into()))));
        report.step("Python", "wheel on CPython 3.13", || Verdict::NotRun("no python3.13".into()));
        let summary = report.summary();
        assert_eq!(summary.lines().last(), Some("5 passed, 1 failed"));
        let row = summary.lines().find(|line| line.starts_with("Python")).expect("a line per language");
        assert_eq!(
            row.split_whitespace().collect::<Vec<_>>().join(" "),
            "Python FAILED 0 1 0 0 passed, 1 failed, 1 not run"
        );
        assert_eq!(report.close(), ExitCode::FAILURE);
    }

    #[test]
    fn a_language_whose_steps_do_not_follow_each_other_is_counted_once() {
        let mut report = Report::default();
        for group in ["Rust origin", "Rust tools", "Rust origin"] {
            report.step(group, "tests", || Verdict::Passed(counts(1, 0, 0)));
        }
        assert_eq!(report.summary().lines().last(), Some("3 passed, 0 failed"));
    }

    #[test]
    fn a_plan_lists_the_steps_and_runs_none() {
        let steps = |report: &mut Report, ran: &mut u32| {
            let built = report.step("Rust core", "build", || {
                *ran += 1;
                Verdict::Passed(counts(0, 0, 0))
            });
            report.step("Rust core", "tests", || {
                *ran += 1;
                if built { Verdict::Passed(counts(1, 0, 0)) } else { Verdict::NotRun("not built".into()) }
            });
        };
        let mut ran = 0;
        let mut report =
            Report::planned(Times::default(), &[], "", |plan| steps(plan, &mut ran)).expect("no words");
        assert_eq!(ran, 0);
        assert_eq!(report.planned, ["rust core: build", "rust core: tests"]);
        steps(&mut report, &mut ran);
        assert_eq!(ran, 2);
        assert_eq!(report.summary().lines().last(), Some("1 passed, 0 failed"));
    }

    #[test]
    fn chosen_steps_run_with_those_that_make_what_they_need_and_no_other() {
        let steps = |report: &mut Report, ran: &mut Vec<&str>| {
            let mut run = |name| {
                ran.push(name);
                Verdict::Passed(Counts::default())
            };
            report.make("Tool", "environment", &["tool: build"], || run("environment"));
            report.make("Tool", "build", &["fleet: "], || run("build"));
            report.step("Tool", "tests", || run("tests"));
            report.step("Fleet", "Demo", || run("demo"));
        };
        let mut ran = Vec::new();
        let plan = |words: &str, ran: &mut Vec<_>| {
            Report::planned(Times::default(), &[words.into()], "", |plan| steps(plan, ran))
        };
        let mut report = plan("FLEET: demo", &mut ran).expect("there is such a step");
        steps(&mut report, &mut ran);
        assert_eq!(ran, ["environment", "build", "demo"]);
        let Err(Error(why)) = plan("flee demo", &mut ran) else { panic!("there is no such step") };
        assert!(
            why.starts_with("no step has `flee demo` in its name") && why.contains("tool: tests"),
            "{why}"
        );
    }

    #[test]
    fn a_step_says_its_place_its_last_time_and_what_is_left() {
        let mut times = Times::default();
        let took = |clock| Took { clock: Duration::from_secs(clock), cpu: Duration::ZERO };
        times.record("a: first", took(2));
        times.record("a: second", took(60));
        let planned = ["a: first", "a: second", "a: third"].map(String::from).to_vec();
        let report = Report { times, planned, ..Report::default() };
        assert_eq!(report.progress("a: second"), "   (2 of 3, last time 1 min 00 s, about 1 min 00 s left)");
        assert_eq!(report.progress("a: third"), "   (3 of 3)");
        assert_eq!(report.progress("b: unplanned"), "");
    }

    #[test]
    fn a_language_of_which_nothing_ran_is_not_called_passed() {
        let mut report = Report::default();
        report.step("Python", "tests", || Verdict::NotRun("no wheel".into()));
        assert!(report.summary().contains("Python          not run"));
    }
}
