//! Keeps blocks of messages at the beginning and at the end.

use super::{ThreadSize, TurnRetention, WindowLimits};

/// Blocks of messages in order. Blocks in the middle are left out if not all fit.
pub(super) struct OrderedBlocks<'a> {
    pub(super) limits: WindowLimits,
    pub(super) keep: TurnRetention,
    /// The size of what is sent beside the blocks.
    pub(super) fixed: ThreadSize,
    /// The size of the text that is sent if a block is left out.
    pub(super) in_place: ThreadSize,
    pub(super) blocks: &'a [ThreadSize],
}

impl OrderedBlocks<'_> {
    /// Returns the numbers of blocks kept at the start and at the end: at least `must` at the end, at most `most` together.
    pub(super) fn count_kept_at_ends(&self, must: usize, most: usize) -> (usize, usize) {
        let all = self.blocks.len();
        // Without a limit, the number of blocks is the limit.
        let is_limited = self.limits != WindowLimits::default() && !matches!(self.keep, TurnRetention::Always(_));
        if (is_limited || most == all) && self.fits_limits(0, all) {
            return (0, all);
        }
        let (mut head, mut tail) = (0, must.min(most));
        while head + tail < most {
            let steps = match self.keep {
                TurnRetention::BothEnds if head < tail => [(head + 1, tail), (head, tail + 1)],
                TurnRetention::BothEnds => [(head, tail + 1), (head + 1, tail)],
                TurnRetention::Latest | TurnRetention::AtMost(_) | TurnRetention::Always(_) => [(head, tail + 1); 2],
            };
            match steps.into_iter().find(|(head, tail)| self.fits_limits(*head, *tail)) {
                Some(step) => (head, tail) = step,
                None => break,
            }
        }
        (head, tail)
    }

    /// Returns whether this number of blocks at the start and at the end fits the limits.
    fn fits_limits(&self, head: usize, tail: usize) -> bool {
        self.limits.allows_size(self.kept_size(head, tail))
    }

    /// Returns the size with this number of blocks kept at the start and at the end.
    fn kept_size(&self, head: usize, tail: usize) -> ThreadSize {
        let all = self.blocks.len();
        if head + tail >= all {
            return self.fixed + self.blocks.iter().copied().sum();
        }
        let blocks = self.blocks[..head].iter().chain(&self.blocks[all - tail..]);
        self.fixed + self.in_place + blocks.copied().sum()
    }
}
