//! `ensemble runs merge`: joins the messages of two runs in a new run.

use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use clap::{Args, ValueEnum};
use ensemble_core::store::Durability;
use ensemble_core::thread::MergeOrder;
use ensemble_reports::report::format_count;

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

/// Merges the messages of two runs into a new run, and prints its id (`ensemble runs merge`).
pub(crate) async fn merge_runs(args: &RunsMergeArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let order = match args.order {
        MessageOrder::Sequence => MergeOrder::Sequence,
        MessageOrder::SideBySide => MergeOrder::SideBySide,
    };
    let runs = surroundings.runs_without_operator();
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
