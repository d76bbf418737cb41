//! `ensemble graph`: an ensemble as a picture, and what a run made of it.

use std::collections::HashMap;
use std::sync::Arc;

use super::args::{GraphArgs, GraphFormat};
use super::error::CliError;
use super::exit;
use super::prepare::{Prepared, prepare};
use super::project::Surroundings;
use super::resume::{recorded_ensemble, started};
use crate::conversation::Event;
use crate::ensemble::{Agent, AgentKind, Dependency, Ending, Ensemble};
use crate::journal::{Journal, Store, read};
use crate::report::graph::{Arrow, Node, Picture, Shape, ascii, dot, mermaid};

/// `ensemble graph`.
pub fn graph(args: &GraphArgs, surroundings: &Surroundings) -> Result<u8, CliError> {
    let recorded = match &args.run {
        Some(run) => {
            let store = Store::of(&surroundings.project_root(&surroundings.folder));
            let folder = store.find(run)?;
            let journal = read(&folder.journal())?;
            Some((folder, journal))
        }
        None => None,
    };
    let prepared: Prepared = match (&args.ensemble, &recorded) {
        (Some(given), _) => prepare(&surroundings.ensemble_file(given)?, surroundings)?,
        (None, Some((folder, journal))) => recorded_ensemble(folder, started(journal)?, surroundings)?,
        (None, None) => return Err(CliError::usage("name an ensemble, or a run with --run")),
    };
    let mut picture = picture(prepared.plan.ensemble());
    if let Some((_, journal)) = &recorded {
        overlay(&mut picture, journal);
    }
    surroundings.print(&match args.format {
        GraphFormat::Mermaid => mermaid(&picture),
        GraphFormat::Dot => dot(&picture),
        GraphFormat::Ascii => ascii(&picture),
    });
    Ok(exit::SUCCESS)
}

/// An ensemble as it is drawn.
pub fn picture(ensemble: &Ensemble) -> Picture {
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
        nodes: ensemble.agents.iter().map(|agent| node(agent, &caps)).collect(),
        arrows: arrows.collect(),
    }
}

fn node(agent: &Agent, caps: &HashMap<&str, u32>) -> Node {
    let mut notes = Vec::new();
    let turns = agent.conversation.max_turns.get();
    if turns > 1 {
        notes.push(format!("at most {turns} times"));
    }
    if let Some(cap) = caps.get(&*agent.name) {
        notes.push(format!("ends the conversation at {cap}"));
    }
    Node {
        name: agent.name.to_string(),
        shape: match agent.kind {
            AgentKind::Script { .. } => Shape::Script,
            AgentKind::Llm(_) => Shape::Llm,
            AgentKind::Input(_) => Shape::Input,
            AgentKind::Ensemble { .. } => Shape::Ensemble,
        },
        notes,
        idle: false,
    }
}

fn arrow(from: usize, to: usize, edge: &Dependency) -> Arrow {
    let mut labels = Vec::new();
    match edge.on {
        Ending::Success => {}
        Ending::Failure => labels.push("on failure".to_owned()),
        Ending::Any => labels.push("on success or failure".to_owned()),
    }
    labels.extend(
        edge.condition
            .as_ref()
            .map(|condition| format!("if {}", condition.trim())),
    );
    labels.extend(edge.max_executions.map(|most| format!("at most {most} times")));
    Arrow {
        from,
        to,
        labels,
        feedback: edge.feedback,
        any_of: !edge.requires_all,
    }
}

/// How often each agent ran, and why the others did not.
pub fn overlay(picture: &mut Picture, journal: &Journal) {
    let mut counts: HashMap<Arc<str>, (usize, usize)> = HashMap::new();
    let mut reasons: HashMap<Arc<str>, String> = HashMap::new();
    for record in &journal.records {
        match &record.event {
            Event::ExecutionFinished(finished) => {
                let (ran, failed) = counts.entry(finished.agent.clone()).or_default();
                *ran += 1;
                *failed += usize::from(!finished.success());
            }
            Event::RunEnded(ended) => {
                let not_run = ended.not_run.iter();
                reasons = not_run.map(|one| (one.agent.clone(), one.reason.clone())).collect();
            }
            _ => {}
        }
    }
    for node in &mut picture.nodes {
        let note = match counts.get(node.name.as_str()) {
            Some((ran, failed)) => {
                let times = if *ran == 1 {
                    "once".to_owned()
                } else {
                    format!("{ran} times")
                };
                let failed = if *failed == 0 {
                    String::new()
                } else {
                    format!(", {failed} failed")
                };
                format!("ran {times}{failed}")
            }
            None => {
                node.idle = true;
                match reasons.get(node.name.as_str()) {
                    Some(reason) => format!("did not run: {reason}"),
                    None => "did not run".to_owned(),
                }
            }
        };
        node.notes.push(note);
    }
}
