//! The order of the steps: from the routes of each step to the dependencies of the others.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Value, json};

use super::super::values::scalar_or_empty_text;
use super::super::{ImportTask, agent_names as old_names, find_key_span, list_map_entries};
use super::template_names::{StepOutputForm, TemplateStep, WorkflowTemplateNames, quote_string_literal};
use super::{EXIT_CODE_EXPRESSION, expression, jinja};
use ensemble_language::loader::document::YamlNode;
use ensemble_language::plan::graph_walks::find_reachable;

/// The kind of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkflowStepKind {
    Model,
    Script,
    Gate,
    Questions,
    Set,
    Wait,
    Terminate,
    Workflow,
    Parallel,
    ForEach,
    /// The text that an option of a gate asks for.
    OptionField,
}

/// Step of a workflow, with its old and new name and its routes.
pub(super) struct WorkflowStep<'a> {
    pub(super) old: String,
    pub(super) new: String,
    pub(super) kind: WorkflowStepKind,
    pub(super) node: &'a YamlNode,
    /// The steps of a parallel group.
    pub(super) members: Vec<usize>,
    exits: Vec<ConvertedRoute>,
    /// Whether the steps after a group depend on its members, so that the group itself is no agent.
    pub(super) is_dissolved: bool,
}

/// Route to another step, with the converted condition.
#[derive(Debug, Clone)]
struct ConvertedRoute {
    to: usize,
    on: &'static str,
    condition: Option<String>,
}

/// Keys of a dependency of a converted step.
pub(super) struct StepDependencyKeys {
    pub(super) keys: serde_json::Map<String, Value>,
}

/// Steps of a workflow and the routes between them.
pub(super) struct WorkflowGraph<'a> {
    pub(super) stages: Vec<WorkflowStep<'a>>,
    pub(super) names: WorkflowTemplateNames,
    entry: Option<usize>,
    reached_steps: HashSet<usize>,
    repeating_steps: HashSet<usize>,
}

impl<'a> WorkflowGraph<'a> {
    /// Builds the graph from the file, converts the routes, and computes which steps are reached and which repeat.
    pub(super) fn build_from_workflow(task: &mut ImportTask<'a>, root: &'a YamlNode) -> Self {
        let mut flow = Self {
            stages: collect_workflow_steps(root),
            names: WorkflowTemplateNames::default(),
            entry: None,
            reached_steps: HashSet::new(),
            repeating_steps: HashSet::new(),
        };
        let workflow = root.get("workflow");
        let text = |key: &str| {
            workflow
                .and_then(|node| node.get(key))
                .map(scalar_or_empty_text)
                .unwrap_or_default()
        };
        flow.names.name = text("name");
        flow.names.description = text("description");
        for stage in &flow.stages {
            let step = TemplateStep {
                new: stage.new.clone(),
                reads: detect_output_form(stage, &flow.stages),
            };
            flow.names.steps.entry(stage.old.clone()).or_insert(step);
        }
        for at in 0..flow.stages.len() {
            let exits = flow.convert_routes(task, at);
            flow.stages[at].exits = exits;
        }
        let start = text("entry_point");
        flow.entry = flow.find_step_index(&start);
        if flow.entry.is_none() {
            let span = workflow.map_or(root.span, |node| {
                find_key_span(list_map_entries(node), "entry_point").unwrap_or(node.span)
            });
            let message = format!("there is no first step `{start}`");
            task.add_remark_and_warning(
                span,
                &message,
                "write the name of a step as `entry_point`; until then, the first step of the file is used",
            );
            flow.entry = (!flow.stages.is_empty()).then_some(0);
        }
        flow.reached_steps =
            flow.list_reachable_steps(flow.entry.map(|entry| flow.list_entry_steps(entry)).unwrap_or_default());
        flow.repeating_steps = (0..flow.stages.len())
            .filter(|at| flow.list_reachable_steps(flow.list_next_steps(*at)).contains(at))
            .collect();
        for at in 0..flow.stages.len() {
            flow.stages[at].is_dissolved = flow.can_dissolve_group(at);
        }
        flow
    }

    /// Returns the index of the step with this old name.
    fn find_step_index(&self, old: &str) -> Option<usize> {
        self.stages.iter().position(|stage| stage.old == old)
    }

    /// Returns whether a route leads to the step at this index.
    pub(super) fn is_step_reached(&self, at: usize) -> bool {
        self.reached_steps.contains(&at)
    }

    /// Returns whether the step can run again after itself.
    pub(super) fn can_step_repeat(&self, at: usize) -> bool {
        self.repeating_steps.contains(&at)
    }

    /// Returns the steps that can follow the step. Members of a group follow a route to the group, and the group follows its members.
    fn list_next_steps(&self, at: usize) -> Vec<usize> {
        let mut next: Vec<usize> = self.stages[at]
            .exits
            .iter()
            .flat_map(|exit| self.list_entry_steps(exit.to))
            .collect();
        for (group, stage) in self.stages.iter().enumerate() {
            if stage.members.contains(&at) {
                next.push(group);
            }
        }
        next
    }

    /// Returns the steps that run first for a route to this step: the members of a group, or the step itself.
    fn list_entry_steps(&self, at: usize) -> Vec<usize> {
        let members = &self.stages[at].members;
        if members.is_empty() { vec![at] } else { members.clone() }
    }

    /// Returns these steps and all steps that can follow them.
    fn list_reachable_steps(&self, steps: Vec<usize>) -> HashSet<usize> {
        find_reachable(self.stages.len(), steps, |at| self.list_next_steps(at))
            .ones()
            .collect()
    }

    /// Returns whether the group needs no agent: a single step follows the group without a condition, and follows nothing else.
    fn can_dissolve_group(&self, at: usize) -> bool {
        let stage = &self.stages[at];
        if stage.kind != WorkflowStepKind::Parallel || stage.members.is_empty() || continues_after_failure(stage.node) {
            return false;
        }
        match &stage.exits[..] {
            [] => true,
            [only] => {
                let target = &self.stages[only.to];
                let before = self.stages.iter().flat_map(|stage| &stage.exits);
                only.condition.is_none()
                    && target.kind != WorkflowStepKind::Parallel
                    && self.entry != Some(only.to)
                    && before.filter(|exit| exit.to == only.to).count() == 1
                    && !self.stages.iter().any(|stage| stage.members.contains(&only.to))
            }
            _ => false,
        }
    }

    /// Converts the routes of a step. The condition of a route includes the negated conditions of earlier routes.
    fn convert_routes(&mut self, task: &mut ImportTask<'a>, at: usize) -> Vec<ConvertedRoute> {
        let stage = &self.stages[at];
        let (old, kind, node) = (stage.old.clone(), stage.kind, stage.node);
        let mut exits = Vec::new();
        if kind == WorkflowStepKind::Gate {
            for option in node.get("options").and_then(YamlNode::items).unwrap_or_default() {
                let choice = gate_option_answer(option);
                let condition = format!("output.response == {}", quote_string_literal(&choice));
                let Some(route) = option.get("route") else { continue };
                let prompt_field = option.get("prompt_for").map(scalar_or_empty_text);
                let prompt_field = prompt_field.and_then(|field| self.find_step_index(&format!("{old}\u{0}{field}")));
                let to = prompt_field.or_else(|| self.resolve_route_target(task, route));
                if let (Some(prompt_field), Some(to)) = (prompt_field, self.find_target_step(route)) {
                    // Several options may ask for the same field: then the choice decides where the answer leads.
                    let is_shared = count_gate_options_with_field(
                        node,
                        option.get("prompt_for").map(scalar_or_empty_text).as_deref(),
                    ) > 1;
                    let gate = quote_string_literal(&self.stages[at].new);
                    self.stages[prompt_field].exits.push(ConvertedRoute {
                        to,
                        on: "success",
                        condition: is_shared
                            .then(|| format!("outputs[{gate}].response == {}", quote_string_literal(&choice))),
                    });
                }
                exits.extend(to.map(|to| ConvertedRoute {
                    to,
                    on: "success",
                    condition: Some(condition),
                }));
            }
        }
        if kind == WorkflowStepKind::OptionField {
            return self.stages[at].exits.clone();
        }
        let declared = matches!(
            self.names.steps.get(&old).map(|step| &step.reads),
            Some(StepOutputForm::Script { declared: true })
        );
        let always = if kind == WorkflowStepKind::Script && !declared {
            "any"
        } else {
            "success"
        };
        let mut before: Vec<String> = Vec::new();
        let mut reads_others = false;
        for route in node.get("routes").and_then(YamlNode::items).unwrap_or_default() {
            if route.get("output").is_some() {
                let help = "write the values in the steps that read them";
                task.add_remark_and_warning(
                    route.span,
                    "`output` of a route is not converted: a route cannot pass values",
                    help,
                );
            }
            let when = route
                .get("when")
                .filter(|when| !scalar_or_empty_text(when).trim().is_empty());
            let own_condition = match when.map(|when| {
                (
                    when,
                    expression::convert_route_condition(&scalar_or_empty_text(when), &self.names, &old),
                )
            }) {
                None => None,
                Some((_, Ok(converted))) => {
                    reads_others |= converted.reads_others;
                    Some(converted.text)
                }
                Some((when, Err(reason))) => {
                    let message = format!("the condition of this route is not converted: {reason}");
                    let help = "the route is never taken: write a `condition` at the dependency, and exclude it in the conditions of the other routes";
                    task.add_remark_and_warning(when.span, &message, help);
                    if let Some(to) = self.resolve_route_target(task, route.get("to").unwrap_or(route)) {
                        let condition = Some("False".to_owned());
                        exits.push(ConvertedRoute {
                            to,
                            on: always,
                            condition,
                        });
                    }
                    continue;
                }
            };
            let to = route.get("to").and_then(|to| self.resolve_route_target(task, to));
            let (on, condition) = combine_route_conditions(&before, own_condition.as_deref(), always);
            let condition = match condition {
                Some(text) if reads_others => Some(format!(
                    "history[-1].agent_name == {} and ({text})",
                    quote_string_literal(&self.stages[at].new)
                )),
                other => other,
            };
            if let Some(to) = to {
                exits.push(ConvertedRoute { to, on, condition });
            }
            match own_condition {
                Some(own_condition) => before.push(own_condition),
                None => break,
            }
        }
        exits
    }

    /// Returns the step that the value of a route names. Returns `None` for the end and for unknown names.
    fn find_target_step(&self, node: &YamlNode) -> Option<usize> {
        self.find_step_index(&scalar_or_empty_text(node))
    }

    /// Returns the step that a route names. Returns `None` for the end. Reports an unknown name.
    fn resolve_route_target(&self, task: &mut ImportTask<'a>, node: &'a YamlNode) -> Option<usize> {
        let name = scalar_or_empty_text(node);
        let target = self.find_step_index(&name);
        if target.is_none() && name != "$end" {
            let message = format!("there is no step `{name}`");
            task.add_remark_and_warning(node.span, &message, "leave the route out, or add the step");
        }
        target
    }

    /// Builds the dependencies of the agent for the step from the routes to the step.
    pub(super) fn build_dependencies(&self, at: usize) -> Vec<StepDependencyKeys> {
        let mut targets: BTreeSet<usize> = [at].into();
        for (group, stage) in self.stages.iter().enumerate() {
            if stage.members.contains(&at) {
                targets.insert(group);
            }
        }
        let is_first = self.entry.is_some_and(|entry| targets.contains(&entry));
        let mut edges: Vec<StepDependencyKeys> = Vec::new();
        // A group that is an agent comes after its members.
        if self.stages[at].kind == WorkflowStepKind::Parallel {
            let collects = continues_after_failure(self.stages[at].node);
            return self.stages[at]
                .members
                .iter()
                .map(|member| {
                    build_dependency(
                        &self.stages[*member].new,
                        if collects { "any" } else { "success" },
                        None,
                    )
                })
                .collect();
        }
        let mut count = 0;
        for (source, stage) in self.stages.iter().enumerate() {
            if !self.is_step_reached(source) {
                continue;
            }
            for exit in stage.exits.iter().filter(|exit| targets.contains(&exit.to)) {
                if stage.is_dissolved {
                    let members = stage.members.iter();
                    edges.extend(members.map(|member| build_dependency(&self.stages[*member].new, "success", None)));
                    count += 1;
                    continue;
                }
                count += 1;
                edges.push(build_dependency(&stage.new, exit.on, exit.condition.as_deref()));
            }
        }
        for edge in &mut edges {
            if count > 1 {
                edge.keys.insert("requires_all".to_owned(), json!(false));
            }
            if is_first {
                edge.keys.insert("feedback".to_owned(), json!(true));
            }
        }
        edges
    }
}

/// Builds the keys of a dependency on the agent `name`.
fn build_dependency(name: &str, on: &str, condition: Option<&str>) -> StepDependencyKeys {
    let mut keys = serde_json::Map::new();
    keys.insert("agent_name".to_owned(), json!(name));
    if on != "success" {
        keys.insert("on".to_owned(), json!(on));
    }
    if let Some(condition) = condition {
        keys.insert("condition".to_owned(), json!(condition));
    }
    StepDependencyKeys { keys }
}

/// Returns `on` and the condition of a route: not the earlier conditions, and its own condition.
/// Conditions about the exit code alone become `success` or `failure`.
fn combine_route_conditions(
    before: &[String],
    own: Option<&str>,
    always: &'static str,
) -> (&'static str, Option<String>) {
    let (zero, other) = (
        format!("{EXIT_CODE_EXPRESSION} == 0"),
        format!("{EXIT_CODE_EXPRESSION} != 0"),
    );
    match (before, own) {
        ([], Some(condition)) if condition == zero => return ("success", None),
        ([], Some(condition)) if condition == other => return ("failure", None),
        ([one], None) if *one == zero => return ("failure", None),
        ([one], None) if *one == other => return ("success", None),
        _ => {}
    }
    let mut parts: Vec<String> = before.iter().map(|one| format!("not ({one})")).collect();
    match own {
        Some(condition) if parts.is_empty() => parts.push(condition.to_owned()),
        Some(condition) => parts.push(format!("({condition})")),
        None => {}
    }
    (always, (!parts.is_empty()).then(|| parts.join(" and ")))
}

/// Returns the answer of an operator for this option of a gate.
pub(super) fn gate_option_answer(option: &YamlNode) -> String {
    let choice_node = ["value", "name", "label"].iter().find_map(|key| option.get(key));
    choice_node.map(scalar_or_empty_text).unwrap_or_default()
}

/// Returns whether the group continues after a failed part.
pub(super) fn continues_after_failure(node: &YamlNode) -> bool {
    node.get("failure_mode")
        .is_some_and(|node| scalar_or_empty_text(node) == "continue_on_error")
}

/// Collects the steps of the workflow with unique new names: agents, groups, list steps, and fields of gate options.
fn collect_workflow_steps(root: &YamlNode) -> Vec<WorkflowStep<'_>> {
    let mut stages: Vec<WorkflowStep<'_>> = Vec::new();
    let list = |key: &str| root.get(key).and_then(YamlNode::items).unwrap_or_default();
    let mut add = |old: String, kind: WorkflowStepKind, node| {
        let wanted_name = old_names::sanitize_name(&old.replace('\u{0}', "-"), &format!("step-{}", stages.len() + 1));
        let is_taken = |name: &str| stages.iter().any(|stage: &WorkflowStep<'_>| stage.new == name);
        let new = (1..)
            .map(|number| {
                if number == 1 {
                    wanted_name.clone()
                } else {
                    format!("{wanted_name}-{number}")
                }
            })
            .find(|name| !is_taken(name))
            .unwrap_or_else(|| wanted_name.clone());
        stages.push(WorkflowStep {
            old,
            new,
            kind,
            node,
            members: Vec::new(),
            exits: Vec::new(),
            is_dissolved: false,
        });
    };
    for node in list("agents") {
        let old = node.get("name").map(scalar_or_empty_text).unwrap_or_default();
        let kind = detect_step_kind(node);
        add(old.clone(), kind, node);
        if kind == WorkflowStepKind::Gate {
            let mut fields = Vec::new();
            for option in node.get("options").and_then(YamlNode::items).unwrap_or_default() {
                let field = option
                    .get("prompt_for")
                    .map(scalar_or_empty_text)
                    .filter(|field| !field.is_empty());
                // Options that ask for the same field share the step that asks.
                if let Some(field) = field.filter(|field| !fields.contains(field)) {
                    add(format!("{old}\u{0}{field}"), WorkflowStepKind::OptionField, option);
                    fields.push(field);
                }
            }
        }
    }
    for node in list("for_each") {
        add(
            node.get("name").map(scalar_or_empty_text).unwrap_or_default(),
            WorkflowStepKind::ForEach,
            node,
        );
    }
    for node in list("parallel") {
        let kind = if node.get("for_each").is_some() || node.get("source").is_some() {
            WorkflowStepKind::ForEach
        } else {
            WorkflowStepKind::Parallel
        };
        add(
            node.get("name").map(scalar_or_empty_text).unwrap_or_default(),
            kind,
            node,
        );
    }
    let positions: HashMap<String, usize> = stages
        .iter()
        .enumerate()
        .rev()
        .map(|(at, stage)| (stage.old.clone(), at))
        .collect();
    for stage in stages
        .iter_mut()
        .filter(|stage| stage.kind == WorkflowStepKind::Parallel)
    {
        let names = stage.node.get("agents").and_then(YamlNode::items).unwrap_or_default();
        stage.members = names
            .iter()
            .filter_map(|name| positions.get(&scalar_or_empty_text(name)).copied())
            .collect();
    }
    let groups: HashSet<usize> = (0..stages.len())
        .filter(|at| stages[*at].kind == WorkflowStepKind::Parallel)
        .collect();
    for stage in &mut stages {
        stage.members.retain(|member| !groups.contains(member));
        stage.members.dedup();
    }
    stages
}

/// Returns the kind of a step by its `type`.
pub(super) fn detect_step_kind(node: &YamlNode) -> WorkflowStepKind {
    match node.get("type").map(scalar_or_empty_text).unwrap_or_default().as_str() {
        "script" => WorkflowStepKind::Script,
        "human_gate" => WorkflowStepKind::Gate,
        "questions" => WorkflowStepKind::Questions,
        "set" => WorkflowStepKind::Set,
        "wait" => WorkflowStepKind::Wait,
        "terminate" => WorkflowStepKind::Terminate,
        "workflow" => WorkflowStepKind::Workflow,
        _ => WorkflowStepKind::Model,
    }
}

/// Returns the form of the output of a step, as templates read the output.
fn detect_output_form(stage: &WorkflowStep<'_>, all: &[WorkflowStep<'_>]) -> StepOutputForm {
    let has = |node: &YamlNode, key: &str| node.get(key).is_some_and(|node| !list_map_entries(node).is_empty());
    match stage.kind {
        WorkflowStepKind::Model => StepOutputForm::Model {
            raw: !has(stage.node, "output"),
        },
        WorkflowStepKind::Script => StepOutputForm::Script {
            declared: stage.node.get("output").is_some(),
        },
        WorkflowStepKind::Gate => StepOutputForm::Gate,
        WorkflowStepKind::Questions | WorkflowStepKind::OptionField => StepOutputForm::Questions,
        WorkflowStepKind::Set => {
            let single_value = stage.node.get("value").map(|value| {
                (
                    String::new(),
                    jinja::template_to_expression(&scalar_or_empty_text(value)),
                )
            });
            let many = stage.node.get("values").map_or(&[][..], list_map_entries).iter();
            let many = many.map(|entry| {
                (
                    entry.key.to_string(),
                    jinja::template_to_expression(&scalar_or_empty_text(&entry.value)),
                )
            });
            StepOutputForm::Set(single_value.into_iter().chain(many).collect())
        }
        WorkflowStepKind::Wait | WorkflowStepKind::Terminate => StepOutputForm::NoOutput,
        WorkflowStepKind::Workflow => StepOutputForm::Workflow,
        WorkflowStepKind::Parallel => {
            StepOutputForm::Parallel(stage.members.iter().map(|at| all[*at].old.clone()).collect())
        }
        WorkflowStepKind::ForEach => StepOutputForm::Each {
            collect: continues_after_failure(stage.node),
            keyed: stage.node.get("key_by").is_some(),
        },
    }
}

/// Returns the number of gate options that ask for this field.
fn count_gate_options_with_field(gate: &YamlNode, field: Option<&str>) -> usize {
    let options = gate.get("options").and_then(YamlNode::items).unwrap_or_default();
    let fields = options
        .iter()
        .map(|option| option.get("prompt_for").map(scalar_or_empty_text));
    fields.filter(|other| other.as_deref() == field).count()
}
