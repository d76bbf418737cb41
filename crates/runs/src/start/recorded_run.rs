//! A recorded run: its records, its state, and its ensemble as it was.
//!
//! Invariant: loading a run does not change the run.

use std::path::Path;
use std::sync::Arc;

use ensemble_core::conversation::{ConversationState, Event, ExecutionProgress, Record, RunStarted};
use ensemble_core::runner::BoxFuture;
use ensemble_core::store::{JournalContents, StoredRun};
use ensemble_language::data::{RunContext, sha256_of_text};
use ensemble_language::ensemble::{Ensemble, OnResume};
use ensemble_language::loader::{self, ComparedEnsemble, EnsembleChanges};
use ensemble_language::source::SourceText;

use crate::error::RunError;
use crate::inputs::InputValues;
use crate::options::arguments::parse_model_overrides;
use crate::prepare::{PreparedEnsemble, prepare_file, prepare_text};
use crate::project::Project;
use crate::start::carried_inputs::carry_inputs_over;
use crate::start::definitions::{DefinitionOptions, RecordedDefinitions, compute_definitions};

/// A recorded run with its records, its state, and the ensemble as it was when the run started.
pub struct RecordedRun {
    /// The run.
    pub run: Arc<dyn StoredRun>,
    /// The records of the run, with the end of its log.
    pub journal: JournalContents,
    /// The ensemble as it was when the run started.
    pub prepared: Arc<PreparedEnsemble>,
    /// The fold of its log.
    pub state: ConversationState,
}

impl RecordedRun {
    /// Loads the run from its store.
    ///
    /// # Errors
    ///
    /// The log or the ensemble cannot be read.
    pub fn load<'f>(run: Arc<dyn StoredRun>, project: &'f Project) -> BoxFuture<'f, Result<Self, RunError>> {
        Box::pin(async move {
            let journal = run.read_journal().await?;
            let prepared = load_recorded_ensemble(&*run, find_start_event(&journal.records)?, project).await?;
            let state = ConversationState::from_records(prepared.plan.clone(), &journal.records)?;
            Ok(Self {
                run,
                journal,
                prepared: Arc::new(prepared),
                state,
            })
        })
    }

    /// Returns the first event of the log.
    ///
    /// # Errors
    ///
    /// The log starts with another event.
    pub fn start_event(&self) -> Result<&RunStarted, RunError> {
        find_start_event(&self.journal.records)
    }

    /// Returns whether the run ended with an outcome that `resume` cannot continue.
    pub fn has_final_end(&self) -> bool {
        let run_end = self.state.run_end();
        run_end.is_some_and(|ended| !ended.completion_reason.is_resumable())
    }

    /// Returns whether a user message can continue the run.
    pub fn can_continue_with_message(&self) -> bool {
        let run_end = self.state.run_end();
        run_end.is_some_and(|ended| ended.completion_reason.is_continuable())
    }

    /// Checks the values that a message sets against the ensemble. Returns the values as changes of the context.
    ///
    /// # Errors
    ///
    /// A value does not match its input, or a name is unknown.
    pub(crate) fn resolve_set_values(&self, ensemble: &Ensemble, set: &InputValues) -> Result<RunContext, RunError> {
        if set.values.is_empty() {
            return Ok(RunContext::default());
        }
        let before = self.start_event()?;
        let context = self.state.context();
        let is_context_name = |name: &str| context.get(name).is_some() && before.inputs.get(name).is_none();
        let carried = carry_inputs_over(ensemble, before, &self.journal.records, set, is_context_name);
        Ok(carried.map_err(RunError::Inputs)?.context_changes)
    }

    /// Returns the path of the ensemble's file and its changes since the run started. Returns `None` if the file is unchanged or missing.
    pub fn compare_current_file(&self, project: &Project) -> Option<(String, EnsembleChanges)> {
        let started = self.start_event().ok()?;
        let path = project.relative_path(Path::new(&started.ensemble_file));
        let file = project.read_file(&path).ok()?;
        if sha256_of_text(file.text()) == started.ensemble_digest {
            return None;
        }
        let loaded = loader::load_ensemble(&file);
        let recorded = ComparedEnsemble::from_text(self.prepared.loaded.document.as_ref()?);
        let changes = loader::compare_ensembles(recorded, ComparedEnsemble::from_text(loaded.document.as_ref()?));
        (!changes.is_empty()).then(|| (path.display().to_string(), changes))
    }

    /// Describes each script, nested ensemble and profile that has changed since the run recorded its digest. The run continues with the
    /// current versions.
    pub fn describe_changed_definitions(&self, project: &Project) -> Vec<String> {
        let recorded = RecordedDefinitions::from_records(&self.journal.records).latest;
        let (Some(recorded), Ok(started)) = (recorded, self.start_event()) else {
            return Vec::new();
        };
        let (Ok(overrides), Some(document)) = (parse_model_overrides(&started.models), &self.prepared.loaded.document)
        else {
            return Vec::new();
        };
        let options = DefinitionOptions::for_records(&overrides, &started.stubs, &started.responders);
        let now = compute_definitions(&self.prepared, options, project);
        let side = |external| ComparedEnsemble {
            document,
            external: Some(external),
        };
        loader::compare_ensembles(side(&recorded), side(&now))
            .change_sentences()
            .collect()
    }
}

/// Lists the finished agents of the open turn with `on_resume: rerun`, which are executed again when the run is resumed.
pub fn list_agents_to_rerun(prepared: &PreparedEnsemble, state: &ConversationState) -> Vec<Arc<str>> {
    let slots = state.open_turn().into_iter().flat_map(|turn| &turn.slots);
    let finished = slots.filter(|slot| matches!(slot.progress, ExecutionProgress::Finished(_)));
    finished
        .map(|slot| slot.start.agent.clone())
        .filter(|agent| has_rerun_on_resume(prepared, agent))
        .collect()
}

/// Returns whether the agent has `on_resume: rerun`.
pub(crate) fn has_rerun_on_resume(prepared: &PreparedEnsemble, agent: &str) -> bool {
    let id = prepared.plan.find_agent_id(agent);
    id.is_some_and(|id| prepared.plan.agent(id).conversation.on_resume == OnResume::Rerun)
}

/// Returns the first event of the records.
///
/// # Errors
///
/// The records are empty or start with another event.
pub fn find_start_event(records: &[Record]) -> Result<&RunStarted, RunError> {
    match records.first().map(|record| &record.event) {
        Some(Event::RunStarted(started)) => Ok(started),
        _ => Err(RunError::NotBegun),
    }
}

/// Loads the ensemble as it was when the run started, from the copy in the store.
///
/// # Errors
///
/// The copy cannot be read, or has errors.
pub fn load_recorded_ensemble<'f>(
    run: &'f dyn StoredRun,
    started: &'f RunStarted,
    project: &'f Project,
) -> BoxFuture<'f, Result<PreparedEnsemble, RunError>> {
    Box::pin(async move {
        let source = match run.run_folder() {
            Some(folder) => {
                let name = project
                    .relative_path(&folder.join("ensemble.yaml"))
                    .display()
                    .to_string();
                SourceText::new(name, run.load_ensemble_text().await?)
            }
            None => SourceText::new(&*started.ensemble, run.load_ensemble_text().await?),
        };
        let file = Path::new(&started.ensemble_file);
        let stands_in = file.parent().unwrap_or(Path::new("."));
        let stands_in = stands_in.canonicalize().unwrap_or_else(|_| stands_in.to_owned());
        let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        Ok(prepare_text(
            source,
            file,
            stands_in,
            started.project_root.as_str().into(),
        )?)
    })
}

/// Loads the ensemble from the file from which the run was started. Returns `None` if the file has changed or cannot be loaded.
pub fn load_if_unchanged(started: &RunStarted, project: &Project) -> Option<PreparedEnsemble> {
    let file = project.relative_path(Path::new(&started.ensemble_file));
    let prepared = prepare_file(&file, project).ok()?;
    (sha256_of_text(prepared.source.text()) == started.ensemble_digest).then_some(prepared)
}
