//! The project of the snapshots: its ensembles, and ten recorded runs that all snapshots share.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use expect_test::expect_file;

use super::placeholders::{RunNames, replace_unstable_parts};
use crate::support::{Outcome, Workspace, eventually};

/// A run that is recorded once for all snapshots. Its name is that of its ensemble.
pub(super) struct RecordedRun {
    pub(super) name: &'static str,
    pub(super) exit: i32,
}

/// The ten runs, in the order in which they are recorded.
pub(super) const RUNS: [RecordedRun; 10] = [
    RecordedRun { name: "loop", exit: 0 },
    RecordedRun {
        name: "handler",
        exit: 0,
    },
    RecordedRun {
        name: "failed",
        exit: 1,
    },
    RecordedRun {
        name: "cancelled",
        exit: 130,
    },
    RecordedRun {
        name: "timeout",
        exit: 4,
    },
    RecordedRun {
        name: "question",
        exit: 3,
    },
    RecordedRun {
        name: "permission",
        exit: 3,
    },
    RecordedRun {
        name: "continued",
        exit: 0,
    },
    RecordedRun {
        name: "nested",
        exit: 0,
    },
    RecordedRun {
        name: "budget",
        exit: 4,
    },
];

/// The input of each run.
const INPUT: &str = "the sea";

/// A project folder, and the names of its recorded runs by id.
pub(super) struct Project {
    workspace: Workspace,
    runs: RunNames,
}

/// The project with the ten recorded runs, which no command changes.
pub(super) fn recorded_project() -> &'static Project {
    static PROJECT: OnceLock<Project> = OnceLock::new();
    PROJECT.get_or_init(|| {
        let mut project = Project::without_runs();
        for run in &RUNS {
            project.record(run);
        }
        project
    })
}

impl Project {
    /// A new project with the ensembles and no runs.
    pub(super) fn without_runs() -> Self {
        let workspace = Workspace::new();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/project");
        copy_folder(&source, &workspace.path());
        std::fs::create_dir_all(workspace.path().join(".ensemble")).expect("folders can be made");
        Self {
            workspace,
            runs: HashMap::new(),
        }
    }

    /// A new project in which the run with this name is recorded. The script of `cancelled` and `timeout` ends from now on.
    pub(super) fn with_run(name: &str) -> Self {
        let mut project = Self::without_runs();
        let run = RUNS.iter().find(|run| run.name == name).expect("one of the runs");
        project.record(run);
        project.workspace.write("go", "");
        project
    }

    /// A copy of the project and of its runs, for commands that delete runs. Runs that continue need [`Self::with_run`],
    /// because they continue in the folder in which they were recorded.
    pub(super) fn copy(&self) -> Self {
        let workspace = Workspace::new();
        copy_folder(&self.workspace.path(), &workspace.path());
        Self {
            workspace,
            runs: self.runs.clone(),
        }
    }

    /// Records a run, and continues it if its ensemble is the one of a conversation that continues.
    fn record(&mut self, run: &RecordedRun) {
        self.execute(run.name, &["run", run.name, "-i", INPUT])
            .expect_code(run.exit);
        let ids: Vec<String> = self.run_ids();
        let id = ids.last().expect("the run has a folder").clone();
        if run.name == "continued" {
            self.workspace
                .run(["continue", &id, "When does it open?"])
                .expect_code(0);
        }
        self.runs.insert(id, run.name.to_owned());
    }

    fn run_ids(&self) -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().expect("a name").to_string_lossy().into_owned();
        self.workspace.runs().iter().map(name).collect()
    }

    /// Returns the id of the recorded run with this name.
    fn run_id(&self, name: &str) -> &str {
        let (id, _) = self.runs.iter().find(|(_, of)| *of == name).expect("a recorded run");
        id
    }

    /// Executes a command. A run of the ensemble `cancelled` is interrupted when its script has started.
    fn execute(&self, ensemble: &str, arguments: &[&str]) -> Outcome {
        if ensemble != "cancelled" || arguments[0] != "run" || arguments.contains(&"--dry-run") {
            return self.workspace.run(arguments);
        }
        let known = self.run_ids().len();
        let started = self.workspace.path().join("slow-started");
        let _ = std::fs::remove_file(&started);
        let running = self.workspace.spawn(arguments);
        eventually("the script and the other agent of its turn", || {
            let journal = self.workspace.runs().get(known)?.join("journal.jsonl");
            let text = std::fs::read_to_string(journal).ok()?;
            let finished = text.matches("\"execution_finished\"").count();
            (finished == 2 && text.ends_with('\n') && started.exists()).then_some(())
        });
        running.signal("INT");
        running.finish()
    }

    /// Compares the output of commands with the snapshot in `tests/snapshots/FOLDER/FILE.txt`.
    ///
    /// In arguments, `@NAME` is the id of a recorded run. The variable `UPDATE_EXPECT=1` writes the snapshot.
    pub(super) fn expect(&self, folder: &str, file: &str, commands: &[&[&str]]) {
        let mut text = String::new();
        for command in commands {
            let arguments: Vec<&str> = command.iter().map(|argument| self.resolve_argument(argument)).collect();
            let outcome = self.execute(folder, &arguments);
            write_session(&mut text, command, &outcome);
        }
        let stable = replace_unstable_parts(&text, &self.workspace.path(), &self.runs);
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/snapshots")
            .join(folder)
            .join(format!("{file}.txt"));
        std::fs::create_dir_all(path.parent().expect("inside the folder")).expect("folders can be made");
        expect_file![path].assert_eq(&stable);
    }

    /// Returns the names of the subcommands that `--help` lists for a command.
    pub(super) fn subcommands(&self, command: &[&str]) -> Vec<String> {
        let help = self
            .workspace
            .run([command, &["--help"]].concat())
            .expect_code(0)
            .stdout;
        let rows = help.lines().take_while(|line| *line != "Options:");
        let names = rows.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        let is_name = |name: &&str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase());
        names.filter(is_name).map(str::to_owned).collect()
    }

    fn resolve_argument<'a>(&'a self, argument: &'a str) -> &'a str {
        match argument.strip_prefix('@') {
            Some(name) => self.run_id(name),
            None => argument,
        }
    }
}

/// Writes a command with its output as a terminal session.
fn write_session(text: &mut String, command: &[&str], outcome: &Outcome) {
    let words = command.iter().map(|argument| match argument.strip_prefix('@') {
        Some(name) => format!("[RUN {name}]"),
        None if argument.contains([' ', '"', '\'', '*']) => format!("'{argument}'"),
        None => (*argument).to_owned(),
    });
    let words: Vec<String> = words.collect();
    writeln!(text, "$ ensemble {}", words.join(" ")).expect("texts grow");
    for (title, stream) in [("stdout", &outcome.stdout), ("stderr", &outcome.stderr)] {
        if !stream.is_empty() {
            let end = if stream.ends_with('\n') { "" } else { "[NO NEWLINE]\n" };
            write!(text, "=== {title}\n{stream}{end}").expect("texts grow");
        }
    }
    writeln!(text, "=== exit {}\n", outcome.code).expect("texts grow");
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("folders can be made");
    for entry in std::fs::read_dir(from).expect("the folder is there") {
        let source = entry.expect("the folder can be read").path();
        let target = to.join(source.file_name().expect("a name"));
        if source.is_dir() {
            copy_folder(&source, &target);
        } else {
            std::fs::copy(&source, &target).expect("files can be copied");
        }
    }
}
