//! Creates the picture of an ensemble and of a run.

use std::collections::HashMap;
use std::sync::Arc;

use ensemble_core::conversation::Event;
use ensemble_core::store::Journal;
use ensemble_language::ensemble::{self, Agent, AgentKind, Dependency, Ensemble, ForEach, Items};
use ensemble_reports::report::graph::{Arrow, CountedIn, Ending, Node, Picture, RunData, Shape};

/// The picture of an ensemble without a run.
pub(super) fn of_ensemble(ensemble: &Ensemble) -> Picture {
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

/// Adds a run to the picture of `shown`: how often each agent ran, how often each arrow started an agent, and why other
/// agents did not run. The run used the agents and dependencies of `recorded`; the file may have been edited since.
pub(super) fn overlay(picture: &mut Picture, shown: &Ensemble, recorded: &Ensemble, journal: &Journal) {
    let mut ran: HashMap<Arc<str>, (usize, usize)> = HashMap::new();
    let mut parts: HashMap<Arc<str>, (usize, usize)> = HashMap::new();
    let mut reasons: HashMap<Arc<str>, String> = HashMap::new();
    let mut started: HashMap<(Arc<str>, usize), usize> = HashMap::new();
    let mut id = String::new();
    let mut end = "has not ended".to_owned();
    for record in &journal.records {
        match &record.event {
            Event::RunStarted(event) => id = event.run_id.to_string(),
            Event::RunResumed(_) | Event::MessageAdded(_) => "has not ended".clone_into(&mut end),
            Event::TurnStarted(turn) => {
                for start in &turn.starts {
                    for position in &start.counts {
                        *started.entry((start.agent.clone(), *position)).or_default() += 1;
                    }
                }
            }
            Event::PartEnded(part) if part.is_final() => {
                let (ended, failed) = parts.entry(part.agent.clone()).or_default();
                *ended += 1;
                *failed += usize::from(part.failure().is_some());
            }
            Event::ExecutionFinished(finished) => {
                let (executions, failed) = ran.entry(finished.agent.clone()).or_default();
                *executions += 1;
                *failed += usize::from(!finished.success());
            }
            Event::RunEnded(ended) => {
                end = ended.completion_reason.to_string();
                let not_run = ended.not_run.iter();
                reasons = not_run.map(|one| (one.agent.clone(), one.reason.clone())).collect();
            }
            _ => {}
        }
    }
    picture.subtitle = Some(format!("run {id}: {end}"));
    for node in &mut picture.nodes {
        node.run_data = Some(match ran.get(node.name.as_str()) {
            Some((executions, failed)) => RunData::Ran {
                executions: *executions,
                failed: *failed,
                parts: parts.get(node.name.as_str()).copied().unwrap_or_default(),
            },
            None => RunData::Idle {
                why: reasons.get(node.name.as_str()).cloned(),
            },
        });
    }
    let dependencies = shown.agents.iter().flat_map(|agent| {
        let edges = agent.dependencies.iter();
        edges.enumerate().map(move |(at, edge)| (agent, at, edge))
    });
    for (arrow, (agent, at, edge)) in picture.arrows.iter_mut().zip(dependencies) {
        arrow.started = position_in(recorded, agent, at, edge)
            .map(|position| started.get(&(agent.name.clone(), position)).copied().unwrap_or(0));
    }
}

/// The position of a dependency in the ensemble that was run. It is the current position (`at`), unless the file was
/// edited.
fn position_in(recorded: &Ensemble, agent: &Agent, at: usize, edge: &Dependency) -> Option<usize> {
    let then = recorded.agents.iter().find(|then| then.name == agent.name)?;
    let same = |then: &Dependency| {
        then.agent_name == edge.agent_name
            && then.condition == edge.condition
            && then.on == edge.on
            && then.feedback == edge.feedback
    };
    match then.dependencies.get(at) {
        Some(there) if same(there) => Some(at),
        _ => then.dependencies.iter().position(same),
    }
}
