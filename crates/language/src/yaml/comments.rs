//! Finds the comments of a text, which the parser drops.
//!
//! A `#` begins a comment if it starts a line or follows a blank, is not inside a scalar, and no earlier `#` of its line
//! has begun a comment. The scalars arrive in the order of the text, so one pass over both is enough.

use std::collections::VecDeque;

use crate::data::BYTE_ORDER_MARK;
use crate::source::Span;

/// A finder of comments: the `#` characters that can begin a comment. Those inside scalars are removed during parsing.
#[derive(Debug)]
pub(crate) struct CommentFinder {
    /// Not decided yet, in the order of the text.
    pending: VecDeque<usize>,
    /// Not inside a scalar.
    outside: Vec<usize>,
}

impl CommentFinder {
    /// Collects every `#` of the text that can begin a comment.
    pub(crate) fn new(text: &str) -> Self {
        let is_after_blank = |at: &usize| {
            let before = text[..*at].chars().next_back();
            before.is_none_or(|c| matches!(c, ' ' | '\t' | '\n' | '\r' | BYTE_ORDER_MARK))
        };
        let signs = memchr::memchr_iter(b'#', text.as_bytes());
        Self {
            pending: signs.filter(is_after_blank).collect(),
            outside: Vec::new(),
        }
    }

    /// Removes the candidates inside this scalar. Scalars must arrive in the order of the text.
    pub(crate) fn skip_scalar(&mut self, scalar: Span) {
        while let Some(at) = self.pending.pop_front_if(|at| *at < scalar.end) {
            if at < scalar.start {
                self.outside.push(at);
            }
        }
    }

    /// Returns the comments, each from its `#` to the last visible character of its line.
    pub(crate) fn into_comments(mut self, text: &str) -> Vec<Span> {
        self.outside.extend(self.pending);
        let mut comments: Vec<Span> = Vec::new();
        for at in self.outside {
            if comments.last().is_some_and(|last| at < last.end) {
                continue;
            }
            let line = text[at..].split(['\n', '\r']).next().unwrap_or_default();
            comments.push(Span::new(at, at + line.trim_end().len()));
        }
        comments
    }
}

/// Returns whether the comment has the form `# ensemble: allow…`.
pub(crate) fn is_allowance_comment(comment: &str) -> bool {
    let words = comment.trim_start_matches('#').trim_start();
    let rest = words.strip_prefix("ensemble:").map(str::trim_start);
    let rest = rest.and_then(|rest| rest.strip_prefix("allow"));
    rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
}
