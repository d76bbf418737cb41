//! The program that a `script:` or a command line names: a file of the project, or a program on PATH.
//!
//! Runs and checks use the same search, so that both agree. Nothing is started here.

#![expect(
    clippy::disallowed_methods,
    reason = "programs are sought on PATH as the system would"
)]

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::ProgramInvocation;
use ensemble_language::ensemble::AcpProgram;

/// Characters that need a shell.
const SHELL_SYNTAX: &str = "|&;<>$`*?()~#\n";

/// Words that a shell knows, and that need not exist as programs.
const SHELL_BUILTINS: [&str; 19] = [
    "!", ":", "alias", "cd", "command", "eval", "exec", "exit", "export", "read", "readonly", "return", "set", "trap",
    "type", "ulimit", "umask", "unset", "wait",
];

/// Words that start a compound command of the shell language.
const SHELL_KEYWORDS: [&str; 13] = [
    "if", "for", "while", "until", "case", "{", "[", "[[", ".", "source", "test", "true", "false",
];

/// The search path for programs if PATH is not set.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Folders in which scripts are searched and run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ScriptFolders {
    /// The folder of the ensemble file.
    pub ensemble_dir: PathBuf,
    /// The project root, in which scripts run.
    pub project_root: PathBuf,
}

/// Resolved value of `script`: a Rhai file or a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResolvedScript {
    /// A Rhai script, run inside the process.
    Rhai(PathBuf),
    /// A child process.
    Process(ProgramInvocation),
}

/// Error that prevents running a `script`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptLookupError {
    /// The reason.
    pub message: String,
    /// A suggestion for the user.
    pub help: String,
    /// Whether the text names a file by its path or its extension, and there is no such file.
    pub is_missing_file: bool,
}

impl ScriptLookupError {
    /// Creates the error of a missing file.
    pub fn for_missing_file(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            is_missing_file: true,
            ..other_lookup_error(message, help)
        }
    }
}

impl fmt::Display for ScriptLookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.help)
    }
}

impl std::error::Error for ScriptLookupError {}

/// Lists the paths at which the Rhai script of this name is searched, each with its name in messages. Returns nothing if the name
/// is not that of a Rhai script.
pub fn list_rhai_candidates(script: &str, places: &ScriptFolders) -> Vec<(PathBuf, String)> {
    let name = script.trim();
    if ScriptKind::from_extension(Path::new(name)) != ScriptKind::Rhai {
        return Vec::new();
    }
    let with_name = |path: PathBuf| {
        let shown_path = places.display_path(&path);
        (path, shown_path)
    };
    places.list_candidate_paths(name).into_iter().map(with_name).collect()
}

/// Returns whether there is a file that `script` or its first word can mean.
pub fn matches_existing_file(script: &str, places: &ScriptFolders) -> bool {
    let script = script.trim();
    let words = [
        Some(script),
        script.split_whitespace().next().filter(|word| *word != script),
    ];
    let quoted = script.contains(['"', '\'', '\\']);
    quoted || words.into_iter().flatten().any(|name| places.find_file(name).is_some())
}

/// Resolves a `script`: a file, or else a command line.
///
/// Files are searched in the folder of the ensemble, the project root and its `scripts/`, in this order. A command line can start with such
/// a file.
///
/// A file is sought in the ensemble file's folder, the project root and its `scripts/`, in this order. A
/// command line may begin with such a file; its other words are the program's own affair.
pub fn resolve_script(script: &str, places: &ScriptFolders) -> Result<ResolvedScript, ScriptLookupError> {
    let script = script.trim();
    if script.is_empty() {
        return Err(other_lookup_error(
            "`script` is blank",
            "name a file or write a command line",
        ));
    }
    if let Some(resolution) = resolve_script_file(script, Vec::new(), places) {
        return resolution;
    }
    if needs_shell(script, places) {
        return resolve_interpreted_script("sh", vec!["-c".into(), script.into()], script, places);
    }
    let mut words = shlex::split(script).unwrap_or_default().into_iter();
    match words.next() {
        Some(program) => resolve_command(&program, words.map(OsString::from).collect(), places),
        None => Err(other_lookup_error(
            format!("`{script}` is no command line: a quote or a backslash is left open"),
            "close it",
        )),
    }
}

/// Resolves a `script` that has separate `args`. A line whose special characters are all quoted needs no shell.
///
/// # Errors
/// As [`resolve_script`]. A shell reads the line, and the line does not use its arguments.
pub fn resolve_script_for_args(script: &str, places: &ScriptFolders) -> Result<ResolvedScript, ScriptLookupError> {
    let script = script.trim();
    if script.is_empty() || places.find_file(script).is_some() || !needs_shell(script, places) {
        return resolve_script(script, places);
    }
    let is_plain = !starts_with_assignment(script)
        && !SHELL_BUILTINS.contains(&script.split_whitespace().next().unwrap_or_default())
        && !has_unquoted_shell_syntax(script);
    if is_plain && let Some([program, arguments @ ..]) = shlex::split(script).as_deref() {
        return resolve_command(program, arguments.iter().map(OsString::from).collect(), places);
    }
    if let Some(error) = unused_arguments_error(script) {
        return Err(error);
    }
    // The name of the command, `$0`, comes before its arguments.
    resolve_interpreted_script("sh", vec!["-c".into(), script.into(), "sh".into()], script, places)
}

/// Returns the error of a line that a shell reads and that does not use its arguments.
pub fn find_unused_arguments_error(script: &str, places: &ScriptFolders) -> Option<ScriptLookupError> {
    let error = unused_arguments_error(script.trim())?;
    let resolved = resolve_script_for_args(script, places);
    (resolved.err().as_ref() == Some(&error)).then_some(error)
}

/// Returns an error unless the shell line uses its positional arguments.
fn unused_arguments_error(script: &str) -> Option<ScriptLookupError> {
    let is_argument = |(at, _): (usize, &str)| {
        let next = script[at + 1..].trim_start_matches('{').chars().next();
        next.is_some_and(|c| "@*#".contains(c) || c.is_ascii_digit() && c != '0')
    };
    let uses_arguments =
        script.match_indices('$').any(is_argument) || script.split_whitespace().any(|word| word == "shift");
    (!uses_arguments).then(|| {
        other_lookup_error(
            format!("a shell reads `{script}`, which does not use its `args`"),
            r#"write `"$@"` where the arguments belong, or `"$1"` for the first one"#,
        )
    })
}

/// Returns whether a character that only a shell understands is outside of quotes.
fn has_unquoted_shell_syntax(script: &str) -> bool {
    let mut quote = None;
    let mut is_escaped = false;
    for character in script.chars() {
        let was_escaped = std::mem::replace(&mut is_escaped, false);
        match (quote, character) {
            _ if was_escaped => {}
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => is_escaped = true,
            (Some(_), '$' | '`') => return true,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, _) if SHELL_SYNTAX.contains(character) => return true,
            (None, _) => {}
        }
    }
    false
}

/// Returns the script files that `script` names: the file that is run, and further words that are files with the extension
/// of a script. A program on PATH is none of them.
pub fn find_script_files(script: &str, places: &ScriptFolders) -> Vec<PathBuf> {
    let script = script.trim();
    if let Some(file) = places.find_file(script) {
        return vec![file];
    }
    let words = shlex::split(script).filter(|_| !needs_shell(script, places));
    let words = words.unwrap_or_else(|| {
        let is_shell = |character: char| character.is_whitespace() || "|&;<>()\"'`".contains(character);
        script.split(is_shell).map(str::to_owned).collect()
    });
    find_script_files_in_words(&words, places)
}

/// Returns the script files among the words of a command line, as [`find_script_files`] does.
pub fn find_script_files_in_words(words: &[String], places: &ScriptFolders) -> Vec<PathBuf> {
    let Some((program, arguments)) = words.split_first() else {
        return Vec::new();
    };
    let is_script = |path: &PathBuf| ScriptKind::from_extension(path) != ScriptKind::Program && path.is_file();
    let program = places.find_file(program).into_iter();
    let arguments = arguments.iter().map(|word| places.project_root.join(word));
    let mut files: Vec<PathBuf> = Vec::new();
    for file in program.chain(arguments.filter(is_script)) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

/// Returns whether `script` must be a file, rather than a program on `PATH` or a shell line.
pub fn can_only_be_file(script: &str) -> bool {
    let first = script.split_whitespace().next().unwrap_or_default();
    is_file_path(first) && !script.contains(|character| SHELL_SYNTAX.contains(character))
}

/// Resolves the program that this `script` needs, including the first word of a shell line.
///
/// Ignores words after an assignment, and words that a shell expands or knows.
///
/// # Errors
/// As [`resolve_script`]. There is no such program.
pub fn resolve_needed_program(script: &str, places: &ScriptFolders) -> Result<ResolvedScript, ScriptLookupError> {
    let resolved = resolve_script(script, places)?;
    let script = script.trim();
    if places.find_file(script).is_some() || !needs_shell(script, places) || starts_with_assignment(script) {
        return Ok(resolved);
    }
    let first = script.split_whitespace().next().unwrap_or_default();
    let end = first.find(|c| "|&;<>".contains(c)).unwrap_or(first.len());
    let program = first[..end].trim_matches(['"', '\'']);
    let is_shell_word = SHELL_BUILTINS.contains(&program) || SHELL_KEYWORDS.contains(&program);
    let is_plain = !program.is_empty() && !program.contains(['$', '`', '*', '?', '(', ')', '~', '#', '\'', '"', '\\']);
    if is_shell_word || !is_plain {
        return Ok(resolved);
    }
    // A shell runs in the project root, and looks for a path from there.
    let is_there = match program.contains('/') {
        true => places.project_root.join(program).exists(),
        false => exists_on_path(program, places),
    };
    match is_there {
        true => Ok(resolved),
        false => Err(missing_command_error(program, places)),
    }
}

/// Creates the error of a missing command in a shell line.
fn missing_command_error(program: &str, places: &ScriptFolders) -> ScriptLookupError {
    match program.contains('/') {
        true => ScriptLookupError::for_missing_file(
            format!("there is no file `{program}` in the folder of the command line"),
            format!(
                "write the path relative to the project root, `{}`",
                places.project_root.display()
            ),
        ),
        false => other_lookup_error(
            format!("`{program}` is not a command: looked for it in every folder of PATH"),
            "correct the name, or install the program",
        ),
    }
}

/// Finds the program of a command line that is already split into words.
pub fn resolve_command_words(words: &[String], places: &ScriptFolders) -> Result<ResolvedScript, ScriptLookupError> {
    match words {
        [program, arguments @ ..] if !program.trim().is_empty() => {
            resolve_command(program, arguments.iter().map(OsString::from).collect(), places)
        }
        _ => Err(other_lookup_error(
            "the command names no program",
            "write the program first, then its arguments",
        )),
    }
}

/// Resolves the program of an external agent.
///
/// # Errors
/// The program is not there, or cannot be an external agent.
pub fn resolve_external_program(
    program: &AcpProgram,
    places: &ScriptFolders,
) -> Result<ProgramInvocation, ScriptLookupError> {
    let words: Vec<String> = match program {
        AcpProgram::Known(known) => {
            let args = known.args.iter().map(|word| (*word).to_owned());
            std::iter::once(known.command.to_owned()).chain(args).collect()
        }
        AcpProgram::Command { command, args, .. } => std::iter::once(command.clone()).chain(args.clone()).collect(),
    };
    match (resolve_command_words(&words, places), program) {
        (Ok(ResolvedScript::Process(invocation)), _) => Ok(invocation),
        (Ok(ResolvedScript::Rhai(path)), _) => Err(ScriptLookupError {
            message: format!(
                "`{}` is a Rhai script, which cannot be an external agent",
                path.display()
            ),
            help: "name a program that speaks the Agent Client Protocol".to_owned(),
            is_missing_file: false,
        }),
        (Err(_), AcpProgram::Known(known)) => Err(ScriptLookupError {
            message: format!(
                "`{}` is not installed or not on PATH, and `acp: {}` needs it",
                known.command, known.name
            ),
            help: format!("install it with `{}`, or write `acp: simulated`", known.install),
            is_missing_file: false,
        }),
        (Err(error), AcpProgram::Command { .. }) => Err(error),
    }
}

/// Resolves a command whose first word is a file or a program on `PATH`.
fn resolve_command(
    program: &str,
    arguments: Vec<OsString>,
    places: &ScriptFolders,
) -> Result<ResolvedScript, ScriptLookupError> {
    match resolve_script_file(program, arguments.clone(), places) {
        Some(resolution) => resolution,
        None if !is_file_path(program) && exists_on_path(program, places) => Ok(resolved_process(program, arguments)),
        None => Err(missing_script_error(program, places)),
    }
}

/// Returns the file of that name, if there is one that is meant: one that cannot be run does not hide a program on
/// PATH.
fn resolve_script_file(
    name: &str,
    arguments: Vec<OsString>,
    places: &ScriptFolders,
) -> Option<Result<ResolvedScript, ScriptLookupError>> {
    let launched = resolve_file_launch(&places.find_file(name)?, arguments, places);
    let is_meant = launched.is_ok() || is_file_path(name) || !exists_on_path(name, places);
    is_meant.then_some(launched)
}

/// Returns whether the name means a file, and never a program on `PATH`.
fn is_file_path(name: &str) -> bool {
    name.contains('/') || ScriptKind::from_extension(Path::new(name)) != ScriptKind::Program
}

/// Resolves how to run a file, by its extension and its executable bit.
fn resolve_file_launch(
    file: &Path,
    arguments: Vec<OsString>,
    places: &ScriptFolders,
) -> Result<ResolvedScript, ScriptLookupError> {
    let shown_path = places.display_path(file);
    let with_file = |interpreter| {
        let words = std::iter::once(file.as_os_str().to_owned()).chain(arguments.iter().cloned());
        resolve_interpreted_script(interpreter, words.collect(), &shown_path, places)
    };
    match ScriptKind::from_extension(file) {
        ScriptKind::Rhai if arguments.is_empty() => Ok(ResolvedScript::Rhai(file.to_owned())),
        ScriptKind::Rhai => Err(other_lookup_error(
            format!("the Rhai script `{shown_path}` is given arguments and can take none"),
            "hand them over in the agent's `config`; the script finds them in `parameters`",
        )),
        ScriptKind::Python => with_file("python3"),
        ScriptKind::Shell => with_file("sh"),
        ScriptKind::JavaScript => with_file("node"),
        ScriptKind::Program if is_executable(file) => Ok(resolved_process(file, arguments)),
        ScriptKind::Program => Err(other_lookup_error(
            format!("`{shown_path}` is not executable"),
            format!(
                "run `chmod +x {}`, or give it an extension that says how to run it (.rhai, .sh, .py, .js)",
                file.display()
            ),
        )),
    }
}

/// Resolves a script that needs an interpreter on `PATH`.
fn resolve_interpreted_script(
    interpreter: &str,
    arguments: Vec<OsString>,
    script: &str,
    places: &ScriptFolders,
) -> Result<ResolvedScript, ScriptLookupError> {
    if exists_on_path(interpreter, places) {
        return Ok(resolved_process(interpreter, arguments));
    }
    Err(other_lookup_error(
        format!("{interpreter} is not installed or not on PATH, and `{script}` needs it"),
        format!("install {interpreter}, or write the script in Rhai, which needs nothing installed"),
    ))
}

/// Creates a resolved process.
fn resolved_process(program: impl Into<PathBuf>, arguments: Vec<OsString>) -> ResolvedScript {
    ResolvedScript::Process(ProgramInvocation {
        program: program.into(),
        arguments,
    })
}

fn missing_script_error(program: &str, places: &ScriptFolders) -> ScriptLookupError {
    let candidates = places.list_candidate_paths(program);
    let mut searched_places: Vec<String> = candidates.iter().map(|path| format!("`{}`", path.display())).collect();
    if let Some(folder) = candidates.iter().find(|path| path.is_dir()) {
        let message = format!("`{}` is a folder", folder.display());
        return ScriptLookupError {
            is_missing_file: is_file_path(program),
            ..other_lookup_error(message, "name a file in it")
        };
    }
    if let Some(special) = candidates.iter().find(|path| path.exists() && !path.is_file()) {
        let message = format!("`{}` is a pipe, a socket or a device, not a file", special.display());
        return ScriptLookupError {
            is_missing_file: is_file_path(program),
            ..other_lookup_error(message, "name a file that contains the program")
        };
    }
    if is_file_path(program) {
        return ScriptLookupError::for_missing_file(
            format!(
                "there is no file `{program}`: looked for {}",
                searched_places.join(", ")
            ),
            "create it at one of these places, or correct the path",
        );
    }
    searched_places.push("every folder of PATH".to_owned());
    other_lookup_error(
        format!(
            "`{program}` is neither a file nor a command: looked for {}",
            searched_places.join(", ")
        ),
        "correct the name, install the program, or put a script at one of these places",
    )
}

/// Creates an error that does not concern a missing file.
fn other_lookup_error(message: impl Into<String>, help: impl Into<String>) -> ScriptLookupError {
    ScriptLookupError {
        message: message.into(),
        help: help.into(),
        is_missing_file: false,
    }
}

/// Returns whether the line needs a shell: special characters, an assignment, or a builtin.
fn needs_shell(script: &str, places: &ScriptFolders) -> bool {
    let first = script.split_whitespace().next().unwrap_or_default();
    script.contains(|character| SHELL_SYNTAX.contains(character))
        || starts_with_assignment(script)
        || SHELL_BUILTINS.contains(&first) && places.find_file(first).is_none()
}

/// Does it begin like `NAME=value`?
fn starts_with_assignment(script: &str) -> bool {
    script.split_once('=').is_some_and(|(name, _)| {
        name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name
                .chars()
                .all(|character| character.is_ascii_alphanumeric() || character == '_')
    })
}

/// Kind of a script, by the extension of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScriptKind {
    Rhai,
    Python,
    Shell,
    JavaScript,
    /// Nothing; its run bit decides.
    Program,
}

impl ScriptKind {
    /// Determines the kind by the extension of the file.
    fn from_extension(file: &Path) -> Self {
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("rhai") => Self::Rhai,
            Some("py") => Self::Python,
            Some("sh") => Self::Shell,
            Some("js") => Self::JavaScript,
            _ => Self::Program,
        }
    }
}

impl ScriptFolders {
    /// Finds the first file with this name: in the folder of the ensemble, the project root, or its `scripts` folder.
    pub fn find_file(&self, name: &str) -> Option<PathBuf> {
        self.list_candidate_paths(name).into_iter().find(|path| path.is_file())
    }

    /// Every place where a file of that name may be, absolute, since scripts run elsewhere than we do.
    fn list_candidate_paths(&self, name: &str) -> Vec<PathBuf> {
        let scripts = self.project_root.join("scripts");
        let mut candidates: Vec<PathBuf> = Vec::new();
        for folder in [&self.ensemble_dir, &self.project_root, &scripts] {
            let path = folder.join(name);
            let path = std::path::absolute(&path).unwrap_or(path);
            if !candidates.contains(&path) {
                candidates.push(path);
            }
        }
        candidates
    }

    /// Returns the file that an attachment names; paths that are not absolute begin at the folder of the ensemble.
    pub fn attachment_path(&self, path: &str) -> PathBuf {
        self.ensemble_dir.join(path)
    }

    /// Returns the path for messages: relative to the project root if the file is below it.
    pub fn display_path(&self, file: &Path) -> String {
        let root = std::path::absolute(&self.project_root).unwrap_or_default();
        file.strip_prefix(root).unwrap_or(file).display().to_string()
    }
}

/// Returns whether the program is on `PATH`.
pub fn is_on_path(program: &str, places: &ScriptFolders) -> bool {
    exists_on_path(program, places)
}

fn exists_on_path(program: &str, places: &ScriptFolders) -> bool {
    let path = env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    env::split_paths(&path).any(|folder| is_executable(&places.project_root.join(folder).join(program)))
}

/// Returns whether the path is a file with an executable bit.
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests;
