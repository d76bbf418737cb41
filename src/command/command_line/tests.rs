//! What all commands have in common.

use clap::{Arg, Command, CommandFactory};

use super::Cli;

/// Every option of every command, with the name of the command.
fn options() -> Vec<(String, Arg)> {
    fn collect(command: &Command, found: &mut Vec<(String, Arg)>) {
        let name = command.get_display_name().unwrap_or(command.get_name());
        found.extend(command.get_opts().map(|option| (name.to_owned(), option.clone())));
        command.get_subcommands().for_each(|inner| collect(inner, found));
    }
    let mut program = Cli::command();
    program.build();
    let mut found = Vec::new();
    collect(&program, &mut found);
    found
}

fn value_name(option: &Arg) -> &str {
    let names = option.get_value_names().unwrap_or_default();
    names.first().map_or("", |name| name.as_str())
}

fn has_alias(option: &Arg, alias: &str) -> bool {
    option.get_all_aliases().unwrap_or_default().contains(&alias)
}

#[test]
fn one_word_selects_the_form_and_one_the_file() {
    let options = options();
    let forms = options.iter().filter(|(_, option)| value_name(option) == "FORM");
    let files = options.iter().filter(|(_, option)| option.get_short() == Some('o'));
    assert!(forms.clone().count() > 15 && files.clone().count() == 4);
    for (command, form) in forms {
        assert_eq!((form.get_long(), form.get_short()), (Some("output"), None), "{command}");
        assert!(!form.get_possible_values().is_empty(), "{command}");
        assert!(has_alias(form, "format"), "{command}: the older spelling");
    }
    for (command, file) in files {
        assert_eq!(file.get_long(), Some("to"), "{command}");
    }
    for (command, option) in &options {
        let is_old = matches!(option.get_long(), Some("format" | "json" | "out")) && !option.is_hide_set();
        assert!(!is_old, "{command}: {option}");
        let fits = match option.get_long() {
            Some("output") => value_name(option) == "FORM",
            Some("to") => option.get_short() == Some('o'),
            _ => true,
        };
        assert!(fits, "{command}: {option}");
    }
}
