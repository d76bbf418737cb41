//! Keeps blocks of messages at the beginning and at the end.

use super::{Keep, Limits, Size};

/// Blocks in order, of which those in the middle are left out if not all fit.
pub(super) struct Ends<'a> {
    pub(super) limits: Limits,
    pub(super) keep: Keep,
    /// The size of what is sent beside the blocks.
    pub(super) fixed: Size,
    /// The size of the text that is sent if a block is left out.
    pub(super) in_place: Size,
    pub(super) blocks: &'a [Size],
}

impl Ends<'_> {
    /// The numbers of blocks that are kept at the beginning and at the end: at least `must` at the end, and no more
    /// than `most` together.
    pub(super) fn kept(&self, must: usize, most: usize) -> (usize, usize) {
        let all = self.blocks.len();
        // Without a limit, the number of blocks is the limit.
        let is_limited = self.limits != Limits::default() && !matches!(self.keep, Keep::Always(_));
        if (is_limited || most == all) && self.fits(0, all) {
            return (0, all);
        }
        let (mut head, mut tail) = (0, must.min(most));
        while head + tail < most {
            let steps = match self.keep {
                Keep::BothEnds if head < tail => [(head + 1, tail), (head, tail + 1)],
                Keep::BothEnds => [(head, tail + 1), (head + 1, tail)],
                Keep::Latest | Keep::AtMost(_) | Keep::Always(_) => [(head, tail + 1); 2],
            };
            match steps.into_iter().find(|(head, tail)| self.fits(*head, *tail)) {
                Some(step) => (head, tail) = step,
                None => break,
            }
        }
        (head, tail)
    }

    fn fits(&self, head: usize, tail: usize) -> bool {
        self.limits.allow(self.size(head, tail))
    }

    fn size(&self, head: usize, tail: usize) -> Size {
        let all = self.blocks.len();
        if head + tail >= all {
            return self.fixed + self.blocks.iter().copied().sum();
        }
        let blocks = self.blocks[..head].iter().chain(&self.blocks[all - tail..]);
        self.fixed + self.in_place + blocks.copied().sum()
    }
}
