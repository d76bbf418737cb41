//! The suggested commands after the report of a run.

use crate::report::parts::PartsSummary;
use ensemble_core::conversation::{CompletionReason, FailedExecution};
use ensemble_core::operator::escape_hidden;
use ensemble_history::story::RunStory;
use ensemble_history::{DriverProcess, RunState};

/// A suggested command with its purpose.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct NextCommand {
    /// The purpose, in one or two words.
    pub purpose: &'static str,
    /// The command as typed.
    pub command: String,
}

/// Suggests useful commands, the most likely first. A nested run is driven by its outer run.
pub fn suggest_next_commands(story: &RunStory, driver: DriverProcess) -> Vec<NextCommand> {
    let Some(id) = story.start_event().map(|started| &*started.run_id) else {
        return Vec::new();
    };
    if id.is_empty() || id.contains('/') {
        return Vec::new();
    }
    let new_command = |purpose, command: String| NextCommand { purpose, command };
    match story.history.run_state(driver) {
        _ if driver != DriverProcess::NoProcess => {
            vec![new_command("watch it", format!("ensemble runs show {id} --follow"))]
        }
        RunState::Waiting => {
            let answers = story.pending_requests().into_iter().map(|open| {
                let (address, choices) = (open.address.to_string(), &open.question.choices);
                if open.is_permission() {
                    return format!(" --allow-tool {}", escape_and_quote_for_shell(&address));
                }
                let answer = choices
                    .first()
                    .map_or_else(|| "\"…\"".to_owned(), |choice| quote_for_shell(choice));
                format!(" --answer {}={answer}", escape_and_quote_for_shell(&address))
            });
            let answers: String = answers.collect();
            let mut ways = vec![new_command("answer with", format!("ensemble resume {id}{answers}"))];
            if answers.contains(" --allow-tool ") {
                let denied = answers.replace(" --allow-tool ", " --deny-tool ");
                ways.push(new_command("or deny it with", format!("ensemble resume {id}{denied}")));
            }
            ways
        }
        state if state.is_resumable() => vec![new_command("resume with", format!("ensemble resume {id}"))],
        RunState::Ended(CompletionReason::AgentFailed | CompletionReason::ConditionFailed) => {
            let turn = story.last_turn_before_failure();
            let failed = story.end_event().and_then(|ended| ended.failed.as_ref());
            let failed = failed.map(|failed| {
                let from = rerun_argument(failed, first_failed_part(story, failed));
                new_command("run it again with", format!("ensemble rerun {id} --from {from}"))
            });
            let edited = new_command(
                "fix the file and continue from before the failure",
                format!("ensemble fork {id} --at-turn {turn} --ensemble FILE"),
            );
            failed.into_iter().chain([edited]).collect()
        }
        _ => vec![
            match refuses_messages(story) {
                true => new_command(
                    "continue with a higher limit in FILE",
                    format!("ensemble continue {id} \"…\" --ensemble FILE"),
                ),
                false => new_command("continue with a new message", format!("ensemble continue {id} \"…\"")),
            },
            new_command(
                "save it as a page",
                format!("ensemble runs export {id} --output html -o {id}.html"),
            ),
        ],
    }
}

/// Returns whether another message needs a higher limit. If the limits are not known, a run that its budget has ended needs one.
fn refuses_messages(story: &RunStory) -> bool {
    match story.budget_status() {
        Some(budget) => budget.refuses_messages(),
        None => story.limits.is_none() && has_ended_by_budget(story),
    }
}

fn has_ended_by_budget(story: &RunStory) -> bool {
    let end = story.end_event();
    end.is_some_and(|ended| ended.completion_reason == CompletionReason::TokenBudget)
}

/// Returns the key of the first failed part of the execution. Returns `None` without parts or failures.
pub fn first_failed_part<'s>(story: &'s RunStory, failed: &FailedExecution) -> Option<&'s str> {
    let execution = story.find_execution(failed.turn, &failed.agent)?;
    let part = PartsSummary::from_events(&execution.parts)?.first_failed_part()?;
    Some(&*part.key)
}

/// Renders `agent@turn`, or `agent[key]@turn` for a failed part, as one word for a shell.
pub(crate) fn rerun_argument(failed: &FailedExecution, part: Option<&str>) -> String {
    let part = part.map_or_else(String::new, |key| format!("[{key}]"));
    quote_for_shell(&format!("{}{part}@{}", failed.agent, failed.turn))
}

/// Quotes a text as one word for a shell.
pub fn quote_for_shell(text: &str) -> String {
    let is_word = !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "_-.,:/@".contains(c));
    if is_word {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Escapes and quotes an untrusted name as one word for a shell and a terminal.
pub(crate) fn escape_and_quote_for_shell(name: &str) -> String {
    quote_for_shell(&escape_hidden(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_word_of_the_shell() {
        let table = [
            ("yes", "yes"),
            ("not yet", "'not yet'"),
            ("it's", "'it'\\''s'"),
            ("", "''"),
        ];
        for (text, word) in table {
            assert_eq!(quote_for_shell(text), word);
        }
    }
}
