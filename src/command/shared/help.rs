//! Texts of `--help` in addition to those of the arguments: groups of commands, headings of options, examples and exit codes.
//!
//! **Invariant:** every command is in one group, and every example is accepted by the arguments of its command.

use clap::{Arg, Command, CommandFactory};

use super::exit;
use crate::command::command_line::Cli;

/// Commands of the program by purpose, in the order of `ensemble --help`.
const COMMAND_GROUPS: &[(&str, &[&str])] = &[
    ("Run", &["run", "chat", "batch", "resume", "continue"]),
    (
        "Author and check",
        &[
            "init", "validate", "check", "test", "graph", "estimate", "explain", "import", "list",
        ],
    ),
    ("Look back", &["runs", "replay", "fork", "rerun"]),
    ("Serve", &["ui", "lsp", "mcp", "acp"]),
    ("Set up", &["models", "trust", "schema", "completions", "man"]),
];

/// Headings of options in `--help`, with the ids of their arguments.
const OPTION_HEADINGS: &[(&str, &[&str])] = &[
    (
        "Input",
        &["input", "then", "set", "context", "data", "name", "map", "ignore"],
    ),
    (
        "Answers and permissions",
        &[
            "answer",
            "always_answer",
            "answers",
            "respond",
            "allow_tool",
            "deny_tool",
        ],
    ),
    (
        "Models and stubs",
        &["model", "cache", "cache_only", "mcp_config", "stub"],
    ),
    ("Output", &["output", "quiet", "verbose", "live"]),
    ("Telemetry", &["otlp", "otlp_content"]),
];

/// Commands that ignore the global options, so that their help does not show these options.
const WITHOUT_GLOBAL_OPTIONS: &[&str] = &["completions", "man"];

/// Commands that run conversations, whose options have headings.
const WITH_HEADINGS: &[&str] = &["run", "chat", "batch", "resume", "continue", "fork", "rerun"];

/// Exit codes of a command, each with its meaning.
type ExitCodes = &'static [(&'static str, &'static str)];

/// Examples and exit codes of a command.
struct CommandHelp {
    name: &'static str,
    examples: [(&'static str, &'static str); 2],
    exit_codes: ExitCodes,
}

const RUN: ExitCodes = exit::RUN_CODES;
const BATCH: ExitCodes = &[
    ("0", "All rows reached their goals"),
    (
        "1",
        "A row failed, the program had an error, or standard output could not be written",
    ),
    (
        "2",
        "The command line, the table, an answer or a file is not valid; nothing was executed",
    ),
    ("3", "A row waits for an answer, and none failed or was cut off"),
    (
        "4",
        "A limit cut off a row, and none failed; with --fail-on-limit, also its own limit",
    ),
    (
        "6",
        "--max-cost kept rows from running, whatever has come of the others",
    ),
    ("130, 143", "Ctrl-C; SIGTERM"),
];
const FILES: ExitCodes = &[
    ("0", "The command succeeded"),
    ("1", "The program had an error, or standard output could not be written"),
    ("2", "The command line or a file is not valid"),
];
const VALIDATE: ExitCodes = &[
    ("0", "No errors; with --deny-warnings also no warnings"),
    ("1", "--diff would change a file, or the program had an error"),
    ("2", "Errors, or with --deny-warnings warnings"),
];
const TEST: ExitCodes = &[
    ("0", "All cases passed"),
    ("1", "A case failed, or a mutant of --mutate survived"),
    ("2", "A test file or an ensemble is not valid"),
];
const REPLAY: ExitCodes = &[
    ("0", "All decisions match the record"),
    ("1", "The program had an error"),
    ("2", "The command line, the record or the ensemble is not valid"),
    ("5", "A decision differs from the record"),
];
const IMPORT: ExitCodes = &[
    ("0", "Everything was converted"),
    ("1", "A file needs attention, or was not imported"),
    ("2", "Nothing was written"),
];
const MODELS: ExitCodes = &[
    ("0", "The command succeeded"),
    ("1", "`check`: a model does not answer"),
    ("2", "The command line or a file is not valid"),
];
const RUNS: ExitCodes = &[
    ("0", "The command succeeded"),
    (
        "1",
        "`diff`: the runs differ; `show --follow`: the process of the run disappeared",
    ),
    (
        "2",
        "The command line is not valid, there is no such run, or `merge`: the runs cannot be merged",
    ),
];

/// Examples and exit codes, one entry for each command.
const COMMANDS: &[CommandHelp] = &[
    CommandHelp {
        name: "run",
        examples: [
            (
                "ensemble run ensembles/iterative-analysis.yaml",
                "Run a shipped ensemble",
            ),
            (
                "ensemble run review -i @draft.md --output json",
                "Run an ensemble by name, with a file as its input",
            ),
        ],
        exit_codes: RUN,
    },
    CommandHelp {
        name: "chat",
        examples: [
            ("ensemble chat assistant", "Chat with an ensemble"),
            ("ensemble chat --last", "Continue the latest run"),
        ],
        exit_codes: RUN,
    },
    CommandHelp {
        name: "batch",
        examples: [
            (
                "ensemble batch triage.yaml --data tickets.jsonl",
                "Run an ensemble for each line",
            ),
            (
                "ensemble batch triage.yaml --data tickets.csv --jobs 8",
                "Run eight rows in parallel",
            ),
        ],
        exit_codes: BATCH,
    },
    CommandHelp {
        name: "resume",
        examples: [
            (
                "ensemble resume --last --answer editor=yes",
                "Answer the question that the latest run waits for",
            ),
            ("ensemble resume kdea", "Continue a run, by the beginning of its id"),
        ],
        exit_codes: RUN,
    },
    CommandHelp {
        name: "continue",
        examples: [
            (
                "ensemble continue --last 'Shorter, please'",
                "Add a message to the latest run",
            ),
            ("ensemble continue kdea @feedback.md", "Add a file as the message"),
        ],
        exit_codes: RUN,
    },
    CommandHelp {
        name: "init",
        examples: [
            ("ensemble init", "Create an ensemble that is named like the folder"),
            ("ensemble init --list-templates", "List the templates"),
        ],
        exit_codes: FILES,
    },
    CommandHelp {
        name: "validate",
        examples: [
            ("ensemble validate", "Check all ensembles of this folder"),
            (
                "ensemble validate --deny-warnings --output github ensembles",
                "Check a folder in CI",
            ),
        ],
        exit_codes: VALIDATE,
    },
    CommandHelp {
        name: "check",
        examples: [
            (
                "ensemble check review.yaml",
                "List the possible outcomes of an ensemble",
            ),
            (
                "ensemble check review.yaml --ci",
                "Explore runs in CI, where no user answers",
            ),
        ],
        exit_codes: FILES,
    },
    CommandHelp {
        name: "test",
        examples: [
            ("ensemble test ensembles", "Run all cases of a folder"),
            (
                "ensemble test review.yaml --coverage",
                "List everything that no case reaches",
            ),
        ],
        exit_codes: TEST,
    },
    CommandHelp {
        name: "graph",
        examples: [
            (
                "ensemble graph review.yaml --output ascii",
                "Draw an ensemble on the terminal",
            ),
            (
                "ensemble graph review.yaml --output svg > review.svg",
                "Draw an ensemble into a file",
            ),
        ],
        exit_codes: FILES,
    },
    CommandHelp {
        name: "estimate",
        examples: [
            (
                "ensemble estimate review.yaml --from kdea",
                "Estimate a run from a recorded run",
            ),
            (
                "ensemble estimate review.yaml --last",
                "Estimate a run from the latest run",
            ),
        ],
        exit_codes: FILES,
    },
    CommandHelp {
        name: "explain",
        examples: [
            ("ensemble explain E041", "Explain one code"),
            ("ensemble explain W012", "Explain a warning"),
        ],
        exit_codes: FILES,
    },
    CommandHelp {
        name: "import",
        examples: [
            ("ensemble import old.yaml -o review.yaml", "Convert one file"),
            ("ensemble import ~/.llm-orc/ensembles -o ensembles", "Convert a folder"),
        ],
        exit_codes: IMPORT,
    },
    CommandHelp {
        name: "list",
        examples: [
            ("ensemble list", "List the ensembles of this project"),
            ("ensemble list --output json", "List the ensembles as JSON"),
        ],
        exit_codes: FILES,
    },
    CommandHelp {
        name: "runs",
        examples: [
            ("ensemble runs show --last", "Show the latest run turn by turn"),
            (
                "ensemble runs export kdea --output html -o run.html",
                "Write a run as a page",
            ),
        ],
        exit_codes: RUNS,
    },
    CommandHelp {
        name: "replay",
        examples: [
            ("ensemble replay --last", "Repeat the decisions of the latest run"),
            (
                "ensemble replay kdea --ensemble review.yaml",
                "Repeat the decisions of a run with an edited file",
            ),
        ],
        exit_codes: REPLAY,
    },
    CommandHelp {
        name: "fork",
        examples: [
            (
                "ensemble fork --last --at-turn 3",
                "Keep three turns, and run again from there",
            ),
            (
                "ensemble fork kdea --at-turn 0 --model '*=ollama/llama3'",
                "Repeat a run with another model",
            ),
        ],
        exit_codes: RUN,
    },
    CommandHelp {
        name: "rerun",
        examples: [
            (
                "ensemble rerun --last --from writer@3",
                "Repeat one execution and everything that depends on it",
            ),
            ("ensemble rerun kdea --from 'pages[a.txt]@1'", "Repeat one part"),
        ],
        exit_codes: RUN,
    },
    CommandHelp {
        name: "ui",
        examples: [
            ("ensemble ui", "Serve the page of this folder"),
            ("ensemble ui --port 8080", "Serve the page on a fixed port"),
        ],
        exit_codes: FILES,
    },
    CommandHelp {
        name: "lsp",
        examples: [
            ("ensemble lsp", "Start the server, as an editor does"),
            ("ensemble -C project lsp", "Start the server in another folder"),
        ],
        exit_codes: FILES,
    },
    CommandHelp {
        name: "mcp",
        examples: [
            (
                "ensemble mcp",
                "Serve the ensembles of this folder over standard input and output",
            ),
            ("ensemble -C project mcp", "Serve the ensembles of another folder"),
        ],
        exit_codes: FILES,
    },
    CommandHelp {
        name: "acp",
        examples: [
            ("ensemble acp review.yaml", "Serve one ensemble as an agent"),
            ("ensemble acp ensembles", "Serve the ensembles of a folder"),
        ],
        exit_codes: FILES,
    },
    CommandHelp {
        name: "models",
        examples: [
            (
                "ensemble models check review.yaml",
                "Send a test request to every model of an ensemble",
            ),
            ("ensemble models list", "List the profiles of the configuration"),
        ],
        exit_codes: MODELS,
    },
    CommandHelp {
        name: "trust",
        examples: [
            (
                "ensemble trust",
                "Show where the project's configuration sends keys, and ask for trust",
            ),
            ("ensemble trust --list", "List the trusted files"),
        ],
        exit_codes: FILES,
    },
    CommandHelp {
        name: "schema",
        examples: [
            ("ensemble schema", "Print the schema of ensemble files"),
            ("ensemble schema --tests", "Print the schema of test files"),
        ],
        exit_codes: FILES,
    },
    CommandHelp {
        name: "completions",
        examples: [
            ("ensemble completions bash", "Print the script for bash"),
            ("ensemble completions fish", "Print the script for fish"),
        ],
        exit_codes: FILES,
    },
    CommandHelp {
        name: "man",
        examples: [
            ("ensemble man run", "Print the manual page of `ensemble run`"),
            ("ensemble man -o man1", "Write all manual pages to a folder"),
        ],
        exit_codes: FILES,
    },
];

/// Builds the command line of the program with all texts of `--help`.
pub(crate) fn command_with_help() -> Command {
    let mut program = Cli::command();
    let global_options: Vec<Arg> = program
        .get_arguments()
        .filter(|arg| arg.is_global_set())
        .cloned()
        .collect();
    for help in COMMANDS {
        program = program.mut_subcommand(help.name, |command| {
            let command = command.after_help(help.render_examples_and_exit_codes());
            match help.name {
                name if WITHOUT_GLOBAL_OPTIONS.contains(&name) => hide_options(command, &global_options),
                name if WITH_HEADINGS.contains(&name) => set_option_headings(command),
                _ => command,
            }
        });
    }
    let groups = render_command_groups(&program);
    program
        .help_template("{about-with-newline}\n{usage-heading} {usage}{after-help}\n\nOptions:\n{options}")
        .after_help(groups)
}

impl CommandHelp {
    /// Renders the text after the options of a command: its examples and its exit codes.
    fn render_examples_and_exit_codes(&self) -> String {
        let mut text = "Examples:".to_owned();
        for (example, purpose) in self.examples {
            text.push_str(&format!("\n  {example}\n      {purpose}"));
        }
        text.push_str("\n\nExit codes:");
        for (code, meaning) in self.exit_codes {
            text.push_str(&format!("\n  {code:<8}  {meaning}"));
        }
        text
    }
}

/// Adds hidden copies of the options to the command. clap does not add a global option to a command with an argument of the same id.
fn hide_options(command: Command, options: &[Arg]) -> Command {
    command.args(options.iter().cloned().map(|option| option.hide(true)))
}

/// Moves each option of the command under the heading of its group.
fn set_option_headings(command: Command) -> Command {
    command.mut_args(|arg| match find_heading(arg.get_id().as_str()) {
        Some(heading) => arg.help_heading(heading),
        None => arg,
    })
}

/// Returns the heading of the option with this id. Returns `None` if the option has no heading.
fn find_heading(id: &str) -> Option<&'static str> {
    let (heading, _) = OPTION_HEADINGS.iter().find(|(_, ids)| ids.contains(&id))?;
    Some(heading)
}

/// Renders the commands of the program with their descriptions, group by group.
fn render_command_groups(program: &Command) -> String {
    let mut text = String::new();
    for (group, names) in COMMAND_GROUPS {
        text.push_str(&format!("{group}:\n"));
        for name in *names {
            let about = program.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {name:<11}  {about}\n"));
        }
        text.push('\n');
    }
    text.push_str("`ensemble help COMMAND` prints the options, examples and exit codes of a command.");
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_command_is_in_one_group_and_has_one_row() {
        let command = Cli::command();
        let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        let all: BTreeSet<&str> = names.iter().copied().collect();
        let grouped: Vec<&str> = COMMAND_GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        assert_eq!(grouped.len(), all.len());
        assert_eq!(grouped.into_iter().collect::<BTreeSet<_>>(), all);
        assert_eq!(COMMANDS.len(), all.len());
        assert_eq!(COMMANDS.iter().map(|help| help.name).collect::<BTreeSet<_>>(), all);
    }

    #[test]
    fn every_example_is_accepted_by_its_command() {
        for help in COMMANDS {
            for (example, _) in help.examples {
                let command = example.split(" > ").next().expect("a command before the redirection");
                let words = shell_words(command);
                let parsed = command_with_help().try_get_matches_from(&words);
                let matches = parsed.unwrap_or_else(|error| panic!("{example}: {error}"));
                assert_eq!(matches.subcommand_name(), Some(help.name), "{example}");
            }
        }
    }

    /// Splits an example into words. Quotes enclose a whole word there.
    fn shell_words(example: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (at, piece) in example.split('\'').enumerate() {
            match at % 2 {
                1 => words.push(piece.to_owned()),
                _ => words.extend(piece.split_whitespace().map(str::to_owned)),
            }
        }
        words
    }

    #[test]
    fn every_option_of_a_heading_is_there() {
        let command = Cli::command();
        let ids: BTreeSet<String> = WITH_HEADINGS
            .iter()
            .filter_map(|name| command.find_subcommand(name))
            .flat_map(|command| command.get_arguments().map(|arg| arg.get_id().to_string()))
            .chain(command.get_arguments().map(|arg| arg.get_id().to_string()))
            .collect();
        for (heading, wanted) in OPTION_HEADINGS {
            for id in *wanted {
                assert!(ids.contains(*id), "{heading}: no command has `{id}`");
            }
        }
    }

    #[test]
    fn commands_without_global_options_do_not_show_them() {
        for name in WITHOUT_GLOBAL_OPTIONS {
            let mut program = command_with_help();
            program.build();
            let command = program.find_subcommand_mut(name).expect("the command");
            let text = command.render_long_help().to_string();
            assert!(!text.contains("--color") && text.contains("Examples:"), "{text}");
        }
    }
}
