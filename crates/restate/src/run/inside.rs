//! The runs of inner ensembles, which are workflows of their own.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use ensemble_core::conversation::CompletionReason;
use ensemble_remote::protocol::{Answer, Brief, InnerEnded, InnerLines, InnerWanted, Records};
use restate_sdk::context::DurableFuture;
use restate_sdk::prelude::*;

use super::{Drive, RunClient, Woken};

/// How many seconds a run inside another that was cut short may take to end.
const ENDS_WITHIN: u32 = 10;

/// A run of an inner ensemble that is under way.
pub(super) struct Child {
    pub(super) agent: Arc<str>,
    /// Its name in the run that it is inside.
    name: String,
    /// The id of its workflow.
    run: Arc<str>,
}

impl Child {
    fn is(&self, agent: &Arc<str>, name: &str) -> bool {
        self.agent == *agent && self.name == name
    }
}

/// The records of a run inside another that was cut short with it, when it has ended. `None`: it never began.
pub(super) async fn cut_short(ctx: &WorkflowContext<'_>, run: &str) -> HandlerResult<Option<Records>> {
    let mut waited = 0;
    loop {
        let client = ctx.workflow_client::<RunClient>(run.to_owned());
        let records = client.records(0).call().await?.into_inner();
        // Its end was under way when the run around it ended. A workflow that somebody has killed has no end.
        if records.is_over || waited == ENDS_WITHIN {
            return Ok(Some(records).filter(|records| !records.lines.is_empty()));
        }
        waited += 1;
        ctx.sleep(Duration::from_secs(1)).await?;
    }
}

/// The workflow that goes on with a run inside another after this one was cut short.
fn after(run: &str) -> Arc<str> {
    let counted = run
        .rsplit_once('~')
        .and_then(|(run, count)| Some((run, count.parse::<u32>().ok()?)));
    let (run, count) = counted.unwrap_or((run, 1));
    format!("{run}~{}", count + 1).into()
}

impl<'a> Drive<'a> {
    /// An execution waits for runs of its inner ensemble. Those that are not under way begin, and if one has ended meanwhile, the
    /// execution is performed again.
    pub(super) fn wants(&mut self, agent: &Arc<str>, wanted: Vec<InnerWanted>) {
        self.mark(agent, false);
        if self.turn_is_up {
            return self.call(agent.clone());
        }
        let ended = self.inner.get(agent).map_or(&[][..], Vec::as_slice);
        let has_ended = |wanted: &InnerWanted| ended.iter().any(|ended| ended.name == wanted.name);
        let (ended, open): (Vec<_>, Vec<_>) = wanted.into_iter().partition(has_ended);
        for wanted in open {
            if !self.children.iter().any(|child| child.is(agent, &wanted.name)) {
                self.call_inner(agent.clone(), wanted);
            }
        }
        if !ended.is_empty() {
            self.call(agent.clone());
        }
    }

    /// A run of an inner ensemble has ended. Its agent's execution may have ended before, which had no need of it.
    pub(super) fn inner_ended(&mut self, agent: Arc<str>, ended: InnerEnded, brief: Result<Brief, TerminalError>) {
        let known = self.children.iter().position(|child| child.run == ended.run);
        let Some(known) = known else { return };
        self.children.remove(known);
        if let Err(error) = brief {
            return self.ended(&agent, Err(error));
        }
        self.inner.entry(agent.clone()).or_default().push(ended);
        if !self.is_performed(&agent) {
            self.call(agent);
        }
    }

    /// The time limit of an attempt is reached. Its run may have ended before.
    pub(super) fn inner_is_late(&mut self, agent: Arc<str>, run: &Arc<str>) {
        let known = self.children.iter().find(|child| child.run == *run);
        let Some(name) = known.map(|child| child.name.clone()) else {
            return;
        };
        self.cancel_children(|child| child.run == *run);
        let late = InnerEnded {
            name,
            run: run.clone(),
            is_late: true,
        };
        self.inner.entry(agent.clone()).or_default().push(late);
        if !self.is_performed(&agent) {
            self.call(agent);
        }
    }

    /// Calls the run of an inner ensemble, as a workflow of its own.
    fn call_inner(&mut self, agent: Arc<str>, wanted: InnerWanted) {
        let InnerWanted { name, mut start, limit } = wanted;
        start.goes_on_after = self.known.get(&name).and_then(|known| known.run.clone());
        start.answered = self.answered.remove(&name);
        let run = match &start.goes_on_after {
            Some(before) => after(before),
            None => start.started.run_id.clone(),
        };
        // Known before it ends, so that a run that is cut short shows it too.
        self.keep_child(InnerLines {
            name: name.clone(),
            ensemble: start.ensemble.to_string(),
            lines: String::new(),
            run: Some(run.clone()),
            asks: false,
            inside: Vec::new(),
        });
        let call = self
            .ctx
            .workflow_client::<RunClient>(run.to_string())
            .run(Json(start))
            .call();
        self.children.push(Child {
            agent: agent.clone(),
            name: name.clone(),
            run: run.clone(),
        });
        if let Some(limit) = limit {
            let (agent, run) = (agent.clone(), run.clone());
            let timer = self.ctx.sleep(limit).map(move |_| Woken::InnerIsLate(agent, run));
            self.awaited.push(Box::pin(timer));
        }
        let ended = InnerEnded {
            name,
            run,
            is_late: false,
        };
        let done = call.map(move |brief| Woken::Inner(agent, ended, brief.map(Json::into_inner)));
        self.awaited.push(Box::pin(done));
    }

    fn keep_child(&mut self, child: InnerLines) {
        if child.run.is_some() {
            self.known.insert(child.name.clone(), child.clone());
        }
        self.log.keep_child(child);
    }

    /// An execution asks what this run of its inner ensemble asks.
    pub(super) fn asks(&mut self, name: &str) {
        if let Some(child) = self.known.get(name).cloned() {
            self.keep_child(InnerLines { asks: true, ..child });
        }
    }

    /// The run of its inner ensemble that asks what an execution asks: its name.
    pub(super) fn asking(&self, agent: &str, execution: u32) -> Option<String> {
        let mut known = self.known.values();
        let asking = known.find(|child| child.asks && child.is_of(agent, execution))?;
        Some(asking.name.clone())
    }

    /// The runs of its inner ensemble that an execution has begun: their names.
    pub(super) fn begun(&self, agent: &str, execution: u32) -> Vec<String> {
        let known = self.known.values().filter(|child| child.is_of(agent, execution));
        let mut names: Vec<String> = known.map(|child| child.name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// Takes over what another workflow did of this run, and goes on, with the answer that the run waited for. `false`: the run had
    /// ended for good.
    pub(super) fn take_over(
        &mut self,
        before: Records,
        at: DateTime<Utc>,
        answer: Option<Answer>,
    ) -> HandlerResult<bool> {
        let records = ensemble_remote::protocol::records(&before.lines);
        let records = records.map_err(|error| TerminalError::new(error.to_string()))?;
        self.log.take_over(records);
        for inner in before.inside {
            self.keep_child(inner);
        }
        let ended = self.log.state().ended();
        let reason = ended.map(|ended| ended.completion_reason);
        if reason.is_some_and(|reason| !reason.is_resumable()) {
            return Ok(false);
        }
        let waits = reason == Some(CompletionReason::WaitingForInput);
        self.log.advance(at);
        let asked = answer
            .as_ref()
            .and_then(|answer| self.log.find_question(&answer.digest));
        match (asked, answer) {
            (Some(asked), Some(answer)) if waits => self.answered(asked, answer),
            _ => self.log.commit([self.resumed()]),
        }
        Ok(true)
    }

    /// Cancels the runs inside this one of which this holds.
    pub(super) fn cancel_children(&mut self, is_meant: impl Fn(&Child) -> bool) {
        for child in self.children.extract_if(.., |child| is_meant(child)) {
            let child = self.ctx.workflow_client::<RunClient>(child.run.to_string());
            child.cancel("the run that it is inside".to_owned()).send();
        }
    }
}
