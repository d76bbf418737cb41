//! Checks of command lines: programs that cannot start, and missing scripts of interpreters.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

use ensemble_process::program::{ResolvedScript, ScriptFolders, ScriptLookupError, is_on_path};
use ensemble_scripts::regular_files;

/// Programs whose first argument is a script.
const INTERPRETERS: [&str; 12] = [
    "python3", "python", "sh", "bash", "dash", "zsh", "node", "ruby", "perl", "php", "lua", "Rscript",
];
/// File extensions of scripts. An argument without one of them might be something else.
const SCRIPT_EXTENSIONS: [&str; 13] = [
    "py", "sh", "bash", "zsh", "js", "mjs", "cjs", "rb", "pl", "php", "lua", "R", "r",
];
/// Options of interpreters that have no argument.
const INTERPRETER_FLAGS: [&str; 10] = ["-u", "-B", "-E", "-I", "-O", "-S", "-s", "-e", "-x", "-w"];

/// Returns the expected path and the name of the script that the command passes to an interpreter. Returns `None` if that is unknown.
pub(super) fn find_interpreted_script(resolved: &ResolvedScript, places: &ScriptFolders) -> Option<(PathBuf, String)> {
    let ResolvedScript::Process(invocation) = resolved else {
        return None;
    };
    let program = invocation.program.file_name().and_then(OsStr::to_str)?;
    if !INTERPRETERS.contains(&program) {
        return None;
    }
    let mut words = invocation.arguments.iter().map(|word| word.to_str());
    let script = words.find(|word| word.is_none_or(|word| !INTERPRETER_FLAGS.contains(&word)))??;
    let ending = Path::new(script).extension().and_then(OsStr::to_str)?;
    let is_script = !script.starts_with(['-', '~']) && SCRIPT_EXTENSIONS.contains(&ending);
    is_script.then(|| (places.project_root.join(script), script.to_owned()))
}

/// Checks that the command can start: its script exists, and an executable file is a program or names its interpreter.
pub(super) fn check_startable(
    resolved: ResolvedScript,
    places: &ScriptFolders,
) -> Result<ResolvedScript, ScriptLookupError> {
    if let Some((path, shown)) = find_interpreted_script(&resolved, places)
        && !path.exists()
    {
        return Err(ScriptLookupError {
            message: format!("there is no file `{shown}` in the folder of the command line"),
            help: format!(
                "write the path relative to the project root, `{}`",
                places.project_root.display()
            ),
            is_missing_file: false,
        });
    }
    let ResolvedScript::Process(invocation) = &resolved else {
        return Ok(resolved);
    };
    if !invocation.program.is_absolute() {
        return Ok(resolved);
    }
    let mut start = [0; 256];
    let read = regular_files::open_regular_file(&invocation.program).and_then(|mut file| file.read(&mut start));
    let Ok(length) = read else {
        // It may be run and not read.
        return Ok(resolved);
    };
    let start = String::from_utf8_lossy(&start[..length]);
    let shown_program = invocation.program.display();
    let Some(line) = start.strip_prefix("#!") else {
        let is_text = !start.is_empty() && start.chars().all(|c| c != '\0' && c != char::REPLACEMENT_CHARACTER);
        return if is_text || start.is_empty() {
            Err(ScriptLookupError {
                message: format!("`{shown_program}` is executable, but its first line names no interpreter"),
                help: "begin it with a line such as `#!/bin/sh`, or give it an extension (.rhai, .sh, .py, .js)"
                    .to_owned(),
                is_missing_file: false,
            })
        } else {
            Ok(resolved)
        };
    };
    match find_missing_interpreter(line.lines().next().unwrap_or_default(), places) {
        Some(interpreter) => Err(ScriptLookupError {
            message: format!("`{shown_program}` needs the interpreter `{interpreter}`, which does not exist"),
            help: "install it, or correct the script's first line".to_owned(),
            is_missing_file: false,
        }),
        None => Ok(resolved),
    }
}

/// Returns the missing interpreter that the first line of a script names. Returns `None` if the interpreter exists.
fn find_missing_interpreter<'l>(line: &'l str, places: &ScriptFolders) -> Option<&'l str> {
    let mut words = line.split_whitespace();
    let interpreter = words.next()?;
    if interpreter.starts_with('/') && !Path::new(interpreter).exists() {
        return Some(interpreter);
    }
    let is_env = Path::new(interpreter).file_name().is_some_and(|name| name == "env");
    let program = words.find(|word| *word != "-S").filter(|_| is_env)?;
    let is_plain =
        program.chars().all(|c| c.is_ascii_alphanumeric() || "._+-".contains(c)) && !program.starts_with('-');
    (is_plain && !is_on_path(program, places)).then_some(program)
}
