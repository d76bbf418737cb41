//! `context_window`: limits, and what is left out when they are exceeded.

use std::num::NonZeroU32;

use super::reference;
use crate::diagnostic::Finding;
use crate::ensemble::{ContextWindow, Strategy};
use crate::loader::codes;
use crate::loader::document::Content;
use crate::loader::fields::Fields;
use crate::loader::findings::Findings;
use crate::loader::reader::{Cursor, count, flag, out_of_range, whole, word};
use crate::vocabulary::Section;

/// Reads `context_window`.
pub(super) fn read(at: &Cursor<'_>, findings: &mut Findings) -> Option<ContextWindow> {
    let fields = Fields::open(at, Section::ContextWindow, findings)?;
    let defaults = ContextWindow::default();
    let max_tokens = fields.read("max_tokens", findings, whole);
    let max_messages = fields.read("max_messages", findings, whole);
    let preserve = fields.read("preserve_system_message", findings, flag);
    let given = fields.read("min_recent_turns", findings, count);
    let strategy = match fields.get("strategy") {
        Some(at) => strategy(&at, findings)?,
        None => defaults.strategy,
    };
    let has_limit = fields.get("max_tokens").is_some() || fields.get("max_messages").is_some();
    if !has_limit && !matches!(strategy, Strategy::RecentTurnsOnly(_) | Strategy::Custom(_)) {
        let finding = Finding::error(codes::MISSING, at.value(), "`context_window` has no limit");
        findings.push(finding.help("add `max_tokens` or `max_messages`"));
    }
    Some(ContextWindow {
        max_tokens,
        max_messages,
        preserve_system_message: preserve.unwrap_or(defaults.preserve_system_message),
        min_recent_turns: min_recent_turns(&fields, given, &strategy, findings),
        strategy,
    })
}

/// The number of turns to keep; not more than `recent_turns_only` allows.
fn min_recent_turns(
    fields: &Fields<'_>,
    given: Option<NonZeroU32>,
    strategy: &Strategy,
    findings: &mut Findings,
) -> NonZeroU32 {
    let default = ContextWindow::default().min_recent_turns;
    let Strategy::RecentTurnsOnly(turns) = strategy else {
        return given.unwrap_or(default);
    };
    if let Some(at) = fields
        .get("min_recent_turns")
        .filter(|_| given.is_some_and(|given| given > *turns))
    {
        out_of_range(
            &at,
            &format!("at most {turns}, because `recent_turns_only` keeps no more turns"),
            findings,
        );
    }
    given.unwrap_or(default).min(*turns)
}

/// A word, or a map with one key.
fn strategy(at: &Cursor<'_>, findings: &mut Findings) -> Option<Strategy> {
    if !matches!(at.node.content, Content::Mapping(_)) {
        return named(at, findings);
    }
    let fields = Fields::open(at, Section::Strategy, findings)?;
    let keys: Vec<&str> = Section::Strategy.key_names().collect();
    let help = "write `{recent_turns_only: n}`, `{custom: file.rhai}` or `{summarize: profile}`";
    let codes = [codes::MISSING, codes::TWO_KINDS];
    let (key, given) = fields.exactly_one(&keys, codes, help, findings)?;
    match key {
        "recent_turns_only" => count(&given, findings).map(Strategy::RecentTurnsOnly),
        "custom" => reference(&given, findings).map(|script| Strategy::Custom(script.to_string())),
        _ => reference(&given, findings).map(|profile| Strategy::Summarize(Some(profile))),
    }
}

/// A strategy without additional data; for the other strategies, an error about the missing data.
fn named(at: &Cursor<'_>, findings: &mut Findings) -> Option<Strategy> {
    let needs = match at.node.text().map(|text| &**text) {
        Some("recent_turns_only") => "write the number of turns: `{recent_turns_only: 5}`",
        Some("custom") => "write the name of the script: `{custom: file.rhai}`",
        _ => "",
    };
    if !needs.is_empty() {
        let finding = Finding::error(codes::MISSING, at.value(), "this strategy needs a value");
        findings.push(finding.help(needs));
        return None;
    }
    let words = [
        ("oldest_first", Named::OldestFirst),
        ("middle_out", Named::MiddleOut),
        ("summarize", Named::Summarize),
    ];
    word(at, &words, findings).map(|named| match named {
        Named::OldestFirst => Strategy::OldestFirst,
        Named::MiddleOut => Strategy::MiddleOut,
        Named::Summarize => Strategy::Summarize(None),
    })
}

#[derive(Clone, Copy)]
enum Named {
    OldestFirst,
    MiddleOut,
    Summarize,
}
