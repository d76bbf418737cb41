//! `--allow`, `--deny` and `--deny-warnings`, and the levels of a configuration: decide which findings are reported, and which are failures.

use crate::command::check::ValidateArgs;
use crate::command::check::explain::known;
use crate::command::shared::error::CliError;
use ensemble_language::diagnostic::{Code, Diagnostic, Severity};
use ensemble_language::loader::{Level, Settings};

/// The policy for findings.
#[derive(Clone)]
pub(crate) struct Policy {
    allowed: Vec<Code>,
    denied: Vec<Code>,
    levels: Vec<(Code, Level)>,
    deny_warnings: Option<bool>,
    ci: Option<bool>,
}

impl Policy {
    /// The policy of the arguments; errors cannot be allowed.
    pub(crate) fn of(args: &ValidateArgs) -> Result<Self, CliError> {
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
            levels: Vec::new(),
            deny_warnings: either(args.deny_warnings, args.no_deny_warnings),
            ci: either(args.ci, args.no_ci),
        })
    }

    /// The same policy where a configuration says what the arguments do not.
    pub(crate) fn over(&self, settings: &Settings) -> Self {
        Self {
            levels: settings.levels.clone(),
            deny_warnings: self.deny_warnings.or(settings.deny_warnings),
            ci: self.ci.or(settings.ci),
            ..self.clone()
        }
    }

    /// Removes the allowed findings, and gives the others their levels. Also returns how many findings the configuration has
    /// removed.
    pub(crate) fn apply(&self, mut findings: Vec<Diagnostic>) -> (Vec<Diagnostic>, usize) {
        findings.retain(|finding| !self.allowed.contains(&finding.code));
        let before = findings.len();
        findings.retain(|finding| self.level(finding.code) != Some(Level::Off));
        for finding in &mut findings {
            if let Some(Level::As(severity)) = self.level(finding.code) {
                finding.severity = severity;
            }
        }
        let off = before - findings.len();
        (findings, off)
    }

    /// The level of the code, if it is not its own.
    fn level(&self, code: Code) -> Option<Level> {
        if self.denied.contains(&code) {
            return Some(Level::As(Severity::Error));
        }
        let mut levels = self.levels.iter();
        levels.find(|(known, _)| *known == code).map(|(_, level)| *level)
    }

    /// Returns whether the finding makes the command fail.
    pub(crate) fn fails(&self, finding: &Diagnostic) -> bool {
        match finding.severity {
            Severity::Error => true,
            Severity::Warning => self.deny_warnings.unwrap_or(false),
            Severity::Hint => false,
        }
    }

    /// Returns whether the checks for runs in CI are made.
    pub(crate) fn is_ci(&self) -> bool {
        self.ci.unwrap_or(false)
    }
}

/// Returns the value of two opposite flags, if one of them is set.
fn either(yes: bool, no: bool) -> Option<bool> {
    (yes || no).then_some(yes)
}
