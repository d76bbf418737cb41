//! The environment of a child process: what it inherits, what it is given, and what it must not tell.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

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

/// Words in the names of this program's variables that carry rights, such as the token of a page or trust in all files.
const WORDS_OF_RIGHTS: [&str; 4] = ["TOKEN", "TRUST", "SECRET", "KEY"];

/// Further variables that carry rights.
static VARIABLES_WITH_RIGHTS: RwLock<BTreeSet<String>> = RwLock::new(BTreeSet::new());

/// Keeps the variable, which carries a right such as the token of a server, from all child processes.
pub fn withhold_right(variable: &str) {
    let mut variables = VARIABLES_WITH_RIGHTS.write().unwrap_or_else(PoisonError::into_inner);
    variables.insert(variable.to_owned());
}

/// Returns whether the variable carries a right over this program, which no child process gets.
pub fn carries_right(variable: &str) -> bool {
    let own = variable.strip_prefix("ENSEMBLE_");
    own.is_some_and(|name| WORDS_OF_RIGHTS.iter().any(|word| name.contains(word)))
        || VARIABLES_WITH_RIGHTS
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(variable)
}

/// Returns the variables of this process that carry rights.
pub fn list_variables_with_rights() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter(|name| carries_right(name)).collect()
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
        self.added_variables
            .extend(given.into_iter().filter(|(name, _)| !carries_right(name)));
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
            let withheld = self.secrets.withheld_variables().into_iter();
            for variable in withheld.chain(list_variables_with_rights()) {
                command.env_remove(variable);
            }
        }
        command.envs(self.added_variables.iter().map(|(name, value)| (name, value)));
    }

    /// Returns the text, which is the end of a longer one, without the secrets of the environment and their parts.
    pub(crate) fn redact_fragment(&self, text: &str) -> String {
        self.secrets.redact_fragment(text)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_given_to_no_child() {
        withhold_right("TOKEN_OF_THE_TEST");
        for name in ["ENSEMBLE_UI_TOKEN", "ENSEMBLE_TRUST", "TOKEN_OF_THE_TEST"] {
            assert!(carries_right(name), "{name}");
            let environment = ChildEnvironment::default().with_variables([(name.to_owned(), "1".to_owned())]);
            assert!(environment.added_names().is_empty(), "{name}");
        }
        for name in ["ENSEMBLE_RUN_ID", "ENSEMBLE_PROCESS", "GITHUB_TOKEN", "PATH"] {
            assert!(!carries_right(name), "{name}");
        }
    }
}
