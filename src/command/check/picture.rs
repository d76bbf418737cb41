//! Pictures of ensembles without a run.

use std::collections::HashMap;

use ensemble_language::ensemble::{self, Agent, AgentKind, Dependency, Ensemble, ForEachItems, ForEachSpec};
use ensemble_reports::report::format_count;
use ensemble_reports::report::graph::{
    DependencyArrow, DependencyTrigger, ExecutionCountUnit, GraphPicture, NodeShape, PictureNode,
};

/// Builds the picture of an ensemble without a run.
pub(crate) fn ensemble_picture(ensemble: &Ensemble) -> GraphPicture {
    let caps: HashMap<&str, u32> = ensemble
        .limits
        .max_agent_executions
        .iter()
        .map(|(name, cap)| (&**name, cap.get()))
        .collect();
    let numbers: HashMap<&str, usize> = ensemble
        .agents
        .iter()
        .enumerate()
        .map(|(at, agent)| (&*agent.name, at))
        .collect();
    let arrows = ensemble.agents.iter().enumerate().flat_map(|(to, agent)| {
        let numbers = &numbers;
        let arrow = move |edge: &Dependency| Some(dependency_arrow(*numbers.get(&*edge.agent_name)?, to, edge));
        agent.dependencies.iter().filter_map(arrow)
    });
    GraphPicture {
        title: ensemble.name.to_string(),
        subtitle: None,
        count_unit: ExecutionCountUnit::Run,
        nodes: ensemble.agents.iter().map(|agent| agent_node(agent, &caps)).collect(),
        arrows: arrows.collect(),
    }
}

/// Builds the node of an agent. `caps` contains the execution limits of the agents.
fn agent_node(agent: &Agent, caps: &HashMap<&str, u32>) -> PictureNode {
    let mut notes = Vec::new();
    notes.extend(agent.for_each.as_ref().map(describe_for_each));
    let turns = agent.conversation.max_turns.get();
    if turns > 1 {
        notes.push(format!("at most {turns} times"));
    }
    if let Some(cap) = caps.get(&*agent.name) {
        notes.push(format!("ends the conversation at execution {cap}"));
    }
    PictureNode {
        name: agent.name.to_string(),
        shape: match &agent.kind {
            AgentKind::Script { .. } => NodeShape::Script,
            AgentKind::Llm(llm) if llm.acp_agent().is_some() => NodeShape::External,
            AgentKind::Llm(_) => NodeShape::Llm,
            AgentKind::Input(_) => NodeShape::Input,
            AgentKind::Ensemble { .. } => NodeShape::Ensemble,
            AgentKind::Tool { .. } => NodeShape::Tool,
        },
        is_stack: agent.for_each.is_some(),
        notes,
        run_data: None,
    }
}

/// Describes the parts of the agent: `for each of inputs.files`.
fn describe_for_each(spec: &ForEachSpec) -> String {
    match &spec.items {
        ForEachItems::Expression(text) => format!("for each of {}", text.trim()),
        ForEachItems::List(items) => format!("for each of {}", format_count(items.len() as u64, "item")),
        ForEachItems::Times(times) => format_count(u64::from(*times), "part"),
    }
}

/// Builds the arrow of a dependency between the nodes with the indices `from` and `to`.
fn dependency_arrow(from: usize, to: usize, edge: &Dependency) -> DependencyArrow {
    DependencyArrow {
        from,
        to,
        ending: match edge.on {
            ensemble::RequiredResult::Success => DependencyTrigger::Success,
            ensemble::RequiredResult::Failure => DependencyTrigger::Failure,
            ensemble::RequiredResult::Any => DependencyTrigger::Any,
        },
        condition: edge.condition.as_deref().map(str::to_owned),
        most: edge.max_executions.map(u32::from),
        feedback: edge.feedback,
        any_of: !edge.requires_all,
        start_count: None,
    }
}
