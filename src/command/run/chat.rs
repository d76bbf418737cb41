//! `ensemble chat`: every line is a user message. The first message starts the conversation, the others continue it.
//!
//! At a terminal it shows a prompt; otherwise it reads messages from standard input to the end. A chat is a run like
//! any other, with a journal.

use std::pin::Pin;
use std::sync::Arc;

use super::driver::{Ending, Messages, drive, show_warnings, warn_incomplete_record};
use super::reporters::{showing_by, verbosity};
use super::run_options;
use crate::command::check::list::none_named;
use crate::command::run::arguments::{AnsweringArgs, DrivingArgs, ShowingArgs};
use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::Surroundings;
use crate::terminal::lines::{Lines, Prompt};
use clap::{ArgAction, Args};
use ensemble_core::conversation::RunEnded;
use ensemble_language::data::Context;
use ensemble_reports::report::{ConsoleWriter, Human, hanging};
use ensemble_runs::{EnsembleRef, Prepared, Ready, RunOptions, Runs};
use std::path::PathBuf;

/// `ensemble chat`.
#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The ensemble: a file, or the name of an ensemble in `ensembles/` or `.ensemble/ensembles/`
    #[arg(value_name = "FILE|NAME", add = completions::ensembles())]
    pub ensemble: Option<String>,
    /// Continue this run, which has ended: its id, or the beginning of its id
    #[arg(long, value_name = "RUN", add = completions::runs(), conflicts_with_all = ["ensemble", "set", "context"])]
    pub run: Option<String>,
    /// Continue the latest run
    #[arg(long, conflicts_with_all = ["run", "ensemble", "set", "context"])]
    pub last: bool,
    /// Give the input KEY, or add KEY to the context if the ensemble declares no inputs; VALUE is JSON, or a string if it
    /// is not valid JSON
    #[arg(long = "set", value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Give every key of this YAML or JSON file as an input, or add it to the context
    #[arg(long, value_name = "FILE")]
    pub context: Option<PathBuf>,
    /// Answers and models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// Output.
    #[command(flatten)]
    pub showing: ShowingArgs,
    /// Execution.
    #[command(flatten)]
    pub driving: DrivingArgs,
}

/// The line that starts and ends a message of several lines.
const QUOTES: &str = "\"\"\"";

/// The prompt of a message.
const MESSAGE: Prompt = Prompt {
    text: "> ",
    is_remembered: true,
};

/// The prompt of another line of the same message.
const CONTINUED: Prompt = Prompt {
    text: "… ",
    is_remembered: true,
};

const HELP: &str = "\
Each line is a message. For a message of several lines, write \"\"\" before and after them.
  /help   show this help
  /bye    end the chat, as Ctrl-D does
Arrow keys edit the message and recall earlier ones. Ctrl-C clears the message.
While an agent answers, Ctrl-C stops the answer; your message stays, and the next one continues the chat.
";

/// `ensemble chat`.
pub(crate) fn chat(args: &ChatArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let is_continued = args.run.is_some() || args.last;
    if args.ensemble.is_none() && !is_continued {
        return Err(none_named("chat", surroundings));
    }
    let input = ChatInput::new(surroundings);
    let is_prompted = input.is_prompted;
    let showing = showing_by(&args.showing, surroundings, &input.lines, |console: &ConsoleWriter| {
        let human = Human::new(console.clone(), verbosity(&args.showing));
        if is_prompted { human.for_chat() } else { human }
    });
    let runs = surroundings.runs_with(&showing.operator);
    let options = run_options::options(&args.answering, &args.driving, showing, surroundings)?;
    block_on(async {
        let mut ready = match is_continued {
            true => continue_run(args.run.as_deref(), &runs, options, surroundings).await?,
            false => begin(args, &runs, options, surroundings)?,
        };
        let simulated = if is_continued { &[] } else { ready.simulated() };
        input.greet(ready.prepared(), simulated);
        // Without a message, no run is recorded.
        let Some(first) = input.message().await else {
            return Ok(exit::SUCCESS);
        };
        ready.set_input(first);
        let ending = Ending::new(&args.driving, &args.showing, surroundings);
        drive(ready, input, ending).await
    })
}

/// Prepares a new conversation.
fn begin(args: &ChatArgs, runs: &Runs, options: RunOptions, surroundings: &Surroundings) -> Result<Ready, CliError> {
    let named = args.ensemble.as_deref().unwrap_or_default();
    let prepared = Arc::new(runs.prepare(&EnsembleRef::file(named))?);
    show_warnings(&prepared, &args.showing, surroundings);
    let options = run_options::with_values(options, args.context.as_deref(), &args.set, surroundings)?;
    Ok(runs.ready_with(prepared, options)?)
}

/// Prepares to continue a conversation that has ended.
async fn continue_run(
    run: Option<&str>,
    runs: &Runs,
    options: RunOptions,
    surroundings: &Surroundings,
) -> Result<Ready, CliError> {
    let held = runs.hold(run).await?;
    let recorded = held.recorded();
    if recorded.journal.is_torn {
        warn_incomplete_record(recorded.run.folder(), surroundings);
    }
    Ok(held.continue_with("", Context::default(), options)?)
}

/// The source of messages: a person at the terminal, or a file or program at standard input.
struct ChatInput {
    lines: Lines,
    is_prompted: bool,
    surroundings: Surroundings,
}

impl ChatInput {
    fn new(surroundings: &Surroundings) -> Self {
        let lines = Lines::of(surroundings.streams);
        Self {
            is_prompted: lines.are_typed(),
            lines,
            surroundings: surroundings.clone(),
        }
    }

    fn greet(&self, prepared: &Prepared, simulated: &[Arc<str>]) {
        if !self.is_prompted {
            return;
        }
        let ensemble = prepared.plan.ensemble();
        let what = match &ensemble.description {
            Some(description) => format!("{}: {}", ensemble.name, hanging(description)),
            None => ensemble.name.to_string(),
        };
        let simulated = match simulated {
            [] => String::new(),
            agents => format!("simulated: no model is called for {}\n", agents.join(", ")),
        };
        let text = format!("{what}\n{simulated}Type a message; /help shows the commands, Ctrl-D ends the chat.\n");
        self.surroundings.print_err(&text);
    }

    /// The next message; `None` at the end of the input.
    async fn message(&self) -> Option<Arc<str>> {
        loop {
            if self.is_prompted {
                self.surroundings.print_err("\n");
            }
            let line = self.lines.next(MESSAGE).await?;
            let text = match line.trim() {
                "" => continue,
                "/bye" | "/exit" | "/quit" => return None,
                "/help" | "/?" => {
                    self.surroundings.print_err(HELP);
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
            let Some(line) = self.lines.next(CONTINUED).await else {
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
}

impl Messages for ChatInput {
    /// A person at the terminal can continue after a failure, a time-out, and an answer that was stopped, too.
    fn next<'a>(&'a mut self, ended: &'a RunEnded) -> Pin<Box<dyn Future<Output = Option<Arc<str>>> + 'a>> {
        Box::pin(async move {
            let is_cut = ended.completion_reason.is_resumable();
            if is_cut && !(self.is_prompted && ended.completion_reason.is_continuable()) {
                return None;
            }
            self.message().await
        })
    }

    fn finish(&self, run_id: &str) {
        if self.is_prompted {
            let text = format!("\nrecorded; `ensemble chat --run {run_id}` continues this chat\n");
            self.surroundings.print_err(&text);
        }
    }
}
