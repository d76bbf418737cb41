//! Standard output and standard error, with colours only on a terminal.

use std::io::{IsTerminal, Write};

use console::Term;

use super::args::ColorChoice;
use super::unwritten::Noted;
use ensemble_reports::report::LineWidth;

/// The properties of the standard streams.
#[derive(Debug, Clone, Copy)]
pub(super) struct Streams {
    out: anstream::ColorChoice,
    err: anstream::ColorChoice,
    /// Whether standard output is a terminal.
    pub out_is_terminal: bool,
    /// Whether standard error is a terminal.
    pub err_is_terminal: bool,
    /// Whether standard input is a terminal.
    pub in_is_terminal: bool,
}

impl Streams {
    /// Reads the properties of the streams, and NO_COLOR.
    pub(super) fn capture(choice: ColorChoice) -> Self {
        let decide = |terminal: bool| match choice {
            ColorChoice::Always => anstream::ColorChoice::AlwaysAnsi,
            ColorChoice::Never => anstream::ColorChoice::Never,
            ColorChoice::Auto if terminal => anstream::ColorChoice::Auto,
            ColorChoice::Auto => anstream::ColorChoice::Never,
        };
        let out_is_terminal = std::io::stdout().is_terminal();
        let err_is_terminal = std::io::stderr().is_terminal();
        Self {
            out: resolve(decide(out_is_terminal)),
            err: resolve(decide(err_is_terminal)),
            out_is_terminal,
            err_is_terminal,
            in_is_terminal: std::io::stdin().is_terminal(),
        }
    }

    /// The stream for results.
    pub(super) fn out(self) -> Box<dyn Write + Send> {
        Box::new(Noted(anstream::AutoStream::new(std::io::stdout(), self.out)))
    }

    /// The stream for everything else.
    pub(super) fn err(self) -> Box<dyn Write + Send> {
        Box::new(anstream::AutoStream::new(std::io::stderr(), self.err))
    }

    /// Standard error for codes that steer the terminal, also if it shows no colours.
    pub(super) fn err_unchanged(self) -> Box<dyn Write + Send> {
        Box::new(std::io::stderr())
    }

    /// The width of lines on standard output.
    pub(super) fn out_width(self) -> LineWidth {
        width(self.out_is_terminal, &Term::stdout())
    }

    /// The width of lines on standard error.
    pub(super) fn err_width(self) -> LineWidth {
        width(self.err_is_terminal, &Term::stderr())
    }

    /// Whether standard error shows colours.
    pub(super) fn colors_on_stderr(self) -> bool {
        self.err != anstream::ColorChoice::Never
    }

    /// Whether standard output shows colours.
    pub(super) fn colors_on_stdout(self) -> bool {
        self.out != anstream::ColorChoice::Never
    }
}

fn width(is_terminal: bool, terminal: &Term) -> LineWidth {
    match is_terminal {
        true => LineWidth::of_terminal(terminal.size_checked().map(|(_, columns)| columns)),
        false => LineWidth::UNLIMITED,
    }
}

/// Resolves `Auto` with NO_COLOR, CLICOLOR and TERM.
fn resolve(choice: anstream::ColorChoice) -> anstream::ColorChoice {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    match choice {
        anstream::ColorChoice::Auto if wanted => anstream::ColorChoice::Always,
        anstream::ColorChoice::Auto => anstream::ColorChoice::Never,
        other => other,
    }
}
