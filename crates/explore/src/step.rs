//! One step: the resolver decides, and the turn that it starts is performed with chosen results.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::choices::StepChoices;
use super::goal::ExplorationGoal;
use super::oracle::{ChoosingEvaluator, ExploredPlan, RememberedClaimResults};
use super::report::{ExecutionResult, ExploredExecution, SpentBudget, StepReport};
use ensemble_core::conversation::{
    AGENT_REQUESTS_KEY, AgentStart, ConversationState, Event, ExecutionEnd, ExecutionFinished, InputRequested, Record,
    RunEnded, RunStarted, TurnStarted,
};
use ensemble_core::request::{RequestAddress, RequestDigest, RequestOrigin};
use ensemble_core::resolver::{NextDecision, decide_with_evaluator};
use ensemble_language::data::{ExecutionFailure, FailureKind, ModelUsage, OperatorQuestion, RunContext};
use ensemble_language::ensemble::{Agent, AgentKind, PreparedResponses};
use ensemble_language::plan::{AgentId, Plan};

/// State between two turns, with the results of claims that are still valid.
#[derive(Debug, Clone)]
pub(super) struct ConversationPosition {
    /// The state of the conversation.
    pub state: ConversationState,
    /// The results of conditions that are still valid.
    pub remembered: RememberedClaimResults,
}

/// Outcome of a step: the next position, or the end of the conversation.
pub(super) enum StepOutcome {
    /// The state after the turn.
    Turn(Box<ConversationPosition>),
    /// The end of the conversation: between two turns, or within a turn with this state.
    End(Box<RunEnded>, Option<Box<ConversationState>>),
}

impl ConversationPosition {
    /// Returns the position at the start of a conversation.
    pub(super) fn at_conversation_start(world: &ExploredPlan) -> Self {
        let mut state = ConversationState::new(world.plan.clone());
        apply_legal_event(
            &mut state,
            Event::RunStarted(Box::new(RunStarted {
                format: 1,
                run_id: "".into(),
                ensemble: world.plan.ensemble().name.clone(),
                ensemble_file: String::new(),
                ensemble_digest: String::new(),
                project_root: String::new(),
                input: "".into(),
                context: RunContext::default(),
                inputs: RunContext::default(),
                models: Vec::new(),
                simulated: Vec::new(),
                stubs: Default::default(),
                responders: Default::default(),
                definitions: None,
                forked_from: None,
                caller: RequestOrigin::default(),
                trace: None,
                program: String::new(),
            })),
        );
        Self {
            state,
            remembered: RememberedClaimResults::new(),
        }
    }

    /// Performs one step with these choices: the decision, and the turn that it starts. Returns the outcome and the report of the step.
    pub(super) fn perform_step(&self, world: &ExploredPlan, choices: &StepChoices) -> (StepOutcome, StepReport) {
        let plan = &world.plan;
        let oracle = ChoosingEvaluator::new(world, &self.remembered, choices);
        let decision = decide_with_evaluator(plan, &self.state, &oracle);
        let (mut remembered, assumed, sides) = oracle.into_claim_results();
        choices.add_reached_goals(sides);
        let mut report = StepReport {
            turn: self.state.turn_count() + 1,
            assumed,
            runs: Vec::new(),
        };
        let turn = match decision {
            NextDecision::StartTurn(turn) => turn,
            NextDecision::End(ended) => return (StepOutcome::End(Box::new(ended), None), report),
            NextDecision::Perform | NextDecision::FinishTurn(_) => unreachable!("no turn is open between two turns"),
        };
        choices.add_reached_goals(list_start_goals(plan, &turn));
        let mut state = self.state.clone();
        report.runs = perform_turn(world, &mut state, turn, choices);
        let next = match decide_with_evaluator(plan, &state, &ChoosingEvaluator::new(world, &remembered, choices)) {
            NextDecision::FinishTurn(finished) => {
                apply_legal_event(&mut state, Event::TurnFinished(finished));
                remembered.retain(|claim, _| {
                    world.keeps_claim_result(*claim, &self.state, &state)
                        && world.can_claim_be_evaluated_again(*claim, &state)
                });
                StepOutcome::Turn(Box::new(ConversationPosition { state, remembered }))
            }
            NextDecision::End(ended) => StepOutcome::End(Box::new(ended), Some(Box::new(state))),
            NextDecision::Perform | NextDecision::StartTurn(_) => {
                unreachable!("every execution of the open turn has ended")
            }
        };
        (next, report)
    }
}

/// Returns the goals that the start of the turn reaches: executions, and starts over dependencies.
fn list_start_goals(plan: &Plan, turn: &TurnStarted) -> Vec<ExplorationGoal> {
    let mut goals = Vec::new();
    for start in &turn.starts {
        let Some(id) = plan.find_agent_id(&start.agent) else {
            continue;
        };
        goals.push(ExplorationGoal::Execution(id));
        goals.extend(
            start
                .counts
                .iter()
                .map(|position| ExplorationGoal::Start(id, *position)),
        );
    }
    goals
}

/// Performs every execution of the turn with a chosen result.
fn perform_turn(
    world: &ExploredPlan,
    state: &mut ConversationState,
    turn: TurnStarted,
    choices: &StepChoices,
) -> Vec<ExploredExecution> {
    let plan = &world.plan;
    let starts = turn.starts.clone();
    let number = turn.turn;
    apply_legal_event(state, Event::TurnStarted(turn));
    let running: Vec<AgentId> = starts
        .iter()
        .filter_map(|start| plan.find_agent_id(&start.agent))
        .collect();
    let mut budgets = list_spendable_budgets(plan);
    let mut runs = Vec::with_capacity(starts.len());
    for (start, id) in starts.iter().zip(&running) {
        let agent = plan.agent(*id);
        let result = choices.choose_execution_result(&start.agent, world.possible_results(*id));
        let mut ran = ExploredExecution {
            agent: start.agent.clone(),
            execution: start.execution,
            result,
            requests: None,
            spent_budget: None,
        };
        if result == ExecutionResult::Succeeded && can_request_agents(agent) {
            ran.requests = choose_request_target(plan, state, &running, choices);
        }
        if result != ExecutionResult::Unanswered && !budgets.is_empty() && can_use_model(agent) {
            // One of them is enough: the end is the same for all.
            let option = choices.choose_option(budgets.len() + 1);
            ran.spent_budget = option.checked_sub(1).map(|budget| budgets[budget]);
        }
        if ran.spent_budget.is_some() {
            budgets.clear();
        }
        apply_legal_event(state, execution_result_event(number, start, &ran));
        runs.push(ran);
    }
    runs
}

/// Returns the budgets of the conversation that an execution can use up.
fn list_spendable_budgets(plan: &Plan) -> Vec<SpentBudget> {
    let limits = &plan.ensemble().limits;
    let tokens = limits.max_total_tokens.map(SpentBudget::Tokens);
    tokens
        .into_iter()
        .chain(limits.max_cost.map(SpentBudget::Cost))
        .collect()
}

/// Chooses no request, or a request for an agent for which the request has an effect.
/// These are agents that can run again, and agents at `max_turns` that were not requested since.
fn choose_request_target(
    plan: &Plan,
    state: &ConversationState,
    running: &[AgentId],
    choices: &StepChoices,
) -> Option<Arc<str>> {
    let may_run_again = |id: &AgentId| {
        let runs_now = u32::from(running.contains(id));
        state.agent_state(*id).executions_in_segment() + runs_now < plan.agent(*id).conversation.max_turns.get()
            || !state.was_requested_at_limit(*id)
    };
    let targets: Vec<AgentId> = plan.agent_ids().filter(may_run_again).collect();
    match choices.choose_option(targets.len() + 1) {
        0 => None,
        option => targets.get(option - 1).map(|id| plan.agent_name(*id).clone()),
    }
}

/// Returns the event that ends the execution with this result, or that asks the unanswered question.
fn execution_result_event(turn: u32, start: &AgentStart, ran: &ExploredExecution) -> Event {
    if ran.result == ExecutionResult::Unanswered {
        return Event::InputRequested(InputRequested {
            turn,
            agent: start.agent.clone(),
            execution: start.execution,
            question: OperatorQuestion::new("", Vec::new()),
            address: RequestAddress::default(),
            digest: RequestDigest::default(),
            inner_execution: None,
        });
    }
    let output = match &ran.requests {
        Some(target) => json!({AGENT_REQUESTS_KEY: [{"target_agent": target}]}),
        None => Value::Object(serde_json::Map::new()),
    };
    Event::ExecutionFinished(ExecutionFinished {
        turn,
        agent: start.agent.clone(),
        execution: start.execution,
        attempt: 1,
        end: match ran.result {
            ExecutionResult::Failed => ExecutionEnd::Failed(ExecutionFailure::new(FailureKind::Reported, "as assumed")),
            _ => ExecutionEnd::Succeeded(Arc::new(output)),
        },
        execution_time: 0.0,
        usage: ran.spent_budget.map(|budget| match budget {
            SpentBudget::Tokens(tokens) => ModelUsage {
                input_tokens: tokens,
                ..ModelUsage::default()
            },
            SpentBudget::Cost(cost) => ModelUsage {
                cost: Some(cost),
                ..ModelUsage::default()
            },
        }),
        stderr: String::new(),
        warnings: Vec::new(),
        exchange: Vec::new(),
        reused: false,
        sandboxes: Box::default(),
        answer: None,
    })
}

/// Returns whether an output of the agent can request other agents. Agents with `for_each` cannot.
pub(super) fn can_request_agents(agent: &Agent) -> bool {
    agent.conversation.triggers_conversation && agent.for_each.is_none()
}

/// Returns whether an execution of the agent can send a request to a model, also in a nested run.
fn can_use_model(agent: &Agent) -> bool {
    match &agent.kind {
        AgentKind::Llm(_) | AgentKind::Ensemble { .. } => true,
        AgentKind::Input(input) => matches!(input.responses, Some(PreparedResponses::Profile(_))),
        AgentKind::Script { .. } | AgentKind::Tool { .. } => false,
    }
}

/// Applies the next event. Panics if the event is illegal.
fn apply_legal_event(state: &mut ConversationState, event: Event) {
    let seq = state.next_seq();
    let at = DateTime::<Utc>::UNIX_EPOCH;
    let applied = state.apply_record(&Record { seq, at, event });
    applied.expect("steps are legal");
}
