//! `ensemble chat`: every line is a user message, the first opens the conversation, each of the others continues it.
//!
//! At a terminal it prompts; elsewhere it reads messages from standard input until that ends. What is said is a run
//! like any other, with a journal.

use std::pin::Pin;
use std::sync::Arc;

use super::args::ChatArgs;
use super::drive::{Ending, Messages, drive, show_warnings, warn_of_torn};
use super::error::CliError;
use super::lines::Lines;
use super::runtime::block_on;
use super::shown::{showing_by, verbosity};
use super::surroundings::Surroundings;
use super::{exit, given};
use ensemble_core::conversation::RunEnded;
use ensemble_reports::report::{ConsoleWriter, Human};
use ensemble_runs::{EnsembleRef, Prepared, Ready, RunOptions, Runs};

/// Between these, a message has several lines.
const QUOTES: &str = "\"\"\"";

const HELP: &str = "\
Each line is a message. For a message of several lines, write \"\"\" before and after them.
  /help   this
  /bye    end; so does Ctrl-D
Ctrl-C stops an answer, and with it the conversation; `ensemble resume` goes on with it.
";

/// `ensemble chat`.
pub(super) fn chat(args: &ChatArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let typist = Typist::new(surroundings);
    let is_prompted = typist.is_prompted;
    let showing = showing_by(&args.showing, surroundings, &typist.lines, |console: &ConsoleWriter| {
        let human = Human::new(console.clone(), verbosity(&args.showing));
        if is_prompted { human.for_chat() } else { human }
    });
    let runs = surroundings.runs_with(showing.operator);
    let mut options = given::options(&args.answering, &args.driving, surroundings)?;
    options.reporters.push(showing.reporter);
    options.live_output = showing.live_output;
    block_on(async {
        let mut ready = match &args.run {
            Some(run) => go_on(run, &runs, options, surroundings).await?,
            None => begin(args, &runs, options, surroundings)?,
        };
        let simulated = if args.run.is_some() { &[] } else { ready.simulated() };
        typist.greet(ready.prepared(), simulated);
        // Nothing is left behind if nothing is said.
        let Some(first) = typist.message().await else {
            return Ok(exit::SUCCESS);
        };
        ready.set_input(first);
        let ending = Ending {
            fail_on_limit: args.driving.fail_on_limit,
            showing: &args.showing,
            surroundings,
        };
        drive(ready, typist, ending).await
    })
}

/// A new conversation.
fn begin(
    args: &ChatArgs,
    runs: &Runs,
    mut options: RunOptions,
    surroundings: &Surroundings,
) -> Result<Ready, CliError> {
    let named = args.ensemble.as_deref().unwrap_or_default();
    let prepared = Arc::new(runs.prepare(&EnsembleRef::file(named))?);
    show_warnings(&prepared, &args.showing, surroundings);
    options.context = given::context(args.context.as_deref(), &args.set, surroundings)?;
    Ok(runs.ready_with(prepared, options)?)
}

/// A conversation that has ended is continued.
async fn go_on(run: &str, runs: &Runs, options: RunOptions, surroundings: &Surroundings) -> Result<Ready, CliError> {
    let held = runs.hold(run).await?;
    let recorded = held.recorded();
    if recorded.journal.is_torn {
        warn_of_torn(recorded.run.folder(), surroundings);
    }
    Ok(held.continue_with("", options)?)
}

/// Who types messages, or the file or program that stands in the place.
struct Typist {
    lines: Lines,
    is_prompted: bool,
    surroundings: Surroundings,
}

impl Typist {
    fn new(surroundings: &Surroundings) -> Self {
        let streams = surroundings.streams;
        Self {
            lines: Lines::default(),
            is_prompted: streams.in_is_terminal && streams.err_is_terminal,
            surroundings: surroundings.clone(),
        }
    }

    fn greet(&self, prepared: &Prepared, simulated: &[Arc<str>]) {
        if !self.is_prompted {
            return;
        }
        let ensemble = prepared.plan.ensemble();
        let what = match &ensemble.description {
            Some(description) => format!("{}: {}", ensemble.name, description.trim()),
            None => ensemble.name.to_string(),
        };
        let simulated = match simulated {
            [] => String::new(),
            agents => format!("simulated: no model is asked for {}\n", agents.join(", ")),
        };
        let text = format!("{what}\n{simulated}Say something; /help tells more, Ctrl-D ends.\n");
        self.surroundings.complain(&text);
    }

    /// The next message; nothing at the end.
    async fn message(&self) -> Option<Arc<str>> {
        loop {
            self.prompt("\n> ");
            let line = self.lines.next().await?;
            let text = match line.trim() {
                "" => continue,
                "/bye" | "/exit" | "/quit" => return None,
                "/help" | "/?" => {
                    self.surroundings.complain(HELP);
                    continue;
                }
                other => match other.strip_prefix(QUOTES) {
                    Some(begins) => self.quoted(begins).await,
                    None => other.to_owned(),
                },
            };
            return Some(text.into());
        }
    }

    /// The lines up to the closing quotes.
    async fn quoted(&self, begins: &str) -> String {
        if let Some(all) = begins.strip_suffix(QUOTES) {
            return all.to_owned();
        }
        let mut text = begins.to_owned();
        loop {
            self.prompt("… ");
            let Some(line) = self.lines.next().await else {
                return text;
            };
            if !text.is_empty() {
                text.push('\n');
            }
            match line.trim_end().strip_suffix(QUOTES) {
                Some(last) => {
                    text.push_str(last);
                    return text.trim_end_matches('\n').to_owned();
                }
                None => text.push_str(&line),
            }
        }
    }

    fn prompt(&self, prompt: &str) {
        if self.is_prompted {
            self.surroundings.complain(prompt);
        }
    }
}

impl Messages for Typist {
    /// Whoever sits there goes on after a failure too.
    fn next<'a>(&'a mut self, ended: &'a RunEnded) -> Pin<Box<dyn Future<Output = Option<Arc<str>>> + 'a>> {
        Box::pin(async move {
            if ended.completion_reason.is_resumable() {
                return None;
            }
            self.message().await
        })
    }

    fn farewell(&self, run_id: &str) {
        if self.is_prompted {
            let text = format!("\nrecorded; `ensemble chat --run {run_id}` goes on\n");
            self.surroundings.complain(&text);
        }
    }
}
