//! The environment of a child process: what it inherits, what it is given, and what it must not tell.

use tokio::process::Command;

use ensemble_core::runner::{AttemptOutcome, AttemptResult};
use ensemble_core::secrets::Secrets;

/// What a program needs that is not the author's own: to be found, to know its user, and to write in the user's language.
const SMALL: [&str; 12] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TERM",
    "TMPDIR",
    "TZ",
    "XDG_RUNTIME_DIR",
    "PWD",
];

/// Returns whether a program that is not the author's own inherits the variable.
pub fn is_minimal_variable(variable: &str) -> bool {
    SMALL.contains(&variable) || variable.starts_with("LC_")
}

/// The environment of a child process. The default is that of this process.
#[derive(Debug, Clone, Default)]
pub struct ChildEnvironment {
    is_minimal: bool,
    added_variables: Vec<(String, String)>,
    secrets: Secrets,
}

impl ChildEnvironment {
    /// For a program of the ensemble's author: the environment of this process, without the variables that are withheld.
    pub fn for_user_program(secrets: Secrets) -> Self {
        Self {
            secrets,
            ..Self::default()
        }
    }

    /// For a program of somebody else: only what is needed to start it.
    pub fn for_foreign_program(secrets: Secrets) -> Self {
        Self {
            is_minimal: true,
            ..Self::for_user_program(secrets)
        }
    }

    /// With these variables too.
    #[must_use]
    pub fn with_variables(mut self, given: impl IntoIterator<Item = (String, String)>) -> Self {
        self.added_variables.extend(given);
        self
    }

    /// Returns the names of the variables that it was given beside those that are inherited.
    pub fn added_names(&self) -> Vec<String> {
        self.added_variables.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Gives the environment to the command, which has been given none yet.
    pub fn apply_to_command(&self, command: &mut Command) {
        if self.is_minimal {
            command.env_clear();
            command.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_minimal_variable)));
        } else {
            for variable in self.secrets.withheld_variables() {
                command.env_remove(variable);
            }
        }
        command.envs(self.added_variables.iter().map(|(name, value)| (name, value)));
    }

    /// Returns the text without the secrets of the environment.
    pub(crate) fn redact_text(&self, text: &str) -> String {
        self.secrets.redact(text).into_owned()
    }

    /// Redacts the secrets in an outcome.
    pub fn redact_outcome(&self, observed: AttemptOutcome) -> AttemptOutcome {
        match observed {
            AttemptOutcome::Finished(observation) => AttemptOutcome::Finished(AttemptResult {
                result: match observation.result {
                    Ok(mut output) => {
                        self.secrets.redact_map(&mut output);
                        Ok(output)
                    }
                    Err(mut failure) => {
                        failure.error = self.redact_text(&failure.error);
                        failure.stdout = self.redact_text(&failure.stdout);
                        failure.stderr = self.redact_text(&failure.stderr);
                        Err(failure)
                    }
                },
                ..observation
            }),
            other => other,
        }
    }
}
