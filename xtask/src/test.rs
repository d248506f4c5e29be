//! `cargo xtask test`: everything that CI runs; with `--quick` the engine alone. A failure does not stop later steps;
//! the end lists all failures.

use crate::cargo;
use crate::demo::{build_origin, short_fleet};
use crate::gate;
use crate::generate::check_stub;
use crate::report::{Counts, Report, Verdict};
use crate::run::{Cmd, Error, Output, Result};
use crate::setup::{Python, Shop, Venv, find_minor, find_python, python_environment};
use crate::times::Times;
use crate::{fleet, install, js, jvm, redis, registry, site, swift, traces, wasm, wheel, workflows};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs, process};

const RUST: &str = "Rust workspace";
const CORE: &str = "Rust core";
const ORIGIN: &str = "Rust origin";
const TOKIO: &str = "Rust host";
const FUZZ: &str = "Fuzz targets";
const LAB: &str = "Lab";
const TOOLS: &str = "Rust tools";
/// The step that checks `xtask/house/limits.txt`.
const STRUCTURE: &str = "core's structure is within its limits";
const MEASURE: [&str; 6] = ["run", "-q", "-p", "tidegate-house", "--", "--check"];
const PYTHON: &str = "Python";
const MODEL: &str = "Model";

/// All minor versions of Python that the wheel supports.
pub const MINORS: [&str; 5] = ["3.10", "3.11", "3.12", "3.13", "3.14"];
/// The crates of the workspace that have no step of their own, so that a new crate is tested without a change here. The
/// Python binding is left out: it is an extension module, which only an interpreter can load; clippy compiles it, and
/// pytest runs it. Steps that run one test of these crates name them all, because another choice of crates means
/// another choice of features and compiles them again.
pub const OTHERS: &[&str] = &[
    "--workspace",
    "--exclude",
    "tidegate",
    "--exclude",
    "tidegate-origin",
    "--exclude",
    "tidegate-python",
    "--exclude",
    "tidegate-fuzz",
    "--exclude",
    "tidegate-fleet-tests",
    "--exclude",
    "tidegate-lab",
];
/// Random cases for each property of core that sets no number; `cargo xtask deep` runs twenty times as many.
const CASES: &str = "100";
/// How long a first run takes.
const ALL_ANEW: &str = "The first run on a machine builds everything: about 40 minutes on two idle cores. A later run takes about half of \
     that.\n`cargo xtask test --quick` checks the engine alone, in about 5 minutes.";
const ENGINE_ANEW: &str = "About 5 minutes on a new machine of two idle cores.";
/// Prefixes of the names of steps that use the origin.
const NEED_ORIGIN: &[&str] = &["python: ", "javascript: ", "kotlin: tests", "swift: "];
/// Prefixes of those that need the wheel, or an environment to build it in.
const NEED_WHEEL: &[&str] =
    &["python: ", "install: python", "registries: pypi", "fleet: its bench", "fleet: eight"];
const NEED_VENV: &[&str] =
    &["python: ", "install: python", "registries: pypi", "model: ", "fleet: its bench", "fleet: eight"];
const TYPED: &str = "bindings-python/tests/typed.py";
/// The first minute of a user.
pub const SMOKE: &str = "bindings-python/tests/smoke_wheel.py";

/// Prints the steps and their expected duration, runs them, and prints the summary. With words in `only` it runs the
/// steps whose names contain one of them, and the steps that build something for these.
pub fn test(shop: &Shop, only: &[String]) -> Result<ExitCode> {
    run(shop, only, ALL_ANEW, everything)
}

/// Tests the engine alone with a debug build, and installs nothing but crates: a result in minutes on a new machine.
pub fn quick(shop: &Shop) -> Result<ExitCode> {
    run(shop, &[], ENGINE_ANEW, engine)
}

fn run(shop: &Shop, only: &[String], first: &str, steps: fn(&Shop, &mut Report)) -> Result<ExitCode> {
    let times = Times::read(shop.scratch("times")?.join("steps.txt"));
    let mut report = Report::planned(times, only, first, |plan| steps(shop, plan))?;
    steps(shop, &mut report);
    Ok(report.close())
}

fn engine(shop: &Shop, report: &mut Report) {
    let check = |args: &[&str]| Verdict::check(cargo(shop).args(args).stream().and_then(Output::ok));
    report.step(RUST, "format", || check(&["fmt", "--all", "--check"]));
    report.step(CORE, "clippy", || {
        check(&["clippy", "-p", "tidegate", "--all-targets", "--", "-D", "warnings"])
    });
    // One call of cargo, which compiles core once for both.
    report.step(CORE, "tests, and generated files are current", || {
        rust_tests(shop, &["-p", "tidegate", "-p", "tidegate-generate"])
    });
    report.step(TOOLS, STRUCTURE, || check(&MEASURE));
    report.step(MODEL, "vectors are what the model says", || match find_python() {
        Ok(python) => Verdict::check(vectors_with(shop, &python)),
        Err(Error(why)) => Verdict::NotRun(why),
    });
    let path = shop.root.join("tests/model");
    report.step(MODEL, "1,000 random traces, step by step", || match find_python() {
        Ok(python) => Verdict::check(few_traces(shop, &python, &path)),
        Err(Error(why)) => Verdict::NotRun(why),
    });
}

/// The model needs only an interpreter.
fn vectors_with(shop: &Shop, python: &Python) -> Result {
    let script = shop.root.join("tests/model/generate.py");
    Cmd::new(&python.exe).arg("-s").arg(script).arg("--check").cwd(&shop.root).stream()?.ok().map(drop)
}

/// Compares a debug build of the engine with the model.
fn few_traces(shop: &Shop, python: &Python, model: &Path) -> Result {
    cargo(shop).args(["build", "--quiet", "-p", "tidegate", "--example", "traces"]).quiet()?;
    let compare = Cmd::new(&python.exe).arg("-s").arg(model.join("compare.py"));
    let compare = compare.args(["--count", "1000", "--jobs", "2", "--traces"]);
    compare.arg(shop.target.join("debug/examples/traces")).cwd(&shop.root).stream()?.ok().map(drop)
}

fn everything(shop: &Shop, report: &mut Report) {
    rust(shop, report);
    let mut origin = None;
    report.make(ORIGIN, "build the program (release)", NEED_ORIGIN, || keep(build_origin(shop), &mut origin));
    let venv = python(shop, origin.as_deref(), report);
    let package = js::steps(shop, origin.as_deref(), report);
    report.step(fleet::PART, "its bench keeps its promises", || fleet::check(shop));
    report.step(redis::FLEET, "eight processes in three languages, shortened", || match (&venv, &package) {
        _ if redis::program(shop).is_err() => Verdict::NotRun("there is no Redis server".into()),
        (Some(venv), Some(package)) => Verdict::check(short_fleet(shop, venv, package)),
        _ => Verdict::NotRun("one of the packages is not built, so there are not three".into()),
    });
    registry::crates(shop, report);
    install::rust(shop, report);
    jvm::steps(shop, origin.as_deref(), report);
    swift::steps(shop, origin.as_deref(), report);
    site::steps(shop, report);
    workflows::steps(shop, report);
}

/// Runs `cargo test` with these arguments; a failure does not stop the other test programs.
fn rust_tests(shop: &Shop, args: &[&str]) -> Verdict {
    Verdict::tests(cargo(shop).args(["test", "--no-fail-fast"]).args(args).stream(), Counts::from_cargo)
}

fn rust(shop: &Shop, report: &mut Report) {
    let check = |args: &[&str]| Verdict::check(cargo(shop).args(args).stream().and_then(Output::ok));
    report.step(RUST, "format", || check(&["fmt", "--all", "--check"]));
    // With the benches' peers, which no other step compiles.
    let everything = ["clippy", "--workspace", "--all-targets", "--features", "tidegate-bench-core/peers"];
    report.step(RUST, "clippy", || check(&[&everything[..], &["--", "-D", "warnings"]].concat()));
    // Its tests enable all features; each feature that a user may choose alone has to compile alone.
    for feature in [
        "",
        "documents",
        "tower",
        "http",
        "grpc",
        "anyhow",
        "reqwest",
        "reqwest-middleware",
        "fleet",
        "redis",
        "tracing",
        "metrics",
    ] {
        let alone =
            ["clippy", "-p", "tidegate-tokio", "--lib", "--features", feature, "--", "-D", "warnings"];
        let name = if feature.is_empty() { "no feature" } else { feature };
        report.step(TOKIO, &format!("clippy with {name} alone"), || check(&alone));
    }
    let tests = |args: &[&str]| rust_tests(shop, args);
    report.step(CORE, "tests", || {
        let run = cargo(shop).args(["test", "--no-fail-fast", "-p", "tidegate"]);
        Verdict::tests(run.env("PROPTEST_CASES", CASES).stream(), Counts::from_cargo)
    });
    report.step(ORIGIN, "tests", || tests(&["-p", "tidegate-origin"]));
    report.step(TOOLS, "tests", || tests(OTHERS));
    report.step(TOOLS, STRUCTURE, || check(&MEASURE));
    report.step(TOKIO, "10,000 random traces, the same bytes as core", || traces::tokio(shop, traces::SOME));
    // Optimised, because it simulates some twenty million calls.
    report.step(LAB, "published experiments, a few seeds", || {
        tests(&["--profile", "checked", "-p", "tidegate-lab"])
    });
    // Optimised, because it tries a hundred thousand random inputs beside the corpus. Uses the same build of the engine
    // as the lab.
    report
        .step(FUZZ, "corpora and random inputs", || tests(&["--profile", "checked", "-p", "tidegate-fuzz"]));
    redis::steps(shop, report);
    report.step(CORE, "vectors in WebAssembly", || wasm::check(shop));
    report.step(CORE, "instructions per call", || gate::check(shop));
    report.step(CORE, "a call costs the same beside many", || gate::growth(shop, gate::MANY));
}

/// Returns the environment if the wheel is installed in it.
fn python(shop: &Shop, origin: Option<&Path>, report: &mut Report) -> Option<Venv> {
    let (mut venv, mut built) = (None, None);
    report.make(PYTHON, "environment", NEED_VENV, || keep(python_environment(shop), &mut venv));
    report.make(PYTHON, "build the wheel (release)", NEED_WHEEL, || match &venv {
        Some(venv) => keep(wheel::build(shop, venv), &mut built),
        None => Verdict::NotRun("there is no environment to build it in".into()),
    });
    let installed = report.make(PYTHON, "install the wheel", NEED_WHEEL, || match (&venv, &built) {
        (Some(venv), Some(built)) => Verdict::check(install(shop, venv, built)),
        _ => Verdict::NotRun("there is no wheel".into()),
    });
    let with_venv = |work: &dyn Fn(&Venv) -> Verdict| match &venv {
        Some(venv) => work(venv),
        None => Verdict::NotRun("there is no environment".into()),
    };
    let with_wheel = |work: &dyn Fn(&Venv) -> Verdict| {
        if installed { with_venv(work) } else { Verdict::NotRun("the wheel is not installed".into()) }
    };

    report.step(PYTHON, "ruff: lint", || {
        with_venv(&|venv| ruff(shop, venv, &["check", "--output-format", "concise"]))
    });
    report.step(PYTHON, "ruff: format", || with_venv(&|venv| ruff(shop, venv, &["format", "--check"])));
    report.step(PYTHON, "stub of the native half is current", || {
        with_venv(&|venv| Verdict::check(check_stub(shop, venv)))
    });
    report.step(PYTHON, "mypy --strict", || with_wheel(&|venv| mypy(shop, venv)));
    report.step(PYTHON, "pyright", || with_wheel(&|venv| pyright(shop, venv)));
    report.step(PYTHON, "stubtest", || with_wheel(&|venv| stubtest(shop, venv)));
    report.step(PYTHON, "tests", || with_wheel(&|venv| pytest(shop, venv, origin, "bindings-python/tests")));
    report.step(PYTHON, "10,000 random traces, the same bytes as core", || {
        with_wheel(&|venv| traces::python(shop, venv, traces::SOME))
    });
    report.step(PYTHON, "tests of the demo", || {
        with_wheel(&|venv| pytest(shop, venv, origin, "examples/brownout"))
    });
    report.step(PYTHON, "tests of the chats with language models", || {
        with_wheel(&|venv| pytest(shop, venv, origin, "examples/llm"))
    });
    report.step(PYTHON, "the demo, shortened", || match origin {
        Some(program) => with_wheel(&|venv| Verdict::check(short_demo(shop, venv, program))),
        None => Verdict::NotRun("there is no origin".into()),
    });

    report.step(MODEL, "vectors are what the model says", || {
        with_venv(&|venv| Verdict::check(model(shop, venv, &["generate.py", "--check"])))
    });
    report.step(MODEL, "keeps its own rules", || {
        with_venv(&|venv| Verdict::check(model(shop, venv, &["selfcheck.py"])))
    });
    report.step(MODEL, "10,000 random traces, step by step", || {
        with_venv(&|venv| Verdict::check(model_traces(shop, venv)))
    });
    report.step(MODEL, "quantiles beside PyPI's ddsketch", || {
        with_venv(&|venv| Verdict::check(quantiles(shop, venv)))
    });
    report.step(MODEL, "mypy --strict", || with_venv(&|venv| Verdict::check(model_types(shop, venv))));

    let main = find_python().ok();
    for minor in MINORS.into_iter().filter(|minor| main.as_ref().is_none_or(|main| *minor != main.minor())) {
        report.step(PYTHON, &format!("the same wheel on CPython {minor}"), || {
            match (&built, find_minor(minor)) {
                (None, _) => Verdict::NotRun("there is no wheel".into()),
                (_, None) => Verdict::NotRun(format!("python{minor} is not on this machine")),
                (Some(built), Some(other)) => Verdict::check(published(shop, &other, built, origin)),
            }
        });
    }
    registry::pypi(venv.as_ref(), built.as_deref(), report);
    install::python(shop, built.as_deref(), main.as_ref(), report);
    venv.filter(|_| installed)
}

/// Installs the wheel, and checks that `import tidegate` finds it.
fn install(shop: &Shop, venv: &Venv, built: &Path) -> Result {
    wheel::install(venv, built)?;
    let file = wheel::location(venv, &shop.scratch("outside")?)?;
    println!("   under test: {}", file.display());
    Ok(())
}

/// ruff on every folder that holds Python.
fn ruff(shop: &Shop, venv: &Venv, args: &[&str]) -> Verdict {
    let folders = ["bindings-python", "bench", "examples", "tests"]
        .into_iter()
        .filter(|folder| shop.root.join(folder).is_dir());
    let ruff =
        Cmd::new(venv.bin("ruff")).cwd(&shop.root).env("RUFF_CACHE_DIR", shop.target.join("xtask/ruff"));
    Verdict::check(ruff.args(args).args(folders).stream().and_then(Output::ok))
}

/// Runs mypy on the installed package, never on the source folder, and on code that users write.
fn mypy(shop: &Shop, venv: &Venv) -> Verdict {
    let sample = shop.root.join(TYPED).display().to_string();
    match typed(shop, venv, &["mypy", "--strict", "-p", "tidegate", "--config-file"]) {
        Verdict::Passed(_) => typed(shop, venv, &["mypy", "--strict", &sample, "--config-file"]),
        failed => failed,
    }
}

/// Runs pyright on the installed package, whose modules import each other by its name, and on code that users write.
fn pyright(shop: &Shop, venv: &Venv) -> Verdict {
    let run = || {
        let outside = shop.scratch("outside")?;
        let package = wheel::location(venv, &outside)?.with_file_name("");
        let pyright = Cmd::new(venv.bin("pyright")).args(["--pythonversion", "3.10", "--level", "error"]);
        let pyright = pyright.arg("--pythonpath").arg(venv.bin("python"));
        let pyright = pyright.arg(package).arg(shop.root.join(TYPED));
        pyright.env("PYRIGHT_PYTHON_IGNORE_WARNINGS", "1").cwd(&outside).stream()?.ok()
    };
    Verdict::check(run())
}

/// Checks the stub of the native half against the library. The other modules contain their types and have no stubs.
fn stubtest(shop: &Shop, venv: &Venv) -> Verdict {
    typed(shop, venv, &["mypy.stubtest", "tidegate._native", "--mypy-config-file"])
}

fn typed(shop: &Shop, venv: &Venv, args: &[&str]) -> Verdict {
    let run = || {
        let mypy = venv.python().arg("-m").args(args).arg(shop.root.join("pyproject.toml"));
        mypy.env("MYPY_CACHE_DIR", shop.target.join("xtask/mypy"))
            .cwd(&shop.scratch("outside")?)
            .stream()?
            .ok()
    };
    Verdict::check(run())
}

/// Runs pytest in a folder from which the package's source cannot be imported. Four workers share the tests, most of
/// whose time is waiting.
fn pytest(shop: &Shop, venv: &Venv, origin: Option<&Path>, folder: &str) -> Verdict {
    let run = || {
        let pytest = venv
            .python()
            .args([
                "-m",
                "pytest",
                "-n",
                "4",
                "-p",
                "no:cacheprovider",
                "--durations=15",
                "--durations-min=2",
                "--rootdir",
            ])
            .arg(&shop.root);
        let pytest = pytest.arg("-c").arg(shop.root.join("pyproject.toml")).arg(shop.root.join(folder));
        let pytest = redis::with_server(shop, pytest);
        with_origin(pytest, origin).cwd(&shop.scratch("outside")?).stream()
    };
    Verdict::tests(run(), Counts::from_pytest)
}

/// Runs a short version of the demo: it has to finish and write its figures and its plots.
fn short_demo(shop: &Shop, venv: &Venv, origin: &Path) -> Result {
    let out = shop.scratch("demo")?;
    let demo = venv.script(&shop.root.join("examples/brownout/demo.py")).arg("--origin").arg(origin);
    demo.arg("--out").arg(&out).arg("--quick").cwd(&out).stream()?.ok()?;
    for name in ["result.json", "brownout.png", "brownout.svg"] {
        let size = fs::metadata(out.join(name)).map_err(Error::at("look at", &out.join(name)))?.len();
        if size == 0 {
            return Err(Error(format!("the demo left an empty {name}")));
        }
    }
    Ok(())
}

/// Runs a program of the independent model.
fn model(shop: &Shop, venv: &Venv, args: &[&str]) -> Result {
    let script = shop.root.join("tests/model").join(args[0]);
    venv.script(&script).args(&args[1..]).cwd(&shop.root).stream()?.ok().map(drop)
}

/// Runs core and the model on the same random policies and scripts; a difference is shrunk and printed with its replay.
fn model_traces(shop: &Shop, venv: &Venv) -> Result {
    let program = traces::generator(shop)?.display().to_string();
    model(shop, venv, &["compare.py", "--count", "10000", "--jobs", "2", "--traces", &program])
}

/// Compares core's sketch with a library that others use.
fn quantiles(shop: &Shop, venv: &Venv) -> Result {
    let program = traces::example(shop, "quantiles")?;
    let script = shop.root.join("tests/differential/quantiles.py");
    venv.script(&script).arg(program).cwd(&shop.root).stream()?.ok().map(drop)
}

fn model_types(shop: &Shop, venv: &Venv) -> Result {
    let folder = shop.root.join("tests/model");
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in [&folder, &shop.root.join("tests/differential")] {
        let entries = fs::read_dir(folder).map_err(Error::at("read", folder))?;
        let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
        files.extend(paths.filter(|path| path.extension().is_some_and(|extension| extension == "py")));
    }
    files.sort();
    let mypy =
        venv.python().args(["-m", "mypy", "--strict", "--config-file"]).arg(shop.root.join("pyproject.toml"));
    let mypy =
        mypy.args(files).env("MYPYPATH", &folder).env("MYPY_CACHE_DIR", shop.target.join("xtask/mypy"));
    mypy.cwd(&shop.scratch("outside")?).stream()?.ok().map(drop)
}

/// Installs the wheel in a new environment outside the tree, and runs the smoke script.
pub fn published(shop: &Shop, python: &Python, built: &Path, origin: Option<&Path>) -> Result {
    let outside = TempDir::new()?;
    let venv = Venv { dir: outside.0.join("venv") };
    // Installing a pip into the environment takes most of the time, and installing a wheel does not need one.
    Cmd::new(&python.exe).args(["-m", "venv", "--without-pip"]).arg(&venv.dir).quiet()?;
    let pip = python_environment(shop)?.pip().arg("--python").arg(venv.bin("python"));
    pip.args(["install", "--quiet", "--no-index", "--no-deps"]).arg(built).quiet()?;
    let smoke = venv.python().arg(shop.root.join(SMOKE)).cwd(&outside.0);
    with_origin(smoke, origin).stream()?.ok().map(drop)
}

/// Sets `TIDEGATE_ORIGIN`, by which tests find the program of the faulty origin.
fn with_origin(command: Cmd, origin: Option<&Path>) -> Cmd {
    match origin {
        Some(program) => command.env("TIDEGATE_ORIGIN", program),
        None => command,
    }
}

/// Keeps the result of a step for later steps.
fn keep<T>(result: Result<T>, slot: &mut Option<T>) -> Verdict {
    Verdict::check(result.map(|made| *slot = Some(made)))
}

/// A folder outside the repository that is removed when the value is dropped, also after a failure.
struct TempDir(PathBuf);

impl TempDir {
    fn new() -> Result<Self> {
        let dir = env::temp_dir().join(format!("tidegate-published-{}", process::id()));
        fs::create_dir_all(&dir).map_err(Error::at("make", &dir))?;
        Ok(Self(dir))
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cargo test` would find these files by itself if there were no `suite.rs`.
    #[test]
    fn each_file_of_tests_is_in_a_program() {
        let root = Shop::open(false).expect("we are in the repository").root;
        let suites = Cmd::new("git").args(["ls-files", "*/tests/suite.rs"]).cwd(&root).capture();
        let suites = suites.and_then(Output::ok).expect("git lists them").text;
        assert!(suites.lines().any(|suite| suite == "core/tests/suite.rs"), "{suites}");
        for suite in suites.lines().map(|line| root.join(line)) {
            let folder = suite.parent().expect("it is in a folder");
            let manifest = fs::read_to_string(folder.with_file_name("Cargo.toml")).expect("of its crate");
            let modules = fs::read_to_string(&suite).expect("it was listed");
            for entry in fs::read_dir(folder).expect("it is there").flatten() {
                let path = entry.path();
                let name =
                    path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                if path.extension().is_some_and(|extension| extension == "rs") {
                    let own = manifest.contains(&format!("[[test]]\nname = \"{name}\""));
                    let one = modules.lines().any(|line| line == format!("mod {name};"));
                    assert!(
                        own != one,
                        "{} is in no program, or in two: name it in {}",
                        path.display(),
                        suite.display()
                    );
                }
            }
        }
    }
}
