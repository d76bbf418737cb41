//! Members of outputs in the result of agents that may never run: the expression fails, and so does the run.

use super::check_graph::{CheckGraph, GraphEdge};
use super::check_subject::CheckSubject;
use crate::condition::{OutputMemberRead, OutputSource, StaticResult};
use crate::diagnostic::Finding;
use crate::ensemble::{AgentTrigger, OnError, RequiredResult};
use crate::loader::codes;
use crate::source::Route;

/// Warns of every member that the result reads from the output of an agent that may never run. `success` is evaluated only if every
/// required agent has succeeded.
pub(super) fn check_uncertain_outputs(subject: &CheckSubject<'_>) -> Vec<Finding> {
    let graph = subject.graph;
    let (mut certain, mut certain_with_goal) = (None, None);
    let mut findings = Vec::new();
    for (reading, route) in graph.parse_result_expressions() {
        let is_success = route == Route::root().with_key("success");
        for read in reading.list_unguarded_member_reads() {
            let Some(agent) = find_output_agent(graph, &read) else {
                continue;
            };
            let certain = match is_success {
                true => certain_with_goal
                    .get_or_insert_with(|| find_certain_agents(graph, find_agents_with_goal_output(graph))),
                false => certain.get_or_insert_with(|| find_certain_agents(graph, vec![false; graph.agent_count()])),
            };
            if !certain[agent] {
                let name = graph.agent_name(agent);
                let place = route.clone().into_text_location(read.span);
                let message = match graph.is_only_tool(agent) {
                    true => format!("`{name}` is only a tool and has no output, so this expression fails"),
                    false => format!("`{name}` may never run, and this expression fails without its output"),
                };
                let help = format!(
                    "write `{}`, which is None without the output, or ask first: `… if '{name}' in outputs else …`",
                    read.optional_read
                );
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

/// Returns for each agent whether the agent has an output if every required agent has succeeded.
fn find_agents_with_goal_output(graph: &CheckGraph<'_>) -> Vec<bool> {
    let mut certain: Vec<bool> = graph.ensemble.agents.iter().map(|agent| agent.required).collect();
    let mut open: Vec<usize> = (0..certain.len()).filter(|at| certain[*at]).collect();
    // A requested agent does not wait for its dependencies.
    if graph.any_agent_can_request() {
        return certain;
    }
    while let Some(agent) = open.pop() {
        for edge in graph.dependency_edges(agent) {
            let dependency = edge.dependency;
            let needs_output =
                dependency.requires_all && !dependency.feedback && dependency.on == RequiredResult::Success;
            if needs_output && !certain[edge.from] {
                certain[edge.from] = true;
                open.push(edge.from);
            }
        }
    }
    certain
}

/// Returns for each agent whether every run without a failure executes the agent, if the `certain` agents run.
fn find_certain_agents(graph: &CheckGraph<'_>, mut certain: Vec<bool>) -> Vec<bool> {
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
    let runs_by_itself = matches!(spec.conversation.trigger, AgentTrigger::News | AgentTrigger::EveryTurn);
    if !runs_by_itself || graph.is_only_tool(agent) {
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
