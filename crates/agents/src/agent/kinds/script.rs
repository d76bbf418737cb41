//! Script agents: finding the program that `script:` names, and running it.
//!
//! A script is searched for each execution, because an agent may write the script that a later agent runs. Only a
//! program on PATH is remembered, until there is a file of this name. `validate` uses the same search, so that both
//! agree.

#![expect(
    clippy::disallowed_methods,
    reason = "programs are sought on PATH as the system would"
)]

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::agent::kinds::rhai_script;
use crate::agent::kinds::rhai_script::Compiled;
use crate::agent::{AttemptOutcome, BoxFuture, Execution, Runner};
use ensemble_language::data::FailureKind;
use ensemble_process::{self, Bounds, Invocation};

/// Characters that only a shell understands.
const SHELL_SYNTAX: &str = "|&;<>$`*?()~#\n";

/// Words that a shell knows, and that need not exist as programs.
const SHELL_WORDS: [&str; 19] = [
    "!", ":", "alias", "cd", "command", "eval", "exec", "exit", "export", "read", "readonly", "return", "set", "trap",
    "type", "ulimit", "umask", "unset", "wait",
];

/// The search path for programs if PATH is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The folders in which scripts are searched and run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Places {
    /// The folder of the ensemble file.
    pub ensemble_dir: PathBuf,
    /// The project root, in which scripts run.
    pub project_root: PathBuf,
}

/// The resolved form of a `script:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolved {
    /// A Rhai script, run inside the process.
    Rhai(PathBuf),
    /// A child process.
    Process(Invocation),
}

/// An error that prevents running a `script:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// The reason.
    pub message: String,
    /// A suggestion for the user.
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
        inside: rhai_places(script, places),
        on_path: OnceLock::new(),
        compiled: Compiled::default(),
    })
}

struct ScriptRunner {
    script: String,
    places: Places,
    bounds: Bounds,
    /// Where it may lie and what it is called there, if its name says that it is a Rhai script.
    inside: Vec<(PathBuf, String)>,
    /// What the script was while it named no file.
    on_path: OnceLock<Invocation>,
    compiled: Compiled,
}

/// The places where the Rhai script of this name may lie, and what messages call it there.
fn rhai_places(script: &str, places: &Places) -> Vec<(PathBuf, String)> {
    let name = script.trim();
    if Kind::of(Path::new(name)) != Kind::Rhai {
        return Vec::new();
    }
    let with_name = |path: PathBuf| {
        let shown = places.shown(&path);
        (path, shown)
    };
    places.candidates(name).into_iter().map(with_name).collect()
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

/// Returns whether there is a file that `script` or its first word can mean.
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
    fn execute(&self, execution: Execution) -> BoxFuture<'_, AttemptOutcome> {
        Box::pin(async move {
            // The same answer as below, for one look at the file.
            if let Some(found) = rhai_script::find(&self.inside) {
                return rhai_script::run_found(&self.compiled, found, execution).await;
            }
            match self.resolved() {
                Ok(Resolved::Rhai(path)) => {
                    let name = self.places.shown(&path);
                    rhai_script::run(&self.compiled, &path, &name, execution).await
                }
                Ok(Resolved::Process(invocation)) => {
                    ensemble_process::run(&invocation, &self.places.project_root, &self.bounds, &execution).await
                }
                Err(unavailable) => AttemptOutcome::failure(FailureKind::Unavailable, unavailable.to_string()),
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

/// Returns the script files that `script` names: the file that is run, and further words that are files with the extension
/// of a script. A program on PATH is none of them.
pub fn find_files(script: &str, places: &Places) -> Vec<PathBuf> {
    let script = script.trim();
    if let Some(file) = places.find(script) {
        return vec![file];
    }
    let words = shlex::split(script).filter(|_| !needs_shell(script, places));
    let words = words.unwrap_or_else(|| {
        let is_shell = |character: char| character.is_whitespace() || "|&;<>()\"'`".contains(character);
        script.split(is_shell).map(str::to_owned).collect()
    });
    find_files_of_words(&words, places)
}

/// Returns the script files among the words of a command line, as [`find_files`] does.
pub fn find_files_of_words(words: &[String], places: &Places) -> Vec<PathBuf> {
    let Some((program, arguments)) = words.split_first() else {
        return Vec::new();
    };
    let is_script = |path: &PathBuf| Kind::of(path) != Kind::Program && path.is_file();
    let program = places.find(program).into_iter();
    let arguments = arguments.iter().map(|word| places.project_root.join(word));
    let mut files: Vec<PathBuf> = Vec::new();
    for file in program.chain(arguments.filter(is_script)) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

/// Returns whether `script` must be a file, and is no program on PATH.
pub fn must_be_file(script: &str) -> bool {
    let first = script.split_whitespace().next().unwrap_or_default();
    is_path(first) && !script.contains(|character| SHELL_SYNTAX.contains(character))
}

/// Finds the program of a command line that is already split into words.
pub fn resolve_words(words: &[String], places: &Places) -> Result<Resolved, Unavailable> {
    match words {
        [program, arguments @ ..] if !program.trim().is_empty() => {
            command(program, arguments.iter().map(OsString::from).collect(), places)
        }
        _ => Err(unavailable(
            "the command names no program",
            "write the program first, then its arguments",
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

/// Resolves how to run a file, by its name and its run bit.
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

/// The kind of a script, by the extension of its file.
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
    /// The first file of that name: in the folder of the ensemble file, the project root, or its `scripts` folder.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
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

/// Returns whether it is a program on PATH.
pub fn is_on_path(program: &str, places: &Places) -> bool {
    on_path(program, places)
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
mod tests;
