//! A text, and all that answers about it need.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use ensemble_language::cases::ensemble_beside;
use ensemble_language::check::CheckContext;
use ensemble_language::condition::Type;
use ensemble_language::ensemble::{Agent, Ensemble};
use ensemble_language::loader::Document;
use ensemble_language::loader::document::{Content, Node};

use super::findings::Kind;
use super::{schema, tree};

/// A text with what is known of it.
pub struct View<'v> {
    /// The text.
    pub text: &'v str,
    /// The files around it.
    pub around: &'v dyn CheckContext,
    /// The ensemble: that of the text, or that of the last text of this file without errors; of a test file, the tested one.
    pub ensemble: Option<Arc<Ensemble>>,
    /// What the file is for.
    pub kind: Kind,
    /// The tree of the text, without lines that are not YAML.
    pub(super) document: Option<Document>,
}

impl<'v> View<'v> {
    /// Reads the text.
    pub fn of(text: &'v str, around: &'v dyn CheckContext, ensemble: Option<Arc<Ensemble>>, kind: Kind) -> Self {
        Self {
            document: tree::outline(text, None),
            text,
            around,
            ensemble,
            kind,
        }
    }

    /// The schema of the text.
    pub(super) fn schema(&self) -> schema::Schema {
        match self.kind {
            Kind::Tests => schema::Schema::TESTS,
            Kind::Ensemble | Kind::Configuration => schema::Schema::ENSEMBLES,
        }
    }

    /// The agent with this name, as it is or was.
    pub(super) fn agent(&self, name: &str) -> Option<&Agent> {
        let agents = &self.ensemble.as_ref()?.agents;
        agents.iter().find(|agent| *agent.name == *name)
    }

    /// Returns the type of the output of the agent with this name.
    pub(super) fn output_of(&self, name: &str) -> Type {
        let known = self.ensemble.as_ref().zip(self.agent(name));
        let told = known.and_then(|(ensemble, agent)| self.around.output_type(ensemble, agent));
        let schema = || {
            let (ensemble, agent) = known?;
            let keys = self.around.output_keys(ensemble, agent)?;
            let keys = keys.into_iter().map(|key| (key, Type::any()));
            Some(Type::map(ensemble_language::condition::Fields::exactly(keys)))
        };
        told.or_else(schema).unwrap_or_default()
    }

    /// The names of all agents, in the order of the text.
    pub(super) fn agent_names(&self) -> Vec<String> {
        let written = self.document.as_ref().map(tree::agents).unwrap_or_default();
        if written.is_empty() {
            let agents = self.ensemble.iter().flat_map(|ensemble| &ensemble.agents);
            return agents.map(|agent| agent.name.to_string()).collect();
        }
        written.iter().map(|agent| agent.name.to_owned()).collect()
    }

    /// The names of the agents on which the agent with this number depends; all agents, if there is none.
    pub(super) fn dependencies(&self, agent: Option<usize>) -> Vec<String> {
        let agents = self.document.as_ref().map(tree::agent_nodes).unwrap_or_default();
        match agent.and_then(|at| agents.get(at)) {
            Some(node) => tree::dependencies(node).iter().map(|name| (*name).to_owned()).collect(),
            None => self.agent_names(),
        }
    }

    /// The keys of the map under a key of the root.
    pub(super) fn keys_under(&self, key: &str) -> Vec<String> {
        let node = self.document.as_ref().and_then(|document| document.root().get(key));
        match node.map(|node: &Node| &node.content) {
            Some(Content::Mapping(entries)) => entries.iter().map(|entry| entry.key.to_string()).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns whether the text is an ensemble, or may become one: all of its keys are keys of ensembles.
    pub fn is_ensemble(&self) -> bool {
        let Some(document) = &self.document else {
            return self.text.contains("agents") || self.text.trim().is_empty();
        };
        match &document.root().content {
            Content::Mapping(entries) => {
                let known = self.schema().keys(&ensemble_language::source::Route::root());
                let is_known = |key: &str| known.iter().any(|one| one.name == key) || key.starts_with("x-");
                document.root().get("agents").is_some() || entries.iter().all(|entry| is_known(&entry.key))
            }
            Content::Scalar(_) => true,
            Content::Sequence(_) => false,
        }
    }
}

/// The file of the ensemble that the test file with this text and path tests.
pub fn tested_by(text: &str, path: &Path) -> Option<PathBuf> {
    let document = tree::outline(text, None);
    let node = document.as_ref().and_then(|document| document.root().get("ensemble"));
    let written = node.and_then(|node| node.text()).map(|name| name.to_string());
    let named = written.or_else(|| ensemble_beside(path.file_name()?.to_str()?))?;
    Some(plain(&path.parent()?.join(named)))
}

/// The path without `.` and `..`, as an editor names its files.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}
