//! Checks of the text itself, and the removal of secrets from output.

use super::secrets;
use crate::diagnostic::{Diagnostic, Finding};
use crate::loader::Document;
use crate::source::{Source, Span};

/// The findings about a text, valid or not.
#[derive(Debug, Default)]
pub struct Text {
    secrets: Vec<(Span, &'static str)>,
}

impl Text {
    /// Examines a text, and its tree if there is one.
    pub fn look(source: &Source, document: Option<&Document>) -> Self {
        Self {
            secrets: secrets::find(source, document),
        }
    }

    /// A warning for each secret; no warning repeats the secret.
    pub fn findings(&self) -> Vec<Finding> {
        secrets::findings(&self.secrets)
    }

    /// Hides the secrets of this text in the messages and excerpts of all diagnostics.
    pub fn conceal(&self, diagnostics: &mut [Diagnostic]) {
        secrets::conceal(&self.secrets, diagnostics);
    }
}
