//! What conversations reach of an ensemble: agents, dependencies, conditions both ways, outcomes. Pure: a fold of records.
//!
//! Invariant: it is a fold of records.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ensemble_core::conversation::{CompletionReason, ConversationState, Event, Record, RunValue};
use ensemble_core::resolver::{Answers, Evaluated, decide_by};
use ensemble_explore::{Exploration, Goal};
use ensemble_language::condition::{Condition, EvaluateError, Read, Verdict};
use ensemble_language::ensemble::Agent;
use ensemble_language::plan::{AgentId, Edge, Plan};
use ensemble_language::source::At;

/// A dependency: the agent that has it, and its position.
type Dependency = (AgentId, usize);

/// The parts of an ensemble that conversations have reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reached {
    agents: BTreeMap<AgentId, usize>,
    dependencies: BTreeMap<Dependency, usize>,
    conditions: BTreeSet<(Dependency, bool)>,
    outcomes: BTreeSet<CompletionReason>,
}

/// Notes the answers of conditions.
struct Watched<'r>(&'r RefCell<BTreeSet<(Dependency, bool)>>);

impl Answers for Watched<'_> {
    fn answer(&self, state: &ConversationState, edge: &Edge, condition: &Condition) -> Result<bool, EvaluateError> {
        let answer = Evaluated.answer(state, edge, condition)?;
        self.0.borrow_mut().insert(((edge.to, edge.position), answer));
        Ok(answer)
    }

    fn reads(&self, state: &ConversationState, edge: &Edge, condition: &Condition) -> Vec<Read> {
        Evaluated.reads(state, edge, condition)
    }

    fn run_value(&self, _state: &ConversationState) -> Option<RunValue> {
        None
    }
}

impl Reached {
    /// Adds what a conversation with these records reached.
    pub fn add(&mut self, plan: &Arc<Plan>, records: &[Record]) {
        let mut state = ConversationState::new(plan.clone());
        let conditions = RefCell::new(std::mem::take(&mut self.conditions));
        for record in records {
            match &record.event {
                Event::TurnStarted(turn) => {
                    let _decided = decide_by(plan, &state, &Watched(&conditions));
                    for start in &turn.starts {
                        let Some(id) = plan.id(&start.agent) else { continue };
                        *self.agents.entry(id).or_default() += 1;
                        for position in &start.counts {
                            *self.dependencies.entry((id, *position)).or_default() += 1;
                        }
                    }
                }
                Event::RunEnded(ended) => {
                    if state.open_turn().is_none() {
                        let _decided = decide_by(plan, &state, &Watched(&conditions));
                    }
                    self.outcomes.insert(ended.completion_reason);
                }
                _ => {}
            }
            if state.apply(record).is_err() {
                break;
            }
        }
        self.conditions = conditions.into_inner();
    }

    /// Adds what others have reached of the same ensemble.
    pub fn join(&mut self, other: &Self) {
        for (id, count) in &other.agents {
            *self.agents.entry(*id).or_default() += count;
        }
        for (one, count) in &other.dependencies {
            *self.dependencies.entry(*one).or_default() += count;
        }
        self.conditions.extend(&other.conditions);
        self.outcomes.extend(&other.outcomes);
    }

    /// Returns how often the agent ran.
    pub fn executions(&self, id: AgentId) -> usize {
        self.agents.get(&id).copied().unwrap_or_default()
    }

    /// Returns how often the dependency started its agent.
    pub fn starts(&self, edge: &Edge) -> usize {
        self.dependencies
            .get(&(edge.to, edge.position))
            .copied()
            .unwrap_or_default()
    }

    /// The answers that the condition of the dependency could have, and never had.
    pub fn unanswered(&self, edge: &Edge, explored: &Exploration) -> Vec<bool> {
        let answers = edge.condition.as_ref().map_or(&[][..], to_be_tested).iter();
        let never = |answer: &&bool| {
            !self.conditions.contains(&((edge.to, edge.position), **answer))
                && can_reach(explored, Goal::Answer(edge.to, edge.position, **answer))
        };
        answers.filter(never).copied().collect()
    }

    /// Returns whether it is reached.
    pub fn has(&self, goal: Goal) -> bool {
        match goal {
            Goal::Execution(id) => self.agents.contains_key(&id),
            Goal::Start(id, position) => self.dependencies.contains_key(&(id, position)),
            Goal::Answer(id, position, answer) => self.conditions.contains(&((id, position), answer)),
            Goal::Outcome(reason) => self.outcomes.contains(&reason),
        }
    }
}

/// Returns whether a conversation can reach it, as far as exploration knows. It knows all only if it was complete, and
/// if no agent makes requests, of which it does not try all.
fn can_reach(explored: &Exploration, goal: Goal) -> bool {
    !explored.coverage.is_complete() || explored.requests || explored.reached.contains(&goal)
}

/// Returns what is known of the answer before a run.
fn verdict(condition: &Condition) -> Verdict {
    Condition::read(condition.text()).map_or(Verdict::Open, |reading| reading.verdict())
}

/// The answers that a test can be asked for: both, or none of a condition whose answer is known beforehand.
fn to_be_tested(condition: &Condition) -> &'static [bool] {
    match verdict(condition) {
        Verdict::Open => &[true, false],
        Verdict::Plain(_) | Verdict::Always | Verdict::Never | Verdict::Fails(_) => &[],
    }
}

/// Can no conversation fulfil the condition?
fn is_never_true(condition: &Condition) -> bool {
    matches!(
        verdict(condition),
        Verdict::Plain(false) | Verdict::Never | Verdict::Fails(_)
    )
}

/// The reached and the reachable parts of an ensemble.
#[derive(Debug, Clone, PartialEq)]
pub struct Coverage {
    /// The agents that can run.
    pub agents: Counted,
    /// The dependencies that can start an agent.
    pub dependencies: Counted,
    /// The conditions of these dependencies, each once true and once false.
    pub conditions: Counted,
    /// The outcomes.
    pub outcomes: Counted,
    /// Whether all conversations were explored; otherwise more may be possible.
    pub is_complete: bool,
}

/// The number of reached parts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counted {
    /// The number of those that are reached.
    pub reached: usize,
    /// The number of all.
    pub all: usize,
    /// Those that are not reached.
    pub gaps: Vec<Gap>,
}

/// A part that no conversation has reached.
#[derive(Debug, Clone, PartialEq)]
pub struct Gap {
    /// Its kind: `agent`, `dependency`, `condition`, `outcome`.
    pub kind: &'static str,
    /// What a conversation would have to reach.
    pub goal: Goal,
    /// The words for it.
    pub what: String,
    /// Its place in the ensemble; `None` for outcomes.
    pub at: Option<At>,
}

impl Counted {
    fn count(&mut self, is_reached: bool, gap: impl FnOnce() -> Gap) {
        self.all += 1;
        match is_reached {
            true => self.reached += 1,
            false => self.gaps.push(gap()),
        }
    }
}

impl Coverage {
    /// Compares what is reached with what exploration calls possible.
    pub fn of(plan: &Plan, reached: &Reached, explored: &Exploration) -> Self {
        let is_complete = explored.coverage.is_complete();
        let may_run = |id: AgentId| !is_complete || explored.agents[id.index()].most > 0;
        let mut coverage = Self {
            agents: Counted::default(),
            dependencies: Counted::default(),
            conditions: Counted::default(),
            outcomes: Counted::default(),
            is_complete,
        };
        for id in plan.ids().filter(|id| may_run(*id) || reached.agents.contains_key(id)) {
            coverage.agents.count(reached.agents.contains_key(&id), || Gap {
                kind: "agent",
                goal: Goal::Execution(id),
                what: format!("{} never runs", plan.name(id)),
                at: Some(Agent::route(id.index()).key("name").value()),
            });
            for (_, edge) in plan.incoming(id) {
                coverage.dependency(plan, edge, reached, explored, &may_run);
            }
        }
        let possible: BTreeSet<CompletionReason> = explored.ends.iter().map(|end| end.reason).collect();
        let outcomes: BTreeSet<CompletionReason> = possible.union(&reached.outcomes).copied().collect();
        for outcome in outcomes.into_iter().rev() {
            coverage.outcomes.count(reached.outcomes.contains(&outcome), || Gap {
                kind: "outcome",
                goal: Goal::Outcome(outcome),
                what: format!("no case ends as {outcome}"),
                at: None,
            });
        }
        coverage
    }

    fn dependency(
        &mut self,
        plan: &Plan,
        edge: &Edge,
        reached: &Reached,
        explored: &Exploration,
        may_run: &dyn Fn(AgentId) -> bool,
    ) {
        let goal = Goal::Start(edge.to, edge.position);
        let is_reached = reached.has(goal);
        let may_start = may_run(edge.from) && !edge.condition.as_ref().is_some_and(is_never_true);
        let agent = &plan.ensemble().agents[edge.to.index()];
        let route = agent.dependencies[edge.position].route(&Agent::route(edge.to.index()));
        let (to, from) = (plan.name(edge.to), plan.name(edge.from));
        if is_reached || may_start && can_reach(explored, goal) {
            self.dependencies.count(is_reached, || Gap {
                kind: "dependency",
                goal,
                what: format!("{from} never starts {to}"),
                at: Some(route.clone().value()),
            });
        }
        let Some(condition) = &edge.condition else { return };
        for answer in to_be_tested(condition).iter().copied() {
            let goal = Goal::Answer(edge.to, edge.position, answer);
            let is_reached = reached.has(goal);
            let is_possible = is_reached || may_start && can_reach(explored, goal);
            if !is_possible {
                continue;
            }
            self.conditions.count(is_reached, || Gap {
                kind: "condition",
                goal,
                what: format!("`{}` of {to} on {from} is never {answer}", condition.text().trim()),
                at: Some(route.key("condition").value()),
            });
        }
    }

    /// Everything that is not reached.
    pub fn gaps(&self) -> impl Iterator<Item = &Gap> {
        let parts = [&self.agents, &self.dependencies, &self.conditions, &self.outcomes];
        parts.into_iter().flat_map(|part| &part.gaps)
    }
}
