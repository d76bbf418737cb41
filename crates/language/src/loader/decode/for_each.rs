//! `for_each`: the list of an agent that runs once for each item, and what its parts come to.

use std::sync::Arc;

use serde_json::Value;

use super::Names;
use crate::condition::{Expression, PartNames, is_taken};
use crate::diagnostic::Finding;
use crate::ensemble::{AtLeast, Combine, Dependency, ForEach, Items, PartFailure};
use crate::loader::codes;
use crate::loader::document::{Content, ScalarValue};
use crate::loader::fields::Fields;
use crate::loader::findings::Findings;
use crate::loader::json;
use crate::loader::reader::{Cursor, count, count_or_none, empty, filled_text, out_of_range, word, wrong_type};
use crate::loader::words::quoted;
use crate::names::is_identifier;
use crate::template::VARIABLES;
use crate::vocabulary::Section;

/// Names that scripts have beside the variables of templates and conditions.
const OF_SCRIPTS: [&str; 4] = ["input_data", "attempt", "run_id", "agent_name"];

/// The names that an agent of `for_each` must not give to its item.
pub(super) struct Taken<'a> {
    /// The dependencies of the agent; each name is a variable of its templates.
    pub(super) dependencies: &'a [Dependency],
    /// The names of all agents.
    pub(super) names: &'a Names<'a>,
}

/// Reads `for_each`.
pub(super) fn read(at: &Cursor<'_>, taken: &Taken<'_>, findings: &mut Findings) -> Option<ForEach> {
    let fields = Fields::open(at, Section::ForEach, findings)?;
    let item_name = match fields.get("as") {
        Some(at) => item_name(&at, taken, findings),
        None => Some(Arc::from(ForEach::ITEM)),
    };
    let items = items(&fields, taken, findings);
    // Expressions are read with the name that was meant, so that one mistake is reported once.
    let item = item_name.as_deref().unwrap_or(ForEach::ITEM);
    let key = match fields.get("key") {
        Some(at) => expression(&at, PartNames::of_key(item), taken, findings).map(Some),
        None => Some(None),
    };
    let max_parallel = fields.read("max_parallel", findings, count);
    let max_items = fields.read("max_items", findings, count);
    let on_error = fields.read("on_error", findings, |at, findings| {
        let words = [("fail", PartFailure::Fail), ("collect", PartFailure::Collect)];
        word(at, &words, findings)
    });
    let at_least = fields.read("at_least", findings, at_least);
    if let Some(given) = fields
        .get("at_least")
        .filter(|_| on_error.unwrap_or_default() == PartFailure::Fail)
    {
        let message = "`at_least` has no effect, because the first failed part fails the execution";
        let finding = Finding::error(codes::AT_LEAST_ALONE, given.key(), message);
        findings.push(finding.help("add `on_error: collect`, or remove `at_least`"));
    }
    let combine = match fields.get("combine") {
        Some(at) => combine(&at, item, taken, findings),
        None => Some(Combine::List),
    };
    Some(ForEach {
        items: items?,
        item_name: item_name?,
        key: key?,
        max_parallel: max_parallel.unwrap_or(ForEach::MAX_PARALLEL),
        max_items: max_items.map_or(ForEach::MAX_ITEMS, u32::from),
        on_error: on_error.unwrap_or_default(),
        at_least: at_least.unwrap_or_default(),
        combine: combine?,
    })
}

/// `in` or `times`.
fn items(fields: &Fields<'_>, taken: &Taken<'_>, findings: &mut Findings) -> Option<Items> {
    let help = "add `in:` with a list or an expression such as `inputs.files`, or `times: n`";
    let codes = [codes::MISSING, codes::TWO_KINDS];
    let (key, given) = fields.exactly_one(&["in", "times"], codes, help, findings)?;
    if key == "times" {
        return count_or_none(&given, findings).map(Items::Times);
    }
    match &given.node.content {
        Content::Sequence(_) => match json::value(&given, findings)? {
            Value::Array(items) => Some(Items::List(items)),
            _ => None,
        },
        Content::Scalar(scalar) if matches!(scalar.value, ScalarValue::Text) => {
            expression(&given, PartNames::NO_OUTPUT, taken, findings).map(Items::Expression)
        }
        _ => {
            wrong_type(&given, "a list, or an expression that gives one (a string)", findings);
            None
        }
    }
}

/// An identifier that is not in use.
fn item_name(at: &Cursor<'_>, taken: &Taken<'_>, findings: &mut Findings) -> Option<Arc<str>> {
    let name = filled_text(at, findings)?;
    if !is_identifier(&name) {
        let message = format!("{} cannot be the name of an item", quoted(&name));
        let finding = Finding::error(codes::BAD_NAME, at.value(), message);
        findings.push(finding.help("use letters, digits and `_`, and begin with a letter"));
        return None;
    }
    let is_dependency = taken.dependencies.iter().any(|one| *one.agent_name == *name);
    let why = if is_dependency {
        "the name of an agent that this agent depends on"
    } else if is_taken(&name) || VARIABLES.contains(&&*name) || OF_SCRIPTS.contains(&&*name) {
        "a variable or a word of the language"
    } else {
        return Some(name);
    };
    let message = format!("the item cannot be called `{name}`, which is {why}");
    findings.push(Finding::error(codes::ITEM_NAME, at.value(), message).help("choose another name"));
    None
}

/// The text of a valid expression, whose agents exist.
fn expression(at: &Cursor<'_>, names: PartNames<'_>, taken: &Taken<'_>, findings: &mut Findings) -> Option<String> {
    let text = match &at.node.content {
        Content::Scalar(scalar) if scalar.value != ScalarValue::Null => scalar.text.to_string(),
        _ => {
            wrong_type(at, "an expression (a string)", findings);
            return None;
        }
    };
    if text.trim().is_empty() {
        empty(at, "an expression must not be blank", findings);
        return None;
    }
    let reading = match Expression::read_with(&text, names) {
        Ok(reading) => reading,
        Err(error) => {
            let mut finding = Finding::error(codes::CONDITION, at.route().text(error.span), error.message);
            finding.help = error.help;
            findings.push(finding);
            return None;
        }
    };
    let mut known = true;
    for (agent, span) in reading.agents_read() {
        known &= taken.names.expect(&agent, || at.route().text(span), findings);
    }
    known.then_some(text)
}

/// A number of parts, or a share such as `80%`.
fn at_least(at: &Cursor<'_>, findings: &mut Findings) -> Option<AtLeast> {
    let share = at
        .node
        .text()
        .and_then(|text| text.trim().strip_suffix('%').map(str::to_owned));
    let Some(share) = share else {
        if at.node.text().is_some() {
            wrong_type(at, "a number of parts, or a share such as `\"80%\"`", findings);
            return None;
        }
        return count_or_none(at, findings).map(AtLeast::Parts);
    };
    match share.trim().parse::<u8>() {
        Ok(percent) if percent <= 100 => Some(AtLeast::Percent(percent)),
        _ => {
            out_of_range(at, "a whole number of percent from `0%` to `100%`", findings);
            None
        }
    }
}

/// `list`, or a map with one way to combine.
fn combine(at: &Cursor<'_>, item: &str, taken: &Taken<'_>, findings: &mut Findings) -> Option<Combine> {
    if !matches!(at.node.content, Content::Mapping(_)) {
        return word(at, &[("list", ())], findings).map(|()| Combine::List);
    }
    let fields = Fields::open(at, Section::Combine, findings)?;
    let help = "write `list`, `{best: …}`, `{first: …}` or `{majority: …}`";
    let codes = [codes::MISSING, codes::TWO_KINDS];
    let (way, chosen) = fields.exactly_one(&["best", "first", "majority"], codes, help, findings)?;
    let text = expression(&chosen, PartNames::of_output(item), taken, findings);
    let owner = format!("`{way}`");
    fields.refuse_other_kinds(way, &owner, findings, |_| "it is only for `majority`".to_owned());
    let quorum = fields.read("quorum", findings, count);
    let text = text?;
    Some(match way {
        "best" => Combine::Best(text),
        "first" => Combine::First(text),
        _ => Combine::Majority { answer: text, quorum },
    })
}
