//! The entry point of the run layer: everything that starts with an ensemble or a recorded run.
//!
//! Invariant: a run that is driven elsewhere cannot be resumed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_core::conversation::{Event, MessageAdded, Record, RunResumed};
use ensemble_core::executor::WallClock;
use ensemble_core::operator::Operator;
use ensemble_core::secrets::Secrets;
use ensemble_core::store::{RunId, RunLease, RunStore, StoreError, StoredRun};
use ensemble_language::data::RunContext;
use ensemble_language::source::SourceText;
use ensemble_process::kill_processes_of_run;

use crate::drive::host::RunHost;
use crate::drive::run::RunHandle;
use crate::error::RunError;
use crate::inputs;
use crate::inputs::InputValues;
use crate::options::run_options::RunOptions;
use crate::prepare::{PreparedEnsemble, prepare_file, prepare_text};
use crate::project::Project;
use crate::start::definitions::RecordedDefinitions;
use crate::start::nested_run::PROGRAM_VERSION;
use crate::start::ready::{AgentBuildOptions, ReadyRun, RunArguments, RunOpening};
use crate::start::recorded_run::{RecordedRun, list_agents_to_rerun};
use crate::start::secrets::collect_run_secrets;
use crate::store::files::FileRunStore;

/// The runs of a project: an API that starts new runs and continues recorded runs.
#[derive(Clone)]
pub struct Runs {
    project: Project,
    host: RunHost,
    /// `None`: files in the root of each ensemble's project.
    store: Option<Arc<dyn RunStore>>,
}

/// A reference to an ensemble: its file, its name or its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnsembleRef {
    /// A file, or the name of an ensemble of the project.
    Named(String),
    /// A text, as if it stood in a file in the caller's folder.
    Text(String),
}

/// A reference to a recorded run: its id or name, or the latest run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunSelector {
    /// The run with the last id.
    Latest,
    /// The run with this id, or the only run whose id starts with this text. A file store also accepts the path of a run's folder or
    /// journal.
    Named(String),
    /// The run with this id, which is never a path.
    Id(RunId),
}

/// A recorded run with the lease to drive it. No other process can drive the run until this value, or the run that it becomes, is dropped.
pub struct LeasedRun {
    runs: Runs,
    recorded_run: RecordedRun,
    lease: Box<dyn RunLease>,
}

impl EnsembleRef {
    /// Refers to the ensemble in this file, or with this name.
    pub fn from_file_or_name(named: impl Into<String>) -> Self {
        Self::Named(named.into())
    }

    /// Refers to an ensemble by its text.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }
}

impl From<&str> for EnsembleRef {
    fn from(named: &str) -> Self {
        Self::Named(named.to_owned())
    }
}

impl From<&str> for RunSelector {
    fn from(named: &str) -> Self {
        Self::Named(named.to_owned())
    }
}

impl From<&RunId> for RunSelector {
    fn from(id: &RunId) -> Self {
        Self::Id(id.clone())
    }
}

impl From<Option<&str>> for RunSelector {
    fn from(named: Option<&str>) -> Self {
        named.map_or(Self::Latest, Into::into)
    }
}

impl Runs {
    /// Creates the runs of the project, which are stored in files.
    pub fn for_project(project: Project, host: RunHost) -> Self {
        Self {
            project,
            host,
            store: None,
        }
    }

    /// Stores all runs in this store.
    #[must_use]
    pub fn with_store(self, store: Arc<dyn RunStore>) -> Self {
        Self {
            store: Some(store),
            ..self
        }
    }

    /// Sends the questions of all runs to this operator.
    #[must_use]
    pub fn with_operator(self, operator: Arc<dyn Operator>) -> Self {
        Self {
            host: self.host.with_operator(operator),
            ..self
        }
    }

    /// Withholds a server's token, and `variable`, which contains the token, from child processes and models.
    #[must_use]
    pub fn with_server_token(self, token: &str, variable: Option<&str>) -> Self {
        Self {
            host: self.host.with_server_token(token, variable),
            ..self
        }
    }

    /// Returns the project in which ensembles are searched.
    pub fn project(&self) -> &Project {
        &self.project
    }

    /// Returns the host of the runs.
    pub fn host(&self) -> &RunHost {
        &self.host
    }

    /// Returns the store of recorded runs.
    pub fn store(&self) -> Arc<dyn RunStore> {
        self.store_for_root(&self.project.project_root(&self.project.folder))
    }

    /// Returns the configured store, or the file store of the project with this root.
    pub(crate) fn store_for_root(&self, root: &Path) -> Arc<dyn RunStore> {
        match &self.store {
            Some(store) => Arc::clone(store),
            None => Arc::new(FileRunStore::for_project(root)),
        }
    }

    /// Resolves the recorded run. A path is relative to the folder of the project.
    ///
    /// # Errors
    ///
    /// There is no such run, or several runs match.
    pub async fn resolve_run(&self, which: impl Into<RunSelector>) -> Result<Arc<dyn StoredRun>, StoreError> {
        match which.into() {
            RunSelector::Latest => self.store().find_latest_run().await,
            RunSelector::Id(id) => self.store().find_run_by_id(&id).await,
            RunSelector::Named(named) => {
                // A path begins in the caller's folder, not in that of the process.
                let path = self.project.folder.join(&named);
                let name_or_path = if path.exists() {
                    path.display().to_string()
                } else {
                    named
                };
                self.store().find_run_by_prefix(&name_or_path).await
            }
        }
    }

    /// Collects the secrets of all runs of this ensemble: those of the ensemble, its nested ensembles and this program.
    ///
    /// # Errors
    ///
    /// A configuration cannot be read.
    pub fn collect_secrets(&self, prepared: &PreparedEnsemble) -> Result<Secrets, RunError> {
        Ok(collect_run_secrets(prepared, &self.project, &self.host)?)
    }

    /// Loads, checks and compiles an ensemble.
    ///
    /// # Errors
    ///
    /// The ensemble is not found, or has errors, all of which are reported.
    pub fn load_prepared_ensemble(&self, ensemble: &EnsembleRef) -> Result<PreparedEnsemble, RunError> {
        Ok(match ensemble {
            EnsembleRef::Named(named) => prepare_file(&self.project.resolve_ensemble_file(named)?, &self.project)?,
            EnsembleRef::Text(text) => {
                let folder = self.project.folder.clone();
                let root = self.project.project_root(&folder);
                let file = folder.join("ensemble");
                prepare_text(SourceText::new("ensemble", text.as_str()), file, folder, root)?
            }
        })
    }

    /// Prepares a new run of an ensemble: builds its agents, and writes nothing.
    ///
    /// # Errors
    ///
    /// The ensemble has errors, an agent cannot run, or an option does not match the ensemble.
    pub fn prepare_run(&self, ensemble: impl Into<EnsembleRef>, options: RunOptions) -> Result<ReadyRun, RunError> {
        let prepared = Arc::new(self.load_prepared_ensemble(&ensemble.into())?);
        self.prepare_run_from_prepared(prepared, options)
    }

    /// Prepares a new run of an ensemble that was prepared before. Writes nothing.
    ///
    /// # Errors
    ///
    /// An agent cannot run, or an option does not match the ensemble.
    pub fn prepare_run_from_prepared(
        &self,
        prepared: Arc<PreparedEnsemble>,
        mut options: RunOptions,
    ) -> Result<ReadyRun, RunError> {
        let default = prepared.plan.ensemble().default_task.as_deref();
        let input = options.input.take();
        let input = input.unwrap_or_else(|| default.unwrap_or_default().into());
        let input_values = InputValues {
            values: std::mem::take(&mut options.context),
            texts: std::mem::take(&mut options.texts),
        };
        let inputs = match inputs::resolve_inputs(prepared.plan.ensemble(), &input_values) {
            Ok(inputs) => inputs,
            Err(mut wrong) => {
                let secrets = self.collect_secrets(&prepared)?;
                wrong.iter_mut().for_each(|error| error.redact_schema_errors(&secrets));
                return Err(RunError::Inputs(wrong));
            }
        };
        // The inputs are in the context, too; without declared inputs, everything is.
        let context = inputs.clone().unwrap_or(input_values.values);
        let models = options.models.clone();
        let file = self.project.folder.join(prepared.source.name());
        let store = self.store_for_root(&prepared.root);
        let id = options.id.take();
        if let Some(id) = &id {
            id.check_validity().map_err(StoreError::from)?;
        }
        let built_agents = self.agent_build_options(prepared, options, &models).build_agents()?;
        let started = built_agents.build_start_event(
            file.display().to_string(),
            RunArguments {
                input,
                context,
                inputs: inputs.unwrap_or_default(),
            },
            &models,
        );
        let first = Record {
            seq: 0,
            at: self.host.now(),
            event: Event::RunStarted(Box::new(started)),
        };
        Ok(built_agents.into_ready_run(RunOpening::New {
            store,
            id,
            records: vec![first],
            then: None,
        }))
    }

    /// Returns the options for building the agents of a run of this project.
    pub(crate) fn agent_build_options<'a>(
        &'a self,
        prepared: Arc<PreparedEnsemble>,
        options: RunOptions,
        models: &'a [String],
    ) -> AgentBuildOptions<'a> {
        AgentBuildOptions {
            prepared,
            options,
            models,
            project: &self.project,
            host: &self.host,
            inner_run_driver: None,
            are_checked: false,
        }
    }

    /// Starts a run, and returns its handle.
    ///
    /// # Errors
    ///
    /// As [`Self::prepare_run`], or the store cannot be written.
    pub async fn start_run(
        &self,
        ensemble: impl Into<EnsembleRef>,
        options: RunOptions,
    ) -> Result<RunHandle, RunError> {
        self.prepare_run(ensemble, options)?.start_and_spawn().await
    }

    /// Takes the lease to drive a recorded run, and loads the run.
    ///
    /// # Errors
    ///
    /// There is no such run, another process drives the run, or the run cannot be read.
    pub async fn lease_and_load_run(&self, which: impl Into<RunSelector>) -> Result<LeasedRun, RunError> {
        let run = self.resolve_run(which).await?;
        let lease = run.acquire_lease().await?;
        Ok(LeasedRun {
            runs: self.clone(),
            recorded_run: RecordedRun::load(run, &self.project).await?,
            lease,
        })
    }

    /// Resumes a run that was interrupted or that waits for input. Checks the answers of the options first.
    ///
    /// # Errors
    ///
    /// As [`Self::lease_and_load_run`] and [`LeasedRun::prepare_resume`], or the store cannot be written.
    pub async fn resume_run(&self, which: impl Into<RunSelector>, options: RunOptions) -> Result<RunHandle, RunError> {
        let leased_run = self.lease_and_load_run(which).await?;
        let mut options = options;
        leased_run.check_resume_options(&mut options).await?;
        leased_run.prepare_resume(options)?.start_and_spawn().await
    }

    /// Continues an ended run with a user message.
    ///
    /// # Errors
    ///
    /// As [`Self::lease_and_load_run`] and [`LeasedRun::prepare_continuation`], or the store cannot be written.
    pub async fn continue_with_message(
        &self,
        which: impl Into<RunSelector>,
        message: impl Into<Arc<str>>,
        options: RunOptions,
    ) -> Result<RunHandle, RunError> {
        let leased_run = self.lease_and_load_run(which).await?;
        leased_run
            .prepare_continuation(message, RunContext::default(), options)?
            .start_and_spawn()
            .await
    }

    /// Resolves the file of an ensemble from its name or path, relative to the folder of the project.
    pub(crate) fn resolve_ensemble_file(&self, named: &str) -> Result<PathBuf, RunError> {
        Ok(self.project.resolve_ensemble_file(named)?)
    }
}

impl LeasedRun {
    /// Returns the recorded run.
    pub fn recorded_run(&self) -> &RecordedRun {
        &self.recorded_run
    }

    /// Prepares the run to be resumed where it stopped.
    ///
    /// # Errors
    ///
    /// The run has ended, an agent cannot run, or an option does not match the ensemble.
    pub fn prepare_resume(self, options: RunOptions) -> Result<ReadyRun, RunError> {
        if self.recorded_run.has_final_end() {
            return Err(RunError::IsOver(self.recorded_run.run.id().clone()));
        }
        let first = Event::RunResumed(RunResumed {
            program: PROGRAM_VERSION.to_owned(),
            again: list_agents_to_rerun(&self.recorded_run.prepared, &self.recorded_run.state),
            ..RunResumed::default()
        });
        self.prepare_next_segment(first, options)
    }

    /// Prepares an ended run to be continued with a user message and the values of `set` for its inputs and context. Abandons the open turn
    /// of a cancelled or timed-out run, and kills its leftover processes.
    ///
    /// # Errors
    ///
    /// The run has not ended or waits for input, an agent cannot run, or an option or a value does not match the ensemble.
    pub fn prepare_continuation(
        self,
        message: impl Into<Arc<str>>,
        set: RunContext,
        mut options: RunOptions,
    ) -> Result<ReadyRun, RunError> {
        if !self.recorded_run.can_continue_with_message() {
            return Err(RunError::NotEnded(self.recorded_run.run.id().clone()));
        }
        let set = InputValues {
            values: set,
            texts: std::mem::take(&mut options.texts),
        };
        let set = self
            .recorded_run
            .resolve_set_values(self.recorded_run.prepared.plan.ensemble(), &set)?;
        if self.recorded_run.state.open_turn().is_some() {
            kill_processes_of_run(&self.recorded_run.start_event()?.run_id);
        }
        let text = message.into();
        let message = MessageAdded {
            text,
            set,
            ..MessageAdded::default()
        };
        self.prepare_next_segment(Event::MessageAdded(message), options)
    }

    /// Builds the agents, and prepares the recorded run to continue with this first event.
    fn prepare_next_segment(self, mut first: Event, mut options: RunOptions) -> Result<ReadyRun, RunError> {
        let recorded = self.recorded_run;
        options.inherit_replacements(recorded.start_event()?, |_| true);
        let models = match options.models.is_empty() {
            true => recorded.start_event()?.models.clone(),
            false => options.models.clone(),
        };
        let built_agents = self
            .runs
            .agent_build_options(recorded.prepared.clone(), options, &models)
            .build_agents()?;
        let definitions = Some(built_agents.compute_current_definitions());
        if definitions != RecordedDefinitions::from_records(&recorded.journal.records).latest {
            match &mut first {
                Event::RunResumed(resumed) => resumed.definitions = definitions,
                Event::MessageAdded(message) => message.definitions = definitions,
                _ => {}
            }
        }
        Ok(built_agents.into_ready_run(RunOpening::Resume {
            end: recorded.journal.end,
            run: recorded.run,
            lease: self.lease,
            state: Box::new(recorded.state),
            first,
        }))
    }
}
