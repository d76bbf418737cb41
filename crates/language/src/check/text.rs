//! Checks of the text itself, and the removal of secrets from output.

use super::secrets;
use crate::diagnostic::{Diagnostic, Finding};
use crate::loader::Document;
use crate::source::{Source, Span};

/// The findings about a text, valid or not.
#[derive(Debug)]
pub struct Text {
    source: Source,
    secrets: Vec<(Span, &'static str)>,
}

impl Text {
    /// Examines a text, and its tree if there is one.
    pub fn look(source: &Source, document: Option<&Document>) -> Self {
        Self {
            source: source.clone(),
            secrets: secrets::find(source, document),
        }
    }

    /// A warning for each secret; no warning repeats the secret.
    pub fn findings(&self) -> Vec<Finding> {
        secrets::findings(&self.secrets)
    }

    /// Hides the secrets of this text, and of the other texts that are shown, in the messages and excerpts of all
    /// diagnostics.
    pub fn conceal(&self, diagnostics: &mut [Diagnostic]) {
        secrets::conceal(&self.source, &self.secrets, diagnostics);
        let mut others: Vec<Source> = Vec::new();
        for source in diagnostics.iter().map(|one| &one.source) {
            if source.name() != self.source.name() && !others.contains(source) {
                others.push(source.clone());
            }
        }
        for other in others {
            secrets::conceal(&other, &secrets::find(&other, None), diagnostics);
        }
    }
}
