//! The environment of a child process: what it inherits, what it is given, and what it must not tell.
//!
//! Invariant: no child process gets a variable that carries rights of the user.

use std::ffi::OsStr;

use tokio::process::Command;

use ensemble_core::runner::{AttemptEnd, AttemptResult};
use ensemble_core::secrets::Secrets;
use ensemble_language::ensemble::{carries_rights, is_program_variable};

/// Environment variables that a foreign program needs: to be found, to know its user, and to choose a language.
const MINIMAL_VARIABLES: [&str; 12] = [
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

/// Returns whether a foreign program inherits the variable.
pub fn is_minimal_variable(variable: &str) -> bool {
    MINIMAL_VARIABLES.contains(&variable) || variable.starts_with("LC_")
}

/// Returns whether the variable belongs to the configuration of this program.
fn is_configuration_variable(name: &OsStr) -> bool {
    is_program_variable(name.as_encoded_bytes())
}

/// Environment of a child process. The default is the environment of this process.
#[derive(Debug, Clone, Default)]
pub struct ChildEnvironment {
    is_minimal: bool,
    added_variables: Vec<(String, String)>,
    secrets: Secrets,
}

impl ChildEnvironment {
    /// Creates the environment for a program of the ensemble author: all variables of this process except withheld ones.
    pub fn for_user_program(secrets: Secrets) -> Self {
        Self {
            secrets,
            ..Self::default()
        }
    }

    /// Creates the environment for a program of another author: only variables that it needs to start.
    pub fn for_foreign_program(secrets: Secrets) -> Self {
        Self {
            is_minimal: true,
            ..Self::for_user_program(secrets)
        }
    }

    /// Adds these variables.
    #[must_use]
    pub fn with_variables(mut self, given: impl IntoIterator<Item = (String, String)>) -> Self {
        self.added_variables.extend(given);
        self
    }

    /// Returns the names of the added variables.
    pub fn added_names(&self) -> Vec<String> {
        self.added_variables.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Sets the environment of the command.
    pub fn apply_to_command(&self, command: &mut Command) {
        if self.is_minimal {
            command.env_clear();
            command.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_minimal_variable)));
        } else {
            for variable in self.secrets.withheld_variables() {
                command.env_remove(variable);
            }
            let own = std::env::vars_os().map(|(name, _)| name);
            own.filter(|name| is_configuration_variable(name)).for_each(|name| {
                command.env_remove(name);
            });
        }
        let added = self.added_variables.iter().filter(|(name, _)| !carries_rights(name));
        command.envs(added.map(|(name, value)| (name, value)));
    }

    /// Returns the secrets that are redacted in the output of the process.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// Redacts the secrets in a text that is cut at its start, including parts of secrets.
    pub(crate) fn redact_fragment(&self, text: &str) -> String {
        self.secrets.redact_fragment(text)
    }

    /// Redacts the secrets in the text.
    pub(crate) fn redact_text(&self, text: &str) -> String {
        self.secrets.redact(text).into_owned()
    }

    /// Redacts the secrets in an outcome.
    pub fn redact_outcome(&self, observed: AttemptEnd) -> AttemptEnd {
        match observed {
            AttemptEnd::Finished(observation) => AttemptEnd::Finished(AttemptResult {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_program_are_its_own() {
        for (name, is_own, is_right) in [
            ("ENSEMBLE_TRUST", true, true),
            ("ensemble_ui_token", true, true),
            ("ENSEMBLE_OTLP", true, false),
            ("ENSEMBLES", false, false),
            ("MY_ENSEMBLE_TRUST", false, false),
        ] {
            assert_eq!(
                (is_configuration_variable(name.as_ref()), carries_rights(name)),
                (is_own, is_right),
                "{name}"
            );
        }
        let mut command = Command::new("true");
        let given =
            [("ENSEMBLE_TRUST", "1"), ("LEVEL", "warn")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        for environment in [
            ChildEnvironment::for_user_program(Secrets::default()),
            ChildEnvironment::for_foreign_program(Secrets::default()),
        ] {
            environment.with_variables(given.clone()).apply_to_command(&mut command);
            let mut set = command.as_std().get_envs().filter(|(_, value)| value.is_some());
            assert!(set.all(|(name, _)| name != "ENSEMBLE_TRUST"));
        }
    }
}
