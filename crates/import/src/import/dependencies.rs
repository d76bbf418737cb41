//! The dependencies: `depends_on`, `dependencies`, `when`, and the agents that wait for a loop.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::agents::{Kind, Loop};
use super::draft::{Line, Shape};
use super::guard::Predicate;
use super::names::Names;
use super::values::{json as value_of, text_of};
use super::{Task, entries, span_of};
use ensemble_language::loader::document::{Content, Document, Node};
use ensemble_language::plan::walks::reach;
use ensemble_language::source::Span;

/// An edge of the new file.
struct Edge {
    /// The index of the other agent in the list.
    other: usize,
    name: String,
    /// The keys besides the name.
    more: serde_json::Map<String, Value>,
    from: Span,
}

impl<'a> Task<'a> {
    /// The line with the dependencies of an agent, if it has any.
    pub(super) fn dependencies(&mut self, index: usize, agent: &'a Node) -> Option<Line> {
        let mut edges = self.edges(agent);
        if let Some((other, condition)) = guard(&self.names, agent) {
            match edges.iter_mut().find(|edge| edge.other == other) {
                Some(edge) => drop(edge.more.insert("condition".to_owned(), json!(condition))),
                None => {
                    let from = span_of(entries(agent), "when").unwrap_or(agent.span);
                    let more = [("condition".to_owned(), json!(condition))].into_iter().collect();
                    let name = self.names.at(other).1.to_owned();
                    edges.push(Edge {
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
            .filter(|_| Kind::of(agent) == Kind::Loop)
            .and_then(Loop::of)
        {
            let condition = format!("not ({})", rounds.until);
            let more = [("feedback", json!(true)), ("condition", json!(condition))];
            edges.push(Edge {
                other: index,
                name: self.names.at(index).1.to_owned(),
                more: more.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
                from: span_of(entries(agent), "loop").unwrap_or(agent.span),
            });
        }
        self.wait_for_loops(agent, &mut edges);
        self.open_circles(index, &mut edges);
        self.tell_of_skipped(agent, &edges);
        let from = ["depends_on", "dependencies", "when"]
            .iter()
            .find_map(|key| span_of(entries(agent), key));
        if edges.is_empty() {
            return None;
        }
        if edges.iter().all(|edge| edge.more.is_empty()) {
            let names: Value = edges.into_iter().map(|edge| edge.name).collect();
            return Some(Line::entry("depends_on", Shape::Plain(names), from));
        }
        let items = edges.into_iter().map(|edge| {
            let mut map = super::draft::Map::default();
            map.put("agent_name", edge.name, Some(edge.from));
            for (key, value) in edge.more {
                map.put(&key, value, Some(edge.from));
            }
            (Shape::Map(map), Some(edge.from))
        });
        Some(Line::entry("dependencies", Shape::List(items.collect()), from))
    }

    /// The entries of `depends_on` and `dependencies`; unknown names are reported.
    fn edges(&mut self, agent: &'a Node) -> Vec<Edge> {
        let mut edges: Vec<Edge> = Vec::new();
        for item in items(agent) {
            let (old, more) = named(item);
            let Some(other) = self.names.position(&old) else {
                let message = format!("there is no agent `{old}` to depend on");
                self.note(item.span, &message, "leave it out, or add the agent");
                continue;
            };
            let name = self.names.at(other).1.to_owned();
            let said = |edge: &Edge| edge.other == other && (edge.more == more || more.is_empty());
            let same = edges.iter().any(said);
            if !same {
                edges.push(Edge {
                    other,
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

    /// The new names of the agents that an agent depends on.
    pub(super) fn plain_dependencies(&self, agent: &Node) -> Vec<String> {
        let list = agent.get("depends_on").and_then(Node::items).unwrap_or_default();
        let names = list.iter().filter_map(|item| self.names.of_old(&named(item).0));
        names.map(str::to_owned).collect()
    }

    /// Returns whether `when` was converted to a condition.
    pub(super) fn is_guarded(&self, agent: &Node) -> bool {
        guard(&self.names, agent).is_some()
    }

    /// An agent that depends on a loop waits for its last round.
    fn wait_for_loops(&self, agent: &Node, edges: &mut [Edge]) {
        let items = self
            .document
            .root()
            .get("agents")
            .and_then(Node::items)
            .unwrap_or_default();
        for edge in edges.iter_mut().filter(|edge| !edge.more.contains_key("condition")) {
            let Some(other) = items.get(edge.other) else { continue };
            let rounds = other
                .get("loop")
                .filter(|_| Kind::of(other) == Kind::Loop)
                .and_then(Loop::of);
            if let Some(rounds) = rounds.filter(|_| !std::ptr::eq(&**other, agent)) {
                let condition = format!("{} or executions['{}'] >= {}", rounds.until, edge.name, rounds.most);
                edge.more.insert("condition".to_owned(), json!(condition));
            }
        }
    }

    /// llm-orc does not allow cycles. Here a back edge is a feedback dependency.
    fn open_circles(&mut self, index: usize, edges: &mut [Edge]) {
        let own = self.names.at(index).1.to_owned();
        for edge in edges.iter_mut() {
            let feedback = edge.more.get("feedback") == Some(&Value::Bool(true));
            if feedback || !self.graph.leads_back(edge.other, index) {
                continue;
            }
            edge.more.insert("feedback".to_owned(), json!(true));
            let message = format!("`{own}` and `{}` wait for each other, which llm-orc refuses", edge.name);
            self.note(
                edge.from,
                &message,
                "it is written with `feedback: true`; look whether that is what was meant",
            );
        }
    }

    /// llm-orc runs an agent if one of its dependencies was not skipped. Here a dependency that never ran blocks the
    /// agent.
    fn tell_of_skipped(&mut self, agent: &'a Node, edges: &[Edge]) {
        let skipped: Vec<&Edge> = edges.iter().filter(|edge| self.graph.skipped[edge.other]).collect();
        if skipped.is_empty() || skipped.len() == edges.len() {
            return;
        }
        let names: Vec<String> = skipped.iter().map(|edge| format!("`{}`", edge.name)).collect();
        let message = format!("{} may be skipped, and this agent then does not run", names.join(", "));
        let help = "llm-orc would run it; here write two agents, or `requires_all: false` at dependencies of which one must have run";
        let span = span_of(entries(agent), "depends_on").unwrap_or(agent.span);
        self.note(span, &message, help);
    }
}

/// The dependencies in the old file, as indexes in the list.
pub(super) struct Graph {
    /// Without the edges that were already made feedback.
    listens: Vec<Vec<usize>>,
    /// The agents that llm-orc may skip: because of their own `when`, or because all their dependencies are skipped.
    skipped: Vec<bool>,
}

impl Graph {
    pub(super) fn of(document: &Document, names: &Names) -> Self {
        let agents = document.root().get("agents").and_then(Node::items).unwrap_or_default();
        let mut listens = Vec::new();
        for agent in agents {
            let mut others: Vec<usize> = Vec::new();
            for item in items(agent) {
                let (old, more) = named(item);
                if more.get("feedback") != Some(&Value::Bool(true)) {
                    others.extend(names.position(&old));
                }
            }
            others.extend(guard(names, agent).map(|(other, _)| other));
            listens.push(others);
        }
        let guarded = |agent: &Node| agent.get("when").is_some_and(|when| value_of(when) != Value::Null);
        let mut skipped: Vec<bool> = agents.iter().map(|agent| guarded(agent)).collect();
        // Skipping spreads until nothing changes.
        loop {
            let follows = |at: &usize| {
                let others: &Vec<usize> = &listens[*at];
                !skipped[*at] && !others.is_empty() && others.iter().all(|other| skipped[*other])
            };
            let more: Vec<usize> = (0..skipped.len()).filter(follows).collect();
            if more.is_empty() {
                return Self { listens, skipped };
            }
            more.into_iter().for_each(|at| skipped[at] = true);
        }
    }

    /// Returns whether the agent at `from` depends on the agent at `index`, over agents that are not further down the
    /// list.
    ///
    /// So a cycle is broken once: at its last agent in the list.
    fn leads_back(&self, from: usize, index: usize) -> bool {
        let next = |at: usize| self.listens[at].iter().copied().filter(move |_| at < index);
        reach(self.listens.len(), [from], next).contains(index)
    }
}

/// The items of both lists; a single name is a list of one item.
fn items(agent: &Node) -> Vec<&Node> {
    let mut items: Vec<&Node> = Vec::new();
    for key in ["depends_on", "dependencies"] {
        let Some(node) = agent.get(key) else { continue };
        match &node.content {
            Content::Sequence(list) => items.extend(list.iter().map(|item| &**item)),
            _ if value_of(node) == Value::Null => {}
            _ => items.push(node),
        }
    }
    items
}

/// The agent that an item names, and the other keys of the item.
fn named(item: &Node) -> (String, serde_json::Map<String, Value>) {
    let mut more = serde_json::Map::new();
    let mut name = text_of(item);
    for entry in entries(item) {
        match &*entry.key {
            "agent_name" => name = text_of(&entry.value),
            key => match value_of(&entry.value) {
                Value::Null => {}
                value => drop(more.insert(key.to_owned(), value)),
            },
        }
    }
    (name, more)
}

/// The agent that `when` reads, and the condition on its output.
fn guard(names: &Names, agent: &Node) -> Option<(usize, String)> {
    let predicate = Predicate::read(&text_of(agent.get("when")?))?;
    Some((names.position(&predicate.head)?, predicate.on_agent()?))
}
