//! Completions in the form of the protocol.

use lsp_types::{
    CompletionItem, CompletionItemKind, CompletionTextEdit, Documentation, MarkupContent, MarkupKind, TextEdit,
};

use crate::text::EditorText;
use ensemble_ide::analysis::completions::{CompletionKind, EditorCompletion};

/// Converts a completion to the form of the protocol. `rank` determines its position in the list.
pub(super) fn build_completion_item(completion: &EditorCompletion, rank: usize, text: &EditorText) -> CompletionItem {
    let documentation = completion.meaning.as_ref().map(|meaning| {
        Documentation::MarkupContent(MarkupContent {
            kind: MarkupKind::Markdown,
            value: meaning.clone(),
        })
    });
    CompletionItem {
        label: completion.label.clone(),
        kind: Some(match completion.kind {
            CompletionKind::Key => CompletionItemKind::PROPERTY,
            CompletionKind::Word => CompletionItemKind::KEYWORD,
            CompletionKind::Agent => CompletionItemKind::CLASS,
            CompletionKind::Name => CompletionItemKind::VALUE,
            CompletionKind::Variable => CompletionItemKind::VARIABLE,
            CompletionKind::Function => CompletionItemKind::FUNCTION,
            CompletionKind::Code => CompletionItemKind::CONSTANT,
        }),
        detail: completion.detail.clone(),
        documentation,
        sort_text: Some(format!("{rank:05}")),
        text_edit: Some(CompletionTextEdit::Edit(TextEdit::new(
            text.range_for_span(completion.span),
            completion.insert.clone(),
        ))),
        ..CompletionItem::default()
    }
}
