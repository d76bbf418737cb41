//! `ensemble schema`: prints the JSON Schemas of files, and a text that teaches a model to write ensembles.

use clap::Args;

use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::output_form::DocumentFormat;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_language::loader::schema::{ENSEMBLE_SCHEMA, TEST_SCHEMA, config_schema};

/// `ensemble schema`.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Print the schema of test files (*.test.yaml) instead
    #[arg(long)]
    pub tests: bool,
    /// Print a text that teaches a model to write ensembles (SKILL.md) instead
    #[arg(long, conflicts_with_all = ["tests", "config"])]
    pub skill: bool,
    /// Print the schema of .ensemble/config.yaml instead
    #[arg(long, conflicts_with = "tests")]
    pub config: bool,
}

/// Executes `ensemble schema`: prints the chosen schema, or the text for models. Returns the exit code.
pub(crate) fn print_schema(args: &SchemaArgs, surroundings: &CliEnvironment) -> Result<u8, CliError> {
    let json = |text: &str| surroundings.print_out_in_format(DocumentFormat::Json, text);
    match args {
        args if args.skill => surroundings.print_out(ensemble_mcp::skill::SKILL_MARKDOWN),
        args if args.tests => json(TEST_SCHEMA),
        args if args.config => json(&config_schema()),
        _ => json(ENSEMBLE_SCHEMA),
    }
    Ok(exit::SUCCESS)
}
