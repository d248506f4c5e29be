//! `cargo xtask dist`: what is published for other systems than this one: wheels, the JVM's native libraries, and the
//! framework for Apple's systems. zig links against old C libraries, so that all of it runs on older systems. Each file
//! is inspected, and run where possible; the summary names those that could not be run.

use crate::emulate::Arm;
use crate::natives;
use crate::report::{Report, Verdict};
use crate::run::{Cmd, Error, Result};
use crate::setup::{Shop, Venv, environment, find_minor, find_named};
use crate::test::{MINORS, SMOKE, published};
use crate::wasm;
use crate::wheel::BUILD;
use std::env::{self, consts};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

/// The parts with their names on the command line.
const PARTS: [&str; 3] = ["wheels", "natives", "framework"];

/// The requirements for building and inspecting wheels.
pub const REQUIREMENTS: &str = "xtask/wheels/requirements.txt";

const CHECK: &str = "xtask/wheels/check.py";
const TOOLS: &str = "Tools";
const SDIST: &str = "Source";
const WHEELS: &str = "Wheels";
const RUN: &str = "Wheels, run";

/// A wheel to build.
struct Wheel {
    /// The compiler's target.
    target: &'static str,
    /// The interpreter: any for the stable ABI, or one without a GIL, which need not be installed for the build.
    python: &'static str,
    /// The platform that maturin is given on Linux, or the oldest macOS; and the tags that result.
    compatibility: &'static str,
    tags: &'static str,
}

const GNU: &str = "manylinux2014";
const MUSL: &str = "musllinux_1_2";
/// Any interpreter works: the one that runs maturin is used.
const STABLE: &str = "";

/// The published wheels. The first is built from the source distribution, which shows that the latter is complete.
const PUBLISHED: [Wheel; 9] = [
    Wheel {
        target: "x86_64-unknown-linux-gnu",
        python: STABLE,
        compatibility: GNU,
        tags: "cp310-abi3-manylinux2014_x86_64.manylinux_2_17_x86_64",
    },
    Wheel {
        target: "aarch64-unknown-linux-gnu",
        python: STABLE,
        compatibility: GNU,
        tags: "cp310-abi3-manylinux2014_aarch64.manylinux_2_17_aarch64",
    },
    Wheel {
        target: "x86_64-unknown-linux-musl",
        python: STABLE,
        compatibility: MUSL,
        tags: "cp310-abi3-musllinux_1_2_x86_64",
    },
    Wheel {
        target: "aarch64-unknown-linux-musl",
        python: STABLE,
        compatibility: MUSL,
        tags: "cp310-abi3-musllinux_1_2_aarch64",
    },
    Wheel {
        target: "x86_64-unknown-linux-gnu",
        python: "3.14t",
        compatibility: GNU,
        tags: "cp314-cp314t-manylinux2014_x86_64.manylinux_2_17_x86_64",
    },
    Wheel {
        target: "aarch64-unknown-linux-gnu",
        python: "3.14t",
        compatibility: GNU,
        tags: "cp314-cp314t-manylinux2014_aarch64.manylinux_2_17_aarch64",
    },
    Wheel {
        target: "aarch64-apple-darwin",
        python: STABLE,
        compatibility: "11.0",
        tags: "cp310-abi3-macosx_11_0_arm64",
    },
    Wheel {
        target: "x86_64-apple-darwin",
        python: STABLE,
        compatibility: "10.12",
        tags: "cp310-abi3-macosx_10_12_x86_64",
    },
    Wheel {
        target: "x86_64-pc-windows-gnu",
        python: STABLE,
        compatibility: "",
        tags: "cp310-abi3-win_amd64",
    },
];

/// `cargo xtask dist [--host] [parts…]`: builds, inspects and runs these parts, or all, and prints the summary. With `host`
/// only what this machine can run.
///
/// # Errors
/// No part has this name.
pub fn dist(shop: &Shop, host: bool, parts: &[String]) -> Result<ExitCode> {
    if let Some(unknown) = parts.iter().find(|part| !PARTS.contains(&part.as_str())) {
        return Err(Error(format!("dist has no part `{unknown}`; it has {}", PARTS.join(", "))));
    }
    let mut report = Report::default();
    steps(shop, host, parts, &mut report);
    Ok(report.close())
}

/// The steps of these parts, or of all.
pub fn steps(shop: &Shop, host: bool, parts: &[String], report: &mut Report) {
    let mut tools = None;
    report.step(TOOLS, "what builds and looks at libraries", || {
        Verdict::check(environment(shop, REQUIREMENTS).map(|venv| tools = Some(venv)))
    });
    let Some(venv) = tools else { return };
    for part in PARTS.iter().filter(|part| parts.is_empty() || parts.iter().any(|it| it == *part)) {
        match *part {
            "wheels" => wheels(shop, &venv, host, report),
            "natives" => natives::libraries(shop, &venv, host, report),
            _ => natives::framework(shop, &venv, report),
        }
    }
}

fn wheels(shop: &Shop, venv: &Venv, host: bool, report: &mut Report) {
    let out = shop.root.join("dist");
    let mut sdist = None;
    report.step(SDIST, "build", || {
        // A separate, empty target directory: files unpacked from an archive keep their old dates, so cargo would treat
        // earlier builds as current.
        let built = emptied(&shop.target.join("dist")).and_then(|()| emptied(&out)).and_then(|()| {
            maturin(shop, venv, "sdist").arg("--out").arg(&out).stream().and_then(crate::run::Output::ok)
        });
        Verdict::check(built.and_then(|_| only(&out, ".tar.gz")).map(|path| sdist = Some(path)))
    });
    let wanted = PUBLISHED.iter().filter(|wheel| !host || wheel.runs_here());
    for (place, wheel) in wanted.enumerate() {
        wheel.make(shop, venv, sdist.as_deref().filter(|_| place == 0), &out, report);
    }
    println!("\n── {}", out.display());
    for path in files(&out) {
        let size = fs::metadata(&path).map_or(0, |about| about.len());
        println!("   {:>9}  {}", kib(size), path.file_name().unwrap_or_default().to_string_lossy());
    }
}

impl Wheel {
    /// Whether the wheel is for this machine's processor and C library.
    fn runs_here(&self) -> bool {
        cfg!(target_env = "gnu") && self.compatibility == GNU && self.target.starts_with(consts::ARCH)
    }

    fn make(&self, shop: &Shop, venv: &Venv, sdist: Option<&Path>, out: &Path, report: &mut Report) {
        let mut built = None;
        let from = if sdist.is_some() { ", from the source distribution" } else { "" };
        report.step(WHEELS, &format!("build {}{from}", self.tags), || {
            if let Err(Error(why)) = wasm::target(shop, self.target) {
                return Verdict::NotRun(why);
            }
            Verdict::check(self.build(shop, venv, sdist, out).map(|path| built = Some(path)))
        });
        let Some(path) = built else { return };
        report.step(WHEELS, &format!("look at {}", self.tags), || {
            let check = venv.script(&shop.root.join(CHECK)).arg(&path).args(["--tag", self.tags]);
            let check = check.arg("--source").arg(shop.root.join("bindings-python/python/tidegate"));
            Verdict::check(check.stream().and_then(crate::run::Output::ok))
        });
        self.run(shop, venv, &path, report);
    }

    fn build(&self, shop: &Shop, venv: &Venv, sdist: Option<&Path>, out: &Path) -> Result<PathBuf> {
        let python = venv.bin("python");
        let build = match sdist {
            Some(archive) => {
                let source = unpacked(venv, archive, &shop.scratch("sdist")?)?;
                maturin(shop, venv, "build").cwd(&source)
            }
            None => maturin(shop, venv, "build"),
        };
        let build = build.args(BUILD).args(["--zig", "--target", self.target]).arg("--out").arg(out);
        let build = match self.compatibility {
            GNU | MUSL => {
                let build = build.args(["--compatibility", self.compatibility]).arg("-i");
                if self.python == STABLE { build.arg(python) } else { build.arg(self.python) }
            }
            // No interpreter of another system is needed for the stable ABI.
            // zig's linker wants the list of exports in a file. maturin 1.16 writes one with the dotted name of the module, of which
            // there is no function; where it cannot write that file, it warns and goes on. So it gets a folder in its place, and
            // the linker gets a list of ours.
            "" => {
                let (maturins, ours) = (
                    shop.target.join("dist/maturin/tidegate._native.def"),
                    shop.target.join("dist/native.def"),
                );
                fs::create_dir_all(&maturins).map_err(Error::at("make", &maturins))?;
                fs::write(&ours, "LIBRARY _native\nEXPORTS\n    PyInit__native\n")
                    .map_err(Error::at("write", &ours))?;
                build.args(["--", "-C", &format!("link-arg={}", ours.display())])
            }
            macos => build.env("MACOSX_DEPLOYMENT_TARGET", macos),
        };
        build.stream()?.ok()?;
        only(out, &format!("-{}.whl", self.tags))
    }

    /// Runs the wheel in a new environment of each interpreter that it supports, or with an emulated Python for another
    /// architecture.
    fn run(&self, shop: &Shop, venv: &Venv, path: &Path, report: &mut Report) {
        if self.runs_here() {
            let minors: &[&str] = if self.python == STABLE { &MINORS } else { &[self.python] };
            for minor in minors {
                report.step(RUN, &format!("{} on CPython {minor}", self.tags), || {
                    let found = if self.python == STABLE { find_minor(minor) } else { find_named(minor) };
                    match found {
                        Some(python) => Verdict::check(published(shop, &python, path, None)),
                        None => Verdict::NotRun(format!("python{minor} is not on this machine")),
                    }
                });
            }
            return;
        }
        let emulated = self.compatibility == GNU && self.python == STABLE;
        let title = if emulated { format!("{} under qemu", self.tags) } else { self.tags.to_owned() };
        report.step(RUN, &title, || match Arm::open(shop) {
            _ if !emulated => {
                Verdict::NotRun("built and looked at: no interpreter that it is for can be had here".into())
            }
            Ok(arm) => Verdict::check(arm.run(venv, path, &shop.root.join(SMOKE))),
            Err(Error(why)) => Verdict::NotRun(format!("built and looked at: {why}")),
        });
    }
}

/// maturin, which finds zig through the environment's Python.
fn maturin(shop: &Shop, venv: &Venv, command: &str) -> Cmd {
    let mut path = vec![venv.bin("python").parent().map(Path::to_path_buf).unwrap_or_default()];
    path.extend(env::var_os("PATH").iter().flat_map(env::split_paths));
    Cmd::new(venv.bin("maturin"))
        .cwd(&shop.root)
        .env("CARGO_TARGET_DIR", shop.target.join("dist"))
        .env("VIRTUAL_ENV", &venv.dir)
        .env("PATH", env::join_paths(path).unwrap_or_default())
        .arg(command)
}

/// Unpacks a source distribution outside the repository's sources. Returns the one folder in it.
fn unpacked(venv: &Venv, archive: &Path, into: &Path) -> Result<PathBuf> {
    emptied(into)?;
    venv.python().args(["-m", "tarfile", "-e"]).arg(archive).arg(into).quiet()?;
    let entries = fs::read_dir(into).map_err(Error::at("read", into))?;
    let folders: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    match folders.as_slice() {
        [one] => Ok(one.clone()),
        found => Err(Error(format!("{} must hold one folder, not {}", archive.display(), found.len()))),
    }
}

/// Makes an empty folder.
pub fn emptied(folder: &Path) -> Result {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::at("empty", folder)(error)),
        _ => fs::create_dir_all(folder).map_err(Error::at("make", folder)),
    }
}

/// The only file whose name ends with `ending`.
fn only(folder: &Path, ending: &str) -> Result<PathBuf> {
    let found: Vec<_> =
        files(folder).into_iter().filter(|path| path.to_string_lossy().ends_with(ending)).collect();
    if let [one] = found.as_slice() {
        return Ok(one.clone());
    }
    let there: Vec<_> = files(folder).iter().map(|path| path.display().to_string()).collect();
    Err(Error(format!("expected one …{ending} in {}, found {}", folder.display(), there.join(", "))))
}

/// The files directly in a folder, sorted.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<_> = paths.filter(|path| path.is_file()).collect();
    found.sort();
    found
}

fn kib(bytes: u64) -> String {
    format!("{} KiB", bytes.div_ceil(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_up() {
        assert_eq!(kib(0), "0 KiB");
        assert_eq!(kib(1025), "2 KiB");
    }

    #[test]
    fn every_wheel_has_tags_of_its_own_target_and_interpreter() {
        for (place, wheel) in PUBLISHED.iter().enumerate() {
            let machine = wheel.target.split('-').next().unwrap_or_default();
            let machine = match (machine, wheel.target) {
                ("aarch64", "aarch64-apple-darwin") => "arm64",
                (_, "x86_64-pc-windows-gnu") => "amd64",
                (machine, _) => machine,
            };
            assert!(wheel.tags.ends_with(&format!("_{machine}")), "{}", wheel.tags);
            assert!(wheel.tags.contains(&wheel.compatibility.replace('.', "_")), "{}", wheel.tags);
            assert_eq!(wheel.target.ends_with("-musl"), wheel.compatibility == MUSL, "{}", wheel.tags);
            assert_eq!(wheel.python == STABLE, wheel.tags.starts_with("cp310-abi3-"), "{}", wheel.tags);
            assert!(PUBLISHED[..place].iter().all(|other| other.tags != wheel.tags), "{}", wheel.tags);
        }
    }

    #[test]
    fn one_file_is_found_and_any_other_number_is_told() {
        let folder = env::temp_dir().join(format!("tidegate-dist-{}", std::process::id()));
        emptied(&folder).expect("it can be made");
        assert!(only(&folder, ".whl").is_err_and(|error| error.0.starts_with("expected one ….whl in")));
        fs::write(folder.join("a.whl"), "").expect("it can be written");
        assert_eq!(only(&folder, ".whl"), Ok(folder.join("a.whl")));
        fs::write(folder.join("b.whl"), "").expect("it can be written");
        assert!(only(&folder, ".whl").is_err_and(|error| error.0.contains("b.whl")));
        emptied(&folder).expect("it can be emptied");
        assert_eq!(files(&folder), Vec::<PathBuf>::new());
        fs::remove_dir(&folder).expect("it is empty");
    }
}
