//! `ensemble chat`: every line is a user message. The first message starts the conversation, and the others continue it.
//!
//! At a terminal the command shows a prompt. Otherwise the command reads messages from standard input to the end. A chat is a run like
//! any other, with a journal.

use std::pin::Pin;
use std::sync::Arc;

use super::driver::{
    RunEndReporter, UserMessageSource, drive_run_to_end, print_incomplete_record_warning, print_warnings,
};
use super::reporters::{build_display_with_reporter, chosen_verbosity};
use super::run_options;
use crate::command::check::list::no_ensemble_argument_error;
use crate::command::run::arguments::{AnsweringArgs, RunExecutionArgs, RunOutputArgs};
use crate::command::setup::completions;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::runtime::block_on;
use crate::command::shared::surroundings::CliEnvironment;
use crate::terminal::lines::{InputLines, LineRequest};
use clap::{ArgAction, Args};
use ensemble_core::conversation::RunEnded;
use ensemble_language::data::RunContext;
use ensemble_reports::report::{ConsoleWriter, HumanReporter, indent_later_lines};
use ensemble_runs::{EnsembleRef, PreparedEnsemble, ReadyRun, RunOptions, Runs};
use std::path::PathBuf;

/// `ensemble chat`.
#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    /// The ensemble: a file, or a name in `ensembles/` or `.ensemble/ensembles/`
    #[arg(value_name = "FILE|NAME", add = completions::complete_ensembles())]
    pub ensemble: Option<String>,
    /// Continue this run, which must have ended: its id, or the beginning of its id
    #[arg(long, value_name = "RUN", add = completions::complete_runs(), conflicts_with_all = ["ensemble", "set", "context"])]
    pub run: Option<String>,
    /// Continue the latest run
    #[arg(long, conflicts_with_all = ["run", "ensemble", "set", "context"])]
    pub last: bool,
    /// Pass the input KEY; can be repeated. VALUE is JSON, or a string if VALUE is not valid JSON. If the ensemble
    /// declares no inputs, KEY is added to the context
    #[arg(long = "set", value_name = "KEY=VALUE", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Pass each key of this YAML or JSON file as an input. If the ensemble declares no inputs, the keys are added to
    /// the context
    #[arg(long, value_name = "FILE")]
    pub context: Option<PathBuf>,
    /// Answers and models.
    #[command(flatten)]
    pub answering: AnsweringArgs,
    /// Output.
    #[command(flatten)]
    pub showing: RunOutputArgs,
    /// Execution.
    #[command(flatten)]
    pub driving: RunExecutionArgs,
}

/// Quotes that start and end a message of several lines.
const MULTILINE_QUOTES: &str = "\"\"\"";

/// Request for the first line of a message.
const MESSAGE_REQUEST: LineRequest = LineRequest {
    text: "> ",
    is_remembered: true,
};

/// Request for another line of the same message.
const CONTINUATION_REQUEST: LineRequest = LineRequest {
    text: "… ",
    is_remembered: true,
};

/// Text of the chat command `/help`.
const CHAT_HELP: &str = "\
Each line is a message. For a message of several lines, write \"\"\" before and after them.
  /help   show this help
  /bye    end the chat, as Ctrl-D does
Arrow keys edit the message and recall earlier ones. Ctrl-C clears the message.
While an agent answers, Ctrl-C stops the answer; your message stays, and the next one continues the chat.
";

/// Executes `ensemble chat`: starts or continues a run with the messages that the user types. Returns the exit code.
pub(crate) fn run_chat(args: &ChatArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let is_continued = args.run.is_some() || args.last;
    if args.ensemble.is_none() && !is_continued {
        return Err(no_ensemble_argument_error("chat", surroundings));
    }
    let input = ChatInput::new(surroundings);
    let is_prompted = input.is_prompted;
    let showing = build_display_with_reporter(&args.showing, surroundings, &input.lines, |console: &ConsoleWriter| {
        let human = HumanReporter::new(console.clone(), chosen_verbosity(&args.showing));
        if is_prompted { human.for_chat() } else { human }
    })
    .with_limit_refusal(&args.driving);
    let runs = surroundings.runs_with_operator(&showing.operator);
    let options = run_options::run_options(&args.answering, &args.driving, showing, surroundings)?;
    block_on(async {
        let mut ready = match is_continued {
            true => prepare_continued_chat(args.run.as_deref(), &runs, options, surroundings).await?,
            false => prepare_new_chat(args, &runs, options, surroundings)?,
        };
        let simulated = if is_continued { &[] } else { ready.simulated_agents() };
        input.print_greeting(ready.prepared_ensemble(), simulated);
        // Without a message, no run is recorded.
        let Some(first) = input.read_message().await else {
            return Ok(exit::SUCCESS);
        };
        ready.set_input_or_message(first);
        let ending = RunEndReporter::new(&args.driving, &args.showing, surroundings);
        drive_run_to_end(ready, input, ending).await
    })
}

/// Prepares the run of a new chat, and prints the findings about the ensemble.
fn prepare_new_chat(
    args: &ChatArgs,
    runs: &Runs,
    options: RunOptions,
    surroundings: &CliEnvironment,
) -> Result<ReadyRun, CliError> {
    let ensemble_name = args.ensemble.as_deref().unwrap_or_default();
    let prepared = Arc::new(runs.load_prepared_ensemble(&EnsembleRef::from_file_or_name(ensemble_name))?);
    print_warnings(&prepared, &args.showing, surroundings);
    let options = run_options::with_context_and_set_values(options, args.context.as_deref(), &args.set, surroundings)?;
    Ok(runs.prepare_run_from_prepared(prepared, options)?)
}

/// Leases the recorded run and prepares its continuation. Without `run`, continues the latest run.
async fn prepare_continued_chat(
    run: Option<&str>,
    runs: &Runs,
    options: RunOptions,
    surroundings: &CliEnvironment,
) -> Result<ReadyRun, CliError> {
    let leased_run = runs.lease_and_load_run(run).await?;
    let recorded = leased_run.recorded_run();
    if recorded.journal.is_torn {
        print_incomplete_record_warning(recorded.run.run_folder(), surroundings);
    }
    Ok(leased_run.prepare_continuation("", RunContext::default(), options)?)
}

/// Source of chat messages: a user at the terminal, or a file or program at standard input.
struct ChatInput {
    lines: InputLines,
    is_prompted: bool,
    surroundings: CliEnvironment,
}

impl ChatInput {
    /// Creates the source. Prompts are shown if a user types the lines.
    fn new(surroundings: &CliEnvironment) -> Self {
        let lines = InputLines::new(surroundings.streams);
        Self {
            is_prompted: lines.is_interactive(),
            lines,
            surroundings: surroundings.clone(),
        }
    }

    /// Prints the name of the ensemble and a hint about the chat commands, if prompts are shown. `simulated` lists the simulated agents.
    fn print_greeting(&self, prepared: &PreparedEnsemble, simulated: &[Arc<str>]) {
        if !self.is_prompted {
            return;
        }
        let ensemble = prepared.plan.ensemble();
        let heading = match &ensemble.description {
            Some(description) => format!("{}: {}", ensemble.name, indent_later_lines(description)),
            None => ensemble.name.to_string(),
        };
        let simulated = match simulated {
            [] => String::new(),
            agents => format!("simulated: no model is called for {}\n", agents.join(", ")),
        };
        let text = format!("{heading}\n{simulated}Type a message; /help shows the commands, Ctrl-D ends the chat.\n");
        self.surroundings.print_err(&text);
    }

    /// Waits for the next message and returns it. Returns `None` at the end of the input. Executes chat commands such as `/help`.
    async fn read_message(&self) -> Option<Arc<str>> {
        loop {
            if self.is_prompted {
                self.surroundings.print_err("\n");
            }
            let line = self.lines.read_line(MESSAGE_REQUEST).await?;
            let text = match line.trim() {
                "" => continue,
                "/bye" | "/exit" | "/quit" => return None,
                "/help" | "/?" => {
                    self.surroundings.print_err(CHAT_HELP);
                    continue;
                }
                other => match other.strip_prefix(MULTILINE_QUOTES) {
                    Some(begins) => self.read_quoted(begins).await,
                    None => other.to_owned(),
                },
            };
            return Some(text.into());
        }
    }

    /// Reads lines up to the closing quotes or the end of the input, and returns the message. `begins` is the text after the opening quotes.
    async fn read_quoted(&self, begins: &str) -> String {
        if let Some(all) = begins.strip_suffix(MULTILINE_QUOTES) {
            return all.to_owned();
        }
        let mut text = begins.to_owned();
        loop {
            let Some(line) = self.lines.read_line(CONTINUATION_REQUEST).await else {
                return text;
            };
            if !text.is_empty() {
                text.push('\n');
            }
            match line.trim_end().strip_suffix(MULTILINE_QUOTES) {
                Some(last) => {
                    text.push_str(last);
                    return text.trim_end_matches('\n').to_owned();
                }
                None => text.push_str(&line),
            }
        }
    }
}

impl UserMessageSource for ChatInput {
    /// A person at the terminal can continue after a failure, a time-out, and an answer that was stopped, too.
    fn next_message<'a>(&'a mut self, ended: &'a RunEnded) -> Pin<Box<dyn Future<Output = Option<Arc<str>>> + 'a>> {
        Box::pin(async move {
            let is_cut = ended.completion_reason.is_resumable();
            if is_cut && !(self.is_prompted && ended.completion_reason.is_continuable()) {
                return None;
            }
            self.read_message().await
        })
    }

    fn on_messages_finished(&self, run_id: &str) {
        if self.is_prompted {
            let text = format!("\nrecorded; `ensemble chat --run {run_id}` continues this chat\n");
            self.surroundings.print_err(&text);
        }
    }
}
