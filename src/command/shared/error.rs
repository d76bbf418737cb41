//! The errors of the program, with their messages for the command line and their exit codes.

use super::exit;
use super::merge_help::merge_error_help;
use crate::command::runs::short_names::shortest_unique_prefixes;
use ensemble_core::log::CommitError;
use ensemble_core::request::AnswerRefusal;
use ensemble_core::store::{LogReadError, RunId, StoreError};
use ensemble_project::ProjectError;
use ensemble_remote::EngineClientError;
use ensemble_reports::report::sanitized_writer::TrustedStyle;
use ensemble_reports::report::{diagnostics, format_count, indent_later_lines};
use ensemble_runs::RunError;

/// Style of the word `error` before a message.
const ERROR_STYLE: TrustedStyle = TrustedStyle::new(anstyle::AnsiColor::Red.on_default().bold());

/// An error of a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The command line is not valid.
    #[error("{message}")]
    Usage {
        /// The message.
        message: String,
        /// The help text: what to do.
        help: Option<String>,
    },
    /// The run layer returned an error.
    #[error("{}", run_error_message(.0))]
    Run(#[from] RunError),
    /// A durable execution engine.
    #[error("{0}")]
    Remote(#[from] EngineClientError),
    /// An internal error of the program.
    #[error("{0}")]
    Internal(String),
}

impl From<ProjectError> for CliError {
    fn from(error: ProjectError) -> Self {
        Self::Run(error.into())
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        Self::Run(error.into())
    }
}

impl From<LogReadError> for CliError {
    fn from(error: LogReadError) -> Self {
        Self::Run(error.into())
    }
}

impl CliError {
    /// Creates a usage error without a help text.
    pub(crate) fn usage_error(message: impl Into<String>) -> Self {
        Self::Usage {
            message: message.into(),
            help: None,
        }
    }

    /// Creates a usage error with a help text.
    pub(crate) fn usage_error_with_help(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Usage {
            message: message.into(),
            help: Some(help.into()),
        }
    }

    /// Returns the exit code of the error.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage { .. } => exit::USAGE,
            Self::Internal(_) => exit::FAILURE,
            Self::Remote(error) => match error {
                EngineClientError::Address { .. }
                | EngineClientError::NoRun { .. }
                | EngineClientError::Ambiguous { .. }
                | EngineClientError::CopyDiverged(_) => exit::USAGE,
                _ => exit::FAILURE,
            },
            Self::Run(error) => match error {
                RunError::Store(
                    StoreError::Unknown { .. }
                    | StoreError::Ambiguous { .. }
                    | StoreError::Empty { .. }
                    | StoreError::InvalidId(_),
                ) => exit::USAGE,
                RunError::Store(_)
                | RunError::Commit(_)
                | RunError::NotBegun
                | RunError::NotAsked(_)
                | RunError::Closed
                | RunError::Engine(_)
                | RunError::Stopped(_) => exit::FAILURE,
                _ => exit::USAGE,
            },
        }
    }

    /// Renders the error as lines for the terminal, with findings or the help text. `color` enables styles.
    pub(crate) fn render_for_terminal(&self, color: bool) -> String {
        if let Self::Run(RunError::Project(ProjectError::Invalid(findings))) = self {
            return diagnostics::render_diagnostics(findings, color);
        }
        let mut text = match color {
            true => format!(
                "{ERROR_STYLE}error{ERROR_STYLE:#}: {}\n",
                indent_later_lines(&self.to_string())
            ),
            false => format!("error: {}\n", indent_later_lines(&self.to_string())),
        };
        if let Some(help) = self.help_text() {
            text.push_str(&format!("  help: {help}\n"));
        }
        text
    }

    /// Returns the help text of the error, without the word `help:`.
    fn help_text(&self) -> Option<String> {
        match self {
            Self::Usage { help, .. } => help.clone(),
            Self::Run(error) => run_error_help(error),
            Self::Remote(error) => error.advice_text(),
            Self::Internal(_) => None,
        }
    }
}

/// Returns the message of a run error. The message names the option of the command line that causes the error.
fn run_error_message(error: &RunError) -> String {
    match error {
        RunError::NoTool { tool, is_denied, .. } => {
            let option = if *is_denied { "--deny-tool" } else { "--allow-tool" };
            format!("{option} {tool}: there is no such tool")
        }
        RunError::Model { given, reason } => format!("--model {given}: {reason}"),
        RunError::Cache { folder, source, .. } => format!("--cache {}: {source}", folder.display()),
        RunError::NoAgent(name) => format!("--live {name}: there is no agent `{name}`"),
        RunError::Store(StoreError::Ambiguous { id, candidates }) => ambiguous_run_message(id, candidates),
        other => other.to_string(),
    }
}

/// Returns the message about an id that matches several runs. The message lists the latest eight runs.
fn ambiguous_run_message(given: &str, candidates: &[RunId]) -> String {
    const MOST: usize = 8;
    let latest: Vec<&str> = candidates.iter().rev().take(MOST).map(RunId::as_str).collect();
    let earlier = match candidates.len() - latest.len() {
        0 => String::new(),
        earlier => format!(" and {earlier} earlier"),
    };
    format!(
        "`{given}` matches {} runs: {}{earlier}",
        candidates.len(),
        latest.join(", ")
    )
}

/// Returns the help text for an error in a file of the project.
fn project_help(error: &ProjectError) -> Option<String> {
    Some(match error {
        ProjectError::IsFolder(_) => "name a file in the folder; `ensemble validate` accepts folders".to_owned(),
        ProjectError::Untrusted { path, .. } => format!(
            "trust the file with `ensemble trust {}` until the file changes, or with `--trust` for one command",
            path.display()
        ),
        ProjectError::Stranger(_) => {
            "take the ownership with `chown`, or use the file as it is with `--trust`".to_owned()
        }
        ProjectError::NotEnsemble(_) => {
            "name a file that contains an ensemble: a map with the list `agents`".to_owned()
        }
        _ => return error.advice(),
    })
}

/// Returns the help text for an error of the run layer.
fn run_error_help(error: &RunError) -> Option<String> {
    Some(match error {
        RunError::Project(error) => return project_help(error),
        RunError::AnswerForNobody { inputs, .. } => match inputs.as_slice() {
            [] => "this ensemble has no input agents".to_owned(),
            inputs => format!("the input agents are {}", inputs.join(", ")),
        },
        RunError::Answer(AnswerRefusal::Ambiguous { .. }) => "answer each question by its address".to_owned(),
        RunError::NoSuchAgent { similar, agents, .. } => match similar {
            Some(similar) => format!("did you mean `{similar}`?"),
            None => format!("the agents are {}", agents.join(", ")),
        },
        RunError::RespondsForNobody { possible, .. } => match possible.as_slice() {
            [] => "this ensemble has no input agents and no script agents".to_owned(),
            possible => format!("a model can answer for {}", possible.join(", ")),
        },
        RunError::ReplacedTwice(agent) => format!("remove `--stub {agent}=…` or `--respond {agent}=…`"),
        RunError::NoGenerator(_) => "continue the run in the program that started it".to_owned(),
        RunError::NoTool { similar, tools, .. } => match (similar, tools.as_slice()) {
            (Some(similar), _) => format!("did you mean `{similar}`?"),
            (None, []) => "this ensemble has no tools".to_owned(),
            (None, tools) => format!("the tools are {}", tools.join(", ")),
        },
        RunError::Inputs(_) => "pass inputs with `--set NAME=VALUE` or `--context FILE`".to_owned(),
        RunError::Cache { only: true, .. } => "run once without --cache-only to fill the cache".to_owned(),
        RunError::NotEnded(run) => format!("`ensemble resume {run}` continues the run"),
        RunError::HasEnded {
            run,
            file,
            failed: Some((agent, turn)),
            ..
        } => format!(
            "`ensemble rerun {run} --from {agent}@{turn} --ensemble {file}` repeats the failed execution and everything that depends on it"
        ),
        RunError::HasEnded { run, file, turn, .. } => format!(
            "`ensemble fork {run} --at-turn N --ensemble {file}` continues from a turn (the last turn is {turn}); `ensemble rerun {run} --from AGENT@TURN --ensemble {file}` repeats an execution"
        ),
        RunError::NoTurn { finished, .. } => {
            format!(
                "the run has finished {}; 0 keeps only the input",
                format_count(*finished as u64, "turn")
            )
        }
        RunError::NoExecution { ran_in, agents, .. } => match ran_in.as_slice() {
            [] => format!("the agents that ran are {}", agents.join(", ")),
            turns => {
                let turns: Vec<String> = turns.iter().map(u32::to_string).collect();
                format!("the agent ran in these turns: {}", turns.join(", "))
            }
        },
        RunError::NoPart { keys, .. } => match keys.as_slice() {
            [] => "the executions of this agent have no parts; write AGENT@TURN".to_owned(),
            keys => format!("the parts are {}", keys.join(", ")),
        },
        RunError::AgentIsGone { .. } => "fork at an earlier turn, or keep the agent".to_owned(),
        RunError::Merge(error) => merge_error_help(error),
        RunError::NoEnsemble => "name the ensemble with --ensemble FILE".to_owned(),
        RunError::Commit(CommitError::Write { .. }) => {
            "restore the records, make the folder writable, and continue the run with `ensemble resume`".to_owned()
        }
        RunError::Store(error) => return store_error_help(error),
        _ => return None,
    })
}

/// Returns the help text for an error of the run store.
fn store_error_help(error: &StoreError) -> Option<String> {
    Some(match error {
        StoreError::Unknown { .. } | StoreError::InvalidId(_) => {
            "`ensemble runs list` shows all runs, and those of a batch with `--batch NAME`".to_owned()
        }
        StoreError::Ambiguous { candidates, .. } => {
            let short = shortest_unique_prefixes(candidates).pop().unwrap_or_default();
            format!("`{short}` selects the latest of these runs; `ensemble runs list` shows all runs")
        }
        StoreError::Empty { .. } => "`ensemble run FILE` creates a run".to_owned(),
        StoreError::Leased { .. } => "wait until the other process ends, or stop it".to_owned(),
        StoreError::Unavailable { .. } => {
            "make `.ensemble/runs` in the project writable; runs are recorded there".to_owned()
        }
        _ => return None,
    })
}
