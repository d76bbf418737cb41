//! Expectations about what a run does besides its outputs: its exit code, its prompts, and the executions that run together.

use std::sync::Arc;

use ensemble_core::conversation::run_exit_code;
use ensemble_language::cases::{CaseExpectations, REFUSED_EXIT_CODE, expect_route};
use serde_json::Value;

use crate::judge::{CaseExpectationChecker, UnmetExpectation, format_turns, list_agents_by_turn};
use crate::watch::ObservedPrompt;

/// Checks the expected exit code of a case whose ensemble is refused.
pub(crate) fn check_exit_after_refusal(at: usize, expect: &CaseExpectations) -> Vec<UnmetExpectation> {
    let wrong = expect.exit.filter(|exit| *exit != REFUSED_EXIT_CODE);
    let unmet = wrong.map(|exit| {
        let place = expect_route(at, "exit").into_value_location();
        let actual = format!("{REFUSED_EXIT_CODE}, because the ensemble or its inputs are refused");
        UnmetExpectation::from_difference(place, "exit", exit.to_string(), actual)
    });
    unmet.into_iter().collect()
}

/// The highest number of characters of a prompt in a failure.
const MAX_PROMPT_CHARACTERS: usize = 1_000;

/// Shortens a long prompt for a message.
fn shorten_prompt(text: &str) -> String {
    match text.char_indices().nth(MAX_PROMPT_CHARACTERS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl CaseExpectationChecker<'_> {
    /// Reports a conversation that took place although the case expects a refusal.
    pub(super) fn check_expected_refusal(&self) -> Option<UnmetExpectation> {
        let actual = || match self.state().run_end() {
            Some(ended) => format!("a run that ended as {}", ended.completion_reason.as_str()),
            None => "a run".to_owned(),
        };
        let place = self.key_location("refused");
        let expected = "the ensemble or its inputs are refused before a run";
        self.expect
            .refused
            .then(|| UnmetExpectation::from_difference(place, "refused", expected, actual()))
    }

    /// Returns the exit code of `ensemble run` for the conversation. Returns 0 if the run has not ended.
    pub(crate) fn exit_code_of_run_command(&self) -> u8 {
        let state = self.state();
        state.run_end().map_or(0, |ended| {
            run_exit_code(ended.completion_reason, ended.is_success(), state.interruption())
        })
    }

    /// Checks the expected exit code.
    pub(super) fn check_exit_code(&self) -> Option<UnmetExpectation> {
        let expected = self.expect.exit?;
        let actual = self.exit_code_of_run_command();
        let text = || match self.state().run_end() {
            Some(ended) => format!("{actual} ({})", ended.completion_reason.as_str()),
            None => actual.to_string(),
        };
        (expected != actual)
            .then(|| UnmetExpectation::from_difference(self.key_location("exit"), "exit", expected.to_string(), text()))
    }

    /// Checks that the agents of each group run in a common turn.
    pub(super) fn check_same_turn(&self) -> Vec<UnmetExpectation> {
        let actual = list_agents_by_turn(&self.conversation.records);
        let is_met = |group: &[Arc<str>]| actual.iter().any(|turn| group.iter().all(|name| turn.contains(name)));
        let groups = self.expect.same_turn.iter().enumerate();
        groups
            .filter(|(_, group)| !is_met(group))
            .map(|(position, group)| {
                let place = expect_route(self.at, "same_turn")
                    .with_index(position)
                    .into_value_location();
                let expected = format!("a turn with {}", group.join(" + "));
                UnmetExpectation::from_difference(place, "same turn", expected, format_turns(&actual))
            })
            .collect()
    }

    /// Returns the largest number of executions or parts of the agent that ran at the same time.
    pub(crate) fn max_parallel_executions(&self, name: &str) -> u32 {
        let mut loads = self.conversation.loads.iter();
        loads.find(|load| *load.agent == *name).map_or(0, |load| load.most)
    }

    /// Checks the expected limits of parallel executions.
    pub(super) fn check_parallel_limits(&self) -> Vec<UnmetExpectation> {
        let limits = self.expect.at_once.iter();
        limits
            .filter(|(name, limit)| self.max_parallel_executions(name) > *limit)
            .map(|(name, limit)| {
                let place = self.entry_location("at_once", name);
                let actual = self.max_parallel_executions(name).to_string();
                UnmetExpectation::from_difference(place, format!("{name} at once"), format!("at most {limit}"), actual)
            })
            .collect()
    }

    /// Checks that prompts of agents contain the expected texts.
    pub(super) fn check_prompt_texts(&self) -> Vec<UnmetExpectation> {
        let mut failures = Vec::new();
        for (name, texts) in &self.expect.asked {
            let prompts: Vec<&ObservedPrompt> = self
                .conversation
                .prompts
                .iter()
                .filter(|prompt| prompt.agent == *name)
                .collect();
            let is_in =
                |prompt: &&ObservedPrompt, part: &str| prompt.text.as_ref().is_ok_and(|text| text.contains(part));
            for (position, part) in texts.iter().enumerate() {
                if prompts.iter().any(|prompt| is_in(prompt, part)) {
                    continue;
                }
                let place = expect_route(self.at, "asked")
                    .with_key(name.clone())
                    .with_index(position)
                    .into_value_location();
                failures.push(UnmetExpectation::from_difference(
                    place,
                    format!("prompt of {name}"),
                    format!("a prompt that contains {}", Value::from(part.as_str())),
                    describe_prompts(&prompts),
                ));
            }
        }
        failures
    }
}

/// Describes the prompts of an agent for a message.
fn describe_prompts(prompts: &[&ObservedPrompt]) -> String {
    let describe = |prompt: &&ObservedPrompt| {
        let text = match &prompt.text {
            Ok(text) => shorten_prompt(text),
            Err(error) => format!("the prompt cannot be rendered: {error}"),
        };
        match prompts.len() {
            1 => text,
            _ => format!("execution {}: {text}", prompt.execution),
        }
    };
    match prompts {
        [] => "the agent was asked nothing".to_owned(),
        all => all.iter().map(describe).collect::<Vec<_>>().join("; "),
    }
}
