//! What can never be true, and what always fails, as far as the types of values are known.

use super::around::diagnostics;
use super::found;
use crate::check::{CheckContext, check_with_context};
use crate::condition::ValueType;
use crate::diagnostic::{Diagnostic, Finding};
use crate::ensemble::{Agent, Ensemble, ModelProfile};
use std::sync::Arc;

/// What `a` puts out in all rows.
pub(super) const SCHEMA: &str = "{type: object, required: [score, done, label, tags, detail], additionalProperties: false, properties: {
      score: {type: number, minimum: 0, maximum: 10}, more: {type: [number, 'null']}, done: {type: boolean}, label: {enum: [accept, reject]},
      text: {type: string}, tags: {type: array, items: {enum: [new, old]}}, level: {enum: [1, 2, 3]}, above: {type: number, minimum: 0, exclusiveMinimum: 0},
      detail: {type: object, additionalProperties: false, required: [depth], properties: {depth: {type: integer, exclusiveMinimum: 0}, note: {type: string}}},
      any: {}, mixed: {type: [string, number]}}}";

/// `W040 part`: the code and the text that it is about.
fn of_condition(condition: &str, edge: &str) -> Vec<String> {
    let agents = format!(
        "- {{name: a, script: x, conversation: {{max_turns: 4}}, output_schema: {SCHEMA}}}
- {{name: guest, input: {{prompt: hi, choices: [yes, no]}}}}
- {{name: mind, model: xai/n, prompt: p, output_schema: {{type: object, required: [n], additionalProperties: false, properties: {{n: {{type: integer}}}}}}}}
- name: b
  script: x
  conversation: {{max_turns: 9}}
  dependencies:
    - agent_name: a
      feedback: true
      {edge}
      condition: \"{condition}\"
    - agent_name: guest
      feedback: true
    - agent_name: mind
      feedback: true
"
    );
    told(&diagnostics(&agents, Vec::new()))
}

fn told(found: &[Diagnostic]) -> Vec<String> {
    let is_typed = |it: &&Diagnostic| ["W040", "W041", "W013"].contains(&it.code.0);
    let line = |it: &Diagnostic| format!("{} {}", it.code.0, &it.source.text()[it.span.start..it.span.end]);
    found.iter().filter(is_typed).map(line).collect()
}

#[test]
fn what_does_not_fit_is_told_at_its_place() {
    let rows: &[(&str, &str)] = &[
        // Kinds that are never equal.
        ("output.done == 'true'", "W040 output.done == 'true'"),
        ("'false' == output.done", "W040 'false' == output.done"),
        ("output.done == 1", "W040 output.done == 1"),
        ("output.done != 'no'", "W040 output.done != 'no'"),
        ("output.score == '5'", "W040 output.score == '5'"),
        ("output.score == True", "W040 output.score == True"),
        ("output.text == 5", "W040 output.text == 5"),
        ("output.label == True", "W040 output.label == True"),
        ("output.tags == 'new'", "W040 output.tags == 'new'"),
        ("output.detail == 'deep'", "W040 output.detail == 'deep'"),
        ("output.more == 'none'", "W040 output.more == 'none'"),
        ("output.get('done') == 'true'", "W040 output.get('done') == 'true'"),
        ("output['done'] == 'true'", "W040 output['done'] == 'true'"),
        ("output?.done == 'true'", "W040 output?.done == 'true'"),
        ("context.a.done == 'true'", "W040 context.a.done == 'true'"),
        ("outputs.a.done == 'true'", "W040 outputs.a.done == 'true'"),
        (
            "output.done == 'true' and output.score > 3",
            "W040 output.done == 'true'",
        ),
        (
            "output.score > 3 and not (output.done == 'true')",
            "W040 output.done == 'true'",
        ),
        ("output.done == output.label", "W040 output.done == output.label"),
        // Words that are none of the words.
        ("output.label == 'Accept'", "W040 output.label == 'Accept'"),
        ("output.label == 'accepted'", "W040 output.label == 'accepted'"),
        ("output.label != 'rejected'", "W040 output.label != 'rejected'"),
        (
            "output.label.upper() == 'accept'",
            "W040 output.label.upper() == 'accept'",
        ),
        (
            "lower(output.label) == 'Accept'",
            "W040 lower(output.label) == 'Accept'",
        ),
        ("output.label in ['yes', 'no']", "W040 output.label in ['yes', 'no']"),
        (
            "output.label not in ('yes', 'no')",
            "W040 output.label not in ('yes', 'no')",
        ),
        ("'fresh' in output.tags", "W040 'fresh' in output.tags"),
        ("output.tags[0] == 'fresh'", "W040 output.tags[0] == 'fresh'"),
        ("first(output.tags) == 'fresh'", "W040 first(output.tags) == 'fresh'"),
        ("output.level == 4", "W040 output.level == 4"),
        (
            "outputs.guest.response == 'Yes'",
            "W040 outputs.guest.response == 'Yes'",
        ),
        (
            "context.guest.response == 'maybe'",
            "W040 context.guest.response == 'maybe'",
        ),
        ("history[-1].agent_name == 'c'", "W040 history[-1].agent_name == 'c'"),
        ("history[0].success == 'true'", "W040 history[0].success == 'true'"),
        (
            "type_of(output.any) == 'string'",
            "W040 type_of(output.any) == 'string'",
        ),
        // Numbers beyond their bounds.
        ("output.score > 10", "W040 output.score > 10"),
        ("output.score >= 11", "W040 output.score >= 11"),
        ("output.score < 0", "W040 output.score < 0"),
        ("11 < output.score", "W040 11 < output.score"),
        ("output.score == 11", "W040 output.score == 11"),
        ("output.level > 3", "W040 output.level > 3"),
        ("output.detail.depth <= 0", "W040 output.detail.depth <= 0"),
        ("-output.score > 0", "W040 -output.score > 0"),
        ("turn_count > 20", "W040 turn_count > 20"),
        ("executions.a > 4", "W040 executions.a > 4"),
        ("executions['a'] >= 5", "W040 executions['a'] >= 5"),
        (
            "agent_execution_count.get('a') > 4",
            "W040 agent_execution_count.get('a') > 4",
        ),
        ("history[-1].turn_number == 0", "W040 history[-1].turn_number == 0"),
        ("3 < turn_count > 20", "W040 turn_count > 20"),
        // What always fails.
        ("output.score > '7'", "W041 output.score > '7'"),
        ("output.score > 'high'", "W041 output.score > 'high'"),
        ("output.label > 3", "W041 output.label > 3"),
        ("output.done > 0", "W041 output.done > 0"),
        ("output.text >= 5", "W041 output.text >= 5"),
        ("output.tags > 2", "W041 output.tags > 2"),
        ("turn_count >= '3'", "W041 turn_count >= '3'"),
        ("executions.a >= 'two'", "W041 executions.a >= 'two'"),
        ("len(output.score) > 2", "W041 output.score"),
        ("output.score.len() > 2", "W041 output.score"),
        ("len(output.done) > 2", "W041 output.done"),
        ("output.label.value == 1", "W041 value"),
        ("output.score.value == 1", "W041 value"),
        ("output.done.get('x')", "W041 output.done"),
        ("output.score.startswith('1')", "W041 output.score"),
        ("output.tags.lower() == 'new'", "W041 output.tags"),
        ("lower(output.detail) == 'x'", "W041 output.detail"),
        ("round(output.label) > 1", "W041 output.label"),
        ("abs(output.tags) > 1", "W041 output.tags"),
        ("any(output.score)", "W041 output.score"),
        ("keys(output.tags) == []", "W041 output.tags"),
        ("-output.label == 1", "W041 output.label"),
        ("output.score + output.label > 3", "W041 output.score + output.label"),
        ("output.done + 1 > 3", "W041 output.done + 1"),
        ("output.label * 2 > 3", "W041 output.label * 2"),
        ("'a' in output.score", "W041 output.score"),
        ("history[-1].agent == 'a'", "W041 agent"),
        ("history[-1].output == 'a'", "W041 output"),
        ("history[0].sucess", "W041 sucess"),
        ("turn_count.value > 1", "W041 value"),
        // Only the first: what follows is never asked.
        (
            "output.label == 'x' and output.label.value == 1",
            "W040 output.label == 'x'",
        ),
        ("output.above <= 0", "W040 output.above <= 0"),
        // Keys that are never there.
        ("output.detail.dept > 1", "W013 dept"),
        ("output.detail['dept'] > 1", "W013 'dept'"),
        ("(1 ?? output.detail.dept) is None", "W013 dept"),
        ("outputs.guest.answer == 'yes'", "W013 answer"),
        ("context.a.skore > 1", "W013 skore"),
        ("outputs.mind.m > 1", "W013 m"),
    ];
    let mut wrong = Vec::new();
    for (condition, expected) in rows {
        let found = of_condition(condition, "on: success");
        if found != [*expected] {
            wrong.push(format!("{condition}: expected {expected}, found {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_can_be_is_not_told() {
    let rows: &[&str] = &[
        "output.detail.get('dept') == 1",
        "output.detail.dept is None",
        "output.detail.dept != () and None == output.detail['dept']",
        "output.detail?.dept == 1",
        "output.detail.dept?.x == 1",
        "(output.detail.dept ?? output.score) > 1",
        "output.done == True",
        "output.done == false",
        "output.done",
        "not output.done",
        "output.score == 10",
        "output.score >= 10",
        "output.score > 9.99",
        "output.score <= 0",
        "output.label == 'accept'",
        "output.label in ['accept', 'other']",
        "output.label is not None",
        "output.label != ''",
        "output.level != 4",
        "output.more is None",
        "output.more > 3",
        "output.text == 'x'",
        "output.text > 'a'",
        "output.mixed > 3",
        "output.mixed == 'x'",
        "output.any == 'x'",
        "output.any.deep.er > 3",
        "len(output.any) > 2",
        "'new' in output.tags",
        "output.tags[0] == 'new'",
        "len(output.tags) > 2",
        "output.tags.len > 2",
        "output.level == 3",
        "output.detail.depth > 0",
        "output.detail.get('dept', 3) > 1",
        "'dept' in output.detail",
        "turn_count >= 20",
        "turn_count > 19",
        // A precaution, and no mistake.
        "turn_count < 1000",
        "not (turn_count > 1000)",
        "executions.a >= 4",
        "executions.b < 100",
        "history[-1].agent_name == 'a'",
        "history[-1].output_data.score > 3",
        "history[-1].error is None",
        "len(history) > 3",
        "input == 'x'",
        "inputs.what == 'x'",
        "context.other == 'x'",
        "context.score > 3",
        "output.label.upper() == 'ACCEPT'",
        "outputs.guest.response == 'yes'",
        "outputs.mind.response == 'x'",
        "output.score + 1 > 10",
        "(output.more ?? 0) > 3",
        "output.score > 3 if output.done else output.label == 'accept'",
        "type_of(output.any) == 'text'",
        "type_of(output.any) == 'number' and output.any > 3",
        "output == None",
        "1 == 2 or output.done",
        // What is never reached.
        "False and output.label == 'x'",
    ];
    let mut wrong = Vec::new();
    for condition in rows {
        let found = of_condition(condition, "on: success");
        if !found.is_empty() {
            wrong.push(format!("{condition}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_failure_has_an_error_and_one_of_the_kinds() {
    let rows: &[(&str, &str, &[&str])] = &[
        (
            "output.kind == 'time_out'",
            "on: failure",
            &["W040 output.kind == 'time_out'"],
        ),
        (
            "output.kind in ['time_out', 'crash']",
            "on: failure",
            &["W040 output.kind in ['time_out', 'crash']"],
        ),
        ("output.kind == 'timeout'", "on: failure", &[]),
        ("output.kind == 3", "on: failure", &["W040 output.kind == 3"]),
        ("output.error > 3", "on: failure", &["W041 output.error > 3"]),
        ("output.error.kind == 'exit'", "on: failure", &["W041 kind"]),
        ("output.score > 10", "on: any", &["W040 output.score > 10"]),
        (
            "output.kind == 'time_out'",
            "on: any",
            &["W040 output.kind == 'time_out'"],
        ),
        ("output.error is None", "on: any", &[]),
    ];
    for (condition, edge, expected) in rows {
        assert_eq!(of_condition(condition, edge), *expected, "{condition}");
    }
}

#[test]
fn what_is_wrong_is_said_with_what_to_write() {
    let rows: &[(&str, &str, &str)] = &[
        (
            "output.done == 'True'",
            "`output.done` is true or false, so it never equals 'True'",
            "write `true` without quotes",
        ),
        (
            "output.score == '5'",
            "`output.score` is a number from 0 to 10, so it never equals '5'",
            "write `5` without quotes",
        ),
        (
            "output.label == 'Accept'",
            "`output.label` is one of 'accept', 'reject', so it never equals 'Accept'",
            "did you mean 'accept'?",
        ),
        (
            "output.text > 3",
            "`output.text` is a string or nothing, which cannot be ordered with the number 3",
            "convert the string with `float(…)`, or ask the agent for a number with `output_schema`",
        ),
        (
            "history[-1].agent == 'a'",
            "`history[-1]` has no field `agent`",
            "the known keys are `agent_name`, `attempt`, `error`, `execution`, `execution_time`, `input_data`, `output_data`, `success`, `timestamp`, `turn_number`, `usage`",
        ),
    ];
    for (condition, message, help) in rows {
        let agents = format!(
            "- {{name: a, script: x, output_schema: {SCHEMA}}}\n- name: b\n  script: x\n  dependencies: [{{agent_name: a, condition: \"{condition}\"}}]\n"
        );
        let found = diagnostics(&agents, Vec::new());
        let typed = found
            .iter()
            .find(|it| ["W040", "W041"].contains(&it.code.0))
            .expect(condition);
        assert_eq!((typed.message.as_str(), typed.help.as_deref()), (*message, Some(*help)));
    }
}

/// An agent's description is an example of its only output.
struct Described;

impl CheckContext for Described {
    fn configured_profiles(&self) -> Option<&[(Arc<str>, ModelProfile)]> {
        None
    }
    fn output_keys(&self, _: &Ensemble, _: &Agent) -> Option<crate::check::OutputKeys> {
        None
    }
    fn output_type(&self, _: &Ensemble, agent: &Agent) -> Option<ValueType> {
        Some(ValueType::exact_value_type(
            &serde_json::from_str(agent.description.as_ref()?).ok()?,
        ))
    }
    fn check_files(&self, _: &Ensemble) -> Vec<Finding> {
        Vec::new()
    }
}

#[test]
fn a_key_of_the_context_has_the_types_of_all_who_write_it() {
    let of = |second: &str, condition: &str| {
        let agents = format!(
            "- {{name: a, script: x, description: '{{\"n\": 1}}'}}\n- {{name: c, script: x, {second}}}\n- name: b\n  script: x\n  description: '{{}}'\n  dependencies: [{{agent_name: a, condition: \"{condition}\"}}]\n"
        );
        told(&found(&agents, |ensemble| check_with_context(ensemble, &Described)))
    };
    let number = "description: '{\"n\": 2}'";
    assert_eq!(of(number, "context.n == 3"), ["W040 context.n == 3"]);
    assert_eq!(of(number, "context.n == 2"), [""; 0]);
    assert_eq!(of("description: '{\"n\": \"x\"}'", "context.n == 'x'"), [""; 0]);
    // It may write other keys than its schema names.
    let open = "output_schema: {type: object, properties: {m: {type: string}}}";
    assert_eq!(of(open, "context.n == 3"), [""; 0]);
    // Whoever it is may write the key.
    assert_eq!(of("type: script", "context.n == 3"), [""; 0]);
}

#[test]
fn an_input_is_in_the_context_too() {
    let text = "name: e
inputs: {tone: {type: string, enum: [warm, dry], default: dry}}
agents:
  - {name: a, script: x, description: '{\"n\": 1}'}
  - {name: b, script: x, description: '{}', dependencies: [{agent_name: a, condition: \"context.tone == 'Dry'\"}]}
  - {name: c, script: x, description: '{}', dependencies: [{agent_name: a, condition: \"context.tone == 'dry'\"}]}
";
    let loaded = crate::loader::load_ensemble(&crate::source::SourceText::new("t", text));
    let ensemble = loaded.ensemble.as_ref().expect("an ensemble");
    let found = loaded.diagnostics_with(&check_with_context(ensemble, &Described));
    assert_eq!(told(&found), ["W040 context.tone == 'Dry'"]);
}

#[test]
fn a_loop_is_bounded_by_each_of_its_partners() {
    let of = |condition: &str| {
        let agents = format!(
            "- {{name: writer, script: x, dependencies: [{{agent_name: reviewer, feedback: true}}], conversation: {{max_turns: 9}}}}\n\
             - {{name: reviewer, script: x, depends_on: [writer], conversation: {{max_turns: 2}}}}\n\
             - {{name: editor, script: x, dependencies: [{{agent_name: reviewer, condition: {condition}}}]}}\n"
        );
        told(&diagnostics(&agents, Vec::new())).len()
    };
    // The writer starts, and again after each of the two outputs of the reviewer.
    for (condition, never) in [
        ("executions.writer >= 4", 1),
        ("executions.writer >= 3", 0),
        ("executions.reviewer > 2", 1),
        ("executions.reviewer >= 2", 0),
    ] {
        assert_eq!(of(condition), never, "{condition}");
    }
}

#[test]
fn inputs_and_results_have_types() {
    let text = "name: e
inputs:
  tone: {type: string, enum: [warm, dry], default: dry}
  depth: {type: integer, minimum: 1, maximum: 3}
agents:
  - {name: a, script: x}
  - {name: b, script: x, dependencies: [{agent_name: a, condition: \"inputs.tone == 'Dry'\"}]}
  - {name: c, script: x, dependencies: [{agent_name: a, condition: \"inputs.depth > 3\"}]}
  - {name: d, script: x, dependencies: [{agent_name: a, condition: \"inputs.tone == 'dry' and inputs.depth == 3\"}]}
result: {deep: \"inputs.depth == 'three'\", dry: \"inputs.tone\"}
";
    let loaded = crate::loader::load_ensemble(&crate::source::SourceText::new("t", text));
    let ensemble = loaded.ensemble.as_ref().expect("an ensemble");
    let found = loaded.diagnostics_with(&check_with_context(ensemble, &Described));
    assert_eq!(
        told(&found),
        [
            "W040 inputs.tone == 'Dry'",
            "W040 inputs.depth > 3",
            "W040 inputs.depth == 'three'"
        ]
    );
}

#[test]
fn a_key_that_a_schema_excludes_is_told_in_every_expression() {
    for (more, expected) in [
        ("success: outputs.a.dun", "W013 dun"),
        ("result: {r: outputs.a.detail.dept}", "W013 dept"),
        ("result: {r: \"[tag.name for tag in context.a.tagz]\"}", "W013 tagz"),
        (
            "- {name: b, script: x, depends_on: [a], for_each: {in: outputs.a.tagz}}",
            "W013 tagz",
        ),
        (
            "- {name: b, script: x, depends_on: [a], for_each: {in: outputs.a.tags, key: outputs.a.lable}}",
            "W013 lable",
        ),
        // `outputs` never has a failure.
        ("success: outputs.a.error == ''", "W013 error"),
    ] {
        let agents = format!("- {{name: a, script: x, output_schema: {SCHEMA}}}\n{more}");
        assert_eq!(told(&diagnostics(&agents, Vec::new())), [expected], "{more}");
    }
}
