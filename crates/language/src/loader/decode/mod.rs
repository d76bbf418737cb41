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
mod provider_access;
mod result;
mod run_files;
mod sandbox;
mod settings;
mod tool;

use std::collections::HashMap;
use std::sync::Arc;

use super::codes;
use super::document::YamlDocument;
use super::findings::LimitedFindingList;
use super::section_fields::SectionFields;
use super::value_decoders::{
    NodeCursor, decode_name, decode_nonblank_text, decode_nonempty_list, decode_text, report_repetition,
};
use crate::diagnostic::Finding;
use crate::ensemble::{Agent, Ensemble};
use crate::source::RouteLocation;
use crate::vocabulary::FileSection;

pub(super) use profile::decode_config_profiles;
pub use run_files::{AgentAnswers, BatchAnswers};
pub(super) use run_files::{decode_answers, decode_batch_answers, decode_context_file};
pub(super) use settings::decode_settings;
pub use settings::{FindingLevel, ReportFormat, ValidateSettings};

/// Decodes an ensemble. Returns `None` if an error was reported.
pub(super) fn decode_ensemble(document: &YamlDocument, findings: &mut LimitedFindingList) -> Option<Ensemble> {
    let root = NodeCursor::from_root(document.root());
    let fields = SectionFields::from_map(&root, FileSection::Ensemble, findings)?;
    let name = fields.decode_required("name", "every ensemble must have a name", findings, decode_name);
    let description = fields.decode_optional("description", findings, decode_text);
    let names = AgentNameIndex::collect(document, findings);
    let limits = match fields.get("conversation_limits") {
        Some(at) => limits::decode_limits(&at, &names, findings),
        None => Some(crate::ensemble::ConversationLimits::default()),
    };
    let model_profiles = match fields.get("model_profiles") {
        Some(at) => profile::decode_profiles(&at, findings),
        None => Some(Vec::new()),
    };
    let tools = match fields.get("tools") {
        Some(at) => tool::decode_tools(&at, &names, findings),
        None => Some(Vec::new()),
    };
    let default_task = fields.decode_optional("default_task", findings, decode_text);
    let inputs = match fields.get("inputs") {
        Some(at) => inputs::decode_inputs(&at, findings).map(Some),
        None => Some(None),
    };
    let result = match fields.get("result") {
        Some(at) => result::decode_result(&at, &names, findings).map(Some),
        None => Some(None),
    };
    let success = match fields.get("success") {
        Some(at) => result::decode_success(&at, findings).map(Some),
        None => Some(None),
    };
    let known_tools = tool::DeclaredTools::collect(document);
    if let Some(at) = fields.get("defaults") {
        agent::check_defaults_section(&at, &names, &known_tools, findings);
    }
    let agents = fields.decode_required(
        "agents",
        "an ensemble must have at least one agent",
        findings,
        |at, findings| decode_agents(at, &names, &known_tools, findings),
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
        success: success?,
    })
}

/// Decodes `agents`: a list of at least one agent.
fn decode_agents(
    at: &NodeCursor<'_>,
    names: &AgentNameIndex<'_>,
    tools: &tool::DeclaredTools<'_>,
    findings: &mut LimitedFindingList,
) -> Option<Vec<Agent>> {
    let rule = "an ensemble must have at least one agent";
    let mut index = 0..;
    decode_nonempty_list(at, "a list of agents", rule, findings, |item, findings| {
        agent::decode_agent(item, index.next().unwrap_or_default(), names, tools, findings)
    })
}

/// An index of the names of all agents, built before the agents are decoded, so that dependencies can refer to later agents.
struct AgentNameIndex<'a> {
    index: HashMap<&'a str, usize>,
    order: Vec<&'a str>,
}

impl<'a> AgentNameIndex<'a> {
    /// Collects the names, and reports duplicate names.
    fn collect(document: &'a YamlDocument, findings: &mut LimitedFindingList) -> Self {
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
            let Some(name) = agent.get("name").and_then(|name| name.string_text()) else {
                continue;
            };
            if let Some(first) = names.index.get(&**name) {
                let message = format!("two agents have the name `{name}`");
                report_repetition(
                    codes::DUPLICATE_AGENT,
                    Self::name_location(index),
                    message,
                    Self::name_location(*first),
                    findings,
                );
                continue;
            }
            names.index.insert(name, index);
            names.order.push(name);
        }
        names
    }

    /// Returns the index of the agent with this name.
    fn find_index(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// Returns the location of the name of the agent at `index`.
    fn name_location(index: usize) -> RouteLocation {
        Agent::route_at(index).with_key("name").into_value_location()
    }

    /// Returns whether there is an agent with this name, and reports an unknown name.
    fn check_exists(&self, name: &str, at: impl FnOnce() -> RouteLocation, findings: &mut LimitedFindingList) -> bool {
        let is_known = self.index.contains_key(name);
        if !is_known {
            findings.push_error(|| {
                Finding::new_unknown_agent(codes::UNKNOWN_AGENT, at(), name, self.order.iter().copied())
            });
        }
        is_known
    }
}

/// Decodes a string that names a file, a profile or the like.
fn decode_reference(at: &NodeCursor<'_>, findings: &mut LimitedFindingList) -> Option<Arc<str>> {
    decode_nonblank_text(at, findings)
}
