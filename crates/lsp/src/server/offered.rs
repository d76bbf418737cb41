//! Completions in the form of the protocol.

use lsp_types::{
    CompletionItem, CompletionItemKind, CompletionTextEdit, Documentation, MarkupContent, MarkupKind, TextEdit,
};

use crate::text::Text;
use ensemble_ide::analysis::complete::{Completion, Kind};

/// A completion, shown at its place in the list.
pub(super) fn item(completion: &Completion, rank: usize, text: &Text) -> CompletionItem {
    let documentation = completion.meaning.as_ref().map(|meaning| {
        Documentation::MarkupContent(MarkupContent {
            kind: MarkupKind::Markdown,
            value: meaning.clone(),
        })
    });
    CompletionItem {
        label: completion.label.clone(),
        kind: Some(match completion.kind {
            Kind::Key => CompletionItemKind::PROPERTY,
            Kind::Word => CompletionItemKind::KEYWORD,
            Kind::Agent => CompletionItemKind::CLASS,
            Kind::Name => CompletionItemKind::VALUE,
            Kind::Variable => CompletionItemKind::VARIABLE,
            Kind::Function => CompletionItemKind::FUNCTION,
            Kind::Code => CompletionItemKind::CONSTANT,
        }),
        detail: completion.detail.clone(),
        documentation,
        sort_text: Some(format!("{rank:05}")),
        text_edit: Some(CompletionTextEdit::Edit(TextEdit::new(
            text.range(completion.span),
            completion.insert.clone(),
        ))),
        ..CompletionItem::default()
    }
}
