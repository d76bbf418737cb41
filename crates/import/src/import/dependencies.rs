//! The dependencies: `depends_on`, `dependencies`, `when`, and the agents that wait for a loop.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::agent_names::AgentNameMapping;
use super::agents::{ConvertibleLoop, ImportedAgentKind};
use super::draft::{DraftMapLine, DraftValue};
use super::predicate::GuardPredicate;
use super::values::{scalar_or_empty_text, to_json as value_of};
use super::{ImportTask, find_key_span, list_map_entries};
use ensemble_language::loader::document::{YamlContent, YamlDocument, YamlNode};
use ensemble_language::plan::graph_walks::find_reachable;
use ensemble_language::source::Span;

/// Dependency in the new file, with its position in the old file.
struct ImportedDependency {
    /// The index of the other agent in the list.
    other: usize,
    name: String,
    /// The keys besides the name.
    more: serde_json::Map<String, Value>,
    from: Span,
}

impl<'a> ImportTask<'a> {
    /// Returns the line with the dependencies of the agent. Returns `None` without dependencies.
    pub(super) fn convert_agent_dependencies(&mut self, index: usize, agent: &'a YamlNode) -> Option<DraftMapLine> {
        let mut edges = self.collect_listed_dependencies(agent);
        if let Some((other, condition)) = convert_guard_condition(&self.names, agent) {
            match edges.iter_mut().find(|edge| edge.other == other) {
                Some(edge) => drop(edge.more.insert("condition".to_owned(), json!(condition))),
                None => {
                    let from = find_key_span(list_map_entries(agent), "when").unwrap_or(agent.span);
                    let more = [("condition".to_owned(), json!(condition))].into_iter().collect();
                    let name = self.names.old_and_new_name(other).1.to_owned();
                    edges.push(ImportedDependency {
                        other,
                        name,
                        more,
                        from,
                    });
                }
            }
        }
        if let Some(rounds) = agent
            .get("loop")
            .filter(|_| ImportedAgentKind::detect_agent_kind(agent) == ImportedAgentKind::Loop)
            .and_then(ConvertibleLoop::parse)
        {
            let condition = format!("not ({})", rounds.until);
            let more = [("feedback", json!(true)), ("condition", json!(condition))];
            edges.push(ImportedDependency {
                other: index,
                name: self.names.old_and_new_name(index).1.to_owned(),
                more: more.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
                from: find_key_span(list_map_entries(agent), "loop").unwrap_or(agent.span),
            });
        }
        self.add_loop_conditions(agent, &mut edges);
        self.mark_back_edges_as_feedback(index, &mut edges);
        self.report_skippable_dependencies(agent, &edges);
        let from = ["depends_on", "dependencies", "when"]
            .iter()
            .find_map(|key| find_key_span(list_map_entries(agent), key));
        if edges.is_empty() {
            return None;
        }
        if edges.iter().all(|edge| edge.more.is_empty()) {
            let names: Value = edges.into_iter().map(|edge| edge.name).collect();
            return Some(DraftMapLine::new_entry("depends_on", DraftValue::Plain(names), from));
        }
        let items = edges.into_iter().map(|edge| {
            let mut map = super::draft::DraftMap::default();
            map.put_plain_value("agent_name", edge.name, Some(edge.from));
            for (key, value) in edge.more {
                map.put_plain_value(&key, value, Some(edge.from));
            }
            (DraftValue::Map(map), Some(edge.from))
        });
        Some(DraftMapLine::new_entry(
            "dependencies",
            DraftValue::List(items.collect()),
            from,
        ))
    }

    /// Returns the entries of `depends_on` and `dependencies`, each once. Reports unknown names.
    fn collect_listed_dependencies(&mut self, agent: &'a YamlNode) -> Vec<ImportedDependency> {
        let mut edges: Vec<ImportedDependency> = Vec::new();
        for item in list_dependency_items(agent) {
            let (old, more) = parse_dependency_item(item);
            let Some(source_index) = self.names.find_agent_index(&old) else {
                let message = format!("there is no agent `{old}` to depend on");
                self.add_remark_and_warning(item.span, &message, "leave it out, or add the agent");
                continue;
            };
            let name = self.names.old_and_new_name(source_index).1.to_owned();
            let is_same_edge =
                |edge: &ImportedDependency| edge.other == source_index && (edge.more == more || more.is_empty());
            let same = edges.iter().any(is_same_edge);
            if !same {
                edges.push(ImportedDependency {
                    other: source_index,
                    name,
                    more,
                    from: item.span,
                });
            }
        }
        // A dependency without a condition has no effect beside another one on the same agent.
        let conditional: BTreeSet<String> = edges
            .iter()
            .filter(|edge| !edge.more.is_empty())
            .map(|edge| edge.name.clone())
            .collect();
        edges.retain(|edge| !edge.more.is_empty() || !conditional.contains(&edge.name));
        edges
    }

    /// Returns the new names of the agents in `depends_on`.
    pub(super) fn list_dependency_names(&self, agent: &YamlNode) -> Vec<String> {
        let list = agent.get("depends_on").and_then(YamlNode::items).unwrap_or_default();
        let names = list
            .iter()
            .filter_map(|item| self.names.find_new_name(&parse_dependency_item(item).0));
        names.map(str::to_owned).collect()
    }

    /// Returns whether `when` can be converted to a condition.
    pub(super) fn can_convert_guard(&self, agent: &YamlNode) -> bool {
        convert_guard_condition(&self.names, agent).is_some()
    }

    /// Adds conditions to dependencies on loops, so that an agent waits for the last round of the loop.
    fn add_loop_conditions(&self, agent: &YamlNode, edges: &mut [ImportedDependency]) {
        let items = self
            .document
            .root()
            .get("agents")
            .and_then(YamlNode::items)
            .unwrap_or_default();
        for edge in edges.iter_mut().filter(|edge| !edge.more.contains_key("condition")) {
            let Some(source_agent) = items.get(edge.other) else {
                continue;
            };
            let rounds = source_agent
                .get("loop")
                .filter(|_| ImportedAgentKind::detect_agent_kind(source_agent) == ImportedAgentKind::Loop)
                .and_then(ConvertibleLoop::parse);
            if let Some(rounds) = rounds.filter(|_| !std::ptr::eq(&**source_agent, agent)) {
                let condition = format!(
                    "{} or executions['{}'] >= {}",
                    rounds.until, edge.name, rounds.max_turns
                );
                edge.more.insert("condition".to_owned(), json!(condition));
            }
        }
    }

    /// Marks dependencies that close a cycle as feedback, and reports them. llm-orc does not allow cycles.
    fn mark_back_edges_as_feedback(&mut self, index: usize, edges: &mut [ImportedDependency]) {
        let own_name = self.names.old_and_new_name(index).1.to_owned();
        for edge in edges.iter_mut() {
            let feedback = edge.more.get("feedback") == Some(&Value::Bool(true));
            if feedback || !self.graph.closes_cycle(edge.other, index) {
                continue;
            }
            edge.more.insert("feedback".to_owned(), json!(true));
            let message = format!(
                "`{own_name}` and `{}` wait for each other, which llm-orc refuses",
                edge.name
            );
            self.add_remark_and_warning(
                edge.from,
                &message,
                "check the dependency: it is written with `feedback: true`",
            );
        }
    }

    /// Reports dependencies that can be skipped. llm-orc runs the agent if one dependency was not skipped. Here a skipped one blocks the
    /// agent.
    fn report_skippable_dependencies(&mut self, agent: &'a YamlNode, edges: &[ImportedDependency]) {
        let skipped: Vec<&ImportedDependency> = edges.iter().filter(|edge| self.graph.skipped[edge.other]).collect();
        if skipped.is_empty() || skipped.len() == edges.len() {
            return;
        }
        let names: Vec<String> = skipped.iter().map(|edge| format!("`{}`", edge.name)).collect();
        let message = format!("{} can be skipped, and then this agent does not run", names.join(", "));
        let help = "write two agents, or set `requires_all: false` at dependencies of which one is enough; llm-orc would run the agent";
        let span = find_key_span(list_map_entries(agent), "depends_on").unwrap_or(agent.span);
        self.add_remark_and_warning(span, &message, help);
    }
}

/// Dependencies in the old file, as indexes in the list of agents.
pub(super) struct OldDependencyGraph {
    /// Without the edges that were already made feedback.
    listens: Vec<Vec<usize>>,
    /// The agents that llm-orc may skip: because of their own `when`, or because all their dependencies are skipped.
    skipped: Vec<bool>,
}

impl OldDependencyGraph {
    /// Builds the graph, and computes which agents can be skipped.
    pub(super) fn build_from_document(document: &YamlDocument, names: &AgentNameMapping) -> Self {
        let agents = document
            .root()
            .get("agents")
            .and_then(YamlNode::items)
            .unwrap_or_default();
        let mut listens = Vec::new();
        for agent in agents {
            let mut source_indexes: Vec<usize> = Vec::new();
            for item in list_dependency_items(agent) {
                let (old, more) = parse_dependency_item(item);
                if more.get("feedback") != Some(&Value::Bool(true)) {
                    source_indexes.extend(names.find_agent_index(&old));
                }
            }
            source_indexes.extend(convert_guard_condition(names, agent).map(|(other, _)| other));
            listens.push(source_indexes);
        }
        let guarded = |agent: &YamlNode| agent.get("when").is_some_and(|when| value_of(when) != Value::Null);
        let mut skipped: Vec<bool> = agents.iter().map(|agent| guarded(agent)).collect();
        // Skipping spreads until nothing changes.
        loop {
            let follows = |at: &usize| {
                let source_indexes: &Vec<usize> = &listens[*at];
                !skipped[*at] && !source_indexes.is_empty() && source_indexes.iter().all(|other| skipped[*other])
            };
            let more: Vec<usize> = (0..skipped.len()).filter(follows).collect();
            if more.is_empty() {
                return Self { listens, skipped };
            }
            more.into_iter().for_each(|at| skipped[at] = true);
        }
    }

    /// Returns whether the agent at `from` depends on the agent at `index` over agents that are earlier in the list.
    ///
    /// A cycle is thus broken once, at its last agent in the list.
    fn closes_cycle(&self, from: usize, index: usize) -> bool {
        let next = |at: usize| self.listens[at].iter().copied().filter(move |_| at < index);
        find_reachable(self.listens.len(), [from], next).contains(index)
    }
}

/// Returns the items of both lists. A single name counts as a list of one item.
fn list_dependency_items(agent: &YamlNode) -> Vec<&YamlNode> {
    let mut items: Vec<&YamlNode> = Vec::new();
    for key in ["depends_on", "dependencies"] {
        let Some(node) = agent.get(key) else { continue };
        match &node.content {
            YamlContent::Sequence(list) => items.extend(list.iter().map(|item| &**item)),
            _ if value_of(node) == Value::Null => {}
            _ => items.push(node),
        }
    }
    items
}

/// Returns the name of the agent in an item, and the other keys of the item.
fn parse_dependency_item(item: &YamlNode) -> (String, serde_json::Map<String, Value>) {
    let mut more = serde_json::Map::new();
    let mut name = scalar_or_empty_text(item);
    for entry in list_map_entries(item) {
        match &*entry.key {
            "agent_name" => name = scalar_or_empty_text(&entry.value),
            key => match value_of(&entry.value) {
                Value::Null => {}
                value => drop(more.insert(key.to_owned(), value)),
            },
        }
    }
    (name, more)
}

/// Returns the index of the agent that `when` reads, and the condition on its output.
fn convert_guard_condition(names: &AgentNameMapping, agent: &YamlNode) -> Option<(usize, String)> {
    let predicate = GuardPredicate::parse(&scalar_or_empty_text(agent.get("when")?))?;
    Some((
        names.find_agent_index(&predicate.head)?,
        predicate.to_condition_without_agent()?,
    ))
}
