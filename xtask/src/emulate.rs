//! Runs Debian's Python for ARM under qemu, in a private folder. Nothing is installed on the system, and its packages
//! and package lists stay unchanged.

use crate::run::{Cmd, Error, Result};
use crate::setup::{Shop, Venv};
use std::fs;
use std::path::{Path, PathBuf};

/// The smallest set of packages with which the smoke script runs.
const PACKAGES: [&str; 3] = ["python3.11", "libpython3.11-stdlib", "libgcc-s1"];
const PYTHON: &str = "usr/bin/python3.11";
/// Where Debian's Python looks for packages that are not Debian's.
const SITE: &str = "usr/local/lib/python3.11/dist-packages";

/// A Python for ARM that runs on this machine.
pub struct Arm {
    qemu: PathBuf,
    root: PathBuf,
}

impl Arm {
    /// Finds or makes it. Works on Debian 12 and similar systems; on others the error says what is missing.
    pub fn open(shop: &Shop) -> Result<Self> {
        let dir = shop.scratch("arm64")?;
        let it = Self { qemu: dir.join("qemu/usr/bin/qemu-aarch64-static"), root: dir.join("root") };
        let stamp = dir.join("tidegate-complete");
        if !stamp.is_file() {
            if !shop.install {
                return Err(Error("--no-install: a Python for ARM and qemu would have to be fetched".into()));
            }
            it.fetch(&dir)?;
            fs::write(&stamp, "").map_err(Error::at("write", &stamp))?;
        }
        Ok(it)
    }

    /// Unpacks the wheel beside this Python, and runs a script with it.
    pub fn run(&self, venv: &Venv, wheel: &Path, script: &Path) -> Result {
        let site = self.root.join(SITE);
        if site.exists() {
            fs::remove_dir_all(&site).map_err(Error::at("empty", &site))?;
        }
        fs::create_dir_all(&site).map_err(Error::at("make", &site))?;
        venv.python().args(["-m", "zipfile", "-e"]).arg(wheel).arg(&site).quiet()?;
        let python = Cmd::new(&self.qemu).arg("-L").arg(&self.root).arg(self.root.join(PYTHON));
        let python = python.env("PYTHONHOME", self.root.join("usr")).args(["-s", "-P"]);
        python.arg(script).cwd(&self.root).stream()?.ok().map(drop)
    }

    /// Downloads packages with apt for the other architecture, using private lists and a private cache.
    fn fetch(&self, dir: &Path) -> Result {
        for folder in ["state/lists/partial", "cache/archives/partial", "root", "qemu", "host"] {
            let folder = dir.join(folder);
            fs::create_dir_all(&folder).map_err(Error::at("make", &folder))?;
        }
        let status = dir.join("status");
        fs::write(&status, "").map_err(Error::at("write", &status))?;
        let apt = |words: &[&str]| {
            let options = [
                format!("Dir::State={}", dir.join("state").display()),
                format!("Dir::State::status={}", status.display()),
                format!("Dir::Cache={}", dir.join("cache").display()),
                "APT::Architecture=arm64".into(),
                "APT::Architectures=arm64".into(),
                "Debug::NoLocking=1".into(),
            ];
            let apt = options.iter().fold(Cmd::new("apt-get"), |apt, option| apt.arg("-o").arg(option));
            apt.args(words).quiet().map(drop)
        };
        apt(&["update", "-qq"])?;
        apt(&[&["install", "-y", "-qq", "--no-install-recommends", "--download-only"][..], &PACKAGES]
            .concat())?;
        unpack(&dir.join("cache/archives"), &self.root)?;
        // qemu is a program for this machine, so the system's own lists are used.
        let host = dir.join("host");
        Cmd::new("apt-get").args(["download", "-qq", "qemu-user-static"]).cwd(&host).quiet()?;
        unpack(&host, &dir.join("qemu"))
    }
}

/// Unpacks every package of a folder without installing it.
fn unpack(from: &Path, to: &Path) -> Result {
    let entries = fs::read_dir(from).map_err(Error::at("read", from))?;
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    for path in paths.filter(|path| path.extension().is_some_and(|ending| ending == "deb")) {
        Cmd::new("dpkg").arg("-x").arg(&path).arg(to).quiet()?;
    }
    Ok(())
}
