//! `--allow`, `--deny` and `--deny-warnings`: decide which findings are failures.

use super::args::ValidateArgs;
use super::error::CliError;
use super::explain::known;
use ensemble_language::diagnostic::{Code, Diagnostic, Severity};

/// The policy for findings.
pub(super) struct Policy {
    allowed: Vec<Code>,
    denied: Vec<Code>,
    deny_warnings: bool,
}

impl Policy {
    /// The policy of the arguments; errors cannot be allowed.
    pub(super) fn of(args: &ValidateArgs) -> Result<Self, CliError> {
        let codes = |given: &[String]| {
            given
                .iter()
                .map(|code| known(code.trim()))
                .collect::<Result<Vec<_>, _>>()
        };
        let (allowed, denied) = (codes(&args.allow)?, codes(&args.deny)?);
        if let Some(error) = allowed.iter().find(|code| code.severity() == Severity::Error) {
            let message = format!("{} is an error and cannot be allowed", error.0);
            return Err(CliError::usage_with_help(
                message,
                "warnings (W…) and hints (H…) can be",
            ));
        }
        if let Some(both) = allowed.iter().find(|code| denied.contains(code)) {
            return Err(CliError::usage(format!("{} is both allowed and denied", both.0)));
        }
        Ok(Self {
            allowed,
            denied,
            deny_warnings: args.deny_warnings,
        })
    }

    /// Removes the allowed findings, and makes the denied ones errors.
    pub(super) fn apply(&self, mut findings: Vec<Diagnostic>) -> Vec<Diagnostic> {
        findings.retain(|finding| !self.allowed.contains(&finding.code));
        for finding in findings
            .iter_mut()
            .filter(|finding| self.denied.contains(&finding.code))
        {
            finding.severity = Severity::Error;
        }
        findings
    }

    /// Whether the finding makes the command fail.
    pub(super) fn fails(&self, finding: &Diagnostic) -> bool {
        match finding.severity {
            Severity::Error => true,
            Severity::Warning => self.deny_warnings,
            Severity::Hint => false,
        }
    }
}
