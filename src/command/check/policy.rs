//! Policy for findings, from `--allow`, `--deny`, `--deny-warnings` and the levels of a configuration: decides which findings are reported, and
//! which are failures.

use crate::command::check::ValidateArgs;
use crate::command::check::explain::resolve_code;
use crate::command::shared::error::CliError;
use ensemble_language::diagnostic::{Diagnostic, FindingCode, FindingSeverity};
use ensemble_language::loader::{FindingLevel, ValidateSettings};

/// Policy for findings: allowed and denied codes, and levels.
#[derive(Clone)]
pub(crate) struct FindingPolicy {
    allowed_codes: Vec<FindingCode>,
    denied_codes: Vec<FindingCode>,
    levels: Vec<(FindingCode, FindingLevel)>,
    deny_warnings: Option<bool>,
    ci: Option<bool>,
}

impl FindingPolicy {
    /// Creates the policy of the arguments.
    ///
    /// # Errors
    /// A code does not exist, is allowed and denied, or an allowed code is an error.
    pub(crate) fn from_args(args: &ValidateArgs) -> Result<Self, CliError> {
        let codes = |given: &[String]| {
            given
                .iter()
                .map(|code| resolve_code(code.trim()))
                .collect::<Result<Vec<_>, _>>()
        };
        let (allowed, denied) = (codes(&args.allow)?, codes(&args.deny)?);
        if let Some(error) = allowed.iter().find(|code| code.severity() == FindingSeverity::Error) {
            let message = format!("{} is an error and cannot be allowed", error.0);
            return Err(CliError::usage_error_with_help(
                message,
                "fix the error; only warnings (W…) and hints (H…) can be allowed",
            ));
        }
        if let Some(conflicting_code) = allowed.iter().find(|code| denied.contains(code)) {
            return Err(CliError::usage_error(format!(
                "{} is both allowed and denied",
                conflicting_code.0
            )));
        }
        Ok(Self {
            allowed_codes: allowed,
            denied_codes: denied,
            levels: Vec::new(),
            deny_warnings: merge_opposite_flags(args.deny_warnings, args.no_deny_warnings),
            ci: merge_opposite_flags(args.ci, args.no_ci),
        })
    }

    /// Returns the policy with the settings of a configuration. Arguments override the settings.
    pub(crate) fn with_settings(&self, settings: &ValidateSettings) -> Self {
        Self {
            levels: settings.levels.clone(),
            deny_warnings: self.deny_warnings.or(settings.deny_warnings),
            ci: self.ci.or(settings.ci),
            ..self.clone()
        }
    }

    /// Removes the allowed findings and sets the levels of the others. Also returns the number of findings that the configuration disabled.
    pub(crate) fn apply_levels(&self, mut findings: Vec<Diagnostic>) -> (Vec<Diagnostic>, usize) {
        findings.retain(|finding| !self.allowed_codes.contains(&finding.code));
        let before = findings.len();
        findings.retain(|finding| self.changed_level(finding.code) != Some(FindingLevel::Off));
        for finding in &mut findings {
            if let Some(FindingLevel::As(severity)) = self.changed_level(finding.code) {
                finding.severity = severity;
            }
        }
        let off = before - findings.len();
        (findings, off)
    }

    /// Returns the level that the policy sets for the code. Returns `None` if the code keeps its own level.
    fn changed_level(&self, code: FindingCode) -> Option<FindingLevel> {
        if self.denied_codes.contains(&code) {
            return Some(FindingLevel::As(FindingSeverity::Error));
        }
        let mut levels = self.levels.iter();
        levels.find(|(known, _)| *known == code).map(|(_, level)| *level)
    }

    /// Returns whether the finding makes the command fail.
    pub(crate) fn is_failure(&self, finding: &Diagnostic) -> bool {
        match finding.severity {
            FindingSeverity::Error => true,
            FindingSeverity::Warning => self.deny_warnings.unwrap_or(false),
            FindingSeverity::Hint => false,
        }
    }

    /// Returns whether the checks for runs in CI are enabled.
    pub(crate) fn checks_for_ci(&self) -> bool {
        self.ci.unwrap_or(false)
    }
}

/// Returns the value of two opposite flags. Returns `None` if no flag is set.
fn merge_opposite_flags(yes: bool, no: bool) -> Option<bool> {
    (yes || no).then_some(yes)
}
