//! `conversation_limits`, and the `retry` that agents and profiles share.

use super::AgentNameIndex;
use crate::data::Cost;
use crate::ensemble::{BudgetScope, ConversationLimits, OnLimit, RetryBackoff, RetryPolicy};
use crate::loader::findings::LimitedFindingList;
use crate::loader::section_fields::SectionFields;
use crate::loader::value_decoders::{
    NodeCursor, decode_count, decode_delay, decode_map, decode_money_amount, decode_positive_integer, decode_seconds,
    decode_word_value,
};
use crate::vocabulary::FileSection;

/// Decodes `conversation_limits`.
pub(super) fn decode_limits(
    at: &NodeCursor<'_>,
    names: &AgentNameIndex<'_>,
    findings: &mut LimitedFindingList,
) -> Option<ConversationLimits> {
    let fields = SectionFields::from_map(at, FileSection::Limits, findings)?;
    const SCOPES: &[(&str, BudgetScope)] = &[
        ("conversation", BudgetScope::Conversation),
        ("message", BudgetScope::Message),
    ];
    let defaults = ConversationLimits::default();
    let caps = fields.decode_optional("max_agent_executions", findings, |at, findings| {
        decode_map(at, "a map from agents to counts", findings, |name, entry, findings| {
            let is_known = names.check_exists(name, || entry.key_location(), findings);
            decode_count(entry, findings).filter(|_| is_known)
        })
    });
    Some(ConversationLimits {
        max_total_turns: fields
            .decode_optional("max_total_turns", findings, decode_count)
            .unwrap_or(defaults.max_total_turns),
        max_agent_executions: caps.unwrap_or_default(),
        timeout: fields
            .decode_optional("timeout_seconds", findings, decode_seconds)
            .unwrap_or(defaults.timeout),
        turn_timeout: fields.decode_optional("turn_timeout_seconds", findings, decode_seconds),
        parallel_agents: fields.decode_optional("parallel_agent_limit", findings, decode_count),
        max_total_tokens: fields.decode_optional("max_total_tokens", findings, decode_positive_integer),
        max_cost: fields.decode_optional("max_cost", findings, |at, findings| {
            decode_money_amount(at, findings).map(Cost::from_amount)
        }),
        budget: fields.decode_optional("budget", findings, |at, findings| {
            decode_word_value(at, SCOPES, findings)
        }),
        on_limit: fields
            .decode_optional("on_limit", findings, |at, findings| {
                decode_word_value(at, &[("fail", OnLimit::Fail), ("succeed", OnLimit::Succeed)], findings)
            })
            .unwrap_or_default(),
    })
}

/// Decodes `retry`.
pub(super) fn decode_retry(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<RetryPolicy> {
    const BACKOFF: &[(&str, RetryBackoff)] = &[
        ("constant", RetryBackoff::Constant),
        ("linear", RetryBackoff::Linear),
        ("exponential", RetryBackoff::Exponential),
    ];
    let fields = SectionFields::from_map(at, FileSection::Retry, findings)?;
    let defaults = RetryPolicy::default();
    Some(RetryPolicy {
        max_attempts: fields
            .decode_optional("max_attempts", findings, decode_count)
            .unwrap_or(defaults.max_attempts),
        delay: fields
            .decode_optional("delay_seconds", findings, decode_delay)
            .unwrap_or(defaults.delay),
        backoff: fields
            .decode_optional("backoff", findings, |at, findings| {
                decode_word_value(at, BACKOFF, findings)
            })
            .unwrap_or_default(),
    })
}
