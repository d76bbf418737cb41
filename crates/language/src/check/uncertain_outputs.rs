//! Members of outputs in the result of agents that may never run: the expression fails, and so does the run.

use super::check_graph::{CheckGraph, GraphEdge};
use super::check_subject::CheckSubject;
use crate::condition::{OutputMemberRead, OutputSource, StaticResult};
use crate::diagnostic::Finding;
use crate::ensemble::{AgentTrigger, OnError, RequiredResult};
use crate::loader::codes;

/// Warns of every member that the result reads from the output of an agent that may never run.
pub(super) fn check_uncertain_outputs(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let mut certain = None;
    let mut findings = Vec::new();
    for (reading, route) in graph.parse_result_expressions() {
        for read in reading.list_unguarded_member_reads() {
            let Some(agent) = find_output_agent(graph, &read) else {
                continue;
            };
            if !certain.get_or_insert_with(|| find_certain_agents(graph))[agent] {
                let name = graph.agent_name(agent);
                let place = route.clone().into_text_location(read.span);
                let message = format!("`{name}` may never run, and this expression fails without its output");
                let help = format!("write `{}`", read.optional_read);
                findings.push(Finding::new_warning(codes::OUTPUT_MAY_MISS, place, message).with_help(help));
            }
        }
    }
    findings
}

/// Returns the agent whose output is read. Returns `None` if several agents write it.
fn find_output_agent(graph: &CheckGraph<'_>, read: &OutputMemberRead) -> Option<usize> {
    match &read.output {
        OutputSource::Agent(name) => graph.find_agent_index(name),
        OutputSource::ContextKey(key) => {
            let stores = |at: &usize| **graph.agent_at(*at).state_key() == **key;
            let mut writers = (0..graph.agent_count()).filter(stores);
            writers.next().filter(|_| writers.next().is_none())
        }
        OutputSource::Dependency => None,
    }
}

/// Returns for each agent whether every run without a failure executes the agent.
fn find_certain_agents(graph: &CheckGraph<'_>) -> Vec<bool> {
    let mut certain = vec![false; graph.agent_count()];
    loop {
        let newly: Vec<usize> = (0..graph.agent_count())
            .filter(|agent| !certain[*agent] && is_certain_after(graph, *agent, &certain))
            .collect();
        if newly.is_empty() {
            return certain;
        }
        newly.into_iter().for_each(|agent| certain[agent] = true);
    }
}

/// Returns whether the agent certainly runs if the `certain` agents run.
fn is_certain_after(graph: &CheckGraph<'_>, agent: usize, certain: &[bool]) -> bool {
    let spec = graph.agent_at(agent);
    if !matches!(spec.conversation.trigger, AgentTrigger::News | AgentTrigger::EveryTurn) {
        return false;
    }
    let holds = |edge: &&GraphEdge<'_>| {
        let has_no_condition = match &edge.condition {
            None => edge.dependency.condition.is_none(),
            Some((_, result)) => matches!(result, StaticResult::WrittenLiteral(true) | StaticResult::AlwaysTrue),
        };
        let can_end_so = match edge.dependency.on {
            RequiredResult::Success => graph.agent_at(edge.from).on_error != OnError::Continue,
            RequiredResult::Any => true,
            RequiredResult::Failure => false,
        };
        edge.dependency.feedback || has_no_condition && can_end_so && certain[edge.from]
    };
    let edges = graph.dependency_edges(agent);
    let (required, any_of): (Vec<_>, Vec<_>) = edges.iter().partition(|edge| edge.dependency.requires_all);
    required.iter().all(holds) && (any_of.is_empty() || any_of.iter().any(holds))
}
