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
pub fn is_small(variable: &str) -> bool {
    SMALL.contains(&variable) || variable.starts_with("LC_")
}

/// The environment of a child process. The default is that of this process.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    is_small: bool,
    given: Vec<(String, String)>,
    secrets: Secrets,
}

impl Environment {
    /// For a program of the ensemble's author: the environment of this process, without the variables that are withheld.
    pub fn of_user(secrets: Secrets) -> Self {
        Self {
            secrets,
            ..Self::default()
        }
    }

    /// For a program of somebody else: only what is needed to start it.
    pub fn small(secrets: Secrets) -> Self {
        Self {
            is_small: true,
            ..Self::of_user(secrets)
        }
    }

    /// With these variables too.
    #[must_use]
    pub fn with(mut self, given: impl IntoIterator<Item = (String, String)>) -> Self {
        self.given.extend(given);
        self
    }

    /// The names of the variables that it was given beside those that are inherited.
    pub fn names(&self) -> Vec<String> {
        self.given.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Gives the environment to the command, which has been given none yet.
    pub fn apply(&self, command: &mut Command) {
        if self.is_small {
            command.env_clear();
            command.envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_small)));
        } else {
            for variable in self.secrets.variables() {
                command.env_remove(variable);
            }
        }
        command.envs(self.given.iter().map(|(name, value)| (name, value)));
    }

    /// Redacts the secrets in an outcome.
    pub fn struck(&self, observed: AttemptOutcome) -> AttemptOutcome {
        match observed {
            AttemptOutcome::Finished(observation) => AttemptOutcome::Finished(AttemptResult {
                result: match observation.result {
                    Ok(mut output) => {
                        self.secrets.strike_map(&mut output);
                        Ok(output)
                    }
                    Err(mut failure) => {
                        failure.error = self.secrets.strike(failure.error).into_owned();
                        Err(failure)
                    }
                },
                ..observation
            }),
            other => other,
        }
    }
}
