//! Creates the picture of an ensemble.

use std::collections::HashMap;

use ensemble_language::ensemble::{self, Agent, AgentKind, Dependency, Ensemble, ForEach, Items};
use ensemble_reports::report::graph::{Arrow, CountedIn, Ending, Node, Picture, Shape};

/// The picture of an ensemble without a run.
pub(crate) fn of_ensemble(ensemble: &Ensemble) -> Picture {
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
        let arrow = move |edge: &Dependency| Some(arrow(*numbers.get(&*edge.agent_name)?, to, edge));
        agent.dependencies.iter().filter_map(arrow)
    });
    Picture {
        title: ensemble.name.to_string(),
        subtitle: None,
        counted_in: CountedIn::Run,
        nodes: ensemble.agents.iter().map(|agent| node(agent, &caps)).collect(),
        arrows: arrows.collect(),
    }
}

fn node(agent: &Agent, caps: &HashMap<&str, u32>) -> Node {
    let mut notes = Vec::new();
    notes.extend(agent.for_each.as_ref().map(list));
    let turns = agent.conversation.max_turns.get();
    if turns > 1 {
        notes.push(format!("at most {turns} times"));
    }
    if let Some(cap) = caps.get(&*agent.name) {
        notes.push(format!("ends the conversation at {cap}"));
    }
    Node {
        name: agent.name.to_string(),
        shape: match &agent.kind {
            AgentKind::Script { .. } => Shape::Script,
            AgentKind::Llm(llm) if llm.acp().is_some() => Shape::External,
            AgentKind::Llm(_) => Shape::Llm,
            AgentKind::Input(_) => Shape::Input,
            AgentKind::Ensemble { .. } => Shape::Ensemble,
            AgentKind::Tool { .. } => Shape::Tool,
        },
        is_stack: agent.for_each.is_some(),
        notes,
        run_data: None,
    }
}

/// `for each of inputs.files`.
fn list(spec: &ForEach) -> String {
    match &spec.items {
        Items::Expression(text) => format!("for each of {}", text.trim()),
        Items::List(items) => format!("for each of {} items", items.len()),
        Items::Times(times) => format!("{times} parts"),
    }
}

fn arrow(from: usize, to: usize, edge: &Dependency) -> Arrow {
    Arrow {
        from,
        to,
        ending: match edge.on {
            ensemble::Ending::Success => Ending::Success,
            ensemble::Ending::Failure => Ending::Failure,
            ensemble::Ending::Any => Ending::Any,
        },
        condition: edge.condition.as_deref().map(str::to_owned),
        most: edge.max_executions.map(u32::from),
        feedback: edge.feedback,
        any_of: !edge.requires_all,
        started: None,
    }
}
