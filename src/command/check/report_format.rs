//! The formats of the reports of `ensemble validate`.

use std::path::Path;

use crate::command::check::ValidateFormat;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_language::diagnostic::{Diagnostic, FindingCode};
use ensemble_language::loader::code_explanations::explain_code;
use ensemble_language::loader::codes;
use ensemble_reports::report::diagnostics::{HumanFindingsFormat, JsonFindingsFormat};
use ensemble_reports::report::{
    FindingsReportFormat, GithubFindingsFormat, JunitFindingsFormat, SarifFindingsFormat, SarifRule,
};

/// Builds the report format of the option `--output`.
pub(super) fn build_report_format<'f>(
    format: ValidateFormat,
    fails: &'f (dyn Fn(&Diagnostic) -> bool + Sync),
    surroundings: &'f CliEnvironment,
) -> Box<dyn FindingsReportFormat + 'f> {
    let folder: &Path = &surroundings.project.folder;
    match format {
        ValidateFormat::Json => Box::new(JsonFindingsFormat),
        ValidateFormat::Github => Box::new(GithubFindingsFormat { folder }),
        ValidateFormat::Sarif => Box::new(SarifFindingsFormat {
            rules: sarif_rules(),
            folder,
        }),
        ValidateFormat::Junit => Box::new(JunitFindingsFormat { fails, folder }),
        ValidateFormat::Human => Box::new(HumanFindingsFormat {
            color: surroundings.streams.colors_on_stdout(),
        }),
    }
}

/// Returns the rules of all codes, for reports that list them.
fn sarif_rules() -> Vec<SarifRule> {
    let rule = |(code, title): &(FindingCode, &'static str)| SarifRule {
        code: *code,
        title,
        explanation: explain_code(*code),
    };
    codes::ALL.iter().map(rule).collect()
}
