//! `ensemble runs merge`: joins the messages of two runs in a new run.

use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use clap::{Args, ValueEnum};
use ensemble_core::conversation::RecordsMergeError;
use ensemble_core::store::Durability;
use ensemble_core::thread::MergeOrder;
use ensemble_reports::report::format_count;
use ensemble_runs::RunMergeError;

/// `ensemble runs merge`.
#[derive(Debug, Args)]
pub(crate) struct RunsMergeArgs {
    /// A run: its id, the beginning of its id, or its folder
    #[arg(value_name = "A", add = completions::complete_runs())]
    pub a: String,
    /// A run that begins with the same messages as A
    #[arg(value_name = "B", add = completions::complete_runs())]
    pub b: String,
    /// Choose the order of the messages that the runs add
    #[arg(long, value_enum, default_value_t = MessageOrder::Sequence, value_name = "ORDER")]
    pub order: MessageOrder,
}

/// The order of the messages that two runs add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum MessageOrder {
    /// All messages of A, then all messages of B.
    Sequence,
    /// A message of A and a message of B alternately.
    SideBySide,
}

/// `ensemble runs merge`. Prints the id of the new run.
pub(crate) async fn merge_runs(args: &RunsMergeArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let order = match args.order {
        MessageOrder::Sequence => MergeOrder::Sequence,
        MessageOrder::SideBySide => MergeOrder::SideBySide,
    };
    let runs = surroundings.project_runs();
    let merged = runs
        .merge_runs(&*args.a, &*args.b, order, Durability::default())
        .await?;
    let count = |messages: usize| format_count(messages as u64, "message");
    let [a, b] = &merged.origins;
    let [of_a, of_b] = merged.added_messages.map(count);
    surroundings.print_err(&format!(
        "merged into {}: {} of both runs, {of_a} of {a}, {of_b} of {b}\n",
        merged.run,
        count(merged.shared_messages),
    ));
    surroundings.print_out(&format!("{}\n", merged.run));
    Ok(exit::SUCCESS)
}

/// Returns the help text for runs that cannot be merged.
pub(crate) fn merge_error_help(error: &RunMergeError) -> String {
    const SHARED: &str =
        "merge a run with a fork of the run: `ensemble fork RUN --at-turn N`, then `ensemble continue`";
    match error {
        RunMergeError::SameRun(_) => SHARED.to_owned(),
        RunMergeError::Running { .. } => "wait until the other process ends, or stop it".to_owned(),
        RunMergeError::Records(error) => match error {
            RecordsMergeError::DifferentEnsembles { .. } => {
                "merge runs of one text of the ensemble; `ensemble continue --ensemble FILE` changes the text".to_owned()
            }
            RecordsMergeError::DifferentStart { .. } | RecordsMergeError::NoCommonBeginning { .. } => SHARED.to_owned(),
            RecordsMergeError::PartedInFirstMessage { .. } => {
                "a merge adds whole messages with their turns: fork at the last turn of a message, then `ensemble continue`"
                    .to_owned()
            }
            RecordsMergeError::NothingAdded { run, other } => {
                format!("`{other}` contains all messages of `{run}`: `ensemble continue {other}` continues both")
            }
            RecordsMergeError::OpenRun { run, .. } => format!("`ensemble resume {run}` ends the last message"),
            _ => "`ensemble replay RUN` names the damaged record".to_owned(),
        },
    }
}
