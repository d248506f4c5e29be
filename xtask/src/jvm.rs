//! Kotlin and Java in `cargo xtask test`: the library that the JVM loads, and Maven's tests.

use crate::demo::present;
use crate::report::{Counts, Report, Verdict};
use crate::run::{Cmd, Error, Result};
use crate::setup::{Shop, Venv, fnv1a};
use crate::{cargo, install, natives, redis, registry, traces};
use std::path::{Path, PathBuf};
use std::{env, fs};

const KOTLIN: &str = "Kotlin";

/// The cargo profile for tests: with checks, and without optimisations for which a release takes a minute longer.
pub const TESTED: &str = "checked";
/// The platform whose library is in every jar, released or not.
const OWN: &str = "linux-x86_64";
/// Programs that end within seconds never regain the cost of the second compiler, which was half of all CPU time here.
const FRUGAL: &str = "-DargLine=-XX:+UseSerialGC -XX:TieredStopAtLevel=1";
/// The variable that names a Java with virtual threads, for the tests and benches that need one.
const NEWER: &str = "TIDEGATE_NEWER_JAVA";
/// The first Java that has them.
const VIRTUAL: u32 = 21;

/// The same options for Maven itself and its Kotlin compiler, together with those that the user has set.
pub fn frugal() -> String {
    let own = std::env::var("MAVEN_OPTS").unwrap_or_default();
    format!("-XX:+UseSerialGC -XX:TieredStopAtLevel=1 {own}")
}

/// Builds the libraries that the JVM loads and Swift links, and generates their Kotlin and Swift sources.
pub fn library(shop: &Shop, profile: &str) -> Result {
    cargo(shop).args(["build", "--quiet", "--profile", profile, "-p", "tidegate-uniffi"]).quiet()?;
    bindgen(shop, profile, None)
}

/// Runs the program that reads a library's interface. The static library is never stripped.
fn bindgen(shop: &Shop, folder: &str, mode: Option<&str>) -> Result {
    let library = shop.target.join(folder).join("libtidegate_uniffi.a");
    let run = cargo(shop).args(["run", "--quiet", "-p", "tidegate-bindgen", "--"]).arg(library);
    run.args(mode).stream()?.ok().map(drop)
}

/// Runs all steps.
pub fn steps(shop: &Shop, origin: Option<&Path>, report: &mut Report) {
    let built = report.make(
        KOTLIN,
        "build the native library (optimised, with checks)",
        &["kotlin: ", "install: maven", "registries: maven"],
        || Verdict::check(library(shop, TESTED)),
    );
    report.make(KOTLIN, "tests and the example", &["kotlin: 10,000"], || {
        if !built {
            return Verdict::NotRun("there is no native library".into());
        }
        let Some(origin) = origin else { return Verdict::NotRun("there is no origin".into()) };
        maven(shop, origin)
    });
    report.step(KOTLIN, "10,000 random traces, the same bytes as core", || {
        if !built {
            return Verdict::NotRun("there is no native library".into());
        }
        if let Some(missing) = missing() {
            return Verdict::NotRun(format!("{missing} is not on this machine"));
        }
        Verdict::check(traces::answered(shop, traces::DEBUG, traces::SOME))
    });
    let there = install::maven(shop, built, report);
    registry::central(shop, there, report);
}

/// Replays many traces without Maven's other tests.
pub fn replay(shop: &Shop, count: u64) -> Verdict {
    if let Some(missing) = missing() {
        return Verdict::NotRun(format!("{missing} is not on this machine"));
    }
    let only =
        ["-q", "-Dtest=TracesTest", "-Dsurefire.failIfNoSpecifiedTests=false", "-pl", ":tidegate", "-am"];
    let run = || {
        library(shop, TESTED)?;
        let folder = traces::set(shop, traces::DEBUG, count)?;
        mvn(shop, TESTED)
            .arg(FRUGAL)
            .env("MAVEN_OPTS", frugal())
            .args(only)
            .arg("test")
            .env("TIDEGATE_TRACES", folder)
            .quiet()?;
        traces::answered(shop, traces::DEBUG, count)
    };
    Verdict::check(run())
}

/// Runs a test of the Kotlin library with this native library in place of the one in the jar.
pub fn smoke(shop: &Shop, library: &Path) -> Result {
    self::library(shop, TESTED)?;
    let only = [
        "-q",
        "-Dtest=LinkTest",
        "-Dsurefire.failIfNoSpecifiedTests=false",
        "-pl",
        ":tidegate",
        "-am",
        "test",
    ];
    let named = format!("-Dtidegate.library={}", library.display());
    mvn(shop, TESTED)
        .arg(FRUGAL)
        .env("MAVEN_OPTS", frugal())
        .env("JAVA_TOOL_OPTIONS", named)
        .args(only)
        .quiet()
        .map(drop)
}

/// Writes the list of functions exported by JNI, or checks that it is current. Nothing is linked, because a list that
/// names a removed function would not link.
pub fn generated(shop: &Shop, check: bool) -> Result {
    let archive = ["--quiet", "-p", "tidegate-uniffi", "--lib", "--crate-type", "staticlib"];
    cargo(shop).arg("rustc").args(archive).quiet()?;
    bindgen(shop, "debug", Some(if check { "--check" } else { "--exports" }))
}

/// Measures the cost of a call on the JVM, beside peers. The variable says where the rows go.
pub fn bench(shop: &Shop, venv: &Venv, (name, rows): (&str, &Path)) -> Result {
    let Some(built) = built(shop)? else { return Ok(()) };
    let java = java();
    let run = |java: &Path, program: &str| {
        let run = Cmd::new(java).arg("-cp").arg(built.join("benchmarks.jar"));
        run.arg(format!("dev.tidegate.bench.{program}")).env(name, rows).inherit()
    };
    run(&java, "MainKt")?;
    match newer_java() {
        Some(newer) => run(&newer, "VirtualThreads")?,
        None => println!("no virtual threads: there is no Java {VIRTUAL} or newer ({NEWER} names one)"),
    }
    let start = venv.script(&present(shop, "bench/jvm/start.py")?).args(["--runs", "25", "--java"]);
    start.arg(java).env(name, rows).inherit()
}

/// `cargo xtask bench jmh [options…]`: the same beside the same peers, measured by JMH.
pub fn jmh(shop: &Shop, options: &[String]) -> Result {
    let Some(built) = built(shop)? else { return Ok(()) };
    Cmd::new(java()).arg("-jar").arg(built.join("benchmarks.jar")).args(options).inherit()
}

/// Builds the programs of `bench/jvm` and returns their folder; none if a tool is missing.
fn built(shop: &Shop) -> Result<Option<PathBuf>> {
    if let Some(missing) = missing() {
        println!("not run: {missing} is not on this machine");
        return Ok(None);
    }
    library(shop, "release")?;
    let only = ["-q", "-Pbench", "-DskipTests", "-pl", ":tidegate-bench", "-am", "package"];
    mvn(shop, "release").args(only).inherit()?;
    Ok(Some(shop.root.join("bench/jvm/target")))
}

/// The Java that Maven runs with, too.
fn java() -> PathBuf {
    env::var_os("JAVA_HOME").map_or_else(|| "java".into(), |home| Path::new(&home).join("bin/java"))
}

/// A Java with virtual threads: the one that a variable names, else the newest of those that are installed on Linux.
fn newer_java() -> Option<PathBuf> {
    if let Some(named) = env::var_os(NEWER) {
        return Some(named.into());
    }
    let homes = fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten().map(|entry| entry.path());
    let versions =
        homes.filter_map(|home| Some((version(&fs::read_to_string(home.join("release")).ok()?)?, home)));
    let (newest, home) = versions.max()?;
    (newest >= VIRTUAL).then(|| home.join("bin/java"))
}

/// The first number of the version in a Java's file `release`.
fn version(release: &str) -> Option<u32> {
    let (_, after) = release.split_once("JAVA_VERSION=\"")?;
    after.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// The first required program that is missing.
pub fn missing() -> Option<&'static str> {
    let programs = [("java", "-version"), ("mvn", "--version")];
    let there = |program: &str, argument: &str| {
        Cmd::new(program).arg(argument).capture().is_ok_and(|ran| ran.status.success())
    };
    programs.into_iter().find(|(program, argument)| !there(program, argument)).map(|(program, _)| program)
}

/// Maven in the folder of the Kotlin library, with the native library of this profile.
pub fn mvn(shop: &Shop, profile: &str) -> Cmd {
    mvn_with(shop, &shop.target.join(profile))
}

/// Maven with the native libraries of all platforms that have been built for a release, in the jar.
pub fn mvn_of_release(shop: &Shop) -> Result<Cmd> {
    let all = natives::folder(shop)?;
    let own = all.join(OWN);
    let own = if own.is_dir() { own } else { shop.target.join("release") };
    Ok(mvn_with(shop, &own).arg(format!("-Dnatives.dir={}", all.display())))
}

fn mvn_with(shop: &Shop, natives: &Path) -> Cmd {
    let natives = format!("-Dnative.dir={}", natives.display());
    let run = Cmd::new("mvn").args(["-B", "-Dstyle.color=never", "-Dkotlin.compiler.daemon=false"]);
    run.args((!shop.install).then_some("-o")).arg(natives).cwd(&shop.root.join("bindings-uniffi/kotlin"))
}

fn maven(shop: &Shop, origin: &Path) -> Verdict {
    if let Some(missing) = missing() {
        return Verdict::NotRun(format!("{missing} is not on this machine"));
    }
    let folder = match traces::set(shop, traces::DEBUG, traces::SOME) {
        Ok(folder) => folder,
        Err(Error(why)) => return Verdict::Failed(Counts::default(), why),
    };
    let stamp = match unchanged_or_cleared(shop) {
        Ok(stamp) => stamp,
        Err(Error(why)) => return Verdict::Failed(Counts::default(), why),
    };
    let tests = mvn(shop, TESTED)
        .args([FRUGAL, "-Dkotlin.compiler.incremental=true"])
        .env("MAVEN_OPTS", frugal())
        // With the benches, so that these compile and run.
        .args(["-Pbench", "verify"])
        .env("TIDEGATE_ORIGIN", origin)
        .env("TIDEGATE_TRACES", folder);
    let tests = match newer_java() {
        Some(newer) => tests.env(NEWER, newer),
        None => tests,
    };
    let ran = redis::with_server(shop, tests).stream();
    if let (Ok(output), (file, sources)) = (&ran, stamp)
        && output.status.success()
        && let Err(why) = fs::write(&file, sources)
    {
        println!("   {why}: the next run compiles everything");
    }
    match &ran {
        Ok(output) if !output.status.success() && unreachable(&output.text) => {
            Verdict::NotRun("Maven Central does not answer, and not all that is needed is here".into())
        }
        _ => Verdict::tests(ran, surefire),
    }
}

/// The modules that Maven compiles, from the root.
const MODULES: [&str; 4] =
    ["bindings-uniffi/kotlin/native", "bindings-uniffi/kotlin/tidegate", "examples/kotlin", "bench/jvm"];

/// Kotlin's compiler takes two minutes of CPU for all modules, and no time if no source has changed. It does not notice
/// changes in another module, so after any change everything is compiled again. Returns the file that describes the
/// sources of the last successful run, and its content for the next.
fn unchanged_or_cleared(shop: &Shop) -> Result<(PathBuf, String)> {
    let file = shop.scratch("kotlin")?.join("sources");
    let sources = sources(&shop.root)?;
    if fs::read_to_string(&file).is_ok_and(|last| last == sources) {
        return Ok((file, sources));
    }
    drop(fs::remove_file(&file));
    for module in MODULES {
        for made in ["kotlin-ic", "classes", "test-classes"] {
            let folder = shop.root.join(module).join("target").join(made);
            if folder.is_dir() {
                fs::remove_dir_all(&folder).map_err(Error::at("remove", &folder))?;
            }
        }
    }
    Ok((file, sources))
}

/// A hash of all sources of all modules and of their build files.
fn sources(root: &Path) -> Result<String> {
    let mut waiting = vec![root.join("bindings-uniffi/kotlin/pom.xml")];
    waiting.extend(MODULES.iter().flat_map(|module| ["pom.xml", "src"].map(|it| root.join(module).join(it))));
    let mut files = Vec::new();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).map_err(Error::at("read", &path))?;
            waiting.extend(entries.flatten().map(|entry| entry.path()));
        } else {
            files.push(path);
        }
    }
    files.sort();
    let mut all = Vec::new();
    for file in files {
        let text = fs::read(&file).map_err(Error::at("read", &file))?;
        let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        all.extend(format!("{name} {}\n", text.len()).into_bytes());
        all.extend(text);
    }
    Ok(format!("{:016x}", fnv1a(&all)))
}

/// Whether packages could not be downloaded. A dependency that does not exist has another message.
fn unreachable(text: &str) -> bool {
    let kinds =
        ["Could not transfer artifact", "Unknown host", "in offline mode", "Connection refused", "timed out"];
    let kind = ["DependencyResolutionException", "PluginResolutionException", "UnresolvableModelException"];
    text.lines().any(|line| line.starts_with("[ERROR]") && kinds.iter().any(|words| line.contains(words)))
        && kind.iter().any(|words| text.contains(words))
}

/// Sums Surefire's closing lines, one for each module: `Tests run: 3, Failures: 0, Errors: 0, Skipped: 0`.
fn surefire(text: &str) -> Counts {
    let mut sum = Counts::default();
    for line in text.lines().filter(|line| !line.contains("Time elapsed")) {
        let Some(counts) = line.split_once("Tests run: ").map(|(_, counts)| counts) else { continue };
        let mut numbers = counts
            .split(',')
            .filter_map(|part| part.rsplit(' ').next().and_then(|number| number.trim().parse::<u32>().ok()));
        let (Some(run), Some(failures), Some(errors), Some(skipped)) =
            (numbers.next(), numbers.next(), numbers.next(), numbers.next())
        else {
            continue;
        };
        sum.failed += failures + errors;
        sum.skipped += skipped;
        sum.passed += run.saturating_sub(failures + errors + skipped);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surefires_closing_lines_are_summed() {
        let text = "\
[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s -- in A
[INFO] Tests run: 26, Failures: 1, Errors: 2, Skipped: 3
[ERROR] Tests run: 4, Failures: 0, Errors: 0, Skipped: 0
";
        assert_eq!(surefire(text), Counts { passed: 24, failed: 3, skipped: 3 });
        assert_eq!(surefire("[INFO] No tests to run."), Counts::default());
    }

    #[test]
    fn a_javas_version_is_read() {
        let told = |text| version(&format!("IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"{text}\"\nLIBC=\"gnu\"\n"));
        assert_eq!([told("17.0.15"), told("25"), told("1.8.0_4")], [Some(17), Some(25), Some(1)]);
        assert_eq!(version(""), None);
    }

    #[test]
    fn any_change_of_a_source_is_seen() {
        let shop = Shop::open(false).expect("we are in the repository");
        let root = shop.scratch(&format!("kotlin/{}", std::process::id())).expect("a folder");
        for module in MODULES {
            fs::create_dir_all(root.join(module).join("src/main")).expect("a folder");
            fs::write(root.join(module).join("pom.xml"), "<project/>").expect("a file");
        }
        fs::write(root.join("bindings-uniffi/kotlin/pom.xml"), "<project/>").expect("a file");
        let mut seen = vec![sources(&root).expect("they can be read")];
        let write =
            |file: &str, text: &str| fs::write(root.join(MODULES[1]).join(file), text).expect("a file");
        for (file, text) in
            [("src/main/A.kt", "a"), ("src/main/A.kt", "b"), ("src/B.kt", ""), ("pom.xml", "<p/>")]
        {
            write(file, text);
            seen.push(sources(&root).expect("they can be read"));
        }
        assert_eq!(seen.last(), sources(&root).ok().as_ref(), "nothing has changed");
        fs::remove_dir_all(&root).expect("it was made");
        let different = seen.iter().enumerate().all(|(at, one)| !seen[..at].contains(one));
        assert!(different, "{seen:?}");
    }

    #[test]
    fn packages_that_cannot_be_had_are_told_from_mistakes() {
        let away = "[ERROR] x: Could not transfer artifact a:b:pom:1 from/to central\n[ERROR] PluginResolutionException";
        assert!(unreachable(away));
        let mistake = "[ERROR] file.kt:3:1 Unresolved reference: x\n[ERROR] MojoFailureException";
        assert!(!unreachable(mistake));
    }
}
