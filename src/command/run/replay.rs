//! `ensemble replay`: repeats every decision of a record with the recorded results, and shows the first difference.

use std::path::Path;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use super::run_options;
use crate::command::run::arguments::{AnsweringArgs, RunOutputArgs, RunOutputFormat};
use crate::command::run::reporters::build_display;
use crate::command::runs::{find_batch, replay_batch};
use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::CliEnvironment;
use crate::terminal::signals;
use clap::Args;
use ensemble_core::conversation::ConversationState;
use ensemble_core::store::Durability;
use ensemble_reports::report::{RunResult, format_count};
use ensemble_runs::RunOptions;
use ensemble_runs::batch::BatchSummary;
use ensemble_runs::replay::{LogPositionCallback, ReplayOptions, ReplayOutcome, ReplayResult, ReplaySource};

/// `ensemble replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// A run id or its beginning, a journal, the folder of a run, a saved result, or the name of a batch
    #[arg(value_name = "RECORD", add = completions::complete_runs(), required_unless_present = "last")]
    pub record: Option<String>,
    /// Use the latest run
    #[arg(long, conflicts_with = "record")]
    pub last: bool,
    /// Use this ensemble instead of the recorded one
    #[arg(long, value_name = "FILE|NAME", add = completions::complete_ensembles())]
    pub ensemble: Option<String>,
    /// Execute these agents instead of reading their outputs from the record
    #[arg(long, value_name = "AGENT", add = completions::complete_agents(), value_delimiter = ',')]
    pub live: Vec<String>,
    /// Answers and models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// Output.
    #[command(flatten)]
    pub showing: RunOutputArgs,
}

/// Executes `ensemble replay` for a run, a journal, a saved result or a batch. Returns the exit code.
pub(crate) fn replay_record(args: &ReplayArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    if let Some(batch) = args
        .record
        .as_deref()
        .map(|record| find_batch(record, surroundings))
        .transpose()?
        .flatten()
    {
        return replay_all_rows(&batch, args, surroundings);
    }
    let showing = build_display(&args.showing, surroundings);
    let runs = surroundings.runs_with_operator(&showing.operator);
    let mut run = match args.live.is_empty() {
        true => RunOptions::default(),
        false => run_options::answering_options(&args.answering, surroundings)?.with_durability(Durability::None),
    };
    run.live_output = showing.live_output;
    let is_story = args.showing.verbose || args.showing.output == RunOutputFormat::Events;
    if is_story {
        run.reporters.push(showing.reporter);
    }
    let replayed = block_on(async {
        let record = runs.resolve_record(args.record.as_deref()).await?;
        let bar = progress_bar_for_long_record(&record, args, surroundings);
        let options = ReplayOptions {
            ensemble: args.ensemble.clone(),
            live: args.live.clone(),
            run,
            keeps_history: is_story || args.showing.output != RunOutputFormat::Human,
            progress: bar.as_ref().map(|bar| {
                let bar = bar.clone();
                Box::new(move |position| bar.set_position(position)) as Box<LogPositionCallback>
            }),
            interruptions: Some(signals::listen_for_signals().into_interruptions()),
        };
        let replayed = runs.replay_record(record, options).await;
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        Ok(replayed?)
    })?;
    let words = render_replay_result(&replayed, args.showing.quiet);
    match args.showing.output {
        RunOutputFormat::Human => surroundings.print_out(&words),
        RunOutputFormat::Json => surroundings.print_out_in_format(
            RunOutputFormat::Json,
            &replay_to_json(&replayed.outcome, &replayed.state),
        ),
        RunOutputFormat::Events => surroundings.print_err(&words),
    }
    Ok(match replayed.outcome {
        ReplayOutcome::Diverged(_) => exit::DIVERGED,
        ReplayOutcome::Same | ReplayOutcome::CutShort { .. } => exit::SUCCESS,
    })
}

/// Replays the runs of all rows of a batch, and prints the results. Returns the exit code.
///
/// # Errors
/// The options are for one run.
fn replay_all_rows(batch: &BatchSummary, args: &ReplayArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    if !args.live.is_empty() || args.showing.output == RunOutputFormat::Events {
        let message = format!(
            "`{}` is a batch: --live and --output events are for one run",
            batch.name
        );
        let help = format!(
            "replay the run of one row; `ensemble runs list --batch {}` lists them",
            batch.name
        );
        return Err(CliError::usage_error_with_help(message, help));
    }
    let runs = surroundings.runs_without_operator();
    let as_json = args.showing.output == RunOutputFormat::Json;
    block_on(replay_batch(
        batch,
        args.ensemble.as_deref(),
        as_json,
        (&runs, surroundings),
    ))
}

/// Creates a progress bar in bytes. Returns `None` for a short record, a quiet command, or without a terminal.
fn progress_bar_for_long_record(
    record: &ReplaySource,
    args: &ReplayArgs,
    surroundings: &CliEnvironment,
) -> Option<ProgressBar> {
    const LONG: u64 = 16 << 20;
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    let length = match record {
        ReplaySource::Run(run) => run
            .run_folder()
            .map_or(0, |folder| length(&folder.join("journal.jsonl"))),
        ReplaySource::Journal(path) => length(path),
        ReplaySource::Result(_) => 0,
    };
    if length <= LONG || !surroundings.streams.err_is_terminal || args.showing.quiet {
        return None;
    }
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:40.cyan} {percent}% of {total_bytes} · {eta} left");
    Some(match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    })
}

/// Renders the result of the replay. With `quiet`, renders only a divergence.
fn render_replay_result(replayed: &ReplayResult, quiet: bool) -> String {
    match &replayed.outcome {
        ReplayOutcome::Same | ReplayOutcome::CutShort { .. } if quiet => String::new(),
        ReplayOutcome::Same => format!(
            "✓ the same: {} in {}\n",
            format_count(replayed.equal_decisions, "decision"),
            format_count(replayed.state.finished_turn_count().into(), "turn")
        ),
        ReplayOutcome::CutShort { turn } => {
            format!("✓ the same up to the end of the record, which ends before turn {turn}\n")
        }
        ReplayOutcome::Diverged(divergence) => {
            let mut text = format!(
                "✗ diverged in turn {}\n  recorded  {}\n  decided   {}\n",
                divergence.turn, divergence.recorded, divergence.decided
            );
            for (agent, failure) in replayed.list_live_failures() {
                let error = failure.error.trim_end().replace('\n', "\n    ");
                text.push_str(&format!("  {agent} failed when it was executed: {error}\n"));
            }
            for (agent, reason) in replayed.list_missing_agent_reasons() {
                text.push_str(&format!("  {agent} does not run: {reason}\n"));
            }
            text
        }
    }
}

/// Converts the outcome of the replay and the state of the run to a JSON document.
fn replay_to_json(outcome: &ReplayOutcome, state: &ConversationState) -> String {
    let mut document = serde_json::to_value(RunResult(state)).unwrap_or_default();
    if let (Value::Object(document), ReplayOutcome::Diverged(divergence)) = (&mut document, outcome) {
        document.insert("completion_reason".into(), json!("diverged"));
        document.insert("divergence".into(), json!(divergence));
    }
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}
