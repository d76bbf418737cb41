//! Nested runs of a run, which are separate workflows.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use ensemble_core::conversation::CompletionReason;
use ensemble_remote::protocol::{
    EndedNestedRun, NestedRunLines, NestedRunRequest, RecordsReply, RunBrief, SentQuestionAnswer,
};
use restate_sdk::context::DurableFuture;
use restate_sdk::prelude::*;

use super::{RunWorkflowClient, WorkflowRunDrive, WorkflowWakeReason};

/// Maximum number of seconds until an interrupted nested run has ended.
const MAX_END_SECONDS: u32 = 10;

/// Nested run that is running.
pub(super) struct RunningNestedRun {
    pub(super) agent: Arc<str>,
    /// Name of the run in its outer run.
    name: String,
    /// Id of the workflow.
    run: Arc<str>,
}

impl RunningNestedRun {
    /// Returns whether the run belongs to the agent and has this name.
    fn belongs_to_agent_with_name(&self, agent: &Arc<str>, name: &str) -> bool {
        self.agent == *agent && self.name == name
    }
}

/// Waits until an interrupted nested run has ended, and returns its records. Returns `None` if the run never started.
pub(super) async fn wait_for_nested_records(
    ctx: &WorkflowContext<'_>,
    run: &str,
) -> HandlerResult<Option<RecordsReply>> {
    let mut waited = 0;
    loop {
        let client = ctx.workflow_client::<RunWorkflowClient>(run.to_owned());
        let records = client.records(0).call().await?.into_inner();
        // Its end was under way when the run around it ended. A workflow that somebody has killed has no end.
        if records.is_over || waited == MAX_END_SECONDS {
            return Ok(Some(records).filter(|records| !records.lines.is_empty()));
        }
        waited += 1;
        ctx.sleep(Duration::from_secs(1)).await?;
    }
}

/// Returns the id of the workflow that continues the nested run of this workflow.
fn next_workflow_id(run: &str) -> Arc<str> {
    let counted = run
        .rsplit_once('~')
        .and_then(|(run, count)| Some((run, count.parse::<u32>().ok()?)));
    let (run, count) = counted.unwrap_or((run, 1));
    format!("{run}~{}", count + 1).into()
}

impl<'a> WorkflowRunDrive<'a> {
    /// Starts the wanted nested runs that are not running. Calls the execution again if a wanted run has ended meanwhile.
    pub(super) fn start_missing_nested_runs(&mut self, agent: &Arc<str>, wanted: Vec<NestedRunRequest>) {
        self.set_running_call(agent, false);
        if self.turn_timed_out {
            return self.call_execution(agent.clone());
        }
        let ended_runs = self.inner.get(agent).map_or(&[][..], Vec::as_slice);
        let has_ended = |wanted: &NestedRunRequest| ended_runs.iter().any(|ended| ended.name == wanted.name);
        let (ended, open): (Vec<_>, Vec<_>) = wanted.into_iter().partition(has_ended);
        for wanted_run in open {
            if !self
                .children
                .iter()
                .any(|child| child.belongs_to_agent_with_name(agent, &wanted_run.name))
            {
                self.call_nested_workflow(agent.clone(), wanted_run);
            }
        }
        if !ended.is_empty() {
            self.call_execution(agent.clone());
        }
    }

    /// Records the end of a nested run, and calls the execution of its agent again unless a call is running.
    /// Has no effect if the agent's execution has ended before.
    pub(super) fn handle_nested_run_end(
        &mut self,
        agent: Arc<str>,
        ended: EndedNestedRun,
        brief: Result<RunBrief, TerminalError>,
    ) {
        let position = self.children.iter().position(|child| child.run == ended.run);
        let Some(position) = position else { return };
        self.children.remove(position);
        if let Err(error) = brief {
            return self.commit_execution_result(&agent, Err(error));
        }
        self.inner.entry(agent.clone()).or_default().push(ended);
        if !self.has_running_call(&agent) {
            self.call_execution(agent);
        }
    }

    /// Cancels the nested run at the time limit of its attempt, and calls the execution again unless a call is running.
    /// Has no effect if the run has ended before.
    pub(super) fn handle_attempt_timeout(&mut self, agent: Arc<str>, run: &Arc<str>) {
        let child = self.children.iter().find(|child| child.run == *run);
        let Some(name) = child.map(|child| child.name.clone()) else {
            return;
        };
        self.cancel_nested_runs(|child| child.run == *run);
        let late = EndedNestedRun {
            name,
            run: run.clone(),
            is_late: true,
        };
        self.inner.entry(agent.clone()).or_default().push(late);
        if !self.has_running_call(&agent) {
            self.call_execution(agent);
        }
    }

    /// Calls the nested run as a separate workflow, with a timer for its time limit.
    fn call_nested_workflow(&mut self, agent: Arc<str>, wanted: NestedRunRequest) {
        let NestedRunRequest { name, mut start, limit } = wanted;
        start.goes_on_after = self.inner_runs.get(&name).and_then(|known| known.run.clone());
        start.answered = self.inner_answers.remove(&name);
        let run = match &start.goes_on_after {
            Some(before) => next_workflow_id(before),
            None => start.started.run_id.clone(),
        };
        self.log.store_records();
        // Known before it ends, so that a run that is cut short shows it too.
        self.store_nested_run(NestedRunLines {
            name: name.clone(),
            ensemble: start.ensemble.to_string(),
            lines: String::new(),
            run: Some(run.clone()),
            asks: false,
            inside: Vec::new(),
        });
        let call = self
            .ctx
            .workflow_client::<RunWorkflowClient>(run.to_string())
            .run(Json(start))
            .call();
        self.children.push(RunningNestedRun {
            agent: agent.clone(),
            name: name.clone(),
            run: run.clone(),
        });
        if let Some(limit) = limit {
            let (agent, run) = (agent.clone(), run.clone());
            let timer = self
                .ctx
                .sleep(limit)
                .map(move |_| WorkflowWakeReason::InnerTimedOut(agent, run));
            self.wake_futures.push(Box::pin(timer));
        }
        let ended_run = EndedNestedRun {
            name,
            run,
            is_late: false,
        };
        let wake_future =
            call.map(move |brief| WorkflowWakeReason::InnerRunEnded(agent, ended_run, brief.map(Json::into_inner)));
        self.wake_futures.push(Box::pin(wake_future));
    }

    /// Stores the nested run in the state of the workflow and in memory.
    fn store_nested_run(&mut self, child: NestedRunLines) {
        if child.run.is_some() {
            self.inner_runs.insert(child.name.clone(), child.clone());
        }
        self.log.store_nested_workflow(child);
    }

    /// Marks the nested run whose question an execution passes on.
    pub(super) fn mark_run_as_asking(&mut self, name: &str) {
        if let Some(child) = self.inner_runs.get(name).cloned() {
            self.store_nested_run(NestedRunLines { asks: true, ..child });
        }
    }

    /// Returns the name of the nested run whose question the execution passes on.
    pub(super) fn find_asking_nested_run(&self, agent: &str, execution: u32) -> Option<String> {
        let mut inner_runs = self.inner_runs.values();
        let asking = inner_runs.find(|child| child.asks && child.belongs_to_execution(agent, execution))?;
        Some(asking.name.clone())
    }

    /// Lists the names of the nested runs that an execution has started.
    pub(super) fn list_started_nested_runs(&self, agent: &str, execution: u32) -> Vec<String> {
        let matching_runs = self
            .inner_runs
            .values()
            .filter(|child| child.belongs_to_execution(agent, execution));
        let mut names: Vec<String> = matching_runs.map(|child| child.name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// Copies the records of the earlier workflow of this run, and continues the run with the answer. Returns `false` if the run
    /// has ended for good.
    pub(super) fn continue_from_workflow(
        &mut self,
        before: RecordsReply,
        at: DateTime<Utc>,
        answer: Option<SentQuestionAnswer>,
    ) -> HandlerResult<bool> {
        let records = ensemble_remote::protocol::decode_record_lines(&before.lines);
        let records = records.map_err(|error| TerminalError::new(error.to_string()))?;
        self.log.commit_earlier_workflow(records);
        for inner in before.inside {
            self.store_nested_run(inner);
        }
        let run_end = self.log.run_state().run_end();
        let reason = run_end.map(|ended| ended.completion_reason);
        if reason.is_some_and(|reason| !reason.is_resumable()) {
            return Ok(false);
        }
        let waits = reason == Some(CompletionReason::WaitingForInput);
        self.log.advance_time_to(at);
        let question = answer
            .as_ref()
            .and_then(|answer| self.log.find_request_or_first(&answer.digest));
        match (question, answer) {
            (Some(question), Some(answer)) if waits => self.apply_answer(question, answer),
            _ => self.log.commit_events([self.resume_event()]),
        }
        Ok(true)
    }

    /// Cancels the running nested runs that match the predicate.
    pub(super) fn cancel_nested_runs(&mut self, is_meant: impl Fn(&RunningNestedRun) -> bool) {
        for child in self.children.extract_if(.., |child| is_meant(child)) {
            let child = self.ctx.workflow_client::<RunWorkflowClient>(child.run.to_string());
            child.cancel("the run that it is inside".to_owned()).send();
        }
    }
}
