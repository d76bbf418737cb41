//! Conversations that the tests decide and apply by hand.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::json;

use crate::conversation::{
    AgentStart, ConversationState, Event, ExecutionEnd, ExecutionFinished, ExecutionStarted, Record, RunStarted,
    TurnFinished, TurnStarted,
};
use crate::resolver::{NextDecision, decide_next_step};
use ensemble_language::data::{ExecutionFailure, FailureKind, RunContext};
use ensemble_language::plan::{AgentId, Plan};

/// The number of consecutive turns that agents have waited for the dependency at this position.
pub type WaitCounts = HashMap<(AgentId, usize), usize>;

/// A conversation whose steps the resolver decides and a test applies, all at the same time.
#[derive(Debug)]
pub struct HandDrivenConversation {
    /// The state after the events so far.
    pub state: ConversationState,
    /// The turns so far.
    pub turns: Vec<TurnStarted>,
    /// The executions so far: turn, agent, and whether the execution succeeded.
    pub results: Vec<(u32, AgentId, bool)>,
    /// For how many turns in a row agents have waited for their dependencies.
    pub waited: WaitCounts,
}

impl HandDrivenConversation {
    /// Creates a driver whose conversation has started with an empty context.
    pub fn new(plan: &Arc<Plan>) -> Self {
        Self::with_context(plan, RunContext::default())
    }

    /// Creates a driver whose conversation has started with this context.
    pub fn with_context(plan: &Arc<Plan>, context: RunContext) -> Self {
        let mut driver = Self {
            state: ConversationState::new(plan.clone()),
            turns: Vec::new(),
            results: Vec::new(),
            waited: WaitCounts::new(),
        };
        driver.apply_event(Event::RunStarted(Box::new(RunStarted {
            format: 1,
            run_id: "r".into(),
            ensemble: "random".into(),
            ensemble_file: String::new(),
            ensemble_digest: String::new(),
            project_root: String::new(),
            input: "".into(),
            context,
            inputs: Default::default(),
            models: Vec::new(),
            simulated: Vec::new(),
            stubs: Default::default(),
            responders: Default::default(),
            caller: crate::request::RequestOrigin::default(),
            definitions: None,
            forked_from: None,
            trace: None,
            program: String::new(),
        })));
        driver
    }

    /// Applies the next event. Panics if the event is illegal.
    pub fn apply_event(&mut self, event: Event) {
        let seq = self.state.next_seq();
        let at = DateTime::<Utc>::UNIX_EPOCH;
        let applied = self.state.apply_record(&Record { seq, at, event });
        applied.expect("a legal event");
    }

    /// Performs the first turn with these outputs. Returns the decision that finishes the turn, which is not applied.
    pub fn perform_first_turn(&mut self, plan: &Plan, outputs: &[serde_json::Value]) -> TurnFinished {
        let NextDecision::StartTurn(turn) = decide_next_step(plan, &self.state) else {
            panic!("somebody is ready");
        };
        self.apply_event(Event::TurnStarted(turn.clone()));
        assert_eq!(turn.starts.len(), outputs.len(), "{turn:?}");
        for (start, output) in turn.starts.iter().zip(outputs) {
            self.finish_execution(start, Some(output.clone()));
        }
        match decide_next_step(plan, &self.state) {
            NextDecision::FinishTurn(finished) => finished,
            other => panic!("{other:?}"),
        }
    }

    /// Performs a turn. The bytes of `fate` decide which agents fail, and which agents they request.
    pub fn perform_random_turn(&mut self, plan: &Plan, turn: TurnStarted, fate: &mut impl Iterator<Item = u8>) {
        self.turns.push(turn.clone());
        self.apply_event(Event::TurnStarted(turn.clone()));
        for start in &turn.starts {
            let fate = fate.next().unwrap_or(0);
            let failed = fate.is_multiple_of(5);
            let target = format!("a{}", fate % 7);
            let output = json!({"n": fate % 3, "agent_requests": [{"target_agent": target, "priority": fate % 4}]});
            self.finish_execution(start, (!failed).then_some(output));
            let id = plan.find_agent_id(&start.agent).expect("agents of the plan start");
            self.results.push((turn.turn, id, !failed));
        }
    }
}

impl HandDrivenConversation {
    /// Returns the state so far.
    pub fn state(&self) -> &ConversationState {
        &self.state
    }

    /// Performs a turn with these outputs; `None` is a failure.
    pub fn perform_turn(&mut self, turn: &TurnStarted, outputs: &[Option<serde_json::Value>]) {
        self.apply_event(Event::TurnStarted(turn.clone()));
        for (start, output) in turn.starts.iter().zip(outputs) {
            self.finish_execution(start, output.clone());
        }
    }

    /// Applies the end of a turn.
    pub fn apply_turn_end(&mut self, finished: TurnFinished) {
        self.apply_event(Event::TurnFinished(finished));
    }

    /// Applies the start and the end of an execution; `None` is a failure.
    fn finish_execution(&mut self, start: &AgentStart, output: Option<serde_json::Value>) {
        let turn = self.state.turn_count() + 1;
        self.apply_event(Event::ExecutionStarted(ExecutionStarted {
            turn,
            agent: start.agent.clone(),
            execution: start.execution,
            attempt: 1,
        }));
        self.apply_event(Event::ExecutionFinished(ExecutionFinished {
            turn,
            agent: start.agent.clone(),
            execution: start.execution,
            attempt: 1,
            end: match output {
                Some(output) => ExecutionEnd::Succeeded(Arc::new(output)),
                None => ExecutionEnd::Failed(ExecutionFailure::new(FailureKind::Exit, "no")),
            },
            execution_time: 0.0,
            usage: None,
            stderr: String::new(),
            warnings: Vec::new(),
            exchange: Vec::new(),
            reused: false,
            sandboxes: Box::default(),
            answer: None,
        }));
    }
}

/// Performs a conversation until its end. The bytes of `fate` decide which agents fail, and which agents they request.
pub fn perform_random_conversation(plan: &Arc<Plan>, fate: Vec<u8>) -> HandDrivenConversation {
    let mut fate = fate.into_iter().cycle().take(400);
    let mut driver = HandDrivenConversation::new(plan);
    loop {
        match decide_next_step(plan, &driver.state) {
            NextDecision::StartTurn(turn) => driver.perform_random_turn(plan, turn, &mut fate),
            NextDecision::FinishTurn(finished) => driver.apply_event(Event::TurnFinished(finished)),
            NextDecision::Perform | NextDecision::End(_) => return driver,
        }
    }
}

/// Builds the plan of an ensemble text. Panics if the text has errors.
pub fn build_plan(text: &str) -> Plan {
    let loaded = ensemble_language::loader::load_ensemble(&ensemble_language::source::SourceText::new("t", text));
    let ensemble = loaded.ensemble.unwrap_or_else(|| panic!("{:#?}", loaded.findings));
    Plan::build(Arc::new(ensemble)).expect("the conditions compile")
}
