//! The order of the steps: from the routes of each step to the dependencies of the others.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Value, json};

use super::super::values::text_of;
use super::super::{Task, entries, names as old_names, span_of};
use super::names::{Names, Reads, Step, quoted};
use super::{EXIT_CODE, expression, jinja};
use ensemble_language::loader::document::Node;
use ensemble_language::plan::walks::reach;

/// The kind of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Model,
    Script,
    Gate,
    Questions,
    Set,
    Wait,
    Terminate,
    Workflow,
    Parallel,
    Each,
    /// The text that an option of a gate asks for.
    Asked,
}

/// A step of a workflow.
pub(super) struct Stage<'a> {
    pub(super) old: String,
    pub(super) new: String,
    pub(super) kind: Kind,
    pub(super) node: &'a Node,
    /// The steps of a parallel group.
    pub(super) members: Vec<usize>,
    exits: Vec<Exit>,
    /// Whether the steps after a group depend on its members, so that the group itself is no agent.
    pub(super) dissolved: bool,
}

/// A route.
#[derive(Debug, Clone)]
struct Exit {
    to: usize,
    on: &'static str,
    condition: Option<String>,
}

/// A dependency of an agent.
pub(super) struct Edge {
    pub(super) keys: serde_json::Map<String, Value>,
}

/// The steps of a workflow and their order.
pub(super) struct Flow<'a> {
    pub(super) stages: Vec<Stage<'a>>,
    pub(super) names: Names,
    entry: Option<usize>,
    reached: HashSet<usize>,
    circles: HashSet<usize>,
}

impl<'a> Flow<'a> {
    pub(super) fn of(task: &mut Task<'a>, root: &'a Node) -> Self {
        let mut flow = Self {
            stages: stages(root),
            names: Names::default(),
            entry: None,
            reached: HashSet::new(),
            circles: HashSet::new(),
        };
        let workflow = root.get("workflow");
        let text = |key: &str| workflow.and_then(|node| node.get(key)).map(text_of).unwrap_or_default();
        flow.names.name = text("name");
        flow.names.description = text("description");
        for stage in &flow.stages {
            let step = Step {
                new: stage.new.clone(),
                reads: reads(stage, &flow.stages),
            };
            flow.names.steps.entry(stage.old.clone()).or_insert(step);
        }
        for at in 0..flow.stages.len() {
            let exits = flow.exits(task, at);
            flow.stages[at].exits = exits;
        }
        let start = text("entry_point");
        flow.entry = flow.position(&start);
        if flow.entry.is_none() {
            let span = workflow.map_or(root.span, |node| {
                span_of(entries(node), "entry_point").unwrap_or(node.span)
            });
            let message = format!("there is no step `{start}` to begin with");
            task.note(
                span,
                &message,
                "it begins with the first step; write the name of a step as `entry_point`",
            );
            flow.entry = (!flow.stages.is_empty()).then_some(0);
        }
        flow.reached = flow.list_following(flow.entry.map(|entry| flow.begin(entry)).unwrap_or_default());
        flow.circles = (0..flow.stages.len())
            .filter(|at| flow.list_following(flow.next(*at)).contains(at))
            .collect();
        for at in 0..flow.stages.len() {
            flow.stages[at].dissolved = flow.can_dissolve(at);
        }
        flow
    }

    fn position(&self, old: &str) -> Option<usize> {
        self.stages.iter().position(|stage| stage.old == old)
    }

    pub(super) fn is_reached(&self, at: usize) -> bool {
        self.reached.contains(&at)
    }

    /// Returns whether the step can run again after itself.
    pub(super) fn repeats(&self, at: usize) -> bool {
        self.circles.contains(&at)
    }

    /// The steps that can follow a step: a route to a group leads to its members, and a group is over after its members.
    fn next(&self, at: usize) -> Vec<usize> {
        let mut next: Vec<usize> = self.stages[at]
            .exits
            .iter()
            .flat_map(|exit| self.begin(exit.to))
            .collect();
        for (group, stage) in self.stages.iter().enumerate() {
            if stage.members.contains(&at) {
                next.push(group);
            }
        }
        next
    }

    /// Returns the steps that run first when a route leads to a step.
    fn begin(&self, at: usize) -> Vec<usize> {
        let members = &self.stages[at].members;
        if members.is_empty() { vec![at] } else { members.clone() }
    }

    /// Returns these steps and all steps that can follow them.
    fn list_following(&self, steps: Vec<usize>) -> HashSet<usize> {
        reach(self.stages.len(), steps, |at| self.next(at)).ones().collect()
    }

    /// A group is no agent if one step alone follows it, without a condition, and follows nothing else.
    fn can_dissolve(&self, at: usize) -> bool {
        let stage = &self.stages[at];
        if stage.kind != Kind::Parallel || stage.members.is_empty() || collects(stage.node) {
            return false;
        }
        match &stage.exits[..] {
            [] => true,
            [only] => {
                let target = &self.stages[only.to];
                let before = self.stages.iter().flat_map(|stage| &stage.exits);
                only.condition.is_none()
                    && target.kind != Kind::Parallel
                    && self.entry != Some(only.to)
                    && before.filter(|exit| exit.to == only.to).count() == 1
                    && !self.stages.iter().any(|stage| stage.members.contains(&only.to))
            }
            _ => false,
        }
    }

    /// The routes of a step, each with the whole condition under which it is taken.
    fn exits(&mut self, task: &mut Task<'a>, at: usize) -> Vec<Exit> {
        let stage = &self.stages[at];
        let (old, kind, node) = (stage.old.clone(), stage.kind, stage.node);
        let mut exits = Vec::new();
        if kind == Kind::Gate {
            for option in node.get("options").and_then(Node::items).unwrap_or_default() {
                let choice = choice(option);
                let condition = format!("output.response == {}", quoted(&choice));
                let Some(route) = option.get("route") else { continue };
                let asked = option.get("prompt_for").map(text_of);
                let asked = asked.and_then(|field| self.position(&format!("{old}\u{0}{field}")));
                let to = asked.or_else(|| self.target(task, route));
                if let (Some(asked), Some(to)) = (asked, self.target_quietly(route)) {
                    // Several options may ask for the same field: then the choice decides where the answer leads.
                    let is_shared = asking(node, option.get("prompt_for").map(text_of).as_deref()) > 1;
                    let gate = quoted(&self.stages[at].new);
                    self.stages[asked].exits.push(Exit {
                        to,
                        on: "success",
                        condition: is_shared.then(|| format!("outputs[{gate}].response == {}", quoted(&choice))),
                    });
                }
                exits.extend(to.map(|to| Exit {
                    to,
                    on: "success",
                    condition: Some(condition),
                }));
            }
        }
        if kind == Kind::Asked {
            return self.stages[at].exits.clone();
        }
        let declared = matches!(
            self.names.steps.get(&old).map(|step| &step.reads),
            Some(Reads::Script { declared: true })
        );
        let always = if kind == Kind::Script && !declared {
            "any"
        } else {
            "success"
        };
        let mut before: Vec<String> = Vec::new();
        let mut others = false;
        for route in node.get("routes").and_then(Node::items).unwrap_or_default() {
            if route.get("output").is_some() {
                let help = "write the values where they are read";
                task.note(
                    route.span,
                    "`output` of a route is not converted: a route carries no values",
                    help,
                );
            }
            let when = route.get("when").filter(|when| !text_of(when).trim().is_empty());
            let own = match when.map(|when| (when, expression::condition(&text_of(when), &self.names, &old))) {
                None => None,
                Some((_, Ok(converted))) => {
                    others |= converted.reads_others;
                    Some(converted.text)
                }
                Some((when, Err(why))) => {
                    let message = format!("the condition of this route is not converted: {why}");
                    let help = "the route is never taken: write a `condition` at the dependency, and exclude it in those of the other routes";
                    task.note(when.span, &message, help);
                    if let Some(to) = self.target(task, route.get("to").unwrap_or(route)) {
                        let condition = Some("False".to_owned());
                        exits.push(Exit {
                            to,
                            on: always,
                            condition,
                        });
                    }
                    continue;
                }
            };
            let to = route.get("to").and_then(|to| self.target(task, to));
            let (on, condition) = together(&before, own.as_deref(), always);
            let condition = match condition {
                Some(text) if others => Some(format!(
                    "history[-1].agent_name == {} and ({text})",
                    quoted(&self.stages[at].new)
                )),
                other => other,
            };
            if let Some(to) = to {
                exits.push(Exit { to, on, condition });
            }
            match own {
                Some(own) => before.push(own),
                None => break,
            }
        }
        exits
    }

    fn target_quietly(&self, node: &Node) -> Option<usize> {
        self.position(&text_of(node))
    }

    /// The step that a route names; `None` for the end.
    fn target(&self, task: &mut Task<'a>, node: &'a Node) -> Option<usize> {
        let name = text_of(node);
        let found = self.position(&name);
        if found.is_none() && name != "$end" {
            let message = format!("there is no step `{name}`");
            task.note(node.span, &message, "leave the route out, or add the step");
        }
        found
    }

    /// The dependencies of an agent.
    pub(super) fn dependencies(&self, at: usize) -> Vec<Edge> {
        let mut wanted: BTreeSet<usize> = [at].into();
        for (group, stage) in self.stages.iter().enumerate() {
            if stage.members.contains(&at) {
                wanted.insert(group);
            }
        }
        let is_first = self.entry.is_some_and(|entry| wanted.contains(&entry));
        let mut edges: Vec<Edge> = Vec::new();
        // A group that is an agent comes after its members.
        if self.stages[at].kind == Kind::Parallel {
            let collects = collects(self.stages[at].node);
            return self.stages[at]
                .members
                .iter()
                .map(|member| {
                    edge(
                        &self.stages[*member].new,
                        if collects { "any" } else { "success" },
                        None,
                    )
                })
                .collect();
        }
        let mut count = 0;
        for (source, stage) in self.stages.iter().enumerate() {
            if !self.is_reached(source) {
                continue;
            }
            for exit in stage.exits.iter().filter(|exit| wanted.contains(&exit.to)) {
                if stage.dissolved {
                    let members = stage.members.iter();
                    edges.extend(members.map(|member| edge(&self.stages[*member].new, "success", None)));
                    count += 1;
                    continue;
                }
                count += 1;
                edges.push(edge(&stage.new, exit.on, exit.condition.as_deref()));
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

fn edge(name: &str, on: &str, condition: Option<&str>) -> Edge {
    let mut keys = serde_json::Map::new();
    keys.insert("agent_name".to_owned(), json!(name));
    if on != "success" {
        keys.insert("on".to_owned(), json!(on));
    }
    if let Some(condition) = condition {
        keys.insert("condition".to_owned(), json!(condition));
    }
    Edge { keys }
}

/// The condition of a route: none of the routes before it, and its own. An exit code alone is how the script ends.
fn together(before: &[String], own: Option<&str>, always: &'static str) -> (&'static str, Option<String>) {
    let (zero, other) = (format!("{EXIT_CODE} == 0"), format!("{EXIT_CODE} != 0"));
    match (before, own) {
        ([], Some(own)) if own == zero => return ("success", None),
        ([], Some(own)) if own == other => return ("failure", None),
        ([one], None) if *one == zero => return ("failure", None),
        ([one], None) if *one == other => return ("success", None),
        _ => {}
    }
    let mut parts: Vec<String> = before.iter().map(|one| format!("not ({one})")).collect();
    match own {
        Some(own) if parts.is_empty() => parts.push(own.to_owned()),
        Some(own) => parts.push(format!("({own})")),
        None => {}
    }
    (always, (!parts.is_empty()).then(|| parts.join(" and ")))
}

/// The answer that an option of a gate stands for.
pub(super) fn choice(option: &Node) -> String {
    let found = ["value", "name", "label"].iter().find_map(|key| option.get(key));
    found.map(text_of).unwrap_or_default()
}

/// Returns whether a group goes on if a part of it has failed.
pub(super) fn collects(node: &Node) -> bool {
    node.get("failure_mode")
        .is_some_and(|node| text_of(node) == "continue_on_error")
}

fn stages(root: &Node) -> Vec<Stage<'_>> {
    let mut stages: Vec<Stage<'_>> = Vec::new();
    let list = |key: &str| root.get(key).and_then(Node::items).unwrap_or_default();
    let mut add = |old: String, kind: Kind, node| {
        let wanted = old_names::sound(&old.replace('\u{0}', "-"), &format!("step-{}", stages.len() + 1));
        let taken = |name: &str| stages.iter().any(|stage: &Stage<'_>| stage.new == name);
        let new = (1..)
            .map(|number| {
                if number == 1 {
                    wanted.clone()
                } else {
                    format!("{wanted}-{number}")
                }
            })
            .find(|name| !taken(name))
            .unwrap_or_else(|| wanted.clone());
        stages.push(Stage {
            old,
            new,
            kind,
            node,
            members: Vec::new(),
            exits: Vec::new(),
            dissolved: false,
        });
    };
    for node in list("agents") {
        let old = node.get("name").map(text_of).unwrap_or_default();
        let kind = kind(node);
        add(old.clone(), kind, node);
        if kind == Kind::Gate {
            let mut fields = Vec::new();
            for option in node.get("options").and_then(Node::items).unwrap_or_default() {
                let field = option.get("prompt_for").map(text_of).filter(|field| !field.is_empty());
                // Options that ask for the same field share the step that asks.
                if let Some(field) = field.filter(|field| !fields.contains(field)) {
                    add(format!("{old}\u{0}{field}"), Kind::Asked, option);
                    fields.push(field);
                }
            }
        }
    }
    for node in list("for_each") {
        add(node.get("name").map(text_of).unwrap_or_default(), Kind::Each, node);
    }
    for node in list("parallel") {
        let kind = if node.get("for_each").is_some() || node.get("source").is_some() {
            Kind::Each
        } else {
            Kind::Parallel
        };
        add(node.get("name").map(text_of).unwrap_or_default(), kind, node);
    }
    let positions: HashMap<String, usize> = stages
        .iter()
        .enumerate()
        .rev()
        .map(|(at, stage)| (stage.old.clone(), at))
        .collect();
    for stage in stages.iter_mut().filter(|stage| stage.kind == Kind::Parallel) {
        let names = stage.node.get("agents").and_then(Node::items).unwrap_or_default();
        stage.members = names
            .iter()
            .filter_map(|name| positions.get(&text_of(name)).copied())
            .collect();
    }
    let groups: HashSet<usize> = (0..stages.len())
        .filter(|at| stages[*at].kind == Kind::Parallel)
        .collect();
    for stage in &mut stages {
        stage.members.retain(|member| !groups.contains(member));
        stage.members.dedup();
    }
    stages
}

pub(super) fn kind(node: &Node) -> Kind {
    match node.get("type").map(text_of).unwrap_or_default().as_str() {
        "script" => Kind::Script,
        "human_gate" => Kind::Gate,
        "questions" => Kind::Questions,
        "set" => Kind::Set,
        "wait" => Kind::Wait,
        "terminate" => Kind::Terminate,
        "workflow" => Kind::Workflow,
        _ => Kind::Model,
    }
}

fn reads(stage: &Stage<'_>, all: &[Stage<'_>]) -> Reads {
    let has = |node: &Node, key: &str| node.get(key).is_some_and(|node| !entries(node).is_empty());
    match stage.kind {
        Kind::Model => Reads::Model {
            raw: !has(stage.node, "output"),
        },
        Kind::Script => Reads::Script {
            declared: stage.node.get("output").is_some(),
        },
        Kind::Gate => Reads::Gate,
        Kind::Questions | Kind::Asked => Reads::Questions,
        Kind::Set => {
            let one = stage
                .node
                .get("value")
                .map(|value| (String::new(), jinja::as_expression(&text_of(value))));
            let many = stage.node.get("values").map_or(&[][..], entries).iter();
            let many = many.map(|entry| (entry.key.to_string(), jinja::as_expression(&text_of(&entry.value))));
            Reads::Set(one.into_iter().chain(many).collect())
        }
        Kind::Wait | Kind::Terminate => Reads::Nothing,
        Kind::Workflow => Reads::Workflow,
        Kind::Parallel => Reads::Parallel(stage.members.iter().map(|at| all[*at].old.clone()).collect()),
        Kind::Each => Reads::Each {
            collect: collects(stage.node),
            keyed: stage.node.get("key_by").is_some(),
        },
    }
}

/// Returns how many options of a gate ask for this field.
fn asking(gate: &Node, field: Option<&str>) -> usize {
    let options = gate.get("options").and_then(Node::items).unwrap_or_default();
    let fields = options.iter().map(|option| option.get("prompt_for").map(text_of));
    fields.filter(|other| other.as_deref() == field).count()
}
