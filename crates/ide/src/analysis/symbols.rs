//! The outline of an ensemble: its agents.

use ensemble_language::source::Span;

use super::EditorView;
use super::document_tree;

/// An agent in the outline of an ensemble.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSymbol {
    /// Its name.
    pub name: String,
    /// What it runs.
    pub detail: String,
    /// All of it.
    pub span: Span,
    /// Its name in the text.
    pub name_span: Span,
}

/// Returns the agents of the text, in order.
pub fn list_agent_symbols(view: &EditorView<'_>) -> Vec<AgentSymbol> {
    let agents = view
        .document
        .as_ref()
        .map(document_tree::list_named_agents)
        .unwrap_or_default();
    let symbol = |agent: &document_tree::AgentNode<'_>| {
        let kind = document_tree::find_agent_kind_key(agent.node).unwrap_or("agent");
        let value = agent.node.get(kind).and_then(|value| value.string_text());
        let (start, end) = (agent.node.span.start, agent.node.span.end);
        AgentSymbol {
            name: agent.name.to_owned(),
            detail: value.map_or_else(|| kind.to_owned(), |value| format!("{kind}: {value}")),
            span: Span::new(start.min(agent.name_span.start), end.max(agent.name_span.end)),
            name_span: agent.name_span,
        }
    };
    agents.iter().map(symbol).collect()
}
