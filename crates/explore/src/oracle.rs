//! Results for conditions before there are outputs that they could read.
//!
//! A condition is split into claims. Claims that only count are evaluated. For all other claims, both results are
//! possible, but the results are consistent: two conditions with the same claim, or with a claim and its negation,
//! agree, and a claim keeps its result as long as nothing that it reads has changed.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::ExplorationBudget;
use super::choices::StepChoices;
use super::goal::ExplorationGoal;
use super::nested_results::list_possible_results;
use super::report::{AssumedClaim, ClaimSite, ExecutionResult};
use ensemble_core::conversation::{
    ConditionFailure, ConversationState, DeclaredRunResult, SuccessCheck, has_unseen_result,
};
use ensemble_core::resolver::ConditionEvaluator;
use ensemble_language::condition::{
    ClaimFormula, ClaimReads, Condition, ConditionClaim, ConditionRead, ConditionSnapshot, EvaluateError,
};
use ensemble_language::ensemble::RequiredResult;
use ensemble_language::plan::{AgentId, EdgeId, Plan, PlanEdge};

/// Number of a claim in an explored plan.
pub(super) type ClaimId = u32;

/// Results of claims that are still valid.
pub(super) type RememberedClaimResults = BTreeMap<ClaimId, bool>;

/// Plan, with the claims of its conditions and the possible results of its executions.
pub(super) struct ExploredPlan {
    /// The plan.
    pub plan: Arc<Plan>,
    /// For each agent, the possible results of its executions; the first one is the default.
    results: Vec<Vec<ExecutionResult>>,
    /// Whether the number of turns is a part of every state.
    pub tells_turns: bool,
    /// For each edge, the claims of its condition.
    edges: Vec<Option<SplitCondition>>,
    /// The claims of `success`.
    success: Option<SplitCondition>,
    /// For each claim, the edges whose conditions contain it.
    claims: Vec<ClaimOccurrences>,
}

/// Condition, split into numbered claims.
struct SplitCondition {
    claims: ClaimFormula,
    list: Vec<(ClaimId, ConditionClaim)>,
}

/// Text of a claim, and the agent whose output the claim reads.
type ClaimIdentity = (Arc<str>, Option<(AgentId, RequiredResult)>);

/// Reads of a claim, and the conditions that contain the claim.
struct ClaimOccurrences {
    reads: ClaimReads,
    /// Whether `success` contains the claim.
    is_in_success: bool,
    /// All edges whose conditions contain the claim; the first one gives the output that it reads.
    edges: Vec<EdgeId>,
}

/// Claims of all conditions, with their numbers and occurrences.
#[derive(Default)]
struct NumberedClaims {
    numbers: HashMap<ClaimIdentity, ClaimId>,
    occurrences: Vec<ClaimOccurrences>,
}

impl NumberedClaims {
    /// Splits a condition into claims, and numbers new claims. `edge` is the edge of the condition. Without an edge, the condition is
    /// `success`.
    fn split_condition(&mut self, condition: &Condition, edge: Option<(EdgeId, &PlanEdge)>) -> SplitCondition {
        let (claims, list) = condition.split_into_claims();
        let numbered = list.into_iter().map(|claim| {
            let about = edge
                .filter(|_| claim.reads.output)
                .map(|(_, edge)| (edge.from, edge.on));
            let occurrences = &mut self.occurrences;
            let number = *self.numbers.entry((claim.identity.clone(), about)).or_insert_with(|| {
                occurrences.push(ClaimOccurrences {
                    reads: claim.reads,
                    is_in_success: false,
                    edges: Vec::new(),
                });
                ClaimId::try_from(occurrences.len() - 1).expect("fewer than 4 billion claims")
            });
            let occurrence = &mut occurrences[number as usize];
            occurrence.edges.extend(edge.map(|(id, _)| id));
            occurrence.is_in_success |= edge.is_none();
            (number, claim)
        });
        SplitCondition {
            list: numbered.collect(),
            claims,
        }
    }
}

impl ExploredPlan {
    /// Creates an explored plan from the plan, and splits all conditions into claims.
    pub(super) fn new(plan: Arc<Plan>, budget: ExplorationBudget<'_>) -> Self {
        let mut claims = NumberedClaims::default();
        let mut edges = Vec::with_capacity(plan.edge_count());
        for (id, edge) in plan.agent_ids().flat_map(|to| plan.incoming_edges(to)) {
            let condition = edge.condition.as_ref();
            edges.push(condition.map(|condition| claims.split_condition(condition, Some((id, edge)))));
        }
        let success = plan
            .success_condition()
            .map(|condition| claims.split_condition(condition, None));
        Self {
            results: plan
                .agent_ids()
                .map(|id| list_possible_results(plan.agent(id), budget))
                .collect(),
            plan,
            tells_turns: false,
            edges,
            success,
            claims: claims.occurrences,
        }
    }

    /// Creates the explored plan of a part. The states of a part include the number of turns, because the parts take turns together.
    pub(super) fn for_part(plan: Arc<Plan>, budget: ExplorationBudget<'_>) -> Self {
        Self {
            tells_turns: true,
            ..Self::new(plan, budget)
        }
    }

    /// Returns the possible results of an execution of the agent. The first result is the default.
    pub(super) fn possible_results(&self, id: AgentId) -> &[ExecutionResult] {
        &self.results[id.index()]
    }

    /// Returns the claims in the condition of the edge.
    pub(super) fn list_edge_claims(&self, edge: EdgeId) -> impl Iterator<Item = &ConditionClaim> {
        let conditions = self.edges[edge.index()].iter();
        conditions.flat_map(|asked| asked.list.iter().map(|(_, claim)| claim))
    }

    /// Returns for each claim the values that the claim reads.
    pub(super) fn list_claim_reads(&self) -> impl Iterator<Item = ClaimReads> {
        self.claims.iter().map(|known| known.reads)
    }

    /// Returns whether a condition with the claim can be evaluated again in a later state.
    pub(super) fn can_claim_be_evaluated_again(&self, claim: ClaimId, state: &ConversationState) -> bool {
        let claim_occurrences = &self.claims[claim as usize];
        let mut agents = claim_occurrences.edges.iter().map(|edge| self.plan.edge(*edge).to);
        claim_occurrences.is_in_success || agents.any(|agent| self.can_agent_have_work(agent, state))
    }

    /// Returns whether the agent can run again, or can have work at the end of the conversation.
    fn can_agent_have_work(&self, agent: AgentId, state: &ConversationState) -> bool {
        let mut edges = self.plan.incoming_edges(agent).map(|(_, edge)| edge);
        !state.has_reached_max_turns(&self.plan, agent)
            || edges.any(|edge| has_unseen_result(state, edge) || !state.has_reached_max_turns(&self.plan, edge.from))
    }

    /// Returns whether nothing that the claim reads has changed between the two states.
    pub(super) fn keeps_claim_result(
        &self,
        claim: ClaimId,
        before: &ConversationState,
        after: &ConversationState,
    ) -> bool {
        let claim_occurrences = &self.claims[claim as usize];
        let reads = claim_occurrences.reads;
        let output = |state: &ConversationState| {
            let edge = self.plan.edge(claim_occurrences.edges[0]);
            state.edge_output_or_failure(edge).map(|(execution, _)| *execution)
        };
        let succeeded =
            |id: AgentId| after.agent_state(id).last_success_turn() != before.agent_state(id).last_success_turn();
        !(reads.turn_count
            || reads.executions
            || reads.history
            || ((reads.context || reads.outputs) && self.plan.agent_ids().any(succeeded))
            || (reads.output && output(before) != output(after)))
    }
}

/// Evaluator that chooses the results of claims in one decision.
pub(super) struct ChoosingEvaluator<'a> {
    world: &'a ExploredPlan,
    choices: &'a StepChoices,
    answers: RefCell<RememberedClaimResults>,
    assumptions: RefCell<Vec<AssumedClaim>>,
    sides: RefCell<Vec<ExplorationGoal>>,
}

impl<'a> ChoosingEvaluator<'a> {
    /// Creates the evaluator. Results in `remembered` stay, other results are chosen with `choices`.
    pub(super) fn new(world: &'a ExploredPlan, remembered: &RememberedClaimResults, choices: &'a StepChoices) -> Self {
        Self {
            world,
            choices,
            answers: RefCell::new(remembered.clone()),
            assumptions: RefCell::new(Vec::new()),
            sides: RefCell::new(Vec::new()),
        }
    }

    /// Returns all results of claims, the claims assumed in this decision, and the results of whole conditions as goals.
    pub(super) fn into_claim_results(self) -> (RememberedClaimResults, Vec<AssumedClaim>, Vec<ExplorationGoal>) {
        (
            self.answers.into_inner(),
            self.assumptions.into_inner(),
            self.sides.into_inner(),
        )
    }

    /// Chooses the result of the claim, and records the assumption.
    fn assume_claim_result(&self, number: ClaimId, claim: &ConditionClaim, site: &ClaimSite) {
        let answer = self.choices.choose_claim_result(site, claim);
        self.answers.borrow_mut().insert(number, answer);
        self.assumptions.borrow_mut().push(AssumedClaim {
            site: site.clone(),
            claim: claim.text.clone(),
            answer: answer != claim.is_opposite,
        });
    }
}

impl ConditionEvaluator for ChoosingEvaluator<'_> {
    fn evaluate_condition(
        &self,
        state: &ConversationState,
        edge: &PlanEdge,
        _condition: &Condition,
    ) -> Result<bool, EvaluateError> {
        let mut edges = self.world.plan.incoming_edges(edge.to);
        let condition = edges
            .nth(edge.position)
            .and_then(|(id, _)| self.world.edges[id.index()].as_ref());
        let Some(condition) = condition else { return Ok(true) };
        let site = ClaimSite::Dependency {
            agent: self.world.plan.agent_name(edge.to).clone(),
            dependency: self.world.plan.agent_name(edge.from).clone(),
            position: edge.position,
        };
        let answer = self.choose_condition_result(condition, &state.edge_condition_values(edge), &site)?;
        let side = ExplorationGoal::Answer(edge.to, edge.position, answer);
        self.sides.borrow_mut().push(side);
        Ok(answer)
    }

    /// The result is not one that conversations reach: no decision depends on it.
    fn evaluate_at_end(
        &self,
        state: &ConversationState,
        edge: &PlanEdge,
        condition: &Condition,
    ) -> Result<bool, EvaluateError> {
        let sides = self.sides.borrow().len();
        let result = self.evaluate_condition(state, edge, condition);
        self.sides.borrow_mut().truncate(sides);
        result
    }

    fn evaluate_success(&self, state: &ConversationState) -> Option<Result<SuccessCheck, ConditionFailure>> {
        let success = self.world.success.as_ref()?;
        let text = self.world.plan.success_condition()?.text();
        let facts = state.condition_values_without_output();
        let result = self.choose_condition_result(success, &facts, &ClaimSite::Success);
        Some(match result {
            Ok(holds) => Ok(SuccessCheck {
                holds,
                text: text.clone(),
                values: Vec::new(),
            }),
            Err(error) => Err(ConditionFailure::from_success_error(text, error, Vec::new())),
        })
    }

    /// No output exists that the result could read.
    fn evaluate_declared_result(&self, _state: &ConversationState) -> Option<DeclaredRunResult> {
        None
    }

    fn on_all_agents_waiting(&self) {
        self.choices.on_all_agents_waiting();
    }

    /// No output exists that the claim could read.
    fn list_condition_reads(
        &self,
        _state: &ConversationState,
        _edge: &PlanEdge,
        _condition: &Condition,
    ) -> Vec<ConditionRead> {
        Vec::new()
    }
}

impl ChoosingEvaluator<'_> {
    /// Chooses results of claims until the condition is decided. Returns the result of the condition.
    fn choose_condition_result(
        &self,
        condition: &SplitCondition,
        facts: &ConditionSnapshot,
        site: &ClaimSite,
    ) -> Result<bool, EvaluateError> {
        loop {
            let known_answers: Vec<Option<bool>> = condition
                .list
                .iter()
                .map(|one| self.find_claim_result(one, facts))
                .collect();
            if let Some(answer) = combine_claim_results(&condition.claims, &known_answers) {
                return Ok(answer);
            }
            let Some(open) = find_first_open_claim(&condition.claims, &known_answers) else {
                return Ok(true);
            };
            let (number, claim) = &condition.list[open];
            if claim.reads.reads_only_counts() {
                // The claim can be evaluated, and the evaluation fails.
                claim.condition.evaluate(facts)?;
            }
            self.assume_claim_result(*number, claim, site);
        }
    }

    /// Returns the result of a claim that only counts, or the remembered result. Returns `None` if the result is open.
    fn find_claim_result(
        &self,
        (number, claim): &(ClaimId, ConditionClaim),
        facts: &ConditionSnapshot,
    ) -> Option<bool> {
        if claim.reads.reads_only_counts() {
            return claim.condition.evaluate(facts).ok();
        }
        self.answers.borrow().get(number).copied()
    }
}

/// Returns the result of the condition if the known claims decide the condition.
fn combine_claim_results(claims: &ClaimFormula, known: &[Option<bool>]) -> Option<bool> {
    let decided = |operands: &[ClaimFormula], by: bool| {
        let mut all = Some(!by);
        for operand in operands {
            match combine_claim_results(operand, known) {
                Some(answer) if answer == by => return Some(by),
                Some(_) => {}
                None => all = None,
            }
        }
        all
    };
    match claims {
        ClaimFormula::Claim(at) => known[*at],
        ClaimFormula::Not(inner) => combine_claim_results(inner, known).map(|answer| !answer),
        ClaimFormula::And(operands) => decided(operands, false),
        ClaimFormula::Or(operands) => decided(operands, true),
    }
}

/// Returns the index of the first open claim that can decide the condition.
fn find_first_open_claim(claims: &ClaimFormula, known: &[Option<bool>]) -> Option<usize> {
    if combine_claim_results(claims, known).is_some() {
        return None;
    }
    match claims {
        ClaimFormula::Claim(at) => Some(*at),
        ClaimFormula::Not(inner) => find_first_open_claim(inner, known),
        ClaimFormula::And(operands) | ClaimFormula::Or(operands) => operands
            .iter()
            .find_map(|operand| find_first_open_claim(operand, known)),
    }
}
