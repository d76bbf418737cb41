//! Results for conditions before there are outputs that they could read.
//!
//! A condition is split into claims. Claims that only count are evaluated. For all other claims, both results are
//! possible, but the results are consistent: two conditions with the same claim, or with a claim and its negation,
//! agree, and a claim keeps its result as long as nothing that it reads has changed.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Budget;
use super::choices::Choices;
use super::goal::Goal;
use super::inside::results;
use super::report::{Assumed, ExecutionResult};
use ensemble_core::conversation::{ConversationState, RunValue};
use ensemble_core::resolver::Answers;
use ensemble_language::condition::{Claim, Claims, Condition, EvaluateError, Facts, Read, Sources};
use ensemble_language::ensemble::Ending;
use ensemble_language::plan::{AgentId, Edge, EdgeId, Plan};

/// The number of a claim.
pub(super) type ClaimId = u32;

/// The results of claims that are still valid.
pub(super) type Remembered = BTreeMap<ClaimId, bool>;

/// The plan and the claims of its conditions.
pub(super) struct World {
    /// The plan.
    pub plan: Arc<Plan>,
    /// For each agent, the possible results of its executions; the first one is the default.
    results: Vec<Vec<ExecutionResult>>,
    /// Whether the number of turns is a part of every state.
    pub tells_turns: bool,
    /// For each edge, the claims of its condition.
    edges: Vec<Option<Asked>>,
    /// For each claim, the edges whose conditions contain it.
    known: Vec<Known>,
}

/// A condition, split into claims.
struct Asked {
    claims: Claims,
    list: Vec<(ClaimId, Claim)>,
}

/// The text of a claim, and the agent whose output it reads.
type Identity = (Arc<str>, Option<(AgentId, Ending)>);

/// A claim, with all places where it occurs.
struct Known {
    reads: Sources,
    /// All edges whose conditions contain the claim; the first one gives the output that it reads.
    edges: Vec<EdgeId>,
}

impl World {
    /// Splits all conditions into claims.
    pub(super) fn new(plan: Arc<Plan>, budget: Budget<'_>) -> Self {
        let mut numbers: HashMap<Identity, ClaimId> = HashMap::new();
        let mut known: Vec<Known> = Vec::new();
        let mut edges = Vec::with_capacity(plan.edge_count());
        for (id, edge) in plan.ids().flat_map(|to| plan.incoming(to)) {
            let asked = edge.condition.as_ref().map(|condition| {
                let (claims, list) = condition.claims();
                let numbered = list.into_iter().map(|claim| {
                    let about = claim.reads.output.then_some((edge.from, edge.on));
                    let number = *numbers.entry((claim.identity.clone(), about)).or_insert_with(|| {
                        known.push(Known {
                            reads: claim.reads,
                            edges: Vec::new(),
                        });
                        ClaimId::try_from(known.len() - 1).expect("fewer than 4 billion claims")
                    });
                    known[number as usize].edges.push(id);
                    (number, claim)
                });
                Asked {
                    list: numbered.collect(),
                    claims,
                }
            });
            edges.push(asked);
        }
        Self {
            results: plan.ids().map(|id| results(plan.agent(id), budget)).collect(),
            plan,
            tells_turns: false,
            edges,
            known,
        }
    }

    /// A part of an ensemble. States after different numbers of turns are different, since the parts take them together.
    pub(super) fn of_part(plan: Arc<Plan>, budget: Budget<'_>) -> Self {
        Self {
            tells_turns: true,
            ..Self::new(plan, budget)
        }
    }

    /// The possible results of an execution; the first one is the default.
    pub(super) fn results(&self, id: AgentId) -> &[ExecutionResult] {
        &self.results[id.index()]
    }

    /// The claims of the condition of an edge.
    pub(super) fn claims_of(&self, edge: EdgeId) -> impl Iterator<Item = &Claim> {
        let asked = self.edges[edge.index()].iter();
        asked.flat_map(|asked| asked.list.iter().map(|(_, claim)| claim))
    }

    /// The values that each claim reads.
    pub(super) fn claims(&self) -> impl Iterator<Item = Sources> {
        self.known.iter().map(|known| known.reads)
    }

    /// Returns whether the claim can be evaluated again later.
    pub(super) fn is_open(&self, claim: ClaimId, state: &ConversationState) -> bool {
        let mut edges = self.known[claim as usize].edges.iter();
        edges.any(|edge| !state.is_exhausted(&self.plan, self.plan.edge(*edge).to))
    }

    /// Returns whether the claim has the same result after the turn as before.
    pub(super) fn still_holds(&self, claim: ClaimId, before: &ConversationState, after: &ConversationState) -> bool {
        let known = &self.known[claim as usize];
        let reads = known.reads;
        let output = |state: &ConversationState| {
            let edge = self.plan.edge(known.edges[0]);
            state.edge_output(edge).map(|(execution, _)| *execution)
        };
        let succeeded = |id: AgentId| after.agent(id).last_success() != before.agent(id).last_success();
        !(reads.turn_count
            || reads.executions
            || reads.history
            || ((reads.context || reads.outputs) && self.plan.ids().any(succeeded))
            || (reads.output && output(before) != output(after)))
    }
}

/// Gives the results of conditions for one decision.
pub(super) struct Oracle<'a> {
    world: &'a World,
    choices: &'a Choices,
    answered: RefCell<Remembered>,
    assumed: RefCell<Vec<Assumed>>,
    sides: RefCell<Vec<Goal>>,
}

impl<'a> Oracle<'a> {
    /// Uses the results that are still valid, and chooses the others.
    pub(super) fn new(world: &'a World, remembered: &Remembered, choices: &'a Choices) -> Self {
        Self {
            world,
            choices,
            answered: RefCell::new(remembered.clone()),
            assumed: RefCell::new(Vec::new()),
            sides: RefCell::new(Vec::new()),
        }
    }

    /// All results, those that were chosen in this decision, and the results of whole conditions.
    pub(super) fn finish(self) -> (Remembered, Vec<Assumed>, Vec<Goal>) {
        (
            self.answered.into_inner(),
            self.assumed.into_inner(),
            self.sides.into_inner(),
        )
    }

    fn assume(&self, number: ClaimId, claim: &Claim, edge: &Edge) {
        let agent = self.world.plan.name(edge.to);
        let answer = self.choices.answer(agent, edge.position, claim);
        self.answered.borrow_mut().insert(number, answer);
        self.assumed.borrow_mut().push(Assumed {
            agent: agent.clone(),
            dependency: self.world.plan.name(edge.from).clone(),
            position: edge.position,
            claim: claim.text.clone(),
            answer: answer != claim.is_opposite,
        });
    }
}

impl Answers for Oracle<'_> {
    fn answer(&self, state: &ConversationState, edge: &Edge, _condition: &Condition) -> Result<bool, EvaluateError> {
        let mut edges = self.world.plan.incoming(edge.to);
        let asked = edges
            .nth(edge.position)
            .and_then(|(id, _)| self.world.edges[id.index()].as_ref());
        let Some(asked) = asked else { return Ok(true) };
        let facts = state.facts(edge);
        loop {
            let known: Vec<Option<bool>> = asked.list.iter().map(|one| self.known(one, &facts)).collect();
            if let Some(answer) = truth(&asked.claims, &known) {
                let side = Goal::Answer(edge.to, edge.position, answer);
                self.sides.borrow_mut().push(side);
                return Ok(answer);
            }
            let Some(open) = first_open(&asked.claims, &known) else {
                return Ok(true);
            };
            let (number, claim) = &asked.list[open];
            if claim.reads.are_counts() {
                // The claim can be evaluated, and the evaluation fails.
                claim.condition.evaluate(&facts)?;
            }
            self.assume(*number, claim, edge);
        }
    }

    /// No output exists that the result could read.
    fn run_value(&self, _state: &ConversationState) -> Option<RunValue> {
        None
    }

    fn everyone_waits(&self) {
        self.choices.note_that_everyone_waits();
    }

    /// No output exists that the claim could read.
    fn reads(&self, _state: &ConversationState, _edge: &Edge, _condition: &Condition) -> Vec<Read> {
        Vec::new()
    }
}

impl Oracle<'_> {
    fn known(&self, (number, claim): &(ClaimId, Claim), facts: &Facts) -> Option<bool> {
        if claim.reads.are_counts() {
            return claim.condition.evaluate(facts).ok();
        }
        self.answered.borrow().get(number).copied()
    }
}

/// The result of the whole condition, as far as the known claims decide it.
fn truth(claims: &Claims, known: &[Option<bool>]) -> Option<bool> {
    let decided = |operands: &[Claims], by: bool| {
        let mut all = Some(!by);
        for operand in operands {
            match truth(operand, known) {
                Some(answer) if answer == by => return Some(by),
                Some(_) => {}
                None => all = None,
            }
        }
        all
    };
    match claims {
        Claims::Claim(at) => known[*at],
        Claims::Not(inner) => truth(inner, known).map(|answer| !answer),
        Claims::And(operands) => decided(operands, false),
        Claims::Or(operands) => decided(operands, true),
    }
}

/// The first claim without a result that can decide the condition.
fn first_open(claims: &Claims, known: &[Option<bool>]) -> Option<usize> {
    if truth(claims, known).is_some() {
        return None;
    }
    match claims {
        Claims::Claim(at) => Some(*at),
        Claims::Not(inner) => first_open(inner, known),
        Claims::And(operands) | Claims::Or(operands) => operands.iter().find_map(|operand| first_open(operand, known)),
    }
}
