//! Reporter, receiver of live output and operator of a run, from the options of a command.

use std::sync::Arc;

use crate::command::run::arguments::{RunExecutionArgs, RunOutputArgs, RunOutputFormat};
use crate::command::shared::surroundings::CliEnvironment;
use crate::terminal::lines::InputLines;
use crate::terminal::operator::TerminalOperator;
use ensemble_core::operator::{Operator, UnattendedOperator};
use ensemble_core::thread::LiveOutputReceiver;
use ensemble_reports::report::sanitized_writer::EscapeStyle;
use ensemble_reports::report::{
    self, ConsoleWriter, FailOnLimitReporter, HumanReporter, JsonEventPrinter, NoReporter, OutputVerbosity, Reporter,
};

/// Reporter, receiver of live output and operator of a run.
pub(crate) struct RunDisplay {
    /// Reporter of the events.
    pub(crate) reporter: Box<dyn Reporter + Send>,
    /// Receiver of live output, which gets replies while they arrive.
    pub(crate) live_output: Option<Arc<dyn LiveOutputReceiver>>,
    /// Printer of events, if the command prints events.
    pub(crate) events: Option<JsonEventPrinter>,
    /// Operator that answers questions.
    pub(crate) operator: Arc<dyn Operator>,
}

impl RunDisplay {
    /// Makes the reporter treat a success with exhausted agents as a failure, if `--fail-on-limit` is set.
    #[must_use]
    pub(crate) fn with_limit_refusal(self, driving: &RunExecutionArgs) -> Self {
        match driving.fail_on_limit {
            true => Self {
                reporter: Box::new(FailOnLimitReporter::new(self.reporter)),
                ..self
            },
            false => self,
        }
    }
}

/// Builds the reporter, the receiver of live output and the operator from the output options.
pub(crate) fn build_display(args: &RunOutputArgs, surroundings: &CliEnvironment) -> RunDisplay {
    build_engine_run_display(None, args, surroundings)
}

/// Builds the display of a run on the engine with this address, or of a local run if `url` is `None`.
pub(crate) fn build_engine_run_display(
    url: Option<&str>,
    args: &RunOutputArgs,
    surroundings: &CliEnvironment,
) -> RunDisplay {
    let human =
        |console: &ConsoleWriter| HumanReporter::new(console.clone(), chosen_verbosity(args)).with_engine_url(url);
    build_display_with_reporter(args, surroundings, &InputLines::new(surroundings.streams), human)
}

/// Builds a display with the human reporter of the function `human`, and with lines of standard input that another reader shares.
pub(crate) fn build_display_with_reporter(
    args: &RunOutputArgs,
    surroundings: &CliEnvironment,
    lines: &InputLines,
    human: impl FnOnce(&ConsoleWriter) -> HumanReporter,
) -> RunDisplay {
    let streams = surroundings.streams;
    let mut asks_on = None;
    let mut events = None;
    let mut live_output: Option<Arc<dyn LiveOutputReceiver>> = None;
    let reporter: Box<dyn Reporter + Send> = match args.output {
        RunOutputFormat::Json => Box::new(NoReporter),
        RunOutputFormat::Events => Box::new(
            events
                .insert(JsonEventPrinter::new(streams.out_in_format(EscapeStyle::Json)))
                .clone(),
        ),
        RunOutputFormat::Human => {
            let show = streams.err_is_terminal && !args.quiet;
            let showing = report::ConsoleOptions {
                progress: show,
                live: show && streams.out_is_terminal,
                has_one_reader: streams.are_out_and_err_same_file(),
                whole: args.verbose,
                out_width: streams.out_width(),
                err_width: streams.err_width(),
            };
            // What is printed alone is a result, which may go into a file or to another program.
            let spelling = if args.quiet {
                EscapeStyle::Exact
            } else {
                EscapeStyle::Text
            };
            let console = ConsoleWriter::new(streams.out_in_format(spelling), streams.human_err(), showing);
            asks_on = Some(console.clone());
            live_output = Some(Arc::new(console.clone()));
            Box::new(human(&console))
        }
    };
    let operator: Arc<dyn Operator> = if lines.is_interactive() {
        Arc::new(TerminalOperator::new(
            streams,
            asks_on,
            lines.clone(),
            surroundings.user.clone(),
        ))
    } else {
        Arc::new(UnattendedOperator)
    };
    RunDisplay {
        reporter,
        live_output,
        events,
        operator,
    }
}

/// Returns the verbosity that the output options select.
pub(crate) fn chosen_verbosity(args: &RunOutputArgs) -> OutputVerbosity {
    match (args.quiet, args.verbose) {
        (true, _) => OutputVerbosity::Quiet,
        (_, true) => OutputVerbosity::Verbose,
        _ => OutputVerbosity::Normal,
    }
}
