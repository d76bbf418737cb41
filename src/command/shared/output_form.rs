//! The output formats of commands with one document.

use clap::{Args, ValueEnum};

/// Output format of a command that prints one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum DocumentFormat {
    /// Readable text.
    #[default]
    Human,
    /// One JSON document.
    Json,
}
/// The output format of a list.
#[derive(Debug, Args)]
pub(crate) struct DocumentFormatArgs {
    /// Choose the output format
    #[arg(long, alias = "format", value_enum, default_value_t = DocumentFormat::Human, value_name = "FORM")]
    output: DocumentFormat,
    /// The same as `--output json`
    #[arg(long, hide = true, conflicts_with = "output")]
    json: bool,
}

impl DocumentFormatArgs {
    /// Returns whether the command prints one JSON document.
    pub(crate) fn is_json(&self) -> bool {
        self.json || self.output == DocumentFormat::Json
    }
}
