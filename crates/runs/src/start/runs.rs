//! The front of the run layer: everything that begins with an ensemble or a recorded run.
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

/// The runs of a project: starts them, and goes on with those that are recorded.
#[derive(Clone)]
pub struct Runs {
    project: Project,
    host: RunHost,
    /// `None`: files in the root of each ensemble's project.
    store: Option<Arc<dyn RunStore>>,
}

/// An ensemble, by its file, its name, or its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnsembleRef {
    /// A file, or the name of an ensemble of the project.
    Named(String),
    /// A text, as if it stood in a file in the caller's folder.
    Text(String),
}

/// A recorded run, by its id or as the latest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunSelector {
    /// The run with the last id.
    Latest,
    /// The run with this id, or the only one whose id begins so; for files also the path of a run's folder or journal.
    Named(String),
    /// The run with this id, which is never a path.
    Id(RunId),
}

/// A recorded run with the right to drive it: nobody else can, until this or the run that it becomes is dropped.
pub struct LeasedRun {
    runs: Runs,
    recorded_run: RecordedRun,
    lease: Box<dyn RunLease>,
}

impl EnsembleRef {
    /// Returns the ensemble in that file, or of that name.
    pub fn from_file_or_name(named: impl Into<String>) -> Self {
        Self::Named(named.into())
    }

    /// Returns the ensemble of that text.
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
    /// Returns the runs of the project, kept in files.
    pub fn for_project(project: Project, host: RunHost) -> Self {
        Self {
            project,
            host,
            store: None,
        }
    }

    /// Keeps all runs in this store.
    #[must_use]
    pub fn with_store(self, store: Arc<dyn RunStore>) -> Self {
        Self {
            store: Some(store),
            ..self
        }
    }

    /// Returns the same runs, of which this operator is asked.
    #[must_use]
    pub fn with_operator(self, operator: Arc<dyn Operator>) -> Self {
        Self {
            host: self.host.with_operator(operator),
            ..self
        }
    }

    /// Returns the same runs, of which no child process and no model gets this token. `variable`: the variable that contains
    /// the token.
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

    /// Returns the world around the runs.
    pub fn host(&self) -> &RunHost {
        &self.host
    }

    /// Returns the store in which recorded runs are searched.
    pub fn store(&self) -> Arc<dyn RunStore> {
        self.store_for_root(&self.project.project_root(&self.project.folder))
    }

    pub(crate) fn store_for_root(&self, root: &Path) -> Arc<dyn RunStore> {
        match &self.store {
            Some(store) => Arc::clone(store),
            None => Arc::new(FileRunStore::for_project(root)),
        }
    }

    /// Returns the recorded run.
    ///
    /// # Errors
    /// There is no such run, or several.
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

    /// Returns the secrets of all runs of this ensemble: those of the ensemble, of the ensembles that it names, and of this
    /// program.
    ///
    /// # Errors
    /// A configuration cannot be read.
    pub fn collect_secrets(&self, prepared: &PreparedEnsemble) -> Result<Secrets, RunError> {
        Ok(collect_run_secrets(prepared, &self.project, &self.host)?)
    }

    /// Makes an ensemble ready to run: reads, checks and compiles it.
    ///
    /// # Errors
    /// The ensemble is not found, or has errors, all of which are told.
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

    /// Makes the agents of an ensemble ready for a new run. Nothing is written before the run begins.
    ///
    /// # Errors
    /// The ensemble has errors, an agent cannot run, or an option does not fit the ensemble.
    pub fn prepare_run(&self, ensemble: impl Into<EnsembleRef>, options: RunOptions) -> Result<ReadyRun, RunError> {
        let prepared = Arc::new(self.load_prepared_ensemble(&ensemble.into())?);
        self.prepare_run_from_prepared(prepared, options)
    }

    /// Likewise, for an ensemble that was prepared before.
    ///
    /// # Errors
    /// An agent cannot run, or an option does not fit the ensemble.
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

    /// Starts a run.
    ///
    /// # Errors
    /// As [`Self::prepare_run`], or the store cannot be written.
    pub async fn start_run(
        &self,
        ensemble: impl Into<EnsembleRef>,
        options: RunOptions,
    ) -> Result<RunHandle, RunError> {
        self.prepare_run(ensemble, options)?.start_and_spawn().await
    }

    /// Takes the right to drive a recorded run, and reads the run.
    ///
    /// # Errors
    /// There is no such run, somebody else drives it, or it cannot be read.
    pub async fn lease_and_load_run(&self, which: impl Into<RunSelector>) -> Result<LeasedRun, RunError> {
        let run = self.resolve_run(which).await?;
        let lease = run.acquire_lease().await?;
        Ok(LeasedRun {
            runs: self.clone(),
            recorded_run: RecordedRun::load(run, &self.project).await?,
            lease,
        })
    }

    /// Goes on with a run that was cut short or that waits for input.
    ///
    /// # Errors
    /// As [`Self::lease_run`] and [`HeldRun::prepare_resume`], or the store cannot be written.
    pub async fn resume_run(&self, which: impl Into<RunSelector>, options: RunOptions) -> Result<RunHandle, RunError> {
        let leased_run = self.lease_and_load_run(which).await?;
        let mut options = options;
        leased_run.check_resume_options(&mut options).await?;
        leased_run.prepare_resume(options)?.start_and_spawn().await
    }

    /// Adds a user message to a run that has ended, and goes on.
    ///
    /// # Errors
    /// As [`Self::lease_run`] and [`HeldRun::prepare_continuation`], or the store cannot be written.
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

    /// Returns the file of an ensemble, for a person who is in the caller's folder.
    pub(crate) fn resolve_ensemble_file(&self, named: &str) -> Result<PathBuf, RunError> {
        Ok(self.project.resolve_ensemble_file(named)?)
    }
}

impl LeasedRun {
    /// Returns the run as it is recorded.
    pub fn recorded_run(&self) -> &RecordedRun {
        &self.recorded_run
    }

    /// Makes the run ready to go on from where it stopped.
    ///
    /// # Errors
    /// The run has ended, an agent cannot run, or an option does not fit the ensemble.
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

    /// Makes a run that has ended ready to go on with a user message, and with the values of `set` in its context and in
    /// place of its inputs. The turn that is open in a run that was cancelled or timed out is abandoned.
    ///
    /// # Errors
    /// The run has not ended or waits for input, an agent cannot run, or an option or a value does not fit the ensemble.
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
