//! Swift on this machine: Debian's compiler in a private root, entered through a mount namespace that ends with the
//! command.
//!
//! Debian 12 has no Swift, and Debian 13's compiler needs a newer libc, so its packages are unpacked beside the system.
//! The root is kept in `~/.cache/tidegate` and named after the recipe. A Mac needs none of this; see `docs/swift.md`.

use crate::report::{Counts, Report, Verdict};
use crate::run::{Cmd, Error, Result, step};
use crate::setup::{Shop, fnv1a, install_debian};
use crate::{install, jvm, traces};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

const SUITE: &str = "trixie";
/// git, because the package manager fetches packages with it.
const PACKAGES: &str = "swiftlang,libc6-dev,libstdc++-14-dev,ca-certificates,bash,dash,coreutils,git";
/// Parts of the packages that are not unpacked: debuggers, editors' helpers, static and embedded libraries, manuals;
/// 1.1 GB.
const LEFT_OUT: [&str; 9] = [
    "/usr/libexec/swift/bin/lldb*",
    "/usr/libexec/swift/lib/liblldb*",
    "/usr/libexec/swift/bin/clangd",
    "/usr/libexec/swift/bin/sourcekit-lsp",
    "/usr/libexec/swift/lib/libsourcekitdInProc*",
    "/usr/libexec/swift/lib/swift_static/*",
    "/usr/libexec/swift/lib/swift/embedded/*",
    "/usr/share/doc/*",
    "/usr/share/man/*",
];
/// The file that marks a complete root; it is written last.
const STAMP: &str = "tidegate-complete";
const MIRROR: &str = "http://deb.debian.org/debian";

const SWIFT: &str = "Swift";
/// Prefixes of the names of steps that need the compiler and the library.
const NEED_COMPILER: &[&str] = &["swift: ", "install: swift"];
/// The place of the repository's folders in the root.
const SOURCE: &str = "/src";
const SCRATCH: &str = "/scratch";
const TRACES: &str = "/traces";
/// With the index store: a fresh build uses it to look for tests of `XCTest`, even if none are to run, and fails without
/// it.
const TEST: &str = "swift test --disable-xctest --scratch-path /scratch/tests";

/// Runs the steps of the tests.
pub fn steps(shop: &Shop, origin: Option<&Path>, report: &mut Report) {
    let mut root = None;
    report.make(SWIFT, "a compiler", NEED_COMPILER, || match Root::open(shop) {
        Ok(found) => {
            root = Some(found);
            Verdict::Passed(Counts::default())
        }
        Err(Error(why)) => Verdict::NotRun(why),
    });
    let built =
        report.make(SWIFT, "the static library (optimised, with checks)", NEED_COMPILER, || match &root {
            Some(_) => Verdict::check(library(shop, jvm::TESTED)),
            None => Verdict::NotRun("there is no compiler".into()),
        });
    report.make(SWIFT, "tests", &["swift: 10,000"], || match (&root, origin) {
        (None, _) => Verdict::NotRun("there is no compiler".into()),
        _ if !built => Verdict::NotRun("there is no library".into()),
        (_, None) => Verdict::NotRun("there is no origin".into()),
        (Some(root), Some(program)) => match supply(shop, program) {
            Ok(()) => {
                let tests = with_traces(shop, root, TEST, traces::SOME);
                Verdict::tests(tests.and_then(Cmd::stream), Counts::from_swift)
            }
            Err(Error(why)) => Verdict::Failed(Counts::default(), why),
        },
    });
    report.step(SWIFT, "10,000 random traces, the same bytes as core", || match (&root, origin) {
        (Some(_), Some(_)) if built => Verdict::check(traces::answered(shop, traces::DEBUG, traces::SOME)),
        _ => Verdict::NotRun("there is no compiler, no library or no origin".into()),
    });
    report.step(SWIFT, "the example", || match (&root, origin) {
        (None, _) => Verdict::NotRun("there is no compiler".into()),
        _ if !built => Verdict::NotRun("there is no library".into()),
        (_, None) => Verdict::NotRun("there is no origin".into()),
        (Some(root), Some(_)) => Verdict::check(example(shop, root)),
    });
    install::swift(shop, root.as_ref().filter(|_| built), report);
}

/// Replays many traces without other tests.
pub fn replay(shop: &Shop, count: u64) -> Verdict {
    let root = match Root::open(shop) {
        Ok(root) => root,
        Err(Error(why)) => return Verdict::NotRun(why),
    };
    let run = || {
        library(shop, jvm::TESTED)?;
        with_traces(shop, &root, &format!("{TEST} --filter TracesTests"), count)?.quiet()?;
        traces::answered(shop, traces::DEBUG, count)
    };
    Verdict::check(run())
}

/// Measures the cost of a call in Swift beside a bare one. Without Swift it prints that. The variable says where the
/// rows go; the compiler's root has a folder of its own for them.
pub fn bench(shop: &Shop, (name, rows): (&str, &Path)) -> Result {
    let root = match Root::open(shop) {
        Ok(root) => root,
        Err(Error(why)) => {
            println!("not run: {why}");
            return Ok(());
        }
    };
    library(shop, "release")?;
    let own = shop.scratch("swift")?.join("rows.tsv");
    let run = format!(
        "rm -f {SCRATCH}/rows.tsv && export {name}={SCRATCH}/rows.tsv && \
         swift run -c release --scratch-path {SCRATCH}/bench TidegateBench"
    );
    inside(shop, &root, "bindings-uniffi/swift", &run)?.stream()?.ok()?;
    let measured = fs::read(&own).map_err(Error::at("read", &own))?;
    let appended = fs::File::options().append(true).create(true).open(rows);
    appended.and_then(|mut file| file.write_all(&measured)).map_err(Error::at("write", rows))
}

/// The command that runs the bench's program outside the root, for callgrind: the root's loader with its libraries.
pub struct Counted {
    loader: PathBuf,
    libraries: String,
    program: PathBuf,
}

impl Counted {
    /// Builds the program.
    pub fn build(shop: &Shop) -> Result<Self> {
        let root = Root::open(shop)?;
        library(shop, "release")?;
        let build = format!("swift build -c release --product TidegateBench --scratch-path {SCRATCH}/bench");
        inside(shop, &root, "bindings-uniffi/swift", &build)?.quiet()?;
        let at = |path: &str| root.dir.join(path);
        let libraries = ["usr/lib/x86_64-linux-gnu", "usr/libexec/swift/lib/swift/linux"].map(at);
        Ok(Self {
            loader: at("usr/lib64/ld-linux-x86-64.so.2"),
            libraries: libraries.map(|path| path.display().to_string()).join(":"),
            program: shop.scratch("swift")?.join("bench/release/TidegateBench"),
        })
    }

    /// Appends the program, with its arguments, to a command that runs another.
    pub fn run(&self, by: Cmd, args: &[&str]) -> Cmd {
        by.arg(&self.loader).arg("--library-path").arg(&self.libraries).arg(&self.program).args(args)
    }
}

/// Extracts the symbol graphs of the module `Tidegate` from the build of the tests.
pub fn symbols(shop: &Shop) -> Result<Vec<PathBuf>> {
    let root = Root::open(shop)?;
    let scratch = shop.scratch("swift")?;
    if !scratch.join("tests/debug/Modules/Tidegate.swiftmodule").is_file() {
        return Err(Error("the module is not built: cargo xtask test --only swift".into()));
    }
    let extract = "mkdir -p /scratch/graph && swift symbolgraph-extract -module-name Tidegate -target x86_64-pc-linux-gnu \
                   -I /scratch/tests/debug/Modules -I Sources/TidegateNativeFFI -output-dir /scratch/graph \
                   -minimum-access-level public -skip-synthesized-members";
    inside(shop, &root, "bindings-uniffi/swift", extract)?.quiet()?;
    Ok(["Tidegate.symbols.json", "Tidegate@FoundationNetworking.symbols.json"]
        .map(|name| scratch.join("graph").join(name))
        .into_iter()
        .filter(|path| path.is_file())
        .collect())
}

/// The static library that Swift links, once a step has built it.
pub fn archive(shop: &Shop) -> Result<PathBuf> {
    Ok(shop.scratch("swift/lib")?.join("libtidegate_uniffi.a"))
}

/// Builds the library that Swift links, and puts it where `Package.swift` looks.
pub fn library(shop: &Shop, profile: &str) -> Result {
    jvm::library(shop, profile)?;
    let (built, folder) =
        (shop.target.join(profile).join("libtidegate_uniffi.a"), shop.scratch("swift/lib")?);
    let read = |file: &Path| fs::read(file).map_err(Error::at("read", file));
    if read(&built).ok() == read(&folder.join("libtidegate_uniffi.a")).ok() {
        return Ok(());
    }
    unlink(&shop.scratch("swift")?)?;
    copy(&built, &folder)
}

/// Removes linked programs. The package manager does not notice a changed library: without a change of a Swift source
/// it would run a program linked with an earlier one.
fn unlink(scratch: &Path) -> Result {
    for kind in ["tests/debug", "example/debug", "bench/release"] {
        let entries = fs::read_dir(scratch.join(kind)).into_iter().flatten().flatten();
        for file in entries.map(|entry| entry.path()) {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let linked = name.ends_with(".xctest") || ["flaky", "TidegateBench"].contains(&name.as_str());
            if linked && file.is_file() {
                fs::remove_file(&file).map_err(Error::at("remove", &file))?;
            }
        }
    }
    Ok(())
}

/// Copies the origin into the root, where the tests start it.
fn supply(shop: &Shop, origin: &Path) -> Result {
    copy(origin, &shop.scratch("swift")?)
}

fn copy(file: &Path, folder: &Path) -> Result {
    let Some(name) = file.file_name() else { return Err(Error(format!("{} is no file", file.display()))) };
    let to = folder.join(name);
    fs::copy(file, &to).map(drop).map_err(Error::at("copy to", &to))
}

/// A command that runs in a folder of the repository.
fn inside(shop: &Shop, root: &Root, folder: &str, command: &str) -> Result<Cmd> {
    let scratch = shop.scratch("swift")?;
    Ok(root.enter(&[(&shop.root, SOURCE), (&scratch, SCRATCH)], &exported(folder, command)))
}

/// A command that runs in the package's folder, with a set of traces available.
fn with_traces(shop: &Shop, root: &Root, command: &str, count: u64) -> Result<Cmd> {
    let (scratch, set) = (shop.scratch("swift")?, traces::set(shop, traces::DEBUG, count)?);
    let command = exported("bindings-uniffi/swift", &format!("export TIDEGATE_TRACES={TRACES} && {command}"));
    Ok(root.enter(&[(&shop.root, SOURCE), (&scratch, SCRATCH), (&set, TRACES)], &command))
}

/// The command with its folder in the root and with xtask's environment variables.
fn exported(folder: &str, command: &str) -> String {
    let variables =
        format!("HOME={SCRATCH} TIDEGATE_LIB={SCRATCH}/lib TIDEGATE_ORIGIN={SCRATCH}/tidegate-origin");
    format!("export {variables}; cd {SOURCE}/{folder} && {command} 2>&1")
}

/// Runs the example against its own origin; it ends with an error if a result differs from what it states.
fn example(shop: &Shop, root: &Root) -> Result {
    let run = "swift run --disable-index-store --scratch-path /scratch/example flaky";
    let ran = inside(shop, root, "examples/swift/flaky", run)?.stream()?.ok()?;
    let expected = "three attempts, one answer";
    let right = ran.text.contains(expected);
    right.then_some(()).ok_or_else(|| Error(format!("the example did not print `{expected}`")))
}

/// A root in which a Swift compiler runs.
pub struct Root {
    dir: PathBuf,
}

impl Root {
    /// The root of this recipe. If it is missing it is made, where that is allowed, and tested.
    pub fn open(shop: &Shop) -> Result<Self> {
        let Some(home) = env::var_os("HOME") else { return Err(Error("HOME is not set".into())) };
        let cache = Path::new(&home).join(".cache/tidegate");
        let recipe = format!("{SUITE} {PACKAGES} {}", LEFT_OUT.join(" "));
        let root = Self { dir: cache.join(format!("swift-root-{:016x}", fnv1a(recipe.as_bytes()))) };
        if !root.dir.join(STAMP).is_file() {
            if !shop.install {
                return Err(Error(format!(
                    "there is no Swift in {}, and --no-install forbids fetching 0.5 GB: cargo xtask setup",
                    root.dir.display()
                )));
            }
            step(
                &format!("swift: unpack Debian's compiler (0.5 GB to fetch) in {}", root.dir.display()),
                || root.make(&cache),
            )?;
        }
        let version = root.enter(&[], "swift --version").capture()?;
        let works = version.status.success();
        works.then_some(root).ok_or_else(|| {
            Error(format!("Swift does not run here ({}): {}", version.text.trim(), version.error()))
        })
    }

    /// Unpacks the packages into a neighbouring folder, and renames it when it is complete.
    fn make(&self, cache: &Path) -> Result {
        let unpacked = cache.join(format!("swift-root.{}.tmp", std::process::id()));
        let outcome = unpack(&unpacked, cache);
        if outcome.is_ok() {
            drop(fs::remove_dir_all(&self.dir));
            return fs::rename(&unpacked, &self.dir).map_err(Error::at("move to", &self.dir));
        }
        drop(fs::remove_dir_all(&unpacked));
        outcome
    }

    /// A shell command in the root, with these folders mounted at these places. Nothing stays mounted. The network is
    /// shared: servers on loopback outside are reachable inside.
    pub fn enter(&self, folders: &[(&Path, &str)], command: &str) -> Cmd {
        // $0 is the root, $1 the command; then pairs of folders follow: from, to.
        let mounts = r#"set -e; command="$1"; shift
            mkdir -p "$0/proc" "$0/dev"; mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"
            while [ $# -gt 0 ]; do mkdir -p "$0$2"; mount --bind "$1" "$0$2"; shift 2; done
            exec chroot "$0" /usr/bin/env -i HOME=/root LANG=C.UTF-8 PATH=/usr/bin:/bin sh -c "$command""#;
        let namespace = ["--mount", "--propagation", "private", "bash", "-c", mounts];
        let mut cmd = Cmd::new("unshare").args(namespace).arg(&self.dir).arg(command);
        for (from, to) in folders {
            cmd = cmd.arg(from).arg(to);
        }
        cmd
    }
}

fn unpack(to: &Path, cache: &Path) -> Result {
    let has = Cmd::new("mmdebstrap").arg("--version").capture().is_ok_and(|ran| ran.status.success());
    if !has && !install_debian("mmdebstrap") {
        return Err(Error("Swift needs mmdebstrap; as root on Debian: apt-get install mmdebstrap".into()));
    }
    fs::create_dir_all(cache).map_err(Error::at("make", cache))?;
    drop(fs::remove_dir_all(to));
    let left_out = LEFT_OUT.iter().map(|path| format!("--dpkgopt=path-exclude={path}"));
    Cmd::new("mmdebstrap")
        .args(["--mode=root", "--variant=extract", "--quiet"])
        .arg(format!("--include={PACKAGES}"))
        .args(left_out)
        .arg(SUITE)
        .arg(to)
        .arg(mirror())
        .quiet()?;
    // The package's postinst script makes this link; such scripts are not run here.
    let link = to.join("usr/bin/swift");
    Cmd::new("ln").args(["-sfn", "../libexec/swift/bin/swift"]).arg(link).quiet()?;
    let stamp = to.join(STAMP);
    fs::write(&stamp, SUITE).map_err(Error::at("write", &stamp))
}

/// The mirror in the machine's own package sources.
fn mirror() -> String {
    let lists = ["/etc/apt/sources.list.d", "/etc/apt"].into_iter().filter_map(|dir| fs::read_dir(dir).ok());
    let mut files: Vec<_> = lists.flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    let found = files.iter().find_map(|file| mirror_in(&fs::read_to_string(file).ok()?));
    found.unwrap_or_else(|| MIRROR.to_owned())
}

/// The first address of a Debian archive in a list of sources, in either of the list's two formats.
fn mirror_in(sources: &str) -> Option<String> {
    let lines =
        sources.lines().map(str::trim).filter(|line| line.starts_with("URIs:") || line.starts_with("deb "));
    let mut words = lines.flat_map(str::split_whitespace);
    words
        .find(|word| word.contains("://") && word.trim_end_matches('/').ends_with("/debian"))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_the_archive_that_the_sources_name() {
        let new =
            "# URIs: http://old/debian\nTypes: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\n";
        assert_eq!(mirror_in(new).as_deref(), Some("http://mirror.example/debian"));
        let old = "deb https://other.example/apt x main\ndeb [signed-by=/k] https://m.example/debian/ trixie main\n";
        assert_eq!(mirror_in(old).as_deref(), Some("https://m.example/debian/"));
        assert_eq!(mirror_in("URIs: http://security.example/debian-security\n"), None);
    }

    #[test]
    fn what_is_linked_with_an_earlier_library_is_removed_and_nothing_else() {
        let scratch = env::temp_dir().join(format!("tidegate-linked-{}", std::process::id()));
        let files = ["tests/debug/a.xctest", "tests/debug/a.swiftmodule", "example/debug/flaky"];
        for file in files.map(|file| scratch.join(file)) {
            fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
            fs::write(file, "").expect("a file");
        }
        assert_eq!(unlink(&scratch), Ok(()));
        assert_eq!(files.map(|file| scratch.join(file).is_file()), [false, true, false]);
        fs::remove_dir_all(&scratch).expect("it is ours");
    }

    #[test]
    fn a_root_that_is_no_root_runs_nothing() {
        let root = Root { dir: env::temp_dir().join(format!("tidegate-no-root-{}", std::process::id())) };
        fs::create_dir_all(&root.dir).expect("a folder");
        let ran = root.enter(&[], "swift --version").capture();
        assert!(ran.is_err() || ran.is_ok_and(|ran| !ran.status.success()));
        drop(fs::remove_dir_all(&root.dir));
    }
}
