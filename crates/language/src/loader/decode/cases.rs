//! Test files.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use super::side;
use crate::cases::{Case, Expect, Gives, Judge, OUTCOMES, Stub, Stubs, TestFile};
use crate::condition::Condition;
use crate::data::{Cost, Failure, FailureKind, JsonMap};
use crate::diagnostic::Finding;
use crate::loader::codes;
use crate::loader::document::{Content, Document};
use crate::loader::fields::Fields;
use crate::loader::findings::Findings;
use crate::loader::json;
use crate::loader::reader::{
    Cursor, amount, count, count_or_none, delay, filled_list_of, filled_text, flag, list_of, map_of, number_within,
    shared_text, text, twice, whole, word, wrong_type,
};
use crate::source::At;
use crate::vocabulary::Section;

/// Reads a test file.
pub(in crate::loader) fn file(document: &Document, findings: &mut Findings) -> Option<TestFile> {
    let root = Cursor::root(document.root());
    let fields = Fields::open(&root, Section::TestFile, findings)?;
    let ensemble = fields.read("ensemble", findings, filled_text);
    let cases = fields.required("cases", "write a list of cases", findings, cases)?;
    Some(TestFile { ensemble, cases })
}

fn cases(at: &Cursor<'_>, findings: &mut Findings) -> Option<Vec<Case>> {
    let mut seen: HashMap<Arc<str>, At> = HashMap::new();
    let rule = "a test file must have at least one case";
    filled_list_of(at, "a list of cases", rule, findings, |item, findings| {
        let case = case(item, findings)?;
        let place = item.route().key("name").value();
        match seen.get(&case.name) {
            Some(first) => {
                let message = format!("two cases have the name `{}`", case.name);
                twice(codes::CASE_TWICE, place, message, first.clone(), findings);
            }
            None => drop(seen.insert(case.name.clone(), place)),
        }
        Some(case)
    })
}

fn case(at: &Cursor<'_>, findings: &mut Findings) -> Option<Case> {
    let fields = Fields::open(at, Section::Case, findings)?;
    let name = fields.required("name", "say what the case shows", findings, filled_text);
    let answers = fields.read("answers", findings, side::answers_at).unwrap_or_default();
    let answers = answers.into_iter().map(|(agent, answers)| match answers {
        side::Answers::Always(answer) => (agent, answer),
        side::Answers::Each(answers) => (agent, answers.into()),
    });
    let stubs = fields.read("stubs", findings, |at, findings| {
        map_of(at, "a map from agents to stubs", findings, |_, entry, findings| {
            stubs(entry, findings)
        })
    });
    let repeat = fields.read("repeat", findings, count);
    let pass_rate = fields.read("pass_rate", findings, |at, findings| {
        number_within(at, 0.0, 1.0, findings)
    });
    let live = fields.read("live", findings, flag).unwrap_or_default();
    let expect = fields.read("expect", findings, expect).unwrap_or_default();
    for (key, is_there) in [("repeat", repeat.is_some()), ("pass_rate", pass_rate.is_some())] {
        if is_there && !live {
            needs_live(at.route().key(key).as_key(), key, findings);
        }
    }
    if !expect.judges.is_empty() && !live {
        needs_live(at.route().key("expect").key("judge").as_key(), "judge", findings);
    }
    Some(Case {
        input: fields.read("input", findings, shared_text),
        inputs: fields.read("inputs", findings, json::map).unwrap_or_else(JsonMap::new),
        answers: answers.collect(),
        stubs: stubs.unwrap_or_default(),
        from: fields.read("from", findings, filled_text),
        live,
        repeat: repeat.unwrap_or(NonZeroU32::MIN),
        pass_rate: pass_rate.unwrap_or(1.0),
        expect,
        name: name?,
    })
}

/// A key of live cases only: without models, every conversation is the same, and nobody can be asked.
fn needs_live(at: At, key: &str, findings: &mut Findings) {
    let message = format!("`{key}` needs `live: true`");
    let finding = Finding::error(codes::MISSING, at, message);
    findings.push(finding.help("add `live: true` to the case; it then uses models, processes and the network"));
}

/// A question to a model about the conversation.
fn judge(at: &Cursor<'_>, findings: &mut Findings) -> Option<Judge> {
    let fields = Fields::open(at, Section::Judge, findings)?;
    let criterion = fields.required("criterion", "say what must be so", findings, filled_text);
    let profile = fields.required("model_profile", "name the profile of a model", findings, filled_text);
    Some(Judge {
        agent: fields.read("agent", findings, filled_text),
        votes: fields.read("votes", findings, count).unwrap_or(NonZeroU32::MIN),
        criterion: criterion?,
        model_profile: profile?,
    })
}

fn stubs(at: &Cursor<'_>, findings: &mut Findings) -> Option<Stubs> {
    if !matches!(at.node.content, Content::Sequence(_)) {
        return stub(at, findings).map(Stubs::Always);
    }
    filled_list_of(at, "a list of stubs", "this list of stubs is empty", findings, stub).map(Stubs::Each)
}

/// A text, or a map with one of `text`, `json`, `fail` and `parts`.
fn stub(at: &Cursor<'_>, findings: &mut Findings) -> Option<Stub> {
    if matches!(at.node.content, Content::Scalar(_)) {
        return text(at, findings).map(Gives::Text).map(Stub::of);
    }
    let fields = Fields::open(at, Section::Stub, findings)?;
    const RESULTS: [&str; 4] = ["text", "json", "fail", "parts"];
    let help = "write one of `text`, `json`, `fail` and `parts`";
    let codes = [codes::BAD_STUB, codes::BAD_STUB];
    let (given, _) = fields.exactly_one(&RESULTS, codes, help, findings)?;
    let bad = |at: At, message: String, help: &str| Finding::error(codes::BAD_STUB, at, message).help(help);
    let kind = fields.read("kind", findings, failure_kind);
    if let Some(kind) = fields.get("kind").filter(|_| given != "fail") {
        let message = "`kind` says how an execution fails, and this stub does not fail".to_owned();
        findings.push(bad(kind.key(), message, "remove it, or write `fail: MESSAGE`"));
    }
    let gives = match given {
        "text" => Gives::Text(fields.read("text", findings, text)?),
        "json" => Gives::Json(fields.read("json", findings, json::value)?),
        "fail" => {
            let error = fields.read("fail", findings, text)?;
            Gives::Fail(Failure::new(kind.unwrap_or(FailureKind::Reported), error))
        }
        _ => Gives::Parts(fields.read("parts", findings, |at, findings| {
            map_of(
                at,
                "a map from keys of parts to stubs",
                findings,
                |_, entry, findings| stub(entry, findings),
            )
        })?),
    };
    let failed = fields.read("failed_attempts", findings, count);
    if let Some(failed) = fields.get("failed_attempts").filter(|_| given == "fail") {
        let message = "`failed_attempts` says how many attempts fail before the result, and here all fail".to_owned();
        findings.push(bad(
            failed.key(),
            message,
            "remove it, or write `text` or `json` in the place of `fail`",
        ));
    }
    Some(Stub {
        delay: fields.read("delay_seconds", findings, delay).unwrap_or_default(),
        tokens: fields.read("tokens", findings, whole).unwrap_or_default(),
        cost: fields.read("cost", findings, amount).map(Cost::of),
        failed_attempts: failed.map_or(0, NonZeroU32::get),
        ..Stub::of(gives)
    })
}

fn failure_kind(at: &Cursor<'_>, findings: &mut Findings) -> Option<FailureKind> {
    let names: Vec<(String, FailureKind)> = FailureKind::ALL
        .into_iter()
        .filter_map(|kind| Some((serde_json::to_value(kind).ok()?.as_str()?.to_owned(), kind)))
        .collect();
    let words: Vec<(&str, FailureKind)> = names.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
    word(at, &words, findings)
}

fn expect(at: &Cursor<'_>, findings: &mut Findings) -> Option<Expect> {
    let fields = Fields::open(at, Section::Expect, findings)?;
    let names = |at: &Cursor<'_>, findings: &mut Findings| list_of(at, "a list of agents", findings, filled_text);
    let outcomes = OUTCOMES.map(|outcome| (outcome, outcome));
    Some(Expect {
        outcome: fields.read("outcome", findings, |at, findings| word(at, &outcomes, findings)),
        turns: fields.read("turns", findings, |at, findings| {
            list_of(at, "a list of turns, each an agent or a list of agents", findings, turn)
        }),
        order: fields.read("order", findings, names).unwrap_or_default(),
        executions: fields
            .read("executions", findings, |at, findings| {
                map_of(at, "a map from agents to numbers", findings, |_, entry, findings| {
                    count_or_none(entry, findings)
                })
            })
            .unwrap_or_default(),
        never: fields.read("never", findings, names).unwrap_or_default(),
        outputs: fields
            .read("outputs", findings, |at, findings| {
                map_of(
                    at,
                    "a map from agents to what their outputs contain",
                    findings,
                    |_, entry, findings| json::value(entry, findings),
                )
            })
            .unwrap_or_default(),
        schemas: fields
            .read("schemas", findings, |at, findings| {
                map_of(
                    at,
                    "a map from agents to JSON Schemas",
                    findings,
                    |_, entry, findings| json::schema(entry, findings),
                )
            })
            .unwrap_or_default(),
        result: fields.read("result", findings, json::value),
        conditions: fields
            .read("conditions", findings, |at, findings| {
                list_of(at, "a list of conditions", findings, condition)
            })
            .unwrap_or_default(),
        not_run: fields.read("not_run", findings, reasons).unwrap_or_default(),
        warnings: fields.read("warnings", findings, |at, findings| {
            list_of(at, "a list of strings", findings, text)
        }),
        most_turns: fields
            .read("most_turns", findings, count)
            .map(std::num::NonZeroU32::get),
        most_cost: fields.read("most_cost", findings, amount).map(Cost::of),
        judges: fields
            .read("judge", findings, |at, findings| {
                list_of(at, "a list of questions to models", findings, judge)
            })
            .unwrap_or_default(),
    })
}

/// The name of an agent, or those of all agents of the turn.
fn turn(at: &Cursor<'_>, findings: &mut Findings) -> Option<Vec<Arc<str>>> {
    match at.node.content {
        Content::Sequence(_) => list_of(at, "a list of agents", findings, filled_text),
        Content::Scalar(_) => filled_text(at, findings).map(|name| vec![name]),
        Content::Mapping(_) => {
            wrong_type(at, "an agent, or a list of agents", findings);
            None
        }
    }
}

/// Agents that never ran: a list, or a map to parts of the reasons.
fn reasons(at: &Cursor<'_>, findings: &mut Findings) -> Option<Vec<(Arc<str>, String)>> {
    if let Content::Sequence(_) = at.node.content {
        let names = list_of(at, "a list of agents", findings, filled_text)?;
        return Some(names.into_iter().map(|name| (name, String::new())).collect());
    }
    map_of(
        at,
        "a list of agents, or a map from agents to reasons",
        findings,
        |_, entry, findings| text(entry, findings),
    )
}

fn condition(at: &Cursor<'_>, findings: &mut Findings) -> Option<String> {
    let condition = filled_text(at, findings)?;
    let Err(error) = Condition::check(&condition) else {
        return Some(condition.to_string());
    };
    let mut finding = Finding::error(codes::CONDITION, at.route().text(error.span), error.message);
    finding.help = error.help;
    findings.push(finding);
    None
}
