//! `ensemble batch`: one run of an ensemble for each row of a table.

mod merge;
mod progress;
mod rows;

use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::run_options;
use crate::command::run::arguments::{AnsweringArgs, DurabilityChoice, TelemetryArgs};
use crate::command::run::batch::merge::BatchMergeArgs;
use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::output_form::OutputForm;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::CliEnvironment;
use crate::terminal::signals;
use clap::{ArgAction, Args, Subcommand};
use ensemble_core::conversation::{CompletionReason, RunCanceller, run_exit_code};
use ensemble_core::operator::{Operator, UnattendedOperator};
use ensemble_remote::EngineClient;
use ensemble_runs::batch::BatchShard;
use ensemble_runs::batch::{
    self, Batch, BatchEnd, BatchError, BatchIdentity, BatchOptions, BatchRow, ColumnMapping, RetriedRows,
};
use ensemble_runs::{EnsembleRef, RunError, RunOptions, Runs};
use progress::{BatchProgress, format_money, format_rows};
use rows::wrong_rows_error;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// `ensemble batch`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct BatchArgs {
    /// A command on the results of batches.
    #[command(subcommand)]
    pub command: Option<BatchCommand>,
    /// The ensemble: a file, or a name in `ensembles/` or `.ensemble/ensembles/`
    #[arg(value_name = "FILE|NAME", required = true, add = completions::complete_ensembles())]
    pub ensemble: Option<String>,
    /// Read the rows from this file or folder, or - for standard input. A file has the format JSON Lines (.jsonl), CSV
    /// (.csv) or TSV (.tsv); each file of a folder is the text of one row; standard input has the format JSON Lines
    #[arg(long, value_name = "DATA", required = true)]
    pub data: Option<PathBuf>,
    /// Name the batch; default: the names of the ensemble and of the data
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Pass the column COLUMN as the input INPUT; can be repeated
    #[arg(long = "map", value_name = "INPUT=COLUMN", action = ArgAction::Append)]
    pub map: Vec<String>,
    /// Leave this column out; can be repeated
    #[arg(long = "ignore", value_name = "COLUMN", action = ArgAction::Append)]
    pub ignore: Vec<String>,
    /// Pass the input KEY to every run; a column with the same name overrides it. If the ensemble declares no inputs,
    /// KEY is added to the context
    #[arg(long = "set", value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Execute at most N runs in parallel
    #[arg(short, long, default_value_t = NonZeroUsize::new(8).expect("8 is not 0"), value_name = "N")]
    pub jobs: NonZeroUsize,
    /// Also run the rows with this outcome again; can be repeated. `failed` selects all rows that neither completed nor
    /// reached a limit
    #[arg(long, value_name = "OUTCOME", value_parser = parse_retried, value_delimiter = ',', action = ArgAction::Append)]
    pub retry: Vec<RetriedRows>,
    /// Run only one part of the rows: 3/8 is the third of eight parts
    #[arg(long, value_name = "3/8")]
    pub shard: Option<BatchShard>,
    /// Start no further run when the total cost of the rows reaches AMOUNT. AMOUNT has the same unit as the prices in
    /// the model profiles
    #[arg(long, value_name = "AMOUNT", value_parser = parse_amount)]
    pub max_cost: Option<f64>,
    /// Also write the results to this file. The format is CSV if the name ends with .csv, otherwise JSON Lines
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,
    /// Check all rows, print how many would run, and run none
    #[arg(long)]
    pub dry_run: bool,
    /// Run on the durable execution engine with this ingress address (docs/scale.md). The runs continue after this
    /// command ends; repeat the command to follow them again
    #[arg(long, value_name = "URL", conflicts_with_all = ["cache", "cache_only", "mcp_config"])]
    pub on: Option<String>,
    /// Answers and models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// Choose the output format of the summary
    #[arg(long, alias = "format", value_enum, default_value_t = OutputForm::Human, value_name = "FORM")]
    pub output: OutputForm,
    /// Print neither progress nor failures
    #[arg(short, long)]
    pub quiet: bool,
    /// Exit with code 4 instead of 0 if an agent still had work at its own limit
    #[arg(long)]
    pub fail_on_limit: bool,
    /// Limit the records that a power failure can lose; a killed process loses none
    #[arg(long, value_enum, default_value_t = DurabilityChoice::Commit, value_name = "HOW")]
    pub durability: DurabilityChoice,
    /// Telemetry.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
}

/// Commands on the results of batches.
#[derive(Debug, Subcommand)]
pub(crate) enum BatchCommand {
    /// Merge the results of the parts of a batch into one table, sorted by row
    Merge(BatchMergeArgs),
}

fn parse_retried(text: &str) -> Result<RetriedRows, String> {
    let all = CompletionReason::ALL;
    if text == "failed" {
        return Ok(RetriedRows::Failed);
    }
    match all.into_iter().find(|reason| reason.as_str() == text) {
        Some(reason) => Ok(RetriedRows::Outcome(reason)),
        None => {
            let names: Vec<&str> = all.iter().map(|reason| reason.as_str()).collect();
            Err(format!("expected `failed` or one of {}", names.join(", ")))
        }
    }
}

fn parse_amount(text: &str) -> Result<f64, String> {
    let amount = text
        .parse()
        .ok()
        .filter(|amount: &f64| amount.is_finite() && *amount > 0.0);
    amount.ok_or_else(|| "expected a number above 0, such as 2.50".to_owned())
}

/// The longest name of a batch.
const LONGEST_NAME: usize = 100;

impl From<BatchError> for CliError {
    fn from(error: BatchError) -> Self {
        match error {
            BatchError::Run(error) => error.into(),
            BatchError::Busy { .. } => Self::usage_error_with_help(
                error.to_string(),
                "wait until the other process ends, or name another batch with --name",
            ),
        }
    }
}

/// `ensemble batch`.
pub(crate) fn run_batch(args: &BatchArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    if let Some(BatchCommand::Merge(args)) = &args.command {
        return merge::merge_results(args, surroundings);
    }
    let (Some(ensemble), Some(data)) = (&args.ensemble, &args.data) else {
        return Err(CliError::usage_error("expected an ensemble and --data"));
    };
    let operator: Arc<dyn Operator> = Arc::new(UnattendedOperator);
    let unshared = surroundings.runs_with(&operator);
    let runs = Runs::open(unshared.project().clone(), unshared.host().clone().with_shared_models());
    let prepared = Arc::new(runs.prepare_ensemble(&EnsembleRef::from_file(&**ensemble))?);
    let cells = rows::load_rows(data, surroundings)?;
    let columns = resolve_columns(args, &cells)?;
    let rows =
        batch::resolve_rows(cells, &columns, &shared_row(args)?, prepared.plan.ensemble()).map_err(wrong_rows_error)?;
    let name = batch_name(args, &prepared.plan.ensemble().name, data)?;
    let decides = BatchIdentity {
        models: &args.answering.model,
        answers: canonical_answers(args, surroundings)?,
    };
    let mut batch = Batch::open(&runs, prepared, &name, rows, args.shard, &decides)?;
    let retry = args.retry.clone();
    let to_do = batch.count_rows_to_run(&retry);
    if args.dry_run {
        return Ok(print_dry_run(&batch, &name, to_do, args, surroundings));
    }
    let driving = BatchOptions {
        jobs: args.jobs,
        retry,
        max_cost: args.max_cost,
        engine: match &args.on {
            Some(url) => Some(Arc::new(EngineClient::from_url(url)?)),
            None => None,
        },
    };
    let network = runs.host().model_network();
    let progress = BatchProgress::new(to_do, args.quiet, network, surroundings);
    let stop = block_on(drive_rows(&mut batch, &driving, progress, args, surroundings));
    // What has ended is in the results, also if another row could not begin.
    let results = batch.write_results()?;
    let stop = stop?;
    if let Some(path) = &args.results {
        let text = batch::to_json_lines(batch.table_lines());
        merge::write_table(path, &text, surroundings)?;
    }
    let results_path = surroundings
        .project
        .relative_path(args.results.as_deref().unwrap_or(&results));
    print_report(&batch, &name, to_do, &stop, &results_path, args, surroundings);
    Ok(batch_exit_code(&batch, &stop, args))
}

/// Runs the ensemble for all rows that have not ended.
async fn drive_rows(
    batch: &mut Batch,
    driving: &BatchOptions,
    mut progress: BatchProgress<'_>,
    args: &BatchArgs,
    surroundings: &CliEnvironment,
) -> Result<BatchEnd, CliError> {
    let mut signals = signals::listen_for_signals();
    let options = || build_options(args, surroundings);
    let stopped = batch
        .run_rows(
            driving,
            options,
            |ended| progress.add_ended(ended),
            signals.wait_for_signal(),
        )
        .await;
    progress.finish_bar();
    Ok(stopped?)
}

fn build_options(args: &BatchArgs, surroundings: &CliEnvironment) -> Result<RunOptions, RunError> {
    match run_options::answering_options(&args.answering, surroundings) {
        Ok(mut options) => {
            options.tracer = surroundings
                .telemetry
                .start_if_wanted(&args.telemetry, |text| surroundings.print_err(text));
            Ok(options.with_durability(args.durability.to_durability()))
        }
        Err(CliError::Run(error)) => Err(error),
        Err(error) => Err(RunError::Stopped(error.to_string())),
    }
}

/// Resolves the meaning of the columns of the rows.
fn resolve_columns(args: &BatchArgs, cells: &[batch::TableRow]) -> Result<ColumnMapping, CliError> {
    let mut columns = ColumnMapping {
        ignored_columns: args.ignore.clone(),
        ..ColumnMapping::default()
    };
    for map in &args.map {
        let Some((input, column)) = map.split_once('=').filter(|(input, _)| !input.is_empty()) else {
            return Err(CliError::usage_error(format!("--map takes INPUT=COLUMN, not `{map}`")));
        };
        columns.input_names.insert(column.to_owned(), input.to_owned());
    }
    let all: std::collections::BTreeSet<&str> = cells
        .iter()
        .flat_map(|row| row.cells.iter().map(|(name, _)| name.as_str()))
        .collect();
    let checked = columns.check_columns(all.iter().copied());
    checked.map_err(|wrong| {
        let all: Vec<&str> = all.into_iter().collect();
        CliError::usage_error_with_help(wrong.join("\n       "), format!("the columns are {}", all.join(", ")))
    })?;
    Ok(columns)
}

/// Returns the inputs and the context that all rows share.
fn shared_row(args: &BatchArgs) -> Result<BatchRow, CliError> {
    let options = run_options::add_set_values(RunOptions::default(), &args.set)?;
    Ok(BatchRow {
        values: options.context,
        texts: options.texts,
        ..BatchRow::default()
    })
}

/// Returns the answers, in a form that is the same when they are.
fn canonical_answers(args: &BatchArgs, surroundings: &CliEnvironment) -> Result<String, CliError> {
    let mut file = None;
    if let Some(path) = &args.answering.answers {
        let source = ensemble_project::project::read_source(&surroundings.project.folder.join(path))?;
        file = Some(source.text().to_string());
    }
    Ok(json!([args.answering.answer, file]).to_string())
}

/// Returns the name of the batch: the one that is given, or one of the ensemble and of the data.
fn batch_name(args: &BatchArgs, ensemble: &str, data: &Path) -> Result<String, CliError> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if let Some(name) = &args.name {
        return match !name.is_empty() && name.len() <= LONGEST_NAME && name.chars().all(is_plain) {
            true => Ok(name.clone()),
            false => Err(CliError::usage_error(format!(
                "`{name}` is not a valid batch name: use at most {LONGEST_NAME} letters from a to z, digits, `-` and `_`"
            ))),
        };
    }
    let data = match data.file_stem().and_then(|stem| stem.to_str()) {
        Some("-") | None => "stdin",
        Some(stem) => stem,
    };
    let name = format!("{ensemble}-{data}");
    let plain = name.chars().map(|letter| if is_plain(letter) { letter } else { '-' });
    Ok(plain.take(LONGEST_NAME).collect())
}

fn print_dry_run(batch: &Batch, name: &str, to_do: usize, args: &BatchArgs, surroundings: &CliEnvironment) -> u8 {
    let text = match args.output {
        OutputForm::Human => format!(
            "{name}: {}, {} to run, {} finished\n",
            format_rows(batch.len()),
            to_do,
            batch.len() - to_do
        ),
        OutputForm::Json => format!("{:#}\n", json!({"batch": name, "rows": batch.len(), "to_run": to_do})),
    };
    surroundings.print_as(args.output, &text);
    exit::SUCCESS
}

fn print_report(
    batch: &Batch,
    name: &str,
    to_do: usize,
    stop: &BatchEnd,
    results: &Path,
    args: &BatchArgs,
    surroundings: &CliEnvironment,
) {
    let outcomes = batch.count_outcomes();
    let finished_count: usize = outcomes
        .iter()
        .filter(|(reason, _)| *reason != CompletionReason::Cancelled)
        .map(|(_, count)| count)
        .sum();
    let remaining_count = batch.len() - finished_count;
    if args.output == OutputForm::Json {
        let by_outcome: serde_json::Map<String, serde_json::Value> = outcomes
            .iter()
            .map(|(reason, count)| (reason.to_string(), json!(count)))
            .collect();
        let document = json!({
            "batch": name,
            "rows": batch.len(),
            "left": remaining_count,
            "outcomes": by_outcome,
            "cost": batch.total_cost(),
            "stopped": match stop {
                BatchEnd::Done => None,
                BatchEnd::CostLimit => Some("max_cost"),
                BatchEnd::StoppedBy(_) => Some("cancelled"),
            },
            "results": results.display().to_string(),
        });
        surroundings.print_as(args.output, &format!("{document:#}\n"));
        return;
    }
    let mut text = format!("{name}: {}", format_rows(batch.len()));
    for (reason, count) in outcomes
        .iter()
        .rev()
        .filter(|(reason, _)| *reason != CompletionReason::Cancelled)
    {
        text.push_str(&format!(", {count} {reason}"));
    }
    if remaining_count > 0 {
        text.push_str(&format!(", {remaining_count} left"));
    }
    text.push('\n');
    let before = batch.len() - to_do;
    if before > 0 {
        text.push_str(&format!("  {} had already ended\n", format_rows(before)));
    }
    if let Some(cost) = batch.total_cost() {
        text.push_str(&format!("  cost {}\n", format_money(cost)));
    }
    text.push_str(&format!("  results: {}\n", results.display()));
    match stop {
        BatchEnd::Done => {}
        BatchEnd::CostLimit => {
            text.push_str("  stopped by --max-cost; to continue, repeat the command with a higher amount\n")
        }
        BatchEnd::StoppedBy(_) => text.push_str("  stopped; to continue, repeat the command\n"),
    }
    let failed = batch
        .table_lines()
        .filter_map(|line| line.entry)
        .find(|entry| !entry.is_success() && !entry.is_resumable());
    if let Some(entry) = failed {
        let folder = surroundings.project.relative_path(&batch.run_folder(entry));
        text.push_str(&format!(
            "  to show a failed run: ensemble runs show {}\n  to run failed rows again, add: --retry failed\n",
            folder.display()
        ));
    }
    surroundings.print_out(&text);
}

/// Returns the exit code: of whoever stopped the work, or of the worst row.
fn batch_exit_code(batch: &Batch, stop: &BatchEnd, args: &BatchArgs) -> u8 {
    if let BatchEnd::StoppedBy(by) = stop {
        return if *by == RunCanceller::Signal { 143 } else { 130 };
    }
    let entries = batch.table_lines().filter_map(|line| line.entry);
    let codes: Vec<u8> = entries
        .map(|entry| {
            let code = run_exit_code(entry.outcome, entry.is_success(), None);
            exit::apply_fail_on_limit(code, args.fail_on_limit && !entry.exhausted.is_empty())
        })
        .collect();
    let worst = [exit::FAILURE, 4, 3, 130].into_iter().find(|code| codes.contains(code));
    match stop {
        BatchEnd::CostLimit => worst.unwrap_or(4),
        _ => worst.unwrap_or(exit::SUCCESS),
    }
}
