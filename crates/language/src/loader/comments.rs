//! Where `# ensemble: allow(…)` stands as a comment, and not as part of a text.
//!
//! The parser drops comments. A `#` is one if it follows a blank or starts a line, lies in no scalar, and
//! no earlier `#` of its line has begun the comment already. The scalars come in the order of the text, so
//! one walk along both finds them.

use std::collections::VecDeque;

use crate::source::Span;

/// The signs that may begin such a comment, sorted out as the scalars go by.
pub(super) struct Comments {
    /// Not decided yet, in the order of the text.
    pending: VecDeque<usize>,
    /// In no scalar.
    outside: Vec<usize>,
}

impl Comments {
    /// Every `#` of the lines that speak of allowing.
    pub(super) fn of(text: &str) -> Self {
        let mut pending = VecDeque::new();
        // Nearly every file ends the search here.
        if text.contains("ensemble:") && text.contains("allow") {
            let mut start = 0;
            for line in text.split_inclusive('\n') {
                if line.contains("ensemble:") && line.contains("allow") {
                    pending.extend(signs(line).map(|at| start + at));
                }
                start += line.len();
            }
        }
        Self {
            pending,
            outside: Vec::new(),
        }
    }

    /// A scalar: what stands in it is no comment.
    pub(super) fn pass(&mut self, scalar: Span) {
        while let Some(at) = self.pending.pop_front_if(|at| *at < scalar.end) {
            if at < scalar.start {
                self.outside.push(at);
            }
        }
    }

    /// The comments, each to the end of its line.
    pub(super) fn finish(mut self, text: &str) -> Vec<Span> {
        self.outside.extend(self.pending);
        let mut comments: Vec<Span> = Vec::new();
        for at in self.outside {
            if comments.last().is_some_and(|last| at < last.end) {
                continue;
            }
            let line = text[at..].lines().next().unwrap_or_default();
            comments.push(Span::new(at, at + line.len()));
        }
        comments.retain(|comment| is_directive(&text[comment.start..comment.end]));
        comments
    }
}

fn signs(line: &str) -> impl Iterator<Item = usize> {
    let starts = |at: usize| {
        line[..at]
            .chars()
            .next_back()
            .is_none_or(|c| matches!(c, ' ' | '\t' | '\u{feff}'))
    };
    line.match_indices('#').map(|(at, _)| at).filter(move |at| starts(*at))
}

fn is_directive(comment: &str) -> bool {
    let words = comment.trim_start_matches('#').trim_start();
    let rest = words.strip_prefix("ensemble:").map(str::trim_start);
    let rest = rest.and_then(|rest| rest.strip_prefix("allow"));
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
}
