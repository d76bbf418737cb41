//! The walk from state to state, in order of the number of executions. Every step adds executions, so all steps that
//! lead to a state are known before the state itself is examined.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::choices::{Choices, Row, Rows};
use super::goal::Goal;
use super::key::key;
use super::oracle::World;
use super::report::StepReport;
use super::step::{Next, Position, may_request};
use super::{
    AgentSummary, Budget, Coverage, End, Exploration, STEPS_FROM_ONE_STATE, STEPS_PER_STATE, Stopped, UnexploredOutcome,
};
use ensemble_core::conversation::{CompletionReason, ConversationState, RunEnded};
use ensemble_language::plan::{AgentId, Plan};

pub(super) type StateId = usize;

/// The number of states ahead of which the position is kept, each some ten kilobytes. The position of another one is
/// found by performing its path once more.
const MOST_POSITIONS: usize = 250;

/// The state of the walk.
pub(super) struct Walk<'w> {
    world: &'w World,
    budget: Budget<'w>,
    has_time: &'w dyn Fn() -> bool,
    ids: HashMap<Box<[u8]>, StateId>,
    arrivals: Vec<Arrival>,
    /// The states to examine, by the number of executions on the path to them.
    ahead: BTreeMap<u32, Vec<(StateId, Option<Position>)>>,
    /// The number of positions in `ahead`.
    kept: usize,
    pub ends: BTreeMap<Class, Candidate>,
    most: Vec<u32>,
    left_out: Vec<Option<String>>,
    /// For each agent, the highest number of turns after which it has not run, and the state.
    pub longest_without: Vec<Option<(u32, StateId)>>,
    pub turns: u32,
    pub executions: u32,
    pub coverage: Coverage,
    /// Whether in some state all ready agents would have waited for each other.
    pub has_everyone_waited: bool,
    /// What is reached, each with the first step that reaches it.
    reached: BTreeMap<Goal, Candidate>,
    /// What the walk looks for; it ends when it has found all. `None`: everything.
    sought: Option<BTreeSet<Goal>>,
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
pub(super) struct Class {
    /// The order of the report, from a normal end to the most serious one.
    reason: Reverse<CompletionReason>,
    /// For `completed`: whether an agent never ran.
    pub left_out: bool,
    /// For `completed` with an agent that never ran: whether the last execution of an agent failed.
    pub after_failure: bool,
}

impl Class {
    /// The class of an end of a conversation.
    pub(super) fn of(reason: CompletionReason, left_out: bool, failed: bool) -> Self {
        let left_out = left_out && reason == CompletionReason::Completed;
        Self {
            reason: Reverse(reason),
            left_out,
            after_failure: left_out && failed,
        }
    }

    pub(super) fn of_whole(end: &End) -> Self {
        Self::of(end.reason, !end.not_run.is_empty(), end.after_failure)
    }

    pub(super) fn reason(self) -> CompletionReason {
        self.reason.0
    }
}

/// A shortest path to an end.
pub(super) struct Candidate {
    pub turns: u32,
    from: StateId,
    choices: Row,
}

impl<'w> Walk<'w> {
    /// Before the first step.
    pub(super) fn new(world: &'w World, budget: Budget<'w>, has_time: &'w dyn Fn() -> bool) -> Self {
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
            ahead: BTreeMap::from([(0, vec![(0, Some(start))])]),
            kept: 1,
            ends: BTreeMap::new(),
            most: vec![0; world.plan.len()],
            left_out: vec![None; world.plan.len()],
            longest_without: vec![None; world.plan.len()],
            has_everyone_waited: false,
            reached: BTreeMap::new(),
            sought: None,
            turns: 0,
            executions: 0,
            coverage: Coverage {
                states: 0,
                steps: 0,
                parts: 1,
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
                if self.has_found_all() {
                    return;
                }
                self.kept -= usize::from(position.is_some());
                let Some(position) = position.or_else(|| self.position_at(id)) else {
                    continue;
                };
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
            self.has_everyone_waited |= choices.has_everyone_waited();
            self.note_reached(from, &choices);
            match next {
                Next::Turn(next) => self.arrive(from, *next, &choices),
                Next::End(ended, inside) => {
                    self.end(from, &ended, inside.as_deref().unwrap_or(&position.state), &choices);
                }
            }
        }
        Ok(())
    }

    fn note_reached(&mut self, from: StateId, choices: &Choices) {
        for goal in choices.reached() {
            let turns = self.arrivals[from].fewest_turns;
            if self.reached.get(&goal).is_none_or(|known| turns < known.turns) {
                let choices = choices.taken();
                self.reached.insert(goal, Candidate { turns, from, choices });
            }
        }
    }

    /// Returns whether everything was found that the walk looks for.
    fn has_found_all(&self) -> bool {
        let is_found = |goal: &Goal| match goal {
            Goal::Outcome(reason) => self.ends.keys().any(|class| class.reason() == *reason),
            other => self.reached.contains_key(other),
        };
        self.sought.as_ref().is_some_and(|sought| sought.iter().all(is_found))
    }

    /// Ends when these are found.
    pub(super) fn seek(&mut self, goals: BTreeSet<Goal>) {
        self.sought = Some(goals);
    }

    /// Iterates over the reached goals, without the outcomes.
    pub(super) fn reached(&self) -> impl Iterator<Item = Goal> {
        self.reached.keys().copied()
    }

    /// A conversation that reaches this, to its end.
    pub(super) fn example(&self, goal: Goal) -> Option<End> {
        match goal {
            Goal::Outcome(reason) => {
                let mut ends = self.ends.iter().filter(|(class, _)| class.reason() == reason);
                ends.next().and_then(|(_, end)| self.tell(end))
            }
            other => self.tell(self.reached.get(&other)?),
        }
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
        self.note_who_has_not_run(&position.state, fewest, id);
        let position = (self.kept < MOST_POSITIONS).then_some(position);
        self.kept += usize::from(position.is_some());
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

    fn note_who_has_not_run(&mut self, state: &ConversationState, turns: u32, at: StateId) {
        for (id, longest) in self.world.plan.ids().zip(&mut self.longest_without) {
            if state.execution_count(id) == 0 && longest.is_none_or(|(known, _)| known < turns) {
                *longest = Some((turns, at));
            }
        }
    }

    fn end(&mut self, from: StateId, ended: &RunEnded, state: &ConversationState, choices: &Choices) {
        self.note_executions(state);
        let plan = &self.world.plan;
        for not_run in &ended.not_run {
            if let Some(id) = plan.id(&not_run.agent) {
                self.left_out[id.index()].get_or_insert_with(|| not_run.reason.clone());
            }
        }
        let (left_out, failed) = (!ended.not_run.is_empty(), has_failed(plan, state));
        let class = match self.world.tells_turns {
            // A part: beside the others, the whole may be of another class.
            true => Class {
                reason: Reverse(ended.completion_reason),
                left_out,
                after_failure: failed,
            },
            false => Class::of(ended.completion_reason, left_out, failed),
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
        Exploration {
            turns: self.turns,
            executions: self.executions,
            turns_bound: 0,
            executions_bound: 0,
            agents: self.summaries().collect(),
            ends,
            besides,
            requests: plan.ids().any(|id| may_request(plan.agent(id))),
            coverage: self.coverage.clone(),
            reached: self.reached().collect(),
        }
    }

    /// The agents, in declaration order.
    pub(super) fn summaries(&self) -> impl Iterator<Item = AgentSummary> {
        let plan = &self.world.plan;
        plan.ids().map(|id| AgentSummary {
            agent: plan.name(id).clone(),
            most: self.most[id.index()],
            bound: 0,
            limit: plan.agent(id).conversation.max_turns.get(),
            left_out: self.left_out[id.index()].clone(),
        })
    }

    /// The number of the agent with this name.
    pub(super) fn id(&self, agent: &str) -> Option<AgentId> {
        self.world.plan.id(agent)
    }

    /// The choices on a shortest path to this state.
    fn rows_to(&self, mut at: StateId) -> Vec<Row> {
        let mut rows = Vec::new();
        while let Some((before, choices)) = &self.arrivals[at].before {
            rows.push(choices.clone());
            at = *before;
        }
        rows.reverse();
        rows
    }

    /// The position to which a shortest path to this state leads.
    fn position_at(&self, state: StateId) -> Option<Position> {
        let mut position = Position::start(self.world);
        for row in self.rows_to(state) {
            let Next::Turn(next) = position.step(self.world, &Choices::prescribed(row)).0 else {
                return None;
            };
            position = *next;
        }
        Some(position)
    }

    /// The steps on a shortest path to this state.
    pub(super) fn path_to(&self, state: StateId) -> Vec<StepReport> {
        let mut position = Position::start(self.world);
        let mut path = Vec::new();
        for row in self.rows_to(state) {
            let (next, told) = position.step(self.world, &Choices::prescribed(row));
            path.push(told);
            let Next::Turn(next) = next else { break };
            position = *next;
        }
        path
    }

    /// Performs the steps of the path once more from the beginning.
    pub(super) fn tell(&self, end: &Candidate) -> Option<End> {
        let mut rows = self.rows_to(end.from);
        rows.push(end.choices.clone());
        let mut position = Position::start(self.world);
        let mut path: Vec<StepReport> = Vec::with_capacity(rows.len());
        for row in rows {
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
        self.to_end(position, path)
    }

    /// Goes on from here with the default options.
    fn to_end(&self, mut position: Position, mut path: Vec<StepReport>) -> Option<End> {
        loop {
            let (next, told) = position.step(self.world, &Choices::prescribed(Row::default()));
            path.push(told);
            match next {
                Next::Turn(next) => position = *next,
                Next::End(ended, inside) => {
                    let state = inside.as_deref().unwrap_or(&position.state);
                    return Some(finished(&self.world.plan, *ended, state, path));
                }
            }
        }
    }
}

/// The end, with the path to it.
pub(super) fn finished(plan: &Arc<Plan>, ended: RunEnded, state: &ConversationState, mut path: Vec<StepReport>) -> End {
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
