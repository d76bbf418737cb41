//! The arguments of `ensemble batch`.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand};

use super::run::{AnsweringArgs, Sync, TelemetryArgs};
use crate::command::args::runs::OutputForm;
use crate::command::setup::completions;
use ensemble_core::conversation::CompletionReason;
use ensemble_runs::batch::Shard;

/// `ensemble batch`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct BatchArgs {
    /// A command on the results of batches.
    #[command(subcommand)]
    pub command: Option<BatchCommand>,
    /// The ensemble: a file, or the name of an ensemble in `ensembles/` or `.ensemble/ensembles/`
    #[arg(value_name = "FILE|NAME", required = true, add = completions::ensembles())]
    pub ensemble: Option<String>,
    /// The rows: a file in JSON Lines (.jsonl), CSV (.csv) or TSV (.tsv), a folder with a text in each file, or - for JSON
    /// Lines on standard input
    #[arg(long, value_name = "DATA", required = true)]
    pub data: Option<PathBuf>,
    /// The name of the batch; default: the names of the ensemble and of the data
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Give the column COLUMN as the input INPUT; can be repeated
    #[arg(long = "map", value_name = "INPUT=COLUMN", action = ArgAction::Append)]
    pub map: Vec<String>,
    /// Leave this column out; can be repeated
    #[arg(long = "ignore", value_name = "COLUMN", action = ArgAction::Append)]
    pub ignore: Vec<String>,
    /// Give every run the input KEY, or add KEY to its context; a column of the same name wins
    #[arg(long = "set", value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// The largest number of runs at once
    #[arg(short, long, default_value_t = NonZeroUsize::new(8).expect("8 is not 0"), value_name = "N")]
    pub jobs: NonZeroUsize,
    /// Also run the rows with this outcome again: `failed` for all that did not end well, or the name of an outcome
    #[arg(long, value_name = "OUTCOME", value_parser = retried, value_delimiter = ',', action = ArgAction::Append)]
    pub retry: Vec<Retried>,
    /// Work on a part of the rows only: of 8 parts the third one
    #[arg(long, value_name = "3/8")]
    pub shard: Option<Shard>,
    /// Begin no further run when the rows have cost as much, in the unit of the prices
    #[arg(long, value_name = "AMOUNT", value_parser = amount)]
    pub max_cost: Option<f64>,
    /// Also write the results to this file, as CSV if its name ends with .csv, otherwise as JSON Lines
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,
    /// Check all rows, print how many would run, and run none
    #[arg(long)]
    pub dry_run: bool,
    /// Run on a durable execution engine, by the address of its ingress, in place of this process: see docs/scale.md. The
    /// runs go on when this command ends, and the same command takes them up again
    #[arg(long, value_name = "URL", conflicts_with_all = ["cache", "cache_only", "mcp_config"])]
    pub on: Option<String>,
    /// Answers and models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// The output format of the summary
    #[arg(long, alias = "format", value_enum, default_value_t = OutputForm::Human, value_name = "FORM")]
    pub output: OutputForm,
    /// Print neither progress nor failures
    #[arg(short, long)]
    pub quiet: bool,
    /// Use exit code 4 if a limit ends a conversation
    #[arg(long)]
    pub fail_on_limit: bool,
    /// How much of the journals a power failure can lose (a killed process loses nothing)
    #[arg(long, value_enum, default_value_t = Sync::Commit, value_name = "HOW")]
    pub durability: Sync,
    /// Telemetry.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
}

/// Commands on the results of batches.
#[derive(Debug, Subcommand)]
pub(crate) enum BatchCommand {
    /// Merge the results of several parts of a batch into one table, in the order of the rows
    Merge(BatchMergeArgs),
}

/// `ensemble batch merge`.
#[derive(Debug, Args)]
pub(crate) struct BatchMergeArgs {
    /// The results of the parts: files `results.jsonl`
    #[arg(value_name = "RESULTS", required = true)]
    pub parts: Vec<PathBuf>,
    /// Write to this file, as CSV if its name ends with .csv; default: JSON Lines to standard output
    #[arg(short = 'o', long, value_name = "FILE")]
    pub to: Option<PathBuf>,
}

/// Outcomes of rows that run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Retried(pub Vec<CompletionReason>);

fn retried(text: &str) -> Result<Retried, String> {
    let all = CompletionReason::ALL;
    if text == "failed" {
        let ended_well = |reason: &CompletionReason| *reason == CompletionReason::Completed || reason.is_limit();
        return Ok(Retried(all.into_iter().filter(|reason| !ended_well(reason)).collect()));
    }
    match all.into_iter().find(|reason| reason.as_str() == text) {
        Some(reason) => Ok(Retried(vec![reason])),
        None => {
            let names: Vec<&str> = all.iter().map(|reason| reason.as_str()).collect();
            Err(format!("expected `failed` or one of {}", names.join(", ")))
        }
    }
}

fn amount(text: &str) -> Result<f64, String> {
    let amount = text
        .parse()
        .ok()
        .filter(|amount: &f64| amount.is_finite() && *amount > 0.0);
    amount.ok_or_else(|| "expected a number above 0, such as 2.50".to_owned())
}
