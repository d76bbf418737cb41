//! Test files.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use serde_json::Value;

use super::run_files;
use crate::cases::{
    AgentStubs, CaseExpectations, JudgeQuestion, OUTCOMES, StubOutput, StubPermissionDecision, StubPermissions,
    StubReply, StubResult, StubToolCall, TestCase, TestFile,
};
use crate::condition::Condition;
use crate::data::{Cost, ExecutionFailure, FailureKind, JsonMap};
use crate::diagnostic::Finding;
use crate::loader::codes;
use crate::loader::document::{YamlContent, YamlDocument};
use crate::loader::findings::LimitedFindingList;
use crate::loader::json;
use crate::loader::section_fields::SectionFields;
use crate::loader::value_decoders::{
    NodeCursor, decode_bool, decode_count, decode_count_or_zero, decode_delay, decode_list, decode_map,
    decode_money_amount, decode_nonblank_text, decode_nonempty_list, decode_number_within, decode_positive_integer,
    decode_shared_text, decode_text, decode_word_value, report_repetition, report_wrong_type,
};
use crate::source::RouteLocation;
use crate::vocabulary::FileSection;

/// The only key of a `result` that must be equal to the result of the run.
const EXACT_RESULT_KEY: &str = "exactly";

/// Decodes a test file.
pub(in crate::loader) fn decode_test_file(
    document: &YamlDocument,
    findings: &mut LimitedFindingList,
) -> Option<TestFile> {
    let root = NodeCursor::from_root(document.root());
    let fields = SectionFields::from_map(&root, FileSection::TestFile, findings)?;
    let ensemble = fields.decode_optional("ensemble", findings, decode_nonblank_text);
    let cases = fields.decode_required("cases", "write a list of cases", findings, decode_cases)?;
    Some(TestFile { ensemble, cases })
}

/// Decodes the cases, and reports cases with the same name.
fn decode_cases(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Vec<TestCase>> {
    let mut first_locations: HashMap<Arc<str>, RouteLocation> = HashMap::new();
    let rule = "a test file must have at least one case";
    decode_nonempty_list(at, "a list of cases", rule, findings, |item, findings| {
        let case = decode_case(item, findings)?;
        let place = item.route().with_key("name").into_value_location();
        match first_locations.get(&case.name) {
            Some(first) => {
                let message = format!("two cases have the name `{}`", case.name);
                report_repetition(codes::CASE_TWICE, place, message, first.clone(), findings);
            }
            None => drop(first_locations.insert(case.name.clone(), place)),
        }
        Some(case)
    })
}

/// Decodes one case with its stubs, answers and expectations.
fn decode_case(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<TestCase> {
    let fields = SectionFields::from_map(at, FileSection::Case, findings)?;
    let name = fields.decode_required("name", "write what the case shows", findings, decode_nonblank_text);
    let stubs = fields.decode_optional("stubs", findings, |at, findings| {
        decode_map(at, "a map from agents to stubs", findings, |_, entry, findings| {
            decode_stubs(entry, findings)
        })
    });
    let mut stubs = stubs.unwrap_or_default();
    let answers = fields
        .decode_optional("answers", findings, |at, findings| {
            decode_operator_answers(at, &mut stubs, findings)
        })
        .unwrap_or_default();
    let responders = fields.decode_optional("respond", findings, |at, findings| {
        let what = "a map from agents to model profiles";
        decode_map(at, what, findings, |_, entry, findings| {
            decode_nonblank_text(entry, findings)
        })
    });
    let permissions = fields.decode_optional("permissions", findings, |at, findings| {
        let what = "a map from tools to decisions";
        decode_map(at, what, findings, |_, entry, findings| {
            decode_stub_permissions(entry, findings)
        })
    });
    let repeat = fields.decode_optional("repeat", findings, decode_count);
    let pass_rate = fields.decode_optional("pass_rate", findings, |at, findings| {
        decode_number_within(at, 0.0, 1.0, findings)
    });
    let live = fields
        .decode_optional("live", findings, decode_bool)
        .unwrap_or_default();
    let expect = fields
        .decode_optional("expect", findings, decode_expectations)
        .unwrap_or_default();
    for (key, is_there) in [("repeat", repeat.is_some()), ("pass_rate", pass_rate.is_some())] {
        if is_there && !live {
            report_live_only_key(at.route().with_key(key).into_key_location(), key, findings);
        }
    }
    if !expect.judges.is_empty() && !live {
        report_live_only_key(
            at.route().with_key("expect").with_key("judge").into_key_location(),
            "judge",
            findings,
        );
    }
    Some(TestCase {
        input: fields.decode_optional("input", findings, decode_shared_text),
        inputs: fields
            .decode_optional("inputs", findings, json::decode_json_map)
            .unwrap_or_else(JsonMap::new),
        answers,
        responders: responders.unwrap_or_default(),
        permissions: permissions.unwrap_or_default(),
        stubs,
        from: fields.decode_optional("from", findings, decode_nonblank_text),
        live,
        repeat: repeat.unwrap_or(NonZeroU32::MIN),
        pass_rate: pass_rate.unwrap_or(1.0),
        expect,
        name: name?,
    })
}

/// Decodes the answers of operators. Adds answers with a delay to the stubs instead.
fn decode_operator_answers(
    at: &NodeCursor<'_>,
    stubs: &mut Vec<(Arc<str>, AgentStubs)>,
    findings: &mut LimitedFindingList,
) -> Option<Vec<(Arc<str>, Value)>> {
    let mut plain = Vec::new();
    for (agent, entry) in at.require_entries("a map from agents to answers", findings)? {
        if has_delay(&entry.node.content) {
            let late_answers = decode_stubs(&entry, findings);
            stubs.extend(late_answers.map(|answers| (agent.clone(), answers)));
            continue;
        }
        let answers = run_files::decode_agent_answers(&entry, findings);
        plain.extend(answers.map(|answers| match answers {
            run_files::AgentAnswers::Always(answer) => (agent.clone(), answer),
            run_files::AgentAnswers::Each(answers) => (agent.clone(), answers.into()),
        }));
    }
    Some(plain)
}

/// Decodes one decision for all calls, or a list of decisions.
fn decode_stub_permissions(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<StubPermissions> {
    let decode = |at: &NodeCursor<'_>, findings: &mut LimitedFindingList| {
        let words = [
            ("allow", StubPermissionDecision::Allow),
            ("always", StubPermissionDecision::Always),
            ("deny", StubPermissionDecision::Deny),
        ];
        decode_word_value(at, &words, findings)
    };
    if !matches!(at.node.content, YamlContent::Sequence(_)) {
        return decode(at, findings).map(StubPermissions::Every);
    }
    let rule = "this list of decisions is empty";
    decode_nonempty_list(at, "a list of decisions", rule, findings, decode).map(StubPermissions::Each)
}

/// Returns whether an answer, or one of a list of answers, has the key `delay_seconds`.
fn has_delay(content: &YamlContent) -> bool {
    match content {
        YamlContent::Mapping(entries) => entries.iter().any(|entry| &*entry.key == "delay_seconds"),
        YamlContent::Sequence(items) => items.iter().any(|item| has_delay(&item.content)),
        YamlContent::Scalar(_) => false,
    }
}

/// Reports a key that only live cases can have.
fn report_live_only_key(at: RouteLocation, key: &str, findings: &mut LimitedFindingList) {
    let message = format!("`{key}` requires `live: true`");
    let finding = Finding::new_error(codes::MISSING, at, message);
    findings.push(finding.with_help("add `live: true` to the case; it then uses models, processes and the network"));
}

/// Decodes a question to a model about the conversation.
fn decode_judge(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<JudgeQuestion> {
    let fields = SectionFields::from_map(at, FileSection::Judge, findings)?;
    let criterion = fields.decode_required(
        "criterion",
        "write the statement that must be true of the output",
        findings,
        decode_nonblank_text,
    );
    let profile = fields.decode_required(
        "model_profile",
        "name the profile of a model",
        findings,
        decode_nonblank_text,
    );
    Some(JudgeQuestion {
        agent: fields.decode_optional("agent", findings, decode_nonblank_text),
        votes: fields
            .decode_optional("votes", findings, decode_count)
            .unwrap_or(NonZeroU32::MIN),
        criterion: criterion?,
        model_profile: profile?,
    })
}

/// Decodes one stub for all executions, or a list with one stub for each.
fn decode_stubs(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<AgentStubs> {
    if !matches!(at.node.content, YamlContent::Sequence(_)) {
        return decode_stub(at, findings).map(AgentStubs::Always);
    }
    decode_nonempty_list(
        at,
        "a list of stubs",
        "this list of stubs is empty",
        findings,
        decode_stub,
    )
    .map(AgentStubs::Each)
}

/// Decodes a stub: a text, or a map with one of `text`, `json`, `fail`, `parts` and `replies`.
fn decode_stub(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<StubResult> {
    if matches!(at.node.content, YamlContent::Scalar(_)) {
        return decode_text(at, findings)
            .map(StubOutput::Text)
            .map(StubResult::from_output_only);
    }
    let fields = SectionFields::from_map(at, FileSection::Stub, findings)?;
    const RESULTS: [&str; 5] = ["text", "json", "fail", "parts", "replies"];
    let help = "write one of `text`, `json`, `fail`, `parts` and `replies`";
    let codes = [codes::BAD_STUB, codes::BAD_STUB];
    let (given, _) = fields.require_exactly_one(&RESULTS, codes, help, findings)?;
    let bad = |at: RouteLocation, message: String, help: &str| {
        Finding::new_error(codes::BAD_STUB, at, message).with_help(help)
    };
    let kind = fields.decode_optional("kind", findings, decode_failure_kind);
    for name in ["kind", "exit_code", "stdout", "stderr"] {
        if let Some(key) = fields.get(name).filter(|_| given != "fail") {
            let message = format!("`{name}` has no effect, because this stub does not fail");
            findings.push(bad(key.key_location(), message, "remove it, or write `fail: MESSAGE`"));
        }
    }
    let gives = match given {
        "text" => StubOutput::Text(fields.decode_optional("text", findings, decode_text)?),
        "json" => StubOutput::Json(fields.decode_optional("json", findings, json::decode_json)?),
        "fail" => {
            let error = fields.decode_optional("fail", findings, decode_text)?;
            let exit_code = fields.decode_optional("exit_code", findings, decode_count_or_zero);
            let mut text = |name: &str| fields.decode_optional(name, findings, decode_text).unwrap_or_default();
            StubOutput::Fail(ExecutionFailure {
                exit_code: exit_code.and_then(|code| code.try_into().ok()),
                stdout: text("stdout"),
                stderr: text("stderr"),
                ..ExecutionFailure::new(kind.unwrap_or(FailureKind::Reported), error)
            })
        }
        "replies" => StubOutput::Replies(fields.decode_optional("replies", findings, |at, findings| {
            let rule = "`replies` must have at least one reply";
            decode_nonempty_list(at, "a list of replies", rule, findings, decode_stub_reply)
        })?),
        _ => StubOutput::Parts(fields.decode_optional("parts", findings, |at, findings| {
            decode_map(
                at,
                "a map from keys of parts to stubs",
                findings,
                |_, entry, findings| decode_stub(entry, findings),
            )
        })?),
    };
    let failed = fields.decode_optional("failed_attempts", findings, decode_count);
    if let Some(failed) = fields.get("failed_attempts").filter(|_| given == "fail") {
        let message = "`failed_attempts` has no effect, because all attempts of this stub fail".to_owned();
        findings.push(bad(
            failed.key_location(),
            message,
            "remove it, or write `text` or `json` instead of `fail`",
        ));
    }
    Some(StubResult {
        delay: fields
            .decode_optional("delay_seconds", findings, decode_delay)
            .unwrap_or_default(),
        tokens: fields
            .decode_optional("tokens", findings, decode_positive_integer)
            .unwrap_or_default(),
        cost: fields
            .decode_optional("cost", findings, decode_money_amount)
            .map(Cost::from_amount),
        failed_attempts: failed.map_or(0, NonZeroU32::get),
        ..StubResult::from_output_only(gives)
    })
}

/// Decodes the reply of a stub: a text, a map with one of `text`, `tool` and `error`, or a list of calls.
fn decode_stub_reply(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<StubReply> {
    match at.node.content {
        YamlContent::Scalar(_) => return decode_text(at, findings).map(StubReply::Text),
        YamlContent::Sequence(_) => {
            let rule = "this list of calls is empty";
            let calls = decode_nonempty_list(at, "a list of calls", rule, findings, |item, findings| {
                let fields = SectionFields::from_map(item, FileSection::StubReply, findings)?;
                decode_stub_call(&fields, findings)
            })?;
            let text = String::new();
            return Some(StubReply::Calls { text, calls });
        }
        YamlContent::Mapping(_) => {}
    }
    let fields = SectionFields::from_map(at, FileSection::StubReply, findings)?;
    if fields.get("tool").is_some() {
        let text = fields
            .decode_optional("text", findings, decode_text)
            .unwrap_or_default();
        let calls = vec![decode_stub_call(&fields, findings)?];
        return Some(StubReply::Calls { text, calls });
    }
    for key in ["arguments", "result"] {
        if let Some(value) = fields.get(key) {
            let message = format!("`{key}` has no effect, because this reply calls no tool");
            let finding = Finding::new_error(codes::BAD_STUB, value.key_location(), message);
            findings.push(finding.with_help("add `tool: NAME`"));
        }
    }
    let codes = [codes::BAD_STUB, codes::BAD_STUB];
    let help = "write one of `text`, `tool` and `error`";
    match fields.require_exactly_one(&["text", "error"], codes, help, findings)?.0 {
        "text" => fields
            .decode_optional("text", findings, decode_text)
            .map(StubReply::Text),
        _ => fields
            .decode_optional("error", findings, decode_text)
            .map(StubReply::Error),
    }
}

/// Decodes a tool call with its arguments and its result.
fn decode_stub_call(fields: &SectionFields<'_>, findings: &mut LimitedFindingList) -> Option<StubToolCall> {
    if let Some(error) = fields.get("error") {
        let message = "`error` has no effect, because this reply calls a tool".to_owned();
        let finding = Finding::new_error(codes::BAD_STUB, error.key_location(), message);
        findings.push(finding.with_help("remove it"));
    }
    let help = "name the tool that the reply calls";
    let tool = fields.decode_required("tool", help, findings, decode_nonblank_text);
    let arguments = fields.decode_optional("arguments", findings, json::decode_json_map);
    Some(StubToolCall {
        arguments: arguments.unwrap_or_default(),
        result: fields.decode_optional("result", findings, json::decode_json),
        tool: tool?,
    })
}

/// Decodes the kind of a failure.
fn decode_failure_kind(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<FailureKind> {
    let names: Vec<(String, FailureKind)> = FailureKind::ALL
        .into_iter()
        .filter_map(|kind| Some((serde_json::to_value(kind).ok()?.as_str()?.to_owned(), kind)))
        .collect();
    let words: Vec<(&str, FailureKind)> = names.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
    decode_word_value(at, &words, findings)
}

/// Decodes `expect`.
fn decode_expectations(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<CaseExpectations> {
    let fields = SectionFields::from_map(at, FileSection::Expect, findings)?;
    let names = |at: &NodeCursor<'_>, findings: &mut LimitedFindingList| {
        decode_list(at, "a list of agents", findings, decode_nonblank_text)
    };
    let (result, exact_result) = fields
        .decode_optional("result", findings, decode_expected_result)
        .unwrap_or_default();
    Some(CaseExpectations {
        outcomes: fields
            .decode_optional("outcome", findings, decode_outcomes)
            .unwrap_or_default(),
        exit: fields.decode_optional("exit", findings, decode_exit_code),
        refused: fields
            .decode_optional("refused", findings, decode_bool)
            .unwrap_or_default(),
        same_turn: fields
            .decode_optional("same_turn", findings, |at, findings| {
                decode_list(at, "a list of lists of agents", findings, names)
            })
            .unwrap_or_default(),
        at_once: fields
            .decode_optional("at_once", findings, |at, findings| {
                decode_map(at, "a map from agents to numbers", findings, |_, entry, findings| {
                    decode_count(entry, findings).map(NonZeroU32::get)
                })
            })
            .unwrap_or_default(),
        asked: fields
            .decode_optional("asked", findings, |at, findings| {
                decode_map(at, "a map from agents to texts", findings, |_, entry, findings| {
                    decode_expected_texts(entry, findings)
                })
            })
            .unwrap_or_default(),
        turns: fields.decode_optional("turns", findings, |at, findings| {
            decode_list(
                at,
                "a list of turns, each an agent or a list of agents",
                findings,
                decode_expected_turn,
            )
        }),
        order: fields.decode_optional("order", findings, names).unwrap_or_default(),
        executions: fields
            .decode_optional("executions", findings, |at, findings| {
                decode_map(at, "a map from agents to numbers", findings, |_, entry, findings| {
                    decode_count_or_zero(entry, findings)
                })
            })
            .unwrap_or_default(),
        never: fields.decode_optional("never", findings, names).unwrap_or_default(),
        exhausted: fields.decode_optional("exhausted", findings, names),
        outputs: fields
            .decode_optional("outputs", findings, |at, findings| {
                decode_map(
                    at,
                    "a map from agents to the expected content of their outputs",
                    findings,
                    |_, entry, findings| json::decode_json(entry, findings),
                )
            })
            .unwrap_or_default(),
        schemas: fields
            .decode_optional("schemas", findings, |at, findings| {
                decode_map(
                    at,
                    "a map from agents to JSON Schemas",
                    findings,
                    |_, entry, findings| json::decode_json_schema(entry, findings),
                )
            })
            .unwrap_or_default(),
        result,
        exact_result,
        conditions: fields
            .decode_optional("conditions", findings, |at, findings| {
                decode_list(at, "a list of conditions", findings, decode_condition_text)
            })
            .unwrap_or_default(),
        not_run: fields
            .decode_optional("not_run", findings, decode_not_run_reasons)
            .unwrap_or_default(),
        warnings: fields.decode_optional("warnings", findings, |at, findings| {
            decode_list(at, "a list of strings", findings, decode_text)
        }),
        most_turns: fields
            .decode_optional("most_turns", findings, decode_count)
            .map(std::num::NonZeroU32::get),
        most_cost: fields
            .decode_optional("most_cost", findings, decode_money_amount)
            .map(Cost::from_amount),
        judges: fields
            .decode_optional("judge", findings, |at, findings| {
                decode_list(at, "a list of questions to models", findings, decode_judge)
            })
            .unwrap_or_default(),
    })
}

/// Decodes an outcome, or a list of possible outcomes.
fn decode_outcomes(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Vec<&'static str>> {
    let words = OUTCOMES.map(|outcome| (outcome, outcome));
    match at.node.content {
        YamlContent::Sequence(_) => {
            let rule = "`outcome` must have at least one outcome";
            decode_nonempty_list(at, "a list of outcomes", rule, findings, |item, findings| {
                decode_word_value(item, &words, findings)
            })
        }
        _ => decode_word_value(at, &words, findings).map(|outcome| vec![outcome]),
    }
}

/// Decodes an exit code from 0 to 255.
fn decode_exit_code(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<u8> {
    let code = decode_count_or_zero(at, findings)?;
    match u8::try_from(code) {
        Ok(code) => Some(code),
        Err(_) => {
            report_wrong_type(at, "an exit code from 0 to 255", findings);
            None
        }
    }
}

/// Decodes a text, or a list of texts.
fn decode_expected_texts(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Vec<String>> {
    match at.node.content {
        YamlContent::Scalar(_) => decode_text(at, findings).map(|text| vec![text]),
        _ => decode_list(at, "a text or a list of texts", findings, decode_text),
    }
}

/// Decodes the expected content of the result, or the exact result of `{exactly: VALUE}`. Only one of the two is present.
fn decode_expected_result(
    at: &NodeCursor<'_>,
    findings: &mut LimitedFindingList,
) -> Option<(Option<Value>, Option<Value>)> {
    let value = json::decode_json(at, findings)?;
    match value {
        Value::Object(mut map) if map.len() == 1 && map.contains_key(EXACT_RESULT_KEY) => {
            Some((None, map.remove(EXACT_RESULT_KEY)))
        }
        value => Some((Some(value), None)),
    }
}

/// Decodes the name of an agent, or the names of all agents of the turn.
fn decode_expected_turn(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Vec<Arc<str>>> {
    match at.node.content {
        YamlContent::Sequence(_) => decode_list(at, "a list of agents", findings, decode_nonblank_text),
        YamlContent::Scalar(_) => decode_nonblank_text(at, findings).map(|name| vec![name]),
        YamlContent::Mapping(_) => {
            report_wrong_type(at, "an agent, or a list of agents", findings);
            None
        }
    }
}

/// Decodes the agents that never ran: a list, or a map from agents to parts of the reasons.
fn decode_not_run_reasons(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Vec<(Arc<str>, String)>> {
    if let YamlContent::Sequence(_) = at.node.content {
        let names = decode_list(at, "a list of agents", findings, decode_nonblank_text)?;
        return Some(names.into_iter().map(|name| (name, String::new())).collect());
    }
    decode_map(
        at,
        "a list of agents, or a map from agents to reasons",
        findings,
        |_, entry, findings| decode_text(entry, findings),
    )
}

/// Decodes a condition, and reports its syntax errors.
fn decode_condition_text(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<String> {
    let condition = decode_nonblank_text(at, findings)?;
    let Err(error) = Condition::check_syntax(&condition) else {
        return Some(condition.to_string());
    };
    let mut finding = Finding::new_error(
        codes::CONDITION,
        at.route().into_text_location(error.span),
        error.message,
    );
    finding.help = error.help;
    findings.push(finding);
    None
}
