//! The reporter, the listener and the operator of a run, as the command line selects them.

use std::sync::Arc;

use crate::command::run::arguments::{Output, ShowingArgs};
use crate::command::shared::surroundings::Surroundings;
use crate::terminal::lines::Lines;
use crate::terminal::operator::TerminalOperator;
use ensemble_core::operator::{Operator, Unattended};
use ensemble_core::thread::LiveOutput;
use ensemble_reports::report::door::Spelling;
use ensemble_reports::report::{self, ConsoleWriter, Events, Human, Reporter, Silent, Verbosity};

/// The reporter, the receiver of live output and the operator of a run.
pub(crate) struct Showing {
    /// The reporter.
    pub(crate) reporter: Box<dyn Reporter + Send>,
    /// The receiver of live output: it gets replies while they arrive.
    pub(crate) live_output: Option<Arc<dyn LiveOutput>>,
    /// The printer of events, if they are printed.
    pub(crate) events: Option<Events>,
    /// The operator.
    pub(crate) operator: Arc<dyn Operator>,
}

/// The reporter, the receiver of live output and the operator for these arguments.
pub(crate) fn showing(args: &ShowingArgs, surroundings: &Surroundings) -> Showing {
    showing_on(None, args, surroundings)
}

/// Likewise, for a run on the engine with this address.
pub(crate) fn showing_on(url: Option<&str>, args: &ShowingArgs, surroundings: &Surroundings) -> Showing {
    let human = |console: &ConsoleWriter| Human::new(console.clone(), verbosity(args)).on(url);
    showing_by(args, surroundings, &Lines::of(surroundings.streams), human)
}

/// The same, with another human reporter, and with lines of standard input that are shared with another reader.
pub(crate) fn showing_by(
    args: &ShowingArgs,
    surroundings: &Surroundings,
    lines: &Lines,
    human: impl FnOnce(&ConsoleWriter) -> Human,
) -> Showing {
    let streams = surroundings.streams;
    let mut asks_on = None;
    let mut events = None;
    let mut live_output: Option<Arc<dyn LiveOutput>> = None;
    let reporter: Box<dyn Reporter + Send> = match args.output {
        Output::Json => Box::new(Silent),
        Output::Events => Box::new(events.insert(Events::new(streams.out_as(Spelling::Json))).clone()),
        Output::Human => {
            let show = streams.err_is_terminal && !args.quiet;
            let showing = report::ConsoleOptions {
                progress: show,
                live: show && streams.out_is_terminal,
                whole: args.verbose,
                out_width: streams.out_width(),
                err_width: streams.err_width(),
            };
            // What is printed alone is a result, which may go into a file or to another program.
            let spelling = if args.quiet { Spelling::Exact } else { Spelling::Text };
            let console = ConsoleWriter::new(streams.out_as(spelling), streams.err(), showing);
            asks_on = Some(console.clone());
            live_output = Some(Arc::new(console.clone()));
            Box::new(human(&console))
        }
    };
    let operator: Arc<dyn Operator> = if lines.are_typed() {
        Arc::new(TerminalOperator::new(
            streams,
            asks_on,
            lines.clone(),
            surroundings.user.clone(),
        ))
    } else {
        Arc::new(Unattended)
    };
    Showing {
        reporter,
        live_output,
        events,
        operator,
    }
}

/// The verbosity of the output.
pub(crate) fn verbosity(args: &ShowingArgs) -> Verbosity {
    match (args.quiet, args.verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Normal,
    }
}
