//! The steps of a workflow as agents.

use serde_json::{Value, json};

use super::super::draft::{Line, Map, Shape};
use super::super::values::{json as value_of, text_of};
use super::super::{Task, entries, profiles};
use super::flow::{self, Flow, Kind, Stage};
use super::models::{Models, environment};
use super::{SILENT, advice, expression, jinja, schemas};
use ensemble_language::loader::document::{Entry, Node};
use ensemble_language::source::Span;
use ensemble_language::template::has_marks;

/// A step that does nothing but be a step: its output is an empty map.
const NOTHING: &str = "echo '{}'";
/// The most items of a list; Conductor has no limit.
const ITEMS: u64 = 1000;

/// Keys that are read elsewhere, of all steps.
const READ: [&str; 9] = [
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

impl<'a> Task<'a> {
    /// All steps that the workflow can reach.
    pub(super) fn steps(&mut self, flow: &Flow<'a>, models: &mut Models<'a>) -> Vec<(Shape, Option<Span>)> {
        let mut agents = Vec::new();
        for (at, stage) in flow.stages.iter().enumerate() {
            if !flow.is_reached(at) {
                let span = stage.node.get("name").map_or(stage.node.span, |name| name.span);
                let message = format!("the step `{}` is left out: no route leads to it", shown(&stage.old));
                self.note(
                    span,
                    &message,
                    "write an agent for it, and a dependency on the one before it",
                );
                continue;
            }
            if stage.dissolved {
                continue;
            }
            let map = self.step(flow, at, stage, models);
            agents.push((Shape::Map(map), Some(stage.node.span)));
        }
        agents
    }

    fn step(&mut self, flow: &Flow<'a>, at: usize, stage: &Stage<'a>, models: &mut Models<'a>) -> Map {
        let node = stage.node;
        let mut map = Map::default();
        let name = node.get("name").map(|name| name.span);
        map.put("name", stage.new.as_str(), name);
        if let Some(text) = node
            .get("description")
            .filter(|_| stage.kind != Kind::Asked)
            .map(text_of)
        {
            map.put("description", text.trim_end(), None);
        }
        match stage.kind {
            Kind::Model => self.model_step(&mut map, flow, node, None, models),
            Kind::Script => self.script_step(&mut map, flow, node),
            Kind::Gate => self.gate(&mut map, flow, node),
            Kind::Asked => {
                let field = node.get("prompt_for").map(text_of).unwrap_or_default();
                map.put("input", json!(format!("{field}?")), None);
            }
            Kind::Questions => self.questions(&mut map, flow, node),
            Kind::Set => {
                map.put("script", NOTHING, None);
                self.rest(&mut map, node, &["value", "values", "description"]);
            }
            Kind::Wait => self.wait(&mut map, node),
            Kind::Terminate => self.end(&mut map, flow, node),
            Kind::Workflow => self.inner(&mut map, flow, node, None),
            Kind::Parallel => map.put("script", NOTHING, None),
            Kind::Each => self.each(&mut map, flow, node, models),
        }
        if stage.kind == Kind::Model {
            self.rest(
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
        let collected = flow
            .stages
            .iter()
            .any(|group| group.kind == Kind::Parallel && flow::collects(group.node) && group.members.contains(&at));
        if collected {
            map.put("on_error", "continue", None);
        }
        let mut conversation = serde_json::Map::new();
        if flow.repeats(at) {
            let limits = self
                .document
                .root()
                .get("workflow")
                .and_then(|workflow| workflow.get("limits"));
            let most = limits.and_then(|limits| limits.get("max_iterations")).map(value_of);
            conversation.insert("max_turns".to_owned(), most.unwrap_or(json!(super::ITERATIONS)));
            if stage.kind == Kind::Model {
                conversation.insert("memory".to_owned(), json!("none"));
            }
        }
        if !conversation.is_empty() {
            map.put("conversation", Value::Object(conversation), None);
        }
        dependencies(&mut map, flow, at);
        map
    }

    /// Keys without an equivalent.
    fn rest(&mut self, map: &mut Map, node: &'a Node, known: &[&str]) {
        for entry in entries(node) {
            let key = &*entry.key;
            let empty = value_of(&entry.value) == Value::Null || entry.value.items().is_some_and(<[_]>::is_empty);
            if READ.contains(&key) || SILENT.contains(&key) || known.contains(&key) || empty {
                continue;
            }
            let (why, instead) = advice(key);
            map.lose(self.lose(entry, why, instead));
        }
    }

    /// A template with the names of this language, or a comment.
    fn template(&mut self, map: &mut Map, new: &str, entry: &'a Entry, flow: &Flow<'a>, local: Option<&str>) {
        let text = text_of(&entry.value);
        if text.contains(".errors.items()") {
            let message = "the failures of a group are not read here: they have no keys";
            let help = "for a list of items, read `error` and `key` of each of `context.GROUP.failed`";
            self.note(entry.key_span, message, help);
        }
        match jinja::renamed(&text, &flow.names, local) {
            Ok(text) => map.put(new, text, Some(entry.key_span)),
            Err(why) => {
                let instead = "write the text with the names of this language, such as `context.AGENT.KEY`";
                map.lose(self.lose(entry, why, instead));
            }
        }
    }

    fn model_step(
        &mut self,
        map: &mut Map,
        flow: &Flow<'a>,
        node: &'a Node,
        local: Option<&str>,
        models: &mut Models<'a>,
    ) {
        let span = node.get("model").map_or(node.span, |model| model.span);
        let span = if span.start < node.span.start { node.span } else { span };
        let profile = self.conductor_profile(node, span, models);
        map.put("model_profile", profile, None);
        for entry in entries(node) {
            match &*entry.key {
                key @ ("prompt" | "system_prompt") => self.template(map, key, entry, flow, local),
                "output" if !entries(&entry.value).is_empty() => {
                    map.put("output_schema", schemas::output(&entry.value), Some(entry.key_span));
                }
                "timeout_seconds" => map.put("timeout_seconds", value_of(&entry.value), Some(entry.key_span)),
                "max_agent_iterations" => map.put("max_iterations", value_of(&entry.value), Some(entry.key_span)),
                "retry" => map.put("retry", retry(&entry.value), Some(entry.key_span)),
                _ => {}
            }
        }
        if let Some(tools) = self.conductor_tools(node, models) {
            map.put("tools", tools, None);
            if let Some(most) = models.iterations().filter(|_| map.position("max_iterations").is_none()) {
                map.put("max_iterations", most, None);
            }
        }
    }

    fn script_step(&mut self, map: &mut Map, flow: &Flow<'a>, node: &'a Node) {
        let words = node.get("command").into_iter().chain(
            node.get("args")
                .and_then(Node::items)
                .into_iter()
                .flatten()
                .map(|node| &**node),
        );
        let mut line = Vec::new();
        for word in words {
            match self.word(word, flow) {
                Some(text) => line.push(quote(&text)),
                None => {
                    let message = "the script is not converted: a part of its command is computed";
                    let help = "write a script that reads `inputs` and `dependencies` from the JSON object on its standard input";
                    self.note(word.span, message, help);
                    let from = node.get("command").map(|command| command.span);
                    self.profiles.need_placeholder();
                    map.put("model_profile", profiles::PLACEHOLDER, from.filter(|_| false));
                    return;
                }
            }
        }
        map.put("script", line.join(" "), None);
        for entry in entries(node) {
            match &*entry.key {
                "env" if !entries(&entry.value).is_empty() => {
                    map.put("env", environment(&entry.value), Some(entry.key_span));
                }
                "timeout" => map.put("timeout_seconds", value_of(&entry.value), Some(entry.key_span)),
                "output" if !entries(&entry.value).is_empty() => {
                    map.put("output_schema", schemas::output(&entry.value), Some(entry.key_span));
                }
                "retry" => map.put("retry", retry(&entry.value), Some(entry.key_span)),
                _ => {}
            }
        }
        self.rest(
            map,
            node,
            &["description", "command", "args", "env", "timeout", "output", "retry"],
        );
    }

    /// A word of a command line that is known before the run.
    fn word(&self, word: &Node, flow: &Flow<'a>) -> Option<String> {
        let text = text_of(word);
        let mut known = text
            .replace("{{ workflow.dir }}/", "./")
            .replace("{{workflow.dir}}/", "./");
        known = known.replace("{{ workflow.name }}", &flow.names.name);
        let computed = has_marks(&known);
        (!computed).then_some(known)
    }

    fn gate(&mut self, map: &mut Map, flow: &Flow<'a>, node: &'a Node) {
        let mut input = Map::default();
        let options = node.get("options").and_then(Node::items).unwrap_or_default();
        let prompt = entries(node).iter().find(|entry| &*entry.key == "prompt");
        match prompt {
            Some(entry) => self.template(&mut input, "prompt", entry, flow, None),
            None => {
                let text = node
                    .get("description")
                    .map(text_of)
                    .unwrap_or_else(|| "Your choice?".to_owned());
                input.put("prompt", super::super::text::literal(&text), None);
            }
        }
        if input.position("prompt").is_none() {
            input.put("prompt", "Your choice?", None);
        }
        let choices: Vec<String> = options.iter().map(|option| flow::choice(option)).collect();
        // What the options mean is a part of the question.
        let mut legend = String::new();
        for option in options {
            let label = ["label", "description"]
                .iter()
                .find_map(|key| option.get(key))
                .map(text_of);
            if let Some(label) = label.filter(|label| *label != flow::choice(option)) {
                legend.push_str(&format!("\n- {}: {label}", flow::choice(option)));
            }
        }
        if !legend.is_empty()
            && let Some(Shape::Plain(Value::String(text))) = input.get_mut("prompt")
        {
            *text = format!("{}\n{}", text.trim_end(), super::super::text::literal(&legend));
        }
        input.put("choices", json!(choices), None);
        map.lines.push(Line::entry("input", Shape::Map(input), None));
        self.rest(map, node, &["prompt", "options", "description"]);
    }

    /// All questions are asked at once.
    fn questions(&mut self, map: &mut Map, flow: &Flow<'a>, node: &'a Node) {
        let mut input = Map::default();
        for entry in entries(node).iter().filter(|entry| &*entry.key == "prompt") {
            self.template(&mut input, "prompt", entry, flow, None);
        }
        let mut lines = String::new();
        if let Some(source) = node.get("source") {
            match jinja::renamed(&format!("{{{{ {} }}}}", text_of(source)), &flow.names, None) {
                Ok(list) => {
                    let list = list.trim_start_matches("{{").trim_end_matches("}}").trim();
                    lines = format!(
                        "{{% for question in {list} %}}\n{{{{ loop.index }}}}. {{{{ question.question or question.text or question }}}}{{% if question.choices %}} ({{{{ question.choices | join(', ') }}}}){{% endif %}}{{% endfor %}}"
                    );
                }
                Err(why) => self.note(
                    source.span,
                    &format!("the questions are not converted: {why}"),
                    "write them in the `prompt`",
                ),
            }
        }
        for (at, question) in node
            .get("questions")
            .and_then(Node::items)
            .unwrap_or_default()
            .iter()
            .enumerate()
        {
            let text = question.get("text").map_or_else(|| text_of(question), text_of);
            let text = jinja::renamed(&text, &flow.names, None).unwrap_or_default();
            lines.push_str(&format!("\n{}. {text}", at + 1));
            let choices = question.get("choices").and_then(Node::items).unwrap_or_default();
            if !choices.is_empty() {
                let choices: Vec<String> = choices.iter().map(|choice| text_of(choice)).collect();
                lines.push_str(&super::super::text::literal(&format!(" ({})", choices.join(", "))));
            }
        }
        let before = match input.get_mut("prompt") {
            Some(Shape::Plain(Value::String(text))) => format!("{}\n", text.trim_end()),
            _ => String::new(),
        };
        input
            .lines
            .retain(|line| !matches!(line, Line::Entry { key, .. } if key == "prompt"));
        input.put("prompt", format!("{before}{}", lines.trim_start_matches('\n')), None);
        let message = "all questions are asked at once, and the answers are one text";
        self.note(
            node.span,
            message,
            "write an `input` agent for each question that needs an answer of its own",
        );
        map.lines.push(Line::entry("input", Shape::Map(input), None));
        let known = [
            "prompt",
            "source",
            "questions",
            "description",
            "allow_back",
            "allow_skip",
            "allow_skip_all",
            "allow_abort",
        ];
        self.rest(map, node, &known);
    }

    fn wait(&mut self, map: &mut Map, node: &'a Node) {
        let duration = node.get("duration").map(text_of).unwrap_or_default();
        match seconds(&duration) {
            Some(seconds) => map.put("script", format!("sleep {seconds}"), None),
            None => {
                let message = format!("the duration `{duration}` is not known before the run");
                self.note(
                    node.get("duration").map_or(node.span, |node| node.span),
                    &message,
                    "write the seconds in the command `sleep`",
                );
                map.put("script", "sleep 1", None);
            }
        }
        self.rest(map, node, &["duration", "reason", "description"]);
    }

    fn end(&mut self, map: &mut Map, flow: &Flow<'a>, node: &'a Node) {
        let reason = node.get("reason").map(text_of).unwrap_or_default();
        let known = node.get("reason").and_then(|reason| self.word(reason, flow));
        if known.is_none() && !reason.is_empty() {
            let span = node.get("reason").map_or(node.span, |reason| reason.span);
            self.note(
                span,
                "the reason of the end is not converted: it is computed",
                "read it in the output of the step that knows it",
            );
        }
        if node.get("status").map(text_of).as_deref() == Some("failed") {
            let reason = known.unwrap_or_else(|| "the workflow ends here as failed".to_owned());
            map.put("script", format!("echo {} >&2; exit 1", quote(&reason)), None);
        } else {
            map.put(
                "script",
                known.map_or_else(|| NOTHING.to_owned(), |reason| format!("echo {}", quote(&reason))),
                None,
            );
        }
        self.rest(map, node, &["status", "reason", "description"]);
    }

    fn inner(&mut self, map: &mut Map, flow: &Flow<'a>, node: &'a Node, local: Option<&str>) {
        let file = node.get("workflow").map(text_of).unwrap_or_default();
        if !(self.beside.ensemble)(&file) {
            let span = node.get("workflow").map_or(node.span, |file| file.span);
            self.note(
                span,
                &format!("the ensemble `{file}` is not here"),
                "import it as well, into the same folder",
            );
        }
        map.put("ensemble", file, None);
        let mut inputs = Map::default();
        match node.get("input_mapping") {
            Some(mapping) => {
                for entry in entries(mapping) {
                    self.template(&mut inputs, &entry.key, entry, flow, local);
                }
            }
            None => {
                let own = self
                    .document
                    .root()
                    .get("workflow")
                    .and_then(|workflow| workflow.get("input"));
                for entry in own.map_or(&[][..], entries) {
                    let value = format!("{{{{ {} }}}}", super::names::member("inputs", &entry.key));
                    inputs.put(&entry.key, value, None);
                }
            }
        }
        if !inputs.lines.is_empty() {
            map.lines.push(Line::entry("inputs", Shape::Map(inputs), None));
        }
        self.rest(
            map,
            node,
            &["workflow", "input_mapping", "description", "output", "max_depth"],
        );
    }

    fn each(&mut self, map: &mut Map, flow: &Flow<'a>, group: &'a Node, models: &mut Models<'a>) {
        let spec = group.get("for_each").unwrap_or(group);
        let mut each = Map::default();
        let item = spec
            .get("as")
            .map(text_of)
            .filter(|item| !item.is_empty())
            .unwrap_or_else(|| "item".to_owned());
        if let Some(source) = spec.get("source") {
            match expression::result(&text_of(source), &flow.names) {
                Ok(list) => each.put("in", list, Some(source.span)),
                Err(why) => {
                    let message = format!("the list of items is not converted: {why}");
                    self.note(source.span, &message, "write an expression that gives a list as `in`");
                    each.put("in", json!([]), None);
                }
            }
        }
        each.put("as", item.as_str(), None);
        if let Some(key) = group.get("key_by").or_else(|| spec.get("key_by")) {
            each.put("key", text_of(key), Some(key.span));
        }
        let most = group.get("max_concurrent").map_or(json!(10), value_of);
        each.put("max_parallel", most, None);
        each.put("max_items", ITEMS, None);
        if flow::collects(group) {
            each.put("on_error", "collect", None);
        }
        map.lines.push(Line::entry("for_each", Shape::Map(each), None));
        let Some(agent) = group.get("agent") else {
            let message = "the group has no agent";
            self.note(group.span, message, "write `agent`");
            self.profiles.need_placeholder();
            return map.put("model_profile", profiles::PLACEHOLDER, None);
        };
        match flow::kind(agent) {
            Kind::Model => {
                self.model_step(map, flow, agent, Some(&item), models);
                self.rest(
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
            Kind::Workflow => self.inner(map, flow, agent, Some(&item)),
            Kind::Script => self.script_step(map, flow, agent),
            _ => {
                let message = "this kind of step does not run for each item here";
                self.note(agent.span, message, "write a model, a script or an ensemble");
                self.profiles.need_placeholder();
                map.put("model_profile", profiles::PLACEHOLDER, None);
            }
        }
    }
}

fn dependencies(map: &mut Map, flow: &Flow<'_>, at: usize) {
    let edges = flow.dependencies(at);
    if edges.is_empty() {
        return;
    }
    if edges.iter().all(|edge| edge.keys.len() == 1) {
        let names: Value = edges.into_iter().map(|edge| edge.keys["agent_name"].clone()).collect();
        return map.put("depends_on", names, None);
    }
    let items = edges.into_iter().map(|edge| {
        let mut item = Map::default();
        for (key, value) in edge.keys {
            item.put(&key, value, None);
        }
        (Shape::Map(item), None)
    });
    map.lines
        .push(Line::entry("dependencies", Shape::List(items.collect()), None));
}

/// The name of a step in a message.
fn shown(old: &str) -> String {
    old.replace('\u{0}', " ")
}

fn retry(node: &Node) -> Value {
    let mut retry = serde_json::Map::new();
    for (key, default) in [("max_attempts", json!(1)), ("delay_seconds", json!(2))] {
        retry.insert(key.to_owned(), node.get(key).map_or(default, value_of));
    }
    if node.get("backoff").map(text_of).as_deref() == Some("fixed") {
        retry.insert("backoff".to_owned(), json!("constant"));
    }
    Value::Object(retry)
}

/// `500ms`, `60s`, `2.5m`, `1h` or a number of seconds.
fn seconds(text: &str) -> Option<f64> {
    let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)];
    let (number, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((text.trim().strip_suffix(unit)?, factor)))?;
    let number: f64 = number.trim().parse().ok()?;
    let seconds = number * factor;
    (seconds.is_finite() && seconds > 0.0 && seconds <= 86_400.0).then_some(seconds)
}

/// A word for a shell.
fn quote(word: &str) -> String {
    let safe =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | '=' | '@' | '%' | '+' | ',');
    if !word.is_empty() && word.chars().all(safe) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
