//! Findings and their fixes in the form of the protocol.

use std::path::Path;

use ensemble_language::diagnostic::{self, FindingSeverity, RelatedLocation};
use lsp_types::{Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, Location, NumberOrString, Uri};

use super::capabilities::ClientFeatures;
use super::file_address;
use crate::text::EditorText;

/// Converts a finding to the form of the protocol. Names of other files are relative to `folder`.
pub(super) fn to_lsp_diagnostic(
    finding: &diagnostic::Diagnostic,
    text: &EditorText,
    uri: &Uri,
    folder: &Path,
    client: ClientFeatures,
) -> Diagnostic {
    let place = |related: &RelatedLocation| match related.source.name() == finding.source.name() {
        true => Some(Location::new(uri.clone(), text.range_for_span(related.span))),
        false => {
            let related_text = EditorText::new(related.source.text().clone(), client.encoding);
            let uri = file_address::uri_from_path(&folder.join(related.source.name()))?;
            Some(Location::new(uri, related_text.range_for_span(related.span)))
        }
    };
    let related = finding.related.iter().filter_map(|related| {
        Some(DiagnosticRelatedInformation {
            location: place(related)?,
            message: related.message.clone(),
        })
    });
    let message = match &finding.help {
        Some(help) => format!("{}\nhelp: {help}", finding.message),
        None => finding.message.clone(),
    };
    let code = finding.code.0;
    Diagnostic {
        range: text.range_for_span(finding.span),
        severity: Some(match finding.severity {
            FindingSeverity::Error => DiagnosticSeverity::ERROR,
            FindingSeverity::Warning => DiagnosticSeverity::WARNING,
            FindingSeverity::Hint => DiagnosticSeverity::INFORMATION,
        }),
        code: (!code.is_empty()).then(|| NumberOrString::String(code.to_owned())),
        source: Some("ensemble".to_owned()),
        message,
        related_information: client.shows_related.then(|| related.collect()),
        ..Diagnostic::default()
    }
}
