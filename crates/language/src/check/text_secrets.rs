//! Checks of the text itself, and the removal of secrets from output.

use super::{hidden_values, secrets};
use crate::diagnostic::{Diagnostic, Finding};
use crate::loader::YamlDocument;
use crate::source::{SourceText, Span};

/// The secrets of a text, valid or not: their findings, and the redaction of diagnostics.
#[derive(Debug)]
pub struct TextSecrets {
    source: SourceText,
    secrets: Vec<(Span, &'static str)>,
    /// Values that may be secrets, which excerpts do not show.
    hidden: Vec<Span>,
}

impl TextSecrets {
    /// Finds the secrets of a text. Uses the YAML document if the text could be parsed.
    pub fn find_in(source: &SourceText, document: Option<&YamlDocument>) -> Self {
        Self {
            source: source.clone(),
            secrets: secrets::find_secrets(source, document),
            hidden: hidden_values::find_hidden_values(source, document),
        }
    }

    /// Returns a warning for each secret. No warning repeats the secret.
    pub fn secret_warnings(&self) -> Vec<Finding> {
        secrets::secret_findings(&self.secrets)
    }

    /// Replaces the secrets of this text, and of other texts that the diagnostics show, with asterisks.
    pub fn redact_diagnostics(&self, diagnostics: &mut [Diagnostic]) {
        secrets::redact_diagnostics(&self.source, &self.secrets, &self.hidden, diagnostics);
        let mut other_sources: Vec<SourceText> = Vec::new();
        for source in diagnostics.iter().map(|one| &one.source) {
            if source.name() != self.source.name() && !other_sources.contains(source) {
                other_sources.push(source.clone());
            }
        }
        for other_source in other_sources {
            let found = secrets::find_secrets(&other_source, None);
            let hidden = hidden_values::find_hidden_values(&other_source, None);
            secrets::redact_diagnostics(&other_source, &found, &hidden, diagnostics);
        }
    }
}
