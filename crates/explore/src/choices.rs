//! The choices of one step of the walk. Each choice has several options.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::goal::ExplorationGoal;
use super::report::{ClaimSite, ExecutionResult, StepReport};
use ensemble_language::condition::ConditionClaim;

/// Numbers of the options taken at the choices of a step. Option 0 is the default.
pub(super) type OptionRow = Box<[u16]>;

/// Choices of one step: first the prescribed options, then the default option for every other choice.
#[derive(Debug)]
pub(super) struct StepChoices {
    chosen: RefCell<ChosenOptions>,
    /// What steps of parts of the ensemble have chosen, to be chosen again.
    from_steps: Option<PartStepChoices>,
    everyone_waits: Cell<bool>,
    reached_goals: RefCell<Vec<ExplorationGoal>>,
}

/// Choices of steps of the parts: results of claims and results of executions.
#[derive(Debug)]
struct PartStepChoices {
    /// By the expression and the text of the claim.
    answers: HashMap<(ClaimSite, Arc<str>), bool>,
    results: HashMap<Arc<str>, ExecutionResult>,
}

/// Prescribed options, and the options taken so far.
#[derive(Debug)]
struct ChosenOptions {
    prescribed: OptionRow,
    /// The option that was taken, and the number of options.
    options: Vec<(u16, u16)>,
}

impl StepChoices {
    /// Creates choices that take the prescribed options first, then the default options.
    pub(super) fn from_prescribed(prescribed: OptionRow) -> Self {
        Self {
            chosen: RefCell::new(ChosenOptions {
                prescribed,
                options: Vec::new(),
            }),
            from_steps: None,
            everyone_waits: Cell::new(false),
            reached_goals: RefCell::default(),
        }
    }

    /// Creates choices that repeat the choices of these steps of the parts.
    pub(super) fn from_part_steps<'s>(steps: impl Iterator<Item = &'s StepReport> + Clone) -> Self {
        let answers = steps.clone().flat_map(|told| &told.assumed);
        let answers = answers.map(|one| ((one.site.clone(), one.claim.clone()), one.answer));
        let results = steps.flat_map(|told| &told.runs);
        let prescribed_choices = PartStepChoices {
            answers: answers.collect(),
            results: results.map(|ran| (ran.agent.clone(), ran.result)).collect(),
        };
        Self {
            from_steps: Some(prescribed_choices),
            ..Self::from_prescribed(OptionRow::default())
        }
    }

    /// Chooses the result of the claim in this expression.
    pub(super) fn choose_claim_result(&self, site: &ClaimSite, claim: &ConditionClaim) -> bool {
        match &self.from_steps {
            Some(prescribed_choices) => {
                let key = (site.clone(), claim.text.clone());
                let answer = prescribed_choices.answers.get(&key);
                answer.is_none_or(|answer| *answer != claim.is_opposite)
            }
            None => self.choose_option(2) == 0,
        }
    }

    /// Chooses one of the possible results of an execution of the agent.
    pub(super) fn choose_execution_result(&self, agent: &str, possible: &[ExecutionResult]) -> ExecutionResult {
        let prescribed_result = self
            .from_steps
            .as_ref()
            .and_then(|told| told.results.get(agent).copied());
        match (prescribed_result, possible) {
            (Some(prescribed_result), _) => prescribed_result,
            (None, [only]) => *only,
            (None, _) if self.from_steps.is_some() => possible[0],
            (None, _) => possible[self.choose_option(possible.len())],
        }
    }

    /// Records that every ready agent would have waited for another one.
    pub(super) fn on_all_agents_waiting(&self) {
        self.everyone_waits.set(true);
    }

    /// Returns whether every ready agent would have waited for another one in this step.
    pub(super) fn have_all_agents_waited(&self) -> bool {
        self.everyone_waits.get()
    }

    /// Records goals that the step has reached.
    pub(super) fn add_reached_goals(&self, goals: Vec<ExplorationGoal>) {
        self.reached_goals.borrow_mut().extend(goals);
    }

    /// Removes the goals that the step has reached, and returns them.
    pub(super) fn take_reached_goals(&self) -> Vec<ExplorationGoal> {
        self.reached_goals.take()
    }

    /// Chooses one of `options` options, and records the choice. Option 0 is the default: a condition is true, an execution succeeds.
    pub(super) fn choose_option(&self, options: usize) -> usize {
        let options = u16::try_from(options).unwrap_or(u16::MAX);
        let mut chosen = self.chosen.borrow_mut();
        let option = chosen.prescribed.get(chosen.options.len()).copied().unwrap_or(0);
        chosen.options.push((option, options));
        usize::from(option)
    }

    /// Returns all options taken so far. Prescribing these options repeats the step.
    pub(super) fn taken_options(&self) -> OptionRow {
        self.chosen.borrow().options.iter().map(|(option, _)| *option).collect()
    }
}

/// Iterator over all sequences of choices of a step, in order of the number of deviations from the default options.
#[derive(Debug)]
pub(super) struct ChoiceSequences {
    pending: VecDeque<OptionRow>,
}

impl ChoiceSequences {
    /// Creates the iterator with the sequence of default options.
    pub(super) fn new() -> Self {
        Self {
            pending: VecDeque::from([Box::from([])]),
        }
    }

    /// Returns the next sequence to try.
    pub(super) fn next(&mut self) -> Option<StepChoices> {
        self.pending.pop_front().map(StepChoices::from_prescribed)
    }

    /// Adds the sequences that differ from the tried one in one option after its prescribed part.
    pub(super) fn queue_alternatives(&mut self, choices: &StepChoices) {
        let chosen = choices.chosen.borrow();
        for at in chosen.prescribed.len()..chosen.options.len() {
            for other_option in 1..chosen.options[at].1 {
                let before = chosen.options[..at].iter().map(|(option, _)| *option);
                self.pending.push_back(before.chain([other_option]).collect());
            }
        }
    }
}
