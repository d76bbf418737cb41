//! Script agents: what `script:` names, and who performs it.
//!
//! A script is sought anew for each execution, since an agent may write the script that a later one runs; only
//! what was found on PATH is remembered, until there is a file of that name. The same search serves `validate`, so that both give the same answer for the same reason.

#![expect(
    clippy::disallowed_methods,
    reason = "programs are sought on PATH as the system would"
)]

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::process::{self, Bounds, Invocation};
use super::rhai_script::{self, Compiled};
use super::{BoxFuture, Execution, Observed, Runner};
use crate::data::FailureKind;

/// Characters that only a shell understands.
const SHELL_SYNTAX: &str = "|&;<>$`*?()~#\n";

/// Words that a shell knows, and that need not exist as programs.
const SHELL_WORDS: [&str; 19] = [
    "!", ":", "alias", "cd", "command", "eval", "exec", "exit", "export", "read", "readonly", "return", "set", "trap",
    "type", "ulimit", "umask", "unset", "wait",
];

/// Where programs are sought when PATH is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Where scripts are sought, and where they run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The folder of the ensemble file.
    pub ensemble_dir: PathBuf,
    /// The project root, in which scripts run.
    pub project_root: PathBuf,
}

/// What a `script:` turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// A Rhai script, run inside the process.
    Rhai(PathBuf),
    /// A child process.
    Process(Invocation),
}

/// Why a `script:` cannot be run here and now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: String,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.help)
    }
}

impl std::error::Error for Unavailable {}

/// The runner of a script agent; the bounds are those of a child process.
pub fn runner(script: &str, places: &Places, bounds: Bounds) -> Arc<dyn Runner> {
    Arc::new(ScriptRunner {
        script: script.to_owned(),
        places: places.clone(),
        bounds,
        on_path: OnceLock::new(),
        compiled: Compiled::default(),
    })
}

struct ScriptRunner {
    script: String,
    places: Places,
    bounds: Bounds,
    /// What the script was while it named no file.
    on_path: OnceLock<Invocation>,
    compiled: Compiled,
}

impl ScriptRunner {
    fn resolved(&self) -> Result<Resolved, Unavailable> {
        if names_a_file(&self.script, &self.places) {
            return resolve(&self.script, &self.places);
        }
        if let Some(invocation) = self.on_path.get() {
            return Ok(Resolved::Process(invocation.clone()));
        }
        let resolved = resolve(&self.script, &self.places)?;
        if let Resolved::Process(invocation) = &resolved {
            let _it_was_empty = self.on_path.set(invocation.clone());
        }
        Ok(resolved)
    }
}

/// Is there a file that `script` or its first word may mean?
fn names_a_file(script: &str, places: &Places) -> bool {
    let script = script.trim();
    let words = [
        Some(script),
        script.split_whitespace().next().filter(|word| *word != script),
    ];
    let quoted = script.contains(['"', '\'', '\\']);
    quoted || words.into_iter().flatten().any(|name| places.find(name).is_some())
}

impl Runner for ScriptRunner {
    fn execute(&self, execution: Execution) -> BoxFuture<'_, Observed> {
        Box::pin(async move {
            match self.resolved() {
                Ok(Resolved::Rhai(path)) => {
                    let name = self.places.shown(&path);
                    rhai_script::run(&self.compiled, &path, &name, execution).await
                }
                Ok(Resolved::Process(invocation)) => {
                    process::run(&invocation, &self.places.project_root, &self.bounds, &execution).await
                }
                Err(unavailable) => Observed::failure(FailureKind::Unavailable, unavailable.to_string()),
            }
        })
    }
}

/// Finds what `script` names: a file, or else a command line.
///
/// A file is sought in the ensemble file's folder, the project root and its `scripts/`, in this order. A
/// command line may begin with such a file; its other words are the program's own affair.
pub fn resolve(script: &str, places: &Places) -> Result<Resolved, Unavailable> {
    let script = script.trim();
    if script.is_empty() {
        return Err(unavailable("`script` is blank", "name a file or write a command line"));
    }
    if let Some(found) = file(script, Vec::new(), places) {
        return found;
    }
    if needs_shell(script, places) {
        return interpreted("sh", vec!["-c".into(), script.into()], script, places);
    }
    let mut words = shlex::split(script).unwrap_or_default().into_iter();
    match words.next() {
        Some(program) => command(&program, words.map(OsString::from).collect(), places),
        None => Err(unavailable(
            format!("`{script}` is no command line: a quote or a backslash is left open"),
            "close it",
        )),
    }
}

/// A command line whose first word is a file or a program on PATH.
fn command(program: &str, arguments: Vec<OsString>, places: &Places) -> Result<Resolved, Unavailable> {
    match file(program, arguments.clone(), places) {
        Some(found) => found,
        None if !is_path(program) && on_path(program, places) => Ok(process(program, arguments)),
        None => Err(missing(program, places)),
    }
}

/// The file of that name, if there is one that is meant: one that cannot be run does not hide a program on PATH.
fn file(name: &str, arguments: Vec<OsString>, places: &Places) -> Option<Result<Resolved, Unavailable>> {
    let launched = launch(&places.find(name)?, arguments, places);
    let is_meant = launched.is_ok() || is_path(name) || !on_path(name, places);
    is_meant.then_some(launched)
}

/// Does it name a file, and never a program on PATH?
fn is_path(name: &str) -> bool {
    name.contains('/') || Kind::of(Path::new(name)) != Kind::Program
}

/// How a file is run, as its name and its run bit say.
fn launch(file: &Path, arguments: Vec<OsString>, places: &Places) -> Result<Resolved, Unavailable> {
    let shown = places.shown(file);
    let with_file = |interpreter| {
        let words = std::iter::once(file.as_os_str().to_owned()).chain(arguments.iter().cloned());
        interpreted(interpreter, words.collect(), &shown, places)
    };
    match Kind::of(file) {
        Kind::Rhai if arguments.is_empty() => Ok(Resolved::Rhai(file.to_owned())),
        Kind::Rhai => Err(unavailable(
            format!("the Rhai script `{shown}` is given arguments and can take none"),
            "hand them over in the agent's `config`; the script finds them in `parameters`",
        )),
        Kind::Python => with_file("python3"),
        Kind::Shell => with_file("sh"),
        Kind::JavaScript => with_file("node"),
        Kind::Program if is_executable(file) => Ok(process(file, arguments)),
        Kind::Program => Err(unavailable(
            format!("`{shown}` is not executable"),
            format!(
                "run `chmod +x {}`, or give it an extension that says how to run it (.rhai, .sh, .py, .js)",
                file.display()
            ),
        )),
    }
}

fn interpreted(
    interpreter: &str,
    arguments: Vec<OsString>,
    script: &str,
    places: &Places,
) -> Result<Resolved, Unavailable> {
    if on_path(interpreter, places) {
        return Ok(process(interpreter, arguments));
    }
    Err(unavailable(
        format!("{interpreter} is not installed or not on PATH, and `{script}` needs it"),
        format!("install {interpreter}, or write the script in Rhai, which needs nothing installed"),
    ))
}

fn process(program: impl Into<PathBuf>, arguments: Vec<OsString>) -> Resolved {
    Resolved::Process(Invocation {
        program: program.into(),
        arguments,
    })
}

fn missing(program: &str, places: &Places) -> Unavailable {
    let candidates = places.candidates(program);
    let mut looked: Vec<String> = candidates.iter().map(|path| format!("`{}`", path.display())).collect();
    if let Some(folder) = candidates.iter().find(|path| path.is_dir()) {
        return unavailable(format!("`{}` is a folder", folder.display()), "name a file in it");
    }
    if is_path(program) {
        return unavailable(
            format!("there is no file `{program}`: looked for {}", looked.join(", ")),
            "create it at one of these places, or correct the path",
        );
    }
    looked.push("every folder of PATH".to_owned());
    unavailable(
        format!(
            "`{program}` is neither a file nor a command: looked for {}",
            looked.join(", ")
        ),
        "correct the name, install the program, or put a script at one of these places",
    )
}

fn unavailable(message: impl Into<String>, help: impl Into<String>) -> Unavailable {
    Unavailable {
        message: message.into(),
        help: help.into(),
    }
}

fn needs_shell(script: &str, places: &Places) -> bool {
    let first = script.split_whitespace().next().unwrap_or_default();
    script.contains(|character| SHELL_SYNTAX.contains(character))
        || assigns_a_variable(script)
        || SHELL_WORDS.contains(&first) && places.find(first).is_none()
}

/// Does it begin like `NAME=value`?
fn assigns_a_variable(script: &str) -> bool {
    script.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name
                .chars()
                .all(|character| character.is_ascii_alphanumeric() || character == '_')
    })
}

/// What a file's extension says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rhai,
    Python,
    Shell,
    JavaScript,
    /// Nothing; its run bit decides.
    Program,
}

impl Kind {
    fn of(file: &Path) -> Self {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("rhai") => Self::Rhai,
            Some("py") => Self::Python,
            Some("sh") => Self::Shell,
            Some("js") => Self::JavaScript,
            _ => Self::Program,
        }
    }
}

impl Places {
    /// The first file of that name.
    fn find(&self, name: &str) -> Option<PathBuf> {
        self.candidates(name).into_iter().find(|path| path.is_file())
    }

    /// Every place where a file of that name may be, absolute, since scripts run elsewhere than we do.
    fn candidates(&self, name: &str) -> Vec<PathBuf> {
        let scripts = self.project_root.join("scripts");
        let mut found: Vec<PathBuf> = Vec::new();
        for folder in [&self.ensemble_dir, &self.project_root, &scripts] {
            let path = folder.join(name);
            let path = std::path::absolute(&path).unwrap_or(path);
            if !found.contains(&path) {
                found.push(path);
            }
        }
        found
    }

    /// The file as messages call it: seen from the project root where it lies below it.
    fn shown(&self, file: &Path) -> String {
        let root = std::path::absolute(&self.project_root).unwrap_or_default();
        file.strip_prefix(root).unwrap_or(file).display().to_string()
    }
}

fn on_path(program: &str, places: &Places) -> bool {
    let path = env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    env::split_paths(&path).any(|folder| is_executable(&places.project_root.join(folder).join(program)))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use serde_json::{Value, json};
    use tempfile::TempDir;

    use super::*;
    use crate::agent::process::DEFAULT_OUTPUT_CAP;
    use crate::agent::process::tests::{an_execution, unwatched};
    use crate::data::Failure;

    /// A project with the ensemble file in a folder of its own.
    struct Project(TempDir);

    impl Project {
        fn new() -> Self {
            let folder = TempDir::new().expect("a folder");
            for name in ["ensembles", "scripts"] {
                fs::create_dir(folder.path().join(name)).expect("created");
            }
            Self(folder)
        }

        fn places(&self) -> Places {
            Places {
                ensemble_dir: self.path("ensembles"),
                project_root: self.0.path().to_owned(),
            }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn write(&self, name: &str, text: &str, mode: u32) -> PathBuf {
            let path = self.path(name);
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("permitted");
            path
        }

        fn resolved(&self, script: &str) -> Resolved {
            resolve(script, &self.places()).unwrap_or_else(|error| panic!("{script}: {error}"))
        }

        fn unavailable(&self, script: &str) -> Unavailable {
            resolve(script, &self.places()).expect_err(script)
        }

        async fn perform(&self, script: &str) -> Result<Value, Failure> {
            let runner = runner(script, &self.places(), unwatched(DEFAULT_OUTPUT_CAP));
            match runner.execute(an_execution()).await {
                Observed::Finished(observation) => observation.result.map(Value::Object),
                other => panic!("{other:?}"),
            }
        }
    }

    fn invocation(program: impl Into<PathBuf>, arguments: &[&str]) -> Resolved {
        process(program, arguments.iter().map(OsString::from).collect())
    }

    fn shell(line: &str) -> Resolved {
        invocation("sh", &["-c", line])
    }

    #[test]
    fn a_script_is_sought_beside_the_ensemble_then_in_the_root_then_in_scripts() {
        let project = Project::new();
        for folder in ["scripts/", "", "ensembles/"] {
            let path = project.write(&format!("{folder}a.rhai"), "1", 0o644);
            assert_eq!(project.resolved("a.rhai"), Resolved::Rhai(path));
        }
        let other = TempDir::new().expect("a folder");
        let absolute = other.path().join("b.rhai");
        fs::write(&absolute, "1").expect("written");
        assert_eq!(project.resolved(&absolute.to_string_lossy()), Resolved::Rhai(absolute));
    }

    #[test]
    fn the_extension_says_how_a_file_is_run() {
        let project = Project::new();
        let shell_script = project.write("scripts/a.sh", "#!/bin/false\n", 0o755);
        let program = project.write("scripts/tool", "#!/bin/sh\n", 0o755);
        let named = project.write("scripts/my tool (1).sh", "", 0o644);
        assert_eq!(
            project.resolved("a.sh"),
            invocation("sh", &[&shell_script.to_string_lossy()])
        );
        assert_eq!(project.resolved("scripts/a.sh -v 'x y'"), {
            invocation("sh", &[&shell_script.to_string_lossy(), "-v", "x y"])
        });
        assert_eq!(project.resolved("tool"), invocation(&program, &[]));
        assert_eq!(project.resolved(" tool  --x\n"), invocation(&program, &["--x"]));
        assert_eq!(
            project.resolved("my tool (1).sh"),
            invocation("sh", &[&named.to_string_lossy()])
        );
        assert_eq!(Kind::of(Path::new("a/b.py")), Kind::Python);
        assert_eq!(Kind::of(Path::new("a/b.js")), Kind::JavaScript);
        assert_eq!(Kind::of(Path::new("a.py/b")), Kind::Program);
    }

    #[test]
    fn an_interpreter_that_is_not_installed_is_named() {
        let places = Project::new().places();
        let unavailable = interpreted("no-such-python", Vec::new(), "a.py", &places).expect_err("unavailable");
        assert_eq!(
            unavailable.to_string(),
            "no-such-python is not installed or not on PATH, and `a.py` needs it; \
             install no-such-python, or write the script in Rhai, which needs nothing installed"
        );
    }

    #[test]
    fn a_command_line_is_run_without_a_shell_where_none_is_needed() {
        let project = Project::new();
        assert_eq!(project.resolved("true"), invocation("true", &[]));
        assert_eq!(
            project.resolved("head -n 1 'a b' \"c\""),
            invocation("head", &["-n", "1", "a b", "c"])
        );
        assert_eq!(project.resolved("head --lines=1"), invocation("head", &["--lines=1"]));
    }

    #[test]
    fn a_shell_runs_what_only_a_shell_understands() {
        let project = Project::new();
        for line in [
            "cat | head",
            "true && false",
            "a; b",
            "cat < in > out",
            "echo $HOME",
            "echo `date`",
            "ls *.txt",
            "ls ?",
            "(true)",
            "ls ~",
            "true # comment",
            "true\nfalse",
            "NAME=value env",
            "_N1= env",
            "exit 3",
            "! true",
        ] {
            assert_eq!(project.resolved(line), shell(line));
        }
        assert_eq!(project.resolved("cat | head\n"), shell("cat | head"));
    }

    #[test]
    fn a_file_comes_before_a_command_unless_it_cannot_be_run() {
        let project = Project::new();
        project.write("true", "no program", 0o644);
        assert_eq!(project.resolved("true"), invocation("true", &[]));
        assert_eq!(project.resolved("true --x"), invocation("true", &["--x"]));
        let own = project.write("scripts/true", "#!/bin/sh\n", 0o755);
        fs::remove_file(project.path("true")).expect("removed");
        assert_eq!(project.resolved("true --x"), invocation(&own, &["--x"]));
        let exit = project.write("scripts/exit", "#!/bin/sh\n", 0o755);
        assert_eq!(project.resolved("exit 3"), invocation(&exit, &["3"]));
    }

    #[test]
    fn what_is_missing_is_told_with_every_place() {
        let project = Project::new();
        for script in ["gone.rhai", "gone.sh --x", "./gone", "sub/gone -v"] {
            let unavailable = project.unavailable(script);
            let name = script.split(' ').next().unwrap_or_default().trim_start_matches("./");
            assert!(unavailable.message.starts_with("there is no file"), "{unavailable}");
            for place in ["ensembles/", "", "scripts/"] {
                let path = project.path(&format!("{place}{name}"));
                assert!(
                    unavailable.message.contains(&format!("`{}`", path.display())),
                    "{unavailable}"
                );
            }
            assert!(!unavailable.message.contains("PATH"), "{unavailable}");
        }
        let unavailable = project.unavailable("no-such-command-anywhere --x");
        assert!(
            unavailable.message.contains("neither a file nor a command"),
            "{unavailable}"
        );
        assert!(
            unavailable.message.contains("scripts/no-such-command-anywhere`"),
            "{unavailable}"
        );
        assert!(unavailable.message.contains("PATH"), "{unavailable}");
    }

    #[test]
    fn what_cannot_be_run_says_what_to_do() {
        let project = Project::new();
        project.write("scripts/tool.rb", "", 0o644);
        project.write("scripts/a tool", "", 0o644);
        project.write("scripts/a.rhai", "", 0o644);
        for (script, message, help) in [
            ("tool.rb", "`scripts/tool.rb` is not executable", "chmod +x"),
            ("tool.rb --x", "`scripts/tool.rb` is not executable", "chmod +x"),
            ("a tool", "`scripts/a tool` is not executable", "chmod +x"),
            ("a.rhai --x", "can take none", "`config`"),
            ("./scripts", "is a folder", "file in it"),
            (" \n", "blank", "name a file"),
            ("echo 'open", "left open", "close"),
        ] {
            let unavailable = project.unavailable(script);
            assert!(unavailable.message.contains(message), "{script}: {unavailable}");
            assert!(unavailable.help.contains(help), "{script}: {unavailable}");
        }
    }

    #[tokio::test]
    async fn command_lines_run_with_and_without_a_shell() {
        let project = Project::new();
        assert_eq!(project.perform("echo 'a  b'").await, Ok(json!({"response": "a  b"})));
        assert_eq!(project.perform("echo a | tr a b").await, Ok(json!({"response": "b"})));
        assert_eq!(project.perform("X=7 sh -c 'echo $X'").await, Ok(json!({"response": 7})));
        let failure = project.perform("exit 3").await.expect_err("a failure");
        assert_eq!(failure.kind, FailureKind::Exit);
        let failure = project
            .perform("no-such-command-anywhere")
            .await
            .expect_err("a failure");
        assert_eq!(failure.kind, FailureKind::Unavailable);
    }

    #[tokio::test]
    async fn scripts_run_in_the_project_root() {
        let project = Project::new();
        project.write("ensembles/where.sh", "pwd", 0o644);
        let root = project.0.path().canonicalize().expect("a folder");
        assert_eq!(
            project.perform("where.sh").await,
            Ok(json!({"response": root.to_string_lossy()}))
        );
    }

    #[tokio::test]
    async fn a_script_may_be_written_after_its_runner_was_made() {
        let project = Project::new();
        let runner = runner("late.sh", &project.places(), unwatched(DEFAULT_OUTPUT_CAP));
        let output = async || match runner.execute(an_execution()).await {
            Observed::Finished(observation) => observation.result.map(Value::Object),
            other => panic!("{other:?}"),
        };
        assert_eq!(output().await.expect_err("a failure").kind, FailureKind::Unavailable);
        project.write("scripts/late.sh", "echo here", 0o644);
        assert_eq!(output().await, Ok(json!({"response": "here"})));
    }

    #[tokio::test]
    async fn a_script_that_is_written_later_comes_before_the_program_on_path() {
        let project = Project::new();
        let runner = runner("true --x", &project.places(), unwatched(DEFAULT_OUTPUT_CAP));
        let output = async || match runner.execute(an_execution()).await {
            Observed::Finished(observation) => observation.result.map(Value::Object),
            other => panic!("{other:?}"),
        };
        assert_eq!(output().await, Ok(json!({"response": ""})));
        assert_eq!(output().await, Ok(json!({"response": ""})));
        let own = project.write("scripts/true", "#!/bin/sh\necho mine $1", 0o755);
        assert_eq!(output().await, Ok(json!({"response": "mine --x"})));
        fs::remove_file(own).expect("removed");
        assert_eq!(output().await, Ok(json!({"response": ""})));
    }

    #[tokio::test]
    async fn the_cap_reaches_the_process() {
        let project = Project::new();
        let runner = runner("echo 12345", &project.places(), unwatched(5));
        let Observed::Finished(observation) = runner.execute(an_execution()).await else {
            panic!("it asks nobody");
        };
        assert_eq!(
            observation.result.expect_err("a failure").kind,
            FailureKind::OutputTooLarge
        );
    }

    #[tokio::test]
    async fn a_rhai_script_runs_inside_the_process() {
        let project = Project::new();
        project.write("scripts/a.rhai", "()", 0o644);
        assert_eq!(project.perform("a.rhai").await, Ok(json!({"response": null})));
    }
}
