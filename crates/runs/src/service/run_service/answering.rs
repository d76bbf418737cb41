//! The pending requests of runs, and the answers of clients.
//!
//! **Invariant:** every client reads requests with [`RunService::pending_requests`] or [`RunService::open_requests`], and answers
//! them with [`RunService::answer_request`].

use ensemble_core::operator::OperatorRequest;
use ensemble_core::request::{
    AnswerAuthor, AnswerRefusal, PendingRequest, RequestAddress, RequestAnswer, RequestDigest,
};
use ensemble_core::store::{RunId, StoreError};

use super::RunService;
use crate::drive::decided_requests::refuse_decided_in_events;
use crate::drive::request_desk::ClientAnswer;
use crate::error::RunError;
use crate::options::run_options::RunOptions;
use crate::service::answer_checks::check_recorded_answer;

impl RunService {
    /// Returns the pending questions and permission requests of a run and its nested runs, in the order of the file. Reads the journal if
    /// this process does not drive the run.
    ///
    /// # Errors
    ///
    /// The run does not exist or cannot be read.
    pub async fn load_pending_requests(&self, id: &RunId) -> Result<Vec<PendingRequest>, RunError> {
        if let Some(run) = self.find_driven_run(id) {
            let open = run.open_requests();
            return Ok(open.iter().map(|open| open.pending_request().clone()).collect());
        }
        let recorded = self.load_recorded_run(id).await?;
        Ok(recorded.state.pending_requests().cloned().collect())
    }

    /// Returns the open requests of a run that this process drives, in the order of the file. Returns an empty list for other runs.
    pub fn live_open_requests(&self, id: &RunId) -> Vec<OperatorRequest> {
        self.find_driven_run(id)
            .map(|run| run.open_requests())
            .unwrap_or_default()
    }

    /// Postpones all open questions of a run that this process drives: the run records them, and ends as waiting when its
    /// other executions have ended. An answer resumes the run. Returns the number of postponed questions: 0 if one of them has
    /// a time limit, or was asked by a tool of a server, which would be called again.
    pub fn postpone_questions(&self, id: &RunId) -> usize {
        self.find_driven_run(id).map_or(0, |run| run.postpone_questions())
    }

    /// Returns whether a request with this digest waits for an answer, even if a resumed run has not asked the request again yet.
    ///
    /// # Errors
    ///
    /// The run does not exist or cannot be read.
    pub async fn is_request_pending(&self, id: &RunId, digest: &RequestDigest) -> Result<bool, RunError> {
        // Before the pending requests: a request that is asked again is no longer expected.
        let is_expected = self
            .find_driven_run(id)
            .is_some_and(|run| run.is_request_expected(digest));
        let pending = self.load_pending_requests(id).await?;
        Ok(is_expected || pending.iter().any(|request| request.digest == *digest))
    }

    /// Waits until a resumed run has asked the request with this digest again. Returns `None` at once if the run does not ask the request,
    /// or if this process does not drive the run.
    pub async fn wait_for_request_again(&self, id: &RunId, digest: &RequestDigest) -> Option<OperatorRequest> {
        let run = self.find_driven_run(id)?;
        let mut changes = run.subscribe_request_changes();
        let waited = async {
            loop {
                changes.mark_unchanged();
                // Before the open requests: a request that is asked again is no longer expected.
                let is_expected = run.is_request_expected(digest);
                let mut open = run.open_requests().into_iter();
                if let Some(request) = open.find(|open| open.pending_request().digest == *digest) {
                    return Some(request);
                }
                if !is_expected || changes.changed().await.is_err() {
                    return None;
                }
            }
        };
        tokio::select! {
            biased;
            found = waited => found,
            _ = run.wait_for_end() => None,
        }
    }

    /// Answers a request that was shown. Resumes a waiting run with these options if no process drives the run.
    ///
    /// # Errors
    ///
    /// [`RunError::Answer`]: the request is decided, is not the one that was shown, or does not accept the answer. Another process drives
    /// the run, or the run cannot be resumed.
    pub async fn answer_or_resume(
        &self,
        id: &RunId,
        (address, digest): (&RequestAddress, &RequestDigest),
        answer: RequestAnswer,
        by: impl Into<AnswerAuthor>,
        options: RunOptions,
    ) -> Result<(), RunError> {
        let answer = ClientAnswer {
            address: address.clone(),
            digest: digest.clone(),
            answer,
            by: by.into(),
        };
        let mut options = Some(options);
        let answered = self.answer_driven_or_resumed(id, &answer, &mut options).await;
        // The run has ended as waiting before it was answered: it is resumed.
        let is_too_late = matches!(answered, Err(RunError::NotAsked(_))) && options.is_some();
        match is_too_late && self.is_request_recorded(id, &answer).await {
            true => self.answer_driven_or_resumed(id, &answer, &mut options).await,
            false => answered,
        }
    }

    /// Returns whether the request of an answer is recorded and waits, and this process does not drive the run.
    async fn is_request_recorded(&self, id: &RunId, answer: &ClientAnswer) -> bool {
        self.wait_for_released_lease(id).await;
        if self.find_driven_run(id).is_some() {
            return false;
        }
        let pending = self.load_pending_requests(id).await.unwrap_or_default();
        pending
            .iter()
            .any(|request| request.address == answer.address && request.digest == answer.digest)
    }

    /// Answers a request of the run that this process drives. A run that no process drives is resumed with the options, which
    /// are taken then.
    async fn answer_driven_or_resumed(
        &self,
        id: &RunId,
        answer: &ClientAnswer,
        options: &mut Option<RunOptions>,
    ) -> Result<(), RunError> {
        let run = {
            // Two clients that answer at once resume the run once.
            let _resuming = self.0.resuming.lock().await;
            match self.find_driven_run(id) {
                Some(run) => run,
                None => {
                    self.wait_for_released_lease(id).await;
                    let recorded = self.load_recorded_run(id).await?;
                    check_recorded_answer(&recorded, &self.read_records_with_nested(id).await?, answer)?;
                    self.resume_in_process(id, options.take().unwrap_or_default()).await?
                }
            }
        };
        match run.answer_when_asked(answer.clone()).await {
            Err(error @ (RunError::NotAsked(_) | RunError::Answer(AnswerRefusal::NotPending { .. }))) => {
                // The request was decided before this process drove the run, or in a way that no client has seen.
                let decided = refuse_decided_in_events(&self.read_records_with_nested(id).await?, |address| {
                    *address == answer.address
                });
                Err(match decided {
                    Some(decided) => {
                        RunError::Answer(decided.with_pending_addresses(self.load_pending_addresses(id).await))
                    }
                    None => error,
                })
            }
            result => result,
        }
    }

    /// Returns the addresses of the pending requests of the run, also if no process drives the run. Returns an empty list if the run cannot
    /// be read.
    async fn load_pending_addresses(&self, id: &RunId) -> Vec<RequestAddress> {
        let pending = self.load_pending_requests(id).await.unwrap_or_default();
        pending.into_iter().map(|request| request.address).collect()
    }

    /// Waits until the request is decided or withdrawn, or the run ends. Returns at once if this process does not drive the run.
    pub async fn wait_until_request_closed(&self, id: &RunId, digest: &RequestDigest) {
        let Some(run) = self.find_driven_run(id) else { return };
        let mut changes = run.subscribe_request_changes();
        let decided = async {
            loop {
                changes.mark_unchanged();
                let is_open = run
                    .open_requests()
                    .iter()
                    .any(|open| open.pending_request().digest == *digest);
                if !is_open || changes.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = decided => {}
            _ = run.wait_for_end() => {}
        }
    }

    /// Waits until a request is open for which `fits` is true. Returns `None` if the conversation ends, or if this process does not drive
    /// the run.
    pub async fn wait_for_open_request(
        &self,
        id: &RunId,
        mut fits: impl FnMut(&OperatorRequest) -> bool,
    ) -> Option<OperatorRequest> {
        let run = self.find_driven_run(id)?;
        let mut changes = run.subscribe_request_changes();
        let waited = async {
            loop {
                changes.mark_unchanged();
                if let Some(open_request) = run.open_requests().into_iter().find(&mut fits) {
                    return Some(open_request);
                }
                if changes.changed().await.is_err() {
                    return None;
                }
            }
        };
        tokio::select! {
            biased;
            found = waited => found,
            _ = run.wait_for_end() => None,
        }
    }

    /// Resumes the run in this process, and returns its handle. Succeeds if this process drives the run already.
    async fn resume_in_process(
        &self,
        id: &RunId,
        options: RunOptions,
    ) -> Result<std::sync::Arc<crate::drive::run::RunHandle>, RunError> {
        match self.resume_run(id, options).await {
            Ok(()) | Err(RunError::Store(StoreError::Leased { .. })) if self.find_driven_run(id).is_some() => {}
            Ok(()) => return Err(RunError::Closed),
            Err(error) => return Err(error),
        }
        self.find_driven_run(id).ok_or(RunError::Closed)
    }
}
