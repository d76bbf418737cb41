//! The harness: the real binary in a folder of its own, with an environment of which every variable is known.

#![expect(clippy::disallowed_methods, reason = "tests start the program and make files")]

pub(crate) mod acp_client;
pub(crate) mod blocks;
pub(crate) mod editor;
pub(crate) mod exchange;
pub(crate) mod files;
pub(crate) mod mcp_client;
pub(crate) mod page;
pub(crate) mod picture;
pub(crate) mod server;
pub(crate) mod tables;
pub(crate) mod terminal;

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use serde_json::Value;

/// A folder of its own that goes away with it.
#[derive(Debug)]
pub(crate) struct Workspace {
    folder: tempfile::TempDir,
}

/// What the program did.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Its exit code; 128 and the signal's number when a signal ended it.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// The binary under test: the one that `ENSEMBLE_TEST_BINARY` names, for example a release, or that of this build.
pub(crate) fn binary() -> &'static str {
    static BINARY: LazyLock<String> = LazyLock::new(|| {
        let named = std::env::var("ENSEMBLE_TEST_BINARY").ok();
        named.unwrap_or_else(|| env!("CARGO_BIN_EXE_ensemble").to_owned())
    });
    &BINARY
}

impl Workspace {
    /// A new, empty one.
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a folder for the test"),
        }
    }

    /// Its path, without links in it.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().canonicalize().expect("the folder is there")
    }

    /// Writes a file, and the folders above it.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("inside the folder")).expect("folders can be made");
        std::fs::write(&path, text).expect("files can be written");
        path
    }

    /// Writes a script that may be executed.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.write(name, text);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("modes can be set");
        path
    }

    /// The text of a file.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The program with these arguments and a scrubbed environment.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(binary());
        command
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.path().join("home"))
            .env("XDG_CONFIG_HOME", self.path().join("home/.config"))
            .env("LANG", "C.UTF-8")
            .env("TZ", "UTC")
            // The files of most tests are those of somebody who trusts them.
            .env("ENSEMBLE_TRUST", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs the program to its end.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Outcome {
        self.spawn(arguments).finish()
    }

    /// Runs the program with a text on standard input.
    pub(crate) fn run_with_stdin<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
        stdin: &str,
    ) -> Outcome {
        let child = self.command(arguments).stdin(Stdio::piped()).spawn();
        Running(child.expect("the program starts")).finish_with_stdin(stdin)
    }

    /// Starts the program.
    pub(crate) fn spawn<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Running {
        Running(self.command(arguments).spawn().expect("the program starts"))
    }

    /// The program as somebody starts it who trusts no file, with these variables.
    pub(crate) fn wary<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
        variables: &[(&str, &str)],
    ) -> Outcome {
        let mut command = self.command(arguments);
        command.env_remove("ENSEMBLE_TRUST").envs(variables.iter().copied());
        Running(command.spawn().expect("the program starts")).finish()
    }

    /// The folders of all runs, the oldest first.
    pub(crate) fn runs(&self) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(self.path().join(".ensemble/runs")) else {
            return Vec::new();
        };
        let mut runs: Vec<PathBuf> = entries
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
            .collect();
        runs.sort_by_key(|run| time_of(run));
        runs
    }

    /// The records of the only run's journal.
    pub(crate) fn journal(&self) -> Vec<Value> {
        let runs = self.runs();
        assert_eq!(runs.len(), 1, "one run: {runs:?}");
        records(&runs[0].join("journal.jsonl"))
    }
}

/// The time in the id of a run, and the id: `ab9z-20261122-001902365`.
fn time_of(run: &Path) -> (String, String) {
    let id = run.file_name().expect("a name").to_string_lossy().into_owned();
    let is_number = |part: &&str| part.len() >= 6 && part.bytes().all(|byte| byte.is_ascii_digit());
    (id.split('-').filter(is_number).collect(), id)
}

/// The records of a journal.
pub(crate) fn records(journal: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(journal).unwrap_or_else(|error| panic!("{}: {error}", journal.display()));
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

/// The program while it runs.
#[derive(Debug)]
pub(crate) struct Running(pub Child);

impl Running {
    /// Sends a signal: `INT`, `TERM`, `KILL`.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .arg(format!("-{name}"))
            .arg(self.0.id().to_string())
            .status();
        assert!(sent.expect("kill is there").success(), "the process is there");
    }

    /// Has it not ended yet?
    pub(crate) fn is_alive(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap_or_default();
        let state = stat.rsplit_once(") ").map(|(_, rest)| rest.starts_with('Z'));
        state == Some(false)
    }

    /// Writes a text to its standard input and waits for its end.
    pub(crate) fn finish_with_stdin(mut self, text: &str) -> Outcome {
        let mut pipe = self.0.stdin.take().expect("it has standard input");
        // A program that does not read its input closes it, and that is no failure of the test.
        let _ = pipe.write_all(text.as_bytes());
        drop(pipe);
        self.finish()
    }

    /// Waits for its end.
    pub(crate) fn finish(self) -> Outcome {
        use std::os::unix::process::ExitStatusExt;
        let output = self.0.wait_with_output().expect("the program can be waited for");
        let signal = || output.status.signal().map(|signal| 128 + signal);
        Outcome {
            code: output.status.code().or_else(signal).expect("it ended"),
            stdout: String::from_utf8(output.stdout).expect("standard output is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("standard error is UTF-8"),
        }
    }
}

impl Outcome {
    /// Fails the test unless the program ended with this code.
    #[track_caller]
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}\nstdout:\n{}\nstderr:\n{}", self.stdout, self.stderr))
    }

    /// Who ran in which turn, from a result: `["1 writer", "2 reviewer"]`.
    #[track_caller]
    pub(crate) fn sequence(&self) -> Vec<String> {
        let result = self.json();
        let history = result["conversation_history"].as_array().expect("a history");
        let one = |entry: &Value| {
            format!(
                "{} {}",
                entry["turn_number"],
                entry["agent_name"].as_str().unwrap_or("?")
            )
        };
        history.iter().map(one).collect()
    }
}

/// Waits until `happened` gives something, for at most 20 seconds.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut happened: impl FnMut() -> Option<T>) -> T {
    let begun = std::time::Instant::now();
    loop {
        if let Some(value) = happened() {
            return value;
        }
        assert!(begun.elapsed().as_secs() < 20, "{what} did not happen");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
