//! The comments of the old file, copied in their order.

use super::draft::Remark;
use super::odd::is_odd;
use ensemble_language::loader::document::{Content, Document, Node};
use ensemble_language::source::Span;

/// The comments that are not written yet.
pub(super) struct Comments {
    list: Vec<Comment>,
    next: usize,
    /// The ranges whose comments are shown elsewhere.
    skipped: Vec<Span>,
}

struct Comment {
    at: usize,
    text: String,
    /// Whether the import wrote the comment, not the old file.
    is_remark: bool,
}

impl Comments {
    /// The comments of the file, and remarks about its places.
    pub(super) fn of(document: &Document, remarks: &[Remark]) -> Self {
        let text = document.source().text();
        let mut scalars = Vec::new();
        gather(document.root(), &mut scalars);
        scalars.sort_unstable();
        let inside = |at: usize| {
            let before = scalars.partition_point(|span| span.start <= at);
            before > 0 && at < scalars[before - 1].end
        };
        let mut list = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let begins = |at: &usize| {
                let before = line[..*at].chars().next_back();
                before.is_none_or(|c| matches!(c, ' ' | '\t' | '\u{feff}')) && !inside(start + at)
            };
            let sign = line.match_indices('#').map(|(at, _)| at).find(begins);
            if let Some(at) = sign {
                let words = line[at..].trim_end();
                // A comment for editors may name another schema.
                if !words
                    .trim_start_matches('#')
                    .trim_start()
                    .starts_with("yaml-language-server:")
                {
                    let shown = words.chars().map(|c| if is_odd(c) { ' ' } else { c });
                    list.push(Comment {
                        at: start + at,
                        text: shown.collect(),
                        is_remark: false,
                    });
                }
            }
            start += line.len();
        }
        for remark in remarks {
            list.extend(remark.lines.iter().map(|line| Comment {
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

    /// Drops the comments of a range of the text.
    pub(super) fn skip(&mut self, span: Span) {
        self.skipped.push(span);
    }

    /// The comments before a place that were not copied yet.
    pub(super) fn until(&mut self, place: usize) -> Vec<String> {
        let mut taken = Vec::new();
        while let Some(comment) = self.list.get(self.next).filter(|comment| comment.at < place) {
            let skipped = |span: &Span| (span.start..span.end).contains(&comment.at);
            if comment.is_remark || !self.skipped.iter().any(skipped) {
                taken.push(comment.text.clone());
            }
            self.next += 1;
        }
        taken
    }
}

/// The places of all keys and scalars.
fn gather(node: &Node, spans: &mut Vec<Span>) {
    match &node.content {
        Content::Scalar(_) => spans.push(node.span),
        Content::Sequence(items) => items.iter().for_each(|item| gather(item, spans)),
        Content::Mapping(entries) => {
            for entry in entries {
                spans.push(entry.key_span);
                gather(&entry.value, spans);
            }
        }
    }
}
