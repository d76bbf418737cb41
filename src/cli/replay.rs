//! `ensemble replay`: the record answers, every turn is decided again, the first difference is shown.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use super::args::{Output, ReplayArgs};
use super::clock::SystemClock;
use super::error::CliError;
use super::exit;
use super::prepare::{Prepared, prepare};
use super::project::Surroundings;
use super::recordings::Recordings;
use super::resume::recorded_ensemble;
use super::run::showing;
use super::saved::saved_result;
use super::wiring::{Shared, wire};
use ensemble_agents::agent::{RecordedRunner, Recording, Runner};
use ensemble_core::conversation::{ConversationState, Event, MessageAdded, Reason, Record};
use ensemble_core::executor::{Clock, Executor};
use ensemble_core::resolver::{Readiness, readiness};
use ensemble_reports::report::{Reporter, RunResult, Silent, count};
use ensemble_runs::journal::{ComparingLedger, Divergence, Durability, LedgerError, ReadError, RunFolder, Store};

/// `ensemble replay`.
pub(super) fn replay(args: &ReplayArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let (mut recordings, prepared) = open(args, surroundings)?;
    let mut runners = recorded_runners(&prepared, &recordings.recording);
    let told = showing(&args.showing, surroundings);
    if !args.live.is_empty() {
        let shared = Shared::given(
            &args.answering,
            &args.answering.model,
            Durability::None,
            &told,
            &prepared,
            surroundings,
        )?;
        go_live(&mut runners, &prepared, &shared, &args.live)?;
    }
    let is_story = args.showing.verbose || args.showing.output == Output::Events;
    let mut reporter: Box<dyn Reporter + Send> = if is_story { told.reporter } else { Box::new(Silent) };
    let mut state = ConversationState::new(prepared.plan.clone());
    if !is_story && args.showing.output == Output::Human && args.live.is_empty() && !prepared.plan.reads_history() {
        state = state.lean();
    }
    let (outcome, compared) = decide_again(&mut state, &mut recordings, &runners, &mut *reporter)?;
    recordings.done();
    show(&outcome, &state, compared, args, surroundings);
    Ok(match outcome {
        Outcome::Diverged(_) => exit::DIVERGED,
        Outcome::Same | Outcome::Cut { .. } => exit::SUCCESS,
    })
}

/// How a replay ended.
enum Outcome {
    /// Every decision was the same.
    Same,
    /// Every decision was the same as far as the record goes.
    Cut {
        /// The first turn that it does not know.
        turn: u32,
    },
    /// One was not.
    Diverged(Box<Divergence>),
}

/// Decides every turn again; also how many decisions were the same.
fn decide_again(
    state: &mut ConversationState,
    recordings: &mut Recordings,
    runners: &[Arc<dyn Runner>],
    reporter: &mut (dyn Reporter + Send),
) -> Result<(Outcome, u64), CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::Internal(format!("cannot start the runtime: {error}")))?;
    let first = Record {
        seq: 0,
        at: SystemClock.now(),
        event: Event::RunStarted(recordings.started.clone()),
    };
    let mut stands = |record: &Record, state: &mut ConversationState| {
        state.apply(record);
        reporter.report(record, state);
    };
    stands(&first, state);
    recordings.given(|record| stands(record, state))?;
    let mut compared = 0;
    let mut message = None;
    loop {
        let mut ledger = ComparingLedger::new(recordings, state.turn_count());
        let ended = runtime.block_on(async {
            let mut executor = Executor {
                runners: runners.to_vec(),
                ledger: &mut ledger,
                reporter,
                clock: &SystemClock,
                interruptions: super::signals::listen("replay".into()),
                timeout: None,
            };
            if let Some(text) = message.take() {
                executor.commit(state, Event::MessageAdded(MessageAdded { text }))?;
            }
            executor.drive(state).await
        });
        compared += ledger.compared;
        match ended {
            Ok(_) => {}
            Err(LedgerError::EndOfRecord { turn }) => return Ok((Outcome::Cut { turn }, compared)),
            Err(LedgerError::Diverged(divergence)) => return Ok((Outcome::Diverged(divergence), compared)),
            Err(LedgerError::Record(error)) => {
                return Err(match error.downcast::<ReadError>() {
                    Ok(error) => (*error).into(),
                    Err(other) => LedgerError::Record(other).into(),
                });
            }
            Err(error) => return Err(error.into()),
        }
        message = recordings.message();
        if message.is_none() {
            break;
        }
    }
    runtime.shutdown_background();
    Ok((Outcome::Same, compared))
}

fn recorded_runners(prepared: &Prepared, recording: &Recording) -> Vec<Arc<dyn Runner>> {
    let runner: Arc<dyn Runner> = Arc::new(RecordedRunner(recording.clone()));
    vec![runner; prepared.plan.len()]
}

fn go_live(
    runners: &mut [Arc<dyn Runner>],
    prepared: &Prepared,
    shared: &Shared,
    live: &[String],
) -> Result<(), CliError> {
    let mut wired = wire(prepared, shared)?;
    for name in live {
        let Some(id) = prepared.plan.id(name) else {
            return Err(CliError::usage(format!("--live {name}: no agent is called `{name}`")));
        };
        runners[id.index()] = std::mem::replace(&mut wired.runners[id.index()], runners[id.index()].clone());
    }
    Ok(())
}

/// The record and the ensemble that decides about it.
fn open(args: &ReplayArgs, surroundings: &Surroundings) -> Result<(Recordings, Prepared), CliError> {
    let edited = match &args.ensemble {
        Some(given) => Some(prepare(&surroundings.ensemble_file(given)?, surroundings)?),
        None => None,
    };
    match record(args.record.as_deref(), surroundings)? {
        Form::Run(folder) => {
            let recordings = of_journal(&folder.journal(), args, surroundings)?;
            let prepared = match edited {
                Some(prepared) => prepared,
                None => recorded_ensemble(&folder, &recordings.started, surroundings)?,
            };
            Ok((recordings, prepared))
        }
        Form::Journal(path) => {
            let recordings = of_journal(&path, args, surroundings)?;
            let prepared = match edited {
                Some(prepared) => prepared,
                None => {
                    let file = Path::new(&recordings.started.ensemble_file);
                    prepare(&surroundings.relative(file), surroundings)?
                }
            };
            Ok((recordings, prepared))
        }
        Form::Result(path) => {
            let (recordings, name) = saved_result(&path)?;
            let prepared = match (edited, name) {
                (Some(prepared), _) => prepared,
                (None, Some(name)) => prepare(&surroundings.ensemble_file(&name)?, surroundings)?,
                (None, None) => {
                    let message = "a saved result does not hold its ensemble";
                    return Err(CliError::usage_with_help(message, "name it with --ensemble FILE"));
                }
            };
            Ok((recordings, prepared))
        }
    }
}

/// What a journal says, with progress on a terminal where it is long.
fn of_journal(path: &Path, args: &ReplayArgs, surroundings: &Surroundings) -> Result<Recordings, CliError> {
    const LONG: u64 = 16 << 20;
    let length = std::fs::metadata(path).map_or(0, |file| file.len());
    let mut progress = ProgressBar::hidden();
    if length > LONG && surroundings.streams.err_is_terminal && !args.showing.quiet {
        progress = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:40.cyan} {percent}% of {total_bytes} · {eta} left");
        if let Ok(style) = style {
            progress.set_style(style);
        }
    }
    Recordings::of_journal(path, !args.live.is_empty(), progress)
}

/// In which form a record was given.
pub(super) enum Form {
    /// A run's folder.
    Run(RunFolder),
    /// A journal without its folder.
    Journal(PathBuf),
    /// A saved result.
    Result(PathBuf),
}

/// What was given; the latest run if nothing was.
pub(super) fn record(given: Option<&str>, surroundings: &Surroundings) -> Result<Form, CliError> {
    let store = Store::of(&surroundings.project_root(&surroundings.folder));
    let Some(given) = given else {
        return Ok(Form::Run(store.last()?));
    };
    let path = surroundings.folder.join(given);
    if path.is_dir() {
        return RunFolder::at(&path)
            .map(Form::Run)
            .ok_or_else(|| CliError::usage(format!("{given} holds no journal.jsonl")));
    }
    if path.is_file() {
        let folder = path.parent().and_then(RunFolder::at);
        return Ok(match (path.extension().and_then(|end| end.to_str()), folder) {
            (Some("jsonl"), Some(folder)) if folder.journal() == path && folder.ensemble().is_file() => {
                Form::Run(folder)
            }
            (Some("jsonl"), _) => Form::Journal(path),
            _ => Form::Result(path),
        });
    }
    Ok(Form::Run(store.find(given)?))
}

fn show(outcome: &Outcome, state: &ConversationState, compared: u64, args: &ReplayArgs, surroundings: &Surroundings) {
    match args.showing.output {
        Output::Human => surroundings.print(&told(outcome, state, compared, args.showing.quiet)),
        Output::Json => surroundings.print(&document(outcome, state)),
        Output::Events => surroundings.complain(&told(outcome, state, compared, args.showing.quiet)),
    }
}

fn told(outcome: &Outcome, state: &ConversationState, compared: u64, quiet: bool) -> String {
    match outcome {
        Outcome::Same | Outcome::Cut { .. } if quiet => String::new(),
        Outcome::Same => format!(
            "✓ the same: {} in {}\n",
            count(compared, "decision"),
            count(state.turn_count().into(), "turn")
        ),
        Outcome::Cut { turn } => {
            format!("✓ the same as far as the record goes: it ends before turn {turn}\n")
        }
        Outcome::Diverged(divergence) => {
            let mut text = format!(
                "✗ diverged in turn {}\n  recorded  {}\n  decided   {}\n",
                divergence.turn, divergence.recorded, divergence.decided
            );
            for (agent, reason) in why_not(divergence, state) {
                text.push_str(&format!("  {agent} does not run: {reason}\n"));
            }
            text
        }
    }
}

/// Why recorded agents do not run now.
fn why_not(divergence: &Divergence, state: &ConversationState) -> Vec<(String, Reason)> {
    let plan = state.plan();
    let decided: Vec<&str> = divergence.decided.split(", ").collect();
    let missing = divergence.recorded.split(", ").filter(|agent| !decided.contains(agent));
    let reason = |agent: &str| match readiness(plan, state, plan.id(agent)?) {
        Ok(Readiness::NotReady(reason)) => Some((agent.to_owned(), reason)),
        _ => None,
    };
    missing.filter_map(reason).collect()
}

fn document(outcome: &Outcome, state: &ConversationState) -> String {
    let mut document = serde_json::to_value(RunResult(state)).unwrap_or_default();
    if let (Value::Object(document), Outcome::Diverged(divergence)) = (&mut document, outcome) {
        document.insert("completion_reason".into(), json!("diverged"));
        document.insert("divergence".into(), json!(divergence));
    }
    let mut text = serde_json::to_string_pretty(&document).unwrap_or_default();
    text.push('\n');
    text
}
