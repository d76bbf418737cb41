//! Standard output and standard error, with colours only where somebody sees them.

use std::io::{IsTerminal, Write};

use console::Term;

use super::args::ColorChoice;
use ensemble_reports::report::LineWidth;

/// What the two streams are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Streams {
    out: anstream::ColorChoice,
    err: anstream::ColorChoice,
    /// Is standard output a terminal?
    pub out_is_terminal: bool,
    /// Is standard error a terminal?
    pub err_is_terminal: bool,
    /// Is standard input a terminal?
    pub in_is_terminal: bool,
}

impl Streams {
    /// Looks at the streams and at NO_COLOR.
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

    /// Where results go.
    pub(super) fn out(self) -> Box<dyn Write + Send> {
        Box::new(anstream::AutoStream::new(std::io::stdout(), self.out))
    }

    /// Where everything else goes.
    pub(super) fn err(self) -> Box<dyn Write + Send> {
        Box::new(anstream::AutoStream::new(std::io::stderr(), self.err))
    }

    /// How long lines of standard output may be.
    pub(super) fn out_width(self) -> LineWidth {
        width(self.out_is_terminal, &Term::stdout())
    }

    /// How long lines of standard error may be.
    pub(super) fn err_width(self) -> LineWidth {
        width(self.err_is_terminal, &Term::stderr())
    }

    /// Does standard error show colours?
    pub(super) fn colors_on_stderr(self) -> bool {
        self.err != anstream::ColorChoice::Never
    }

    /// Does standard output show colours?
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

/// `Auto` as NO_COLOR, CLICOLOR and TERM decide it.
fn resolve(choice: anstream::ColorChoice) -> anstream::ColorChoice {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    match choice {
        anstream::ColorChoice::Auto if wanted => anstream::ColorChoice::Always,
        anstream::ColorChoice::Auto => anstream::ColorChoice::Never,
        other => other,
    }
}
