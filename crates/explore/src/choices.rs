//! The choices of one step of the walk. Each choice has several options.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::goal::ExplorationGoal;
use super::report::{ClaimSite, ExecutionResult, StepReport};
use ensemble_language::condition::ConditionClaim;

/// The number of the option taken at each choice; 0 is the default option.
pub(super) type OptionRow = Box<[u16]>;

/// The choices of one step: first the prescribed ones, then the default option for all others.
#[derive(Debug)]
pub(super) struct StepChoices {
    chosen: RefCell<ChosenOptions>,
    /// What steps of parts of the ensemble have chosen, to be chosen again.
    from_steps: Option<PartStepChoices>,
    everyone_waits: Cell<bool>,
    reached_goals: RefCell<Vec<ExplorationGoal>>,
}

/// The choices of steps, by what they decide.
#[derive(Debug)]
struct PartStepChoices {
    /// By the expression and the text of the claim.
    answers: HashMap<(ClaimSite, Arc<str>), bool>,
    results: HashMap<Arc<str>, ExecutionResult>,
}

#[derive(Debug)]
struct ChosenOptions {
    prescribed: OptionRow,
    /// The option that was taken, and the number of options.
    options: Vec<(u16, u16)>,
}

impl StepChoices {
    /// Starts with these prescribed options.
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

    /// Chooses what these steps of parts have chosen.
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

    /// Chooses the result of a claim, which this expression contains.
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

    /// Notes that every ready agent would have waited for another one.
    pub(super) fn on_all_agents_waiting(&self) {
        self.everyone_waits.set(true);
    }

    /// Returns whether every ready agent would have waited for another one in this step.
    pub(super) fn have_all_agents_waited(&self) -> bool {
        self.everyone_waits.get()
    }

    /// Notes what the step reaches.
    pub(super) fn add_reached_goals(&self, goals: Vec<ExplorationGoal>) {
        self.reached_goals.borrow_mut().extend(goals);
    }

    /// Returns the goals that the step has reached.
    pub(super) fn take_reached_goals(&self) -> Vec<ExplorationGoal> {
        self.reached_goals.take()
    }

    /// Chooses one of this number of options. Option 0 is the default: a condition is true, an execution succeeds.
    pub(super) fn choose_option(&self, options: usize) -> usize {
        let options = u16::try_from(options).unwrap_or(u16::MAX);
        let mut chosen = self.chosen.borrow_mut();
        let option = chosen.prescribed.get(chosen.options.len()).copied().unwrap_or(0);
        chosen.options.push((option, options));
        usize::from(option)
    }

    /// Returns all options that were taken. With these options prescribed, the same step is repeated.
    pub(super) fn taken_options(&self) -> OptionRow {
        self.chosen.borrow().options.iter().map(|(option, _)| *option).collect()
    }
}

/// Iterates over all sequences of choices of a step, in order of the number of deviations from the default options.
#[derive(Debug)]
pub(super) struct ChoiceSequences {
    pending: VecDeque<OptionRow>,
}

impl ChoiceSequences {
    /// Starts with the default options.
    pub(super) fn new() -> Self {
        Self {
            pending: VecDeque::from([Box::from([])]),
        }
    }

    /// Returns the next sequence to try.
    pub(super) fn next(&mut self) -> Option<StepChoices> {
        self.pending.pop_front().map(StepChoices::from_prescribed)
    }

    /// Reports a sequence as tried. Other options after its prescribed part are added to the sequences to try.
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
