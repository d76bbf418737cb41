//! Selects the messages of a thread that are sent when the whole thread is too large.
//!
//! Whole turns are left out, never parts of a turn. A turn is a user message with all messages up to the next one. So a
//! question stays with its answer, a tool call with its result, and a reply after a tool call with that call.

use std::ops::{Add, Range};

use super::{Message, Role};

/// The size of messages, or its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// The number of tokens.
    pub tokens: u64,
    /// The number of messages.
    pub messages: u64,
}

/// The limits of what is sent; `None`: no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// The highest number of tokens.
    pub max_tokens: Option<u64>,
    /// The highest number of messages.
    pub max_messages: Option<u64>,
}

/// The messages that are kept longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The latest turns: the oldest turns are left out first.
    Latest,
    /// The first and the latest turns: the turns in the middle are left out first.
    BothEnds,
    /// The latest turns, and at most this number of them once a turn is left out. Without a limit this number always
    /// applies.
    AtMost(usize),
}

/// The rules for cutting a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// The limits of what is sent.
    pub limits: Limits,
    /// Whether the instructions are always sent. Otherwise they are left out like the oldest turn.
    pub keeps_system: bool,
    /// The number of latest turns that are always sent.
    pub min_recent_turns: usize,
    /// The messages that are kept longest.
    pub keep: Keep,
    /// The size of the text that is sent instead of the messages that are left out.
    pub in_place: Size,
}

/// The result of cutting a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Whether the instructions are sent.
    pub system: bool,
    /// The range of messages that are not sent.
    pub dropped: Range<usize>,
    /// The size of what is sent, including the text that replaces the other messages.
    pub sent: Size,
    /// Whether the limits are kept. If not, the turns that are always sent are too large.
    pub fits: bool,
}

impl Add for Size {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            messages: self.messages.saturating_add(other.messages),
        }
    }
}

impl std::iter::Sum for Size {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), Add::add)
    }
}

impl Size {
    /// The size of messages with these numbers of tokens.
    pub fn of(tokens: &[u64]) -> Self {
        Self {
            tokens: tokens.iter().sum(),
            messages: tokens.len() as u64,
        }
    }
}

impl Limits {
    /// Whether the size is within the limits.
    pub fn allow(&self, size: Size) -> bool {
        self.max_tokens.is_none_or(|most| size.tokens <= most)
            && self.max_messages.is_none_or(|most| size.messages <= most)
    }

    /// Half of the limits, rounded up.
    #[must_use]
    pub fn halved(self) -> Self {
        Self {
            max_tokens: self.max_tokens.map(|most| most.div_ceil(2)),
            max_messages: self.max_messages.map(|most| most.div_ceil(2)),
        }
    }
}

/// The turns of a thread. Replies before the first user message form a turn of their own.
pub fn turns(messages: &[Message]) -> Vec<Range<usize>> {
    let begins = |at: &usize| *at == 0 || messages[*at].role == Role::User;
    let starts: Vec<usize> = (0..messages.len()).filter(begins).collect();
    let ends = starts.iter().skip(1).copied().chain([messages.len()]);
    starts
        .iter()
        .copied()
        .zip(ends)
        .map(|(start, end)| start..end)
        .collect()
}

/// Cuts a thread. `system` is the size of the instructions in tokens, if there are any; `tokens` contains the size of
/// each message.
pub fn cut(rules: &Rules, system: Option<u64>, messages: &[Message], tokens: &[u64]) -> Cut {
    let turns = turns(messages);
    let system = system.map(|tokens| Size { tokens, messages: 1 });
    let droppable = system.filter(|_| !rules.keeps_system);
    // If the instructions may be left out, they are treated as a turn before the first one.
    let before = usize::from(droppable.is_some());
    let blocks: Vec<Size> = droppable
        .into_iter()
        .chain(turns.iter().map(|turn| Size::of(&tokens[turn.clone()])))
        .collect();
    let fixed = system.filter(|_| rules.keeps_system).unwrap_or_default();
    let ends = Ends {
        rules,
        fixed,
        blocks: &blocks,
    };
    let (head, tail) = ends.kept(turns.len());
    let sent = ends.size(head, tail);
    let all = head + tail == blocks.len();
    let from = turns
        .get(head.saturating_sub(before))
        .map_or(messages.len(), |turn| turn.start);
    let to = turns
        .get(blocks.len() - tail - before.min(blocks.len() - tail))
        .map_or(messages.len(), |turn| turn.start);
    Cut {
        system: system.is_some() && (all || droppable.is_none() || head > 0),
        dropped: if all { 0..0 } else { from..to },
        sent,
        fits: rules.limits.allow(sent),
    }
}

/// The numbers of blocks that are kept at the beginning and at the end.
struct Ends<'a> {
    rules: &'a Rules,
    fixed: Size,
    blocks: &'a [Size],
}

impl Ends<'_> {
    fn kept(&self, turns: usize) -> (usize, usize) {
        let all = self.blocks.len();
        let most = match self.rules.keep {
            Keep::AtMost(most) if most < turns => most,
            _ => all,
        };
        // Without a limit, the number of turns is the limit.
        let is_limited = self.rules.limits != Limits::default();
        if (is_limited || most == all) && self.fits(0, all) {
            return (0, all);
        }
        let (mut head, mut tail) = (0, self.rules.min_recent_turns.min(turns).min(most));
        while head + tail < most {
            let steps = match self.rules.keep {
                Keep::BothEnds if head < tail => [(head + 1, tail), (head, tail + 1)],
                Keep::BothEnds => [(head, tail + 1), (head + 1, tail)],
                Keep::Latest | Keep::AtMost(_) => [(head, tail + 1); 2],
            };
            match steps.into_iter().find(|(head, tail)| self.fits(*head, *tail)) {
                Some(step) => (head, tail) = step,
                None => break,
            }
        }
        (head, tail)
    }

    fn fits(&self, head: usize, tail: usize) -> bool {
        self.rules.limits.allow(self.size(head, tail))
    }

    fn size(&self, head: usize, tail: usize) -> Size {
        let all = self.blocks.len();
        if head + tail >= all {
            return self.fixed + self.blocks.iter().copied().sum();
        }
        let blocks = self.blocks[..head].iter().chain(&self.blocks[all - tail..]);
        self.fixed + self.rules.in_place + blocks.copied().sum()
    }
}

/// The reason why messages are not a selection of a thread.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSelection {
    /// A message is not part of the thread, or it is not in the order of the thread.
    #[error("item {0} is not one of the messages, or is out of order")]
    Stranger(usize),
    /// The current user message must be sent.
    #[error("the last user message and the messages after it must be kept")]
    Present,
    /// The reply continues after tool calls, but the reply with these calls is left out.
    #[error("item {0} follows a tool call that is left out")]
    Dangling(usize),
}

/// The indexes of the selected messages. Items are counted from 1 in errors.
///
/// # Errors
/// [`NoSelection`]: the messages are not a part of the thread in its order, or messages that belong together are
/// separated.
pub fn selected<T: PartialEq>(all: &[T], selection: &[T], messages: &[Message]) -> Result<Vec<usize>, NoSelection> {
    let mut found = Vec::with_capacity(selection.len());
    let mut end = all.len();
    // Starts from the end, so that the latest of equal messages is selected.
    for (item, wanted) in selection.iter().enumerate().rev() {
        let at = all[..end].iter().rposition(|message| message == wanted);
        end = at.ok_or(NoSelection::Stranger(item + 1))?;
        found.push(end);
    }
    found.reverse();
    let present = turns(messages).last().map_or(0..0, Clone::clone);
    if !found.ends_with(&present.collect::<Vec<_>>()) {
        return Err(NoSelection::Present);
    }
    for (item, at) in found.iter().enumerate() {
        let goes_on = *at > 0 && messages[*at].role == Role::Assistant && !messages[at - 1].tool_calls.is_empty();
        if goes_on && (item == 0 || found[item - 1] != at - 1) {
            return Err(NoSelection::Dangling(item + 1));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
