//! A session of a client: its run, its choices, and the updates that were sent.
//!
//! Invariant: the id of a session is the id of its run.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_core::request::{AnswerAuthor, AnswerSource, PendingRequest};
use ensemble_core::store::RunId;
use ensemble_language::ensemble::{AgentKind, Ensemble, McpServer, ToolKind};
use ensemble_runs::service::run_service::RunService;
use ensemble_runs::{ClientServers, EnsembleRef, RunOptions};
use serde_json::Value;
use tokio::sync::watch;

use crate::protocol::{SessionChoice, config_options_json};
use crate::session_update::{MessageChunk, SessionUpdate};
use crate::updates::SessionUpdateTracker;
use crate::wire::RpcError;

/// The id of the choice of the ensemble.
const ENSEMBLE_CHOICE_ID: &str = "ensemble";
/// The id of the message about servers that are not used.
const UNUSED_SERVERS_ID: &str = "unused-servers";
/// Value of a model choice that keeps the model in the file.
const UNCHANGED_MODEL_VALUE: &str = "as_written";

/// A session of a client, which corresponds to one run.
pub(crate) struct AcpSession {
    pub(crate) id: RunId,
    pub(crate) service: RunService,
    /// The ensembles among which may be chosen, with their files.
    ensembles: Vec<(String, PathBuf)>,
    chosen_index: Cell<usize>,
    current_ensemble: RefCell<Arc<Ensemble>>,
    /// The models that were chosen, by profile.
    models: RefCell<Vec<(String, String)>>,
    /// The run has begun.
    pub(crate) has_begun: Cell<bool>,
    pub(crate) story: RefCell<SessionUpdateTracker>,
    /// The client's servers of tools.
    pub(crate) servers: RefCell<Arc<ClientServers>>,
    /// The name of the client, if the client gave one.
    pub(crate) client: RefCell<Option<String>>,
    /// True if the client was informed about the unused servers.
    pub(crate) has_told_unused: Cell<bool>,
    pub(crate) turn: RefCell<Option<ActivePrompt>>,
    /// The question that was shown as text. The next prompt is its answer.
    pub(crate) shown_question: RefCell<Option<PendingRequest>>,
    /// Messages of the user that continue the run after its questions are answered, in their order.
    pub(crate) waiting_messages: RefCell<VecDeque<String>>,
    /// The session is being loaded, so it takes no prompt.
    pub(crate) is_loading: Cell<bool>,
}

/// A prompt that is being handled, with its cancellation.
pub(crate) struct ActivePrompt {
    /// The id of its request.
    pub(crate) request: Value,
    pub(crate) cancelled: watch::Sender<bool>,
}

impl AcpSession {
    /// Creates a session with the first of these ensembles.
    pub(crate) fn new(id: RunId, service: RunService, ensembles: Vec<(String, PathBuf)>) -> Result<Self, RpcError> {
        let Some((_, file)) = ensembles.first() else {
            return Err(RpcError::internal_error(
                "there is no ensemble here; `ensemble init` creates one, and `ensemble acp FILE` serves one from elsewhere",
            ));
        };
        let read = load_ensemble(&service, file)?;
        Ok(Self::with_state(id, service, read, ensembles, false))
    }

    /// Creates the session of a recorded run.
    pub(crate) fn for_recorded_run(id: RunId, service: RunService, read: Arc<Ensemble>) -> Self {
        Self::with_state(id, service, read, Vec::new(), true)
    }

    /// Creates a session. `read` is the loaded ensemble, and `has_begun` is true if the run exists.
    fn with_state(
        id: RunId,
        service: RunService,
        read: Arc<Ensemble>,
        ensembles: Vec<(String, PathBuf)>,
        has_begun: bool,
    ) -> Self {
        Self {
            story: RefCell::new(SessionUpdateTracker::new(id.clone(), &read)),
            id,
            service,
            ensembles,
            chosen_index: Cell::new(0),
            current_ensemble: RefCell::new(read),
            models: RefCell::default(),
            has_begun: Cell::new(has_begun),
            shown_question: RefCell::default(),
            waiting_messages: RefCell::default(),
            is_loading: Cell::new(false),
            servers: RefCell::default(),
            client: RefCell::default(),
            has_told_unused: Cell::new(false),
            turn: RefCell::default(),
        }
    }

    /// Creates the author of answers from the client.
    pub(crate) fn client_answer_author(&self) -> AnswerAuthor {
        let client = self.client.borrow();
        AnswerAuthor::with_visible_user(AnswerSource::Acp, client.as_deref().unwrap_or_default())
    }

    /// Returns a reference to the file of the chosen ensemble.
    pub(crate) fn ensemble_ref(&self) -> EnsembleRef {
        let file = self.ensembles.get(self.chosen_index.get());
        EnsembleRef::from_file_or_name(file.map_or_else(String::new, |(_, file)| file.display().to_string()))
    }

    /// Creates the options of a run that starts or resumes.
    pub(crate) fn build_run_options(&self) -> RunOptions {
        let models = self.models.borrow();
        let options = RunOptions {
            servers: self.servers.borrow().clone(),
            ..RunOptions::default()
        };
        let chosen_models = models.iter();
        chosen_models.fold(options, |options, (profile, model)| {
            options.with_model_override(profile, model)
        })
    }

    /// Returns the MCP servers of the client that no tool of the ensemble uses. Returns none if a nested ensemble could use them.
    fn unused_client_servers(&self) -> Vec<Arc<str>> {
        let read = self.current_ensemble.borrow();
        let mut agents = read.agents.iter();
        let mut tools = read.tools.iter();
        if agents.any(|agent| matches!(agent.kind, AgentKind::Ensemble { .. }))
            || tools.any(|(_, tool)| matches!(tool.kind, ToolKind::Ensemble { .. }))
        {
            return Vec::new();
        }
        let is_used = |name: &str| {
            let tool = read.find_tool(name);
            tool.is_some_and(|tool| tool.kind == ToolKind::Mcp(McpServer::Client))
        };
        let servers = self.servers.borrow();
        servers.names().filter(|name| !is_used(name)).cloned().collect()
    }

    /// Creates the first message of the session, about servers of the client that the ensemble does not use. Returns `None` if
    /// there are no such servers, or if the message was sent.
    pub(crate) fn unused_servers_update(&self) -> Option<SessionUpdate> {
        if self.has_told_unused.replace(true) {
            return None;
        }
        let unused = self.unused_client_servers();
        let first = unused.first()?;
        let names = unused.join(", ");
        Some(SessionUpdate::AgentMessage(MessageChunk {
            id: UNUSED_SERVERS_ID.to_owned(),
            text: format!(
                "The ensemble uses none of the MCP servers of the client: {names}. To use the first one, define a tool `{first}` with `mcp: client`.\n\n"
            ),
            source: None,
        }))
    }

    /// Converts the choices of the client to JSON.
    pub(crate) fn choices_json(&self) -> Value {
        config_options_json(&self.list_offered_choices())
    }

    /// Lists the choices of the client: the ensemble before the start, and a model for each profile.
    fn list_offered_choices(&self) -> Vec<SessionChoice> {
        let read = self.current_ensemble.borrow();
        let models = self.models.borrow();
        let mut offered = Vec::new();
        if self.ensembles.len() > 1 && !self.has_begun.get() {
            let names = self.ensembles.iter().map(|(name, _)| (name.clone(), name.clone()));
            offered.push(SessionChoice {
                id: ENSEMBLE_CHOICE_ID.to_owned(),
                name: "Ensemble".to_owned(),
                is_model: false,
                current: self.ensembles[self.chosen_index.get()].0.clone(),
                values: names.collect(),
            });
        }
        let model_name = |provider: &str, model: &str| match model {
            "" => provider.to_owned(),
            model => format!("{provider}/{model}"),
        };
        for (profile, about) in &read.model_profiles {
            let own_model = model_name(&about.provider, &about.model);
            let mut values = vec![(UNCHANGED_MODEL_VALUE.to_owned(), own_model.clone())];
            let other_models = read
                .model_profiles
                .iter()
                .map(|(_, other)| model_name(&other.provider, &other.model));
            for other_model in other_models.chain(["simulated".to_owned()]) {
                if other_model != own_model && !values.iter().any(|(known, _)| *known == other_model) {
                    values.push((other_model.clone(), other_model));
                }
            }
            let chosen_model = models.iter().find(|(known, _)| **known == **profile);
            offered.push(SessionChoice {
                id: format!("model:{profile}"),
                name: format!("Model of {profile}"),
                is_model: true,
                current: chosen_model
                    .map_or(UNCHANGED_MODEL_VALUE, |(_, model)| model)
                    .to_owned(),
                values,
            });
        }
        offered
    }

    /// Sets the ensemble or the model of a profile to the chosen value.
    pub(crate) fn apply_choice(&self, id: &str, chosen: &str) -> Result<(), RpcError> {
        let offered = self.list_offered_choices();
        let choice = offered.iter().find(|choice| choice.id == id);
        let choice = choice.ok_or_else(|| RpcError::invalid_params(format!("there is no option `{id}` now")))?;
        let at = choice.values.iter().position(|(known, _)| known == chosen);
        let at = at.ok_or_else(|| RpcError::invalid_params(format!("`{id}` has no value `{chosen}`")))?;
        if let Some(profile) = id.strip_prefix("model:") {
            let mut models = self.models.borrow_mut();
            models.retain(|(known, _)| known != profile);
            if chosen != UNCHANGED_MODEL_VALUE {
                models.push((profile.to_owned(), chosen.to_owned()));
            }
            return Ok(());
        }
        let read = load_ensemble(&self.service, &self.ensembles[at].1)?;
        self.chosen_index.set(at);
        self.models.borrow_mut().clear();
        self.story.replace(SessionUpdateTracker::new(self.id.clone(), &read));
        self.current_ensemble.replace(read);
        Ok(())
    }
}

/// Prepares the ensemble in this file.
fn load_ensemble(service: &RunService, file: &Path) -> Result<Arc<Ensemble>, RpcError> {
    let prepared = service
        .runs()
        .load_prepared_ensemble(&EnsembleRef::from_file_or_name(file.display().to_string()));
    let prepared = prepared.map_err(RpcError::internal_error)?;
    Ok(prepared.plan.ensemble().clone())
}
