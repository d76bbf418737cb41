//! The comments of the old file, copied in their order.

use super::draft::ImportRemark;
use ensemble_language::loader::document::YamlDocument;
use ensemble_language::source::Span;
use ensemble_language::yaml::edit::needs_yaml_escape;

/// Comments of the old file and remarks of the import that are not written yet.
pub(super) struct UnwrittenComments {
    list: Vec<PositionedComment>,
    next: usize,
    /// The ranges whose comments are shown elsewhere.
    skipped: Vec<Span>,
}

/// Comment with its position in the old file.
struct PositionedComment {
    at: usize,
    text: String,
    /// Whether the import wrote the comment, not the old file.
    is_remark: bool,
}

impl UnwrittenComments {
    /// Collects the comments of the file and the remarks, in the order of their positions. Omits modelines for editors.
    pub(super) fn from_document_and_remarks(document: &YamlDocument, remarks: &[ImportRemark]) -> Self {
        let text = document.source().text();
        let mut list = Vec::new();
        for span in document.comments() {
            let words = &text[span.start..span.end];
            let is_modeline = words
                .trim_start_matches('#')
                .trim_start()
                .starts_with("yaml-language-server:");
            // A comment for editors may name another schema.
            if !is_modeline {
                let visible_chars = words.chars().map(|c| if needs_yaml_escape(c) { ' ' } else { c });
                list.push(PositionedComment {
                    at: span.start,
                    text: visible_chars.collect(),
                    is_remark: false,
                });
            }
        }
        for remark in remarks {
            list.extend(remark.lines.iter().map(|line| PositionedComment {
                at: remark.at,
                text: format!("# {line}"),
                is_remark: true,
            }));
        }
        list.sort_by_key(|comment| comment.at);
        Self {
            list,
            next: 0,
            skipped: Vec::new(),
        }
    }

    /// Omits the comments of the old file in this range. Remarks stay.
    pub(super) fn skip_comments_in_span(&mut self, span: Span) {
        self.skipped.push(span);
    }

    /// Returns the comments before this position that were not returned yet.
    pub(super) fn take_comments_before(&mut self, place: usize) -> Vec<String> {
        let mut comments = Vec::new();
        while let Some(comment) = self.list.get(self.next).filter(|comment| comment.at < place) {
            let skipped = |span: &Span| (span.start..span.end).contains(&comment.at);
            if comment.is_remark || !self.skipped.iter().any(skipped) {
                comments.push(comment.text.clone());
            }
            self.next += 1;
        }
        comments
    }
}
