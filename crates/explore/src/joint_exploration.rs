//! The exploration of an ensemble from the explorations of its parts.
//!
//! As long as an agent of a part is ready, the part takes every turn of the whole, exactly as if it were alone. When
//! none is ready, the part is at rest and does not change any more. So every combination of conversations of the parts
//! is a conversation of the whole, and the other way round; and only a question without an answer ends the other parts
//! before they are at rest. The paths that are reported are performed with the whole ensemble: the resolver decides
//! every step once more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::choices::StepChoices;
use super::goal::ExplorationGoal;
use super::oracle::ExploredPlan;
use super::parts::EnsemblePart;
use super::report::StepReport;
use super::step::{ConversationPosition, StepOutcome};
use super::walk::{EndClass, ExploredStateId, ShortestEndPath, StateWalk, build_possible_end};
use super::{
    Exploration, ExplorationBudget, ExplorationCoverage, ExploredAgentSummary, PossibleEnd, UnexploredOutcome,
};
use ensemble_core::conversation::{CompletionReason, ExhaustedAgent};
use ensemble_language::plan::AgentId;

/// Explores the parts and combines the results. Returns `None` if the parts are not independent.
pub(super) fn explore_parts_jointly(
    world: &ExploredPlan,
    parts: &[EnsemblePart],
    budget: ExplorationBudget<'_>,
    has_time: &dyn Fn() -> bool,
    besides: &[UnexploredOutcome],
) -> Option<Exploration> {
    let of_part = |part: &EnsemblePart| ExploredPlan::for_part(part.plan.clone(), budget);
    let worlds: Vec<ExploredPlan> = parts.iter().map(of_part).collect();
    let mut walks = Vec::with_capacity(parts.len());
    let mut states_left = budget.states;
    for (world, to_go) in worlds.iter().zip((1..=parts.len() as u64).rev()) {
        let states = (states_left / to_go).max(1);
        let mut walk = StateWalk::new(world, ExplorationBudget { states, ..budget }, has_time);
        walk.walk_until_limit();
        if walk.has_everyone_waited {
            // Beside other ready agents, these would have waited.
            return None;
        }
        states_left = states_left.saturating_sub(walk.coverage.states);
        walks.push(walk);
    }
    ExploredParts { world, parts, walks }.build_exploration(besides.to_vec())
}

/// Whole ensemble, with the finished walks of its parts.
struct ExploredParts<'w> {
    world: &'w ExploredPlan,
    parts: &'w [EnsemblePart],
    walks: Vec<StateWalk<'w>>,
}

/// Combined outcome of some of the parts. The severities have the order of the resolver.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct CombinedOutcome {
    severity: OutcomeSeverity,
    left_out: bool,
    failed: bool,
    exhausted: Vec<ExhaustedAgent>,
}

/// Largest number of combined outcomes. The exhausted agents of the parts multiply the outcomes.
const MAX_OUTCOMES: usize = 1000;

/// Largest number of outcomes that differ only in the exhausted agents, if there are too many outcomes.
const MAX_OUTCOMES_OF_GROUP: usize = 60;

/// Severity of an outcome, in the order of precedence of the resolver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum OutcomeSeverity {
    Completed,
    OutOfTurns,
    Unsuccessful,
    Failed,
}

impl OutcomeSeverity {
    /// Returns the severity of the outcome. Returns `None` for outcomes that parts cannot have alone.
    fn from_reason(reason: CompletionReason) -> Option<Self> {
        match reason {
            CompletionReason::Completed => Some(Self::Completed),
            CompletionReason::MaxTotalTurns => Some(Self::OutOfTurns),
            CompletionReason::Unsuccessful => Some(Self::Unsuccessful),
            CompletionReason::AgentFailed => Some(Self::Failed),
            _ => None,
        }
    }

    /// Returns the completion reason with this severity.
    fn to_completion_reason(self) -> CompletionReason {
        match self {
            Self::Completed => CompletionReason::Completed,
            Self::OutOfTurns => CompletionReason::MaxTotalTurns,
            Self::Unsuccessful => CompletionReason::Unsuccessful,
            Self::Failed => CompletionReason::AgentFailed,
        }
    }
}

/// Number of turns of the soonest way to an outcome, and the end of each part.
type SoonestEnds<'a> = (u32, Vec<&'a ShortestEndPath>);

impl ExploredParts<'_> {
    /// Combines the explorations of the parts. Returns `None` if the whole ensemble behaves differently from the combination.
    fn build_exploration(&self, besides: Vec<UnexploredOutcome>) -> Option<Exploration> {
        let is_known = |class: &EndClass| {
            class.completion_reason() == CompletionReason::WaitingForInput
                || OutcomeSeverity::from_reason(class.completion_reason()).is_some()
        };
        if !self.walks.iter().flat_map(|walk| walk.ends.keys()).all(is_known) {
            return None;
        }
        let mut ends = Vec::new();
        let (classes, is_cut) = self.soonest_rest_ends();
        for (class, (_, ways)) in classes {
            let end = self.perform_parts_together(&self.replay_part_steps(&ways))?;
            let is_expected = end.reason == class.completion_reason() && EndClass::from_end(&end) == class;
            is_expected.then(|| ends.push((class, end)))?;
        }
        if let Some(scripts) = self.find_unanswered_question_paths(None) {
            let end = self.perform_parts_together(&scripts)?;
            (end.reason == CompletionReason::WaitingForInput).then_some(())?;
            ends.push((EndClass::from_end(&end), end));
        }
        ends.sort_by(|(one, _), (other, _)| one.cmp(other));
        Some(Exploration {
            coverage: self.sum_coverage(),
            are_ends_cut: is_cut,
            turns: self.walks.iter().map(|walk| walk.turns).max().unwrap_or_default(),
            executions: self.walks.iter().map(|walk| walk.executions).sum(),
            turns_bound: 0,
            executions_bound: 0,
            agents: self.summarize_agents()?,
            reached: self.reached_goals(),
            ends: ends.into_iter().map(|(_, end)| end).collect(),
            besides,
            requests: false,
        })
    }

    /// Returns the goals that the parts reach, with agents of the whole ensemble.
    fn reached_goals(&self) -> BTreeSet<ExplorationGoal> {
        let parts = self.parts.iter().zip(&self.walks);
        let reached = parts.flat_map(|(part, walk)| {
            walk.reached_goals()
                .map(|goal| goal.with_mapped_agent(|id| part.agents[id.index()]))
        });
        reached.collect()
    }

    /// Sums the coverage of the parts.
    fn sum_coverage(&self) -> ExplorationCoverage {
        let parts = || self.walks.iter().map(|walk| &walk.coverage);
        ExplorationCoverage {
            states: parts().map(|part| part.states).sum(),
            steps: parts().map(|part| part.steps).sum(),
            parts: u32::try_from(self.walks.len()).unwrap_or(u32::MAX),
            stopped_by: parts().find_map(|part| part.stopped_by),
            complete_below: parts().filter_map(|part| part.complete_below).min(),
            cut: parts().map(|part| part.cut).sum(),
        }
    }

    /// Returns the soonest end of each class in which all parts are at rest or out of turns. The flag is true if classes were removed.
    fn soonest_rest_ends(&self) -> (BTreeMap<EndClass, SoonestEnds<'_>>, bool) {
        let nothing = CombinedOutcome {
            severity: OutcomeSeverity::Completed,
            left_out: false,
            failed: false,
            exhausted: Vec::new(),
        };
        let mut is_cut = false;
        let mut reached: BTreeMap<CombinedOutcome, SoonestEnds<'_>> = BTreeMap::from([(nothing, (0, Vec::new()))]);
        for walk in &self.walks {
            let mut next: BTreeMap<CombinedOutcome, SoonestEnds<'_>> = BTreeMap::new();
            for (before, (turns, ways)) in &reached {
                for (outcome, end) in list_rest_outcomes(walk) {
                    let together = CombinedOutcome {
                        severity: before.severity.max(outcome.severity),
                        left_out: before.left_out || outcome.left_out,
                        failed: before.failed || outcome.failed,
                        exhausted: before.exhausted.iter().cloned().chain(outcome.exhausted).collect(),
                    };
                    let turns = (*turns).max(end.turns);
                    if next.get(&together).is_none_or(|(known, _)| turns < *known) {
                        let ways = ways.iter().copied().chain([end]).collect();
                        next.insert(together, (turns, ways));
                    }
                }
            }
            is_cut |= remove_excess_outcomes(&mut next);
            reached = next;
        }
        let mut classes: BTreeMap<EndClass, SoonestEnds<'_>> = BTreeMap::new();
        for (outcome, (turns, ways)) in reached {
            let class = EndClass::new(
                outcome.severity.to_completion_reason(),
                outcome.left_out,
                outcome.failed,
                outcome.exhausted,
            );
            if classes.get(&class).is_none_or(|(known, _)| turns < *known) {
                classes.insert(class, (turns, ways));
            }
        }
        (classes, is_cut)
    }

    /// Performs the path to the end of each part again. Returns the steps.
    fn replay_part_steps(&self, ways: &[&ShortestEndPath]) -> Vec<Vec<StepReport>> {
        let replay_steps = |(walk, end): (&StateWalk<'_>, &&ShortestEndPath)| {
            walk.replay_to_end(end).map(|end| end.path).unwrap_or_default()
        };
        self.walks.iter().zip(ways).map(replay_steps).collect()
    }

    /// Returns the paths of the parts to the soonest question without an answer.
    /// `left_out` (part, turns, state) replaces the path of one part by the path to a state without an agent. The question is then in
    /// another
    /// part, before the end of that path.
    fn find_unanswered_question_paths(
        &self,
        left_out: Option<(usize, u32, ExploredStateId)>,
    ) -> Option<Vec<Vec<StepReport>>> {
        let asking = self.walks.iter().enumerate().filter_map(|(part, walk)| {
            let waits = |(class, _): &(&EndClass, &ShortestEndPath)| {
                class.completion_reason() == CompletionReason::WaitingForInput
            };
            let ends = walk.ends.iter().filter(waits).map(|(_, end)| end);
            Some((part, ends.min_by_key(|end| end.turns)?))
        });
        let is_soon = |part: usize, end: &ShortestEndPath| match left_out {
            Some((own, turns, _)) => part != own && end.turns < turns,
            None => true,
        };
        let asking = asking.filter(|(part, end)| is_soon(*part, end));
        let (asking, question) = asking.min_by_key(|(_, end)| end.turns)?;
        let script = |(part, walk): (usize, &StateWalk<'_>)| {
            if part == asking {
                return walk.replay_to_end(question).map(|end| end.path);
            }
            match left_out {
                Some((own, _, state)) if part == own => Some(walk.replay_steps_to_state(state)),
                _ => walk
                    .replay_to_end(list_rest_outcomes(walk).next()?.1)
                    .map(|end| end.path),
            }
        };
        self.walks.iter().enumerate().map(script).collect()
    }

    /// Performs these steps of the parts in the whole ensemble. Returns the end. Returns `None` if the conversation does not end with them.
    fn perform_parts_together(&self, scripts: &[Vec<StepReport>]) -> Option<PossibleEnd> {
        let mut position = ConversationPosition::at_conversation_start(self.world);
        let mut path = Vec::new();
        let longest = scripts.iter().map(Vec::len).max()?;
        for at in 0..=longest {
            // At the end of the whole, the conditions are asked again that were asked at the end of a part.
            let resting = |script: &'_ Vec<StepReport>| script.last().is_some_and(|last| last.runs.is_empty());
            let steps = scripts.iter().filter_map(|script| match script.get(at) {
                None => script.last().filter(|_| resting(script)),
                step => step,
            });
            let choices = StepChoices::from_part_steps(steps);
            let (next, told) = position.perform_step(self.world, &choices);
            path.push(told);
            match next {
                StepOutcome::Turn(next) => position = *next,
                StepOutcome::End(ended, inside) => {
                    let state = inside.as_deref().unwrap_or(&position.state);
                    return Some(build_possible_end(&self.world.plan, *ended, state, path));
                }
            }
        }
        None
    }

    /// Returns the summaries of all agents of the whole ensemble, in declaration order. Returns `None` if the parts are not independent.
    fn summarize_agents(&self) -> Option<Vec<ExploredAgentSummary>> {
        let mut agents: Vec<(AgentId, ExploredAgentSummary)> = Vec::with_capacity(self.world.plan.agent_count());
        for (part, (known, walk)) in self.parts.iter().zip(&self.walks).enumerate() {
            for (id, mut summary) in known.agents.iter().zip(walk.summarize_agents()) {
                if summary.left_out.is_none() {
                    summary.left_out = self.explain_agent_left_out(part, walk, &summary.agent)?;
                }
                agents.push((*id, summary));
            }
        }
        agents.sort_by_key(|(id, _)| *id);
        Some(agents.into_iter().map(|(_, summary)| summary).collect())
    }

    /// Returns the reason why a question of another part can end the conversation before the agent runs.
    /// Returns `Some(None)` if no question can. Returns `None` if the parts are not independent.
    #[expect(
        clippy::option_option,
        reason = "the outer one says whether the parts are independent"
    )]
    fn explain_agent_left_out(&self, part: usize, walk: &StateWalk<'_>, agent: &Arc<str>) -> Option<Option<String>> {
        let id = walk.find_agent_id(agent)?;
        let Some((turns, state)) = walk.longest_without[id.index()] else {
            return Some(None);
        };
        let Some(scripts) = self.find_unanswered_question_paths(Some((part, turns, state))) else {
            return Some(None);
        };
        let end = self.perform_parts_together(&scripts)?;
        let not_run = end.not_run.into_iter().find(|one| one.agent == *agent)?;
        Some(Some(not_run.reason))
    }
}

/// Removes outcomes if there are too many. For each removed outcome, one stays that differs only in the exhausted agents.
/// Returns whether outcomes were removed.
fn remove_excess_outcomes(outcomes: &mut BTreeMap<CombinedOutcome, SoonestEnds<'_>>) -> bool {
    let is_cut = outcomes.len() > MAX_OUTCOMES;
    if is_cut {
        let mut counts: BTreeMap<(OutcomeSeverity, bool, bool), usize> = BTreeMap::new();
        outcomes.retain(|outcome, _| {
            let count = counts
                .entry((outcome.severity, outcome.left_out, outcome.failed))
                .or_default();
            *count += 1;
            *count <= MAX_OUTCOMES_OF_GROUP
        });
    }
    is_cut
}

/// Returns the outcomes of a part that is at rest or out of turns, with their ends.
fn list_rest_outcomes<'a>(walk: &'a StateWalk<'_>) -> impl Iterator<Item = (CombinedOutcome, &'a ShortestEndPath)> {
    walk.ends.iter().filter_map(|(class, end)| {
        let outcome = CombinedOutcome {
            severity: OutcomeSeverity::from_reason(class.completion_reason())?,
            left_out: class.left_out,
            failed: class.after_failure,
            exhausted: class.exhausted.clone(),
        };
        Some((outcome, end))
    })
}
