//! `ensemble batch`: one run of an ensemble for each row of a table.

mod answer;
mod answers;
mod merge;
pub(crate) mod progress;
mod report;
mod rows;

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::engine::check_support;
use super::run_options;
use crate::command::run::arguments::{AnsweringArgs, DurabilityChoice, TelemetryArgs};
use crate::command::run::batch::answer::BatchAnswerArgs;
use crate::command::run::batch::merge::BatchMergeArgs;
use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::output_form::DocumentFormat;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::CliEnvironment;
use crate::terminal::signals;
use clap::{ArgAction, Args, Subcommand};
use ensemble_core::conversation::CompletionReason;
use ensemble_core::operator::{Operator, UnattendedOperator};
use ensemble_core::secrets::Secrets;
use ensemble_language::data::Cost;
use ensemble_language::ensemble::Ensemble;
use ensemble_models::ModelNetwork;
use ensemble_remote::EngineClient;
use ensemble_runs::batch::BatchShard;
use ensemble_runs::batch::{
    self, Batch, BatchError, BatchOptions, BatchRequest, BatchRow, BatchWorkEnd, ColumnMapping, ExhaustedRowPolicy,
    RetriedRows,
};
use ensemble_runs::{EnsembleRef, RunError, RunOptions, Runs};
use progress::BatchProgressDisplay;
use report::BatchReport;
use rows::row_errors_to_cli_error;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// `ensemble batch`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct BatchArgs {
    /// A command on the results or the rows of batches.
    #[command(subcommand)]
    pub command: Option<BatchSubcommand>,
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
    /// Use this column to name rows in answers and questions; default: the column `id`, if there is one
    #[arg(long, value_name = "COLUMN")]
    pub id: Option<String>,
    /// Pass the input KEY to every run; a column with the same name overrides it. If the ensemble declares no inputs,
    /// KEY is added to the context
    #[arg(long = "set", value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Execute at most N runs in parallel
    #[arg(short, long, default_value_t = NonZeroUsize::new(8).expect("8 is not 0"), value_name = "N")]
    pub jobs: NonZeroUsize,
    /// Also run the rows with this outcome again; can be repeated. `failed` selects all rows that failed or that a limit
    /// cut off
    #[arg(long, value_name = "OUTCOME", value_parser = parse_retry_selection, value_delimiter = ',', action = ArgAction::Append)]
    pub retry: Vec<RetriedRows>,
    /// Run only one part of the rows: 3/8 is the third of eight parts
    #[arg(long, value_name = "3/8")]
    pub shard: Option<BatchShard>,
    /// Start no further run when the rows have cost AMOUNT. All tries of all calls count. AMOUNT has the same unit as
    /// the prices in the model profiles
    #[arg(long, value_name = "AMOUNT", value_parser = parse_cost_limit)]
    pub max_cost: Option<Cost>,
    /// Also write the results to this file. The format is CSV if the name ends with .csv, otherwise JSON Lines
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,
    /// Write the open questions to this CSV file. Fill in the column `answer`, and pass the file to --answers
    #[arg(long, value_name = "FILE")]
    pub questions: Option<PathBuf>,
    /// Without a terminal, print a line with the progress after each DURATION: 30s, 5m
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_log_period)]
    pub log_every: Duration,
    /// Check all rows, print which would run and why, and run none; also while the batch runs
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
    #[arg(long, alias = "format", value_enum, default_value_t = DocumentFormat::Human, value_name = "FORM")]
    pub output: DocumentFormat,
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

impl BatchArgs {
    /// Returns the policy for rows that succeeded with exhausted agents, from `--fail-on-limit`.
    fn exhausted_row_policy(&self) -> ExhaustedRowPolicy {
        match self.fail_on_limit {
            true => ExhaustedRowPolicy::Refused,
            false => ExhaustedRowPolicy::Accepted,
        }
    }
}

/// Commands on the results and the rows of batches.
#[derive(Debug, Subcommand)]
pub(crate) enum BatchSubcommand {
    /// Merge the results of the parts of a batch into one table, sorted by row
    Merge(BatchMergeArgs),
    /// Print the open questions of a batch, or answer the questions of one row
    Answer(Box<BatchAnswerArgs>),
}

/// Parses a value of `--retry`: `failed`, or the name of an outcome.
fn parse_retry_selection(text: &str) -> Result<RetriedRows, String> {
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

/// Parses the value of `--log-every`, a duration above 0.
fn parse_log_period(text: &str) -> Result<Duration, String> {
    let period = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let expected = || "expected a duration above 0, such as 1m".to_owned();
    Some(period).filter(|period| !period.is_zero()).ok_or_else(expected)
}

/// Parses the value of `--max-cost`, a number above 0.
fn parse_cost_limit(text: &str) -> Result<Cost, String> {
    let amount = text
        .parse()
        .ok()
        .filter(|amount: &f64| amount.is_finite() && *amount > 0.0);
    amount
        .map(Cost::from_amount)
        .ok_or_else(|| "expected a number above 0, such as 2.50".to_owned())
}

/// Maximum length of the name of a batch, in characters.
const MAX_NAME_LENGTH: usize = 100;

impl From<BatchError> for CliError {
    fn from(error: BatchError) -> Self {
        match error {
            BatchError::Run(error) => error.into(),
            BatchError::Answers(wrong) => row_errors_to_cli_error(wrong),
            BatchError::Busy { .. } => Self::usage_error_with_help(
                error.to_string(),
                "wait until the other process ends, look at the batch with --dry-run, or name another batch with --name",
            ),
        }
    }
}

/// Executes `ensemble batch` or its subcommand: runs the rows of the table that have a task, and prints a report. Returns the exit code.
pub(crate) fn run_batch(args: &BatchArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    match &args.command {
        Some(BatchSubcommand::Merge(args)) => return merge::merge_result_files(args, surroundings),
        Some(BatchSubcommand::Answer(args)) => return answer::answer_batch_row(args, surroundings),
        None => {}
    }
    let (Some(ensemble), Some(data)) = (&args.ensemble, &args.data) else {
        return Err(CliError::usage_error("expected an ensemble and --data"));
    };
    let operator: Arc<dyn Operator> = Arc::new(UnattendedOperator);
    let unshared = surroundings.runs_with_operator(&operator);
    let runs = Runs::for_project(
        unshared.project().clone(),
        unshared.host().clone().with_shared_model_network(),
    );
    let prepared = Arc::new(runs.load_prepared_ensemble(&EnsembleRef::from_file_or_name(&**ensemble))?);
    if args.on.is_some() {
        check_support(&prepared)?;
    }
    let name = choose_batch_name(args, &prepared.plan.ensemble().name, data)?;
    let secrets = runs.collect_secrets(&prepared)?;
    let request = load_and_check_rows(args, data, &name, (prepared.plan.ensemble(), &secrets), surroundings)?;
    let options = || build_row_options(args, surroundings);
    if args.dry_run {
        let batch = block_on(async { Ok(Batch::open_read_only(&runs, prepared.clone(), request).await?) })?;
        batch.check_answers(options)?;
        write_questions(&batch, args, surroundings)?;
        report::print_dry_run(&batch, &name, args, surroundings);
        return Ok(exit::SUCCESS);
    }
    let mut batch = block_on(async { Ok(Batch::open_for_work(&runs, prepared.clone(), request).await?) })?;
    batch.check_answers(options)?;
    report::print_notes_before_run(&batch, args, surroundings);
    let (ended_before, cost_before) = (report::count_rows_without_task(&batch), batch.total_cost());
    let driving = BatchOptions {
        jobs: args.jobs,
        max_cost: args.max_cost,
        engine: match &args.on {
            Some(url) => {
                let engine = EngineClient::from_url(url)?;
                block_on(async { Ok(engine.clone().with_fast_failures().check_workers().await?) })?;
                Some(Arc::new(engine))
            }
            None => None,
        },
    };
    let network = runs.host().model_network();
    let end = block_on(run_rows_with_progress(
        &mut batch,
        &driving,
        network,
        args,
        surroundings,
    ));
    // What has ended is in the results, also if another row could not begin.
    let results = batch.write_results()?;
    let end = end?;
    if let Some(path) = &args.results {
        let text = batch::to_json_lines(batch.table_lines());
        merge::write_result_table(path, &text, surroundings)?;
    }
    write_questions(&batch, args, surroundings)?;
    for (number, error) in batch.busy_rows() {
        surroundings.print_err(&format!("warning: row {number} did not run: {error}\n"));
    }
    let results_path = args.results.as_deref().unwrap_or(&results);
    let report = BatchReport {
        batch: &batch,
        name: &name,
        end: &end,
        ended_before,
        cost_before,
        results: &surroundings.project.relative_path(results_path),
    };
    report.print(args, surroundings);
    Ok(report::batch_exit_code(&batch, &end, args))
}

/// Loads the rows and the answers, and checks every row against the inputs of the ensemble.
/// Errors are redacted with the secrets.
fn load_and_check_rows<'a>(
    args: &'a BatchArgs,
    data: &Path,
    name: &'a str,
    (ensemble, secrets): (&Ensemble, &Secrets),
    surroundings: &CliEnvironment,
) -> Result<BatchRequest<'a>, CliError> {
    let refuse = |wrong| row_errors_to_cli_error(batch::redact_errors(wrong, secrets));
    let mut table = rows::load_rows(data, surroundings)?;
    let columns = match parse_column_mapping(args, &table.rows) {
        // Columns can be unknown because the table has errors.
        Err(_) if !table.errors.is_empty() => return Err(refuse(std::mem::take(&mut table.errors))),
        columns => columns?,
    };
    let rows = batch::resolve_rows(table, &columns, &parse_shared_values(args)?, ensemble).map_err(refuse)?;
    let answering = &args.answering;
    let answers = answers::load_batch_answer_inputs(answering, args.id.as_deref(), ensemble, surroundings)?;
    Ok(BatchRequest {
        name,
        data: data.display().to_string(),
        rows,
        shard: args.shard,
        models: &answering.model,
        retry: args.retry.clone(),
        limits: args.exhausted_row_policy(),
        answers: answers.common,
        row_answers: answers.rows,
        decides_tools: !answering.allow_tool.is_empty() || !answering.deny_tool.is_empty(),
    })
}

/// Writes the open questions to the CSV file of `--questions`, if the option is set.
fn write_questions(batch: &Batch, args: &BatchArgs, surroundings: &CliEnvironment) -> Result<(), CliError> {
    let Some(path) = &args.questions else { return Ok(()) };
    let failed = |error: std::io::Error| CliError::usage_error(format!("cannot write {}: {error}", path.display()));
    let text = batch.questions_to_csv().map_err(failed)?;
    crate::command::runs::write_private_text(&surroundings.project.folder.join(path), &text).map_err(failed)
}

/// Runs the rows that have a task, and shows the progress. A signal stops the work.
async fn run_rows_with_progress(
    batch: &mut Batch,
    driving: &BatchOptions,
    network: ModelNetwork,
    args: &BatchArgs,
    surroundings: &CliEnvironment,
) -> Result<BatchWorkEnd, CliError> {
    let mut signals = signals::listen_for_signals();
    let (to_do, cost) = (batch.count_rows_to_run(), batch.total_cost());
    let progress = RefCell::new(BatchProgressDisplay::new(to_do, cost, args, network, surroundings));
    let options = || build_row_options(args, surroundings);
    let work = batch.run_rows(
        driving,
        options,
        |ended| progress.borrow_mut().record_row_end(ended),
        signals.wait_for_signal(),
    );
    let mut work = std::pin::pin!(work);
    let first_line = tokio::time::Instant::now() + args.log_every;
    let mut log_times = tokio::time::interval_at(first_line, args.log_every);
    let end = loop {
        tokio::select! {
            end = &mut work => break end,
            _ = log_times.tick() => progress.borrow().print_log_line_without_bar(),
        }
    };
    progress.borrow().clear_bar();
    Ok(end?)
}

/// Builds the options of the run of a row, without the answers for the row.
fn build_row_options(args: &BatchArgs, surroundings: &CliEnvironment) -> Result<RunOptions, RunError> {
    match run_options::answering_options(&answers::without_answers_file(&args.answering), surroundings) {
        Ok(mut options) => {
            options.tracer = surroundings
                .telemetry
                .start_if_wanted(&args.telemetry, |text| surroundings.print_err(text));
            options.refuses_exhausted = args.fail_on_limit;
            Ok(options.with_durability(args.durability.to_durability()))
        }
        Err(CliError::Run(error)) => Err(error),
        Err(error) => Err(RunError::Stopped(error.to_string())),
    }
}

/// Builds the column mapping from `--map`, `--ignore` and `--id`.
///
/// # Errors
/// A value is not `INPUT=COLUMN`, or a column does not exist.
fn parse_column_mapping(args: &BatchArgs, cells: &[batch::TableRow]) -> Result<ColumnMapping, CliError> {
    let mut columns = ColumnMapping {
        ignored_columns: args.ignore.clone(),
        label_column: args.id.clone(),
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
    let checked = columns.check_column_names(all.iter().copied());
    checked.map_err(|wrong| {
        let all: Vec<&str> = all.into_iter().collect();
        CliError::usage_error_with_help(wrong.join("\n       "), format!("the columns are {}", all.join(", ")))
    })?;
    Ok(columns)
}

/// Parses the inputs and the context that all rows share, from `--set`.
fn parse_shared_values(args: &BatchArgs) -> Result<BatchRow, CliError> {
    let options = run_options::with_set_values(RunOptions::default(), &args.set)?;
    Ok(BatchRow {
        values: options.context,
        texts: options.texts,
        ..BatchRow::default()
    })
}

/// Returns the name in `--name`, or a name made from the ensemble and the data.
///
/// # Errors
/// The name in `--name` is too long or contains other characters than letters, digits, `-` and `_`.
fn choose_batch_name(args: &BatchArgs, ensemble: &str, data: &Path) -> Result<String, CliError> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    if let Some(name) = &args.name {
        return match !name.is_empty() && name.len() <= MAX_NAME_LENGTH && name.chars().all(is_plain) {
            true => Ok(name.clone()),
            false => Err(CliError::usage_error(format!(
                "`{name}` is not a valid batch name: use at most {MAX_NAME_LENGTH} letters from a to z, digits, `-` and `_`"
            ))),
        };
    }
    let data = match data.file_stem().and_then(|stem| stem.to_str()) {
        Some("-") | None => "stdin",
        Some(stem) => stem,
    };
    let name = format!("{ensemble}-{data}");
    let plain = name.chars().map(|letter| if is_plain(letter) { letter } else { '-' });
    Ok(plain.take(MAX_NAME_LENGTH).collect())
}
