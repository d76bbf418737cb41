//! `ensemble man`: manual pages, created from the texts of `--help`.

use std::path::Path;

use clap::Command;
use clap_mangen::Man;

use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use clap::Args;
use std::path::PathBuf;

/// `ensemble man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command that the page describes; default: the whole program
    #[arg(value_name = "COMMAND", conflicts_with = "to")]
    pub command: Option<String>,
    /// Write all pages to this folder
    #[arg(short = 'o', long, alias = "output", value_name = "FOLDER")]
    pub to: Option<PathBuf>,
}

/// Section on files and folders, which only the page of the program has.
const FILES_SECTION: &str = r#".SH FILES
.TP
.I ensembles/
The folder in which the program searches ensembles by name.
.TP
.I .ensemble/runs/
The record of every run of a project.
.TP
.I .ensemble/config.yaml
The project's model profiles; the user's are in \fIensemble/config.yaml\fR of the configuration folder.
.TP
.I ensemble/trust.json
The list of trusted files, in the configuration folder; see \fBensemble trust\fR.
"#;

/// Executes `ensemble man`: prints a manual page, or writes all pages to a folder. Returns the exit code.
pub(crate) fn print_or_write_man_pages(
    args: &ManArgs,
    program: Command,
    surroundings: &CliEnvironment,
) -> Result<u8, CliError> {
    let pages = render_pages(program);
    let Some(folder) = &args.to else {
        let name = match &args.command {
            Some(command) => format!("ensemble-{command}"),
            None => "ensemble".to_owned(),
        };
        let Some((_, page)) = pages.iter().find(|(known, _)| *known == name) else {
            let commands: Vec<&str> = pages
                .iter()
                .filter_map(|(known, _)| known.strip_prefix("ensemble-"))
                .collect();
            return Err(CliError::usage_error_with_help(
                format!("there is no manual page `{name}`"),
                format!("the commands with a manual page are {}", commands.join(", ")),
            ));
        };
        surroundings.print_out(page);
        return Ok(exit::SUCCESS);
    };
    let shown_folder = folder.display();
    let place = surroundings.project.folder.join(folder);
    let mut report = String::new();
    for (name, page) in &pages {
        write_page(&place, &format!("{name}.1"), page)
            .map_err(|error| CliError::usage_error(format!("cannot write {shown_folder}/{name}.1: {error}")))?;
        report.push_str(&format!("wrote {shown_folder}/{name}.1\n"));
    }
    surroundings.print_out(&report);
    Ok(exit::SUCCESS)
}

/// Writes a page to a file, and creates the folder.
fn write_page(folder: &Path, file: &str, page: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join(file), page)
}

/// Renders the page of the program and the page of each command, with their names.
fn render_pages(program: Command) -> Vec<(String, String)> {
    // A page for `help` would only repeat the other pages.
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    push_man_pages(&program, &mut pages);
    pages
}

/// Renders the section on exit codes, which only the page of the program has.
fn render_exit_status_section() -> String {
    let mut text = ".SH \"EXIT STATUS\"\n".to_owned();
    let diverged = ("5", "`ensemble replay` found a difference");
    let budget = ("6", "`ensemble batch`: --max-cost kept rows from running");
    for (code, meaning) in exit::RUN_CODES.iter().chain([&diverged, &budget]) {
        text.push_str(&format!(".TP\n.B {code}\n{}.\n", meaning.replace('-', "\\-")));
    }
    text
}

/// Appends the pages of the command and of its visible subcommands.
fn push_man_pages(command: &Command, pages: &mut Vec<(String, String)>) {
    // `build` has set the names of the commands to the names of the pages: `ensemble-runs-list`.
    let name = command
        .get_display_name()
        .unwrap_or_else(|| command.get_name())
        .to_owned();
    let mut page = Vec::new();
    Man::new(command.clone())
        .title(name.clone())
        .source(concat!("ensemble ", env!("CARGO_PKG_VERSION")))
        .render(&mut page)
        .expect("a buffer takes everything");
    let mut page = String::from_utf8_lossy(&page).into_owned();
    if pages.is_empty() {
        page.push_str(&render_exit_status_section());
        page.push_str(FILES_SECTION);
    }
    pages.push((name, page));
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        push_man_pages(inner, pages);
    }
}
