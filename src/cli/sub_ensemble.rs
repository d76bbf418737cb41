//! Ensembles as agents of ensembles: an inner conversation with its own journal inside the outer run's folder.

use std::path::PathBuf;
use std::sync::Arc;

use super::clock::SystemClock;
use super::error::CliError;
use super::prepare::{Prepared, prepare};
use super::project::Surroundings;
use super::wiring::{Shared, Wired, wire};
use ensemble_agents::agent::sub_ensemble::Conversations;
use ensemble_agents::agent::{BoxFuture, Execution};
use ensemble_core::conversation::{ConversationState, Event, RunResumed, RunStarted};
use ensemble_core::executor::{Executor, run_timeout};
use ensemble_core::thread::Silence;
use ensemble_language::data::{Context, digest};
use ensemble_reports::report::Silent;
use ensemble_runs::journal::{self, Durability, FORMAT, JournalWriter, ReadError, RunFolder, Store};

/// How deep ensembles may stand in ensembles.
const DEEPEST: usize = 8;

/// An inner ensemble, ready.
pub(super) struct Inner {
    /// Holds its conversations.
    pub conversations: Arc<dyn Conversations>,
    /// Does a simulated model take part?
    pub simulated: bool,
}

struct InnerEnsemble {
    prepared: Prepared,
    wired: Wired,
    outer_root: PathBuf,
    durability: Durability,
}

/// Makes the ensemble that an agent names ready: everything in it is checked before the outer run starts.
pub(super) fn inner(named: &str, outer: &Prepared, shared: &Shared) -> Result<Inner, CliError> {
    let surroundings: &Surroundings = &shared.surroundings;
    let path = surroundings.ensemble_file_from(named, &outer.folder, &outer.root)?;
    let absolute = surroundings.folder.join(&path);
    let absolute = absolute.canonicalize().unwrap_or(absolute);
    if let Some(at) = shared.outer.iter().position(|outer| *outer == absolute) {
        let mut circle: Vec<String> = shared.outer[at..]
            .iter()
            .map(|path| surroundings.relative(path).display().to_string())
            .collect();
        circle.push(circle[0].clone());
        return Err(CliError::usage(format!(
            "the ensemble contains itself: {}",
            circle.join(" → ")
        )));
    }
    if shared.outer.len() >= DEEPEST {
        return Err(CliError::usage(format!(
            "ensembles stand in ensembles more than {DEEPEST} deep"
        )));
    }
    let prepared = prepare(&path, surroundings)?;
    let mut shared = shared.clone();
    shared.outer.push(absolute);
    // The reporter knows nothing of an inner conversation, so nobody would give the floor back.
    shared.listener = Arc::new(Silence);
    let wired = wire(&prepared, &shared)?;
    let simulated = !wired.simulated.is_empty();
    let conversations = Arc::new(InnerEnsemble {
        outer_root: outer.root.clone(),
        prepared,
        wired,
        durability: shared.durability,
    });
    Ok(Inner {
        conversations,
        simulated,
    })
}

impl Conversations for InnerEnsemble {
    fn hold<'a>(
        &'a self,
        execution: &'a Execution,
        context: Context,
    ) -> BoxFuture<'a, Result<ConversationState, String>> {
        Box::pin(async move {
            self.converse(execution, context)
                .await
                .map_err(|error| error.to_string())
        })
    }
}

impl InnerEnsemble {
    async fn converse(&self, execution: &Execution, context: Context) -> Result<ConversationState, CliError> {
        let (folder, mut state, mut writer, is_new) = self.open(execution)?;
        let ended = state.ended();
        if ended.is_some_and(|ended| !ended.completion_reason.is_resumable()) {
            // It came to its end, and the outer run was cut short before it could hear of that.
            return Ok(state);
        }
        let (_sender, interruptions) = tokio::sync::mpsc::unbounded_channel();
        let mut executor = Executor {
            runners: self.wired.runners.clone(),
            ledger: &mut writer,
            reporter: &mut Silent,
            clock: &SystemClock,
            interruptions,
            timeout: run_timeout(&self.prepared.plan),
        };
        let program = env!("CARGO_PKG_VERSION").to_owned();
        let first = if is_new {
            Event::RunStarted(RunStarted {
                format: FORMAT,
                run_id: folder.id.as_str().into(),
                ensemble: self.prepared.plan.ensemble().name.clone(),
                ensemble_file: self.prepared.source.name().to_owned(),
                ensemble_digest: digest(self.prepared.source.text()),
                project_root: self.prepared.root.display().to_string(),
                input: execution.input.clone(),
                context,
                models: Vec::new(),
                simulated: self.wired.simulated.clone(),
                forked_from: None,
                program,
            })
        } else {
            Event::RunResumed(RunResumed {
                program,
                ..RunResumed::default()
            })
        };
        executor.commit(&mut state, first)?;
        executor.drive(&mut state).await?;
        Ok(state)
    }

    /// The inner run of this execution: the one that was interrupted, or a new one for an attempt that starts afresh.
    fn open(&self, execution: &Execution) -> Result<(RunFolder, ConversationState, JournalWriter, bool), CliError> {
        let outer = Store::of(&self.outer_root).folder().join(&*execution.run_id);
        let outer = RunFolder::at(&outer)
            .ok_or_else(|| CliError::Internal(format!("no run is in {}", outer.display())))?
            .known_as(&execution.run_id);
        let name = |attempt: u32| format!("{}-{}-{attempt}", execution.agent_name, execution.execution);
        // An attempt that was cut short before it came to its conversation has no folder.
        let before = (execution.attempt - execution.lost_attempts..execution.attempt)
            .rev()
            .find_map(|attempt| RunFolder::at(&outer.path().join("sub").join(name(attempt))));
        if let Some(folder) = before
            && let Some((state, writer)) = self.go_on(&folder, execution)?
        {
            return Ok((folder, state, writer, false));
        }
        let folder = outer.nested(&name(execution.attempt))?;
        folder.keep_ensemble(self.prepared.source.text())?;
        let writer = JournalWriter::create(&folder.journal(), self.durability);
        let state = ConversationState::new(self.prepared.plan.clone());
        Ok((folder.clone(), state, opened(writer, &folder)?, true))
    }

    /// The inner run in this folder, if it can go on: it stays where it began, so that no crash can part it.
    fn go_on(
        &self,
        folder: &RunFolder,
        execution: &Execution,
    ) -> Result<Option<(ConversationState, JournalWriter)>, CliError> {
        let mut state = ConversationState::new(self.prepared.plan.clone());
        let mut records = journal::open(&folder.journal())?;
        for record in records.by_ref() {
            match record {
                Ok(record) => state.apply(&record),
                // It was cut short before its first event.
                Err(ReadError::Empty(_)) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
        let began_with = state.started().map(|started| started.ensemble_digest.as_str());
        if began_with != Some(digest(self.prepared.source.text()).as_str()) {
            let file = self.prepared.source.name();
            execution
                .notes
                .warn(format!("{file} has changed, so its conversation starts afresh"));
            return Ok(None);
        }
        let writer = JournalWriter::resume(&folder.journal(), records.length(), records.format(), self.durability);
        Ok(Some((state, opened(writer, folder)?)))
    }
}

fn opened(writer: std::io::Result<JournalWriter>, folder: &RunFolder) -> Result<JournalWriter, CliError> {
    writer.map_err(|error| CliError::Internal(format!("cannot write {}: {error}", folder.journal().display())))
}
