//! The walk from state to state, in order of the number of executions. Every step adds executions, so all steps that
//! lead to a state are known before the state itself is examined.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::choices::{Choices, Row, Rows};
use super::key::key;
use super::oracle::World;
use super::step::{Next, Position, StepReport, may_request};
use super::{
    AgentSummary, Budget, Coverage, End, Exploration, STEPS_FROM_ONE_STATE, STEPS_PER_STATE, Stopped, UnexploredOutcome,
};
use crate::conversation::{CompletionReason, ConversationState, RunEnded};
use ensemble_language::plan::{AgentId, Plan};

type StateId = usize;

/// The state of the walk.
pub(super) struct Walk<'w> {
    world: &'w World,
    budget: Budget,
    has_time: &'w dyn Fn() -> bool,
    ids: HashMap<Box<[u8]>, StateId>,
    arrivals: Vec<Arrival>,
    /// The states to examine, by the number of executions on the path to them.
    ahead: BTreeMap<u32, Vec<(StateId, Position)>>,
    ends: BTreeMap<Class, Candidate>,
    most: Vec<u32>,
    left_out: Vec<Option<String>>,
    turns: u32,
    executions: u32,
    coverage: Coverage,
}

/// The path to a state.
struct Arrival {
    /// The previous state on a shortest path, and the choices that lead from there; `None` for the initial state.
    before: Option<(StateId, Row)>,
    fewest_turns: u32,
    most_turns: u32,
}

/// The class of an end. One end of each class is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    /// The order of the report, from a normal end to the most serious one.
    reason: Reverse<CompletionReason>,
    /// For `completed`: whether an agent never ran.
    left_out: bool,
    /// For `completed` with an agent that never ran: whether the last execution of an agent failed.
    after_failure: bool,
}

/// A shortest path to an end.
struct Candidate {
    turns: u32,
    from: StateId,
    choices: Row,
}

impl<'w> Walk<'w> {
    /// Before the first step.
    pub(super) fn new(world: &'w World, budget: Budget, has_time: &'w dyn Fn() -> bool) -> Self {
        let start = Position::start(world);
        Self {
            world,
            budget,
            has_time,
            ids: HashMap::from([(key(world, &start.state, &start.remembered), 0)]),
            arrivals: vec![Arrival {
                before: None,
                fewest_turns: 0,
                most_turns: 0,
            }],
            ahead: BTreeMap::from([(0, vec![(0, start)])]),
            ends: BTreeMap::new(),
            most: vec![0; world.plan.len()],
            left_out: vec![None; world.plan.len()],
            turns: 0,
            executions: 0,
            coverage: Coverage {
                states: 0,
                steps: 0,
                stopped_by: None,
                complete_below: None,
                cut: 0,
            },
        }
    }

    /// Continues until everything was examined or a limit is reached.
    pub(super) fn go(&mut self) {
        while let Some((executions, states)) = self.ahead.pop_first() {
            for (id, position) in states {
                if let Err(limit) = self.look_around(id, &position) {
                    self.coverage.stopped_by = Some(limit);
                    self.coverage.complete_below = Some(executions);
                    return;
                }
            }
        }
    }

    /// Tries every step from this state, or the first ones if there are very many.
    fn look_around(&mut self, from: StateId, position: &Position) -> Result<(), Stopped> {
        if self.coverage.states >= self.budget.states {
            return Err(Stopped::States);
        }
        self.coverage.states += 1;
        let allowed = self.budget.states.saturating_mul(STEPS_PER_STATE);
        let mut rows = Rows::new();
        for steps in 0.. {
            let Some(choices) = rows.next() else { break };
            if self.coverage.steps >= allowed {
                return Err(Stopped::States);
            }
            if !(self.has_time)() {
                return Err(Stopped::Time);
            }
            if steps == STEPS_FROM_ONE_STATE {
                self.coverage.cut += 1;
                break;
            }
            self.coverage.steps += 1;
            let (next, _) = position.step(self.world, &choices);
            rows.gone(&choices);
            match next {
                Next::Turn(next) => self.arrive(from, *next, &choices),
                Next::End(ended, inside) => {
                    self.end(from, &ended, inside.as_deref().unwrap_or(&position.state), &choices);
                }
            }
        }
        Ok(())
    }

    fn arrive(&mut self, from: StateId, position: Position, choices: &Choices) {
        let (fewest, most) = (self.arrivals[from].fewest_turns + 1, self.arrivals[from].most_turns + 1);
        // Turns that were started count, even if the budget ends before they end.
        self.turns = self.turns.max(most);
        let key = key(self.world, &position.state, &position.remembered);
        if let Some(known) = self.ids.get(&key) {
            let arrival = &mut self.arrivals[*known];
            arrival.most_turns = arrival.most_turns.max(most);
            if fewest < arrival.fewest_turns {
                arrival.fewest_turns = fewest;
                arrival.before = Some((from, choices.taken()));
            }
            return;
        }
        let id = self.arrivals.len();
        self.ids.insert(key, id);
        self.arrivals.push(Arrival {
            before: Some((from, choices.taken())),
            fewest_turns: fewest,
            most_turns: most,
        });
        let executions = self.note_executions(&position.state);
        self.ahead.entry(executions).or_default().push((id, position));
    }

    fn note_executions(&mut self, state: &ConversationState) -> u32 {
        let mut all = 0;
        for (id, most) in self.world.plan.ids().zip(&mut self.most) {
            let count = state.execution_count(id);
            *most = (*most).max(count);
            all += count;
        }
        self.executions = self.executions.max(all);
        all
    }

    fn end(&mut self, from: StateId, ended: &RunEnded, state: &ConversationState, choices: &Choices) {
        self.note_executions(state);
        let plan = &self.world.plan;
        for not_run in &ended.not_run {
            if let Some(id) = plan.id(&not_run.agent) {
                self.left_out[id.index()].get_or_insert_with(|| not_run.reason.clone());
            }
        }
        let completed = ended.completion_reason == CompletionReason::Completed;
        let left_out = completed && !ended.not_run.is_empty();
        let class = Class {
            reason: Reverse(ended.completion_reason),
            left_out,
            after_failure: left_out && has_failed(plan, state),
        };
        let turns = self.arrivals[from].fewest_turns;
        if self.ends.get(&class).is_none_or(|known| turns < known.turns) {
            let choices = choices.taken();
            self.ends.insert(class, Candidate { turns, from, choices });
        }
    }

    /// The result, with the shortest paths from the beginning.
    pub(super) fn found(self, besides: Vec<UnexploredOutcome>) -> Exploration {
        let plan = &self.world.plan;
        let ends = self.ends.values().filter_map(|end| self.tell(end)).collect();
        let summary = |id: AgentId| AgentSummary {
            agent: plan.name(id).clone(),
            most: self.most[id.index()],
            bound: 0,
            limit: plan.agent(id).conversation.max_turns.get(),
            left_out: self.left_out[id.index()].clone(),
        };
        Exploration {
            turns: self.turns,
            executions: self.executions,
            turns_bound: 0,
            executions_bound: 0,
            agents: plan.ids().map(summary).collect(),
            ends,
            besides,
            requests: plan.ids().any(|id| may_request(plan.agent(id))),
            coverage: self.coverage.clone(),
        }
    }

    /// Performs the steps of the path once more from the beginning.
    fn tell(&self, end: &Candidate) -> Option<End> {
        let mut rows = vec![end.choices.clone()];
        let mut at = end.from;
        while let Some((before, choices)) = &self.arrivals[at].before {
            rows.push(choices.clone());
            at = *before;
        }
        let mut position = Position::start(self.world);
        let mut path: Vec<StepReport> = Vec::with_capacity(rows.len());
        for row in rows.into_iter().rev() {
            let (next, told) = position.step(self.world, &Choices::prescribed(row));
            path.push(told);
            match next {
                Next::Turn(next) => position = *next,
                Next::End(ended, inside) => {
                    let state = inside.as_deref().unwrap_or(&position.state);
                    return Some(finished(&self.world.plan, *ended, state, path));
                }
            }
        }
        None
    }
}

fn finished(plan: &Arc<Plan>, ended: RunEnded, state: &ConversationState, mut path: Vec<StepReport>) -> End {
    if path
        .last()
        .is_some_and(|last| last.runs.is_empty() && last.assumed.is_empty())
    {
        path.pop();
    }
    End {
        reason: ended.completion_reason,
        detail: ended.detail,
        not_run: ended.not_run,
        after_failure: has_failed(plan, state),
        turns: state.turn_count(),
        path,
    }
}

fn has_failed(plan: &Plan, state: &ConversationState) -> bool {
    plan.ids().any(|id| state.agent(id).latest_failed())
}
