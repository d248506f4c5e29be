//! Native libraries for other systems: those that the JVM loads, linked by zig, and the static libraries of the framework
//! for Apple's systems. Each is looked at; none but this machine's can run here.

use crate::cargo;
use crate::dist::emptied;
use crate::report::{Report, Verdict};
use crate::run::{Cmd, Error, Output, Result};
use crate::setup::{Shop, Venv};
use crate::{jvm, wasm};
use std::env::consts;
use std::fs;
use std::path::{Path, PathBuf};

const NATIVES: &str = "Natives";
const FRAMEWORK: &str = "Framework";
const CHECK: &str = "xtask/wheels/binaries.py";
const ASSEMBLE: &str = "xtask/release/xcframework.py";
/// A function that the JVM calls, so the library must export it.
const EXPORT: &str = "Java_dev_tidegate_internal_Native_begin";

/// A library that the JVM loads.
struct Native {
    /// The folder in the jar: see `Library.platform` in `Native.kt`.
    platform: &'static str,
    target: &'static str,
    file: &'static str,
    /// The oldest C library or system that it runs on; empty for Windows.
    oldest: &'static str,
}

const PUBLISHED: [Native; 5] = [
    Native {
        platform: "linux-x86_64",
        target: "x86_64-unknown-linux-gnu",
        file: "libtidegate_uniffi.so",
        oldest: "glibc 2.17",
    },
    Native {
        platform: "linux-aarch64",
        target: "aarch64-unknown-linux-gnu",
        file: "libtidegate_uniffi.so",
        oldest: "glibc 2.17",
    },
    Native {
        platform: "macos-aarch64",
        target: "aarch64-apple-darwin",
        file: "libtidegate_uniffi.dylib",
        oldest: "macOS 11.0",
    },
    Native {
        platform: "macos-x86_64",
        target: "x86_64-apple-darwin",
        file: "libtidegate_uniffi.dylib",
        oldest: "macOS 10.12",
    },
    Native {
        platform: "windows-x86_64",
        target: "x86_64-pc-windows-gnu",
        file: "tidegate_uniffi.dll",
        oldest: "",
    },
];

/// The static libraries of the framework: the system and the machine, the compiler's target, and the oldest system.
const APPLE: [(&str, &str, (&str, &str)); 5] = [
    ("ios:arm64", "aarch64-apple-ios", ("IPHONEOS_DEPLOYMENT_TARGET", "16.0")),
    ("ios-simulator:arm64", "aarch64-apple-ios-sim", ("IPHONEOS_DEPLOYMENT_TARGET", "16.0")),
    ("ios-simulator:x86_64", "x86_64-apple-ios", ("IPHONEOS_DEPLOYMENT_TARGET", "16.0")),
    // As for the JVM: cargo does not compile dependencies again where only the oldest system differs.
    ("macos:arm64", "aarch64-apple-darwin", ("MACOSX_DEPLOYMENT_TARGET", "11.0")),
    ("macos:x86_64", "x86_64-apple-darwin", ("MACOSX_DEPLOYMENT_TARGET", "10.12")),
];
/// Android's machines. Linking needs Google's NDK, which no registry has that this repository builds from.
const ANDROID: [&str; 3] = ["aarch64-linux-android", "armv7-linux-androideabi", "x86_64-linux-android"];

/// The folder with a library for each platform, as they are in the jar.
pub fn folder(shop: &Shop) -> Result<PathBuf> {
    shop.scratch("natives")
}

/// The platforms whose libraries have been built.
pub fn built(shop: &Shop) -> Result<Vec<&'static str>> {
    let folder = folder(shop)?;
    let there = PUBLISHED.iter().filter(|native| folder.join(native.platform).join(native.file).is_file());
    Ok(there.map(|native| native.platform).collect())
}

/// The framework's archive and its checksum, if it has been built.
pub fn archive(shop: &Shop) -> Option<(PathBuf, String)> {
    let folder = shop.scratch("framework").ok()?;
    let sum = fs::read_to_string(folder.join("checksum")).ok()?;
    Some((folder.join("Tidegate.xcframework.zip"), sum.trim().to_owned()))
}

/// Builds the JVM's libraries and looks at each; on Android's targets the crate is compiled and not linked.
pub fn libraries(shop: &Shop, venv: &Venv, host: bool, report: &mut Report) {
    let here = |native: &&Native| !host || native.platform == format!("linux-{}", consts::ARCH);
    for native in PUBLISHED.iter().filter(here) {
        let made = report.step(NATIVES, &format!("build {}", native.platform), || {
            match wasm::target(shop, native.target) {
                Ok(()) => Verdict::check(native.build(shop, venv)),
                Err(Error(why)) => Verdict::NotRun(why),
            }
        });
        report.step(NATIVES, &format!("look at {}", native.platform), || {
            if made {
                Verdict::check(native.look(shop, venv))
            } else {
                Verdict::NotRun("it is not built".into())
            }
        });
    }
    report.step(NATIVES, "run on this machine's JVM", || {
        let platform = format!("linux-{}", consts::ARCH);
        match (jvm::missing(), built(shop)) {
            (Some(missing), _) => Verdict::NotRun(format!("{missing} is not on this machine")),
            (None, Ok(built)) if built.contains(&platform.as_str()) => {
                let file = folder(shop).map(|all| all.join(platform).join(PUBLISHED[0].file));
                Verdict::check(file.and_then(|file| jvm::smoke(shop, &file)))
            }
            _ => Verdict::NotRun("there is no library for this machine".into()),
        }
    });
    for native in PUBLISHED.iter().filter(|native| !host && !here_runs(native)) {
        report.step(NATIVES, &format!("run {}", native.platform), || {
            Verdict::NotRun("built and looked at: no JVM that it is for can be had here".into())
        });
    }
    for target in ANDROID.iter().filter(|_| !host) {
        report.step(NATIVES, &format!("compile {target}, without linking"), || {
            match wasm::target(shop, target) {
                Ok(()) => Verdict::check(compile(shop, target)),
                Err(Error(why)) => Verdict::NotRun(why),
            }
        });
    }
}

fn here_runs(native: &Native) -> bool {
    native.platform == format!("linux-{}", consts::ARCH)
}

fn compile(shop: &Shop, target: &str) -> Result {
    let check = ["check", "--quiet", "-p", "tidegate-uniffi", "--lib", "--target", target];
    cargo(shop).args(check).quiet().map(drop)
}

impl Native {
    /// Links the library with zig and puts it into its folder.
    fn build(&self, shop: &Shop, venv: &Venv) -> Result {
        let (name, version) = self.oldest.split_once(' ').unwrap_or_default();
        let triple =
            if name == "glibc" { format!("{}.{version}", self.target) } else { self.target.to_owned() };
        let build =
            ["rustc", "--quiet", "--release", "-p", "tidegate-uniffi", "--lib", "--crate-type", "cdylib"];
        let build = Cmd::new(venv.bin("cargo-zigbuild")).args(build).args(["--target", &triple]);
        let build = build.cwd(&shop.root).env("CARGO_TARGET_DIR", &shop.target);
        // cargo-zigbuild finds zig through the environment's Python.
        let build = build.env("CARGO_ZIGBUILD_PYTHON_PATH", venv.bin("python"));
        let build = if name == "macOS" {
            let name = format!("link-arg=-Wl,-install_name,@rpath/{}", self.file);
            build.env("MACOSX_DEPLOYMENT_TARGET", version).args(["--", "-C", &name])
        } else {
            build
        };
        build.quiet()?;
        let to = emptied(&folder(shop)?.join(self.platform)).map(|()| folder(shop))??;
        let from = shop.target.join(self.target).join("release").join(self.file);
        let to = to.join(self.platform).join(self.file);
        fs::copy(&from, &to).map(drop).map_err(Error::at("copy", &from))
    }

    /// Checks what the library says of itself.
    fn look(&self, shop: &Shop, venv: &Venv) -> Result {
        let file = folder(shop)?.join(self.platform).join(self.file);
        let look = venv.script(&shop.root.join(CHECK)).arg(file).args(["--platform", self.platform]);
        let look = look.args(["--exports", EXPORT]);
        let look = if self.oldest.is_empty() { look } else { look.args(["--oldest", self.oldest]) };
        look.stream()?.ok().map(drop)
    }
}

/// Builds the static libraries that can be had here, and makes the framework of them.
pub fn framework(shop: &Shop, venv: &Venv, report: &mut Report) {
    let mut made = Vec::new();
    for (place, target, oldest) in APPLE {
        report.step(FRAMEWORK, &format!("build {target}"), || match wasm::target(shop, target) {
            Ok(()) => {
                let built = slice(shop, target, oldest);
                Verdict::check(built.map(|file| made.push(format!("{place}={}", file.display()))))
            }
            Err(Error(why)) => Verdict::NotRun(format!("the framework is without it: {why}")),
        });
    }
    report.step(FRAMEWORK, "assemble and look at it", || {
        if made.is_empty() {
            return Verdict::NotRun("there is no library".into());
        }
        Verdict::check(assemble(shop, venv, &made))
    });
    report.step(FRAMEWORK, "link and run", || {
        Verdict::NotRun("built and looked at: it needs Xcode, and a Mac or an iPhone".into())
    });
}

fn slice(shop: &Shop, target: &str, (name, version): (&str, &str)) -> Result<PathBuf> {
    let build =
        ["rustc", "--quiet", "--release", "-p", "tidegate-uniffi", "--lib", "--crate-type", "staticlib"];
    cargo(shop).args(build).args(["--target", target]).env(name, version).quiet()?;
    Ok(shop.target.join(target).join("release/libtidegate_uniffi.a"))
}

fn assemble(shop: &Shop, venv: &Venv, libraries: &[String]) -> Result {
    // Writes the header that the module map names.
    jvm::library(shop, jvm::TESTED)?;
    let out = shop.scratch("framework")?;
    emptied(&out)?;
    let headers = shop.root.join("bindings-uniffi/swift/Sources/TidegateNativeFFI");
    let make = venv.script(&shop.root.join(ASSEMBLE)).arg("--headers").arg(headers);
    let make = make.arg("--out").arg(out.join("Tidegate.xcframework.zip")).args(libraries);
    let said = make.stream().and_then(Output::ok)?.text;
    let sum = said.lines().find_map(|line| line.strip_prefix("checksum "));
    let sum = sum.ok_or_else(|| Error(format!("{ASSEMBLE} printed no checksum")))?;
    write(&out.join("checksum"), sum)
}

fn write(path: &Path, text: &str) -> Result {
    fs::write(path, text).map_err(Error::at("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::read;

    #[test]
    fn the_jvm_looks_for_the_libraries_that_are_built() {
        let shop = Shop::open(false).expect("we are in the repository");
        let file = "bindings-uniffi/kotlin/tidegate/src/main/kotlin/dev/tidegate/internal/Native.kt";
        let loader = read(&shop.root, file).expect("it is there");
        for native in PUBLISHED {
            let (system, machine) = native.platform.split_once('-').expect("two words");
            assert!(loader.contains(&format!("-> \"{system}\"")), "{system}");
            assert!(loader.contains(&format!("-> \"{machine}\"")), "{machine}");
            assert!(native.target.starts_with(machine), "{}", native.target);
        }
    }

    /// The functions of the JVM are named after the class that declares them.
    #[test]
    fn the_library_exports_the_function_that_is_looked_for() {
        let shop = Shop::open(false).expect("we are in the repository");
        let exports = read(&shop.root, "bindings-uniffi/src/jni.rs").expect("it is there");
        assert!(exports.contains(EXPORT), "{EXPORT}");
    }

    #[test]
    fn the_framework_has_the_slices_of_the_script_for_a_mac() {
        let shop = Shop::open(false).expect("we are in the repository");
        let script = read(&shop.root, "bindings-uniffi/swift/scripts/xcframework.sh").expect("it is there");
        assert!(APPLE.iter().all(|(_, target, _)| script.contains(target)));
    }

    /// Xcode copies the headers of all frameworks into one folder, where a module map at the root would collide with another's.
    #[test]
    fn the_frameworks_headers_have_a_folder_of_their_own() {
        let shop = Shop::open(false).expect("we are in the repository");
        let package = read(&shop.root, "Package.swift").expect("it is there");
        let name = "TidegateNativeFFI";
        assert!(package.contains(&format!(".binaryTarget(name: \"{name}\", url: framework.url")));
        let script = read(&shop.root, "bindings-uniffi/swift/scripts/xcframework.sh").expect("it is there");
        assert!(script.contains(&format!("module.modulemap \"$out/headers/{name}/\"")));
        let assemble = read(&shop.root, ASSEMBLE).expect("it is there");
        assert!(
            assemble.contains(&format!("MODULE = \"{name}\"")) && assemble.contains("/Headers/{MODULE}/")
        );
    }
}
