//! What stands around the ensembles of one folder: configured profiles, scripts, other ensembles.
//!
//! A folder is looked at once for all of its files. What is remembered of single scripts is bounded, so that memory
//! does not grow with the number of files.
//!
//! Invariant: it executes nothing of a project (`around/checkers.rs` starts parsers, for `validate --check-scripts`), and what it remembers
//! is bounded. A script is read and examined once for all folders of a call (`around/scripts.rs`).

mod broken;
mod checkers;
mod command;
mod given;
mod inner;
mod paths;
mod results;
mod scripts;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::command::can_be_started;
use self::inner::Nesting;
use self::scripts::Known;
use crate::config::written_profiles;
use crate::error::RunError;
use crate::external::program;
use crate::outputs;
use crate::prepare::folder_of;
use crate::project::Project;
use ensemble_agents::agent::attachments::located;
use ensemble_agents::agent::kinds::script::{Places, Resolved, Unavailable, resolve, resolve_words};
use ensemble_language::check::{CheckContext, OutputKeys, ScriptText};
use ensemble_language::condition::Type;
use ensemble_language::diagnostic::Finding;
use ensemble_language::ensemble::{Agent, AgentKind, CommandLine, Ensemble, Llm, McpServer, Profile, Tool, ToolKind};
use ensemble_language::loader::codes;
use ensemble_language::source::{At, Route};
use ensemble_scripts::{self, WrittenOutput};

pub use self::checkers::Checkers;
pub use self::inner::Inner;
pub use self::scripts::Scripts;

/// Most scripts that are remembered.
const MOST: usize = 2000;

/// A folder with ensembles in it.
pub struct Folder<'s> {
    project: &'s Project,
    /// As it was given, which tells one folder from another before any file is asked.
    given: PathBuf,
    places: Places,
    /// `None` where the configuration cannot be read.
    configured: Option<Vec<(Arc<str>, Profile)>>,
    /// Why it cannot, until somebody has said so.
    fault: Option<RunError>,
    scripts: RefCell<HashMap<String, Result<Resolved, Unavailable>>>,
    texts: Arc<Scripts>,
    nesting: Nesting,
    checkers: Option<Arc<Checkers>>,
    is_ci: bool,
}

impl<'s> Folder<'s> {
    /// The folder in which the file stands.
    pub fn around(file: &Path, project: &'s Project) -> Self {
        let folder = folder_of(file, project);
        let (configured, fault) = match written_profiles(&folder, project) {
            Ok(profiles) => (Some(profiles), None),
            Err(fault) => (None, Some(fault)),
        };
        let project_root = project.project_root(&folder);
        Self {
            project,
            given: given(file),
            places: Places {
                ensemble_dir: folder,
                project_root,
            },
            configured,
            fault,
            scripts: RefCell::default(),
            texts: Arc::default(),
            nesting: Nesting::default(),
            checkers: None,
            is_ci: false,
        }
    }

    /// Likewise, for runs without a person: whether nobody answers questions.
    #[must_use]
    pub fn in_ci(mut self, is_ci: bool) -> Self {
        self.is_ci = is_ci;
        self
    }

    /// Likewise, knowing of scripts what other folders know of them.
    #[must_use]
    pub fn sharing(mut self, scripts: &Arc<Scripts>) -> Self {
        self.texts = Arc::clone(scripts);
        self
    }

    /// Likewise, letting interpreters parse the scripts that are named.
    #[must_use]
    pub fn checking(mut self, checkers: Option<Arc<Checkers>>) -> Self {
        self.checkers = checkers;
        self
    }

    /// Does the file stand here too?
    pub fn holds(&self, file: &Path) -> bool {
        file.parent() == Some(self.given.as_path())
    }

    /// Takes the error in the configuration, for people; it is returned once.
    pub fn take_fault(&mut self) -> Option<RunError> {
        self.fault.take()
    }

    fn resolved(&self, script: &str) -> Result<Resolved, Unavailable> {
        if let Some(known) = self.scripts.borrow().get(script) {
            return known.clone();
        }
        let resolved = resolve(script, &self.places).and_then(|found| can_be_started(found, &self.places));
        let mut scripts = self.scripts.borrow_mut();
        if scripts.len() >= MOST {
            scripts.clear();
        }
        scripts.insert(script.to_owned(), resolved.clone());
        resolved
    }

    /// Returns the facts about the Rhai script in this file.
    fn known<T>(&self, path: &Path, of: impl FnOnce(&Known) -> T) -> Option<T> {
        let name = || self.project.relative(path).display().to_string();
        self.texts.known(path, name).get().map(of)
    }

    /// The possible outputs of the agent, if they are known.
    fn written(&self, ensemble: &Ensemble, agent: &Agent) -> Option<Vec<WrittenOutput>> {
        match &agent.kind {
            AgentKind::Script { script, .. } => match self.resolved(script).ok()? {
                Resolved::Rhai(path) => self.known(&path, |known| known.examined.outputs.clone())?,
                Resolved::Process(_) => None,
            },
            _ => outputs::written(ensemble, self.configured.as_deref().unwrap_or_default(), agent),
        }
    }

    fn script(&self, script: &str, at: At) -> Option<Finding> {
        match self.resolved(script) {
            Ok(Resolved::Rhai(path)) => self.broken(&path, at),
            Ok(Resolved::Process(_)) => None,
            Err(why) => unavailable(why, at),
        }
    }

    /// The inputs that agents give their ensembles, and that do not fit.
    fn unfit_inputs(&self, ensemble: &Ensemble) -> Vec<Finding> {
        let agents = ensemble.agents.iter().enumerate();
        let found = agents.flat_map(|(at, agent)| match &agent.kind {
            AgentKind::Ensemble { ensemble, .. } => match self.inner_ensemble(ensemble) {
                Some(inner) => given::unfit(agent, &Agent::route(at), &inner),
                None => Vec::new(),
            },
            _ => Vec::new(),
        });
        found.collect()
    }

    /// The attachments that are no templates and no files.
    fn missing_attachments<'e>(&'e self, ensemble: &'e Ensemble) -> impl Iterator<Item = Finding> + 'e {
        let agents = ensemble.agents.iter().enumerate();
        let attached = agents.flat_map(|(at, agent)| {
            let paths: &[String] = match &agent.kind {
                AgentKind::Llm(llm) => &llm.attachments,
                _ => &[],
            };
            let route = Agent::route(at).key("attachments");
            paths
                .iter()
                .enumerate()
                .map(move |(index, path)| (path, route.index(index).value()))
        });
        attached.filter_map(|(path, at)| {
            let is_there = path.contains('{') || located(path, &self.places).is_file();
            let message = format!("there is no file `{path}`");
            let finding = || Finding::error(codes::NO_ATTACHMENT, at, message);
            (!is_there).then(|| finding().help("paths of attachments begin at the folder of the ensemble file"))
        })
    }

    /// The program of an external agent.
    fn program(&self, llm: &Llm, route: &Route) -> Option<Finding> {
        let acp = llm.acp().filter(|acp| !acp.is_simulated())?;
        let missing = program(&acp.program, &self.places).err()?;
        unavailable(missing, route.key("acp").value())
    }

    /// The program or script of a tool.
    fn tool(&self, tool: &Tool, route: &Route) -> Option<Finding> {
        match &tool.kind {
            ToolKind::Script { script, .. } => self.script(script, route.key("script").value()),
            ToolKind::Ensemble { ensemble, .. } => self.ensemble(ensemble, route.key("ensemble").value()),
            ToolKind::Mcp(McpServer::Command { command, .. }) => {
                let at = route.key("mcp").key("command").value();
                match command {
                    CommandLine::Text(text) => self.script(text, at),
                    CommandLine::Words(words) => {
                        let resolved = resolve_words(words, &self.places);
                        let started = resolved.and_then(|found| can_be_started(found, &self.places));
                        unavailable(started.err()?, at)
                    }
                }
            }
            ToolKind::Agent { .. } | ToolKind::Mcp(McpServer::Url { .. } | McpServer::Client) => None,
        }
    }
}

impl CheckContext for Folder<'_> {
    fn configured(&self) -> Option<&[(Arc<str>, Profile)]> {
        self.configured.as_deref()
    }

    fn output_keys(&self, ensemble: &Ensemble, agent: &Agent) -> Option<OutputKeys> {
        if let AgentKind::Ensemble { ensemble: named, .. } = &agent.kind {
            return self.result_keys(named);
        }
        Some(ensemble_scripts::keys_of(&self.written(ensemble, agent)?))
    }

    fn output_type(&self, ensemble: &Ensemble, agent: &Agent) -> Option<Type> {
        if let AgentKind::Ensemble { ensemble: named, .. } = &agent.kind {
            return self.result_of(named);
        }
        Some(ensemble_scripts::type_of(&self.written(ensemble, agent)?))
    }

    fn latched_keys(&self, ensemble: &Ensemble, agent: &Agent) -> OutputKeys {
        let written = self.written(ensemble, agent).unwrap_or_default();
        ensemble_scripts::latched_keys(&written)
    }

    fn script(&self, script: &str) -> Option<Arc<ScriptText>> {
        let Resolved::Rhai(path) = self.resolved(script).ok()? else {
            return None;
        };
        self.known(&path, |known| known.examined.names.clone())?
    }

    fn inner(&self, named: &str) -> Option<Arc<Ensemble>> {
        self.inner_ensemble(named)
    }

    fn nobody_answers(&self) -> bool {
        self.is_ci
    }

    /// Scripts, ensembles and programs that agents and tools name and that are not there, or not usable.
    fn files(&self, ensemble: &Ensemble) -> Vec<Finding> {
        let of_agent = |(at, agent): (usize, &Agent)| {
            let route = Agent::route(at);
            match &agent.kind {
                AgentKind::Script { script, .. } => self.script(script, route.key("script").value()),
                AgentKind::Ensemble { ensemble, .. } => self.ensemble(ensemble, route.key("ensemble").value()),
                AgentKind::Llm(llm) => self.program(llm, &route),
                AgentKind::Input(_) | AgentKind::Tool { .. } => None,
            }
        };
        let of_tool = |(name, tool): &(Arc<str>, Tool)| self.tool(tool, &Tool::route(name));
        let agents = ensemble.agents.iter().enumerate().filter_map(of_agent);
        let named = agents.chain(ensemble.tools.iter().filter_map(of_tool));
        let named = named.chain(self.missing_attachments(ensemble));
        let named = named.chain(paths::missing(ensemble, &self.places.ensemble_dir));
        let named = named.chain(self.unfit_inputs(ensemble));
        let named = named.chain(self.syntax_errors(ensemble));
        named.chain(self.scripts_in_place_of_others(ensemble)).collect()
    }
}

fn unavailable(unavailable: Unavailable, at: At) -> Option<Finding> {
    Some(Finding::warning(codes::NO_SCRIPT, at, unavailable.message).help(unavailable.help))
}

fn given(file: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).to_owned()
}
