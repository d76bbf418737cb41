//! Workflows of Conductor.
//!
//! In Conductor one step runs at a time, and its `routes` say which step is next. Here every step has a dependency on each
//! step with a route to it, with the condition under which the route is taken.

mod expression;
mod flow;
mod jinja;
mod models;
mod schemas;
mod step_conversion;
mod template_names;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use super::draft::{DraftMap, DraftMapLine, DraftValue};
use super::limits::build_comment_line;
use super::values::{is_true_value, scalar_or_empty_text, to_json as value_of};
use super::{ImportTask, agent_names as old_names, find_key_span, list_map_entries};
use ensemble_language::loader::document::{YamlContent, YamlDocument, YamlEntry, YamlNode};

use flow::WorkflowGraph;

/// Expression that replaces the exit code of a script in the condition of a route.
const EXIT_CODE_EXPRESSION: &str = "(1 if output.get('kind') == 'exit' else 0)";
/// Default of `max_iterations` in Conductor.
const DEFAULT_MAX_ITERATIONS: u64 = 10;
/// Time limit in seconds for a workflow without a limit. Conductor has no default.
const DEFAULT_TIMEOUT_SECONDS: u64 = 86_400;

/// Returns whether the document has the keys of a Conductor workflow.
pub(super) fn is_conductor_workflow(document: &YamlDocument) -> bool {
    let workflow = document.root().get("workflow");
    workflow.is_some_and(|workflow| workflow.get("entry_point").is_some())
        && document.root().get("agents").is_some_and(|node| node.items().is_some())
}

/// Returns the reason why a key of Conductor is not converted, and the replacement.
fn find_conductor_key_advice(key: &str) -> (&'static str, &'static str) {
    match key {
        "hooks" => (
            "hooks are not supported",
            "read the outcome of `ensemble run --output json`",
        ),
        "instructions" => (
            "files of instructions are not supported",
            "write the text in `system_prompt` under `defaults`",
        ),
        "skills" | "skill_discovery" | "skill_injection" => (
            "skills are not supported",
            "write the content of the skill in the `system_prompt` of the agent",
        ),
        "plugins" | "plugin_sources" => (
            "plugins are not supported",
            "write the servers of the plugin under `tools`",
        ),
        "working_dir" => (
            "a process runs in the root of the project",
            "write `cd FOLDER && …` in a `script`",
        ),
        "stdin" => (
            "a script receives one JSON object on its standard input",
            "let the script read `dependencies` from it",
        ),
        "dialog" => (
            "an agent cannot decide to ask a person",
            "write an `input` agent, and a `condition` on the output of this agent",
        ),
        "validator" => (
            "a second model does not grade an agent automatically",
            "write an agent that grades the output, and a `feedback` dependency on it",
        ),
        "session_key" => (
            "a conversation with a model belongs to one agent",
            "write `conversation.memory: conversation` for an agent that remembers its earlier executions",
        ),
        "sandbox" => ("the provider decides about the sandbox of a model", "leave it out"),
        "context_tier" | "default_context_tier" => (
            "tiers of context are not supported",
            "write `context_window` in the model profile",
        ),
        "checkpoint" => (
            "every run is recorded",
            "leave it out; `ensemble resume` continues a run",
        ),
        "output_template" => (
            "a run has only one declaration of its result",
            "write `result` for all ends of the workflow",
        ),
        "abort_route" => ("a question cannot be aborted", "leave it out"),
        "max_session_seconds" | "timeout" => (
            "only agents, requests, turns and runs have time limits",
            "set `timeout_seconds` of the agent",
        ),
        "max_depth" => ("an ensemble cannot contain itself", "leave it out"),
        "budget_usd" => (
            "`budget_mode: audit` never stops a run",
            "write `max_cost` to stop a run at a cost; every run reports its cost if profiles have a `cost`",
        ),
        _ => ("there is no equivalent in this language", "leave it out"),
    }
}

/// Keys that have no effect on a run here. They are dropped without a report.
const KEYS_WITHOUT_EFFECT: [&str; 8] = [
    "version",
    "metadata",
    "entry_point",
    "context",
    "budget_mode",
    "show_per_agent",
    "show_summary",
    "tool_output",
];

impl<'a> ImportTask<'a> {
    /// Converts the workflow to the draft of an ensemble.
    pub(super) fn convert_conductor_workflow(&mut self) -> DraftMap {
        let root: &'a YamlNode = self.document.root();
        let flow = WorkflowGraph::build_from_workflow(self, root);
        let mut map = DraftMap::default();
        let workflow = root.get("workflow");
        let keys = workflow.map_or(&[][..], list_map_entries);
        let declared_name = workflow
            .and_then(|workflow| workflow.get("name"))
            .map(scalar_or_empty_text);
        let name = old_names::sanitize_name(declared_name.as_deref().unwrap_or(self.context.stem), "workflow");
        if let Some(declared_name) = declared_name.filter(|given| *given != name) {
            let span = find_key_span(keys, "name").unwrap_or(root.span);
            self.add_remark_and_warning(
                span,
                &format!("the name `{declared_name}` has become `{name}`"),
                old_names::NAME_RULE_HELP,
            );
        }
        map.put_plain_value("name", name, find_key_span(keys, "name"));
        let mut models = models::WorkflowModels::from_workflow(workflow);
        for entry in keys {
            match &*entry.key {
                "name" => {}
                "description" => map.put_plain_value(
                    "description",
                    scalar_or_empty_text(&entry.value).trim_end(),
                    Some(entry.key_span),
                ),
                "input" => {
                    if let Some(inputs) = schemas::convert_input_schemas(&entry.value) {
                        map.put_plain_value("inputs", inputs, Some(entry.key_span));
                    }
                }
                "limits" => {}
                "runtime" => self.convert_runtime_key(&mut map, entry, &mut models),
                "cost" => self.report_unknown_conductor_keys(&mut map, &entry.value, &["pricing"]),
                key if KEYS_WITHOUT_EFFECT.contains(&key) => {
                    map.lines.push(DraftMapLine::WrittenElsewhere(entry.key_span))
                }
                key => {
                    let (why, instead) = find_conductor_key_advice(key);
                    map.put_comment(self.report_unconverted_key(entry, why, instead));
                }
            }
        }
        self.convert_conductor_limits(&mut map, workflow);
        let agents = self.convert_reached_steps(&flow, &mut models);
        map.lines.push(DraftMapLine::new_entry(
            "agents",
            DraftValue::List(agents),
            find_key_span(list_map_entries(root), "agents"),
        ));
        for entry in list_map_entries(root) {
            match &*entry.key {
                "workflow" | "agents" | "parallel" | "for_each" => {}
                "output" => self.convert_conductor_result(&mut map, entry, &flow),
                "tools" if entry.value.items().is_some_and(<[_]>::is_empty) => {}
                key => {
                    let (why, instead) = find_conductor_key_advice(key);
                    map.put_comment(self.report_unconverted_key(entry, why, instead));
                }
            }
        }
        let tools = models.take_tool_drafts();
        if !tools.lines.is_empty() {
            map.lines
                .push(DraftMapLine::new_entry("tools", DraftValue::Map(tools), None));
        }
        let mut profiles = models.take_profile_drafts();
        profiles.lines.extend(self.take_used_profiles().lines);
        if !profiles.lines.is_empty() {
            map.lines.push(DraftMapLine::new_entry(
                "model_profiles",
                DraftValue::Map(profiles),
                None,
            ));
        }
        map
    }

    /// Converts a `runtime` entry. Reports keys that belong to neither a model profile nor a tool.
    fn convert_runtime_key(
        &mut self,
        map: &mut DraftMap,
        entry: &'a YamlEntry,
        models: &mut models::WorkflowModels<'a>,
    ) {
        for inner in list_map_entries(&entry.value) {
            match &*inner.key {
                "provider"
                | "default_model"
                | "temperature"
                | "max_tokens"
                | "default_reasoning_effort"
                | "max_agent_iterations"
                | "tool_output" => {}
                "timeout" => {}
                "mcp_servers" => self.convert_mcp_servers(&inner.value, models),
                "checkpoint" => map.lines.push(DraftMapLine::WrittenElsewhere(inner.key_span)),
                _ if matches!(&inner.value.content, YamlContent::Sequence(list) if list.is_empty()) => {}
                key => {
                    let (why, instead) = find_conductor_key_advice(key);
                    map.put_comment(self.report_unconverted_key(inner, why, instead));
                }
            }
        }
    }

    /// Reports the keys that are neither known nor without effect, and adds them as comments.
    fn report_unknown_conductor_keys(&mut self, map: &mut DraftMap, node: &'a YamlNode, known: &[&str]) {
        for entry in list_map_entries(node) {
            if !known.contains(&&*entry.key) && !KEYS_WITHOUT_EFFECT.contains(&&*entry.key) {
                let (why, instead) = find_conductor_key_advice(&entry.key);
                map.put_comment(self.report_unconverted_key(entry, why, instead));
            }
        }
    }

    /// Converts the limits of the workflow. Adds a default number of turns and a time limit of one day. Reports other limits.
    fn convert_conductor_limits(&mut self, map: &mut DraftMap, workflow: Option<&'a YamlNode>) {
        let limits = workflow.and_then(|workflow| workflow.get("limits"));
        let number = |key: &str| limits.and_then(|limits| limits.get(key)).map(value_of);
        let from = workflow.and_then(|workflow| find_key_span(list_map_entries(workflow), "limits"));
        let at = from.map_or(self.document.root().span.start, |span| span.start);
        let mut inner = DraftMap::default();
        inner.put_plain_value(
            "max_total_turns",
            number("max_iterations").unwrap_or(json!(DEFAULT_MAX_ITERATIONS)),
            from,
        );
        match number("timeout_seconds").filter(|value| *value != Value::Null) {
            Some(seconds) => inner.put_plain_value("timeout_seconds", seconds, None),
            None => {
                let reason = "Conductor has no default time limit; without the key, a run is stopped after 300 seconds";
                inner.put_comment(build_comment_line(reason, at));
                inner.put_plain_value("timeout_seconds", DEFAULT_TIMEOUT_SECONDS, None);
            }
        }
        for entry in limits.map_or(&[][..], list_map_entries) {
            match &*entry.key {
                "max_iterations" | "timeout_seconds" | "budget_mode" => {}
                "budget_usd" if number("budget_mode") == Some(json!("enforce")) => {
                    inner.put_plain_value("max_cost", value_of(&entry.value), Some(entry.key_span));
                }
                "budget_usd" if value_of(&entry.value) == Value::Null => {}
                key => {
                    let (why, instead) = find_conductor_key_advice(key);
                    inner.put_comment(self.report_unconverted_key(entry, why, instead));
                }
            }
        }
        map.lines.push(DraftMapLine::new_entry(
            "conversation_limits",
            DraftValue::Map(inner),
            from,
        ));
    }

    /// Converts `output` of the workflow to expressions of `result`. Reports expressions that cannot be converted.
    fn convert_conductor_result(&mut self, map: &mut DraftMap, entry: &'a YamlEntry, flow: &WorkflowGraph<'a>) {
        let mut result = DraftMap::default();
        for inner in list_map_entries(&entry.value) {
            let text = scalar_or_empty_text(&inner.value);
            match expression::convert_result_expression(&text, &flow.names) {
                Ok(text) => result.put_plain_value(&inner.key, text, Some(inner.key_span)),
                Err(reason) => {
                    let instead = "write an expression over `outputs`, or an agent that writes the text";
                    result.put_comment(self.report_unconverted_key(inner, reason, instead));
                }
            }
        }
        if result
            .lines
            .iter()
            .any(|line| matches!(line, DraftMapLine::Entry { .. }))
        {
            map.put_draft_value("result", DraftValue::Map(result), entry.key_span);
        } else {
            map.lines.extend(result.lines);
        }
    }
}

/// Returns whether the key is set to true. Returns `false` for a missing key.
fn is_key_true(node: &YamlNode, key: &str) -> bool {
    node.get(key).is_some_and(is_true_value)
}
