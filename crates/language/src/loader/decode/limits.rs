//! `conversation_limits`, and the `retry` that agents and profiles share.

use super::Names;
use crate::data::Cost;
use crate::ensemble::{Backoff, Limits, Retry};
use crate::loader::fields::Fields;
use crate::loader::findings::Findings;
use crate::loader::reader::{Cursor, amount, count, delay, map_of, seconds, whole, word};
use crate::vocabulary::Section;

/// Reads `conversation_limits`.
pub(super) fn read(at: &Cursor<'_>, names: &Names<'_>, findings: &mut Findings) -> Option<Limits> {
    let fields = Fields::open(at, Section::Limits, findings)?;
    let defaults = Limits::default();
    let caps = fields.read("max_agent_executions", findings, |at, findings| {
        map_of(at, "a map from agents to counts", findings, |name, entry, findings| {
            let is_known = names.expect(name, || entry.key(), findings);
            count(entry, findings).filter(|_| is_known)
        })
    });
    Some(Limits {
        max_total_turns: fields
            .read("max_total_turns", findings, count)
            .unwrap_or(defaults.max_total_turns),
        max_agent_executions: caps.unwrap_or_default(),
        timeout: fields
            .read("timeout_seconds", findings, seconds)
            .unwrap_or(defaults.timeout),
        turn_timeout: fields.read("turn_timeout_seconds", findings, seconds),
        parallel_agents: fields.read("parallel_agent_limit", findings, count),
        max_total_tokens: fields.read("max_total_tokens", findings, whole),
        max_cost: fields.read("max_cost", findings, |at, findings| amount(at, findings).map(Cost::of)),
    })
}

/// Reads `retry`.
pub(super) fn retry(at: &Cursor<'_>, findings: &mut Findings) -> Option<Retry> {
    const BACKOFF: &[(&str, Backoff)] = &[
        ("constant", Backoff::Constant),
        ("linear", Backoff::Linear),
        ("exponential", Backoff::Exponential),
    ];
    let fields = Fields::open(at, Section::Retry, findings)?;
    let defaults = Retry::default();
    Some(Retry {
        max_attempts: fields
            .read("max_attempts", findings, count)
            .unwrap_or(defaults.max_attempts),
        delay: fields.read("delay_seconds", findings, delay).unwrap_or(defaults.delay),
        backoff: fields
            .read("backoff", findings, |at, findings| word(at, BACKOFF, findings))
            .unwrap_or_default(),
    })
}
