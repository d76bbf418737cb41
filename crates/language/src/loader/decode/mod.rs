//! Reads the typed ensemble from the tree: one file for each part of the schema.

mod acp;
mod agent;
pub(super) mod cases;
mod context_window;
mod dependency;
mod for_each;
mod input;
mod inputs;
mod limits;
mod options;
mod profile;
mod remote;
mod result;
mod sandbox;
mod settings;
mod side;
mod tool;

use std::collections::HashMap;
use std::sync::Arc;

use super::codes;
use super::document::Document;
use super::fields::Fields;
use super::findings::Findings;
use super::reader::{Cursor, filled_list_of, filled_text, name, text, twice};
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, Ensemble};
use crate::source::At;
use crate::vocabulary::Section;

pub(super) use profile::config;
pub(super) use settings::settings;
pub use settings::{Level, ReportFormat, Settings};
pub use side::Answers;
pub(super) use side::{answers, context};

/// Reads an ensemble; `None` if a problem was reported.
pub(super) fn ensemble(document: &Document, findings: &mut Findings) -> Option<Ensemble> {
    let root = Cursor::root(document.root());
    let fields = Fields::open(&root, Section::Ensemble, findings)?;
    let name = fields.required("name", "every ensemble must have a name", findings, name);
    let description = fields.read("description", findings, text);
    let names = Names::of(document, findings);
    let limits = match fields.get("conversation_limits") {
        Some(at) => limits::read(&at, &names, findings),
        None => Some(crate::ensemble::Limits::default()),
    };
    let model_profiles = match fields.get("model_profiles") {
        Some(at) => profile::all(&at, findings),
        None => Some(Vec::new()),
    };
    let tools = match fields.get("tools") {
        Some(at) => tool::all(&at, &names, findings),
        None => Some(Vec::new()),
    };
    let default_task = fields.read("default_task", findings, text);
    let inputs = match fields.get("inputs") {
        Some(at) => inputs::all(&at, findings).map(Some),
        None => Some(None),
    };
    let result = match fields.get("result") {
        Some(at) => result::read(&at, &names, findings).map(Some),
        None => Some(None),
    };
    let known_tools = tool::Tools::of(document);
    if let Some(at) = fields.get("defaults") {
        agent::defaults(&at, &names, &known_tools, findings);
    }
    let agents = fields.required(
        "agents",
        "an ensemble must have at least one agent",
        findings,
        |at, findings| agents(at, &names, &known_tools, findings),
    );
    Some(Ensemble {
        name: name?,
        description,
        agents: agents?,
        limits: limits?,
        model_profiles: model_profiles?,
        tools: tools?,
        default_task,
        inputs: inputs?,
        result: result?,
    })
}

fn agents(at: &Cursor<'_>, names: &Names<'_>, tools: &tool::Tools<'_>, findings: &mut Findings) -> Option<Vec<Agent>> {
    let rule = "an ensemble must have at least one agent";
    let mut index = 0..;
    filled_list_of(at, "a list of agents", rule, findings, |item, findings| {
        agent::read(item, index.next().unwrap_or_default(), names, tools, findings)
    })
}

/// The names of all agents. They are read before the agents, so that a dependency may refer to a later agent.
struct Names<'a> {
    index: HashMap<&'a str, usize>,
    order: Vec<&'a str>,
}

impl<'a> Names<'a> {
    /// Collects the names and reports duplicate names.
    fn of(document: &'a Document, findings: &mut Findings) -> Self {
        let mut names = Self {
            index: HashMap::new(),
            order: Vec::new(),
        };
        let agents = document
            .root()
            .get("agents")
            .and_then(|agents| agents.items())
            .unwrap_or_default();
        for (index, agent) in agents.iter().enumerate() {
            let Some(name) = agent.get("name").and_then(|name| name.text()) else {
                continue;
            };
            if let Some(first) = names.index.get(&**name) {
                let message = format!("two agents have the name `{name}`");
                twice(
                    codes::DUPLICATE_AGENT,
                    Self::place(index),
                    message,
                    Self::place(*first),
                    findings,
                );
                continue;
            }
            names.index.insert(name, index);
            names.order.push(name);
        }
        names
    }

    /// The agent with this name.
    fn get(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// The place of the name of the agent at `index`.
    fn place(index: usize) -> At {
        Agent::route(index).key("name").value()
    }

    /// Returns whether there is such an agent. If not, this is reported.
    fn expect(&self, name: &str, at: impl FnOnce() -> At, findings: &mut Findings) -> bool {
        let known = self.index.contains_key(name);
        if !known {
            findings.error(|| Finding::unknown_agent(codes::UNKNOWN_AGENT, at(), name, self.order.iter().copied()));
        }
        known
    }
}

/// A string that names a file, a profile, or the like.
fn reference(at: &Cursor<'_>, findings: &mut Findings) -> Option<Arc<str>> {
    filled_text(at, findings)
}
