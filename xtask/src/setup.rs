//! The base of the other commands: the paths of this repository and its Python environment.

use crate::run::{Cmd, Error, Result, step};
use std::env::consts::EXE_SUFFIX;
use std::path::{Path, PathBuf};
use std::{env, fs};

const REQUIREMENTS: &str = "bindings-python/requirements-dev.txt";
const PIP: &str = "pip==26.3"; // the pip of a Debian 12 venv is too old for maturin
const OLDEST: (u32, u32) = (3, 10);

/// The repository's paths, and whether missing tools may be installed.
pub struct Shop {
    /// The repository's root.
    pub root: PathBuf,
    /// Cargo's target directory; all files that xtask makes are below it.
    pub target: PathBuf,
    /// False under `--no-install`: nothing may be fetched.
    pub install: bool,
}

/// A virtual environment that is ready for use.
pub struct Venv {
    /// The environment's folder.
    pub dir: PathBuf,
}

/// A Python interpreter found on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Python {
    /// The interpreter's program.
    pub exe: PathBuf,
    /// Its full version, such as `3.11.2`.
    pub version: String,
}

impl Shop {
    /// Finds the repository and cargo's target directory.
    pub fn open(install: bool) -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf);
        let root = root.ok_or_else(|| Error("xtask does not lie in a repository".into()))?;
        let target = match env::var_os("CARGO_TARGET_DIR") {
            Some(dir) => {
                env::current_dir().map_err(Error::at("find the way from", Path::new(".")))?.join(dir)
            }
            None => root.join("target"),
        };
        Ok(Self { root, target, install })
    }

    /// A folder of xtask's below the target directory, made if absent.
    pub fn scratch(&self, name: &str) -> Result<PathBuf> {
        let dir = self.target.join("xtask").join(name);
        fs::create_dir_all(&dir).map_err(Error::at("make", &dir))?;
        Ok(dir)
    }

    /// The file of pinned requirements, for `pip install -r` and as constraints.
    pub fn requirements(&self) -> PathBuf {
        self.root.join(REQUIREMENTS)
    }
}

impl Python {
    /// The version without the patch number: `3.11`.
    pub fn minor(&self) -> String {
        self.version.splitn(3, '.').take(2).collect::<Vec<_>>().join(".")
    }
}

impl Venv {
    /// The path of a program in the environment.
    pub fn bin(&self, program: &str) -> PathBuf {
        let folder = if cfg!(windows) { "Scripts" } else { "bin" };
        self.dir.join(folder).join(format!("{program}{EXE_SUFFIX}"))
    }

    /// The environment's Python, isolated: neither the working directory nor user site-packages can shadow installed
    /// packages.
    pub fn python(&self) -> Cmd {
        Cmd::new(self.bin("python")).arg("-I")
    }

    /// The environment's Python with one of our scripts, which may import its neighbours but nothing from the working
    /// directory.
    pub fn script(&self, script: &Path) -> Cmd {
        Cmd::new(self.bin("python")).arg("-s").arg(script).env("PYTHONUNBUFFERED", "1")
    }

    /// The environment's pip.
    pub fn pip(&self) -> Cmd {
        self.python().args(["-m", "pip", "--disable-pip-version-check", "--no-input"])
    }
}

/// `cargo xtask setup`.
pub fn setup(shop: &Shop) -> Result {
    // Without these some steps of the tests are reported as not run; nothing else needs them.
    if let Err(why) = crate::wasm::target(shop, crate::wasm::TARGET) {
        println!("   no WebAssembly here: {why}");
    } else if let Err(why) = crate::js::environment(shop) {
        println!("   no JavaScript here: {why}");
    }
    if let Err(why) = crate::swift::Root::open(shop) {
        println!("   no Swift here: {why}");
    }
    if let Err(why) = crate::redis::program(shop) {
        println!("   no Redis here: {why}");
    }
    let venv = python_environment(shop)?;
    println!("ready: {}", venv.dir.display());
    Ok(())
}

/// The environment that builds, checks and tests the Python package. A stamp, written last, marks it as complete; an
/// interrupted installation is repeated.
pub fn python_environment(shop: &Shop) -> Result<Venv> {
    environment(shop, REQUIREMENTS)
}

/// An environment with these requirements.
pub fn environment(shop: &Shop, requirements: &str) -> Result<Venv> {
    let python = find_python()?;
    let path = shop.root.join(requirements);
    let wanted = fs::read_to_string(&path).map_err(Error::at("read", &path))?;
    let key = fnv1a(format!("{PIP}\n{}\n{wanted}", python.version).as_bytes());
    let venv = Venv { dir: shop.target.join("venv").join(format!("{key:016x}")) };
    let stamp = venv.dir.join("tidegate-complete");
    if stamp.is_file() && venv.python().args(["-c", "pass"]).capture().is_ok_and(|ran| ran.status.success()) {
        return Ok(venv);
    }
    if !shop.install {
        return Err(Error(
            "the Python environment is missing, and --no-install forbids making it: cargo xtask setup".into(),
        ));
    }
    step(
        &format!("python: make an environment with Python {} in {}", python.version, venv.dir.display()),
        || {
            create(shop, &python, &venv)?;
            venv.pip().args(["install", "--quiet", "--upgrade", PIP]).quiet().map(drop)
        },
    )?;
    step(&format!("python: install {requirements}"), || {
        venv.pip().args(["install", "--quiet", "-r"]).arg(&path).quiet().map(drop)
    })?;
    fs::write(&stamp, python.version).map_err(Error::at("write", &stamp))?;
    Ok(venv)
}

/// Makes an empty virtual environment, replacing the remains of an earlier one.
pub fn create(shop: &Shop, python: &Python, venv: &Venv) -> Result {
    if venv.dir.exists() {
        fs::remove_dir_all(&venv.dir).map_err(Error::at("remove", &venv.dir))?;
    }
    let run = |args: &[&str]| Cmd::new(&python.exe).args(args);
    let has = |module: &str| run(&["-c", module]).capture().is_ok_and(|ran| ran.status.success());
    if !has("import venv, ensurepip") {
        if has("import venv, pip") {
            // Debian without python3-venv, but with python3-pip: its pip can install into another environment.
            run(&["-m", "venv", "--without-pip"]).arg(&venv.dir).quiet()?;
            return run(&["-m", "pip", "--python"])
                .arg(venv.bin("python"))
                .args(["install", "--quiet", PIP])
                .quiet()
                .map(drop);
        }
        if !(shop.install && install_debian_venv()) {
            let (exe, minor) = (python.exe.display(), python.minor());
            return Err(Error(format!(
                "{exe} cannot make virtual environments; as root: apt-get install python3-venv (or python{minor}-venv)"
            )));
        }
    }
    run(&["-m", "venv"]).arg(&venv.dir).quiet().map(drop)
}

/// Installs the package that the `venv` module needs, on Debian as root. Elsewhere this fails, and the caller says what
/// to do.
fn install_debian_venv() -> bool {
    install_debian("python3-venv")
}

/// Installs a Debian package. Returns false if that is impossible here.
pub fn install_debian(package: &str) -> bool {
    let apt = |args: &[&str]| {
        Cmd::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(args)
            .capture()
            .is_ok_and(|ran| ran.status.success())
    };
    println!("   {package} is missing: trying apt-get");
    apt(&["update", "-qq"]) && apt(&["install", "-y", "-qq", "--no-install-recommends", package])
}

/// The interpreter for the main environment: the first suitable one.
pub fn find_python() -> Result<Python> {
    let asked = env::var_os("PYTHON").map(PathBuf::from);
    let usual = ["python3.11", "python3", "python3.10", "python3.12", "python3.13"].map(PathBuf::from);
    let found = asked.into_iter().chain(usual).find_map(|name| probe(&name));
    let found = found.or_else(|| ["3.11", "3.10", "3.12", "3.13"].into_iter().find_map(pyenv));
    found.ok_or_else(|| {
        Error(
            "no Python 3.10 or newer found; install one (Debian: apt-get install python3 python3-venv)"
                .into(),
        )
    })
}

/// An interpreter of exactly this minor version (`3.12`), on the path or among pyenv's.
pub fn find_minor(minor: &str) -> Option<Python> {
    let right = |python: &Python| same_minor(&python.version, minor);
    probe(Path::new(&format!("python{minor}"))).filter(right).or_else(|| pyenv(minor))
}

/// The interpreter of this name (`3.14t`, one without a GIL), on the path.
pub fn find_named(name: &str) -> Option<Python> {
    let minor = name.trim_end_matches('t');
    let free = |python: &Python| same_minor(&python.version, minor);
    probe(Path::new(&format!("python{name}"))).filter(free)
}

/// pyenv's shims work only for enabled versions, so this uses the interpreters themselves.
fn pyenv(minor: &str) -> Option<Python> {
    let root = env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv")))?;
    let mut versions: Vec<PathBuf> =
        fs::read_dir(root.join("versions")).ok()?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    versions.sort();
    let right =
        |dir: &PathBuf| dir.file_name().is_some_and(|name| same_minor(&name.to_string_lossy(), minor));
    versions.into_iter().rev().filter(right).find_map(|dir| probe(&dir.join("bin/python")))
}

/// Asks an interpreter for its version and its real path, behind any shim.
fn probe(exe: &Path) -> Option<Python> {
    let ask = "import platform, sys; print(sys.executable); print(platform.python_version())";
    let ran = Cmd::new(exe).args(["-I", "-c", ask]).capture().ok()?.ok().ok()?;
    let (exe, version) = ran.text.trim().split_once('\n')?;
    let python = Python { exe: PathBuf::from(exe.trim()), version: version.trim().to_owned() };
    (minor_of(&python.version)? >= OLDEST).then_some(python)
}

fn same_minor(version: &str, minor: &str) -> bool {
    minor_of(version).is_some() && minor_of(version) == minor_of(minor)
}

fn minor_of(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// FNV-1a, 64 bits: names a folder by a hash of its inputs. It need not be cryptographic.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv1a_gives_the_published_values() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn versions_compare_by_number_not_by_text() {
        assert!(minor_of("3.9.18") < Some(OLDEST));
        assert!(minor_of("3.10.0") >= Some(OLDEST));
        assert!(same_minor("3.1.5", "3.1") && !same_minor("3.13.0", "3.1"));
        assert_eq!(minor_of("pypy3"), None);
    }

    #[test]
    fn the_requirements_are_pinned_exactly() {
        let shop = Shop::open(false).expect("we are in the repository");
        for requirements in
            [REQUIREMENTS, crate::dist::REQUIREMENTS, crate::demo::PEERS, crate::site::REQUIREMENTS]
        {
            let text = fs::read_to_string(shop.root.join(requirements)).expect("the file is committed");
            let wanted = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
            for line in wanted {
                assert!(
                    line.split_once("==")
                        .is_some_and(|(name, version)| !name.is_empty() && version.contains('.')),
                    "{line}"
                );
            }
        }
    }
}
