//! Syntax checks of scripts by the interpreters of the machine (`validate --check-scripts`).
//!
//! An interpreter only parses the script and executes nothing. It runs in the root folder and without the variables and files
//! that would make the interpreter load other code first.

#![expect(clippy::disallowed_methods, reason = "interpreters are started as parsers")]

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use ensemble_language::diagnostic::Finding;
use ensemble_language::ensemble::{Agent, AgentKind, CommandLine, Ensemble, McpServer, ToolDefinition, ToolKind};
use ensemble_language::loader::codes;
use ensemble_language::source::{LineColumn, RouteLocation, SourceText, Span};
use ensemble_process::program::{ResolvedScript, ScriptFolders, is_on_path, resolve_command_words};
use ensemble_scripts::regular_files::{MAX_SCRIPT_BYTES, read_text};

use super::EnsembleFolder;
use super::command::find_interpreted_script;

/// Time limit for one script.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of the message of a parser, in bytes.
const MAX_MESSAGE_BYTES: u64 = 64 << 10;
/// Variables that make an interpreter load code, or change its behavior.
const REMOVED_VARIABLES: [&str; 6] = ["BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "NODE_OPTIONS", "NODE_PATH"];
/// Python program that parses standard input. `-I` excludes modules of the folder and of the user, and `-S` those of the site.
const PYTHON_PARSER: &str = "import sys
try:
    compile(sys.stdin.buffer.read(), 'script', 'exec', dont_inherit=True)
except SyntaxError as e:
    sys.stderr.write('%d:%d:%s' % (e.lineno or 0, e.offset or 0, e.msg))
    sys.exit(1)
except ValueError as e:
    sys.stderr.write('0:0:%s' % e)
    sys.exit(1)
";

/// Interpreter that checks the syntax of scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum SyntaxChecker {
    Python,
    Sh,
    Bash,
    Node,
}

/// Result of the syntax check of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SyntaxOutcome {
    Fine,
    /// Line and column from 1; 0 if unknown.
    Error {
        line: usize,
        column: usize,
        message: String,
    },
    /// The script was not checked, for this reason.
    Unchecked(UncheckedReason),
}

/// Reason why a script was not checked.
#[derive(Debug, Clone, PartialEq, Eq)]
enum UncheckedReason {
    NotInstalled,
    TooSlow,
    Failed(String),
}

/// Shared result of a syntax check, which runs once for a script.
type SharedOutcome = Arc<OnceLock<SyntaxOutcome>>;

/// Cache of the syntax checks of all folders of a call.
#[derive(Debug, Default)]
pub struct SyntaxChecks {
    outcomes: Mutex<HashMap<(PathBuf, SyntaxChecker), SharedOutcome>>,
}

impl SyntaxChecks {
    /// Describes why some scripts were not checked. Returns each reason once.
    pub fn describe_unchecked_scripts(&self) -> Vec<String> {
        let outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut absent: BTreeMap<SyntaxChecker, usize> = BTreeMap::new();
        let mut other_reasons: Vec<String> = Vec::new();
        for ((path, checker), outcome) in outcomes.iter() {
            let program = checker.program_name();
            match outcome.get() {
                Some(SyntaxOutcome::Unchecked(UncheckedReason::NotInstalled)) => {
                    *absent.entry(*checker).or_default() += 1
                }
                Some(SyntaxOutcome::Unchecked(UncheckedReason::TooSlow)) => other_reasons.push(format!(
                    "`{}` was not checked: {program} took more than {} seconds",
                    path.display(),
                    CHECK_TIMEOUT.as_secs()
                )),
                Some(SyntaxOutcome::Unchecked(UncheckedReason::Failed(why))) => {
                    other_reasons.push(format!("`{}` was not checked: {program}: {why}", path.display()));
                }
                Some(SyntaxOutcome::Fine | SyntaxOutcome::Error { .. }) | None => {}
            }
        }
        other_reasons.sort();
        let absent = absent.into_iter().map(|(checker, count)| {
            let scripts = if count == 1 {
                "1 script was"
            } else {
                &format!("{count} scripts were")
            };
            format!(
                "{} is not installed or not on PATH: {scripts} not checked",
                checker.program_name()
            )
        });
        absent.chain(other_reasons).collect()
    }

    /// Checks the syntax of the script, unless the cache contains the result.
    fn check_script_once(&self, path: &Path, checker: SyntaxChecker, places: &ScriptFolders) -> SyntaxOutcome {
        let key = (path.to_owned(), checker);
        let cell = Arc::clone(
            self.outcomes
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .entry(key)
                .or_default(),
        );
        cell.get_or_init(|| checker.run_syntax_check(path, places)).clone()
    }
}

impl SyntaxChecker {
    /// Returns the name of the interpreter program.
    fn program_name(self) -> &'static str {
        match self {
            Self::Python => "python3",
            Self::Sh => "sh",
            Self::Bash => "bash",
            Self::Node => "node",
        }
    }

    /// Returns the checker for scripts of this interpreter. Returns `None` for other programs.
    fn for_interpreter(program: &str) -> Option<Self> {
        match program {
            "python3" | "python" => Some(Self::Python),
            "sh" | "dash" => Some(Self::Sh),
            "bash" => Some(Self::Bash),
            "node" => Some(Self::Node),
            _ => None,
        }
    }

    /// Runs the interpreter to parse the script in this file.
    fn run_syntax_check(self, path: &Path, places: &ScriptFolders) -> SyntaxOutcome {
        if !is_on_path(self.program_name(), places) {
            return SyntaxOutcome::Unchecked(UncheckedReason::NotInstalled);
        }
        let Ok(text) = read_text(path, MAX_SCRIPT_BYTES) else {
            return SyntaxOutcome::Unchecked(UncheckedReason::Failed("it cannot be read".to_owned()));
        };
        let mut command = Command::new(self.program_name());
        let is_python = self == Self::Python;
        match self {
            Self::Python => command.args(["-I", "-S", "-B", "-W", "ignore", "-c", PYTHON_PARSER]),
            Self::Sh | Self::Bash => command.arg("-n").arg(path),
            Self::Node => command.arg("--check").arg(path),
        };
        match run_with_time_limit(command, if is_python { text.as_bytes() } else { b"" }, CHECK_TIMEOUT) {
            Ok((true, _)) => SyntaxOutcome::Fine,
            Ok((false, said)) => self.parse_checker_message(path, &said),
            Err(reason) => SyntaxOutcome::Unchecked(reason),
        }
    }

    /// Parses the message of an interpreter that found an error.
    fn parse_checker_message(self, path: &Path, said: &str) -> SyntaxOutcome {
        let error = match self {
            Self::Python => parse_python_error(said),
            Self::Sh | Self::Bash => parse_shell_error(path, said),
            Self::Node => parse_node_error(path, said),
        };
        error.unwrap_or_else(|| {
            let first = said.lines().next().unwrap_or("it failed without a message");
            SyntaxOutcome::Unchecked(UncheckedReason::Failed(first.to_owned()))
        })
    }
}

/// Parses a message in the form `3:5:message`.
fn parse_python_error(said: &str) -> Option<SyntaxOutcome> {
    let mut parts = said.splitn(3, ':');
    Some(SyntaxOutcome::Error {
        line: parts.next()?.parse().ok()?,
        column: parts.next()?.parse().ok()?,
        message: parts.next()?.to_owned(),
    })
}

/// Parses a message in the form `a.sh: 3: message` or `a.sh: line 3: message`.
fn parse_shell_error(path: &Path, said: &str) -> Option<SyntaxOutcome> {
    let path = path.to_str()?;
    let location_text = said.lines().next()?.split_once(path)?.1.strip_prefix(": ")?;
    let (line, message) = location_text
        .strip_prefix("line ")
        .unwrap_or(location_text)
        .split_once(": ")?;
    Some(SyntaxOutcome::Error {
        line: line.trim().parse().ok()?,
        column: 0,
        message: message.to_owned(),
    })
}

/// Parses a message that consists of `a.js:3`, the line, a caret, and `SyntaxError: message`.
fn parse_node_error(path: &Path, said: &str) -> Option<SyntaxOutcome> {
    let message = said.lines().find_map(|line| line.strip_prefix("SyntaxError: "))?;
    let mut lines = said.lines();
    let line = lines.find_map(|line| {
        let place = line.split_once(path.to_str()?)?.1.strip_prefix(':')?;
        place.trim().parse().ok()
    });
    let caret = lines.nth(1).and_then(|marks| marks.find('^'));
    Some(SyntaxOutcome::Error {
        line: line.unwrap_or(0),
        column: caret.map_or(0, |at| at + 1),
        message: message.to_owned(),
    })
}

/// Runs the command with the input and a time limit. Returns whether the command succeeded, and its standard error.
/// Kills a command that is too slow.
fn run_with_time_limit(mut command: Command, input: &[u8], limit: Duration) -> Result<(bool, String), UncheckedReason> {
    let failed = |error: std::io::Error| UncheckedReason::Failed(error.to_string());
    for variable in REMOVED_VARIABLES {
        command.env_remove(variable);
    }
    for variable in ensemble_language::ensemble::RIGHTS_VARIABLES {
        command.env_remove(variable);
    }
    command
        .current_dir("/")
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let (mut stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let input = input.to_owned();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        // A parser may end before it has read everything.
        let _may_be_closed = stdin.take().map(|mut stdin| stdin.write_all(&input));
        let mut text = Vec::new();
        let read = stderr.map(|stderr| stderr.take(MAX_MESSAGE_BYTES).read_to_end(&mut text));
        let _nobody_waits = sender.send(read.map(|_| String::from_utf8_lossy(&text).into_owned()));
    });
    match receiver.recv_timeout(limit) {
        Ok(text) => {
            let status = child.wait().map_err(failed)?;
            Ok((status.success(), text.unwrap_or_default()))
        }
        Err(_) => {
            let _may_have_ended = child.kill();
            let _status = child.wait();
            Err(UncheckedReason::TooSlow)
        }
    }
}

impl EnsembleFolder<'_> {
    /// Checks the syntax of all scripts that interpreters of the machine run, in parallel. Returns nothing if the checks are not enabled.
    pub(super) fn check_script_syntax(&self, ensemble: &Ensemble) -> Vec<Finding> {
        let Some(checkers) = &self.checkers else {
            return Vec::new();
        };
        let scripts: Vec<(PathBuf, SyntaxChecker, RouteLocation)> = self.list_checkable_scripts(ensemble);
        let next = AtomicUsize::new(0);
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let places = &self.places;
        std::thread::scope(|scope| {
            for _ in 0..cores.min(scripts.len()) {
                scope.spawn(|| {
                    while let Some((path, checker, _)) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
                        checkers.check_script_once(path, *checker, places);
                    }
                });
            }
        });
        let finding = |(path, checker, at): (PathBuf, SyntaxChecker, RouteLocation)| match checkers
            .check_script_once(&path, checker, places)
        {
            SyntaxOutcome::Error { line, column, message } => {
                Some(self.syntax_error_finding(&path, (line, column), &message, at))
            }
            SyntaxOutcome::Fine | SyntaxOutcome::Unchecked(_) => None,
        };
        scripts.into_iter().filter_map(finding).collect()
    }

    /// Creates the finding about a syntax error in the script. `at` is the location of the script's name.
    fn syntax_error_finding(
        &self,
        path: &Path,
        (line, column): (usize, usize),
        message: &str,
        at: RouteLocation,
    ) -> Finding {
        let message = format!("the script has a syntax error: {message}");
        let finding = Finding::new_error(codes::SCRIPT_SYNTAX, at, message);
        let Ok(text) = read_text(path, MAX_SCRIPT_BYTES) else {
            return finding;
        };
        let source = SourceText::new(self.project.relative_path(path).display().to_string(), text);
        let span = match column {
            0 => trimmed_line_span(&source, line.max(1)),
            column => source.find_word_span(LineColumn { line, column }),
        };
        finding.with_inner_source(source, span)
    }

    /// Lists the scripts of agents and tools that an interpreter can check, with their locations in the ensemble.
    fn list_checkable_scripts(&self, ensemble: &Ensemble) -> Vec<(PathBuf, SyntaxChecker, RouteLocation)> {
        let agents = ensemble.agents.iter().enumerate();
        let of_agents = agents.filter_map(|(at, agent)| match &agent.kind {
            AgentKind::Script { script, .. } if self.allows_paths_in_text(script) => Some((
                self.resolve_startable_script(script).ok()?,
                Agent::route_at(at).with_key("script"),
            )),
            _ => None,
        });
        let of_tools = ensemble.tools.iter().filter_map(|(name, tool)| {
            let route = ToolDefinition::route_for(name);
            match &tool.kind {
                ToolKind::Script { script, .. } if self.allows_paths_in_text(script) => {
                    Some((self.resolve_startable_script(script).ok()?, route.with_key("script")))
                }
                ToolKind::Mcp(McpServer::Command { command, .. }) if self.allows_paths_of_command(command) => {
                    let resolved = match command {
                        CommandLine::Text(text) => self.resolve_startable_script(text),
                        CommandLine::Words(words) => resolve_command_words(words, &self.places),
                    };
                    Some((resolved.ok()?, route.with_key("mcp").with_key("command")))
                }
                _ => None,
            }
        });
        let all = of_agents.chain(of_tools);
        all.filter_map(|(resolved, route)| {
            let (path, checker) = find_script_and_checker(&resolved, &self.places)?;
            path.is_file().then(|| (path, checker, route.into_value_location()))
        })
        .collect()
    }
}

/// Returns the file of the script and its checker. Reads the first line of a program. Returns `None` for other programs.
fn find_script_and_checker(resolved: &ResolvedScript, places: &ScriptFolders) -> Option<(PathBuf, SyntaxChecker)> {
    let ResolvedScript::Process(invocation) = resolved else {
        return None;
    };
    if let Some((path, _)) = find_interpreted_script(resolved, places) {
        let program = invocation.program.file_name().and_then(OsStr::to_str)?;
        return Some((path, SyntaxChecker::for_interpreter(program)?));
    }
    if !invocation.program.is_absolute() {
        return None;
    }
    let text = read_text(&invocation.program, MAX_SCRIPT_BYTES).ok()?;
    let mut words = text.strip_prefix("#!")?.lines().next()?.split_whitespace();
    let first = Path::new(words.next()?).file_name()?.to_str()?;
    let program = if first == "env" {
        words.find(|word| *word != "-S")?
    } else {
        first
    };
    Some((invocation.program.clone(), SyntaxChecker::for_interpreter(program)?))
}

/// Returns the span of the line without leading and trailing blanks.
fn trimmed_line_span(source: &SourceText, line: usize) -> Span {
    let text = source.line_text(line);
    let start = source.find_word_span(LineColumn { line, column: 1 }).start;
    let before = text.len() - text.trim_start().len();
    Span::new(start + before, start + before + text.trim().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parser_that_takes_too_long_is_stopped() {
        let mut command = Command::new("sleep");
        command.arg("60");
        assert_eq!(
            run_with_time_limit(command, b"", Duration::from_millis(50)),
            Err(UncheckedReason::TooSlow)
        );
    }

    #[test]
    fn messages_of_parsers() {
        let path = Path::new("/p/a.x");
        let error = |line, column, message: &str| SyntaxOutcome::Error {
            line,
            column,
            message: message.to_owned(),
        };
        let rows = [
            (
                SyntaxChecker::Python,
                "3:5:invalid syntax: x",
                error(3, 5, "invalid syntax: x"),
            ),
            (
                SyntaxChecker::Sh,
                "/p/a.x: 3: Syntax error: x",
                error(3, 0, "Syntax error: x"),
            ),
            (
                SyntaxChecker::Bash,
                "/p/a.x: line 3: syntax error\n/p/a.x: line 3: `x'",
                error(3, 0, "syntax error"),
            ),
            (
                SyntaxChecker::Node,
                "/p/a.x:3\nlet x = ;\n        ^\n\nSyntaxError: Unexpected token ';'\n    at x",
                error(3, 9, "Unexpected token ';'"),
            ),
        ];
        for (checker, said, expected) in rows {
            assert_eq!(checker.parse_checker_message(path, said), expected, "{said}");
        }
        for checker in [
            SyntaxChecker::Python,
            SyntaxChecker::Sh,
            SyntaxChecker::Bash,
            SyntaxChecker::Node,
        ] {
            let failed = SyntaxOutcome::Unchecked(UncheckedReason::Failed("pyenv: no such version".to_owned()));
            assert_eq!(
                checker.parse_checker_message(path, "pyenv: no such version\nmore"),
                failed
            );
        }
    }
}
