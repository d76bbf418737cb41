//! Check context of the ensembles of one folder: configured profiles, scripts, nested ensembles.
//!
//! A folder is read once for all of its files. The caches of scripts and files are bounded, so that memory
//! does not grow with the number of files.
//!
//! Invariant: the checks execute nothing of a project (`check/checkers.rs` starts parsers, for `validate --check-scripts`), and the caches
//! are bounded. A script is read and analyzed once for all folders of a call (`check/scripts.rs`).

mod broken;
mod checkers;
mod command;
mod given;
mod inner;
mod paths;
mod results;
mod scripts;
mod written_outputs;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::command::check_startable;
use self::inner::EnsembleNesting;
use self::scripts::RhaiScriptFacts;
use crate::config::load_all_profiles;
use crate::error::ProjectError;
use crate::prepare::{PreparedEnsemble, ensemble_folder};
use crate::project::Project;
use ensemble_language::check::{CheckContext, ModelCosts, OutputKeys, ScriptText};
use ensemble_language::condition::ValueType;
use ensemble_language::diagnostic::{Finding, FindingSeverity};
use ensemble_language::ensemble::{
    AcpProgram, Agent, AgentKind, CommandLine, Ensemble, LlmSpec, McpServer, ModelProfile, ToolDefinition, ToolKind,
};
use ensemble_language::loader::{FixResolution, codes};
use ensemble_language::source::{Route, RouteLocation};
use ensemble_process::program::{
    ResolvedScript, ScriptFolders, ScriptLookupError, find_unused_arguments_error, resolve_command_words,
    resolve_external_program, resolve_needed_program,
};
use ensemble_scripts::regular_files::describe_irregular_type;
use ensemble_scripts::{self, LiteralOutput};

pub use self::checkers::SyntaxChecks;
pub use self::inner::NestedEnsembleCheck;
pub use self::scripts::RhaiScriptCache;

/// Maximum number of scripts or files in a cache. A full cache is cleared.
const MAX_CACHED_FILES: usize = 2000;

/// Folder with ensembles, as the context of their checks.
pub struct EnsembleFolder<'s> {
    project: &'s Project,
    /// Path of the folder as in the arguments, which identifies the folder without access to files.
    given_path: PathBuf,
    places: ScriptFolders,
    /// Profiles of the configurations; `None` if a configuration cannot be read.
    configured_profiles: Option<Vec<(Arc<str>, ModelProfile)>>,
    /// Error in reading the configuration, until the caller takes the error.
    config_error: Option<ProjectError>,
    scripts: RefCell<HashMap<String, Result<ResolvedScript, ScriptLookupError>>>,
    texts: Arc<RhaiScriptCache>,
    nesting: EnsembleNesting,
    checkers: Option<Arc<SyntaxChecks>>,
    is_ci: bool,
    allows_missing_scripts: bool,
    /// Set if the root of the project is outside of the boundary, so that a missing script might exist there.
    has_hidden_root: bool,
    /// Set for a run, and not set for a check.
    is_run: bool,
    fixes: FixResolution,
}

impl<'s> EnsembleFolder<'s> {
    /// Loads the context of the folder that contains the file.
    pub fn for_file(file: &Path, project: &'s Project) -> Self {
        let folder = ensemble_folder(file, project);
        let (configured_profiles, config_error) = match load_all_profiles(&folder, project) {
            Ok(profiles) => (Some(profiles), None),
            Err(fault) => (None, Some(fault)),
        };
        let places = ScriptFolders {
            project_root: project.project_root(&folder),
            ensemble_dir: folder,
        };
        Self {
            configured_profiles,
            config_error,
            ..Self::new(folder_of_argument(file), places, project)
        }
    }

    /// Creates the context for an ensemble that is about to run, without configured profiles and nested ensembles, which the run itself checks.
    pub fn for_run(prepared: &PreparedEnsemble, project: &'s Project) -> Self {
        let places = ScriptFolders {
            project_root: prepared.root.clone(),
            ensemble_dir: prepared.folder.clone(),
        };
        Self {
            is_run: true,
            ..Self::new(folder_of_argument(&prepared.file), places, project)
        }
    }

    /// Creates a context without profiles. A project root outside of the boundary is replaced by the boundary.
    fn new(given_path: PathBuf, mut places: ScriptFolders, project: &'s Project) -> Self {
        let has_hidden_root = !project.is_inside_boundary(&places.project_root);
        if let Some(boundary) = project.boundary.as_ref().filter(|_| has_hidden_root) {
            places.project_root.clone_from(boundary);
        }
        Self {
            project,
            given_path,
            places,
            configured_profiles: None,
            config_error: None,
            scripts: RefCell::default(),
            texts: Arc::default(),
            nesting: EnsembleNesting::default(),
            checkers: None,
            is_ci: false,
            allows_missing_scripts: false,
            has_hidden_root,
            is_run: false,
            fixes: FixResolution::Resolved,
        }
    }

    /// Sets whether the checks are for runs in CI, where no operator answers questions.
    #[must_use]
    pub fn with_ci(mut self, is_ci: bool) -> Self {
        self.is_ci = is_ci;
        self
    }

    /// Reports missing scripts as warnings, for an exploration, which executes no script.
    #[must_use]
    pub fn with_missing_scripts(mut self) -> Self {
        self.allows_missing_scripts = true;
        self
    }

    /// Omits the fixes from findings.
    #[must_use]
    pub fn without_fixes(mut self) -> Self {
        self.fixes = FixResolution::Omitted;
        self
    }

    /// Shares the cache of scripts with other folders.
    #[must_use]
    pub fn with_shared_scripts(mut self, scripts: &Arc<RhaiScriptCache>) -> Self {
        self.texts = Arc::clone(scripts);
        self
    }

    /// Lets interpreters check the syntax of scripts, if `checkers` is set.
    #[must_use]
    pub fn with_syntax_checks(mut self, checkers: Option<Arc<SyntaxChecks>>) -> Self {
        self.checkers = checkers;
        self
    }

    /// Returns whether the file is in this folder. Compares paths only.
    pub fn contains_file(&self, file: &Path) -> bool {
        file.parent() == Some(self.given_path.as_path())
    }

    /// Takes the error in reading the configuration. Returns the error once.
    pub fn take_config_error(&mut self) -> Option<ProjectError> {
        self.config_error.take()
    }

    /// Returns whether every file that a word of the command line can name is inside the boundary. Checks report nothing about
    /// other files.
    fn allows_paths_in_text(&self, text: &str) -> bool {
        if self.project.boundary.is_none() {
            return true;
        }
        let is_separator = |c: char| c.is_whitespace() || "|&;<>()\"'`=,:".contains(c);
        let words = text
            .split(is_separator)
            .chain([text.trim()])
            .filter(|word| !word.is_empty());
        let scripts = self.places.project_root.join("scripts");
        let folders = [&self.places.ensemble_dir, &self.places.project_root, &scripts];
        words
            .flat_map(|word| folders.map(|folder| folder.join(word)))
            .all(|path| self.project.is_inside_boundary(&path))
    }

    /// Returns whether every file that the command line can name is inside the boundary.
    fn allows_paths_of_command(&self, command: &CommandLine) -> bool {
        match command {
            CommandLine::Text(text) => self.allows_paths_in_text(text),
            CommandLine::Words(words) => words.iter().all(|word| self.allows_paths_in_text(word)),
        }
    }

    /// Resolves the script and checks that it can start. Caches the result.
    fn resolve_startable_script(&self, script: &str) -> Result<ResolvedScript, ScriptLookupError> {
        if let Some(cached_script) = self.scripts.borrow().get(script) {
            return cached_script.clone();
        }
        let resolved =
            resolve_needed_program(script, &self.places).and_then(|found| check_startable(found, &self.places));
        let mut scripts = self.scripts.borrow_mut();
        if scripts.len() >= MAX_CACHED_FILES {
            scripts.clear();
        }
        scripts.insert(script.to_owned(), resolved.clone());
        resolved
    }

    /// Applies `of` to the facts about the Rhai script in this file. Reads and analyzes the script once.
    fn map_script_facts<T>(&self, path: &Path, of: impl FnOnce(&RhaiScriptFacts) -> T) -> Option<T> {
        let name = || self.project.relative_path(path).display().to_string();
        self.texts.load_facts_once(path, name).get().map(of)
    }

    /// Returns the possible outputs of the agent. Returns `None` if they are unknown.
    fn find_outputs(&self, ensemble: &Ensemble, agent: &Agent) -> Option<Vec<LiteralOutput>> {
        match &agent.kind {
            AgentKind::Script { script, .. } if !self.allows_paths_in_text(script) => None,
            AgentKind::Script { script, .. } => match self.resolve_startable_script(script).ok()? {
                ResolvedScript::Rhai(path) => self.map_script_facts(&path, |known| known.analysis.outputs.clone())?,
                ResolvedScript::Process(_) => None,
            },
            _ => written_outputs::find_possible_outputs(
                ensemble,
                self.configured_profiles.as_deref().unwrap_or_default(),
                agent,
            ),
        }
    }

    /// Creates the finding about a script or program that cannot be started. Returns `None` if the script might be outside of the boundary.
    fn unavailable_script_finding(&self, unavailable: ScriptLookupError, at: RouteLocation) -> Option<Finding> {
        if self.has_hidden_root {
            return None;
        }
        let finding = match unavailable.is_missing_file && !self.allows_missing_scripts {
            true => Finding::new_error(codes::MISSING_SCRIPT_FILE, at, unavailable.message),
            false => Finding::new_warning(codes::NO_SCRIPT, at, unavailable.message),
        };
        Some(finding.with_help(unavailable.help))
    }

    /// Checks that the script exists, can start and compiles.
    fn check_script_reference(&self, script: &str, at: RouteLocation) -> Option<Finding> {
        if !self.allows_paths_in_text(script) {
            return None;
        }
        match self.resolve_startable_script(script) {
            Ok(ResolvedScript::Rhai(path)) => self.check_rhai_file_compiles(&path, at),
            Ok(ResolvedScript::Process(_)) => None,
            Err(error) => self.unavailable_script_finding(error, at),
        }
    }

    /// Checks that command lines for a shell use the arguments of their agents.
    fn check_unused_arguments<'e>(&'e self, ensemble: &'e Ensemble) -> impl Iterator<Item = Finding> + 'e {
        let agents = ensemble.agents.iter().enumerate();
        agents.filter_map(|(at, agent)| {
            let AgentKind::Script { script, args, .. } = &agent.kind else {
                return None;
            };
            if args.is_empty() || !self.allows_paths_in_text(script) {
                return None;
            }
            let error = find_unused_arguments_error(script, &self.places)?;
            let at = Agent::route_at(at).with_key("args").into_key_location();
            Some(Finding::new_error(codes::NO_PROCESS, at, error.message).with_help(error.help))
        })
    }

    /// Checks the inputs that agents pass to their ensembles.
    fn check_nested_inputs(&self, ensemble: &Ensemble) -> Vec<Finding> {
        let agents = ensemble.agents.iter().enumerate();
        let findings = agents.flat_map(|(at, agent)| match &agent.kind {
            AgentKind::Ensemble { ensemble, .. } => match self.find_valid_ensemble(ensemble) {
                Some(inner) => given::check_passed_inputs(agent, &Agent::route_at(at), &inner),
                None => Vec::new(),
            },
            _ => Vec::new(),
        });
        findings.collect()
    }

    /// Checks that attachments without templates are regular files.
    fn check_attachments<'e>(&'e self, ensemble: &'e Ensemble) -> impl Iterator<Item = Finding> + 'e {
        let agents = ensemble.agents.iter().enumerate();
        let attached = agents.flat_map(|(at, agent)| {
            let paths: &[String] = match &agent.kind {
                AgentKind::Llm(llm) => &llm.attachments,
                _ => &[],
            };
            let route = Agent::route_at(at).with_key("attachments");
            paths
                .iter()
                .enumerate()
                .map(move |(index, path)| (path, route.with_index(index).into_value_location()))
        });
        attached.filter_map(|(path, at)| {
            let file = self.places.attachment_path(path);
            let is_there = path.contains('{') || !self.project.is_inside_boundary(&file) || file.is_file();
            let message = match file
                .metadata()
                .ok()
                .and_then(|known| describe_irregular_type(known.file_type()))
            {
                Some(file_type) => format!("`{path}` is {file_type}, not a file"),
                None => format!("there is no file `{path}`"),
            };
            let finding = || Finding::new_error(codes::NO_ATTACHMENT, at, message);
            (!is_there).then(|| finding().with_help("write the path relative to the folder of the ensemble file"))
        })
    }

    /// Checks that the program of an external agent can start.
    fn check_program(&self, llm: &LlmSpec, route: &Route) -> Option<Finding> {
        let acp = llm.acp_agent().filter(|acp| !acp.is_simulated())?;
        if let AcpProgram::Command { command, .. } = &acp.program
            && !self.allows_paths_in_text(command)
        {
            return None;
        }
        let missing = resolve_external_program(&acp.program, &self.places).err()?;
        self.unavailable_script_finding(missing, route.with_key("acp").into_value_location())
    }

    /// Checks that the script, ensemble or program of a tool exists and can start.
    fn check_tool(&self, tool: &ToolDefinition, route: &Route) -> Option<Finding> {
        match &tool.kind {
            ToolKind::Script { script, .. } => {
                self.check_script_reference(script, route.with_key("script").into_value_location())
            }
            ToolKind::Ensemble { ensemble, .. } => {
                self.check_nested_ensemble(ensemble, route.with_key("ensemble").into_value_location())
            }
            ToolKind::Mcp(McpServer::Command { command, .. }) if !self.allows_paths_of_command(command) => None,
            ToolKind::Mcp(McpServer::Command { command, cwd, .. }) => {
                let at = route.with_key("mcp").with_key("command").into_value_location();
                let finding = match command {
                    CommandLine::Text(text) => self.check_script_reference(text, at),
                    CommandLine::Words(words) => {
                        let resolved = resolve_command_words(words, &self.places);
                        let started = resolved.and_then(|found| check_startable(found, &self.places));
                        self.unavailable_script_finding(started.err()?, at)
                    }
                };
                // A server starts with the first model that needs it, which is too late for a run. Files that the command
                // names are relative to `cwd`.
                let is_refused = |finding: &Finding| self.is_run && cwd.is_none() && finding.code == codes::NO_SCRIPT;
                finding.map(|finding| match is_refused(&finding) {
                    true => Finding {
                        severity: FindingSeverity::Error,
                        code: codes::MISSING_SCRIPT_FILE,
                        ..finding
                    },
                    false => finding,
                })
            }
            ToolKind::Agent { .. } | ToolKind::Mcp(McpServer::Url { .. } | McpServer::Client) => None,
        }
    }
}

impl CheckContext for EnsembleFolder<'_> {
    fn configured_profiles(&self) -> Option<&[(Arc<str>, ModelProfile)]> {
        self.configured_profiles.as_deref()
    }

    fn output_keys(&self, ensemble: &Ensemble, agent: &Agent) -> Option<OutputKeys> {
        if let AgentKind::Ensemble { ensemble: named, .. } = &agent.kind {
            return self.nested_result_keys(named);
        }
        Some(ensemble_scripts::collect_output_keys(
            &self.find_outputs(ensemble, agent)?,
        ))
    }

    fn output_type(&self, ensemble: &Ensemble, agent: &Agent) -> Option<ValueType> {
        if let AgentKind::Ensemble { ensemble: named, .. } = &agent.kind {
            return self.infer_nested_result_type(named);
        }
        Some(ensemble_scripts::unify_output_types(
            &self.find_outputs(ensemble, agent)?,
        ))
    }

    fn always_true_keys(&self, ensemble: &Ensemble, agent: &Agent) -> OutputKeys {
        let output_keys = self.find_outputs(ensemble, agent).unwrap_or_default();
        ensemble_scripts::list_latched_keys(&output_keys)
    }

    fn find_script(&self, script: &str) -> Option<Arc<ScriptText>> {
        if !self.allows_paths_in_text(script) {
            return None;
        }
        let ResolvedScript::Rhai(path) = self.resolve_startable_script(script).ok()? else {
            return None;
        };
        self.map_script_facts(&path, |known| known.analysis.names.clone())?
    }

    fn nested_model_costs(&self, named: &str) -> Option<Arc<ModelCosts>> {
        self.find_nested_costs(named)
    }

    fn executes_nothing(&self) -> bool {
        self.allows_missing_scripts
    }

    fn has_no_operator(&self) -> bool {
        self.is_ci
    }

    fn fixes(&self) -> FixResolution {
        self.fixes
    }

    /// Scripts, ensembles and programs that agents and tools name and that are not there, or not usable.
    fn check_files(&self, ensemble: &Ensemble) -> Vec<Finding> {
        let of_agent = |(at, agent): (usize, &Agent)| {
            let route = Agent::route_at(at);
            match &agent.kind {
                AgentKind::Script { script, .. } => {
                    self.check_script_reference(script, route.with_key("script").into_value_location())
                }
                AgentKind::Ensemble { .. } if self.is_run => None,
                AgentKind::Ensemble { ensemble, .. } => {
                    self.check_nested_ensemble(ensemble, route.with_key("ensemble").into_value_location())
                }
                AgentKind::Llm(llm) => self.check_program(llm, &route),
                AgentKind::Input(_) | AgentKind::Tool { .. } => None,
            }
        };
        let is_prepared = |name: &Arc<str>, tool: &ToolDefinition| {
            let is_nested = matches!(tool.kind, ToolKind::Ensemble { .. });
            self.is_run && is_nested && ensemble.can_call_tool(name)
        };
        let of_tool = |(name, tool): &(Arc<str>, ToolDefinition)| match is_prepared(name, tool) {
            true => None,
            false => self.check_tool(tool, &ToolDefinition::route_for(name)),
        };
        let agents = ensemble.agents.iter().enumerate().filter_map(of_agent);
        let findings = agents.chain(ensemble.tools.iter().filter_map(of_tool));
        let findings = findings.chain(self.check_attachments(ensemble));
        let findings = findings.chain(self.check_unused_arguments(ensemble));
        let is_examined = |path: &Path| self.project.is_inside_boundary(path);
        let sandbox_findings = paths::check_sandbox_paths(ensemble, &self.places.ensemble_dir, &is_examined);
        let findings = findings.chain(sandbox_findings);
        let inner_inputs = match self.is_run {
            true => Vec::new(),
            false => self.check_nested_inputs(ensemble),
        };
        let findings = findings.chain(inner_inputs);
        let findings = findings.chain(self.check_script_syntax(ensemble));
        findings.chain(self.check_replacement_scripts(ensemble)).collect()
    }
}

fn folder_of_argument(file: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).to_owned()
}
