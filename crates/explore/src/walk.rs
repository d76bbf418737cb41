//! The walk from state to state, in order of the number of executions. Every step adds executions, so all steps that
//! lead to a state are known before the state itself is examined.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::choices::{ChoiceSequences, OptionRow, StepChoices};
use super::goal::ExplorationGoal;
use super::key::compute_state_key;
use super::oracle::ExploredPlan;
use super::report::StepReport;
use super::step::{ConversationPosition, StepOutcome, can_request_agents};
use super::{
    Exploration, ExplorationBudget, ExplorationCoverage, ExplorationLimit, ExploredAgentSummary, MAX_STEPS_FROM_STATE,
    PossibleEnd, STEPS_PER_STATE, UnexploredOutcome,
};
use ensemble_core::conversation::{CompletionReason, ConversationState, ExhaustedAgent, RunEnded};
use ensemble_language::plan::{AgentId, Plan};

/// Index of a state in the walk.
pub(super) type ExploredStateId = usize;

/// Largest number of pending states whose positions are stored. A position takes about ten kilobytes. Other positions are computed again.
const MAX_STORED_POSITIONS: usize = 250;

/// Search through the reachable states: visited states, pending states and results.
pub(super) struct StateWalk<'w> {
    world: &'w ExploredPlan,
    budget: ExplorationBudget<'w>,
    has_time: &'w dyn Fn() -> bool,
    ids: HashMap<Box<[u8]>, ExploredStateId>,
    arrivals: Vec<ShortestArrival>,
    /// The states to examine, by the number of executions on the path to them.
    pending_states: BTreeMap<u32, Vec<(ExploredStateId, Option<ConversationPosition>)>>,
    /// The number of positions in `ahead`.
    pending_positions: usize,
    pub ends: BTreeMap<EndClass, ShortestEndPath>,
    most_executions: Vec<u32>,
    left_out: Vec<Option<String>>,
    /// For each agent, the highest number of turns after which it has not run, and the state.
    pub longest_without: Vec<Option<(u32, ExploredStateId)>>,
    pub turns: u32,
    pub executions: u32,
    pub coverage: ExplorationCoverage,
    /// Whether in some state all ready agents would have waited for each other.
    pub has_everyone_waited: bool,
    /// What is reached, each with the first step that reaches it.
    reached_goals: BTreeMap<ExplorationGoal, ShortestEndPath>,
    /// What the walk looks for; it ends when it has found all. `None`: everything.
    sought: Option<BTreeSet<ExplorationGoal>>,
}

/// Shortest path to a state, and the numbers of turns on its paths.
struct ShortestArrival {
    /// The previous state on a shortest path, and the choices that lead from there; `None` for the initial state.
    predecessor: Option<(ExploredStateId, OptionRow)>,
    fewest_turns: u32,
    most_turns: u32,
}

/// Class of an end. The exploration reports one end of each class.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EndClass {
    /// The order of the report, from a normal end to the most serious one.
    reason: Reverse<CompletionReason>,
    /// For `completed`: whether an agent never ran.
    pub left_out: bool,
    /// For `completed` with an agent that never ran: whether the last execution of an agent failed.
    pub after_failure: bool,
    /// The exhausted agents, by name.
    pub exhausted: Vec<ExhaustedAgent>,
}

impl EndClass {
    /// Creates the class. `left_out` and `failed` count only for the outcome `completed`.
    pub(super) fn new(
        reason: CompletionReason,
        left_out: bool,
        failed: bool,
        mut exhausted: Vec<ExhaustedAgent>,
    ) -> Self {
        exhausted.sort_unstable();
        let left_out = left_out && reason == CompletionReason::Completed;
        Self {
            reason: Reverse(reason),
            left_out,
            after_failure: left_out && failed,
            exhausted,
        }
    }

    /// Returns the class of a possible end.
    pub(super) fn from_end(end: &PossibleEnd) -> Self {
        Self::new(
            end.reason,
            !end.not_run.is_empty(),
            end.after_failure,
            end.exhausted.clone(),
        )
    }

    /// Returns the outcome of the ends in this class.
    pub(super) fn completion_reason(&self) -> CompletionReason {
        self.reason.0
    }
}

/// Shortest path to an end: the last state, and the choices of the last step.
pub(super) struct ShortestEndPath {
    pub turns: u32,
    from: ExploredStateId,
    choices: OptionRow,
}

impl<'w> StateWalk<'w> {
    /// Creates a walk before its first step.
    pub(super) fn new(world: &'w ExploredPlan, budget: ExplorationBudget<'w>, has_time: &'w dyn Fn() -> bool) -> Self {
        let start = ConversationPosition::at_conversation_start(world);
        Self {
            world,
            budget,
            has_time,
            ids: HashMap::from([(compute_state_key(world, &start.state, &start.remembered), 0)]),
            arrivals: vec![ShortestArrival {
                predecessor: None,
                fewest_turns: 0,
                most_turns: 0,
            }],
            pending_states: BTreeMap::from([(0, vec![(0, Some(start))])]),
            pending_positions: 1,
            ends: BTreeMap::new(),
            most_executions: vec![0; world.plan.agent_count()],
            left_out: vec![None; world.plan.agent_count()],
            longest_without: vec![None; world.plan.agent_count()],
            has_everyone_waited: false,
            reached_goals: BTreeMap::new(),
            sought: None,
            turns: 0,
            executions: 0,
            coverage: ExplorationCoverage {
                states: 0,
                steps: 0,
                parts: 1,
                stopped_by: None,
                complete_below: None,
                cut: 0,
            },
        }
    }

    /// Examines states until all states are examined, the sought goals are reached, or a limit is reached.
    pub(super) fn walk_until_limit(&mut self) {
        while let Some((executions, states)) = self.pending_states.pop_first() {
            for (id, position) in states {
                if self.has_reached_sought_goals() {
                    return;
                }
                self.pending_positions -= usize::from(position.is_some());
                let Some(position) = position.or_else(|| self.replay_to_state(id)) else {
                    continue;
                };
                if let Err(limit) = self.try_steps_from(id, &position) {
                    self.coverage.stopped_by = Some(limit);
                    self.coverage.complete_below = Some(executions);
                    return;
                }
            }
        }
    }

    /// Tries every step from this state, or a limited number of steps if there are too many.
    ///
    /// # Errors
    /// The limit that ends the walk.
    fn try_steps_from(
        &mut self,
        from: ExploredStateId,
        position: &ConversationPosition,
    ) -> Result<(), ExplorationLimit> {
        if self.coverage.states >= self.budget.states {
            return Err(ExplorationLimit::States);
        }
        self.coverage.states += 1;
        let allowed = self.budget.states.saturating_mul(STEPS_PER_STATE);
        let mut rows = ChoiceSequences::new();
        for steps in 0.. {
            let Some(choices) = rows.next() else { break };
            if self.coverage.steps >= allowed {
                return Err(ExplorationLimit::States);
            }
            if !(self.has_time)() {
                return Err(ExplorationLimit::Time);
            }
            if steps == MAX_STEPS_FROM_STATE {
                self.coverage.cut += 1;
                break;
            }
            self.coverage.steps += 1;
            let (next, _) = position.perform_step(self.world, &choices);
            rows.queue_alternatives(&choices);
            self.has_everyone_waited |= choices.have_all_agents_waited();
            self.record_reached_goals(from, &choices);
            match next {
                StepOutcome::Turn(next) => self.record_arrival(from, *next, &choices),
                StepOutcome::End(ended, inside) => {
                    self.record_end(from, &ended, inside.as_deref().unwrap_or(&position.state), &choices);
                }
            }
        }
        Ok(())
    }

    /// Records the goals of the step, each with the path with the fewest turns.
    fn record_reached_goals(&mut self, from: ExploredStateId, choices: &StepChoices) {
        for goal in choices.take_reached_goals() {
            let turns = self.arrivals[from].fewest_turns;
            if self.reached_goals.get(&goal).is_none_or(|known| turns < known.turns) {
                let choices = choices.taken_options();
                self.reached_goals
                    .insert(goal, ShortestEndPath { turns, from, choices });
            }
        }
    }

    /// Returns whether everything was found that the walk looks for.
    fn has_reached_sought_goals(&self) -> bool {
        let is_found = |goal: &ExplorationGoal| match goal {
            ExplorationGoal::Outcome(reason) => self.ends.keys().any(|class| class.completion_reason() == *reason),
            other => self.reached_goals.contains_key(other),
        };
        self.sought.as_ref().is_some_and(|sought| sought.iter().all(is_found))
    }

    /// Sets the goals at which the walk ends.
    pub(super) fn set_sought_goals(&mut self, goals: BTreeSet<ExplorationGoal>) {
        self.sought = Some(goals);
    }

    /// Returns the reached goals without the outcomes.
    pub(super) fn reached_goals(&self) -> impl Iterator<Item = ExplorationGoal> {
        self.reached_goals.keys().copied()
    }

    /// Returns a conversation that reaches the goal, up to its end.
    pub(super) fn find_goal_example(&self, goal: ExplorationGoal) -> Option<PossibleEnd> {
        match goal {
            ExplorationGoal::Outcome(reason) => {
                let mut ends = self
                    .ends
                    .iter()
                    .filter(|(class, _)| class.completion_reason() == reason);
                ends.next().and_then(|(_, end)| self.replay_to_end(end))
            }
            other => self.replay_to_end(self.reached_goals.get(&other)?),
        }
    }

    /// Records a path to a position. A new state is queued for examination.
    fn record_arrival(&mut self, from: ExploredStateId, position: ConversationPosition, choices: &StepChoices) {
        let (fewest, most) = (self.arrivals[from].fewest_turns + 1, self.arrivals[from].most_turns + 1);
        // Turns that were started count, even if the budget ends before they end.
        self.turns = self.turns.max(most);
        let key = compute_state_key(self.world, &position.state, &position.remembered);
        if let Some(known_id) = self.ids.get(&key) {
            let arrival = &mut self.arrivals[*known_id];
            arrival.most_turns = arrival.most_turns.max(most);
            if fewest < arrival.fewest_turns {
                arrival.fewest_turns = fewest;
                arrival.predecessor = Some((from, choices.taken_options()));
            }
            return;
        }
        let id = self.arrivals.len();
        self.ids.insert(key, id);
        self.arrivals.push(ShortestArrival {
            predecessor: Some((from, choices.taken_options())),
            fewest_turns: fewest,
            most_turns: most,
        });
        let executions = self.record_execution_counts(&position.state);
        self.record_agents_without_execution(&position.state, fewest, id);
        let position = (self.pending_positions < MAX_STORED_POSITIONS).then_some(position);
        self.pending_positions += usize::from(position.is_some());
        self.pending_states.entry(executions).or_default().push((id, position));
    }

    /// Updates the highest numbers of executions. Returns the number of executions in the state.
    fn record_execution_counts(&mut self, state: &ConversationState) -> u32 {
        let mut all = 0;
        for (id, most) in self.world.plan.agent_ids().zip(&mut self.most_executions) {
            let count = state.execution_count(id);
            *most = (*most).max(count);
            all += count;
        }
        self.executions = self.executions.max(all);
        all
    }

    /// Updates for each agent the highest number of turns without an execution.
    fn record_agents_without_execution(&mut self, state: &ConversationState, turns: u32, at: ExploredStateId) {
        for (id, longest) in self.world.plan.agent_ids().zip(&mut self.longest_without) {
            if state.execution_count(id) == 0 && longest.is_none_or(|(known, _)| known < turns) {
                *longest = Some((turns, at));
            }
        }
    }

    /// Records an end of a conversation, and the agents that never ran. Keeps the end with the fewest turns of each class.
    fn record_end(
        &mut self,
        from: ExploredStateId,
        ended: &RunEnded,
        state: &ConversationState,
        choices: &StepChoices,
    ) {
        self.record_execution_counts(state);
        let plan = &self.world.plan;
        for not_run in &ended.not_run {
            if let Some(id) = plan.find_agent_id(&not_run.agent) {
                self.left_out[id.index()].get_or_insert_with(|| not_run.reason.clone());
            }
        }
        let (left_out, failed) = (!ended.not_run.is_empty(), has_last_failure(plan, state));
        let class = EndClass::new(ended.completion_reason, left_out, failed, ended.exhausted.clone());
        let class = match self.world.tells_turns {
            // A part: beside the others, the whole may be of another class.
            true => EndClass {
                left_out,
                after_failure: failed,
                ..class
            },
            false => class,
        };
        let turns = self.arrivals[from].fewest_turns;
        if self.ends.get(&class).is_none_or(|known| turns < known.turns) {
            let choices = choices.taken_options();
            self.ends.insert(class, ShortestEndPath { turns, from, choices });
        }
    }

    /// Converts the walk to its result, with shortest paths to the ends.
    pub(super) fn into_exploration(self, besides: Vec<UnexploredOutcome>) -> Exploration {
        let plan = &self.world.plan;
        let ends = self.ends.values().filter_map(|end| self.replay_to_end(end)).collect();
        Exploration {
            turns: self.turns,
            executions: self.executions,
            turns_bound: 0,
            executions_bound: 0,
            agents: self.summarize_agents().collect(),
            ends,
            are_ends_cut: false,
            besides,
            requests: plan.agent_ids().any(|id| can_request_agents(plan.agent(id))),
            coverage: self.coverage.clone(),
            reached: self.reached_goals().collect(),
        }
    }

    /// Returns the summaries of the agents, in declaration order.
    pub(super) fn summarize_agents(&self) -> impl Iterator<Item = ExploredAgentSummary> {
        let plan = &self.world.plan;
        plan.agent_ids().map(|id| ExploredAgentSummary {
            agent: plan.agent_name(id).clone(),
            most: self.most_executions[id.index()],
            bound: 0,
            limit: plan.agent(id).conversation.max_turns.get(),
            left_out: self.left_out[id.index()].clone(),
        })
    }

    /// Returns the number of the agent with this name.
    pub(super) fn find_agent_id(&self, agent: &str) -> Option<AgentId> {
        self.world.plan.find_agent_id(agent)
    }

    /// Returns the choices on a shortest path to the state.
    fn list_choices_to_state(&self, mut at: ExploredStateId) -> Vec<OptionRow> {
        let mut rows = Vec::new();
        while let Some((before, choices)) = &self.arrivals[at].predecessor {
            rows.push(choices.clone());
            at = *before;
        }
        rows.reverse();
        rows
    }

    /// Performs a shortest path to the state again. Returns the position.
    fn replay_to_state(&self, state: ExploredStateId) -> Option<ConversationPosition> {
        let mut position = ConversationPosition::at_conversation_start(self.world);
        for row in self.list_choices_to_state(state) {
            let StepOutcome::Turn(next) = position.perform_step(self.world, &StepChoices::from_prescribed(row)).0
            else {
                return None;
            };
            position = *next;
        }
        Some(position)
    }

    /// Performs a shortest path to the state again. Returns the steps.
    pub(super) fn replay_steps_to_state(&self, state: ExploredStateId) -> Vec<StepReport> {
        let mut position = ConversationPosition::at_conversation_start(self.world);
        let mut path = Vec::new();
        for row in self.list_choices_to_state(state) {
            let (next, told) = position.perform_step(self.world, &StepChoices::from_prescribed(row));
            path.push(told);
            let StepOutcome::Turn(next) = next else { break };
            position = *next;
        }
        path
    }

    /// Performs the path to the end again. Returns the end with its steps.
    pub(super) fn replay_to_end(&self, end: &ShortestEndPath) -> Option<PossibleEnd> {
        let mut rows = self.list_choices_to_state(end.from);
        rows.push(end.choices.clone());
        let mut position = ConversationPosition::at_conversation_start(self.world);
        let mut path: Vec<StepReport> = Vec::with_capacity(rows.len());
        for row in rows {
            let (next, told) = position.perform_step(self.world, &StepChoices::from_prescribed(row));
            path.push(told);
            match next {
                StepOutcome::Turn(next) => position = *next,
                StepOutcome::End(ended, inside) => {
                    let state = inside.as_deref().unwrap_or(&position.state);
                    return Some(build_possible_end(&self.world.plan, *ended, state, path));
                }
            }
        }
        self.continue_to_end(position, path)
    }

    /// Continues from the position with default options until the conversation ends.
    fn continue_to_end(&self, mut position: ConversationPosition, mut path: Vec<StepReport>) -> Option<PossibleEnd> {
        loop {
            let (next, told) = position.perform_step(self.world, &StepChoices::from_prescribed(OptionRow::default()));
            path.push(told);
            match next {
                StepOutcome::Turn(next) => position = *next,
                StepOutcome::End(ended, inside) => {
                    let state = inside.as_deref().unwrap_or(&position.state);
                    return Some(build_possible_end(&self.world.plan, *ended, state, path));
                }
            }
        }
    }
}

/// Builds the end with its path. Removes a last step without executions and assumptions.
pub(super) fn build_possible_end(
    plan: &Arc<Plan>,
    ended: RunEnded,
    state: &ConversationState,
    mut path: Vec<StepReport>,
) -> PossibleEnd {
    if path
        .last()
        .is_some_and(|last| last.runs.is_empty() && last.assumed.is_empty())
    {
        path.pop();
    }
    PossibleEnd {
        reason: ended.completion_reason,
        success: ended.is_success(),
        detail: ended.detail,
        not_run: ended.not_run,
        exhausted: ended.exhausted,
        after_failure: has_last_failure(plan, state),
        turns: state.turn_count(),
        path,
    }
}

/// Returns whether the last execution of an agent failed.
fn has_last_failure(plan: &Plan, state: &ConversationState) -> bool {
    plan.agent_ids().any(|id| state.agent_state(id).has_failed_last())
}
