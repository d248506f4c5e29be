//! The API documentation of five languages under the site: rustdoc, `TypeDoc`, Dokka, the symbol graph of Swift's compiler, and
//! mkdocstrings for Python. Each needs what the tests of its language have built; what is missing is reported, and the site links only
//! to what is there.

use crate::report::{Report, Verdict};
use crate::run::{Cmd, Error, Output, Result};
use crate::setup::{Shop, Venv};
use crate::{js, jvm, swift};
use std::fs;
use std::path::{Path, PathBuf};

const API: &str = "APIs";
/// `TypeDoc`'s entry points, in `bindings-wasm/ts`.
pub const ENTRIES: [&str; 10] = [
    "main.ts",
    "testing.ts",
    "fleet.ts",
    "undici.ts",
    "metered.ts",
    "streams.ts",
    "prometheus.ts",
    "opentelemetry.ts",
    "diagnostics.ts",
    "parts/all.ts",
];

/// Generates what can be generated here. Returns the folder for the site's hooks: pages of the site (`*.md`), and a folder of
/// HTML for each language with a generator of its own.
pub fn generate(shop: &Shop, venv: &Venv, report: &mut Report) -> Result<PathBuf> {
    let out = shop.scratch("site-api")?;
    for entry in fs::read_dir(&out).map_err(Error::at("read", &out))?.flatten() {
        let path = entry.path();
        if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }
            .map_err(Error::at("remove", &path))?;
    }
    report.step(API, "Rust, by rustdoc", || Verdict::check(rust(shop, &out)));
    report.step(API, "JavaScript, by TypeDoc", || javascript(shop, &out));
    report.step(API, "Kotlin, by Dokka", || kotlin(shop, &out));
    report.step(API, "Swift, from the compiler's symbol graph", || match swift::symbols(shop) {
        Ok(graphs) => Verdict::check(swift_page(shop, venv, &graphs, &out)),
        Err(Error(why)) => Verdict::NotRun(why),
    });
    Ok(out)
}

/// Copies the folders of HTML into the built site.
pub fn install(generated: &Path, site: &Path) -> Result {
    for entry in fs::read_dir(generated).map_err(Error::at("read", generated))?.flatten() {
        if entry.path().is_dir() {
            let to = site.join("api").join(entry.file_name());
            fs::create_dir_all(&to).map_err(Error::at("make", &to))?;
            Cmd::new("cp").arg("-r").arg(entry.path().join(".")).arg(&to).quiet()?;
        }
    }
    Ok(())
}

fn rust(shop: &Shop, out: &Path) -> Result {
    let (from, to) = (rustdoc(shop)?, out.join("rust"));
    Cmd::new("cp").arg("-r").arg(&from).arg(&to).quiet().map(drop)
}

/// The folder of rustdoc's pages about the published crates.
pub fn rustdoc(shop: &Shop) -> Result<PathBuf> {
    let doc = ["doc", "--no-deps", "--quiet", "-p", "tidegate", "-p", "tidegate-tokio"];
    let features = "tidegate-tokio/anyhow,tidegate-tokio/documents,tidegate-tokio/grpc,tidegate-tokio/http,tidegate-tokio/metrics,\
                    tidegate-tokio/redis,tidegate-tokio/reqwest-middleware,tidegate-tokio/tracing";
    // A target folder of its own, because the documentation of other crates would lie beside it.
    let target = shop.scratch("site-rustdoc")?;
    let folder = target.join("doc");
    // Pages of removed items would stay.
    drop(fs::remove_dir_all(&folder));
    let run = Cmd::new("cargo").args(doc).args(["--features", features]).cwd(&shop.root);
    run.env("CARGO_TARGET_DIR", &target).stream()?.ok()?;
    Ok(folder)
}

fn javascript(shop: &Shop, out: &Path) -> Verdict {
    if !js::is_built(shop) {
        return Verdict::NotRun("the npm package is not built: cargo xtask test --only javascript".into());
    }
    let typedoc = match js::typedoc(shop) {
        Ok(program) => program,
        Err(Error(why)) => return Verdict::NotRun(why),
    };
    let folder = shop.root.join("bindings-wasm");
    let run =
        Cmd::new(typedoc).args(["--tsconfig", "tsconfig.json", "--skipErrorChecking", "--excludeInternal"]);
    let run =
        run.args(["--excludePrivate", "--disableSources", "--readme", "none", "--name", "tidegate", "--out"]);
    let run = run.arg(out.join("javascript")).args(ENTRIES.map(|entry| format!("ts/{entry}")));
    Verdict::check(run.args(["--logLevel", "Error"]).cwd(&folder).stream().and_then(Output::ok))
}

fn kotlin(shop: &Shop, out: &Path) -> Verdict {
    if !shop.root.join("bindings-uniffi/kotlin/tidegate/src/generated").is_dir() {
        return Verdict::NotRun("some sources are not generated: cargo xtask test --only kotlin".into());
    }
    let run = || -> Result {
        jvm::mvn(shop, jvm::TESTED).args(["-q", "-Papi", "-pl", "tidegate", "-am", "compile"]).quiet()?;
        let made = shop.root.join("bindings-uniffi/kotlin/tidegate/target/dokka");
        Cmd::new("cp").arg("-r").arg(&made).arg(out.join("kotlin")).quiet().map(drop)
    };
    Verdict::check(run())
}

fn swift_page(shop: &Shop, venv: &Venv, graphs: &[PathBuf], out: &Path) -> Result {
    let page = venv.script(&shop.root.join("xtask/site/swift.py")).args(graphs).capture()?.ok()?;
    let to = out.join("swift.md");
    fs::write(&to, page.text).map_err(Error::at("write", &to))
}
