//! Parts of a file that exclude each other: limits, prices, schemas, and outputs that are known.

use std::sync::Arc;

use super::around::diagnostics;
use super::found;
use crate::check::{CheckContext, OutputKeys, check_with_context};
use crate::condition::ValueType;
use crate::diagnostic::{Diagnostic, Finding};
use crate::ensemble::{Agent, Ensemble, ModelProfile};

const CODES: [&str; 8] = ["E109", "W043", "W044", "W045", "W046", "W047", "W054", "W055"];

fn told(found: &[Diagnostic]) -> Vec<String> {
    let line = |it: &Diagnostic| format!("{} {}", it.code.0, &it.source.text()[it.span.start..it.span.end]);
    found.iter().filter(|it| CODES.contains(&it.code.0)).map(line).collect()
}

/// The outputs of agents are what their descriptions say, as JSON: one of several in a list.
struct Described;

impl CheckContext for Described {
    fn configured_profiles(&self) -> Option<&[(Arc<str>, ModelProfile)]> {
        Some(&[])
    }
    fn output_keys(&self, _: &Ensemble, _: &Agent) -> Option<OutputKeys> {
        None
    }
    fn output_type(&self, _: &Ensemble, agent: &Agent) -> Option<ValueType> {
        let value: serde_json::Value = serde_json::from_str(agent.description.as_ref()?).ok()?;
        Some(
            value
                .as_array()?
                .iter()
                .map(ValueType::exact_value_type)
                .fold(ValueType::impossible_value(), ValueType::union_with),
        )
    }
    fn check_files(&self, _: &Ensemble) -> Vec<Finding> {
        Vec::new()
    }
}

/// Rows with faults and rows without: the agents, and what is told.
fn hold(rows: &[(&str, &str)], of: impl Fn(&str) -> Vec<String>) {
    let mut wrong = Vec::new();
    for (agents, expected) in rows {
        let expected: Vec<&str> = Some(*expected).into_iter().filter(|one| !one.is_empty()).collect();
        let found = of(agents);
        if found != expected {
            wrong.push(format!("{agents}: expected {expected:?}, found {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn limits_of_agents_beyond_those_of_the_conversation() {
    let a = |rest: &str, limits: &str| format!("- {{name: a, script: x, {rest}}}\nconversation_limits: {{{limits}}}\n");
    let rows = [
        (a("timeout_seconds: 301", ""), "W043 301"),
        (a("timeout_seconds: 400", "timeout_seconds: 60"), "W043 400"),
        (a("timeout_seconds: 400", "timeout_seconds: 600"), ""),
        (a("timeout_seconds: 300", ""), ""),
        (a("timeout_seconds: 30", "turn_timeout_seconds: 20"), "W043 30"),
        (a("timeout_seconds: 20", "turn_timeout_seconds: 20"), ""),
        (a("timeout_seconds: 10", "turn_timeout_seconds: 20"), ""),
        // The run ends before the turn does.
        (
            a("timeout_seconds: 50", "timeout_seconds: 40, turn_timeout_seconds: 60"),
            "W043 50",
        ),
        (a("timeout_seconds: 1.5", "turn_timeout_seconds: 1"), "W043 1.5"),
        // 1, 2, 4, … seconds: 255 before the ninth attempt, 511 before the tenth.
        (a("retry: {max_attempts: 10}", ""), "W043 {max_attempts: 10}"),
        (a("retry: {max_attempts: 9}", ""), ""),
        (
            a("retry: {max_attempts: 3, delay_seconds: 200}", ""),
            "W043 {max_attempts: 3, delay_seconds: 200}",
        ),
        (a("retry: {max_attempts: 2, delay_seconds: 200}", ""), ""),
        (
            a(
                "retry: {max_attempts: 3, delay_seconds: 10, backoff: constant}",
                "turn_timeout_seconds: 20",
            ),
            "W043 {max_attempts: 3, delay_seconds: 10, backoff: constant}",
        ),
        (
            a(
                "retry: {max_attempts: 3, delay_seconds: 9, backoff: constant}",
                "turn_timeout_seconds: 20",
            ),
            "",
        ),
        (
            a(
                "retry: {max_attempts: 4, delay_seconds: 10, backoff: linear}",
                "turn_timeout_seconds: 60",
            ),
            "W043 {max_attempts: 4, delay_seconds: 10, backoff: linear}",
        ),
    ];
    let rows: Vec<(&str, &str)> = rows
        .iter()
        .map(|(agents, expected)| (agents.as_str(), *expected))
        .collect();
    hold(&rows, |agents| told(&diagnostics(agents, Vec::new())));
    // A question stops the clocks.
    let question = "- {name: a, input: {prompt: hi, timeout_seconds: 4000}}\n";
    assert_eq!(told(&diagnostics(question, Vec::new())), [""; 0]);
}

#[test]
fn a_budget_scope_without_a_budget() {
    let with = |limits: &str| format!("- {{name: a, model: xai/m}}\nconversation_limits: {{{limits}}}\n");
    let rows = [
        (with("budget: message"), "W054 budget"),
        (with("budget: conversation, timeout_seconds: 9"), "W054 budget"),
        (with("budget: message, max_total_tokens: 9"), ""),
        (with("timeout_seconds: 9"), ""),
    ];
    let rows: Vec<(&str, &str)> = rows.iter().map(|(text, expected)| (text.as_str(), *expected)).collect();
    hold(&rows, |agents| told(&diagnostics(agents, Vec::new())));
}

#[test]
fn summaries_that_no_model_receives() {
    let find = |keys: &str| format!("tools: {{find: {{agent: b, {keys}}}, s: {{mcp: {{command: x}}, {keys}}}}}\n");
    let with = |agent: &str, keys: &str| format!("- {{name: a, {agent}}}\n- {{name: b, script: x}}\n{}", find(keys));
    let both = "summarize_above: 9, summarize_with: simulated";
    let rows = [
        (with("model: xai/m, tools: [find, s]", both), ""),
        (with("model: xai/m, tools: [find, s]", "summarize_above: 9"), ""),
        (with("tool: s.look", "summarize_above: 9"), "W055 summarize_above"),
        (with("acp: codex, prompt: x, tools: [s]", both), "W055 summarize_above"),
    ];
    let rows: Vec<(&str, &str)> = rows.iter().map(|(text, expected)| (text.as_str(), *expected)).collect();
    hold(&rows, |agents| told(&diagnostics(agents, Vec::new())));
    let alone = with("model: xai/m, tools: [find, s]", "summarize_with: simulated");
    let found = told(&diagnostics(&alone, Vec::new()));
    assert_eq!(found, ["W055 summarize_with", "W055 summarize_with"]);
}

#[test]
fn a_budget_without_prices() {
    let with = |agents: &str, profiles: &str| {
        format!("{agents}\nconversation_limits: {{max_cost: 2}}\nmodel_profiles: {{{profiles}}}\n")
    };
    let free = "p: {provider: xai, model: m}";
    let paid = "p: {provider: xai, model: m, cost: {input_per_million: 1, output_per_million: 2}}";
    let behind = "p: {provider: xai, model: m, fallback: q}, q: {provider: xai, model: m, cost: {input_per_million: 1, output_per_million: 2}}";
    let rows = [
        (with("- {name: a, model_profile: p}", free), "E109 2"),
        (with("- {name: a, model_profile: p}", paid), ""),
        (
            with("- {name: a, model_profile: p}", behind),
            "W044 {provider: xai, model: m, fallback: q}",
        ),
        (with("- {name: a, model: xai/m}", ""), "E109 2"),
        (with("- {name: a, model_profile: simulated}", ""), "E109 2"),
        (with("- {name: a, script: x}", ""), "W044 2"),
        // Of other machines and other ensembles nothing is known.
        (with("- {name: a, model_profile: elsewhere}", ""), ""),
        (with("- {name: a, ensemble: inner.yaml}", ""), ""),
        (
            with("- {name: a, model: xai/m}\n- {name: b, model_profile: p}", paid),
            "W044 xai/m",
        ),
        (
            with(
                "- {name: a, model_profile: p}",
                &format!("{paid}, q: {{provider: xai, model: n}}"),
            ),
            "",
        ),
        (
            with(
                "- {name: a, model_profile: p}",
                &format!(
                    "{}, q: {{provider: xai, model: n}}",
                    paid.replace("cost", "fallback: q, cost")
                ),
            ),
            "W044 {provider: xai, model: n}",
        ),
        (
            with("- {name: a, model: xai/m}\n- {name: b, ensemble: inner.yaml}", ""),
            "",
        ),
    ];
    let rows: Vec<(&str, &str)> = rows
        .iter()
        .map(|(agents, expected)| (agents.as_str(), *expected))
        .collect();
    hold(&rows, |agents| told(&diagnostics(agents, Vec::new())));
    let without = "- {name: a, model: xai/m}\nconversation_limits: {max_total_tokens: 2}\n";
    assert_eq!(told(&diagnostics(without, Vec::new())), [""; 0]);
}

#[test]
fn schemas_that_nothing_matches() {
    let rows = [
        ("{type: string}", "W045 string"),
        ("{type: [array, 'null']}", "W045 [array, 'null']"),
        ("{type: number, minimum: 3}", "W045 number"),
        ("{type: object, required: [a], additionalProperties: false}", "W045 [a]"),
        (
            "{required: [a, b], properties: {a: {}}, additionalProperties: false}",
            "W045 [a, b]",
        ),
        ("{type: object, required: [a], properties: {a: false}}", "W045 [a]"),
        ("{type: object, minProperties: 3, maxProperties: 2}", "W045 3"),
        ("{properties: {n: {type: number, minimum: 5, maximum: 1}}}", "W045 5"),
        (
            "{properties: {n: {type: number, exclusiveMinimum: 1, maximum: 1}}}",
            "W045 1",
        ),
        (
            "{properties: {n: {type: number, minimum: 1, exclusiveMaximum: 1}}}",
            "W045 1",
        ),
        (
            "{properties: {n: {type: integer, minimum: 0.2, maximum: 0.8}}}",
            "W045 0.2",
        ),
        (
            "{properties: {n: {type: integer, exclusiveMinimum: 1, exclusiveMaximum: 2}}}",
            "W045 1",
        ),
        (
            "{properties: {n: {type: [integer, number], minimum: 5, maximum: 1}}}",
            "W045 5",
        ),
        (
            "{properties: {n: {type: string, minLength: 5, maxLength: 1}}}",
            "W045 5",
        ),
        ("{properties: {n: {type: array, minItems: 5, maxItems: 1}}}", "W045 5"),
        (
            "{properties: {n: {type: array, items: {type: number, minimum: 5, maximum: 1}}}}",
            "W045 5",
        ),
        ("{properties: {n: {type: integer, enum: [a, b]}}}", "W045 [a, b]"),
        ("{properties: {n: {type: string, enum: [1, 2]}}}", "W045 [1, 2]"),
        (
            "{properties: {n: {type: number, maximum: 1, enum: [2, 3]}}}",
            "W045 [2, 3]",
        ),
        ("{properties: {n: {type: integer, const: x}}}", "W045 x"),
        ("{properties: {n: {const: 1, enum: [2, 3]}}}", "W045 1"),
        (
            "{properties: {n: {type: object, required: [x], additionalProperties: false, properties: {y: {}}}}}",
            "W045 [x]",
        ),
        (
            "{additionalProperties: {type: number, minimum: 5, maximum: 1}}",
            "W045 5",
        ),
        // What something matches.
        ("{type: object}", ""),
        ("{type: [object, string]}", ""),
        ("{}", ""),
        (
            "{type: object, required: [a], properties: {a: {}}, additionalProperties: false}",
            "",
        ),
        ("{type: object, required: [a]}", ""),
        (
            "{type: object, required: [a], additionalProperties: {type: string}}",
            "",
        ),
        (
            "{type: object, required: [a], additionalProperties: false, patternProperties: {'^a': {}}}",
            "",
        ),
        ("{properties: {n: {type: number, minimum: 1, maximum: 1}}}", ""),
        (
            "{properties: {n: {type: [number, string], minimum: 5, maximum: 1}}}",
            "",
        ),
        ("{properties: {n: {minimum: 5, maximum: 1}}}", ""),
        ("{properties: {n: {type: integer, minimum: 0.2, maximum: 1}}}", ""),
        (
            "{properties: {n: {type: integer, exclusiveMinimum: 0, exclusiveMaximum: 2}}}",
            "",
        ),
        ("{properties: {n: {type: integer, enum: [1, a]}}}", ""),
        ("{properties: {n: {type: number, enum: [1]}}}", ""),
        ("{properties: {n: {enum: [1, a, null]}}}", ""),
        ("{properties: {n: {type: string, minLength: 1, maxLength: 1}}}", ""),
        ("{properties: {n: {type: string, minItems: 5, maxItems: 1}}}", ""),
        ("{properties: {n: {const: 1, enum: [1, 3]}}}", ""),
        ("{properties: {n: {$ref: '#/$defs/n'}}, $defs: {n: {type: number}}}", ""),
    ];
    hold(&rows, |schema| {
        told(&diagnostics(
            &format!("- {{name: a, script: x, output_schema: {schema}}}\n"),
            Vec::new(),
        ))
    });
    let others = [
        (
            "- {name: a, script: x}\ninputs: {n: {type: integer, minimum: 5, maximum: 1}}\n",
            "W045 5",
        ),
        (
            "- {name: a, script: x}\ninputs: {n: {type: integer, enum: [a]}}\n",
            "W045 [a]",
        ),
        ("- {name: a, script: x}\ninputs: {n: {type: integer, minimum: 1}}\n", ""),
        (
            "- {name: a, model: xai/m, tools: [t]}\ntools: {t: {script: x, parameters: {type: object, required: [n], properties: {}, additionalProperties: false}}}\n",
            "W045 [n]",
        ),
        (
            "- {name: a, model: xai/m, tools: [t]}\ntools: {t: {script: x, parameters: {type: object, properties: {n: {type: string, enum: [1]}}}}}\n",
            "W045 [1]",
        ),
    ];
    hold(&others, |agents| told(&diagnostics(agents, Vec::new())));
}

#[test]
fn agents_that_never_succeed() {
    let schema = "{type: object, required: [score], additionalProperties: false, properties: {score: {type: number}, note: {type: string}}}";
    let told_of = |described: &str, kind: &str| {
        let agents = format!(
            "- {{name: a, {kind}, description: '{described}', output_schema: {schema}}}\nmodel_profiles: {{p: {{provider: simulated, replies: [x]}}, q: {{provider: simulated, replies: [x], fallback: p}}}}\n"
        );
        told(&found(&agents, |ensemble| check_with_context(ensemble, &Described)))
    };
    let fails = format!("W046 {schema}");
    let rows: [(&str, &str); 13] = [
        ("[{\"score\": \"high\"}]", &fails),
        ("[{\"score\": null}]", &fails),
        ("[{\"note\": \"x\"}]", &fails),
        ("[{\"score\": 3, \"more\": 1}]", &fails),
        ("[{\"score\": \"high\"}, {\"score\": \"low\"}]", &fails),
        ("[{\"response\": \"x\"}]", &fails),
        ("[{\"score\": 3, \"note\": 4}]", &fails),
        ("[{\"score\": 3}]", ""),
        ("[{\"score\": 3, \"note\": \"x\"}]", ""),
        ("[{\"score\": \"high\"}, {\"score\": 3}]", ""),
        ("[{\"note\": \"x\"}, {\"score\": 3}]", ""),
        ("[]", ""),
        ("{}", ""),
    ];
    hold(&rows, |described| told_of(described, "script: x"));
    let replies: [(&str, &str); 7] = [
        ("[{\"response\": \"good\"}]", &fails),
        ("[{\"response\": \"{..}\", \"score\": \"high\"}]", &fails),
        ("[{\"response\": \"{..}\", \"note\": \"x\"}]", &fails),
        ("[{\"response\": \"{..}\", \"score\": 3}]", ""),
        ("[{\"response\": \"good\"}, {\"response\": \"{..}\", \"score\": 3}]", ""),
        ("[{\"response\": \"So: ```json {}```\"}]", ""),
        ("[]", ""),
    ];
    hold(&replies, |described| told_of(described, "model_profile: p"));
    // Another model may answer.
    hold(&[("[{\"response\": \"good\"}]", "")], |described| {
        told_of(described, "model_profile: q")
    });
    let lists = [
        (
            "- {name: a, script: x, for_each: {in: [1, 2, 3], max_items: 2}}",
            "W046 [1, 2, 3]",
        ),
        ("- {name: a, script: x, for_each: {times: 101}}", "W046 101"),
        ("- {name: a, script: x, for_each: {in: [1, 2, 3], max_items: 3}}", ""),
        ("- {name: a, script: x, for_each: {times: 100}}", ""),
        ("- {name: a, script: x, for_each: {times: 200, max_items: 200}}", ""),
    ];
    hold(&lists, |agents| told(&diagnostics(agents, Vec::new())));
}

#[test]
fn requests_of_prepared_replies() {
    let asks = |target: &str, conversation: &str| {
        let reply = format!("[{{\"response\": \"x\", \"agent_requests\": [{{\"target_agent\": \"{target}\"}}]}}]");
        let agents = format!(
            "- {{name: a, model_profile: p, description: '{reply}', {conversation}}}\n- {{name: helper, script: x}}\nmodel_profiles: {{p: {{provider: simulated, replies: [x]}}}}\n"
        );
        told(&found(&agents, |ensemble| check_with_context(ensemble, &Described)))
    };
    let may = "conversation: {triggers_conversation: true}";
    assert_eq!(asks("helper", may), [""; 0]);
    assert_eq!(asks("helpr", may), ["W047 a"]);
    assert_eq!(asks("helper", "max_iterations: 3"), ["W047 a"]);
    let parts = format!("{may}, for_each: {{times: 2}}");
    assert_eq!(asks("helper", &parts), ["W047 a"]);
}
