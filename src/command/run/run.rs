//! `ensemble run`: one conversation from input to outcome.

use std::sync::Arc;

use super::driver::{Ending, QueuedMessages, drive, print_condition_error, show_warnings};
use super::engine;
use super::run_options;
use crate::command::check::list::none_named;
use crate::command::run::RunArgs;
use crate::command::run::arguments::{Output, ShowingArgs};
use crate::command::run::reporters::showing_on;
use crate::command::serve::ui;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::Surroundings;
use ensemble_core::resolver::Decision;
use ensemble_runs::{EnsembleRef, Ready};

/// `ensemble run`.
pub(crate) fn run(args: &RunArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let Some(ensemble) = args.ensemble.as_deref() else {
        return Err(none_named("run", surroundings));
    };
    let showing = showing_on(args.on.as_deref(), &args.showing, surroundings);
    let runs = match args.ui {
        true => {
            // What the page goes on with is given the same servers.
            let servers = run_options::servers(args.answering.mcp_config.as_deref(), surroundings)?;
            surroundings.runs_for_clients(servers)
        }
        false => surroundings.runs_with(&showing.operator),
    };
    let prepared = Arc::new(runs.prepare(&EnsembleRef::file(ensemble))?);
    show_warnings(&prepared, &args.showing, surroundings);
    if let Some(url) = &args.on {
        return engine::run(url, args, &runs, prepared, showing, surroundings);
    }
    let mut options = run_options::options(&args.answering, &args.driving, showing, surroundings)?;
    options.input = args
        .input
        .as_deref()
        .map(|given| run_options::text(given, surroundings))
        .transpose()?;
    let options = run_options::with_values(options, args.context.as_deref(), &args.set, surroundings)?;
    let options = run_options::with_substitutes(options, &args.stub, &args.respond, surroundings)?;
    let ready = runs.ready_with(prepared, options)?;
    if args.dry_run {
        return dry_run(&ready, &args.showing, surroundings);
    }
    let messages: QueuedMessages = args.then.iter().map(|text| text.as_str().into()).collect();
    let ending = Ending::new(&args.driving, &args.showing, surroundings);
    if args.ui {
        return block_on(ui::run_beside_page(ready, runs, args.port, ending));
    }
    block_on(drive(ready, messages, ending))
}

/// Prints which agents would run first, and why the others would not.
fn dry_run(ready: &Ready, args: &ShowingArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let decision = ready.preview()?;
    let text = match (&decision, args.output) {
        (Decision::StartTurn(turn), Output::Human) => {
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
        (Decision::StartTurn(turn), _) => format!("{}\n", serde_json::to_string(turn).unwrap_or_default()),
        (Decision::End(ended), Output::Human) => format!("nothing would run: {}\n", ended.completion_reason),
        (Decision::End(ended), _) => format!("{}\n", serde_json::to_string(ended).unwrap_or_default()),
        (Decision::Perform | Decision::FinishTurn(_), _) => String::new(),
    };
    surroundings.print_as(args.output, &text);
    Ok(match &decision {
        Decision::End(ended) => {
            print_condition_error(ended, ready.prepared(), surroundings);
            exit::of_run(ended.completion_reason, None, false)
        }
        _ => exit::SUCCESS,
    })
}
