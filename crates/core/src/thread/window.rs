//! Selects the messages of a thread that are sent when the whole thread is too large.
//!
//! A turn is a user message with all messages up to the next one. Whole turns are left out first. If the turns that are
//! always sent are still too large, tool calls are left out of them: a reply that calls tools goes with all its results.
//! The task of the present execution, the last user message and the last message are always sent.

mod ends;
mod selection;
#[cfg(test)]
mod tests;

pub use selection::{
    ScriptMessageEntry, ScriptSelectedMessages, SelectionError, apply_script_selection, list_script_entries,
};

use std::ops::{Add, Range};

use self::ends::OrderedBlocks;
use super::{Message, MessageRole};

/// Size of messages, or a limit of the size. Each tool result counts as a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadSize {
    /// The number of tokens.
    pub tokens: u64,
    /// The number of messages.
    pub messages: u64,
}

/// Limits of the messages in a request. `None` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WindowLimits {
    /// The highest number of tokens.
    pub max_tokens: Option<u64>,
    /// The highest number of messages.
    pub max_messages: Option<u64>,
}

/// Rule about the turns that are kept longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnRetention {
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
pub struct TrimRules {
    /// The limits of what is sent.
    pub limits: WindowLimits,
    /// Whether the instructions are always sent. Otherwise they are left out like the oldest turn.
    pub keeps_system: bool,
    /// The number of latest turns that are always sent. Of these only tool calls with their results may be left out.
    pub min_recent_turns: usize,
    /// The messages that are kept longest.
    pub keep: TurnRetention,
    /// The size of the text that is sent instead of the messages that are left out.
    pub in_place: ThreadSize,
}

/// Messages of a thread with their sizes, before the selection of the messages to send.
#[derive(Debug, Clone, Copy)]
pub struct TrimInput<'a> {
    /// The size of the instructions in tokens, if there are any.
    pub system: Option<u64>,
    /// The messages.
    pub messages: &'a [Message],
    /// The size of each message in tokens, with its tool calls and their results.
    pub tokens: &'a [u64],
    /// The index of the task of the present execution.
    pub task: usize,
}

/// Selection of the messages that are sent, with their size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrimResult {
    /// Whether the instructions are sent.
    pub system: bool,
    /// The indexes of the messages that are not sent, in order.
    pub dropped: Vec<usize>,
    /// The size of what is sent, including the text that replaces the other messages.
    pub sent: ThreadSize,
    /// Whether the limits are kept. If not, what is always sent is too large.
    pub fits: bool,
}

impl Add for ThreadSize {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            messages: self.messages.saturating_add(other.messages),
        }
    }
}

impl std::iter::Sum for ThreadSize {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), Add::add)
    }
}

impl ThreadSize {
    /// Returns the size of a message with this number of tokens. Each result of its tool calls counts as a message.
    pub fn from_message(message: &Message, tokens: u64) -> Self {
        Self {
            tokens,
            messages: 1 + message.tool_calls.len() as u64,
        }
    }
}

impl WindowLimits {
    /// Returns whether the size is within the limits.
    pub fn allows_size(&self, size: ThreadSize) -> bool {
        self.max_tokens.is_none_or(|most| size.tokens <= most)
            && self.max_messages.is_none_or(|most| size.messages <= most)
    }

    /// Returns half of the limits, rounded up.
    #[must_use]
    pub fn halve(self) -> Self {
        Self {
            max_tokens: self.max_tokens.map(|most| most.div_ceil(2)),
            max_messages: self.max_messages.map(|most| most.div_ceil(2)),
        }
    }
}

impl TrimInput<'_> {
    /// Returns the size of the messages at these indexes.
    pub fn sum_sizes(&self, indexes: impl IntoIterator<Item = usize>) -> ThreadSize {
        let size = |at: usize| ThreadSize::from_message(&self.messages[at], self.tokens[at]);
        indexes.into_iter().map(size).sum()
    }

    /// Returns the size of the instructions. Returns 0 without instructions.
    pub fn system_prompt_size(&self) -> ThreadSize {
        let size = self.system.map(|tokens| ThreadSize { tokens, messages: 1 });
        size.unwrap_or_default()
    }

    /// Returns for each message whether it is always sent: the task, the last user message and the last message.
    fn list_pinned_flags(&self) -> Vec<bool> {
        let mut pinned = vec![false; self.messages.len()];
        let last_user = self
            .messages
            .iter()
            .rposition(|message| message.role == MessageRole::User);
        let last = self.messages.len().checked_sub(1);
        for at in [Some(self.task), last_user, last].into_iter().flatten() {
            if let Some(pinned) = pinned.get_mut(at) {
                *pinned = true;
            }
        }
        pinned
    }

    /// Returns for each message whether it can be left out: turns before the latest `min_recent_turns`, and tool calls in the other turns.
    pub fn list_droppable_flags(&self, min_recent_turns: usize) -> Vec<bool> {
        let turns = split_turns(self.messages);
        let recent = turns.len().saturating_sub(min_recent_turns);
        let recent = turns.get(recent).map_or(self.messages.len(), |turn| turn.start);
        let pinned = self.list_pinned_flags();
        let may_go = |at: usize| !pinned[at] && (at < recent || calls_tools(&self.messages[at]));
        (0..self.messages.len()).map(may_go).collect()
    }

    /// Returns the older half, in tokens, of the messages that can be left out. For a request that the model refused as too long.
    /// Turns stay whole, except for tool calls in the latest `min_recent_turns` turns.
    pub fn list_older_half_of_droppable(&self, min_recent_turns: usize) -> Vec<usize> {
        let droppable = self.list_droppable_flags(min_recent_turns);
        let turns = split_turns(self.messages);
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

/// Returns whether the message is a reply with tool calls.
fn calls_tools(message: &Message) -> bool {
    message.role == MessageRole::Assistant && !message.tool_calls.is_empty()
}

/// Returns the index ranges of the turns. Replies before the first user message form a separate turn.
pub fn split_turns(messages: &[Message]) -> Vec<Range<usize>> {
    let begins = |at: &usize| *at == 0 || messages[*at].role == MessageRole::User;
    let starts: Vec<usize> = (0..messages.len()).filter(begins).collect();
    let ends = starts.iter().skip(1).copied().chain([messages.len()]);
    starts
        .iter()
        .copied()
        .zip(ends)
        .map(|(start, end)| start..end)
        .collect()
}

/// Returns the message text with a summary of the messages that are not sent.
pub fn render_summary_message(summary: &str) -> String {
    format!("The first part of our conversation is not shown any more. In short, it was this:\n\n{summary}")
}

/// Selects the messages to send. Leaves out whole turns first, then tool calls with their results.
pub fn select_messages_to_send(rules: &TrimRules, whole: &TrimInput<'_>) -> TrimResult {
    let pinned = whole.list_pinned_flags();
    let mut selection = select_turns(rules, whole, &pinned);
    if !rules.limits.allows_size(selection.sent_size(rules, whole)) {
        selection.drop_tool_calls(rules, whole, &pinned);
    }
    let sent_size = selection.sent_size(rules, whole);
    TrimResult {
        system: selection.system && whole.system.is_some(),
        dropped: selection.dropped_indexes(),
        sent: sent_size,
        fits: rules.limits.allows_size(sent_size),
    }
}

/// Selects the turns that fit, or only the messages that are always sent.
fn select_turns(rules: &TrimRules, whole: &TrimInput<'_>, pinned: &[bool]) -> MessageSelection {
    let turns = split_turns(whole.messages);
    let system = Some(whole.system_prompt_size()).filter(|_| whole.system.is_some());
    let droppable = system.filter(|_| !rules.keeps_system);
    // If the instructions may be left out, they are treated as a turn before the first one.
    let before = usize::from(droppable.is_some());
    let size = |turn: &Range<usize>| whole.sum_sizes(turn.clone().filter(|at| !pinned[*at]));
    let blocks: Vec<ThreadSize> = droppable.into_iter().chain(turns.iter().map(size)).collect();
    let always = whole.sum_sizes((0..pinned.len()).filter(|at| pinned[*at]));
    let max_kept = match rules.keep {
        TurnRetention::AtMost(most) | TurnRetention::Always(most) if most < turns.len() => most,
        _ => blocks.len(),
    };
    let (head, tail) = OrderedBlocks {
        limits: rules.limits,
        keep: rules.keep,
        fixed: always + system.filter(|_| rules.keeps_system).unwrap_or_default(),
        in_place: rules.in_place,
        blocks: &blocks,
    }
    .count_kept_at_ends(rules.min_recent_turns.min(turns.len()), max_kept);
    let is_kept = |block: usize| block < head || block + tail >= blocks.len();
    let mut kept_flags = pinned.to_vec();
    for (at, turn) in turns.into_iter().enumerate() {
        if is_kept(at + before) {
            kept_flags[turn].fill(true);
        }
    }
    MessageSelection {
        system: droppable.is_none() || is_kept(0),
        kept: kept_flags,
    }
}

/// Messages that are kept, and whether the instructions are kept.
struct MessageSelection {
    system: bool,
    kept: Vec<bool>,
}

impl MessageSelection {
    /// Returns the indexes of the messages that are left out.
    fn dropped_indexes(&self) -> Vec<usize> {
        (0..self.kept.len()).filter(|at| !self.kept[*at]).collect()
    }

    /// Returns the size of the kept messages, the kept instructions, and the text that replaces left-out messages.
    fn sent_size(&self, rules: &TrimRules, whole: &TrimInput<'_>) -> ThreadSize {
        let is_cut = self.kept.contains(&false) || (whole.system.is_some() && !self.system);
        let in_place = Some(rules.in_place).filter(|_| is_cut).unwrap_or_default();
        let system = Some(whole.system_prompt_size())
            .filter(|_| self.system)
            .unwrap_or_default();
        system + in_place + whole.sum_sizes((0..self.kept.len()).filter(|at| self.kept[*at]))
    }

    /// Leaves out as many replies with tool calls and results as necessary.
    fn drop_tool_calls(&mut self, rules: &TrimRules, whole: &TrimInput<'_>, pinned: &[bool]) {
        let may_go = |at: &usize| self.kept[*at] && !pinned[*at] && calls_tools(&whole.messages[*at]);
        let pairs: Vec<usize> = (0..pinned.len()).filter(may_go).collect();
        if pairs.is_empty() {
            return;
        }
        for pair in &pairs {
            self.kept[*pair] = false;
        }
        let sizes: Vec<ThreadSize> = pairs.iter().map(|at| whole.sum_sizes([*at])).collect();
        let (first, last) = OrderedBlocks {
            limits: rules.limits,
            keep: rules.keep,
            fixed: self.sent_size(rules, whole),
            in_place: ThreadSize::default(),
            blocks: &sizes,
        }
        .count_kept_at_ends(0, pairs.len());
        for pair in pairs[..first].iter().chain(&pairs[pairs.len() - last..]) {
            self.kept[*pair] = true;
        }
    }
}
