//! The first minutes of a new user, one for each language: an empty folder outside the repository, the package as a
//! release would publish it, and the program of `docs/install.md`. Then, in another empty folder, the program of the ten
//! tasks ([`crate::tasks`]). `cargo xtask install-check` runs these steps and those that build what they need.

use crate::cargo;
use crate::jvm;
use crate::packages::{read, version};
use crate::release;
use crate::report::{Report, Verdict};
use crate::run::{Cmd, Error, Result, seconds};
use crate::setup::{Python, Shop, Venv, create};
use crate::swift::{self, Root};
use crate::tasks;
use crate::test::SMOKE;
use crate::times::cpu_time;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

/// The group of the steps, and the beginning of their names.
const INSTALL: &str = "Install";
pub const NAME: &str = "install: ";
/// The page with the programs.
const PAGE: &str = "docs/install.md";
/// The address in the programs, which stands for that of the faulty server.
const ADDRESS: &str = "https://api.example";
/// What every program prints: the first request gets a 503.
const ANSWER: &str = "200 after 2 attempts";
/// CPU time that one install may take, with the language's toolchain and third-party packages there.
const LIMIT: Duration = Duration::from_secs(120);

/// The wheel with an extra, in a new environment.
pub fn python(shop: &Shop, wheel: Option<&Path>, python: Option<&Python>, report: &mut Report) {
    let with_wheel = |play: &dyn Fn(&Path, &Python) -> Verdict| match (wheel, python) {
        (Some(_), Some(_)) if !shop.install => {
            Verdict::NotRun("--no-install: httpx would have to be fetched".into())
        }
        (Some(wheel), Some(python)) => play(wheel, python),
        _ => Verdict::NotRun("there is no wheel".into()),
    };
    report.step(INSTALL, "Python, the wheel with httpx in a new environment", || {
        with_wheel(&|wheel, python| {
            minute(shop, "## Python", "python", |folder, program| {
                let venv = environment(shop, folder, (python, wheel), &[])?;
                venv.python().arg(shop.root.join(SMOKE)).cwd(folder).stream()?.ok()?;
                script(&venv, folder, program)
            })
        })
    });
    report.step(INSTALL, "Python, the ten tasks of the guide with the wheel", || {
        with_wheel(&|wheel, python| {
            ten(shop, tasks::PYTHON, |folder, program| {
                let more = ["anthropic", "httpx2", "openai", "prometheus_client", "pytest"];
                script(&environment(shop, folder, (python, wheel), &more)?, folder, program)
            })
        })
    });
}

/// A new environment with the wheel, httpx, and more of the packages that the tests use, in their versions.
fn environment(shop: &Shop, folder: &Path, (python, wheel): (&Python, &Path), more: &[&str]) -> Result<Venv> {
    let venv = Venv { dir: folder.join("venv") };
    create(shop, python, &venv)?;
    let install = venv.pip().args(["install", "--quiet", "--constraint"]).arg(shop.requirements());
    install.arg(format!("{}[httpx]", wheel.display())).args(more).quiet()?;
    Ok(venv)
}

fn script(venv: &Venv, folder: &Path, program: &str) -> Result<String> {
    write(&folder.join("main.py"), program)?;
    venv.python().arg("main.py").cwd(folder).quiet().map(|ran| ran.text)
}

/// The tarball in a new project. The first program is compiled with the library's types checked too.
pub fn npm(shop: &Shop, built: bool, report: &mut Report) {
    let unbuilt = || Verdict::NotRun("the package is not built".into());
    report.step(INSTALL, "npm, the tarball in a new TypeScript project", || {
        if !built {
            return unbuilt();
        }
        minute(shop, "## JavaScript and TypeScript", "ts", |folder, program| {
            compiled(shop, folder, program, &[], &["--skipLibCheck", "false", "--types", ""])
        })
    });
    report.step(INSTALL, "npm, the ten tasks of the guide with the tarball", || {
        if !built {
            return unbuilt();
        }
        if !shop.install {
            return Verdict::NotRun("--no-install: the SDKs would have to be fetched".into());
        }
        ten(shop, tasks::JAVASCRIPT, |folder, program| {
            let more = ["@anthropic-ai/sdk", "@types/node", "openai", "prom-client", "undici"];
            compiled(shop, folder, program, &more, &["--skipLibCheck", "--types", "node"])
        })
    });
}

/// Compiles and runs a program in a new project with the tarball, and more of the packages that the tests use.
fn compiled(shop: &Shop, folder: &Path, program: &str, more: &[&str], options: &[&str]) -> Result<String> {
    let package = shop.root.join("bindings-wasm");
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(shop.root.join(licence), package.join(licence))
            .map_err(Error::at("copy", &package.join(licence)))?;
    }
    let pack = Cmd::new("npm").args(["pack", "--silent", "--pack-destination"]).arg(folder);
    let packed = pack.cwd(&package).capture()?.ok()?.text;
    let tarball = packed.lines().last().unwrap_or_default().trim().to_owned();
    write(&folder.join("package.json"), "{ \"type\": \"module\", \"private\": true }\n")?;
    let manifest = read(&shop.root, "bindings-wasm/package.json")?;
    let ours = manifest.split_once("\"devDependencies\"").map_or("", |(_, rest)| rest);
    let pinned = more.iter().map(|name| {
        let version = ours.split_once(&format!("\"{name}\": \"")).and_then(|(_, rest)| rest.split_once('"'));
        version
            .map(|(version, _)| format!("{name}@{version}"))
            .ok_or_else(|| Error(format!("bindings-wasm/package.json has no version of {name}")))
    });
    let pinned = pinned.collect::<Result<Vec<_>>>()?;
    let install = Cmd::new("npm").args(["install", "--no-audit", "--no-fund", "--silent"]);
    install.arg(format!("./{tarball}")).args(pinned).cwd(folder).quiet()?;
    write(&folder.join("main.ts"), program)?;
    let compile = Cmd::new(package.join("node_modules/.bin/tsc")).args(["--strict", "--module", "nodenext"]);
    compile.args(["--target", "es2022"]).args(options).arg("main.ts").cwd(folder).quiet()?;
    Cmd::new("node").arg("main.js").cwd(folder).quiet().map(|ran| ran.text)
}

/// The crates as `cargo package` packs them, in a new project with the versions of our lock file.
pub fn rust(shop: &Shop, report: &mut Report) {
    report.step(INSTALL, "Rust, the packed crates in a new project", || {
        minute(shop, "## Rust", "rust,no_run", |folder, program| packed(shop, folder, program, ["", ""]))
    });
    report.step(INSTALL, "Rust, the ten tasks of the guide with the packed crates", || {
        ten(shop, tasks::RUST, |folder, program| {
            packed(shop, folder, program, [", \"metrics\"", ", \"test-util\""])
        })
    });
}

/// Packs the crates, and runs a program that uses them, with more features of ours and of tokio's.
fn packed(shop: &Shop, folder: &Path, program: &str, [ours, tokios]: [&str; 2]) -> Result<String> {
    let version = version(&shop.root)?;
    let pack = ["package", "--quiet", "--no-verify", "--allow-dirty"];
    cargo(shop).args(pack).args(["-p", "tidegate", "-p", "tidegate-tokio"]).quiet()?;
    for name in ["tidegate", "tidegate-tokio"] {
        let packed = shop.target.join(format!("package/{name}-{version}.crate"));
        Cmd::new("tar").arg("-xzf").arg(packed).cwd(folder).quiet()?;
    }
    let manifest = format!(
        "[package]\nname = \"first\"\nedition = \"2024\"\n\n[dependencies]\n\
         reqwest = {{ version = \"0.13\", default-features = false }}\n\
         tidegate-tokio = {{ version = \"{version}\", features = [\"reqwest\"{ours}] }}\n\
         tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"{tokios}] }}\n\n\
         [patch.crates-io]\n\
         tidegate = {{ path = \"tidegate-{version}\" }}\n\
         tidegate-tokio = {{ path = \"tidegate-tokio-{version}\" }}\n\n[workspace]\n"
    );
    write(&folder.join("Cargo.toml"), &manifest)?;
    fs::create_dir_all(folder.join("src")).map_err(Error::at("make", folder))?;
    write(&folder.join("src/main.rs"), program)?;
    let (lock, locked) = (folder.join("Cargo.lock"), shop.root.join("Cargo.lock"));
    fs::copy(&locked, &lock).map_err(Error::at("copy", &locked))?;
    let run = Cmd::new("cargo").args(["run", "--quiet"]).cwd(folder);
    let run = run.env("CARGO_TARGET_DIR", shop.scratch("install/rust")?);
    // The compiler of the repository, and no other that this machine may have as its own.
    fs::copy(shop.root.join("rust-toolchain.toml"), folder.join("rust-toolchain.toml"))
        .map_err(Error::at("copy to", folder))?;
    run.quiet().map(|ran| ran.text)
}

/// Jars from a repository in a folder, in a new Maven project.
pub fn maven(shop: &Shop, built: bool, report: &mut Report) -> bool {
    let title = "Maven, a new Kotlin project with the jars of a repository";
    let there = report.make(INSTALL, title, &["registries: maven", "install: kotlin"], || {
        if !built {
            return Verdict::NotRun("there is no native library".into());
        }
        if let Some(missing) = jvm::missing() {
            return Verdict::NotRun(format!("{missing} is not on this machine"));
        }
        if let Err(Error(why)) = deployed(shop, jvm::mvn(shop, jvm::TESTED)) {
            return Verdict::check::<()>(Err(Error(why)));
        }
        minute(shop, "## Kotlin and Java", "kotlin", |folder, program| jars(shop, folder, program, &[]))
    });
    report.step(INSTALL, "Kotlin, the ten tasks of the guide with the jars of a repository", || {
        if !there {
            return Verdict::NotRun("there is no repository with the jars".into());
        }
        ten(shop, tasks::KOTLIN, |folder, program| jars(shop, folder, program, TASKS_NEED))
    });
    there
}

/// What the program of the ten tasks uses beside Tidegate and `OkHttp`: group, artefact, and the property with its version.
const TASKS_NEED: &[[&str; 3]] = &[
    ["org.jetbrains.kotlinx", "kotlinx-coroutines-test-jvm", "coroutines.version"],
    ["org.junit.jupiter", "junit-jupiter-api", "junit.version"],
    ["software.amazon.awssdk", "s3", "aws.version"],
];

/// Runs a program in a new Maven project that uses the deployed jars, and more from the registry.
fn jars(shop: &Shop, folder: &Path, program: &str, more: &[[&str; 3]]) -> Result<String> {
    let page = read(&shop.root, PAGE)?;
    let dependency = block(&page, "## Kotlin and Java", "xml")?;
    write(&folder.join("pom.xml"), &project(shop, &repository(shop)?, &dependency, more)?)?;
    let sources = folder.join("src/main/kotlin");
    fs::create_dir_all(&sources).map_err(Error::at("make", &sources))?;
    write(&sources.join("Main.kt"), program)?;
    let run = ["-B", "-q", "-Dstyle.color=never", "-Dkotlin.compiler.daemon=false"];
    let run = Cmd::new("mvn").args(run).args((!shop.install).then_some("-o"));
    let run = run.args(["compile", "exec:java", "-Dexec.mainClass=MainKt"]).cwd(folder);
    run.env("MAVEN_OPTS", jvm::frugal()).quiet().map(|ran| ran.text)
}

/// A new Swift package that resolves the tag of a release from a git repository, with the library that pkg-config finds.
pub fn swift(shop: &Shop, root: Option<&Root>, report: &mut Report) {
    let cloned = |folder: &Path| {
        let clone = folder.join("tidegate");
        release::swift_package(shop, &clone).map(|version| (clone, version))
    };
    let lacking = || Verdict::NotRun("there is no compiler, or no library".into());
    report.step(INSTALL, "Swift, a new package that depends on the release's tag", || match root {
        Some(root) => resolved(shop, root, cloned),
        None => lacking(),
    });
    report.step(INSTALL, "Swift, the ten tasks of the guide with the release's tag", || match root {
        Some(root) => ten(shop, tasks::SWIFT, |folder, program| {
            depending(shop, root, (folder, program), cloned(folder)?, &["Tidegate", "TidegateTesting"])
        }),
        None => lacking(),
    });
}

/// A new Swift package that depends on the repository which `origin` makes or names, at its version.
pub fn resolved(
    shop: &Shop,
    root: &Root,
    origin: impl FnOnce(&Path) -> Result<(PathBuf, String)>,
) -> Verdict {
    minute(shop, "## Swift", "swift", |folder, program| {
        depending(shop, root, (folder, program), origin(folder)?, &["Tidegate"])
    })
}

/// Runs a program in a new package that depends on products of a repository at this version.
fn depending(
    shop: &Shop,
    root: &Root,
    (folder, program): (&Path, &str),
    (origin, version): (PathBuf, String),
    products: &[&str],
) -> Result<String> {
    let install = Cmd::new("bash").arg(origin.join("bindings-uniffi/swift/scripts/linux.sh"));
    install.arg(folder.join("usr")).env("TIDEGATE_ARCHIVE", swift::archive(shop)?).quiet()?;
    let page = read(&shop.root, PAGE)?;
    let line = block(&page, "## Swift", "text")?;
    let (before, url, after) = quoted(&line, "url: ")?;
    let name = url.rsplit('/').next().unwrap_or_default();
    // The package has the name of the repository's last part, whatever the folder of this one.
    let served = folder.join("served").join(name);
    let products: Vec<_> =
        products.iter().map(|it| format!(".product(name: \"{it}\", package: \"{name}\")")).collect();
    let manifest = format!(
        "// swift-tools-version: 6.0\nimport PackageDescription\n\nlet package = Package(\n    name: \"first\",\n    \
         dependencies: [{before}\"file://{}\"{}],\n    targets: [.executableTarget(name: \"first\", dependencies: \
         [{}])]\n)\n",
        served.display(),
        after.trim(),
        products.join(", "),
    );
    let package = folder.join("first");
    fs::create_dir_all(package.join("Sources/first")).map_err(Error::at("make", &package))?;
    write(&package.join("Package.swift"), &manifest)?;
    write(&package.join("Sources/first/main.swift"), program)?;
    let run = format!(
        "cd {} && export HOME={} PKG_CONFIG_PATH={} && swift run --disable-index-store",
        package.display(),
        folder.display(),
        folder.join("usr/lib/pkgconfig").display(),
    );
    let places = [folder.display().to_string(), served.display().to_string()];
    let ran = root.enter(&[(folder, &places[0]), (&origin, &places[1])], &run).quiet()?.text;
    let resolved = fs::read_to_string(package.join("Package.resolved"));
    let tag = format!("\"version\" : \"{version}\"");
    if !resolved.is_ok_and(|text| text.contains(&tag)) {
        return Err(Error(format!("Package.resolved must name the version {version}")));
    }
    Ok(ran)
}

/// Runs the program of the ten tasks in an empty folder.
fn ten(shop: &Shop, language: tasks::Language, play: impl FnOnce(&Path, &str) -> Result<String>) -> Verdict {
    let run = || {
        let room = Room::new()?;
        tasks::done(&play(&room.0, &tasks::program(shop, language)?)?)
    };
    Verdict::check(run())
}

/// A line in three parts: what is before the string literal that follows `key`, its content, and what is after it.
fn quoted<'a>(line: &'a str, key: &str) -> Result<(&'a str, &'a str, &'a str)> {
    let at = line.find(&format!("{key}\"")).map(|at| at + key.len());
    let parts = at.and_then(|at| {
        let (content, after) = line[at + 1..].split_once('"')?;
        Some((&line[..at], content, after))
    });
    parts.ok_or_else(|| Error(format!("{PAGE} has no {key}\"…\" in {line}")))
}

/// The repository in a folder.
pub fn repository(shop: &Shop) -> Result<PathBuf> {
    Ok(shop.scratch("install")?.join("maven"))
}

/// Puts the jars and their POMs into a repository in a folder, with checksums, and removes what an earlier run left in
/// the user's own repository: Maven never asks again for a version that it has.
pub fn deployed(shop: &Shop, maven: Cmd) -> Result<PathBuf> {
    let repository = repository(shop)?;
    drop(fs::remove_dir_all(&repository));
    let to = format!("-DaltDeploymentRepository=rehearsal::default::file://{}", repository.display());
    let deploy = maven.env("MAVEN_OPTS", jvm::frugal());
    let deploy = deploy.args(["-q", "-DskipTests", "-Dkotlin.compiler.incremental=true"]).arg(to);
    deploy.args(["-pl", ":tidegate-parent,:tidegate-native,:tidegate", "deploy"]).quiet()?;
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    for artefact in ["tidegate", "tidegate-native", "tidegate-parent"] {
        drop(fs::remove_dir_all(home.join(".m2/repository/dev/tidegate").join(artefact)));
    }
    Ok(repository)
}

/// The `pom.xml` of a user.
fn project(shop: &Shop, repository: &Path, dependency: &str, more: &[[&str; 3]]) -> Result<String> {
    let ours = read(&shop.root, "bindings-uniffi/kotlin/pom.xml")?;
    let property = |name: &str| {
        let found = ours.split_once(&format!("<{name}>")).and_then(|(_, rest)| rest.split_once('<'));
        found.map(|(value, _)| value.to_owned()).ok_or_else(|| Error(format!("pom.xml has no <{name}>")))
    };
    let (kotlin, okhttp) = (property("kotlin.version")?, property("okhttp.version")?);
    let others = more.iter().map(|[group, artefact, version]| {
        Ok(format!(
            "<dependency><groupId>{group}</groupId><artifactId>{artefact}</artifactId><version>{}</version></dependency>\n",
            property(version)?
        ))
    });
    let others: String = others.collect::<Result<_>>()?;
    let url = repository.display();
    Ok(format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">
  <modelVersion>4.0.0</modelVersion>
  <groupId>first</groupId><artifactId>first</artifactId><version>1</version>
  <properties><project.build.sourceEncoding>UTF-8</project.build.sourceEncoding></properties>
  <repositories><repository><id>rehearsal</id><url>file://{url}</url></repository></repositories>
  <dependencies>
{dependency}
<dependency><groupId>com.squareup.okhttp3</groupId><artifactId>okhttp-jvm</artifactId><version>{okhttp}</version></dependency>
{others}  </dependencies>
  <build>
    <sourceDirectory>src/main/kotlin</sourceDirectory>
    <plugins>
      <plugin>
        <groupId>org.jetbrains.kotlin</groupId><artifactId>kotlin-maven-plugin</artifactId><version>{kotlin}</version>
        <executions><execution><goals><goal>compile</goal></goals></execution></executions>
      </plugin>
      <plugin><groupId>org.codehaus.mojo</groupId><artifactId>exec-maven-plugin</artifactId><version>3.5.1</version></plugin>
    </plugins>
  </build>
</project>
"
    ))
}

/// Plays one install: an empty folder, a new server, the program of the page. Checks what the program prints, and the
/// CPU time; the time on the clock depends on what else the machine does, and is only printed.
fn minute(
    shop: &Shop,
    heading: &str,
    language: &str,
    play: impl FnOnce(&Path, &str) -> Result<String>,
) -> Verdict {
    let run = || {
        let room = Room::new()?;
        let program = block(&read(&shop.root, PAGE)?, heading, language)?.replace(ADDRESS, &flaky()?);
        let (started, cpu) = (Instant::now(), cpu_time());
        let printed = play(&room.0, &program)?;
        let (clock, cpu) = (started.elapsed(), cpu_time().saturating_sub(cpu));
        if !printed.lines().any(|line| line.trim_end().ends_with(ANSWER)) {
            return Err(Error(format!(
                "the program of {PAGE} must print `{ANSWER}`; it printed:\n{printed}"
            )));
        }
        let first = first(shop, heading, &format!("{}, {}", seconds(clock), seconds(cpu)))?;
        println!(
            "   {ANSWER}: {} on the clock, {} of CPU time (the first time here: {first})",
            seconds(clock),
            seconds(cpu)
        );
        if cpu > LIMIT {
            return Err(Error(format!("it took {} of CPU time; {} at most", seconds(cpu), seconds(LIMIT))));
        }
        Ok(())
    };
    Verdict::check(run())
}

/// What the first install of a language took, when the packages of others had to be fetched or built too. The first one is `now`.
fn first(shop: &Shop, heading: &str, now: &str) -> Result<String> {
    let file = shop.scratch("install")?.join("first.txt");
    let known = fs::read_to_string(&file).unwrap_or_default();
    if let Some(time) = known.lines().find_map(|line| line.strip_prefix(heading)?.strip_prefix('\t')) {
        return Ok(time.to_owned());
    }
    write(&file, &format!("{known}{heading}\t{now}\n"))?;
    Ok(now.to_owned())
}

/// The first block of this language below a heading of the page.
fn block(page: &str, heading: &str, language: &str) -> Result<String> {
    let section = page.split_once(&format!("\n{heading}\n")).map(|(_, rest)| rest);
    let section = section.and_then(|rest| rest.split("\n## ").next());
    let code = section.and_then(|section| section.split_once(&format!("```{language}\n")));
    let code = code.and_then(|(_, rest)| rest.split_once("```"));
    code.map(|(code, _)| code.to_owned())
        .ok_or_else(|| Error(format!("{PAGE} has no block ```{language} below {heading}")))
}

/// A server on loopback that answers 503 and 200 in turns, until this program ends. Returns its address.
fn flaky() -> Result<String> {
    let broken = |error: std::io::Error| Error(format!("no server on loopback: {error}"));
    let listener = TcpListener::bind("127.0.0.1:0").map_err(broken)?;
    let address = listener.local_addr().map_err(broken)?;
    thread::spawn(move || {
        for (place, connection) in listener.incoming().flatten().enumerate() {
            drop(answer(connection, if place % 2 == 0 { "503 Service Unavailable" } else { "200 OK" }));
        }
    });
    Ok(format!("http://{address}"))
}

/// Reads the head of a request, and answers it.
fn answer(connection: TcpStream, status: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 0 && line.trim_end() != "" {
        line.clear();
    }
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok");
    reader.into_inner().write_all(head.as_bytes())
}

fn write(path: &Path, text: &str) -> Result {
    fs::write(path, text).map_err(Error::at("write", path))
}

/// An empty folder outside the repository, removed when the value is dropped.
struct Room(PathBuf);

impl Room {
    fn new() -> Result<Self> {
        let dir = env::temp_dir().join(format!("tidegate-install-{}", process::id()));
        drop(fs::remove_dir_all(&dir));
        fs::create_dir_all(&dir).map_err(Error::at("make", &dir))?;
        Ok(Self(dir))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_block_is_found_below_its_heading_and_a_missing_one_is_named() {
        let page = "# I\n\n## A\n\n```ts\na\n```\n\n## B\n\n```ts\nb\n```\n";
        assert_eq!(block(page, "## B", "ts").as_deref(), Ok("b\n"));
        assert_eq!(block(page, "## A", "ts").as_deref(), Ok("a\n"));
        assert!(block(page, "## A", "rust").is_err_and(|error| error.0.contains("```rust below ## A")));
    }

    #[test]
    fn every_language_has_a_program_that_calls_the_server() {
        let shop = Shop::open(false).expect("we are in the repository");
        let page = read(&shop.root, PAGE).expect("it is there");
        let sections = [
            ("## Python", "python"),
            ("## JavaScript and TypeScript", "ts"),
            ("## Kotlin and Java", "kotlin"),
            ("## Swift", "swift"),
            ("## Rust", "rust,no_run"),
        ];
        for (heading, language) in sections {
            let code = block(&page, heading, language).expect("it is there");
            assert!(code.contains(ADDRESS) && code.lines().count() <= 15, "{heading}");
        }
        let version = version(&shop.root).expect("there is one");
        assert_eq!(page.matches(&version).count(), 4, "{PAGE} must name version {version} in four places");
    }

    /// What a command on the page names: crates, folders, files, npm scripts and Maven modules.
    #[test]
    fn commands_for_a_clone_name_what_is_there() {
        let shop = Shop::open(false).expect("we are in the repository");
        let page = read(&shop.root, PAGE).expect("it is there");
        let (_, table) = page.split_once("## From a clone").expect("it is there");
        let commands: Vec<_> =
            table.split('`').skip(1).step_by(2).flat_map(|code| code.split(" && ")).collect();
        let manifests = ["bindings-uniffi", "bindings-uniffi/bindgen"];
        let crates =
            manifests.map(|folder| read(&shop.root, &format!("{folder}/Cargo.toml")).expect("it is there"));
        let modules = read(&shop.root, "bindings-uniffi/kotlin/pom.xml").expect("it is there");
        let scripts = read(&shop.root, "bindings-wasm/package.json").expect("it is there");
        let mut looked = 0;
        for words in commands.iter().map(|command| command.split(' ').collect::<Vec<_>>()) {
            let value = |flag: &str| words.iter().position(|word| *word == flag).map(|at| words[at + 1]);
            match words.as_slice() {
                ["cargo", _, ..] => {
                    let name = value("-p").or(words.get(2).copied().filter(|_| words[1] == "xtask"));
                    let name = name.expect("a crate or a verb");
                    let known = crates.iter().any(|text| text.contains(&format!("name = \"{name}\"")));
                    assert!(known || name == "doctor", "{words:?}");
                }
                ["cd", folder] => assert!(shop.root.join(folder).is_dir(), "{folder}"),
                ["npm", "run", script] => assert!(scripts.contains(&format!("\"{script}\": ")), "{script}"),
                ["mvn", ..] => {
                    assert!(
                        shop.root.join(value("-f").expect("a folder")).join("pom.xml").is_file(),
                        "{words:?}"
                    );
                    for module in value("-pl").expect("modules").split(',') {
                        assert!(modules.contains(&format!("<module>{module}</module>")), "{module}");
                    }
                }
                _ => continue,
            }
            looked += 1;
        }
        assert_eq!(looked, 6, "{commands:?}");
    }

    #[test]
    fn the_server_fails_once_and_then_answers() {
        let address = flaky().expect("a server");
        let ask = || {
            let mut connection =
                TcpStream::connect(address.trim_start_matches("http://")).expect("it listens");
            connection.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").expect("it reads");
            let mut text = String::new();
            connection.read_to_string(&mut text).expect("it answers");
            text
        };
        assert!(ask().starts_with("HTTP/1.1 503 ") && ask().starts_with("HTTP/1.1 200 "));
    }
}
