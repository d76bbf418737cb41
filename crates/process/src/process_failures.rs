//! The failures of child processes, with messages that say what to do.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use rustix::io::Errno;
use rustix::process::Signal;

use super::ProgramInvocation;
use crate::output;
use ensemble_language::data::{ExecutionFailure, FailureKind, kept_stream_end, parse_whole_object};

/// The maximum number of bytes of stderr that the failure of a service quotes.
const MAX_QUOTED_STDERR_BYTES: usize = 2 * 1024;

/// Creates the failure of a process that could not be started.
pub(super) fn start_failure(invocation: &ProgramInvocation, folder: &Path, error: &io::Error) -> ExecutionFailure {
    let program = invocation.program.display();
    let reason = match Errno::from_io_error(error) {
        _ if !folder.is_dir() => format!("the folder it runs in, `{}`, does not exist", folder.display()),
        Some(Errno::NOENT) if invocation.program.is_file() => describe_missing_loader(&invocation.program),
        Some(Errno::NOENT) => "it is not installed or not on PATH".to_owned(),
        Some(Errno::ACCESS) => format!(
            "{error}; make it executable with `chmod +x {program}`, and check that its file system allows programs"
        ),
        Some(Errno::NOEXEC) => {
            format!(
                "{error}; a script needs a first line such as `#!/bin/sh`, and a program must be built for this machine"
            )
        }
        Some(Errno::TOOBIG) => {
            format!("{error}; the command line and the environment are too long: pass data in `config` or the context")
        }
        _ => error.to_string(),
    };
    ExecutionFailure::new(FailureKind::Unavailable, format!("cannot start `{program}`: {reason}"))
}

/// Creates the failure of a process that exited with an error status or a signal, with the reason from its output.
pub(super) fn exit_failure(status: ExitStatus, stdout: &[u8], stderr: &str) -> ExecutionFailure {
    let (kind, mut error) = match (status.code(), status.signal()) {
        (Some(code), _) => (FailureKind::Exit, format!("the script ended with exit code {code}")),
        (None, Some(signal)) => {
            let name = signal_name(signal);
            (FailureKind::Signal, format!("the script was killed by {name}"))
        }
        (None, None) => (FailureKind::Exit, format!("the script ended with {status}")),
    };
    if let Some(said) = parse_whole_object(&String::from_utf8_lossy(stdout))
        && let Some(reported) = output::find_reported_error(&said)
    {
        error = format!("{error}: {reported}");
    }
    if kept_stream_end(stderr).contains("/dev/tty") {
        error = format!("{error} ({INPUT_AGENT_HINT})");
    }
    ExecutionFailure::new(kind, error)
}

/// What to write in place of a script that wants a person.
const INPUT_AGENT_HINT: &str =
    "a script cannot read the terminal: ask the question in an agent with `input:`, and depend on that agent";

/// Creates the failure of a process that was stopped because it read from the terminal.
pub(super) fn terminal_stop_failure() -> ExecutionFailure {
    let error = format!("the script was stopped when it tried to read the terminal; {INPUT_AGENT_HINT}");
    ExecutionFailure::new(FailureKind::Signal, error)
}

/// Returns the failure of a process whose output cannot be read.
pub(super) fn missing_pipes_failure() -> ExecutionFailure {
    ExecutionFailure::new(FailureKind::Exit, "the script has no pipes")
}

/// Creates the failure of a process that exceeded the limit for stdout.
pub(super) fn output_limit_failure(cap: usize) -> ExecutionFailure {
    let error = format!(
        "the script wrote more than {cap} bytes to stdout and was stopped; write long output to a file and print the path of the file"
    );
    ExecutionFailure::new(FailureKind::OutputTooLarge, error)
}

/// The program file exists, so the missing file is its interpreter or loader.
fn describe_missing_loader(program: &Path) -> String {
    match read_interpreter(program) {
        Some(name) if name.ends_with('\r') => format!(
            "its first line ends with a carriage return, so its interpreter is read as `{}`; save the script with LF line endings",
            name.escape_debug()
        ),
        Some(name) => format!("its interpreter `{name}`, named in its first line, is not installed"),
        None => "the loader or a library that it needs is not installed".to_owned(),
    }
}

/// Reads the interpreter in the first line of the script.
fn read_interpreter(program: &Path) -> Option<String> {
    let mut line = Vec::new();
    let start = File::open(program).ok()?.take(256);
    BufReader::new(start).read_until(b'\n', &mut line).ok()?;
    let line = String::from_utf8_lossy(&line);
    let interpreter_line = line.strip_prefix("#!")?.trim_matches([' ', '\t', '\n']);
    Some(interpreter_line.split([' ', '\t']).next()?.to_owned())
}

/// Returns the last complete lines, at most [`MAX_QUOTED_STDERR_BYTES`] bytes.
pub(super) fn last_complete_lines(text: &str) -> &str {
    let text = text.trim_end();
    let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_QUOTED_STDERR_BYTES));
    let end = &text[start..];
    let cut_a_line = start > 0 && !text[..start].ends_with('\n');
    match end.find('\n') {
        Some(newline) if cut_a_line => &end[newline + 1..],
        _ => end,
    }
}

/// Does another process have the program file open for writing?
pub(super) fn is_open_for_writing(error: &io::Error) -> bool {
    error.kind() == ErrorKind::ExecutableFileBusy
}

/// Returns the name of a signal that ends a process.
fn signal_name(number: i32) -> String {
    let names = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::USR2, "SIGUSR2"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::SYS, "SIGSYS"),
    ];
    let known_signal = names.iter().find(|(signal, _)| signal.as_raw() == number);
    known_signal.map_or_else(|| format!("signal {number}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_service_is_quoted_in_whole_lines() {
        assert_eq!(last_complete_lines("one\ntwo\n\n"), "one\ntwo");
        let long = format!("{}last é\n", "a line of some length\n".repeat(500));
        let quoted = last_complete_lines(&long);
        assert!(
            quoted.len() <= MAX_QUOTED_STDERR_BYTES && quoted.len() > MAX_QUOTED_STDERR_BYTES - 30,
            "{}",
            quoted.len()
        );
        assert!(
            quoted.starts_with("a line of") && quoted.ends_with("last é"),
            "{quoted}"
        );
        let one_line = "é".repeat(5_000);
        assert_eq!(last_complete_lines(&one_line).len(), MAX_QUOTED_STDERR_BYTES);
    }

    #[test]
    fn the_command_line_that_is_too_long_is_told_from_others() {
        let invocation = ProgramInvocation {
            program: "/bin/sh".into(),
            arguments: Vec::new(),
        };
        let words = |errno: Errno| start_failure(&invocation, Path::new("/"), &errno.into()).error;
        assert!(
            words(Errno::TOOBIG).contains("are too long: pass data"),
            "{}",
            words(Errno::TOOBIG)
        );
        assert!(words(Errno::NOEXEC).contains("#!/bin/sh"), "{}", words(Errno::NOEXEC));
        assert!(
            words(Errno::AGAIN).starts_with("cannot start `/bin/sh`: "),
            "{}",
            words(Errno::AGAIN)
        );
    }

    #[test]
    fn signals_have_the_names_that_people_know() {
        assert_eq!(signal_name(9), "SIGKILL");
        assert_eq!(signal_name(15), "SIGTERM");
        assert_eq!(signal_name(63), "signal 63");
    }
}
