//! The latest runs of the project, by what was said in them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ensemble_core::conversation::Event;
use ensemble_core::store::{RunFollower, RunId, StoreError, StoredRun};
use ensemble_language::data::{Usage, digest};
use ensemble_runs::recorded::{recorded_ensemble, started};
use ensemble_runs::service::RunService;

use super::messages::Messages;
use super::transcript::{End, Place, Transcript};
use crate::reply::Failure;

/// How many runs are looked at, the latest first.
const LATEST: usize = 1000;

/// The latest runs. Of each one the first record is read; of one that has begun with the same messages, all records, once.
#[derive(Default)]
pub(super) struct Recorded(HashMap<RunId, Entry>);

struct Entry {
    /// `None`: it is not a run that a chat program can have begun.
    beginning: Option<Beginning>,
    follower: Box<dyn RunFollower>,
    transcript: Transcript,
}

struct Beginning {
    file: PathBuf,
    /// The digest of the input.
    input: String,
}

/// A run to which messages belong.
pub(crate) struct Found {
    pub(crate) run: RunId,
    pub(crate) place: Place,
    /// Does anybody have to resume it?
    pub(crate) is_cut: bool,
    /// The record from which its reply is to be followed.
    pub(crate) from: u64,
    /// What the reply has used before that record.
    pub(crate) used: Usage,
}

impl Recorded {
    /// The run of this ensemble to which the messages belong. `was_given`: whether the client got the reply with this digest.
    pub(super) async fn find(
        &mut self,
        runs: &RunService,
        file: &Path,
        messages: &Messages,
        was_given: impl Fn(&str) -> bool,
    ) -> Result<Option<Found>, Failure> {
        let stored = match runs.runs().store().list().await {
            Err(StoreError::Empty { .. }) => Vec::new(),
            stored => stored.map_err(|error| Failure::missing(error.to_string()))?,
        };
        let latest = &stored[stored.len().saturating_sub(LATEST)..];
        let ids: HashSet<&RunId> = latest.iter().map(|run| run.id()).collect();
        self.0.retain(|id, _| ids.contains(id));
        let beginnings: HashMap<String, usize> = messages.beginnings().into_iter().collect();
        let mut second = None;
        for run in latest.iter().rev() {
            if !self.0.contains_key(run.id()) {
                // One that cannot be read is looked at again the next time.
                let Some(entry) = Entry::of(&**run).await else { continue };
                self.0.insert(run.id().clone(), entry);
            }
            let Some(entry) = self.0.get_mut(run.id()) else {
                continue;
            };
            let begun = entry.beginning.as_ref().filter(|begun| begun.file == file);
            let Some(input) = begun.and_then(|begun| beginnings.get(&begun.input)) else {
                continue;
            };
            match entry.found(run, runs, messages, *input, &was_given).await {
                Some(found) if found.place == Place::Replied => return Ok(Some(found)),
                Some(found) if second.is_none() => second = Some(found),
                _ => {}
            }
        }
        Ok(second)
    }
}

impl Entry {
    async fn of(run: &dyn StoredRun) -> Option<Self> {
        let first = run.read().await.ok()?.next().await.ok()??;
        let Event::RunStarted(started) = &first.event else {
            return None;
        };
        // What a chat program begins has nothing but its input.
        let is_plain = started.context.is_empty()
            && started.models.is_empty()
            && started.stubs.is_empty()
            && started.responders.is_empty()
            && started.forked_from.is_none();
        let beginning = || Beginning {
            file: canonical(Path::new(&started.ensemble_file)),
            input: digest(&started.input),
        };
        Some(Self {
            beginning: is_plain.then(beginning),
            follower: run.follow(),
            transcript: Transcript::default(),
        })
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
        let (from, used) = match is_cut || place != Place::Unanswered {
            true => (self.transcript.records, leg.used),
            false => (leg.from, leg.used_before),
        };
        is_right.then(|| Found {
            run: run.id().clone(),
            used: if place == Place::Replied {
                Usage::default()
            } else {
                used
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
        self.transcript = Transcript::of(&records, prepared.ok()?.plan);
        Some(())
    }
}

fn is_asking(runs: &RunService, run: &RunId) -> bool {
    !runs.open_requests(run).is_empty()
}

pub(super) fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
