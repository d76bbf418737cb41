//! Escape style of each output format: the way to make control characters harmless.

use crate::command::check::ValidateFormat;
use crate::command::check::graph::GraphFormat;
use crate::command::check::test::TestFormat;
use crate::command::run::arguments::RunOutputFormat;
use crate::command::runs::ExportFormat;
use crate::command::shared::output_form::DocumentFormat;
use ensemble_reports::report::sanitized_writer::EscapeStyle;

impl From<RunOutputFormat> for EscapeStyle {
    fn from(form: RunOutputFormat) -> Self {
        match form {
            RunOutputFormat::Human => Self::Text,
            RunOutputFormat::Json | RunOutputFormat::Events => Self::Json,
        }
    }
}

impl From<DocumentFormat> for EscapeStyle {
    fn from(form: DocumentFormat) -> Self {
        match form {
            DocumentFormat::Human => Self::Text,
            DocumentFormat::Json => Self::Json,
        }
    }
}

impl From<ExportFormat> for EscapeStyle {
    fn from(form: ExportFormat) -> Self {
        match form {
            ExportFormat::Json | ExportFormat::Otlp => Self::Json,
            ExportFormat::Markdown => Self::Text,
            ExportFormat::Html => Self::Xml,
        }
    }
}

impl From<GraphFormat> for EscapeStyle {
    fn from(form: GraphFormat) -> Self {
        match form {
            GraphFormat::Svg => Self::Xml,
            GraphFormat::Mermaid | GraphFormat::Dot | GraphFormat::Ascii => Self::Text,
        }
    }
}

impl From<ValidateFormat> for EscapeStyle {
    fn from(form: ValidateFormat) -> Self {
        match form {
            ValidateFormat::Human => Self::Text,
            ValidateFormat::Github => Self::Commands,
            ValidateFormat::Json | ValidateFormat::Sarif => Self::Json,
            ValidateFormat::Junit => Self::Xml,
        }
    }
}

impl From<TestFormat> for EscapeStyle {
    fn from(form: TestFormat) -> Self {
        match form {
            TestFormat::Human => Self::Text,
            TestFormat::Github => Self::Commands,
            TestFormat::Json => Self::Json,
            TestFormat::Junit => Self::Xml,
        }
    }
}
