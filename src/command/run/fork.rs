//! `ensemble fork` and `ensemble rerun`: start a new run with the records of another run.

use super::driver::{CommandLineMessages, RunEndReporter, drive_run_to_end};
use super::run_options;
use crate::command::run::arguments::{AnsweringArgs, RunExecutionArgs, RunOutputArgs};
use crate::command::run::reporters::build_display;
use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::CliEnvironment;
use clap::{ArgAction, Args};
use ensemble_runs::ForkChanges;

/// `ensemble fork`.
#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// The run: its id, the beginning of its id, or the path of its folder or journal
    #[arg(value_name = "RUN", add = completions::complete_runs(), required_unless_present = "last")]
    pub run: Option<String>,
    /// Use the latest run
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
    /// Keep the turns up to turn N; 0 keeps only the input
    #[arg(long, value_name = "N")]
    pub at_turn: u32,
    /// Replace the input KEY, or add KEY to the context, before the run continues. VALUE is JSON, or a string if VALUE
    /// is not valid JSON
    #[arg(long = "set", value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Continue with this ensemble instead of the recorded one
    #[arg(long, value_name = "FILE|NAME", add = completions::complete_ensembles())]
    pub ensemble: Option<String>,
    /// Answers and models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// Output.
    #[command(flatten)]
    pub showing: RunOutputArgs,
    /// Execution.
    #[command(flatten)]
    pub driving: RunExecutionArgs,
}

/// `ensemble rerun`.
#[derive(Debug, Args)]
pub(crate) struct RerunArgs {
    /// The run: its id, the beginning of its id, or the path of its folder or journal
    #[arg(value_name = "RUN", add = completions::complete_runs(), required_unless_present = "last")]
    pub run: Option<String>,
    /// Use the latest run
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
    /// Repeat this execution: the agent, and the turn in which the agent ran. AGENT[KEY]@TURN repeats one part of the
    /// execution
    #[arg(long, value_name = "AGENT@TURN", add = completions::complete_executions())]
    pub from: String,
    /// Continue with this ensemble instead of the recorded one
    #[arg(long, value_name = "FILE|NAME", add = completions::complete_ensembles())]
    pub ensemble: Option<String>,
    /// Answers and models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// Output.
    #[command(flatten)]
    pub showing: RunOutputArgs,
    /// Execution.
    #[command(flatten)]
    pub driving: RunExecutionArgs,
}

/// Executes `ensemble fork`: starts a run with the first turns of another run, and drives it to its end. Returns the exit code.
pub(crate) fn fork_run(args: &ForkArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let showing = build_display(&args.showing, surroundings).with_limit_refusal(&args.driving);
    let runs = surroundings.runs_with_operator(&showing.operator);
    let options = run_options::run_options(&args.answering, &args.driving, showing, surroundings)?;
    let mut options = run_options::with_set_values(options, &args.set)?;
    let set = std::mem::take(&mut options.context);
    let ending = RunEndReporter::new(&args.driving, &args.showing, surroundings);
    block_on(async {
        let edited = args.ensemble.as_deref();
        let fork = runs
            .prepare_fork(args.run.as_deref(), args.at_turn, set, edited, options)
            .await?;
        print_changes(&fork.changes, &args.showing, surroundings);
        drive_run_to_end(fork.ready, CommandLineMessages::default(), ending).await
    })
}

/// Executes `ensemble rerun`: repeats an execution in a new run, and drives the run to its end. Returns the exit code.
pub(crate) fn rerun_execution(args: &RerunArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let RerunTarget { agent, part, turn } = parse_target(&args.from)?;
    let showing = build_display(&args.showing, surroundings).with_limit_refusal(&args.driving);
    let runs = surroundings.runs_with_operator(&showing.operator);
    let options = run_options::run_options(&args.answering, &args.driving, showing, surroundings)?;
    let ending = RunEndReporter::new(&args.driving, &args.showing, surroundings);
    block_on(async {
        let edited = args.ensemble.as_deref();
        let fork = runs
            .prepare_rerun(args.run.as_deref(), agent, part, turn, edited, options)
            .await?;
        print_changes(&fork.changes, &args.showing, surroundings);
        let messages: CommandLineMessages = fork.messages.into_iter().collect();
        drive_run_to_end(fork.ready, messages, ending).await
    })
}

/// Execution, or a part of an execution, that `ensemble rerun` repeats.
struct RerunTarget<'a> {
    agent: &'a str,
    part: Option<&'a str>,
    turn: u32,
}

/// Parses `AGENT@TURN` or `AGENT[KEY]@TURN`. A key may contain any character.
fn parse_target(given: &str) -> Result<RerunTarget<'_>, CliError> {
    let parsed = given.rsplit_once('@').and_then(|(executed, turn)| {
        let turn = turn.parse().ok().filter(|turn| *turn > 0)?;
        let (agent, part) = match executed.split_once('[') {
            Some((agent, key)) => (agent, Some(key.strip_suffix(']')?)),
            None => (executed, None),
        };
        (!agent.is_empty()).then_some(RerunTarget { agent, part, turn })
    });
    parsed.ok_or_else(|| CliError::usage_error(format!("--from takes AGENT@TURN or AGENT[KEY]@TURN, not `{given}`")))
}

/// Prints the changes since the other run, the reasons why agents run again, and the changed agents that ran before the fork.
pub(crate) fn print_changes(fork: &ForkChanges, showing: &RunOutputArgs, surroundings: &CliEnvironment) {
    if showing.quiet {
        return;
    }
    let mut text = match &fork.file {
        Some(file) => format!("{}: {}\n", file.display(), fork.changes),
        None if fork.changes.is_empty() => String::new(),
        None => format!("since run {}: {}\n", fork.origin, fork.changes),
    };
    for sentence in fork.changes.change_sentences() {
        text.push_str(&format!("  {sentence}\n"));
    }
    let edited = fork.file.as_ref().map(|file| format!(" --ensemble {}", file.display()));
    for (agent, turn) in &fork.changed_agents {
        text.push_str(&format!(
            "  {agent} ran in turn {turn} before the change, and the new run reuses its result; to repeat the execution: ensemble rerun {} --from {agent}@{turn}{}\n",
            fork.origin,
            edited.as_deref().unwrap_or_default()
        ));
    }
    surroundings.print_err(&text);
}
