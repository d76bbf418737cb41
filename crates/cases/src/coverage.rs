//! What conversations reach of an ensemble: agents, dependencies, conditions both ways, outcomes. Pure: a fold of records.
//!
//! Invariant: it is a fold of records.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ensemble_core::conversation::{
    CompletionReason, ConditionFailure, ConversationState, DeclaredRunResult, Event, Record, SuccessCheck,
};
use ensemble_core::resolver::{ConditionEvaluator, DirectEvaluator, decide_with_evaluator};
use ensemble_explore::{Exploration, ExplorationGoal};
use ensemble_language::condition::{Condition, EvaluateError, StaticResult};
use ensemble_language::ensemble::Agent;
use ensemble_language::plan::{AgentId, Plan, PlanEdge};
use ensemble_language::source::RouteLocation;

/// Position of a dependency: the agent that has the dependency, and the index in its list.
type PositionedDependency = (AgentId, usize);

/// Parts of an ensemble that conversations have reached, with counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReachedParts {
    agents: BTreeMap<AgentId, usize>,
    dependencies: BTreeMap<PositionedDependency, usize>,
    conditions: BTreeSet<(PositionedDependency, bool)>,
    outcomes: BTreeSet<CompletionReason>,
}

/// Evaluator that records the results of conditions.
struct ConditionResultRecorder<'r>(&'r RefCell<BTreeSet<(PositionedDependency, bool)>>);

impl ConditionEvaluator for ConditionResultRecorder<'_> {
    fn evaluate_condition(
        &self,
        state: &ConversationState,
        edge: &PlanEdge,
        condition: &Condition,
    ) -> Result<bool, EvaluateError> {
        let answer = DirectEvaluator.evaluate_condition(state, edge, condition)?;
        self.0.borrow_mut().insert(((edge.to, edge.position), answer));
        Ok(answer)
    }

    fn evaluate_at_end(
        &self,
        state: &ConversationState,
        edge: &PlanEdge,
        condition: &Condition,
    ) -> Result<bool, EvaluateError> {
        DirectEvaluator.evaluate_condition(state, edge, condition)
    }

    fn evaluate_declared_result(&self, _state: &ConversationState) -> Option<DeclaredRunResult> {
        None
    }

    fn evaluate_success(&self, state: &ConversationState) -> Option<Result<SuccessCheck, ConditionFailure>> {
        state.evaluate_success()
    }
}

impl ReachedParts {
    /// Adds the parts that a conversation with these records reached. Decides every turn again.
    pub fn add_conversation(&mut self, plan: &Arc<Plan>, records: &[Record]) {
        let mut state = ConversationState::new(plan.clone());
        let conditions = RefCell::new(std::mem::take(&mut self.conditions));
        for record in records {
            match &record.event {
                Event::TurnStarted(turn) => {
                    let _decided = decide_with_evaluator(plan, &state, &ConditionResultRecorder(&conditions));
                    for start in &turn.starts {
                        let Some(id) = plan.find_agent_id(&start.agent) else {
                            continue;
                        };
                        *self.agents.entry(id).or_default() += 1;
                        for position in &start.counts {
                            *self.dependencies.entry((id, *position)).or_default() += 1;
                        }
                    }
                }
                Event::RunEnded(ended) => {
                    if state.open_turn().is_none() {
                        let _decided = decide_with_evaluator(plan, &state, &ConditionResultRecorder(&conditions));
                    }
                    self.outcomes.insert(ended.completion_reason);
                }
                _ => {}
            }
            if state.apply_record(record).is_err() {
                break;
            }
        }
        self.conditions = conditions.into_inner();
    }

    /// Adds the parts that other conversations of the same ensemble have reached.
    pub fn add_reached(&mut self, other: &Self) {
        for (id, count) in &other.agents {
            *self.agents.entry(*id).or_default() += count;
        }
        for (one, count) in &other.dependencies {
            *self.dependencies.entry(*one).or_default() += count;
        }
        self.conditions.extend(&other.conditions);
        self.outcomes.extend(&other.outcomes);
    }

    /// Returns the number of executions of the agent.
    pub fn execution_count(&self, id: AgentId) -> usize {
        self.agents.get(&id).copied().unwrap_or_default()
    }

    /// Returns the number of starts of the agent by the dependency.
    pub fn start_count(&self, edge: &PlanEdge) -> usize {
        self.dependencies
            .get(&(edge.to, edge.position))
            .copied()
            .unwrap_or_default()
    }

    /// Returns the possible results of the condition that no conversation has reached.
    pub fn missing_condition_results(&self, edge: &PlanEdge, explored: &Exploration) -> Vec<bool> {
        let answers = edge.condition.as_ref().map_or(&[][..], testable_results).iter();
        let never = |answer: &&bool| {
            !self.conditions.contains(&((edge.to, edge.position), **answer))
                && is_possibly_reachable(explored, ExplorationGoal::Answer(edge.to, edge.position, **answer))
        };
        answers.filter(never).copied().collect()
    }

    /// Returns whether a conversation has reached the goal.
    pub fn has_reached(&self, goal: ExplorationGoal) -> bool {
        match goal {
            ExplorationGoal::Execution(id) => self.agents.contains_key(&id),
            ExplorationGoal::Start(id, position) => self.dependencies.contains_key(&(id, position)),
            ExplorationGoal::Answer(id, position, answer) => self.conditions.contains(&((id, position), answer)),
            ExplorationGoal::Outcome(reason) => self.outcomes.contains(&reason),
        }
    }
}

/// Returns whether a conversation can reach the goal. Returns `true` after an incomplete exploration, or if agents make requests.
fn is_possibly_reachable(explored: &Exploration, goal: ExplorationGoal) -> bool {
    !explored.coverage.is_complete() || explored.requests || explored.reached.contains(&goal)
}

/// Returns the result of the condition that is known before a run.
fn find_static_result(condition: &Condition) -> StaticResult {
    Condition::parse(condition.text()).map_or(StaticResult::DependsOnValues, |reading| reading.static_result())
}

/// Returns the results that a test can cover: both, or none if the result is known before a run.
fn testable_results(condition: &Condition) -> &'static [bool] {
    match find_static_result(condition) {
        StaticResult::DependsOnValues => &[true, false],
        StaticResult::WrittenLiteral(_)
        | StaticResult::AlwaysTrue
        | StaticResult::AlwaysFalse
        | StaticResult::AlwaysFails(_) => &[],
    }
}

/// Returns whether the condition is false or fails in every conversation.
fn is_never_true(condition: &Condition) -> bool {
    matches!(
        find_static_result(condition),
        StaticResult::WrittenLiteral(false) | StaticResult::AlwaysFalse | StaticResult::AlwaysFails(_)
    )
}

/// Coverage of an ensemble by cases: reached and reachable parts.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseCoverage {
    /// The agents that can run.
    pub agents: CoverageCount,
    /// The dependencies that can start an agent.
    pub dependencies: CoverageCount,
    /// The conditions of these dependencies, each once true and once false.
    pub conditions: CoverageCount,
    /// The outcomes.
    pub outcomes: CoverageCount,
    /// Whether all conversations were explored; otherwise more may be possible.
    pub is_complete: bool,
}

/// Number of reached parts of one kind, with the unreached parts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CoverageCount {
    /// The number of those that are reached.
    pub reached: usize,
    /// The number of all.
    pub all: usize,
    /// Those that are not reached.
    pub gaps: Vec<UnreachedPart>,
}

/// Part of an ensemble that no conversation has reached.
#[derive(Debug, Clone, PartialEq)]
pub struct UnreachedPart {
    /// Its kind: `agent`, `dependency`, `condition`, `outcome`.
    pub kind: &'static str,
    /// What a conversation would have to reach.
    pub goal: ExplorationGoal,
    /// The words for it.
    pub what: String,
    /// Its place in the ensemble; `None` for outcomes.
    pub at: Option<RouteLocation>,
}

impl CoverageCount {
    /// Counts a part as reached, or adds the gap.
    fn count_part(&mut self, is_reached: bool, gap: impl FnOnce() -> UnreachedPart) {
        self.all += 1;
        match is_reached {
            true => self.reached += 1,
            false => self.gaps.push(gap()),
        }
    }
}

impl CaseCoverage {
    /// Compares the reached parts with the parts that exploration considers possible.
    pub fn from_reached_parts(plan: &Plan, reached: &ReachedParts, explored: &Exploration) -> Self {
        let is_complete = explored.coverage.is_complete();
        let may_run = |id: AgentId| !is_complete || explored.agents[id.index()].most > 0;
        let mut coverage = Self {
            agents: CoverageCount::default(),
            dependencies: CoverageCount::default(),
            conditions: CoverageCount::default(),
            outcomes: CoverageCount::default(),
            is_complete,
        };
        for id in plan
            .agent_ids()
            .filter(|id| may_run(*id) || reached.agents.contains_key(id))
        {
            coverage
                .agents
                .count_part(reached.agents.contains_key(&id), || UnreachedPart {
                    kind: "agent",
                    goal: ExplorationGoal::Execution(id),
                    what: format!("{} never runs", plan.agent_name(id)),
                    at: Some(Agent::route_at(id.index()).with_key("name").into_value_location()),
                });
            for (_, edge) in plan.incoming_edges(id) {
                coverage.count_dependency(plan, edge, reached, explored, &may_run);
            }
        }
        let possible: BTreeSet<CompletionReason> = explored.ends.iter().map(|end| end.reason).collect();
        let outcomes: BTreeSet<CompletionReason> = possible.union(&reached.outcomes).copied().collect();
        for outcome in outcomes.into_iter().rev() {
            coverage
                .outcomes
                .count_part(reached.outcomes.contains(&outcome), || UnreachedPart {
                    kind: "outcome",
                    goal: ExplorationGoal::Outcome(outcome),
                    what: format!("no case has the outcome {outcome}"),
                    at: None,
                });
        }
        coverage
    }

    /// Counts a dependency and the results of its condition.
    fn count_dependency(
        &mut self,
        plan: &Plan,
        edge: &PlanEdge,
        reached: &ReachedParts,
        explored: &Exploration,
        may_run: &dyn Fn(AgentId) -> bool,
    ) {
        let goal = ExplorationGoal::Start(edge.to, edge.position);
        let is_reached = reached.has_reached(goal);
        let may_start = may_run(edge.from) && !edge.condition.as_ref().is_some_and(is_never_true);
        let agent = &plan.ensemble().agents[edge.to.index()];
        let route = agent.dependencies[edge.position].route_in(&Agent::route_at(edge.to.index()));
        let (to, from) = (plan.agent_name(edge.to), plan.agent_name(edge.from));
        if is_reached || may_start && is_possibly_reachable(explored, goal) {
            self.dependencies.count_part(is_reached, || UnreachedPart {
                kind: "dependency",
                goal,
                what: format!("{from} never starts {to}"),
                at: Some(route.clone().into_value_location()),
            });
        }
        let Some(condition) = &edge.condition else { return };
        for answer in testable_results(condition).iter().copied() {
            let goal = ExplorationGoal::Answer(edge.to, edge.position, answer);
            let is_reached = reached.has_reached(goal);
            let is_possible = is_reached || may_start && is_possibly_reachable(explored, goal);
            if !is_possible {
                continue;
            }
            self.conditions.count_part(is_reached, || UnreachedPart {
                kind: "condition",
                goal,
                what: format!("`{}` of {to} on {from} is never {answer}", condition.text().trim()),
                at: Some(route.with_key("condition").into_value_location()),
            });
        }
    }

    /// Returns the unreached parts of all kinds.
    pub fn unreached_parts(&self) -> impl Iterator<Item = &UnreachedPart> {
        let parts = [&self.agents, &self.dependencies, &self.conditions, &self.outcomes];
        parts.into_iter().flat_map(|part| &part.gaps)
    }
}
