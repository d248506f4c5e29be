//! The workflows of `.github`: actionlint reads them, and a test keeps logic out of them.

use crate::report::{Report, Verdict};
use crate::run::{Cmd, Error, Output, Result};
use crate::setup::Shop;
use std::path::PathBuf;

const ACTIONLINT: &str = "1.7.12";

/// The step of the tests.
pub fn steps(shop: &Shop, report: &mut Report) {
    report.step("Rust tools", "actionlint: the workflows", || match actionlint(shop) {
        Ok(program) => {
            Verdict::check(Cmd::new(program).arg("-no-color").cwd(&shop.root).stream().and_then(Output::ok))
        }
        Err(Error(why)) => Verdict::NotRun(why),
    });
}

/// Finds or builds actionlint, which the Go module proxy has.
fn actionlint(shop: &Shop) -> Result<PathBuf> {
    let folder = shop.scratch("actionlint")?;
    let program = folder.join("actionlint");
    let ours = Cmd::new(&program).arg("-version").capture();
    if ours.is_ok_and(|ran| ran.text.contains(ACTIONLINT)) {
        return Ok(program);
    }
    if !shop.install {
        return Err(Error("--no-install: actionlint would have to be fetched".into()));
    }
    let module = format!("github.com/rhysd/actionlint/cmd/actionlint@v{ACTIONLINT}");
    let install = Cmd::new("go").arg("install").arg(module).env("GOBIN", &folder);
    match install.capture().and_then(Output::ok) {
        Ok(_) => Ok(program),
        Err(Error(why)) => {
            Err(Error(format!("actionlint needs Go 1.24 or newer (https://go.dev/dl): {why}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// What a workflow may run beside `cargo xtask`: the uploads, which only its identity may do.
    const UPLOADS: [&str; 2] =
        ["npm publish --provenance --access public", "cargo publish -p tidegate -p tidegate-tokio"];

    #[test]
    fn workflows_run_xtask_and_uploads_only() {
        let folder = Shop::open(false).expect("we are in the repository").root.join(".github/workflows");
        let files: Vec<_> =
            fs::read_dir(folder).expect("it is there").flatten().map(|entry| entry.path()).collect();
        assert!(files.len() >= 4, "{files:?}");
        for file in files {
            let text = fs::read_to_string(&file).expect("it can be read");
            let commands =
                text.lines().filter_map(|line| line.trim().trim_start_matches("- ").strip_prefix("run:"));
            for command in commands.map(str::trim) {
                let known = command.starts_with("cargo xtask ") || UPLOADS.contains(&command);
                assert!(known, "{}: `{command}` belongs into xtask", file.display());
            }
            assert!(text.contains("\npermissions:\n  contents: read\n"), "{}", file.display());
        }
    }

    /// Nothing here builds the container, so its text is compared with what the tests need.
    #[test]
    fn the_container_has_what_the_tests_need_and_runs_our_commands() {
        let root = Shop::open(false).expect("we are in the repository").root;
        let read =
            |file: &str| fs::read_to_string(root.join(".devcontainer").join(file)).expect("it is there");
        let recipe = read("Dockerfile");
        let debian = [
            "build-essential",
            "chromium",
            "git",
            "iproute2",
            "maven",
            "mmdebstrap",
            "openjdk-17-jdk-headless",
            "python3-venv",
            "redis-server",
            "valgrind",
            "nodejs",
        ];
        for package in debian {
            assert!(recipe.split_whitespace().any(|word| word == package), "Dockerfile: {package}");
        }
        let settings = read("devcontainer.json");
        let run = settings.split_once("\"postCreateCommand\": \"").and_then(|(_, rest)| rest.split_once('"'));
        let commands: Vec<_> = run.expect("a command").0.split(" && ").collect();
        assert_eq!(commands, ["cargo xtask setup", "cargo xtask doctor"]);
        assert!(settings.contains("\"dockerfile\": \"Dockerfile\""));
    }

    /// YAML takes `packages::` at the end of a line for a key, and pre-commit then refuses the whole file.
    #[test]
    fn hooks_of_pre_commit_are_quoted() {
        let file = Shop::open(false).expect("we are in the repository").root.join(".pre-commit-config.yaml");
        let text = fs::read_to_string(file).expect("it can be read");
        let entries: Vec<_> = text.lines().filter_map(|line| line.trim().strip_prefix("entry: ")).collect();
        assert_eq!(entries.len(), text.matches("- id: ").count());
        for entry in entries {
            let command = entry.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            assert!(command.is_some_and(|command| command.starts_with("cargo ")), "{entry}");
        }
    }
}
