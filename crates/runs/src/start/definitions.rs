//! The definitions of agents: digests of everything outside the text of an ensemble that determines the results of its agents.
//!
//! The start of a run records the definitions. A resume, a fork or a rerun compares them with the current files, and reuses a result only
//! if they are equal.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use ensemble_core::conversation::{Event, Record};
use ensemble_language::data::{sha256_of_bytes, sha256_of_text};
use ensemble_language::definition::{
    AgentDefinitionDigests, AgentDefinitionPart, AgentDefinitionPartKind, ExternalDefinitionDigests,
};
use ensemble_language::ensemble::{
    AcpProgram, Agent, AgentKind, CommandLine, Ensemble, LlmSpec, McpServer, ModelChoice, PreparedResponses,
    QuestionSpec, SimulatedReplySource, ToolKind, WindowStrategy,
};
use ensemble_language::loader::{self, YamlDocument, canonical_ensemble_text};
use ensemble_language::profiles::{ModelOverride, ModelProfiles, ProfileChain};
use ensemble_process::program::{ScriptFolders, can_only_be_file, find_script_files, find_script_files_in_words};
use ensemble_scripts::regular_files::read_bytes_with_limit;

use crate::prepare::{PreparedEnsemble, collect_profiles, ensemble_folder};
use crate::project::Project;

/// The maximum size of files whose content is digested: 16 MiB. For larger files, size and modification time are used.
const MAX_DIGESTED_FILE_BYTES: u64 = 16 << 20;

/// The digest of a file or profile that is missing.
const MISSING_DIGEST: &str = "missing";

/// The options of a run that replace agents, answers and models.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DefinitionOptions<'a> {
    pub(crate) overrides: &'a [ModelOverride],
    pub(crate) stubs: &'a BTreeMap<Arc<str>, Arc<str>>,
    pub(crate) responders: &'a BTreeMap<Arc<str>, Arc<str>>,
    /// Returns the text of a nested ensemble that stands for its meaning.
    pub(crate) nested_text: fn(&YamlDocument) -> String,
}

impl<'a> DefinitionOptions<'a> {
    /// Returns the options for definitions that are compared with the records of a run.
    pub(crate) fn for_records(
        overrides: &'a [ModelOverride],
        stubs: &'a BTreeMap<Arc<str>, Arc<str>>,
        responders: &'a BTreeMap<Arc<str>, Arc<str>>,
    ) -> Self {
        Self {
            overrides,
            stubs,
            responders,
            nested_text: canonical_ensemble_text,
        }
    }
}

/// Computes the digests of everything outside the text of the ensemble that determines the results of its agents, from the current files.
pub(crate) fn compute_definitions(
    prepared: &PreparedEnsemble,
    options: DefinitionOptions<'_>,
    project: &Project,
) -> ExternalDefinitionDigests {
    let reader = DefinitionDigester {
        project,
        options,
        root: &prepared.root,
        files: RefCell::default(),
        nested_definitions: RefCell::default(),
    };
    let ensemble = prepared.plan.ensemble();
    let scope = reader.create_scope(
        ensemble,
        prepared.folder.clone(),
        prepared.root.clone(),
        vec![prepared.file.clone()],
    );
    let agents = ensemble.agents.iter();
    let definitions = agents.map(|agent| (agent.name.clone(), reader.define_agent(agent, &scope)));
    definitions.filter(|(_, definition)| !definition.is_empty()).collect()
}

/// An ensemble whose agents are defined, with its folders and profiles.
struct DefinitionScope<'e> {
    ensemble: &'e Ensemble,
    places: ScriptFolders,
    profiles: Option<ModelProfiles>,
    /// The files of the ensembles around this one, and its own.
    files: Vec<PathBuf>,
}

/// The computation of the definitions of an ensemble and its nested ensembles, with cached digests.
struct DefinitionDigester<'a> {
    project: &'a Project,
    options: DefinitionOptions<'a>,
    /// Files are named relative to this folder.
    root: &'a Path,
    files: RefCell<HashMap<PathBuf, Arc<str>>>,
    nested_definitions: RefCell<HashMap<PathBuf, Arc<AgentDefinitionDigests>>>,
}

/// A collector of the parts of one agent's definition.
struct DefinitionCollector<'r, 'e> {
    reader: &'r DefinitionDigester<'r>,
    scope: &'r DefinitionScope<'e>,
    definition: AgentDefinitionDigests,
    /// The agents that are part of it.
    agents: Vec<Arc<str>>,
}

impl DefinitionDigester<'_> {
    /// Creates the scope of an ensemble. Loads profiles only if an agent names one.
    fn create_scope<'e>(
        &self,
        ensemble: &'e Ensemble,
        folder: PathBuf,
        root: PathBuf,
        files: Vec<PathBuf>,
    ) -> DefinitionScope<'e> {
        let names_profiles = ensemble.agents.iter().any(|agent| match &agent.kind {
            AgentKind::Llm(llm) => llm.acp_agent().is_none(),
            AgentKind::Input(input) => matches!(input.responses, Some(PreparedResponses::Profile(_))),
            _ => false,
        });
        let profiles = names_profiles
            .then(|| collect_profiles(ensemble, &folder, self.options.overrides.to_vec(), self.project).ok())
            .flatten();
        DefinitionScope {
            ensemble,
            places: ScriptFolders {
                ensemble_dir: folder,
                project_root: root,
            },
            profiles,
            files,
        }
    }

    /// Collects the definition of one agent.
    fn define_agent(&self, agent: &Agent, scope: &DefinitionScope<'_>) -> AgentDefinitionDigests {
        let mut collector = DefinitionCollector {
            reader: self,
            scope,
            definition: AgentDefinitionDigests::default(),
            agents: Vec::new(),
        };
        collector.add_agent_parts(agent);
        collector.definition
    }

    /// Returns the path of a file relative to the project root, or the full path outside of the root.
    fn display_path(&self, path: &Path) -> String {
        path.strip_prefix(self.root).unwrap_or(path).display().to_string()
    }

    /// Returns the digest of a file, which is computed once. Returns `missing` if the file cannot be read.
    fn cached_file_digest(&self, path: &Path) -> Arc<str> {
        if let Some(cached_digest) = self.files.borrow().get(path) {
            return cached_digest.clone();
        }
        let read: Arc<str> = file_content_digest(path)
            .unwrap_or_else(|| MISSING_DIGEST.to_owned())
            .into();
        self.files.borrow_mut().insert(path.to_owned(), read.clone());
        read
    }

    /// Returns the definition of a nested ensemble: its text, and the definitions of its agents. Computes the definition once.
    fn cached_nested_definition(&self, file: &Path, scope: &DefinitionScope<'_>) -> Arc<AgentDefinitionDigests> {
        if let Some(cached_definition) = self.nested_definitions.borrow().get(file) {
            return cached_definition.clone();
        }
        let mut definition = AgentDefinitionDigests::default();
        let part = AgentDefinitionPart::new(AgentDefinitionPartKind::Ensemble, self.display_path(file));
        let loaded = self.project.read_file(&self.project.relative_path(file)).ok();
        let loaded = loaded.map(|source| loader::load_ensemble(&source));
        match loaded.as_ref().and_then(|loaded| loaded.document.as_ref()) {
            Some(document) => definition.add_part(part, &(self.options.nested_text)(document)),
            None => definition.add_part_digest(part, MISSING_DIGEST.into()),
        }
        if let Some(ensemble) = loaded.as_ref().and_then(|loaded| loaded.ensemble.as_ref()) {
            let folder = ensemble_folder(file, self.project);
            let root = self.project.project_root(&folder);
            let mut files = scope.files.clone();
            files.push(file.to_owned());
            let inner = self.create_scope(ensemble, folder, root, files);
            for agent in &ensemble.agents {
                definition.add_or_replace_parts(&self.define_agent(agent, &inner));
            }
        }
        let definition = Arc::new(definition);
        self.nested_definitions
            .borrow_mut()
            .insert(file.to_owned(), definition.clone());
        definition
    }
}

impl DefinitionCollector<'_, '_> {
    /// Adds all parts of the agent, once per agent: replacements, script, model, tools and nested ensemble.
    fn add_agent_parts(&mut self, agent: &Agent) {
        if self.agents.contains(&agent.name) {
            return;
        }
        self.agents.push(agent.name.clone());
        self.add_replacements(&agent.name);
        match &agent.kind {
            AgentKind::Script { script, .. } => self.add_script_files(script),
            AgentKind::Llm(llm) => self.add_llm_parts(llm),
            AgentKind::Input(input) => self.add_input_responses(input),
            AgentKind::Ensemble { ensemble, .. } => self.add_nested_parts(ensemble),
            AgentKind::Tool { used, .. } => self.add_tool_parts(&used.tool),
        }
    }

    /// Adds the program or profile, the context window and the tools of an LLM agent.
    fn add_llm_parts(&mut self, llm: &LlmSpec) {
        match llm.acp_agent() {
            Some(acp) => {
                if let AcpProgram::Command { command, args, .. } = &acp.program {
                    let words: Vec<String> = std::iter::once(command).chain(args).cloned().collect();
                    self.add_file_digests(find_script_files_in_words(&words, &self.scope.places));
                }
            }
            None => self.add_profile_digest(&llm.model),
        }
        match llm.context_window.as_ref().map(|window| &window.strategy) {
            Some(WindowStrategy::Custom(script)) => self.add_script_files(script),
            Some(WindowStrategy::Summarize(Some(profile))) => {
                self.add_profile_digest(&ModelChoice::Profile(profile.clone()))
            }
            _ => {}
        }
        for path in llm.attachments.iter().filter(|path| !path.contains('{')) {
            let file = self.scope.places.attachment_path(path);
            let part = AgentDefinitionPart::new(AgentDefinitionPartKind::Attachment, self.reader.display_path(&file));
            self.definition
                .add_part_digest(part, self.reader.cached_file_digest(&file));
        }
        for used in &llm.tools {
            self.add_tool_parts(&used.tool);
        }
    }

    /// Adds the script or profile that answers for an input agent.
    fn add_input_responses(&mut self, input: &QuestionSpec) {
        match &input.responses {
            Some(PreparedResponses::Script(script)) => self.add_script_files(script),
            Some(PreparedResponses::Profile(profile)) => {
                self.add_profile_digest(&ModelChoice::Profile(profile.clone()))
            }
            Some(PreparedResponses::List(_)) | None => {}
        }
    }

    /// Adds the parts of a tool: its script, agent, nested ensemble, program or summary profile.
    fn add_tool_parts(&mut self, name: &str) {
        let Some(tool) = self.scope.ensemble.find_tool(name) else {
            return;
        };
        if let Some(profile) = tool.summary_profile() {
            self.add_profile_digest(&ModelChoice::Profile(profile.clone()));
        }
        match &tool.kind {
            ToolKind::Script { script, .. } => self.add_script_files(script),
            ToolKind::Agent { agent, .. } => {
                if let Some(agent) = self.scope.ensemble.find_agent(agent) {
                    self.add_agent_parts(agent);
                }
            }
            ToolKind::Ensemble { ensemble, .. } => {
                self.add_replacements(name);
                self.add_nested_parts(ensemble);
            }
            ToolKind::Mcp(McpServer::Command { command, .. }) => match command {
                CommandLine::Text(text) => self.add_script_files(text),
                CommandLine::Words(words) => {
                    self.add_file_digests(find_script_files_in_words(words, &self.scope.places))
                }
            },
            ToolKind::Mcp(McpServer::Url { .. } | McpServer::Client) => {}
        }
    }

    /// Adds the files of a script, or a missing digest if the script must be a file.
    fn add_script_files(&mut self, script: &str) {
        let files = find_script_files(script, &self.scope.places);
        if files.is_empty() && can_only_be_file(script) {
            let part = AgentDefinitionPart::new(AgentDefinitionPartKind::Script, script.trim());
            self.definition.add_part_digest(part, MISSING_DIGEST.into());
        }
        self.add_file_digests(files);
    }

    /// Adds the digests of these files.
    fn add_file_digests(&mut self, files: Vec<PathBuf>) {
        for file in files {
            let part = AgentDefinitionPart::new(AgentDefinitionPartKind::Script, self.reader.display_path(&file));
            self.definition
                .add_part_digest(part, self.reader.cached_file_digest(&file));
        }
    }

    /// Adds the digest of a profile with its fallbacks and scripts.
    fn add_profile_digest(&mut self, choice: &ModelChoice) {
        let name: Arc<str> = match choice {
            ModelChoice::Profile(name) => name.clone(),
            ModelChoice::Model { provider, model } => format!("{provider}/{model}").into(),
            ModelChoice::Acp(_) => return,
        };
        let resolved = self
            .scope
            .profiles
            .as_ref()
            .and_then(|all| all.resolve_chain(choice).ok());
        let part = AgentDefinitionPart::new(AgentDefinitionPartKind::Profile, name);
        let Some(resolved) = resolved else {
            return self.definition.add_part_digest(part, MISSING_DIGEST.into());
        };
        self.definition.add_part(part, &describe_profile_chain(&resolved));
        for link in &resolved.chain {
            if let Some(SimulatedReplySource::Script(script)) = &link.profile.simulated {
                self.add_script_files(script);
            }
        }
    }

    /// Adds the definition of a nested ensemble, unless the ensemble contains itself.
    fn add_nested_parts(&mut self, named: &str) {
        let ScriptFolders {
            ensemble_dir,
            project_root,
        } = &self.scope.places;
        let project = self.reader.project;
        let Ok(ensemble_file) = project.resolve_ensemble_file_from(named, ensemble_dir, project_root) else {
            let part = AgentDefinitionPart::new(AgentDefinitionPartKind::Ensemble, named);
            return self.definition.add_part_digest(part, MISSING_DIGEST.into());
        };
        let file = project.folder.join(ensemble_file);
        let file = file.canonicalize().unwrap_or(file);
        // A run refuses an ensemble that contains itself.
        if !self.scope.files.contains(&file) {
            let nested = self.reader.cached_nested_definition(&file, self.scope);
            self.definition.add_or_replace_parts(&nested);
        }
    }

    /// Adds the stubs and responders of this agent and of agents nested in it. Nested ensembles have none of their own.
    fn add_replacements(&mut self, name: &str) {
        if self.scope.files.len() > 1 {
            return;
        }
        let is_meant = |path: &str| {
            path.strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let options = self.reader.options;
        for (kind, all) in [
            (AgentDefinitionPartKind::Stub, options.stubs),
            (AgentDefinitionPartKind::Responder, options.responders),
        ] {
            for (path, text) in all.iter().filter(|(path, _)| is_meant(path)) {
                self.definition
                    .add_part(AgentDefinitionPart::new(kind, path.clone()), text);
            }
        }
    }
}

/// Describes everything in a profile and its fallbacks that determines replies.
fn describe_profile_chain(resolved: &ProfileChain) -> String {
    let mut text = String::new();
    for link in &resolved.chain {
        let profile = &link.profile;
        let _always_written = writeln!(
            text,
            "{}/{} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
            profile.provider,
            profile.model,
            profile.base_url,
            profile.headers,
            profile.system_prompt,
            profile.temperature,
            profile.top_p,
            profile.max_tokens,
            profile.context_window,
            profile.seed,
            profile.options,
            profile.simulated,
        );
    }
    text
}

/// Returns the SHA-256 of the content in hex. For a large file, digests the size and the modification time instead. Returns `None` if the
/// file cannot be read.
fn file_content_digest(path: &Path) -> Option<String> {
    let data = path.metadata().ok().filter(|data| data.is_file())?;
    if data.len() > MAX_DIGESTED_FILE_BYTES {
        let changed = data.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        return Some(sha256_of_text(&format!("{} bytes, changed at {changed:?}", data.len())));
    }
    read_bytes_with_limit(path, MAX_DIGESTED_FILE_BYTES)
        .ok()
        .map(|bytes| sha256_of_bytes(&bytes))
}

/// The definitions in the records of a run.
#[derive(Debug, Default)]
pub(crate) struct RecordedDefinitions {
    /// The definitions of the latest executions. `None` if the records contain no definitions.
    pub(crate) latest: Option<ExternalDefinitionDigests>,
    /// Agents, with the number of the last execution that was performed with another definition than the latest.
    outdated_agents: BTreeMap<Arc<str>, u32>,
}

impl RecordedDefinitions {
    /// Collects the latest definitions, and the last execution with an outdated definition of each agent.
    pub(crate) fn from_records(records: &[Record]) -> Self {
        let mut all = Self::default();
        let mut executed: HashMap<Arc<str>, u32> = HashMap::new();
        for record in records {
            let later = match &record.event {
                Event::RunStarted(started) => {
                    all.latest.clone_from(&started.definitions);
                    if let Some(from) = &started.forked_from {
                        all.outdated_agents.clone_from(&from.outdated);
                    }
                    None
                }
                Event::RunResumed(resumed) => resumed.definitions.as_ref(),
                Event::MessageAdded(message) => message.definitions.as_ref(),
                Event::TurnStarted(turn) => {
                    let starts = turn.starts.iter();
                    executed.extend(starts.map(|start| (start.agent.clone(), start.execution)));
                    None
                }
                _ => None,
            };
            if let Some(later) = later {
                let before = all.latest.take().unwrap_or_default();
                let differs = |agent: &Arc<str>| before.get(agent) != later.get(agent);
                let outdated = executed.iter().filter(|(agent, _)| differs(agent));
                all.outdated_agents
                    .extend(outdated.map(|(agent, last)| (agent.clone(), *last)));
                all.latest = Some(later.clone());
            }
        }
        all
    }

    /// Returns whether the execution was performed with the latest definition of the agent.
    pub(crate) fn has_latest_definition(&self, agent: &str, execution: u32) -> bool {
        self.outdated_agents.get(agent).is_none_or(|last| execution > *last)
    }
}
