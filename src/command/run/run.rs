//! `ensemble run`: one conversation from input to outcome.

use std::path::Path;
use std::sync::Arc;

use super::driver::{CommandLineMessages, RunEndReporter, drive_run_to_end, print_condition_error, print_warnings};
use super::engine;
use super::run_options;
use crate::command::check::list::no_ensemble_argument_error;
use crate::command::run::RunArgs;
use crate::command::run::arguments::{RunOutputArgs, RunOutputFormat};
use crate::command::run::reporters::build_engine_run_display;
use crate::command::serve::ui;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_core::resolver::NextDecision;
use ensemble_runs::{EnsembleRef, PreparedEnsemble, ReadyRun};

/// Executes `ensemble run`: prepares the ensemble and drives a run to its end. Returns the exit code.
pub(crate) fn run_ensemble(args: &RunArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let Some(ensemble) = args.ensemble.as_deref() else {
        return Err(no_ensemble_argument_error("run", surroundings));
    };
    let showing =
        build_engine_run_display(args.on.as_deref(), &args.showing, surroundings).with_limit_refusal(&args.driving);
    let (runs, page_token) = match args.ui {
        true => {
            // What the page goes on with is given the same servers.
            let servers = run_options::load_mcp_servers(args.answering.mcp_config.as_deref(), surroundings)?;
            let (runs, token) = ui::with_redacted_token(surroundings.runs_for_clients(servers))?;
            (runs, Some(token))
        }
        false => (surroundings.runs_with_operator(&showing.operator), None),
    };
    let prepared = Arc::new(runs.load_prepared_ensemble(&EnsembleRef::from_file_or_name(ensemble))?);
    print_warnings(&prepared, &args.showing, surroundings);
    print_other_project_root(&prepared, &args.showing, surroundings);
    if let Some(url) = &args.on {
        return engine::run_on_engine(url, args, &runs, prepared, showing, surroundings);
    }
    let mut options = run_options::run_options(&args.answering, &args.driving, showing, surroundings)?;
    options.input = args
        .input
        .as_deref()
        .map(|given| run_options::read_text_argument(given, surroundings))
        .transpose()?;
    let options = run_options::with_context_and_set_values(options, args.context.as_deref(), &args.set, surroundings)?;
    let options = run_options::with_stubs_and_responders(options, &args.stub, &args.respond, surroundings)?;
    let ready = runs.prepare_run_from_prepared(prepared, options)?;
    if args.dry_run {
        return print_first_decision(&ready, &args.showing, surroundings);
    }
    let messages: CommandLineMessages = args.then.iter().map(|text| text.as_str().into()).collect();
    let ending = RunEndReporter::new(&args.driving, &args.showing, surroundings);
    if let Some(token) = page_token {
        return block_on(ui::run_with_page(ready, (runs, token), args.port, ending));
    }
    block_on(drive_run_to_end(ready, messages, ending))
}

/// Prints a note with the project root of the run, if the root is not the folder of the caller.
fn print_other_project_root(prepared: &PreparedEnsemble, args: &RunOutputArgs, surroundings: &CliEnvironment) {
    let canonical = |folder: &Path| folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    let root = canonical(&prepared.root);
    if !args.quiet && root != canonical(&surroundings.project.folder) {
        surroundings.print_err(&format!("note: the project root is {}\n", root.display()));
    }
}

/// Prints the agents that would run first, and the reasons why other agents would not run. Returns the exit code.
fn print_first_decision(ready: &ReadyRun, args: &RunOutputArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let decision = ready.preview_first_decision()?;
    let text = match (&decision, args.output) {
        (NextDecision::StartTurn(turn), RunOutputFormat::Human) => {
            let mut text = String::from("agents that would run in turn 1:\n");
            for start in &turn.starts {
                text.push_str(&format!("  {}\n", start.agent));
            }
            if !turn.waiting.is_empty() {
                text.push_str("agents that would not run yet:\n");
            }
            for waiting in &turn.waiting {
                text.push_str(&format!("  {}: {}\n", waiting.agent, waiting.reason));
            }
            text
        }
        (NextDecision::StartTurn(turn), _) => format!("{}\n", serde_json::to_string(turn).unwrap_or_default()),
        (NextDecision::End(ended), RunOutputFormat::Human) => {
            format!("nothing would run: {}\n", ended.completion_reason)
        }
        (NextDecision::End(ended), _) => format!("{}\n", serde_json::to_string(ended).unwrap_or_default()),
        (NextDecision::Perform | NextDecision::FinishTurn(_), _) => String::new(),
    };
    surroundings.print_out_in_format(args.output, &text);
    Ok(match &decision {
        NextDecision::End(ended) => {
            print_condition_error(ended, ready.prepared_ensemble(), surroundings);
            exit::exit_code_for_end(ended, None, false)
        }
        _ => exit::SUCCESS,
    })
}
