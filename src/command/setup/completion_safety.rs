//! Safety of the names that a shell inserts into a command line.
//!
//! Other people choose the names of files, runs and agents. bash and PowerShell insert a candidate unchanged, so a candidate for
//! these shells is one plain word. zsh, fish and elvish quote a candidate. A text that looks like an option is never a candidate.
//!
//! Invariant: every candidate for a value of a command line passes `is_safe_candidate`.

use std::ffi::OsStr;
use std::path::Path;

use clap::builder::ArgAction;
use clap::{Arg, Command, ValueHint};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter};
use ensemble_language::hidden_characters::is_hidden_character;

/// Quoting of a candidate by the shell that inserts the candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CandidateQuoting {
    /// The shell quotes the candidate.
    Quoted,
    /// The shell inserts the candidate unchanged.
    Raw,
}

impl CandidateQuoting {
    /// Returns the quoting of a shell. `shell` is a name or a path.
    fn for_shell(shell: &OsStr) -> Self {
        let name = Path::new(shell).file_stem().unwrap_or_default();
        match name.to_str() {
            Some("zsh" | "fish" | "elvish") => Self::Quoted,
            _ => Self::Raw,
        }
    }
}

/// Makes the completions of all values of the program omit unsafe candidates.
pub(super) fn filter_unsafe_completions(program: Command, shell: &OsStr) -> Command {
    filter_command_completions(program, CandidateQuoting::for_shell(shell))
}

/// Makes the completions of the command and its subcommands omit unsafe candidates.
fn filter_command_completions(command: Command, quoting: CandidateQuoting) -> Command {
    command
        .mut_args(|argument| filter_argument_completions(argument, quoting))
        .mut_subcommands(|subcommand| filter_command_completions(subcommand, quoting))
}

/// Makes the completions of the argument omit unsafe candidates.
fn filter_argument_completions(argument: Arg, quoting: CandidateQuoting) -> Arg {
    let own_completer = argument.get::<ArgValueCompleter>().cloned();
    let Some(completer) = own_completer.or_else(|| path_completer_for_hint(&argument)) else {
        return argument;
    };
    argument.add(ArgValueCompleter::new(move |typed: &OsStr| {
        let mut candidates = completer.complete(typed);
        candidates.retain(|candidate| is_safe_candidate(candidate, typed, quoting));
        candidates
    }))
}

/// Returns the completer of paths that the hint of the argument asks for. Returns `None` without such a hint.
fn path_completer_for_hint(argument: &Arg) -> Option<ArgValueCompleter> {
    let takes_values = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    if !takes_values || !argument.get_possible_values().is_empty() {
        return None;
    }
    match argument.get_value_hint() {
        ValueHint::AnyPath | ValueHint::ExecutablePath => Some(ArgValueCompleter::new(PathCompleter::any())),
        ValueHint::FilePath => Some(ArgValueCompleter::new(PathCompleter::file())),
        ValueHint::DirPath => Some(ArgValueCompleter::new(PathCompleter::dir())),
        _ => None,
    }
}

/// Returns whether the shell inserts the candidate as one word that is no option, and shows the candidate unchanged.
fn is_safe_candidate(candidate: &CompletionCandidate, typed: &OsStr, quoting: CandidateQuoting) -> bool {
    // A shell would get another name than that of the file.
    let Some(text) = candidate.get_value().to_str() else {
        return false;
    };
    if text.starts_with('-') || text.contains(is_hidden_character) {
        return false;
    }
    match quoting {
        CandidateQuoting::Quoted => true,
        CandidateQuoting::Raw => {
            let is_in_home = typed.as_encoded_bytes().starts_with(b"~/");
            let rest = text.strip_prefix("~/").filter(|_| is_in_home).unwrap_or(text);
            is_plain_word(rest)
        }
    }
}

/// Returns whether no shell interprets a part of the text: no quote, expansion, redirection, comment or history.
fn is_plain_word(text: &str) -> bool {
    let is_plain =
        |character: char| character.is_alphanumeric() || matches!(character, '_' | '-' | '.' | '/' | ':' | '+');
    // `AGENT=` and `AGENT@TURN`; at the beginning, `=` and `@` have a meaning in some shells.
    let is_plain_inside =
        |(at, character): (usize, char)| is_plain(character) || at > 0 && matches!(character, '=' | '@');
    text.char_indices().all(is_plain_inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_safe(text: &str, typed: &str, quoting: CandidateQuoting) -> bool {
        is_safe_candidate(&CompletionCandidate::new(text), OsStr::new(typed), quoting)
    }

    #[test]
    fn a_shell_that_does_not_quote_gets_only_plain_words() {
        for name in [
            "review.yaml",
            "dir/größe_2.yaml",
            "writer@2",
            "editor=",
            "a:b",
            "C:/x.yaml",
            ".",
        ] {
            assert!(is_safe(name, "", CandidateQuoting::Raw), "{name}");
        }
        for character in " \t\n$`\"'\\;&|<>(){}[]*?~!#%^,\u{2018}\u{201d}\u{2013}\u{a0}".chars() {
            for name in [
                format!("{character}x"),
                format!("x{character}y"),
                format!("x{character}"),
            ] {
                assert!(!is_safe(&name, "x", CandidateQuoting::Raw), "{name:?}");
            }
        }
        assert!(!is_safe("=x", "", CandidateQuoting::Raw), "zsh's path of a command");
        assert!(!is_safe("@x", "", CandidateQuoting::Raw), "PowerShell's splatting");
        assert!(is_safe("~/x.yaml", "~/", CandidateQuoting::Raw));
        assert!(
            !is_safe("~/x.yaml", "", CandidateQuoting::Raw),
            "a folder that is called `~`"
        );
    }

    #[test]
    fn no_shell_gets_an_option_or_a_hidden_character() {
        for quoting in [CandidateQuoting::Raw, CandidateQuoting::Quoted] {
            for name in [
                "-",
                "--trust.yaml",
                "--trust/",
                "-y",
                "a\nb",
                "a\tb",
                "\u{1b}[2J",
                "\u{202e}x",
            ] {
                assert!(!is_safe(name, "", quoting), "{name:?}");
            }
        }
        assert!(is_safe("two words; $x.yaml", "", CandidateQuoting::Quoted));
    }

    #[test]
    fn only_shells_that_quote_are_known_as_such() {
        for (shell, quoting) in [
            ("/bin/bash", CandidateQuoting::Raw),
            ("/usr/bin/zsh", CandidateQuoting::Quoted),
            ("fish", CandidateQuoting::Quoted),
            ("powershell", CandidateQuoting::Raw),
            ("", CandidateQuoting::Raw),
        ] {
            assert_eq!(CandidateQuoting::for_shell(OsStr::new(shell)), quoting, "{shell}");
        }
    }
}
