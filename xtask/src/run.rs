//! Running commands: one headed, timed step after another, with errors that name the command.

use std::ffi::OsStr;
use std::fmt;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// An error in words for the person at the terminal.
#[derive(Debug, PartialEq, Eq)]
pub struct Error(pub String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error {
    /// Returns a closure for `map_err` that names the operation: `fs::write(p, t).map_err(Error::at("write", p))`.
    pub fn at<E: fmt::Display>(doing: &str, path: &Path) -> impl FnOnce(E) -> Self {
        move |error| Self(format!("cannot {doing} {}: {error}", path.display()))
    }
}

/// The result type of xtask.
pub type Result<T = ()> = std::result::Result<T, Error>;

/// A command to run, and what to do with its output.
pub struct Cmd {
    inner: Command,
    line: String,
    limit: Option<Duration>,
}

/// How long a command's pipes are read after its end: a process that it has left behind may hold them for ever.
const AFTERWARDS: Duration = Duration::from_secs(10);

/// The result of a finished command.
pub struct Output {
    /// The exit status.
    pub status: ExitStatus,
    /// Standard output and standard error, in the order in which they arrived.
    pub text: String,
    line: String,
}

impl Cmd {
    /// A command without the caller's Python settings and without an active virtual environment: a stray `PYTHONPATH`
    /// must not decide which `tidegate` is tested.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let mut inner = Command::new(program.as_ref());
        for name in ["PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "CONDA_PREFIX"] {
            inner.env_remove(name);
        }
        Self { inner, line: quoted(program.as_ref()), limit: None }
    }

    /// Kills the command after so long: what takes many times as long as usual hangs, and would say nothing for ever.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Adds one argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.line.push(' ');
        self.line.push_str(&quoted(arg.as_ref()));
        self.inner.arg(arg);
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(self, args: impl IntoIterator<Item = A>) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    /// Sets a variable in the command's environment. Errors show these variables with the command, because repeating it
    /// needs them.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        if name.starts_with("TIDEGATE_") {
            self.line = format!("{name}={} {}", quoted(value.as_ref()), self.line);
        }
        self.inner.env(name, value);
        self
    }

    /// Runs the command in this directory.
    pub fn cwd(mut self, dir: &Path) -> Self {
        self.inner.current_dir(dir);
        self
    }

    /// Runs the command and keeps its output without showing it.
    pub fn capture(self) -> Result<Output> {
        self.piped(false)
    }

    /// Runs the command, shows its output, and keeps a copy.
    pub fn stream(self) -> Result<Output> {
        self.piped(true)
    }

    /// Runs the command and shows its output only if it fails.
    pub fn quiet(self) -> Result<Output> {
        let output = self.capture()?;
        if !output.status.success() {
            println!("{}", output.text.trim_end());
        }
        output.ok()
    }

    /// Runs the command on xtask's own terminal and keeps nothing.
    pub fn inherit(mut self) -> Result {
        let status = self.inner.status().map_err(|error| cannot_start(&self.line, &error))?;
        Output { status, text: String::new(), line: self.line }.ok().map(drop)
    }

    fn piped(mut self, show: bool) -> Result<Output> {
        self.inner.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.inner.spawn().map_err(|error| cannot_start(&self.line, &error))?;
        let kept = Arc::new(Mutex::new(Vec::new()));
        let readers = [
            child.stdout.take().map(|pipe| copy(pipe, show.then(std::io::stdout), &kept)),
            child.stderr.take().map(|pipe| copy(pipe, show.then(std::io::stderr), &kept)),
        ];
        let status = match self.limit {
            Some(limit) => ended_within(&mut child, limit),
            None => child.wait().map(Some),
        };
        let status = status.map_err(|error| cannot_start(&self.line, &error))?;
        let until = Instant::now() + AFTERWARDS;
        for reader in readers.into_iter().flatten() {
            while !reader.is_finished() && Instant::now() < until {
                std::thread::sleep(LOOK);
            }
        }
        let Some(status) = status else {
            let after = seconds(self.limit.unwrap_or_default());
            return Err(Error(format!("`{}` had not ended after {after}, and was killed", self.line)));
        };
        let kept = kept.lock().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Ok(Output { status, text: kept.unwrap_or_default(), line: self.line })
    }
}

impl Output {
    /// The output of a command that succeeded; otherwise an error that names the command.
    pub fn ok(self) -> Result<Self> {
        if self.status.success() { Ok(self) } else { Err(self.error()) }
    }

    /// The error that names this command and its exit status.
    pub fn error(&self) -> Error {
        let how = match self.status.code() {
            Some(code) => format!("exit code {code}"),
            None => self.status.to_string(),
        };
        Error(format!("`{}` ended with {how}", self.line))
    }
}

/// The time between two looks at a process.
const LOOK: Duration = Duration::from_millis(5);

/// The exit status of a process that ends in time; `None` if it had to be killed.
fn ended_within(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let until = Instant::now() + limit;
    while Instant::now() < until {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(LOOK);
    }
    child.kill()?;
    child.wait()?;
    Ok(None)
}

fn cannot_start(line: &str, error: &std::io::Error) -> Error {
    Error(format!("cannot run `{line}`: {error}"))
}

/// Copies a pipe into `kept`, and to the terminal if asked. It runs on a separate thread, so that neither pipe fills
/// up.
fn copy(
    mut from: impl Read + Send + 'static,
    mut to: Option<impl Write + Send + 'static>,
    kept: &Arc<Mutex<Vec<u8>>>,
) -> std::thread::JoinHandle<()> {
    let kept = Arc::clone(kept);
    std::thread::spawn(move || {
        let mut buffer = [0_u8; 8192];
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            if let Ok(mut kept) = kept.lock() {
                kept.extend_from_slice(&buffer[..n]);
            }
            // A terminal that was closed must not stop the work.
            if let Some(to) = &mut to {
                drop(to.write_all(&buffer[..n]).and_then(|()| to.flush()));
            }
        }
    })
}

/// The argument as it is typed in a shell.
pub fn quoted(arg: &OsStr) -> String {
    let text = arg.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Announces a step, runs it, and prints how long it took. For commands that stop at the first failure.
pub fn step<T>(title: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    println!("── {title}");
    let started = Instant::now();
    let result = work();
    if result.is_ok() {
        println!("   done in {}", seconds(started.elapsed()));
    }
    result
}

/// A duration for people: `0.4 s`, `12.3 s`, `2 min 05 s`.
pub fn seconds(span: Duration) -> String {
    match span.as_secs() {
        0..60 => format!("{:.1} s", span.as_secs_f64()),
        whole => format!("{} min {:02} s", whole / 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_naturally() {
        assert_eq!(seconds(Duration::from_millis(430)), "0.4 s");
        assert_eq!(seconds(Duration::from_secs(125)), "2 min 05 s");
    }

    #[test]
    fn a_failing_command_is_named_with_its_exit_code() {
        let output =
            Cmd::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]).capture().expect("sh starts");
        assert!(output.text.contains("out") && output.text.contains("err"));
        assert_eq!(output.error().0, "`sh -c 'echo out; echo err >&2; exit 3'` ended with exit code 3");
        assert!(output.ok().is_err());
    }

    #[test]
    fn a_process_that_a_command_leaves_behind_delays_nothing() {
        let started = Instant::now();
        let output = Cmd::new("sh").args(["-c", "sleep 120 & echo out"]).capture().expect("sh starts");
        assert!(output.status.success() && output.text.contains("out"));
        assert!(started.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn a_command_that_hangs_is_killed_and_named() {
        let limit = Duration::from_millis(100);
        let error = Cmd::new("sleep").arg("120").limit(limit).capture().err().expect("it is killed");
        assert_eq!(error.0, "`sleep 120` had not ended after 0.1 s, and was killed");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Cmd::new("no-such-program-here").capture().err().expect("it does not exist");
        assert!(error.0.starts_with("cannot run `no-such-program-here`: "), "{error}");
    }

    #[test]
    fn the_callers_python_settings_do_not_leak_in() {
        let command = Cmd::new("python");
        let removed = |name: &str| command.inner.get_envs().any(|(n, value)| n == name && value.is_none());
        assert!(removed("PYTHONPATH") && removed("VIRTUAL_ENV"));
    }

    #[test]
    fn an_error_shows_our_own_variables_so_that_the_command_can_be_repeated() {
        let command = Cmd::new("pytest").env("CARGO_TARGET_DIR", "/t").env("TIDEGATE_ORIGIN", "/o").arg("-q");
        assert_eq!(command.line, "TIDEGATE_ORIGIN=/o pytest -q");
    }

    #[test]
    fn quoting_leaves_plain_words_alone() {
        assert_eq!(quoted(OsStr::new("--out=target/x.whl")), "--out=target/x.whl");
        assert_eq!(quoted(OsStr::new("it's")), r"'it'\''s'");
        assert_eq!(quoted(OsStr::new("")), "''");
    }
}
