//! The exploration of an ensemble from the explorations of its parts.
//!
//! As long as an agent of a part is ready, the part takes every turn of the whole, exactly as if it were alone. When
//! none is ready, the part is at rest and does not change any more. So every combination of conversations of the parts
//! is a conversation of the whole, and the other way round; and only a question without an answer ends the other parts
//! before they are at rest. The paths that are reported are performed with the whole ensemble: the resolver decides
//! every step once more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::choices::Choices;
use super::goal::Goal;
use super::oracle::World;
use super::parts::Part;
use super::report::StepReport;
use super::step::{Next, Position};
use super::walk::{Candidate, Class, StateId, Walk, finished};
use super::{AgentSummary, Budget, Coverage, End, Exploration, UnexploredOutcome};
use ensemble_core::conversation::CompletionReason;
use ensemble_language::plan::AgentId;

/// Explores the parts and puts the results together; `None` if the parts are not independent after all.
pub(super) fn explore(
    world: &World,
    parts: &[Part],
    budget: Budget<'_>,
    has_time: &dyn Fn() -> bool,
    besides: &[UnexploredOutcome],
) -> Option<Exploration> {
    let of_part = |part: &Part| World::of_part(part.plan.clone(), budget);
    let worlds: Vec<World> = parts.iter().map(of_part).collect();
    let mut walks = Vec::with_capacity(parts.len());
    let mut left = budget.states;
    for (world, to_go) in worlds.iter().zip((1..=parts.len() as u64).rev()) {
        let states = (left / to_go).max(1);
        let mut walk = Walk::new(world, Budget { states, ..budget }, has_time);
        walk.go();
        if walk.has_everyone_waited {
            // Beside other ready agents, these would have waited.
            return None;
        }
        left = left.saturating_sub(walk.coverage.states);
        walks.push(walk);
    }
    Whole { world, parts, walks }.found(besides.to_vec())
}

/// The whole ensemble, with the finished walks of its parts.
struct Whole<'w> {
    world: &'w World,
    parts: &'w [Part],
    walks: Vec<Walk<'w>>,
}

/// The outcome of some of the parts together. The order of the severities is that of the resolver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Outcome {
    severity: Severity,
    left_out: bool,
    failed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Severity {
    Completed,
    OutOfTurns,
    Failed,
}

impl Severity {
    fn of(reason: CompletionReason) -> Option<Self> {
        match reason {
            CompletionReason::Completed => Some(Self::Completed),
            CompletionReason::MaxTotalTurns => Some(Self::OutOfTurns),
            CompletionReason::AgentFailed => Some(Self::Failed),
            _ => None,
        }
    }

    fn reason(self) -> CompletionReason {
        match self {
            Self::Completed => CompletionReason::Completed,
            Self::OutOfTurns => CompletionReason::MaxTotalTurns,
            Self::Failed => CompletionReason::AgentFailed,
        }
    }
}

/// The soonest way to an outcome: the number of turns, and for each part an end.
type Soonest<'a> = (u32, Vec<&'a Candidate>);

impl Whole<'_> {
    fn found(&self, besides: Vec<UnexploredOutcome>) -> Option<Exploration> {
        let is_known = |class: &Class| {
            class.reason() == CompletionReason::WaitingForInput || Severity::of(class.reason()).is_some()
        };
        if !self.walks.iter().flat_map(|walk| walk.ends.keys()).all(is_known) {
            return None;
        }
        let mut ends = Vec::new();
        for (class, (_, ways)) in self.at_rest() {
            let end = self.end(&self.scripts(&ways))?;
            let is_expected = end.reason == class.reason() && Class::of_whole(&end) == class;
            is_expected.then(|| ends.push((class, end)))?;
        }
        if let Some(scripts) = self.unanswered(None) {
            let end = self.end(&scripts)?;
            (end.reason == CompletionReason::WaitingForInput).then_some(())?;
            ends.push((Class::of_whole(&end), end));
        }
        ends.sort_by_key(|(class, _)| *class);
        Some(Exploration {
            coverage: self.coverage(),
            turns: self.walks.iter().map(|walk| walk.turns).max().unwrap_or_default(),
            executions: self.walks.iter().map(|walk| walk.executions).sum(),
            turns_bound: 0,
            executions_bound: 0,
            agents: self.agents()?,
            reached: self.reached(),
            ends: ends.into_iter().map(|(_, end)| end).collect(),
            besides,
            requests: false,
        })
    }

    /// Returns the goals that the parts reach, with the agents of the whole.
    fn reached(&self) -> BTreeSet<Goal> {
        let parts = self.parts.iter().zip(&self.walks);
        let reached =
            parts.flat_map(|(part, walk)| walk.reached().map(|goal| goal.with_agent(|id| part.agents[id.index()])));
        reached.collect()
    }

    fn coverage(&self) -> Coverage {
        let parts = || self.walks.iter().map(|walk| &walk.coverage);
        Coverage {
            states: parts().map(|part| part.states).sum(),
            steps: parts().map(|part| part.steps).sum(),
            parts: u32::try_from(self.walks.len()).unwrap_or(u32::MAX),
            stopped_by: parts().find_map(|part| part.stopped_by),
            complete_below: parts().filter_map(|part| part.complete_below).min(),
            cut: parts().map(|part| part.cut).sum(),
        }
    }

    /// The soonest end of each class in which all parts are at rest, or out of turns.
    fn at_rest(&self) -> BTreeMap<Class, Soonest<'_>> {
        let nothing = Outcome {
            severity: Severity::Completed,
            left_out: false,
            failed: false,
        };
        let mut reached: BTreeMap<Outcome, Soonest<'_>> = BTreeMap::from([(nothing, (0, Vec::new()))]);
        for walk in &self.walks {
            let mut next: BTreeMap<Outcome, Soonest<'_>> = BTreeMap::new();
            for (before, (turns, ways)) in &reached {
                for (outcome, end) in outcomes(walk) {
                    let together = Outcome {
                        severity: before.severity.max(outcome.severity),
                        left_out: before.left_out || outcome.left_out,
                        failed: before.failed || outcome.failed,
                    };
                    let turns = (*turns).max(end.turns);
                    if next.get(&together).is_none_or(|(known, _)| turns < *known) {
                        let ways = ways.iter().copied().chain([end]).collect();
                        next.insert(together, (turns, ways));
                    }
                }
            }
            reached = next;
        }
        let mut classes: BTreeMap<Class, Soonest<'_>> = BTreeMap::new();
        for (outcome, (turns, ways)) in reached {
            let class = Class::of(outcome.severity.reason(), outcome.left_out, outcome.failed);
            if classes.get(&class).is_none_or(|(known, _)| turns < *known) {
                classes.insert(class, (turns, ways));
            }
        }
        classes
    }

    /// The steps of each part.
    fn scripts(&self, ways: &[&Candidate]) -> Vec<Vec<StepReport>> {
        let told = |(walk, end): (&Walk<'_>, &&Candidate)| walk.tell(end).map(|end| end.path).unwrap_or_default();
        self.walks.iter().zip(ways).map(told).collect()
    }

    /// The soonest question without an answer; with `left_out`, the path of its part to a state without an agent
    /// replaces the path of that part, and the question comes from another part before the end of that path.
    fn unanswered(&self, left_out: Option<(usize, u32, StateId)>) -> Option<Vec<Vec<StepReport>>> {
        let asking = self.walks.iter().enumerate().filter_map(|(part, walk)| {
            let waits = |(class, _): &(&Class, &Candidate)| class.reason() == CompletionReason::WaitingForInput;
            let ends = walk.ends.iter().filter(waits).map(|(_, end)| end);
            Some((part, ends.min_by_key(|end| end.turns)?))
        });
        let is_soon = |part: usize, end: &Candidate| match left_out {
            Some((own, turns, _)) => part != own && end.turns < turns,
            None => true,
        };
        let asking = asking.filter(|(part, end)| is_soon(*part, end));
        let (asking, question) = asking.min_by_key(|(_, end)| end.turns)?;
        let script = |(part, walk): (usize, &Walk<'_>)| {
            if part == asking {
                return walk.tell(question).map(|end| end.path);
            }
            match left_out {
                Some((own, _, state)) if part == own => Some(walk.path_to(state)),
                _ => walk.tell(outcomes(walk).next()?.1).map(|end| end.path),
            }
        };
        self.walks.iter().enumerate().map(script).collect()
    }

    /// Performs these steps of the parts together.
    fn end(&self, scripts: &[Vec<StepReport>]) -> Option<End> {
        let mut position = Position::start(self.world);
        let mut path = Vec::new();
        let longest = scripts.iter().map(Vec::len).max()?;
        for at in 0..=longest {
            let choices = Choices::told(scripts.iter().filter_map(|script| script.get(at)));
            let (next, told) = position.step(self.world, &choices);
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

    /// The agents of the whole, in declaration order.
    fn agents(&self) -> Option<Vec<AgentSummary>> {
        let mut agents: Vec<(AgentId, AgentSummary)> = Vec::with_capacity(self.world.plan.len());
        for (part, (known, walk)) in self.parts.iter().zip(&self.walks).enumerate() {
            for (id, mut summary) in known.agents.iter().zip(walk.summaries()) {
                if summary.left_out.is_none() {
                    summary.left_out = self.left_out_by_others(part, walk, &summary.agent)?;
                }
                agents.push((*id, summary));
            }
        }
        agents.sort_by_key(|(id, _)| *id);
        Some(agents.into_iter().map(|(_, summary)| summary).collect())
    }

    /// Why a question of another part can end the conversation before this agent runs; `Some(None)`: it cannot.
    #[expect(
        clippy::option_option,
        reason = "the outer one says whether the parts are independent"
    )]
    fn left_out_by_others(&self, part: usize, walk: &Walk<'_>, agent: &Arc<str>) -> Option<Option<String>> {
        let id = walk.id(agent)?;
        let Some((turns, state)) = walk.longest_without[id.index()] else {
            return Some(None);
        };
        let Some(scripts) = self.unanswered(Some((part, turns, state))) else {
            return Some(None);
        };
        let end = self.end(&scripts)?;
        let not_run = end.not_run.into_iter().find(|one| one.agent == *agent)?;
        Some(Some(not_run.reason))
    }
}

/// The ends of a part that is at rest, or out of turns.
fn outcomes<'a>(walk: &'a Walk<'_>) -> impl Iterator<Item = (Outcome, &'a Candidate)> {
    walk.ends.iter().filter_map(|(class, end)| {
        let outcome = Outcome {
            severity: Severity::of(class.reason())?,
            left_out: class.left_out,
            failed: class.after_failure,
        };
        Some((outcome, end))
    })
}
