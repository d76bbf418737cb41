//! Who tells of a run, who gets its live pieces, and who is asked in it, as the command line asks for it.

use std::sync::Arc;

use super::args::{Output, ShowingArgs};
use super::lines::Lines;
use super::surroundings::Surroundings;
use super::terminal::AtTheTerminal;
use ensemble_core::operator::{Operator, Unattended};
use ensemble_core::thread::LiveOutput;
use ensemble_reports::report::{self, ConsoleWriter, Events, Human, Reporter, Silent, Verbosity};

/// Who tells of a run, who gets its live pieces, and who is asked in it.
pub(super) struct Showing {
    /// Who tells.
    pub(super) reporter: Box<dyn Reporter + Send>,
    /// Who gets live pieces.
    pub(super) live_output: Option<Arc<dyn LiveOutput>>,
    /// Who is asked.
    pub(super) operator: Arc<dyn Operator>,
}

/// The reporter, the receiver of live output and the operator that the command line asks for.
pub(super) fn showing(args: &ShowingArgs, surroundings: &Surroundings) -> Showing {
    let human = |console: &ConsoleWriter| Human::new(console.clone(), verbosity(args));
    showing_by(args, surroundings, &Lines::default(), human)
}

/// Likewise, with a human reporter of one's own, and lines that somebody else reads too.
pub(super) fn showing_by(
    args: &ShowingArgs,
    surroundings: &Surroundings,
    lines: &Lines,
    human: impl FnOnce(&ConsoleWriter) -> Human,
) -> Showing {
    let streams = surroundings.streams;
    let mut asks_on = None;
    let mut live_output: Option<Arc<dyn LiveOutput>> = None;
    let reporter: Box<dyn Reporter + Send> = match args.output {
        Output::Json => Box::new(Silent),
        Output::Events => Box::new(Events::new(streams.out())),
        Output::Human => {
            let show = streams.err_is_terminal && !args.quiet;
            let showing = report::ConsoleOptions {
                progress: show,
                live: show && streams.out_is_terminal,
                out_width: streams.out_width(),
                err_width: streams.err_width(),
            };
            let console = ConsoleWriter::new(streams.out(), streams.err(), showing);
            asks_on = Some(console.clone());
            live_output = Some(Arc::new(console.clone()));
            Box::new(human(&console))
        }
    };
    let operator: Arc<dyn Operator> = if streams.in_is_terminal && streams.err_is_terminal {
        Arc::new(AtTheTerminal::new(streams, asks_on, lines.clone()))
    } else {
        Arc::new(Unattended)
    };
    Showing {
        reporter,
        live_output,
        operator,
    }
}

/// How much is said.
pub(super) fn verbosity(args: &ShowingArgs) -> Verbosity {
    match (args.quiet, args.verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Normal,
    }
}
