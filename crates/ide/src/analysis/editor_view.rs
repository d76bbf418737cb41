//! A text, and all that answers about it need.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use ensemble_language::cases::default_ensemble_name;
use ensemble_language::check::CheckContext;
use ensemble_language::condition::ValueType;
use ensemble_language::ensemble::{Agent, Ensemble};
use ensemble_language::loader::YamlDocument;
use ensemble_language::loader::document::YamlContent;

use super::findings::EditedFileKind;
use super::{document_tree, schema};

/// A text in an editor, with its tree, its check context and the last valid ensemble.
pub struct EditorView<'v> {
    /// The text.
    pub text: &'v str,
    /// The files around it.
    pub context: &'v dyn CheckContext,
    /// The ensemble: that of the text, or that of the last text of this file without errors; of a test file, the tested one.
    pub ensemble: Option<Arc<Ensemble>>,
    /// What the file is for.
    pub kind: EditedFileKind,
    /// The tree of the text, without lines that are not YAML.
    pub(super) document: Option<YamlDocument>,
}

impl<'v> EditorView<'v> {
    /// Parses the text tolerantly, and combines it with its context.
    pub fn parse(
        text: &'v str,
        context: &'v dyn CheckContext,
        ensemble: Option<Arc<Ensemble>>,
        kind: EditedFileKind,
    ) -> Self {
        Self {
            document: document_tree::parse_tolerantly(text, None),
            text,
            context,
            ensemble,
            kind,
        }
    }

    /// Returns the schema for the kind of the file.
    pub(super) fn schema_for_kind(&self) -> schema::EditorSchema {
        match self.kind {
            EditedFileKind::Tests => schema::EditorSchema::TESTS,
            EditedFileKind::Ensemble | EditedFileKind::Configuration => schema::EditorSchema::ENSEMBLES,
        }
    }

    /// Returns the agent with this name in the last valid ensemble.
    pub(super) fn find_known_agent(&self, name: &str) -> Option<&Agent> {
        let agents = &self.ensemble.as_ref()?.agents;
        agents.iter().find(|agent| *agent.name == *name)
    }

    /// Returns the type of the output of the agent, as far as its files or its schema define the type.
    pub(super) fn agent_output_type(&self, name: &str) -> ValueType {
        let ensemble_and_agent = self.ensemble.as_ref().zip(self.find_known_agent(name));
        let known_type = ensemble_and_agent.and_then(|(ensemble, agent)| self.context.output_type(ensemble, agent));
        let schema = || {
            let (ensemble, agent) = ensemble_and_agent?;
            let keys = self.context.output_keys(ensemble, agent)?;
            let keys = keys.into_iter().map(|key| (key, ValueType::any_value()));
            Some(ValueType::map_with_fields(
                ensemble_language::condition::MapFields::with_exact_keys(keys),
            ))
        };
        known_type.or_else(schema).unwrap_or_default()
    }

    /// Returns the names of all agents of the text, or of the last valid ensemble if the text has none.
    pub(super) fn agent_names(&self) -> Vec<String> {
        let listed_agents = self
            .document
            .as_ref()
            .map(document_tree::list_named_agents)
            .unwrap_or_default();
        if listed_agents.is_empty() {
            let agents = self.ensemble.iter().flat_map(|ensemble| &ensemble.agents);
            return agents.map(|agent| agent.name.to_string()).collect();
        }
        listed_agents.iter().map(|agent| agent.name.to_owned()).collect()
    }

    /// Returns the dependencies of the agent with this index. Returns all agents if there is no such agent.
    pub(super) fn agent_dependency_names(&self, agent: Option<usize>) -> Vec<String> {
        let agents = self
            .document
            .as_ref()
            .map(document_tree::agent_nodes)
            .unwrap_or_default();
        match agent.and_then(|at| agents.get(at)) {
            Some(node) => document_tree::list_dependency_names(node)
                .iter()
                .map(|name| (*name).to_owned())
                .collect(),
            None => self.agent_names(),
        }
    }

    /// Returns the keys of the map under a top-level key.
    pub(super) fn list_keys_under(&self, key: &str) -> Vec<String> {
        let document = self.document.as_ref();
        let keys = document.map(|document| document_tree::list_keys_of_root_map(document, key));
        keys.into_iter().flatten().map(str::to_owned).collect()
    }

    /// Returns whether the text is an ensemble or can become one: it has `agents`, or only keys of ensembles.
    pub fn can_be_ensemble(&self) -> bool {
        let Some(document) = &self.document else {
            return self.text.contains("agents") || self.text.trim().is_empty();
        };
        match &document.root().content {
            YamlContent::Mapping(entries) => {
                let known_keys = self
                    .schema_for_kind()
                    .list_keys(&ensemble_language::source::Route::root());
                let is_known = |key: &str| known_keys.iter().any(|one| one.name == key) || key.starts_with("x-");
                document.root().get("agents").is_some() || entries.iter().all(|entry| is_known(&entry.key))
            }
            YamlContent::Scalar(_) => true,
            YamlContent::Sequence(_) => false,
        }
    }
}

/// Returns the path of the ensemble that the test file with this text and path tests.
pub fn tested_ensemble_path(text: &str, path: &Path) -> Option<PathBuf> {
    let document = document_tree::parse_tolerantly(text, None);
    let node = document.as_ref().and_then(|document| document.root().get("ensemble"));
    let written_name = node.and_then(|node| node.string_text()).map(|name| name.to_string());
    let ensemble_name = written_name.or_else(|| default_ensemble_name(path.file_name()?.to_str()?))?;
    Some(remove_dot_components(&path.parent()?.join(ensemble_name)))
}

/// Returns the path without `.` and `..` components, as editors name files.
fn remove_dot_components(path: &Path) -> PathBuf {
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
