//! The shortest way to run an ensemble: the ensemble, its options, and its result.
//!
//! Invariant: a run without an operator ends if it needs an answer, and does not wait.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;

use ensemble_agents::agent::kinds::generator::ResponseGenerator;
use ensemble_core::conversation::{CompletionReason, ConversationState, RunEnded, RunResult};
use ensemble_core::store::{RunId, RunStore};
use ensemble_history::answer::find_run_answer;
use ensemble_history::output_text;
use serde_json::Value;

use crate::drive::host::RunHost;
use crate::drive::run::RunHandle;
use crate::error::RunError;
use crate::options::run_options::RunOptions;
use crate::project::Project;
use crate::start::runs::{EnsembleRef, Runs};

/// A builder of a run. The run starts when the builder is awaited.
#[must_use = "a run begins when it is awaited"]
pub struct RunBuilder {
    ensemble: EnsembleRef,
    options: RunOptions,
    project: Project,
    host: RunHost,
    store: Option<Arc<dyn RunStore>>,
}

/// Creates a builder for a run of the ensemble with this file or name, with the folder and environment of the process. No operator answers
/// questions, so an input agent without an answer or a default ends the run as `waiting_for_input`. Use [`RunBuilder::start`] to answer
/// during the run, and [`Runs`] to resume, fork or replay runs.
pub fn run(ensemble: impl Into<EnsembleRef>) -> RunBuilder {
    RunBuilder {
        ensemble: ensemble.into(),
        options: RunOptions::default(),
        project: Project::from_process(),
        host: RunHost::from_system(),
        store: None,
    }
}

impl RunBuilder {
    /// Sets the input of the run. The default input is the ensemble's `default_task`.
    pub fn with_input(self, input: impl Into<Arc<str>>) -> Self {
        self.change_options(|options| options.with_input(input))
    }

    /// Sets a value of the context before the first turn.
    pub fn with_value(self, key: impl Into<Arc<str>>, value: impl Into<Value>) -> Self {
        self.change_options(|options| options.with_input_value(key, value))
    }

    /// Sets the answer of an input agent to all its questions. A list answers the executions in order.
    pub fn with_answer(self, agent: impl Into<String>, answer: impl Into<Value>) -> Self {
        self.change_options(|options| options.with_answer(agent, answer))
    }

    /// Lets the model of a profile answer for an input agent or a script agent.
    pub fn with_responder(self, agent: impl Into<Arc<str>>, profile: impl Into<Arc<str>>) -> Self {
        self.change_options(|options| options.with_responder(agent, profile))
    }

    /// Lets a generator answer for an input agent or a script agent.
    pub fn with_generator(self, agent: impl Into<Arc<str>>, generator: impl ResponseGenerator + 'static) -> Self {
        self.change_options(|options| options.with_generator(agent, generator))
    }

    /// Replaces the model of a profile (`*`: of all profiles) with `PROVIDER/MODEL` or `simulated`.
    pub fn with_model_override(self, profile: &str, model: &str) -> Self {
        self.change_options(|options| options.with_model_override(profile, model))
    }

    /// Allows calls of this tool (`*`: every tool) without asking.
    pub fn with_allowed_tool(self, tool: impl Into<String>) -> Self {
        self.change_options(|options| options.with_allowed_tool(tool))
    }

    /// Searches ensembles, scripts and configurations from this folder.
    pub fn with_folder(mut self, folder: impl Into<std::path::PathBuf>) -> Self {
        self.project.folder = folder.into();
        self
    }

    /// Uses this host instead of the environment of the process.
    pub fn with_host(self, host: RunHost) -> Self {
        Self { host, ..self }
    }

    /// Stores the run in this store instead of `.ensemble/runs`.
    pub fn with_store(self, store: Arc<dyn RunStore>) -> Self {
        Self {
            store: Some(store),
            ..self
        }
    }

    /// Applies a change to the options.
    fn change_options(self, change: impl FnOnce(RunOptions) -> RunOptions) -> Self {
        Self {
            options: change(self.options),
            ..self
        }
    }

    /// Starts the run in a separate task. Returns its handle, which can answer questions.
    ///
    /// # Errors
    ///
    /// The ensemble has errors, an agent cannot run, an option does not match the ensemble, or the store cannot be written.
    pub async fn start(self) -> Result<RunHandle, RunError> {
        let mut runs = Runs::for_project(self.project, self.host);
        if let Some(store) = self.store {
            runs = runs.with_store(store);
        }
        runs.start_run(self.ensemble, self.options).await
    }

    /// Runs the ensemble to its end without an operator, and returns the outcome.
    async fn run_unattended(mut self) -> Result<RunOutcome, RunError> {
        self.host = self.host.without_handle_as_operator();
        let run = self.start().await?;
        let finished = run.wait_and_close().await?;
        Ok(RunOutcome {
            run: finished.run,
            state: finished.state,
        })
    }
}

impl IntoFuture for RunBuilder {
    type Output = Result<RunOutcome, RunError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run_unattended())
    }
}

/// The outcome of a run: its end and its outputs.
pub struct RunOutcome {
    run: RunId,
    state: ConversationState,
}

impl RunOutcome {
    /// Returns the id of the run, for resuming, continuing and replaying it.
    pub fn run_id(&self) -> &RunId {
        &self.run
    }

    /// Returns the reason for the end of the run.
    pub fn completion_reason(&self) -> CompletionReason {
        let run_end = self.state.run_end();
        run_end.map_or(CompletionReason::Cancelled, |ended| ended.completion_reason)
    }

    /// Returns details of the end: the limit, the agent or the condition.
    pub fn end_detail(&self) -> Option<&str> {
        self.state.run_end()?.detail.as_deref()
    }

    /// Returns whether the conversation was completed without an interruption or a limit.
    pub fn is_completed(&self) -> bool {
        self.completion_reason() == CompletionReason::Completed
    }

    /// Returns whether the run reached its goal, so that its exit code is 0.
    pub fn is_success(&self) -> bool {
        self.state.run_end().is_some_and(RunEnded::is_success)
    }

    /// Returns the output of an agent's latest successful execution, a JSON object.
    pub fn latest_successful_output(&self, agent: &str) -> Option<Arc<Value>> {
        let entries = self.state.list_executions().filter(|entry| *entry.agent_name == *agent);
        entries
            .filter(|entry| entry.is_success())
            .last()
            .map(|entry| entry.output_data())
    }

    /// Returns the `response` of an agent's latest successful output.
    pub fn latest_response_text(&self, agent: &str) -> Option<String> {
        Some(
            self.latest_successful_output(agent)?
                .get("response")?
                .as_str()?
                .to_owned(),
        )
    }

    /// Returns the answer of the run as text: the declared result, or the latest output of an agent that can answer for the ensemble.
    pub fn answer_text(&self) -> Option<String> {
        find_run_answer(&self.state).map(|output| output_text(&output))
    }

    /// Returns a value of the context at the end of the run.
    pub fn context_value(&self, key: &str) -> Option<Arc<Value>> {
        self.state.context().get(key).cloned()
    }

    /// Returns the whole result as the JSON of `ensemble run --output json`.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(RunResult(&self.state)).unwrap_or_default()
    }

    /// Returns the state at the end of the run.
    pub fn state(&self) -> &ConversationState {
        &self.state
    }
}
