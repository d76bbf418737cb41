//! What conversations reach of an ensemble: agents, dependencies, conditions both ways, outcomes. Pure: a fold of records.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use ensemble_core::conversation::{CompletionReason, ConversationState, Event, Record, RunValue};
use ensemble_core::explore::Exploration;
use ensemble_core::resolver::{Answers, Evaluated, decide_by};
use ensemble_language::condition::{Condition, EvaluateError, Read};
use ensemble_language::ensemble::Agent;
use ensemble_language::plan::{AgentId, Edge, Plan};
use ensemble_language::source::At;

/// A dependency: the agent that has it, and its position.
type Dependency = (AgentId, usize);

/// What conversations have reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reached {
    agents: BTreeSet<AgentId>,
    dependencies: BTreeSet<Dependency>,
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
                        self.agents.insert(id);
                        self.dependencies
                            .extend(start.counts.iter().map(|position| (id, *position)));
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
            state.apply(record);
        }
        self.conditions = conditions.into_inner();
    }

    /// Adds what others have reached of the same ensemble.
    pub fn join(&mut self, other: &Self) {
        self.agents.extend(&other.agents);
        self.dependencies.extend(&other.dependencies);
        self.conditions.extend(&other.conditions);
        self.outcomes.extend(&other.outcomes);
    }
}

/// What is reached, and what could be.
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

/// How many are reached.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counted {
    /// The number of those that are reached.
    pub reached: usize,
    /// The number of all.
    pub all: usize,
    /// Those that are not reached.
    pub gaps: Vec<Gap>,
}

/// What no conversation has reached.
#[derive(Debug, Clone, PartialEq)]
pub struct Gap {
    /// Its kind: `agent`, `dependency`, `condition`, `outcome`.
    pub kind: &'static str,
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
        for id in plan.ids().filter(|id| may_run(*id) || reached.agents.contains(id)) {
            coverage.agents.count(reached.agents.contains(&id), || Gap {
                kind: "agent",
                what: format!("{} never runs", plan.name(id)),
                at: Some(Agent::route(id.index()).key("name").value()),
            });
            for (_, edge) in plan.incoming(id) {
                coverage.dependency(plan, edge, reached, &may_run);
            }
        }
        let possible: BTreeSet<CompletionReason> = explored.ends.iter().map(|end| end.reason).collect();
        let outcomes: BTreeSet<CompletionReason> = possible.union(&reached.outcomes).copied().collect();
        for outcome in outcomes.into_iter().rev() {
            coverage.outcomes.count(reached.outcomes.contains(&outcome), || Gap {
                kind: "outcome",
                what: format!("no case ends as {outcome}"),
                at: None,
            });
        }
        coverage
    }

    fn dependency(&mut self, plan: &Plan, edge: &Edge, reached: &Reached, may_run: &dyn Fn(AgentId) -> bool) {
        let one = (edge.to, edge.position);
        let is_reached = reached.dependencies.contains(&one);
        if !may_run(edge.from) && !is_reached {
            return;
        }
        let agent = &plan.ensemble().agents[edge.to.index()];
        let route = agent.dependencies[edge.position].route(&Agent::route(edge.to.index()));
        let (to, from) = (plan.name(edge.to), plan.name(edge.from));
        self.dependencies.count(is_reached, || Gap {
            kind: "dependency",
            what: format!("{from} never starts {to}"),
            at: Some(route.clone().value()),
        });
        let Some(condition) = &edge.condition else { return };
        for answer in [true, false] {
            self.conditions
                .count(reached.conditions.contains(&(one, answer)), || Gap {
                    kind: "condition",
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
