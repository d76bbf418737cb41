//! The steps of a workflow as agents.

use serde_json::{Value, json};

use super::super::draft::{DraftMap, DraftMapLine, DraftValue};
use super::super::values::{scalar_or_empty_text, to_json as value_of};
use super::super::{ImportTask, list_map_entries, profiles};
use super::flow::{self, WorkflowGraph, WorkflowStep, WorkflowStepKind};
use super::models::{WorkflowModels, convert_environment_map};
use super::{KEYS_WITHOUT_EFFECT, expression, find_conductor_key_advice, jinja, schemas};
use ensemble_language::loader::document::{YamlEntry, YamlNode};
use ensemble_language::source::Span;
use ensemble_language::template::contains_tag_start;

/// Script of a step without work, whose output is an empty object.
const EMPTY_OUTPUT_SCRIPT: &str = "echo '{}'";
/// The most items of a list; Conductor has no limit.
const MAX_LIST_ITEMS: u64 = 1000;

/// Keys of all steps that other functions convert.
const KEYS_CONVERTED_ELSEWHERE: [&str; 9] = [
    "name",
    "type",
    "routes",
    "input",
    "model",
    "provider",
    "reasoning",
    "output_mode",
    "tools",
];

impl<'a> ImportTask<'a> {
    /// Converts the steps that the workflow can reach, and reports the other steps.
    pub(super) fn convert_reached_steps(
        &mut self,
        flow: &WorkflowGraph<'a>,
        models: &mut WorkflowModels<'a>,
    ) -> Vec<(DraftValue, Option<Span>)> {
        let mut agents = Vec::new();
        for (at, stage) in flow.stages.iter().enumerate() {
            if !flow.is_step_reached(at) {
                let span = stage.node.get("name").map_or(stage.node.span, |name| name.span);
                let message = format!(
                    "the step `{}` is left out: no route leads to it",
                    readable_step_name(&stage.old)
                );
                self.add_remark_and_warning(
                    span,
                    &message,
                    "write an agent for the step, and a dependency on the agent before it",
                );
                continue;
            }
            if stage.is_dissolved {
                continue;
            }
            let map = self.convert_step(flow, at, stage, models);
            agents.push((DraftValue::Map(map), Some(stage.node.span)));
        }
        agents
    }

    fn convert_step(
        &mut self,
        flow: &WorkflowGraph<'a>,
        at: usize,
        stage: &WorkflowStep<'a>,
        models: &mut WorkflowModels<'a>,
    ) -> DraftMap {
        let node = stage.node;
        let mut map = DraftMap::default();
        let name = node.get("name").map(|name| name.span);
        map.put_plain_value("name", stage.new.as_str(), name);
        if let Some(text) = node
            .get("description")
            .filter(|_| stage.kind != WorkflowStepKind::OptionField)
            .map(scalar_or_empty_text)
        {
            map.put_plain_value("description", text.trim_end(), None);
        }
        match stage.kind {
            WorkflowStepKind::Model => self.convert_model_step(&mut map, flow, node, None, models),
            WorkflowStepKind::Script => self.convert_command_step(&mut map, flow, node),
            WorkflowStepKind::Gate => self.convert_gate_step(&mut map, flow, node),
            WorkflowStepKind::OptionField => {
                let field = node.get("prompt_for").map(scalar_or_empty_text).unwrap_or_default();
                map.put_plain_value("input", json!(format!("{field}?")), None);
            }
            WorkflowStepKind::Questions => self.convert_questions_step(&mut map, flow, node),
            WorkflowStepKind::Set => {
                map.put_plain_value("script", EMPTY_OUTPUT_SCRIPT, None);
                self.report_unconverted_step_keys(&mut map, node, &["value", "values", "description"]);
            }
            WorkflowStepKind::Wait => self.convert_wait_step(&mut map, node),
            WorkflowStepKind::Terminate => self.convert_terminate_step(&mut map, flow, node),
            WorkflowStepKind::Workflow => self.convert_workflow_step(&mut map, flow, node, None),
            WorkflowStepKind::Parallel => map.put_plain_value("script", EMPTY_OUTPUT_SCRIPT, None),
            WorkflowStepKind::ForEach => self.convert_for_each_step(&mut map, flow, node, models),
        }
        if stage.kind == WorkflowStepKind::Model {
            self.report_unconverted_step_keys(
                &mut map,
                node,
                &[
                    "description",
                    "prompt",
                    "system_prompt",
                    "output",
                    "retry",
                    "timeout_seconds",
                    "max_agent_iterations",
                ],
            );
        }
        let collected = flow.stages.iter().any(|group| {
            group.kind == WorkflowStepKind::Parallel
                && flow::continues_after_failure(group.node)
                && group.members.contains(&at)
        });
        if collected {
            map.put_plain_value("on_error", "continue", None);
        }
        let mut conversation = serde_json::Map::new();
        if flow.can_step_repeat(at) {
            let limits = self
                .document
                .root()
                .get("workflow")
                .and_then(|workflow| workflow.get("limits"));
            let max_iterations = limits.and_then(|limits| limits.get("max_iterations")).map(value_of);
            conversation.insert(
                "max_turns".to_owned(),
                max_iterations.unwrap_or(json!(super::DEFAULT_MAX_ITERATIONS)),
            );
            if stage.kind == WorkflowStepKind::Model {
                conversation.insert("memory".to_owned(), json!("none"));
            }
        }
        if !conversation.is_empty() {
            map.put_plain_value("conversation", Value::Object(conversation), None);
        }
        put_dependencies_of_step(&mut map, flow, at);
        map
    }

    /// Reports the keys that have no equivalent, and adds them as comments.
    fn report_unconverted_step_keys(&mut self, map: &mut DraftMap, node: &'a YamlNode, known: &[&str]) {
        for entry in list_map_entries(node) {
            let key = &*entry.key;
            let empty = value_of(&entry.value) == Value::Null || entry.value.items().is_some_and(<[_]>::is_empty);
            if KEYS_CONVERTED_ELSEWHERE.contains(&key)
                || KEYS_WITHOUT_EFFECT.contains(&key)
                || known.contains(&key)
                || empty
            {
                continue;
            }
            let (why, instead) = find_conductor_key_advice(key);
            map.put_comment(self.report_unconverted_key(entry, why, instead));
        }
    }

    /// Adds a template with the names of this language under the key `new`, or a comment if it cannot be converted.
    fn put_converted_template(
        &mut self,
        map: &mut DraftMap,
        new: &str,
        entry: &'a YamlEntry,
        flow: &WorkflowGraph<'a>,
        local: Option<&str>,
    ) {
        let text = scalar_or_empty_text(&entry.value);
        if text.contains(".errors.items()") {
            let message = "the failures of a group have no keys and cannot be read";
            let help = "for a list of items, read `error` and `key` of each of `context.GROUP.failed`";
            self.add_remark_and_warning(entry.key_span, message, help);
        }
        match jinja::convert_template_names(&text, &flow.names, local) {
            Ok(text) => map.put_plain_value(new, text, Some(entry.key_span)),
            Err(reason) => {
                let instead = "write the text with the names of this language, such as `context.AGENT.KEY`";
                map.put_comment(self.report_unconverted_key(entry, reason, instead));
            }
        }
    }

    fn convert_model_step(
        &mut self,
        map: &mut DraftMap,
        flow: &WorkflowGraph<'a>,
        node: &'a YamlNode,
        local: Option<&str>,
        models: &mut WorkflowModels<'a>,
    ) {
        let span = node.get("model").map_or(node.span, |model| model.span);
        let span = if span.start < node.span.start { node.span } else { span };
        let profile = self.find_or_add_model_profile(node, span, models);
        map.put_plain_value("model_profile", profile, None);
        for entry in list_map_entries(node) {
            match &*entry.key {
                key @ ("prompt" | "system_prompt") => self.put_converted_template(map, key, entry, flow, local),
                "output" if !list_map_entries(&entry.value).is_empty() => {
                    map.put_plain_value(
                        "output_schema",
                        schemas::convert_output_schema(&entry.value),
                        Some(entry.key_span),
                    );
                }
                "timeout_seconds" => {
                    map.put_plain_value("timeout_seconds", value_of(&entry.value), Some(entry.key_span))
                }
                "max_agent_iterations" => {
                    map.put_plain_value("max_iterations", value_of(&entry.value), Some(entry.key_span))
                }
                "retry" => map.put_plain_value("retry", convert_retry_settings(&entry.value), Some(entry.key_span)),
                _ => {}
            }
        }
        if let Some(tools) = self.convert_agent_tools(node, models) {
            map.put_plain_value("tools", tools, None);
            if let Some(max_iterations) = models
                .max_agent_iterations()
                .filter(|_| map.find_line_index("max_iterations").is_none())
            {
                map.put_plain_value("max_iterations", max_iterations, None);
            }
        }
    }

    fn convert_command_step(&mut self, map: &mut DraftMap, flow: &WorkflowGraph<'a>, node: &'a YamlNode) {
        let words = node.get("command").into_iter().chain(
            node.get("args")
                .and_then(YamlNode::items)
                .into_iter()
                .flatten()
                .map(|node| &**node),
        );
        let mut line = Vec::new();
        for word in words {
            match self.resolve_constant_word(word, flow) {
                Some(text) => line.push(quote_shell_word(&text)),
                None => {
                    let message = "the script is not converted: a part of its command is computed";
                    let help = "write a script that reads `inputs` and `dependencies` from the JSON object on its standard input";
                    self.add_remark_and_warning(word.span, message, help);
                    let from = node.get("command").map(|command| command.span);
                    self.profiles.mark_placeholder_needed();
                    map.put_plain_value("model_profile", profiles::PLACEHOLDER_PROFILE, from.filter(|_| false));
                    return;
                }
            }
        }
        map.put_plain_value("script", line.join(" "), None);
        for entry in list_map_entries(node) {
            match &*entry.key {
                "env" if !list_map_entries(&entry.value).is_empty() => {
                    map.put_plain_value("env", convert_environment_map(&entry.value), Some(entry.key_span));
                }
                "timeout" => map.put_plain_value("timeout_seconds", value_of(&entry.value), Some(entry.key_span)),
                "output" if !list_map_entries(&entry.value).is_empty() => {
                    map.put_plain_value(
                        "output_schema",
                        schemas::convert_output_schema(&entry.value),
                        Some(entry.key_span),
                    );
                }
                "retry" => map.put_plain_value("retry", convert_retry_settings(&entry.value), Some(entry.key_span)),
                _ => {}
            }
        }
        self.report_unconverted_step_keys(
            map,
            node,
            &["description", "command", "args", "env", "timeout", "output", "retry"],
        );
    }

    /// Returns a word of a command line with known names replaced. Returns `None` if the word is computed during the run.
    fn resolve_constant_word(&self, word: &YamlNode, flow: &WorkflowGraph<'a>) -> Option<String> {
        let text = scalar_or_empty_text(word);
        let mut resolved_text = text
            .replace("{{ workflow.dir }}/", "./")
            .replace("{{workflow.dir}}/", "./");
        resolved_text = resolved_text.replace("{{ workflow.name }}", &flow.names.name);
        let computed = contains_tag_start(&resolved_text);
        (!computed).then_some(resolved_text)
    }

    fn convert_gate_step(&mut self, map: &mut DraftMap, flow: &WorkflowGraph<'a>, node: &'a YamlNode) {
        let mut input = DraftMap::default();
        let options = node.get("options").and_then(YamlNode::items).unwrap_or_default();
        let prompt = list_map_entries(node).iter().find(|entry| &*entry.key == "prompt");
        match prompt {
            Some(entry) => self.put_converted_template(&mut input, "prompt", entry, flow, None),
            None => {
                let text = node
                    .get("description")
                    .map(scalar_or_empty_text)
                    .unwrap_or_else(|| "Your choice?".to_owned());
                input.put_plain_value("prompt", super::super::template_text::escape_as_template(&text), None);
            }
        }
        if input.find_line_index("prompt").is_none() {
            input.put_plain_value("prompt", "Your choice?", None);
        }
        let choices: Vec<String> = options.iter().map(|option| flow::gate_option_answer(option)).collect();
        // What the options mean is a part of the question.
        let mut legend = String::new();
        for option in options {
            let label = ["label", "description"]
                .iter()
                .find_map(|key| option.get(key))
                .map(scalar_or_empty_text);
            if let Some(label) = label.filter(|label| *label != flow::gate_option_answer(option)) {
                legend.push_str(&format!("\n- {}: {label}", flow::gate_option_answer(option)));
            }
        }
        if !legend.is_empty()
            && let Some(DraftValue::Plain(Value::String(text))) = input.get_value_mut("prompt")
        {
            *text = format!(
                "{}\n{}",
                text.trim_end(),
                super::super::template_text::escape_as_template(&legend)
            );
        }
        input.put_plain_value("choices", json!(choices), None);
        map.lines
            .push(DraftMapLine::new_entry("input", DraftValue::Map(input), None));
        self.report_unconverted_step_keys(map, node, &["prompt", "options", "description"]);
    }

    /// Converts a step with questions to an input agent that asks all questions at once.
    fn convert_questions_step(&mut self, map: &mut DraftMap, flow: &WorkflowGraph<'a>, node: &'a YamlNode) {
        let mut input = DraftMap::default();
        for entry in list_map_entries(node).iter().filter(|entry| &*entry.key == "prompt") {
            self.put_converted_template(&mut input, "prompt", entry, flow, None);
        }
        let mut lines = String::new();
        if let Some(source) = node.get("source") {
            match jinja::convert_template_names(
                &format!("{{{{ {} }}}}", scalar_or_empty_text(source)),
                &flow.names,
                None,
            ) {
                Ok(list) => {
                    let list = list.trim_start_matches("{{").trim_end_matches("}}").trim();
                    lines = format!(
                        "{{% for question in {list} %}}\n{{{{ loop.index }}}}. {{{{ question.question or question.text or question }}}}{{% if question.choices %}} ({{{{ question.choices | join(', ') }}}}){{% endif %}}{{% endfor %}}"
                    );
                }
                Err(reason) => self.add_remark_and_warning(
                    source.span,
                    &format!("the questions are not converted: {reason}"),
                    "write them in the `prompt`",
                ),
            }
        }
        for (at, question) in node
            .get("questions")
            .and_then(YamlNode::items)
            .unwrap_or_default()
            .iter()
            .enumerate()
        {
            let text = question
                .get("text")
                .map_or_else(|| scalar_or_empty_text(question), scalar_or_empty_text);
            let text = jinja::convert_template_names(&text, &flow.names, None).unwrap_or_default();
            lines.push_str(&format!("\n{}. {text}", at + 1));
            let choices = question.get("choices").and_then(YamlNode::items).unwrap_or_default();
            if !choices.is_empty() {
                let choices: Vec<String> = choices.iter().map(|choice| scalar_or_empty_text(choice)).collect();
                lines.push_str(&super::super::template_text::escape_as_template(&format!(
                    " ({})",
                    choices.join(", ")
                )));
            }
        }
        let before = match input.get_value_mut("prompt") {
            Some(DraftValue::Plain(Value::String(text))) => format!("{}\n", text.trim_end()),
            _ => String::new(),
        };
        input
            .lines
            .retain(|line| !matches!(line, DraftMapLine::Entry { key, .. } if key == "prompt"));
        input.put_plain_value("prompt", format!("{before}{}", lines.trim_start_matches('\n')), None);
        let message = "all questions are asked together, and the answers are one text";
        self.add_remark_and_warning(
            node.span,
            message,
            "write an `input` agent for each question that needs a separate answer",
        );
        map.lines
            .push(DraftMapLine::new_entry("input", DraftValue::Map(input), None));
        let known_keys = [
            "prompt",
            "source",
            "questions",
            "description",
            "allow_back",
            "allow_skip",
            "allow_skip_all",
            "allow_abort",
        ];
        self.report_unconverted_step_keys(map, node, &known_keys);
    }

    fn convert_wait_step(&mut self, map: &mut DraftMap, node: &'a YamlNode) {
        let duration = node.get("duration").map(scalar_or_empty_text).unwrap_or_default();
        match parse_duration_seconds(&duration) {
            Some(seconds) => map.put_plain_value("script", format!("sleep {seconds}"), None),
            None => {
                let message = format!("the duration `{duration}` is not known before the run");
                self.add_remark_and_warning(
                    node.get("duration").map_or(node.span, |node| node.span),
                    &message,
                    "write the seconds in the command `sleep`",
                );
                map.put_plain_value("script", "sleep 1", None);
            }
        }
        self.report_unconverted_step_keys(map, node, &["duration", "reason", "description"]);
    }

    fn convert_terminate_step(&mut self, map: &mut DraftMap, flow: &WorkflowGraph<'a>, node: &'a YamlNode) {
        let reason = node.get("reason").map(scalar_or_empty_text).unwrap_or_default();
        let resolved_reason = node
            .get("reason")
            .and_then(|reason| self.resolve_constant_word(reason, flow));
        if resolved_reason.is_none() && !reason.is_empty() {
            let span = node.get("reason").map_or(node.span, |reason| reason.span);
            self.add_remark_and_warning(
                span,
                "`reason` is not converted: it is computed during the run",
                "read the reason in the output of the step that computes it",
            );
        }
        if node.get("status").map(scalar_or_empty_text).as_deref() == Some("failed") {
            let reason = resolved_reason.unwrap_or_else(|| "the workflow ends here as failed".to_owned());
            map.put_plain_value(
                "script",
                format!("echo {} >&2; exit 1", quote_shell_word(&reason)),
                None,
            );
        } else {
            map.put_plain_value(
                "script",
                resolved_reason.map_or_else(
                    || EMPTY_OUTPUT_SCRIPT.to_owned(),
                    |reason| format!("echo {}", quote_shell_word(&reason)),
                ),
                None,
            );
        }
        self.report_unconverted_step_keys(map, node, &["status", "reason", "description"]);
    }

    fn convert_workflow_step(
        &mut self,
        map: &mut DraftMap,
        flow: &WorkflowGraph<'a>,
        node: &'a YamlNode,
        local: Option<&str>,
    ) {
        let file = node.get("workflow").map(scalar_or_empty_text).unwrap_or_default();
        if !(self.context.ensemble)(&file) {
            let span = node.get("workflow").map_or(node.span, |file| file.span);
            self.add_remark_and_warning(
                span,
                &format!("there is no ensemble `{file}`"),
                "import this ensemble into the same folder, too",
            );
        }
        map.put_plain_value("ensemble", file, None);
        let mut inputs = DraftMap::default();
        match node.get("input_mapping") {
            Some(mapping) => {
                for entry in list_map_entries(mapping) {
                    self.put_converted_template(&mut inputs, &entry.key, entry, flow, local);
                }
            }
            None => {
                let workflow = self
                    .document
                    .root()
                    .get("workflow")
                    .and_then(|workflow| workflow.get("input"));
                for entry in workflow.map_or(&[][..], list_map_entries) {
                    let value = format!(
                        "{{{{ {} }}}}",
                        super::template_names::render_member_access("inputs", &entry.key)
                    );
                    inputs.put_plain_value(&entry.key, value, None);
                }
            }
        }
        if !inputs.lines.is_empty() {
            map.lines
                .push(DraftMapLine::new_entry("inputs", DraftValue::Map(inputs), None));
        }
        self.report_unconverted_step_keys(
            map,
            node,
            &["workflow", "input_mapping", "description", "output", "max_depth"],
        );
    }

    fn convert_for_each_step(
        &mut self,
        map: &mut DraftMap,
        flow: &WorkflowGraph<'a>,
        group: &'a YamlNode,
        models: &mut WorkflowModels<'a>,
    ) {
        let spec = group.get("for_each").unwrap_or(group);
        let mut each = DraftMap::default();
        let item = spec
            .get("as")
            .map(scalar_or_empty_text)
            .filter(|item| !item.is_empty())
            .unwrap_or_else(|| "item".to_owned());
        if let Some(source) = spec.get("source") {
            match expression::convert_result_expression(&scalar_or_empty_text(source), &flow.names) {
                Ok(list) => each.put_plain_value("in", list, Some(source.span)),
                Err(reason) => {
                    let message = format!("the list of items is not converted: {reason}");
                    self.add_remark_and_warning(
                        source.span,
                        &message,
                        "write an expression that returns a list as `in`",
                    );
                    each.put_plain_value("in", json!([]), None);
                }
            }
        }
        each.put_plain_value("as", item.as_str(), None);
        if let Some(key) = group.get("key_by").or_else(|| spec.get("key_by")) {
            each.put_plain_value("key", scalar_or_empty_text(key), Some(key.span));
        }
        let max_parallel = group.get("max_concurrent").map_or(json!(10), value_of);
        each.put_plain_value("max_parallel", max_parallel, None);
        each.put_plain_value("max_items", MAX_LIST_ITEMS, None);
        if flow::continues_after_failure(group) {
            each.put_plain_value("on_error", "collect", None);
        }
        map.lines
            .push(DraftMapLine::new_entry("for_each", DraftValue::Map(each), None));
        let Some(agent) = group.get("agent") else {
            let message = "the group has no agent";
            self.add_remark_and_warning(group.span, message, "write `agent`");
            self.profiles.mark_placeholder_needed();
            return map.put_plain_value("model_profile", profiles::PLACEHOLDER_PROFILE, None);
        };
        match flow::detect_step_kind(agent) {
            WorkflowStepKind::Model => {
                self.convert_model_step(map, flow, agent, Some(&item), models);
                self.report_unconverted_step_keys(
                    map,
                    agent,
                    &[
                        "description",
                        "prompt",
                        "system_prompt",
                        "output",
                        "retry",
                        "timeout_seconds",
                        "max_agent_iterations",
                    ],
                );
            }
            WorkflowStepKind::Workflow => self.convert_workflow_step(map, flow, agent, Some(&item)),
            WorkflowStepKind::Script => self.convert_command_step(map, flow, agent),
            _ => {
                let message = "this kind of step cannot run for each item of a list";
                self.add_remark_and_warning(agent.span, message, "use a model, a script or an ensemble");
                self.profiles.mark_placeholder_needed();
                map.put_plain_value("model_profile", profiles::PLACEHOLDER_PROFILE, None);
            }
        }
    }
}

fn put_dependencies_of_step(map: &mut DraftMap, flow: &WorkflowGraph<'_>, at: usize) {
    let edges = flow.build_dependencies(at);
    if edges.is_empty() {
        return;
    }
    if edges.iter().all(|edge| edge.keys.len() == 1) {
        let names: Value = edges.into_iter().map(|edge| edge.keys["agent_name"].clone()).collect();
        return map.put_plain_value("depends_on", names, None);
    }
    let items = edges.into_iter().map(|edge| {
        let mut item = DraftMap::default();
        for (key, value) in edge.keys {
            item.put_plain_value(&key, value, None);
        }
        (DraftValue::Map(item), None)
    });
    map.lines.push(DraftMapLine::new_entry(
        "dependencies",
        DraftValue::List(items.collect()),
        None,
    ));
}

/// Returns the old name of a step for a message.
fn readable_step_name(old: &str) -> String {
    old.replace('\u{0}', " ")
}

fn convert_retry_settings(node: &YamlNode) -> Value {
    let mut retry = serde_json::Map::new();
    for (key, default) in [("max_attempts", json!(1)), ("delay_seconds", json!(2))] {
        retry.insert(key.to_owned(), node.get(key).map_or(default, value_of));
    }
    if node.get("backoff").map(scalar_or_empty_text).as_deref() == Some("fixed") {
        retry.insert("backoff".to_owned(), json!("constant"));
    }
    Value::Object(retry)
}

/// Parses `500ms`, `60s`, `2.5m`, `1h` or a number of seconds, up to one day.
fn parse_duration_seconds(text: &str) -> Option<f64> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)];
    let (number, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((text.trim().strip_suffix(unit)?, factor)))?;
    let number: f64 = number.trim().parse().ok()?;
    let seconds = number * factor;
    (seconds.is_finite() && seconds > 0.0 && seconds <= 86_400.0).then_some(seconds)
}

/// Quotes a word for a shell if necessary.
fn quote_shell_word(word: &str) -> String {
    let safe =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | '=' | '@' | '%' | '+' | ',');
    if !word.is_empty() && word.chars().all(safe) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
