//! Standard output and standard error. All output passes a sanitizing writer, and only terminals get colors.

use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::LazyLock;

use console::Term;

use clap::ValueEnum;

use crate::terminal::write_errors::{ClosablePipe, OutputErrorRecorder};
use ensemble_reports::report::LineWidth;
use ensemble_reports::report::sanitized_writer::{EscapeStyle, SanitizedStream, SanitizedWriter};

/// Choice of the user when output has colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// State of the sanitized standard output, shared by all writers.
static OUT: LazyLock<SanitizedStream> =
    LazyLock::new(|| SanitizedStream::new(is_in_command_reading_ci() && !is_regular_file(&std::io::stdout())));

/// State of the sanitized standard error, shared by all writers.
static ERR: LazyLock<SanitizedStream> =
    LazyLock::new(|| SanitizedStream::new(is_in_command_reading_ci() && !is_regular_file(&std::io::stderr())));

/// Properties of the standard streams: colors and terminals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StandardStreams {
    out: anstream::ColorChoice,
    err: anstream::ColorChoice,
    /// Whether standard output is a terminal.
    pub out_is_terminal: bool,
    /// Whether standard error is a terminal.
    pub err_is_terminal: bool,
    /// Whether standard input is a terminal.
    pub in_is_terminal: bool,
}

impl StandardStreams {
    /// Detects the terminals and the colors of the streams, from `choice` and the environment.
    pub(crate) fn detect(choice: ColorChoice) -> Self {
        let decide = |terminal: bool| match choice {
            ColorChoice::Always => anstream::ColorChoice::AlwaysAnsi,
            ColorChoice::Never => anstream::ColorChoice::Never,
            ColorChoice::Auto if terminal => anstream::ColorChoice::Auto,
            ColorChoice::Auto => anstream::ColorChoice::Never,
        };
        let out_is_terminal = std::io::stdout().is_terminal();
        let err_is_terminal = std::io::stderr().is_terminal();
        Self {
            out: resolve_auto_color(decide(out_is_terminal)),
            err: resolve_auto_color(decide(err_is_terminal)),
            out_is_terminal,
            err_is_terminal,
            in_is_terminal: std::io::stdin().is_terminal(),
        }
    }

    /// Returns a sanitizing writer to standard output for text that people read.
    pub(crate) fn human_out(self) -> SanitizedWriter {
        self.out_in_format(EscapeStyle::Text)
    }

    /// Returns a sanitizing writer to standard output for results in a format. At a terminal, exact output is sanitized as well.
    pub(crate) fn out_in_format(self, spelling: EscapeStyle) -> SanitizedWriter {
        match spelling {
            EscapeStyle::Exact if !self.out_is_terminal => SanitizedWriter::new(
                OutputErrorRecorder(ClosablePipe::for_stdout(std::io::stdout())),
                &OUT,
                spelling,
            ),
            EscapeStyle::Exact => self.human_out(),
            _ => {
                let out = anstream::AutoStream::new(std::io::stdout(), self.out);
                SanitizedWriter::new(OutputErrorRecorder(ClosablePipe::for_stdout(out)), &OUT, spelling)
            }
        }
    }

    /// Returns an unsanitized writer to standard output for protocol messages in JSON, whose control characters are escaped.
    /// The writer does not lock standard output, so that a program that exits does not wait for its reader.
    pub(crate) fn protocol_out(self) -> impl Write + Send + 'static {
        let cloned_fd = std::io::stdout().as_fd().try_clone_to_owned();
        let out: Box<dyn Write + Send> = match cloned_fd {
            Ok(stdout_fd) => Box::new(std::fs::File::from(stdout_fd)),
            Err(_) => Box::new(std::io::stdout()),
        };
        OutputErrorRecorder(out)
    }

    /// Returns an async writer to standard output for the protocol messages of a server that does not wait for its client.
    pub(crate) fn protocol_out_async(self) -> tokio::io::Stdout {
        tokio::io::stdout()
    }

    /// Returns a sanitizing writer to standard error, for messages, progress and questions.
    pub(crate) fn human_err(self) -> SanitizedWriter {
        let err = anstream::AutoStream::new(std::io::stderr(), self.err);
        SanitizedWriter::new(ClosablePipe::for_stderr(err), &ERR, EscapeStyle::Text)
    }

    /// Returns a sanitizing writer to standard error that keeps styles even if colors are off. A dumb terminal gets no styles.
    pub(crate) fn styled_err_without_colors(self) -> SanitizedWriter {
        match is_dumb_terminal() {
            true => self.human_err(),
            false => SanitizedWriter::new(ClosablePipe::for_stderr(std::io::stderr()), &ERR, EscapeStyle::Text),
        }
    }

    /// Writes a terminal control code to standard error, even if colors are off. Ignores a failed write.
    pub(crate) fn write_terminal_code(self, code: &'static str) {
        let mut err = std::io::stderr();
        let _ = err.write_all(code.as_bytes()).and_then(|()| err.flush());
    }

    /// Returns whether standard output and standard error are the same terminal, file or pipe.
    pub(crate) fn are_out_and_err_same_file(self) -> bool {
        #[cfg(unix)]
        {
            let (out, err) = (
                rustix::fs::fstat(std::io::stdout()),
                rustix::fs::fstat(std::io::stderr()),
            );
            let same =
                |(out, err): (rustix::fs::Stat, rustix::fs::Stat)| (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino);
            out.ok().zip(err.ok()).is_some_and(same)
        }
        #[cfg(not(unix))]
        {
            self.out_is_terminal && self.err_is_terminal
        }
    }

    /// Returns the width of lines on standard output. The width is unlimited if standard output is not a terminal.
    pub(crate) fn out_width(self) -> LineWidth {
        terminal_line_width(self.out_is_terminal, &Term::stdout())
    }

    /// Returns the width of lines on standard error. The width is unlimited if standard error is not a terminal.
    pub(crate) fn err_width(self) -> LineWidth {
        terminal_line_width(self.err_is_terminal, &Term::stderr())
    }

    /// Returns whether standard error shows colors.
    pub(crate) fn colors_on_stderr(self) -> bool {
        self.err != anstream::ColorChoice::Never
    }

    /// Returns whether standard output shows colors.
    pub(crate) fn colors_on_stdout(self) -> bool {
        self.out != anstream::ColorChoice::Never
    }
}

/// Returns the width of the terminal, or an unlimited width if the stream is not a terminal.
fn terminal_line_width(is_terminal: bool, terminal: &Term) -> LineWidth {
    match is_terminal {
        true => LineWidth::for_terminal(terminal.size_checked().map(|(_, columns)| columns)),
        false => LineWidth::UNLIMITED,
    }
}

/// Replaces `Auto` by `Always` or `Never`, from `NO_COLOR` and `TERM`. Returns other choices unchanged.
fn resolve_auto_color(choice: anstream::ColorChoice) -> anstream::ColorChoice {
    let wants_color = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && !is_dumb_terminal();
    match choice {
        anstream::ColorChoice::Auto if wants_color => anstream::ColorChoice::Always,
        anstream::ColorChoice::Auto => anstream::ColorChoice::Never,
        other => other,
    }
}

/// Returns whether `TERM` names a terminal without styles.
fn is_dumb_terminal() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Returns whether the program runs in a CI that interprets lines of the log as commands: GitHub Actions, Azure Pipelines, TeamCity.
fn is_in_command_reading_ci() -> bool {
    let is_true = |name: &str| std::env::var_os(name).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    is_true("GITHUB_ACTIONS") || is_true("TF_BUILD") || std::env::var_os("TEAMCITY_VERSION").is_some()
}

/// Returns whether the stream is a regular file, which a CI does not interpret.
#[cfg(unix)]
fn is_regular_file(stream: &impl std::os::fd::AsFd) -> bool {
    let opened = stream.as_fd().try_clone_to_owned().map(std::fs::File::from);
    opened
        .and_then(|file| file.metadata())
        .is_ok_and(|about| about.is_file())
}

#[cfg(not(unix))]
fn is_regular_file<T>(_stream: &T) -> bool {
    false
}
