//! Findings and their fixes in the form of the protocol.

use std::path::Path;

use ensemble_language::diagnostic::{self, Related, Severity};
use lsp_types::{Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, Location, NumberOrString, Uri};

use super::address;
use super::capabilities::Client;
use crate::text::Text;

/// A finding about a text; names of other files begin in the folder.
pub(super) fn finding(
    finding: &diagnostic::Diagnostic,
    text: &Text,
    uri: &Uri,
    folder: &Path,
    client: Client,
) -> Diagnostic {
    let place = |related: &Related| match related.source.name() == finding.source.name() {
        true => Some(Location::new(uri.clone(), text.range(related.span))),
        false => {
            let other = Text::new(related.source.text().clone(), client.encoding);
            let uri = address::of_path(&folder.join(related.source.name()))?;
            Some(Location::new(uri, other.range(related.span)))
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
        range: text.range(finding.span),
        severity: Some(match finding.severity {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
            Severity::Hint => DiagnosticSeverity::INFORMATION,
        }),
        code: (!code.is_empty()).then(|| NumberOrString::String(code.to_owned())),
        source: Some("ensemble".to_owned()),
        message,
        related_information: client.shows_related.then(|| related.collect()),
        ..Diagnostic::default()
    }
}
