//! Finds `# ensemble: allow(…)` where it is a comment, and not part of a value.
//!
//! The parser drops comments. A `#` begins a comment if it starts a line or follows a blank, is not inside a scalar,
//! and no earlier `#` of its line has begun a comment. The scalars arrive in the order of the text, so one pass over
//! both is enough.

use std::collections::VecDeque;

use crate::source::Span;

/// The `#` characters that may begin such a comment; those inside scalars are removed as the scalars are read.
pub(super) struct Comments {
    /// Not decided yet, in the order of the text.
    pending: VecDeque<usize>,
    /// Not inside a scalar.
    outside: Vec<usize>,
}

impl Comments {
    /// Every `#` of the lines that contain the word `allow`.
    pub(super) fn of(text: &str) -> Self {
        let mut pending = VecDeque::new();
        // For nearly every file, the search ends here.
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

    /// A scalar: its content is not a comment.
    pub(super) fn pass(&mut self, scalar: Span) {
        while let Some(at) = self.pending.pop_front_if(|at| *at < scalar.end) {
            if at < scalar.start {
                self.outside.push(at);
            }
        }
    }

    /// The comments, each up to the end of its line.
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
