//! `context_window`: limits, and what is left out when they are exceeded.

use std::num::NonZeroU32;

use super::decode_reference;
use crate::diagnostic::Finding;
use crate::ensemble::{ContextWindow, WindowStrategy};
use crate::loader::codes;
use crate::loader::document::YamlContent;
use crate::loader::findings::LimitedFindingList;
use crate::loader::section_fields::SectionFields;
use crate::loader::value_decoders::{
    NodeCursor, decode_bool, decode_count, decode_positive_integer, decode_word_value, report_out_of_range,
};
use crate::vocabulary::FileSection;

/// Decodes `context_window`.
pub(super) fn decode_context_window(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<ContextWindow> {
    let fields = SectionFields::from_map(at, FileSection::ContextWindow, findings)?;
    let defaults = ContextWindow::default();
    let max_tokens = fields.decode_optional("max_tokens", findings, decode_positive_integer);
    let max_messages = fields.decode_optional("max_messages", findings, decode_positive_integer);
    let preserve = fields.decode_optional("preserve_system_message", findings, decode_bool);
    let min_recent_turns = fields.decode_optional("min_recent_turns", findings, decode_count);
    let strategy = match fields.get("strategy") {
        Some(at) => decode_strategy(&at, findings)?,
        None => defaults.strategy,
    };
    let has_limit = fields.get("max_tokens").is_some() || fields.get("max_messages").is_some();
    if !has_limit && !matches!(strategy, WindowStrategy::RecentTurnsOnly(_) | WindowStrategy::Custom(_)) {
        let finding = Finding::new_error(codes::MISSING, at.value_location(), "`context_window` has no limit");
        findings.push(finding.with_help("add `max_tokens` or `max_messages`"));
    }
    Some(ContextWindow {
        max_tokens,
        max_messages,
        preserve_system_message: preserve.unwrap_or(defaults.preserve_system_message),
        min_recent_turns: limit_min_recent_turns(&fields, min_recent_turns, &strategy, findings),
        strategy,
    })
}

/// Returns the number of recent turns to keep, limited by `recent_turns_only`. Reports a larger number.
fn limit_min_recent_turns(
    fields: &SectionFields<'_>,
    given: Option<NonZeroU32>,
    strategy: &WindowStrategy,
    findings: &mut LimitedFindingList,
) -> NonZeroU32 {
    let default = ContextWindow::default().min_recent_turns;
    let WindowStrategy::RecentTurnsOnly(turns) = strategy else {
        return given.unwrap_or(default);
    };
    if let Some(at) = fields
        .get("min_recent_turns")
        .filter(|_| given.is_some_and(|given| given > *turns))
    {
        report_out_of_range(
            &at,
            &format!("at most {turns}, because `recent_turns_only` keeps no more turns"),
            findings,
        );
    }
    given.unwrap_or(default).min(*turns)
}

/// Decodes a strategy: a word, or a map with one key.
fn decode_strategy(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<WindowStrategy> {
    if !matches!(at.node.content, YamlContent::Mapping(_)) {
        return decode_strategy_word(at, findings);
    }
    let fields = SectionFields::from_map(at, FileSection::Strategy, findings)?;
    let keys: Vec<&str> = FileSection::Strategy.key_names().collect();
    let help = "write `{recent_turns_only: n}`, `{custom: file.rhai}` or `{summarize: profile}`";
    let codes = [codes::MISSING, codes::TWO_KINDS];
    let (key, given) = fields.require_exactly_one(&keys, codes, help, findings)?;
    match key {
        "recent_turns_only" => decode_count(&given, findings).map(WindowStrategy::RecentTurnsOnly),
        "custom" => decode_reference(&given, findings).map(|script| WindowStrategy::Custom(script.to_string())),
        _ => decode_reference(&given, findings).map(|profile| WindowStrategy::Summarize(Some(profile))),
    }
}

/// Decodes a strategy without a value. Reports strategies whose value is missing.
fn decode_strategy_word(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<WindowStrategy> {
    let needs = match at.node.string_text().map(|text| &**text) {
        Some("recent_turns_only") => "write the number of turns: `{recent_turns_only: 5}`",
        Some("custom") => "write the name of the script: `{custom: file.rhai}`",
        _ => "",
    };
    if !needs.is_empty() {
        let finding = Finding::new_error(codes::MISSING, at.value_location(), "this strategy needs a value");
        findings.push(finding.with_help(needs));
        return None;
    }
    let words = [
        ("oldest_first", StrategyWord::OldestFirst),
        ("middle_out", StrategyWord::MiddleOut),
        ("summarize", StrategyWord::Summarize),
    ];
    decode_word_value(at, &words, findings).map(|named| match named {
        StrategyWord::OldestFirst => WindowStrategy::OldestFirst,
        StrategyWord::MiddleOut => WindowStrategy::MiddleOut,
        StrategyWord::Summarize => WindowStrategy::Summarize(None),
    })
}

#[derive(Clone, Copy)]
enum StrategyWord {
    OldestFirst,
    MiddleOut,
    Summarize,
}
