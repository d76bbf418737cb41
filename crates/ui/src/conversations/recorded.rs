//! The runs of conversations, by what was said in them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_core::conversation::Event;
use ensemble_core::store::{RunFollower, RunId, StoredRun};
use ensemble_language::data::{Usage, digest};
use ensemble_runs::service::run_service::RunService;
use ensemble_runs::start::recorded_run::{recorded_ensemble, started};

use super::messages::Messages;
use super::transcript::{End, Place, Transcript};
use crate::reply::Failure;

/// The maximum number of runs that are remembered.
const REMEMBERED: usize = 1000;

/// The runs that chat programs have begun here, or have named. Of each, the records are read once.
#[derive(Default)]
pub(super) struct Recorded(HashMap<RunId, Entry>);

struct Entry {
    /// The file of the ensemble.
    file: PathBuf,
    /// The digest of the input.
    input: String,
    follower: Box<dyn RunFollower>,
    transcript: Transcript,
}

/// A run to which messages belong.
pub(crate) struct Found {
    pub(crate) run: RunId,
    pub(crate) place: Place,
    /// Does anybody have to resume it?
    pub(crate) is_cut: bool,
    /// The record from which its reply is to be followed.
    pub(crate) from: u64,
    /// What the run had used before the reply; `None` if the reply has not begun.
    pub(crate) used_before: Option<Usage>,
}

impl Recorded {
    /// Remembers a run. The oldest is forgotten if there are too many.
    pub(super) async fn add(&mut self, run: &dyn StoredRun) -> Result<(), Failure> {
        if self.0.contains_key(run.id()) {
            return Ok(());
        }
        let entry = Entry::of(run).await?;
        if self.0.len() >= REMEMBERED
            && let Some(oldest) = self.0.keys().min().cloned()
        {
            self.0.remove(&oldest);
        }
        self.0.insert(run.id().clone(), entry);
        Ok(())
    }

    /// Returns the run of this ensemble to which the messages belong: the run with this id, or any run that is remembered.
    /// `was_given`: whether the client got the reply with this digest.
    ///
    /// # Errors
    /// There is no run with this id, or the messages do not continue it.
    pub(super) async fn find(
        &mut self,
        runs: &RunService,
        file: &Path,
        messages: &Messages,
        id: Option<&str>,
        was_given: impl Fn(&str) -> bool,
    ) -> Result<Option<Found>, Failure> {
        let Some(id) = id else {
            let mut latest_first: Vec<RunId> = self.0.keys().cloned().collect();
            latest_first.sort_by(|a, b| b.cmp(a));
            let mut second = None;
            for id in latest_first {
                // A run that was deleted is forgotten.
                let Ok(run) = runs.runs().find(&id).await else {
                    self.0.remove(&id);
                    continue;
                };
                match self.found(&run, runs, file, messages, &was_given).await {
                    Some(found) if found.place == Place::Replied => return Ok(Some(found)),
                    Some(found) if second.is_none() => second = Some(found),
                    _ => {}
                }
            }
            return Ok(second);
        };
        let run = runs.runs().store().find(id).await;
        let run = run.map_err(|error| Failure::missing(error.to_string()))?;
        self.add(&*run).await?;
        match self.found(&run, runs, file, messages, &was_given).await {
            Some(found) => Ok(Some(found)),
            None => Err(Failure::wrong(format!(
                "these messages do not continue run `{}`; without `metadata.run` they begin a new run",
                run.id()
            ))),
        }
    }

    async fn found(
        &mut self,
        run: &Arc<dyn StoredRun>,
        runs: &RunService,
        file: &Path,
        messages: &Messages,
        was_given: impl Fn(&str) -> bool,
    ) -> Option<Found> {
        let entry = self.0.get_mut(run.id()).filter(|entry| entry.file == file)?;
        let input = messages.length_of_input(&entry.input)?;
        entry.found(run, runs, messages, input, was_given).await
    }
}

impl Entry {
    async fn of(run: &dyn StoredRun) -> Result<Self, Failure> {
        let read = async { run.read().await?.next().await };
        let first = read.await.map_err(|error| Failure::missing(error.to_string()))?;
        match first.map(|record| record.event) {
            Some(Event::RunStarted(started)) => Ok(Self {
                file: canonical(Path::new(&started.ensemble_file)),
                input: digest(&started.input),
                follower: run.follow(),
                transcript: Transcript::default(),
            }),
            _ => Err(Failure::missing(format!("run `{}` has no beginning", run.id()))),
        }
    }

    /// The run, if the messages belong to it and the client can go on with it.
    async fn found(
        &mut self,
        run: &Arc<dyn StoredRun>,
        runs: &RunService,
        messages: &Messages,
        input: usize,
        was_given: impl Fn(&str) -> bool,
    ) -> Option<Found> {
        // Before the log is read: what another process wrote before its end is read, too.
        let is_here = runs.is_driven_here(run.id());
        let is_elsewhere = run.driver().is_some_and(|process| process != std::process::id());
        self.catch_up(run, runs).await?;
        let place = self.transcript.place(messages.all(), input)?;
        let leg = self.transcript.last()?;
        let is_cut = leg.end == End::Open && !is_here && !is_elsewhere;
        let is_right = match (&place, &leg.end) {
            (Place::Replied, _) => true,
            // Two clients can begin with the same words.
            (Place::Unanswered, End::Open) => is_cut || leg.was_resumed || messages.all().len() > input,
            (Place::Unanswered, End::Reply(reply)) => leg.was_resumed && !was_given(reply),
            (Place::Heard(_), _) => is_cut || (is_here && is_asking(runs, run.id())),
            (Place::Unanswered, End::Failed) => false,
        };
        let from = match is_cut || place != Place::Unanswered {
            true => self.transcript.records,
            false => leg.from,
        };
        is_right.then(|| Found {
            run: run.id().clone(),
            used_before: match place {
                Place::Replied => None,
                Place::Unanswered | Place::Heard(_) => Some(leg.used_before),
            },
            place,
            is_cut,
            from,
        })
    }

    /// Reads the run again if it has new records.
    async fn catch_up(&mut self, run: &Arc<dyn StoredRun>, runs: &RunService) -> Option<()> {
        if self.follower.poll().await.ok()?.is_empty() {
            return Some(());
        }
        let records = run.read_all().await.ok()?.records;
        let prepared = recorded_ensemble(&**run, started(&records).ok()?, runs.runs().project()).await;
        self.transcript = Transcript::of(&records, prepared.ok()?.plan).ok()?;
        Some(())
    }
}

fn is_asking(runs: &RunService, run: &RunId) -> bool {
    !runs.open_requests(run).is_empty()
}

pub(super) fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
