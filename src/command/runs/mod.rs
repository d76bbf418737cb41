//! `ensemble runs`: lists and examines recorded runs.

mod batches;
mod diff;
mod engine;
pub(super) mod estimate;
mod export;
mod merge;
mod messages;
mod next_message;
mod private_file;
mod prune;
pub(super) mod short_names;
mod show;
mod trace;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, Local, Utc};
use serde_json::json;

use crate::command::runs::short_names::shortest_unique_prefixes;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_core::conversation::{AgentWorkCounts, CompletionReason, ConversationState};
use ensemble_core::store::{RunId, RunStore, StoredRun};
use ensemble_history::story::RunStory;
use ensemble_history::{DriverProcess, RunHistory, RunState, RunSummary};
use ensemble_language::data::{ModelUsage, RunContext};
use ensemble_reports::report::sanitized_writer::{EscapeStyle, TrustedStyle};
use ensemble_runs::batch::BatchSummary;
use ensemble_runs::replay::{ReplaySource, SavedRecords};
use ensemble_runs::start::recorded_run::{find_start_event, load_if_unchanged, load_recorded_ensemble};
use ensemble_runs::store::files::{FileRunStore, read_journal};
use ensemble_runs::{PreparedEnsemble, RunError};

use crate::command::runs::diff::RunsDiffArgs;
use crate::command::runs::engine::{RunsCancelArgs, RunsFetchArgs};
use crate::command::runs::merge::RunsMergeArgs;
use crate::command::runs::prune::RunsPruneArgs;
use crate::command::runs::show::RunsShowArgs;
use crate::command::setup::completions;
use crate::command::shared::output_form::DocumentFormatArgs;
pub(crate) use batches::{find_batch, replay_batch, require_batch};
use clap::{Args, Subcommand, ValueEnum};
pub(crate) use engine::list_paused_calls;
pub(crate) use private_file::write_private_text;
pub(crate) use show::find_driver;

/// `ensemble runs export`.
#[derive(Debug, Args)]
pub(crate) struct RunsExportArgs {
    /// The run: its id, the beginning of its id, or its folder; default: the latest run
    #[arg(value_name = "RUN", add = completions::complete_runs())]
    pub run: Option<String>,
    /// Use the latest run, which is also the default
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
    /// Choose the format of the document
    #[arg(long, alias = "format", value_enum, default_value_t = ExportFormat::Json, value_name = "FORM")]
    pub output: ExportFormat,
    /// Write to this file instead of standard output
    #[arg(short = 'o', long, alias = "out", value_name = "FILE")]
    pub to: Option<PathBuf>,
    /// Add content to the spans: inputs, prompts, replies, tool calls and outputs. Needs --output otlp
    #[arg(long)]
    pub otlp_content: bool,
}

/// The formats of an exported run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ExportFormat {
    /// The result, as `run --output json` prints it.
    #[default]
    Json,
    /// All turns as Markdown, for code hosting sites.
    Markdown,
    /// All turns as one HTML page without other files.
    Html,
    /// An OpenTelemetry trace: OTLP as JSON, or as protobuf if the file ends with `.pb`.
    Otlp,
}

/// `ensemble runs`.
#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List all runs and batches of this project, the latest last
    List(RunsListArgs),
    /// Copy a run from a durable execution engine into this project
    Fetch(RunsFetchArgs),
    /// Cancel a run on a durable execution engine; its records remain, and the run can be resumed
    Cancel(RunsCancelArgs),
    /// Show a run turn by turn: executions, idle agents with reasons, outcome
    Show(RunsShowArgs),
    /// Show the differences between two runs or two batches; exit code 1 if they differ
    Diff(RunsDiffArgs),
    /// Join two runs that begin with the same messages in a new run
    Merge(RunsMergeArgs),
    /// Write a run as one document: JSON, Markdown, HTML or an OpenTelemetry trace
    Export(RunsExportArgs),
    /// Delete old runs and batches, except those in progress and those that can be resumed
    Prune(RunsPruneArgs),
    /// Delete runs
    Rm {
        /// The ids of the runs, or the beginnings of the ids
        #[arg(value_name = "RUN", add = completions::complete_runs(), required_unless_present = "last")]
        runs: Vec<String>,
        /// Delete the latest run
        #[arg(long, conflicts_with = "runs")]
        last: bool,
    },
}

/// `ensemble runs list`.
#[derive(Debug, Args)]
pub(crate) struct RunsListArgs {
    /// The output format.
    #[command(flatten)]
    pub form: DocumentFormatArgs,
    /// List the latest 100 runs on the durable execution engine with this address
    #[arg(long, value_name = "URL")]
    pub on: Option<String>,
    /// Use this admin address of the engine, which reports paused runs; default: port 9070 of the host of --on
    #[arg(long, value_name = "URL", requires = "on")]
    pub admin: Option<String>,
    /// List the runs of the rows of this batch
    #[arg(long, value_name = "NAME", conflicts_with = "on")]
    pub batch: Option<String>,
}

/// Executes a subcommand of `ensemble runs`. Returns the exit code.
pub(crate) fn run_runs_command(command: &RunsCommand, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let store = surroundings.runs_without_operator().store();
    let store = &*store;
    block_on(async {
        match command {
            RunsCommand::List(args) => match &args.on {
                Some(url) => {
                    let admin = args.admin.as_deref();
                    engine::print_engine_runs(url, admin, args.form.is_json(), surroundings).await
                }
                None => match &args.batch {
                    Some(name) => batches::print_batch_rows(name, args.form.is_json(), surroundings),
                    None => print_runs_and_batches(store, args.form.is_json(), surroundings).await,
                },
            },
            RunsCommand::Fetch(args) => engine::fetch_run(args, store, surroundings).await,
            RunsCommand::Cancel(args) => engine::cancel_engine_run(args, surroundings).await,
            RunsCommand::Show(args) => match &args.on {
                Some(url) => engine::print_engine_run(url, args, surroundings).await,
                None => show::show_run(args, store, surroundings).await,
            },
            RunsCommand::Diff(args) => diff::diff_runs(args, surroundings).await,
            RunsCommand::Merge(args) => merge::merge_runs(args, surroundings).await,
            RunsCommand::Export(args) => export::export_run(args, store, surroundings).await,
            RunsCommand::Prune(args) => prune::prune_runs(args, store, surroundings).await,
            RunsCommand::Rm { runs, last } => remove_runs(store, runs, *last, surroundings).await,
        }
    })
}

/// Style of the part of an id that is enough to name the run.
const SHORT_ID_STYLE: TrustedStyle = TrustedStyle::new(anstyle::Style::new().bold());

/// Run in the output of `ensemble runs list`.
struct ListedRun {
    id: RunId,
    ensemble: Arc<str>,
    started_at: DateTime<Utc>,
    state: &'static str,
    process: Option<u32>,
    outcome: Option<CompletionReason>,
    success: Option<bool>,
    detail: Option<String>,
    turns: u32,
    executions: usize,
    failed: usize,
    failed_work: Vec<AgentWorkCounts>,
    usage: ModelUsage,
}

/// Prints all runs of the store and all batches of the project (`ensemble runs list`). Warns about journals that cannot be read.
async fn print_runs_and_batches(
    store: &dyn RunStore,
    as_json: bool,
    surroundings: &CliEnvironment,
) -> Result<u8, CliError> {
    let mut runs = Vec::new();
    for run in store.list_runs().await? {
        // Found before the log is read: everything that another process wrote before its end is read.
        let driver = DriverProcess::from(run.lease_holder_pid());
        match run.read_journal().await {
            Ok(journal) => {
                let summary = RunHistory::from_records(&journal.records).summarize_run(run.id().clone(), driver);
                runs.push(summary.ok_or(RunError::NotBegun)?.into());
            }
            Err(error) => surroundings.print_err(&format!("warning: {error}\n")),
        }
    }
    let batches = batches::load_batches(surroundings)?;
    Ok(print_run_list(
        &runs,
        &batches,
        &store.describe_location(),
        as_json,
        surroundings,
    ))
}

/// Prints the runs and batches as lines or as one JSON document. `place` names the store for an empty list.
fn print_run_list(
    listed: &[ListedRun],
    batches: &[BatchSummary],
    place: &str,
    as_json: bool,
    surroundings: &CliEnvironment,
) -> u8 {
    if as_json {
        let mut document = json!({"version": 1, "runs": listed.iter().map(ListedRun::to_json).collect::<Vec<_>>()});
        if !batches.is_empty() {
            document["batches"] = batches.iter().map(BatchSummary::to_json_without_rows).collect();
        }
        surroundings.print_out_in_format(EscapeStyle::Json, &format!("{document:#}\n"));
        return exit::SUCCESS;
    }
    if listed.is_empty() && batches.is_empty() {
        surroundings.print_err(&format!(
            "there is no run in {}\n",
            surroundings.project.relative_path(place.as_ref()).display()
        ));
    }
    let widest = listed.iter().map(|run| run.ensemble.chars().count()).max().unwrap_or(0);
    let ids: Vec<RunId> = listed.iter().map(|run| run.id.clone()).collect();
    let longest = ids.iter().map(|id| id.as_str().chars().count()).max().unwrap_or(0);
    let runs_with_prefixes = listed.iter().zip(shortest_unique_prefixes(&ids));
    let lines: String = runs_with_prefixes
        .map(|(run, short)| run.to_line(short, longest, widest))
        .collect();
    surroundings.print_out(&lines);
    surroundings.print_out(&batches::render_batches(batches));
    exit::SUCCESS
}

impl From<RunSummary> for ListedRun {
    fn from(summary: RunSummary) -> Self {
        Self {
            id: summary.id,
            ensemble: summary.ensemble,
            started_at: summary.started_at,
            state: summary.state.as_str(),
            process: summary.process,
            outcome: summary.completion_reason,
            success: summary.success,
            detail: summary.detail,
            turns: summary.turns,
            executions: summary.executions,
            failed: summary.failed,
            failed_work: summary.failed_work,
            usage: summary.usage,
        }
    }
}

impl ListedRun {
    /// Converts the run to JSON.
    fn to_json(&self) -> serde_json::Value {
        json!({
            "run_id": self.id,
            "ensemble": self.ensemble,
            "started_at": self.started_at,
            "state": self.state,
            "driver_pid": self.process,
            "completion_reason": self.outcome,
            "success": self.success,
            "detail": self.detail,
            "turn_count": self.turns,
            "executions": self.executions,
            "failed": self.failed,
            "failed_work": self.failed_work,
            "usage": self.usage,
        })
    }

    /// Renders the run as one line. `short` is the part of the id that is enough to name the run.
    /// `longest` and `widest` are the widths of the columns of ids and ensembles.
    fn to_line(&self, short: &str, longest: usize, widest: usize) -> String {
        let when = self.started_at.with_timezone(&Local).format("%Y-%m-%d %H:%M");
        let Self {
            id,
            ensemble,
            state,
            turns,
            executions,
            failed,
            failed_work,
            ..
        } = self;
        let mut notes: Vec<String> = Vec::new();
        if *failed > 0 {
            notes.push(format!("{failed} failed"));
        }
        notes.extend(failed_work.iter().flat_map(AgentWorkCounts::list_failure_sentences));
        let failed = match notes.is_empty() {
            true => String::new(),
            false => format!(" ({})", notes.join(", ")),
        };
        let pad = " ".repeat(longest.saturating_sub(id.as_str().chars().count()));
        let id = mark_id(id, short);
        let is_refused = self.outcome == Some(CompletionReason::Completed) && self.success == Some(false);
        let refusal = if is_refused { " without success" } else { "" };
        format!(
            "{id}{pad}  {when}  {ensemble:widest$}  {state}{refusal}, turns {turns}, executions {executions}{failed}\n"
        )
    }
}

/// Returns the id with its beginning `short` in bold.
fn mark_id(id: &RunId, short: &str) -> String {
    let after = &id.as_str()[short.len()..];
    format!("{SHORT_ID_STYLE}{short}{SHORT_ID_STYLE:#}{after}")
}

/// Finds the run with this id, beginning of an id, or folder. Without an argument, finds the latest run.
async fn find_run_or_latest(
    given: Option<&str>,
    store: &dyn RunStore,
    surroundings: &CliEnvironment,
) -> Result<Arc<dyn StoredRun>, CliError> {
    let Some(run_name) = given else {
        return Ok(store.find_latest_run().await?);
    };
    let path = surroundings.project.folder.join(run_name);
    match FileRunStore::find_run_in_folder(&path).filter(|_| path.is_dir()) {
        Some(run) => Ok(run),
        None => Ok(store.find_run_by_prefix(run_name).await?),
    }
}

/// Record of any form, loaded as a story.
pub(crate) struct OpenedRecord {
    /// Story of the run.
    pub(crate) story: RunStory,
    /// Process that drives the run.
    pub(crate) driver: DriverProcess,
    /// Ensemble of the run, if it is available.
    pub(crate) prepared: Option<PreparedEnsemble>,
    /// Context at the end, if the ensemble is available or the saved result contains the context.
    context: Option<RunContext>,
}

impl OpenedRecord {
    /// Returns the state of the run.
    pub(crate) fn run_state(&self) -> RunState {
        self.story.history.run_state(self.driver)
    }
}

/// Loads the record with this name, or the latest run.
///
/// # Errors
/// There is no such record, or the record cannot be read.
pub(crate) async fn load_record(given: Option<&str>, surroundings: &CliEnvironment) -> Result<OpenedRecord, CliError> {
    let project = &surroundings.project;
    let mut driver = DriverProcess::NoProcess;
    let (journal, prepared) = match surroundings.runs_without_operator().resolve_record(given).await? {
        ReplaySource::Run(run) => {
            driver = show::find_driver(&*run);
            let journal = run.read_journal().await?;
            let prepared = load_recorded_ensemble(&*run, find_start_event(&journal.records)?, project).await;
            (journal, prepared.ok())
        }
        ReplaySource::Journal(path) => {
            let journal = read_journal(&path)?;
            // The file may have been edited since.
            let prepared = load_if_unchanged(find_start_event(&journal.records)?, project);
            (journal, prepared)
        }
        ReplaySource::Result(path) => {
            let saved = SavedRecords::load(&path)?;
            return Ok(OpenedRecord {
                story: RunStory::from_records(&saved.records),
                driver,
                prepared: None,
                context: saved.context,
            });
        }
    };
    let context = match &prepared {
        Some(prepared) => {
            let state = ConversationState::from_records(prepared.plan.clone(), &journal.records);
            Some(RunContext::clone(state.map_err(RunError::from)?.context()))
        }
        None => None,
    };
    Ok(OpenedRecord {
        story: RunStory {
            limits: prepared
                .as_ref()
                .map(|prepared| prepared.plan.ensemble().limits.clone()),
            ..RunStory::from_records(&journal.records)
        },
        driver,
        prepared,
        context,
    })
}

/// Returns an error if the path of the run leads through a symbolic link, because the run would be deleted elsewhere.
fn refuse_symbolic_link(folder: &Path, given: &Path) -> Result<(), CliError> {
    let mut path = folder.to_owned();
    for part in given.components() {
        path.push(part);
        if path.is_symlink() {
            let link = path.strip_prefix(folder).unwrap_or(&path).display();
            let message = format!("`{}` leads through the symbolic link `{link}`", given.display());
            let help = "name the run by its id, in the folder of its project, or by a path without links";
            return Err(CliError::usage_error_with_help(message, help));
        }
    }
    Ok(())
}

/// Deletes the named runs, or the latest run if `last` is set. Prints the id of each deleted run.
async fn remove_runs(
    store: &dyn RunStore,
    runs: &[String],
    last: bool,
    surroundings: &CliEnvironment,
) -> Result<u8, CliError> {
    let mut found_runs = Vec::new();
    if last {
        found_runs.push(store.find_latest_run().await?);
    }
    let project = &surroundings.project;
    let files = FileRunStore::for_project(&project.project_root(&project.folder));
    for run in runs {
        // A slash at its end would follow the link.
        let run_path: PathBuf = Path::new(run).components().collect();
        let run_path = match run_path.components().count() {
            1 if project.folder.join(&run_path).is_symlink() => project.folder.join(run_path),
            1 => run_path,
            _ => project.folder.join(run_path),
        };
        if files.remove_link_to_run(&run_path)? {
            surroundings.print_err(&format!("deleted {run}, which was a symbolic link\n"));
            continue;
        }
        refuse_symbolic_link(&project.folder, Path::new(run))?;
        found_runs.push(store.find_run_by_prefix(run).await?);
    }
    for run in found_runs {
        // A run that another process executes is not deleted.
        let _lease = run.acquire_lease().await?;
        run.remove_run().await?;
        surroundings.print_err(&format!("deleted {}\n", run.id()));
    }
    Ok(exit::SUCCESS)
}
