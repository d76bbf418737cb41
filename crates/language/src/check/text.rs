//! The text as it is shown: with what it must not hold, and without what nobody may see.

use super::secrets;
use crate::diagnostic::{Diagnostic, Finding};
use crate::loader::Document;
use crate::source::{Source, Span};

/// What was found in a text, sound or not.
#[derive(Debug, Default)]
pub struct Text {
    secrets: Vec<(Span, &'static str)>,
}

impl Text {
    /// Looks at a text, and at its tree where it has one.
    pub fn look(source: &Source, document: Option<&Document>) -> Self {
        Self {
            secrets: secrets::find(source, document),
        }
    }

    /// A warning for each secret; none repeats it.
    pub fn findings(&self) -> Vec<Finding> {
        secrets::findings(&self.secrets)
    }

    /// Hides the secrets in what all diagnostics of this text say and show.
    pub fn conceal(&self, diagnostics: &mut [Diagnostic]) {
        secrets::conceal(&self.secrets, diagnostics);
    }
}
