//! `for_each`: the list of an agent that runs once for each item, and what its parts come to.

use std::sync::Arc;

use serde_json::Value;

use super::AgentNameIndex;
use crate::condition::{PartVariables, ValueExpression, is_taken_name};
use crate::diagnostic::Finding;
use crate::ensemble::{Dependency, ForEachItems, ForEachSpec, PartCombination, PartFailureMode, RequiredPartCount};
use crate::loader::codes;
use crate::loader::document::{ScalarValue, YamlContent};
use crate::loader::findings::LimitedFindingList;
use crate::loader::json;
use crate::loader::key_messages::quote_excerpt;
use crate::loader::section_fields::SectionFields;
use crate::loader::value_decoders::{
    NodeCursor, decode_count, decode_count_or_zero, decode_nonblank_text, decode_word_value, report_empty,
    report_out_of_range, report_wrong_type,
};
use crate::names::is_identifier;
use crate::template::VARIABLES;
use crate::vocabulary::FileSection;

/// Names of variables that scripts have in addition to those of templates and conditions.
const SCRIPT_ONLY_NAMES: [&str; 5] = ["input_data", "failures", "attempt", "run_id", "agent_name"];

/// The names of agents that the item of a `for_each` must not have.
pub(super) struct ReservedNames<'a> {
    /// The dependencies of the agent; each name is a variable of its templates.
    pub(super) dependencies: &'a [Dependency],
    /// The names of all agents.
    pub(super) names: &'a AgentNameIndex<'a>,
}

/// Decodes `for_each`.
pub(super) fn decode_for_each(
    at: &NodeCursor<'_>,
    taken: &ReservedNames<'_>,
    findings: &mut LimitedFindingList,
) -> Option<ForEachSpec> {
    let fields = SectionFields::from_map(at, FileSection::ForEach, findings)?;
    let item_name = match fields.get("as") {
        Some(at) => decode_item_name(&at, taken, findings),
        None => Some(Arc::from(ForEachSpec::ITEM)),
    };
    let items = decode_items(&fields, taken, findings);
    // Expressions are read with the name that was meant, so that one mistake is reported once.
    let item = item_name.as_deref().unwrap_or(ForEachSpec::ITEM);
    let key = match fields.get("key") {
        Some(at) => decode_part_expression(&at, PartVariables::for_key(item), taken, findings).map(Some),
        None => Some(None),
    };
    let max_parallel = fields.decode_optional("max_parallel", findings, decode_count);
    let max_items = fields.decode_optional("max_items", findings, decode_count);
    let on_error = fields.decode_optional("on_error", findings, |at, findings| {
        let words = [("fail", PartFailureMode::Fail), ("collect", PartFailureMode::Collect)];
        decode_word_value(at, &words, findings)
    });
    let at_least = fields.decode_optional("at_least", findings, decode_at_least);
    if let Some(at_least_cursor) = fields
        .get("at_least")
        .filter(|_| on_error.unwrap_or_default() == PartFailureMode::Fail)
    {
        let message = "`at_least` has no effect, because the first failed part fails the execution";
        let finding = Finding::new_error(codes::AT_LEAST_ALONE, at_least_cursor.key_location(), message);
        findings.push(finding.with_help("add `on_error: collect`, or remove `at_least`"));
    }
    let combine = match fields.get("combine") {
        Some(at) => decode_combination(&at, item, taken, findings),
        None => Some(PartCombination::List),
    };
    Some(ForEachSpec {
        items: items?,
        item_name: item_name?,
        key: key?,
        max_parallel: max_parallel.unwrap_or(ForEachSpec::MAX_PARALLEL),
        max_items: max_items.map_or(ForEachSpec::MAX_ITEMS, u32::from),
        on_error: on_error.unwrap_or_default(),
        at_least: at_least.unwrap_or_default(),
        combine: combine?,
    })
}

/// Decodes `in` or `times`.
fn decode_items(
    fields: &SectionFields<'_>,
    taken: &ReservedNames<'_>,
    findings: &mut LimitedFindingList,
) -> Option<ForEachItems> {
    let help = "add `in:` with a list or an expression such as `inputs.files`, or `times: n`";
    let codes = [codes::MISSING, codes::TWO_KINDS];
    let (key, given) = fields.require_exactly_one(&["in", "times"], codes, help, findings)?;
    if key == "times" {
        return decode_count_or_zero(&given, findings).map(ForEachItems::Times);
    }
    match &given.node.content {
        YamlContent::Sequence(_) => match json::decode_json(&given, findings)? {
            Value::Array(items) => Some(ForEachItems::List(items)),
            _ => None,
        },
        YamlContent::Scalar(scalar) if matches!(scalar.value, ScalarValue::Text) => {
            decode_part_expression(&given, PartVariables::NO_OUTPUT, taken, findings).map(ForEachItems::Expression)
        }
        _ => {
            report_wrong_type(
                &given,
                "a list, or an expression (a string) that evaluates to a list",
                findings,
            );
            None
        }
    }
}

/// Decodes the name of the item, and reports a name that is in use.
fn decode_item_name(
    at: &NodeCursor<'_>,
    taken: &ReservedNames<'_>,
    findings: &mut LimitedFindingList,
) -> Option<Arc<str>> {
    let name = decode_nonblank_text(at, findings)?;
    if !is_identifier(&name) {
        let message = format!("{} cannot be the name of an item", quote_excerpt(&name));
        let finding = Finding::new_error(codes::BAD_NAME, at.value_location(), message);
        findings.push(finding.with_help("use letters, digits and `_`, and start with a letter"));
        return None;
    }
    let is_dependency = taken.dependencies.iter().any(|one| *one.agent_name == *name);
    let reason = if is_dependency {
        "the name of an agent that this agent depends on"
    } else if is_taken_name(&name) || VARIABLES.contains(&&*name) || SCRIPT_ONLY_NAMES.contains(&&*name) {
        "a variable or a word of the language"
    } else {
        return Some(name);
    };
    let message = format!("the item cannot have the name `{name}`, which is {reason}");
    findings.push(Finding::new_error(codes::ITEM_NAME, at.value_location(), message).with_help("choose another name"));
    None
}

/// Decodes an expression with these variables, and reports unknown agents in it.
fn decode_part_expression(
    at: &NodeCursor<'_>,
    names: PartVariables<'_>,
    taken: &ReservedNames<'_>,
    findings: &mut LimitedFindingList,
) -> Option<String> {
    let text = match &at.node.content {
        YamlContent::Scalar(scalar) if scalar.value != ScalarValue::Null => scalar.text.to_string(),
        _ => {
            report_wrong_type(at, "an expression (a string)", findings);
            return None;
        }
    };
    if text.trim().is_empty() {
        report_empty(at, "an expression must not be blank", findings);
        return None;
    }
    let reading = match ValueExpression::parse_with(&text, names) {
        Ok(reading) => reading,
        Err(error) => {
            let mut finding = Finding::new_error(
                codes::CONDITION,
                at.route().into_text_location(error.span),
                error.message,
            );
            finding.help = error.help;
            findings.push(finding);
            return None;
        }
    };
    let mut all_exist = true;
    for (random_agent, span) in reading.list_named_agents() {
        all_exist &= taken
            .names
            .check_exists(&random_agent, || at.route().into_text_location(span), findings);
    }
    all_exist.then_some(text)
}

/// Decodes a number of parts, or a share such as `80%`.
fn decode_at_least(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<RequiredPartCount> {
    let share = at
        .node
        .string_text()
        .and_then(|text| text.trim().strip_suffix('%').map(str::to_owned));
    let Some(share) = share else {
        if at.node.string_text().is_some() {
            report_wrong_type(at, "a number of parts, or a share such as `\"80%\"`", findings);
            return None;
        }
        return decode_count_or_zero(at, findings).map(RequiredPartCount::Parts);
    };
    match share.trim().parse::<u8>() {
        Ok(percent) if percent <= 100 => Some(RequiredPartCount::Percent(percent)),
        _ => {
            report_out_of_range(at, "a whole number of percent from `0%` to `100%`", findings);
            None
        }
    }
}

/// Decodes `combine`: `list`, or a map with one way to combine.
fn decode_combination(
    at: &NodeCursor<'_>,
    item: &str,
    taken: &ReservedNames<'_>,
    findings: &mut LimitedFindingList,
) -> Option<PartCombination> {
    if !matches!(at.node.content, YamlContent::Mapping(_)) {
        return decode_word_value(at, &[("list", ())], findings).map(|()| PartCombination::List);
    }
    let fields = SectionFields::from_map(at, FileSection::Combine, findings)?;
    let help = "write `list`, `{best: …}`, `{first: …}` or `{majority: …}`";
    let codes = [codes::MISSING, codes::TWO_KINDS];
    let (way, chosen) = fields.require_exactly_one(&["best", "first", "majority"], codes, help, findings)?;
    let text = decode_part_expression(&chosen, PartVariables::for_output(item), taken, findings);
    let owner = format!("`{way}`");
    fields.report_other_kind_keys(way, &owner, findings, |_| {
        "remove the key; it is only allowed with `majority`".to_owned()
    });
    let quorum = fields.decode_optional("quorum", findings, decode_count);
    let text = text?;
    Some(match way {
        "best" => PartCombination::Best(text),
        "first" => PartCombination::First(text),
        _ => PartCombination::Majority { answer: text, quorum },
    })
}
