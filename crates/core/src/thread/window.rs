//! Selects the messages of a thread that are sent when the whole thread is too large.
//!
//! A turn is a user message with all messages up to the next one. Whole turns are left out first. If the turns that are
//! always sent are still too large, tool calls are left out of them: a reply that calls tools goes with all its results.
//! The task of the present execution, the last user message and the last message are always sent.

mod ends;
mod selection;
#[cfg(test)]
mod tests;

pub use selection::{Entry, NoSelection, Selected, entries, selected};

use std::ops::{Add, Range};

use self::ends::Ends;
use super::{Message, Role};

/// The size of messages, or its limit. Each tool result is a message, as it is for providers.
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
    /// At most this number of the latest turns, also if all would fit.
    Always(usize),
}

/// The rules for cutting a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// The limits of what is sent.
    pub limits: Limits,
    /// Whether the instructions are always sent. Otherwise they are left out like the oldest turn.
    pub keeps_system: bool,
    /// The number of latest turns that are always sent. Of these only tool calls with their results may be left out.
    pub min_recent_turns: usize,
    /// The messages that are kept longest.
    pub keep: Keep,
    /// The size of the text that is sent instead of the messages that are left out.
    pub in_place: Size,
}

/// A thread that may have to be cut.
#[derive(Debug, Clone, Copy)]
pub struct Whole<'a> {
    /// The size of the instructions in tokens, if there are any.
    pub system: Option<u64>,
    /// The messages.
    pub messages: &'a [Message],
    /// The size of each message in tokens, with its tool calls and their results.
    pub tokens: &'a [u64],
    /// The index of the task of the present execution.
    pub task: usize,
}

/// The result of cutting a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Whether the instructions are sent.
    pub system: bool,
    /// The indexes of the messages that are not sent, in order.
    pub dropped: Vec<usize>,
    /// The size of what is sent, including the text that replaces the other messages.
    pub sent: Size,
    /// Whether the limits are kept. If not, what is always sent is too large.
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
    /// The size of a message of this number of tokens, with the results of its tool calls.
    pub fn of(message: &Message, tokens: u64) -> Self {
        Self {
            tokens,
            messages: 1 + message.tool_calls.len() as u64,
        }
    }
}

impl Limits {
    /// Returns whether the size is within the limits.
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

impl Whole<'_> {
    /// The size of the messages at these indexes.
    pub fn size(&self, indexes: impl IntoIterator<Item = usize>) -> Size {
        let size = |at: usize| Size::of(&self.messages[at], self.tokens[at]);
        indexes.into_iter().map(size).sum()
    }

    /// The size of the instructions, if there are any.
    pub fn system_size(&self) -> Size {
        let size = self.system.map(|tokens| Size { tokens, messages: 1 });
        size.unwrap_or_default()
    }

    /// For each message, whether it is always sent: the task, the last user message and the last message.
    fn pinned(&self) -> Vec<bool> {
        let mut pinned = vec![false; self.messages.len()];
        let last_user = self.messages.iter().rposition(|message| message.role == Role::User);
        let last = self.messages.len().checked_sub(1);
        for at in [Some(self.task), last_user, last].into_iter().flatten() {
            if let Some(pinned) = pinned.get_mut(at) {
                *pinned = true;
            }
        }
        pinned
    }

    /// For each message, whether it may be left out: whole turns before the latest `min_recent_turns`, and tool calls
    /// with their results in the others.
    pub fn droppable(&self, min_recent_turns: usize) -> Vec<bool> {
        let turns = turns(self.messages);
        let recent = turns.len().saturating_sub(min_recent_turns);
        let recent = turns.get(recent).map_or(self.messages.len(), |turn| turn.start);
        let pinned = self.pinned();
        let may_go = |at: usize| !pinned[at] && (at < recent || calls(&self.messages[at]));
        (0..self.messages.len()).map(may_go).collect()
    }

    /// The older half of what may be left out, in tokens, for a request that the model has refused as too long. Turns
    /// stay whole, except that tool calls with their results are left out of the latest `min_recent_turns` turns.
    pub fn older_half(&self, min_recent_turns: usize) -> Vec<usize> {
        let droppable = self.droppable(min_recent_turns);
        let turns = turns(self.messages);
        let recent = turns.len().saturating_sub(min_recent_turns);
        let earlier = turns[..recent].iter().cloned();
        let pairs = turns[recent..].iter().cloned().flatten().map(|at| at..at + 1);
        let units = earlier
            .chain(pairs)
            .map(|unit| unit.filter(|at| droppable[*at]).collect());
        let all: u64 = (0..self.messages.len())
            .filter(|at| droppable[*at])
            .map(|at| self.tokens[at])
            .sum();
        let (mut dropped, mut tokens) = (Vec::new(), 0);
        for unit in units.filter(|unit: &Vec<usize>| !unit.is_empty()) {
            if !dropped.is_empty() && tokens >= all.div_ceil(2) {
                break;
            }
            tokens += unit.iter().map(|at| self.tokens[*at]).sum::<u64>();
            dropped.extend(unit);
        }
        dropped
    }
}

/// Does the message call tools?
fn calls(message: &Message) -> bool {
    message.role == Role::Assistant && !message.tool_calls.is_empty()
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

/// Cuts a thread: first whole turns, then tool calls with their results.
pub fn cut(rules: &Rules, whole: &Whole<'_>) -> Cut {
    let pinned = whole.pinned();
    let mut selection = by_turns(rules, whole, &pinned);
    if !rules.limits.allow(selection.size(rules, whole)) {
        selection.leave_out_calls(rules, whole, &pinned);
    }
    let sent = selection.size(rules, whole);
    Cut {
        system: selection.system && whole.system.is_some(),
        dropped: selection.dropped(),
        sent,
        fits: rules.limits.allow(sent),
    }
}

/// Selects the turns that fit, or those that are always sent.
fn by_turns(rules: &Rules, whole: &Whole<'_>, pinned: &[bool]) -> Selection {
    let turns = turns(whole.messages);
    let system = Some(whole.system_size()).filter(|_| whole.system.is_some());
    let droppable = system.filter(|_| !rules.keeps_system);
    // If the instructions may be left out, they are treated as a turn before the first one.
    let before = usize::from(droppable.is_some());
    let size = |turn: &Range<usize>| whole.size(turn.clone().filter(|at| !pinned[*at]));
    let blocks: Vec<Size> = droppable.into_iter().chain(turns.iter().map(size)).collect();
    let always = whole.size((0..pinned.len()).filter(|at| pinned[*at]));
    let most = match rules.keep {
        Keep::AtMost(most) | Keep::Always(most) if most < turns.len() => most,
        _ => blocks.len(),
    };
    let (head, tail) = Ends {
        limits: rules.limits,
        keep: rules.keep,
        fixed: always + system.filter(|_| rules.keeps_system).unwrap_or_default(),
        in_place: rules.in_place,
        blocks: &blocks,
    }
    .kept(rules.min_recent_turns.min(turns.len()), most);
    let is_kept = |block: usize| block < head || block + tail >= blocks.len();
    let mut kept = pinned.to_vec();
    for (at, turn) in turns.into_iter().enumerate() {
        if is_kept(at + before) {
            kept[turn].fill(true);
        }
    }
    Selection {
        system: droppable.is_none() || is_kept(0),
        kept,
    }
}

/// The messages that are sent.
struct Selection {
    system: bool,
    kept: Vec<bool>,
}

impl Selection {
    fn dropped(&self) -> Vec<usize> {
        (0..self.kept.len()).filter(|at| !self.kept[*at]).collect()
    }

    fn size(&self, rules: &Rules, whole: &Whole<'_>) -> Size {
        let is_cut = self.kept.contains(&false) || (whole.system.is_some() && !self.system);
        let in_place = Some(rules.in_place).filter(|_| is_cut).unwrap_or_default();
        let system = Some(whole.system_size()).filter(|_| self.system).unwrap_or_default();
        system + in_place + whole.size((0..self.kept.len()).filter(|at| self.kept[*at]))
    }

    /// Leaves out replies that call tools, with the results, as many as necessary.
    fn leave_out_calls(&mut self, rules: &Rules, whole: &Whole<'_>, pinned: &[bool]) {
        let may_go = |at: &usize| self.kept[*at] && !pinned[*at] && calls(&whole.messages[*at]);
        let pairs: Vec<usize> = (0..pinned.len()).filter(may_go).collect();
        if pairs.is_empty() {
            return;
        }
        for pair in &pairs {
            self.kept[*pair] = false;
        }
        let sizes: Vec<Size> = pairs.iter().map(|at| whole.size([*at])).collect();
        let (first, last) = Ends {
            limits: rules.limits,
            keep: rules.keep,
            fixed: self.size(rules, whole),
            in_place: Size::default(),
            blocks: &sizes,
        }
        .kept(0, pairs.len());
        for pair in pairs[..first].iter().chain(&pairs[pairs.len() - last..]) {
            self.kept[*pair] = true;
        }
    }
}
