//! The runs of conversations, by what was said in them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_core::conversation::Event;
use ensemble_core::store::{RunId, RunLogFollower, StoredRun};
use ensemble_language::data::{ModelUsage, sha256_of_text};
use ensemble_runs::service::run_service::RunService;
use ensemble_runs::start::recorded_run::{find_start_event, load_recorded_ensemble};

use super::messages::ChatProgramMessages;
use super::transcript::{ChatTranscript, TranscriptPosition, TranscriptSegmentEnd};
use crate::reply::ApiFailure;

/// The maximum number of runs that are remembered.
const MAX_REMEMBERED_RUNS: usize = 1000;

/// Runs that chat programs have started or named. The records of each are read once.
#[derive(Default)]
pub(super) struct ChatProgramRuns(HashMap<RunId, ChatProgramRun>);

/// Run with its ensemble, its input and its messages.
struct ChatProgramRun {
    /// The file of the ensemble.
    file: PathBuf,
    /// The digest of the input.
    input: String,
    follower: Box<dyn RunLogFollower>,
    transcript: ChatTranscript,
}

/// Run whose records match the messages.
pub(crate) struct MatchingRun {
    pub(crate) run: RunId,
    pub(crate) place: TranscriptPosition,
    /// Does anybody have to resume it?
    pub(crate) needs_resume: bool,
    /// The record from which its reply is to be followed.
    pub(crate) from: u64,
    /// What the run had used before the reply; `None` if the reply has not begun.
    pub(crate) used_before: Option<ModelUsage>,
}

impl ChatProgramRuns {
    /// Remembers a run, and forgets the oldest one if there are too many.
    pub(super) async fn remember_run(&mut self, run: &dyn StoredRun) -> Result<(), ApiFailure> {
        if self.0.contains_key(run.id()) {
            return Ok(());
        }
        let entry = ChatProgramRun::load(run).await?;
        if self.0.len() >= MAX_REMEMBERED_RUNS
            && let Some(oldest) = self.0.keys().min().cloned()
        {
            self.0.remove(&oldest);
        }
        self.0.insert(run.id().clone(), entry);
        Ok(())
    }

    /// Finds the run of this ensemble whose records match the messages: the run with this id, or any remembered one.
    ///
    /// `was_given` returns whether the client received the reply with this digest.
    ///
    /// # Errors
    /// There is no run with this id, or the messages do not continue it.
    pub(super) async fn find_matching_run(
        &mut self,
        runs: &RunService,
        file: &Path,
        messages: &ChatProgramMessages,
        id: Option<&str>,
        was_given: impl Fn(&str) -> bool,
    ) -> Result<Option<MatchingRun>, ApiFailure> {
        let Some(id) = id else {
            let mut latest_first: Vec<RunId> = self.0.keys().cloned().collect();
            latest_first.sort_by(|a, b| b.cmp(a));
            let mut others = Vec::new();
            for id in latest_first {
                // A run that was deleted is forgotten.
                let Ok(run) = runs.runs().resolve_run(&id).await else {
                    self.0.remove(&id);
                    continue;
                };
                match self.match_remembered_run(&run, runs, file, messages, &was_given).await {
                    Some(matched_run) if matched_run.place == TranscriptPosition::Replied => {
                        return Ok(Some(matched_run));
                    }
                    Some(matched_run) => others.push(matched_run),
                    None => {}
                }
            }
            return choose_latest_match(others);
        };
        let id = RunId::parse(id).map_err(|error| ApiFailure::not_found(error.to_string()))?;
        let run = runs.runs().store().find_run_by_id(&id).await;
        let run = run.map_err(|error| ApiFailure::not_found(error.to_string()))?;
        self.remember_run(&*run).await?;
        match self.match_remembered_run(&run, runs, file, messages, &was_given).await {
            Some(matched_run) => Ok(Some(matched_run)),
            None => Err(ApiFailure::bad_request(format!(
                "the messages do not continue run `{}`; remove `metadata.run` to start a new run",
                run.id()
            ))),
        }
    }

    /// Returns the run if it belongs to this ensemble and the messages match its records.
    async fn match_remembered_run(
        &mut self,
        run: &Arc<dyn StoredRun>,
        runs: &RunService,
        file: &Path,
        messages: &ChatProgramMessages,
        was_given: impl Fn(&str) -> bool,
    ) -> Option<MatchingRun> {
        let entry = self.0.get_mut(run.id()).filter(|entry| entry.file == file)?;
        let input = messages.find_input_message_count(&entry.input)?;
        entry.match_run_messages(run, runs, messages, input, was_given).await
    }
}

impl ChatProgramRun {
    /// Loads the first record of the run.
    async fn load(run: &dyn StoredRun) -> Result<Self, ApiFailure> {
        let read = async { run.open_reader().await?.next_record().await };
        let first = read.await.map_err(|error| ApiFailure::not_found(error.to_string()))?;
        match first.map(|record| record.event) {
            Some(Event::RunStarted(started)) => Ok(Self {
                file: canonical_or_same_path(Path::new(&started.ensemble_file)),
                input: sha256_of_text(&started.input),
                follower: run.open_follower(),
                transcript: ChatTranscript::default(),
            }),
            _ => Err(ApiFailure::not_found(format!(
                "the records of run `{}` do not begin with the start of a run",
                run.id()
            ))),
        }
    }

    /// Returns the run if the messages match its records and the client can continue it.
    async fn match_run_messages(
        &mut self,
        run: &Arc<dyn StoredRun>,
        runs: &RunService,
        messages: &ChatProgramMessages,
        input: usize,
        was_given: impl Fn(&str) -> bool,
    ) -> Option<MatchingRun> {
        // Before the log is read: what another process wrote before its end is read, too.
        let is_here = runs.is_driven_here(run.id());
        let is_elsewhere = run
            .lease_holder_pid()
            .is_some_and(|process| process != std::process::id());
        self.reload_if_changed(run, runs).await?;
        let place = self.transcript.find_message_position(messages.as_slice(), input)?;
        let leg = self.transcript.last_segment_with_reply()?;
        let is_cut = leg.end == TranscriptSegmentEnd::Open && !is_here && !is_elsewhere;
        let is_right = match (&place, &leg.end) {
            (TranscriptPosition::Replied, _) => true,
            // Two clients can begin with the same words.
            (TranscriptPosition::Unanswered, TranscriptSegmentEnd::Open) => {
                is_cut || leg.was_resumed || messages.as_slice().len() > input
            }
            (TranscriptPosition::Unanswered, TranscriptSegmentEnd::Reply(reply)) => {
                leg.was_resumed && !was_given(reply)
            }
            (TranscriptPosition::LastHeard(_), _) => is_cut || (is_here && has_open_request(runs, run.id())),
            (TranscriptPosition::Unanswered, TranscriptSegmentEnd::Failed) => false,
        };
        let from = match is_cut || place != TranscriptPosition::Unanswered {
            true => self.transcript.records,
            false => leg.from,
        };
        is_right.then(|| MatchingRun {
            run: run.id().clone(),
            used_before: match place {
                TranscriptPosition::Replied => None,
                TranscriptPosition::Unanswered | TranscriptPosition::LastHeard(_) => Some(leg.used_before),
            },
            place,
            needs_resume: is_cut,
            from,
        })
    }

    /// Reads the run again if it has new records.
    async fn reload_if_changed(&mut self, run: &Arc<dyn StoredRun>, runs: &RunService) -> Option<()> {
        if self.follower.poll_records().await.ok()?.is_empty() {
            return Some(());
        }
        let records = run.read_journal().await.ok()?.records;
        let prepared = load_recorded_ensemble(&**run, find_start_event(&records).ok()?, runs.runs().project()).await;
        self.transcript = ChatTranscript::from_records(&records, prepared.ok()?.plan).ok()?;
        Some(())
    }
}

/// Chooses the latest run that the messages match. Fails if the last message can be an answer to several runs.
///
/// # Errors
/// The last message can be the answer to several runs.
fn choose_latest_match(mut runs: Vec<MatchingRun>) -> Result<Option<MatchingRun>, ApiFailure> {
    let is_answer = |found: &&MatchingRun| matches!(found.place, TranscriptPosition::LastHeard(_));
    let asking: Vec<String> = runs
        .iter()
        .filter(is_answer)
        .map(|found| format!("`{}`", found.run))
        .collect();
    if asking.len() > 1 {
        return Err(ApiFailure::conflict(format!(
            "several runs wait for an answer to these messages: {}; name one of them as `metadata.run`",
            asking.join(", ")
        )));
    }
    Ok((!runs.is_empty()).then(|| runs.swap_remove(0)))
}

/// Returns whether the run has an open request.
fn has_open_request(runs: &RunService, run: &RunId) -> bool {
    !runs.live_open_requests(run).is_empty()
}

/// Returns the path without links, or unchanged if it does not exist.
pub(super) fn canonical_or_same_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
