//! `ensemble runs show --messages`: prints the messages that models of a run received and sent.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::command::run::arguments::RunOutputFormat;
use crate::command::shared::error::CliError;
use crate::command::shared::exit;
use crate::command::shared::surroundings::CliEnvironment;
use ensemble_core::store::StoredRun;
use ensemble_history::story::{FileRecordNumbers, ModelExchange, collect_model_exchanges};
use ensemble_reports::report::story::render_full_exchanges;
use ensemble_runs::{RecordedRun, RunError};

/// Prints the exchanges with models that the filter `AGENT[@TURN][#REQUEST]` selects. An empty filter selects all exchanges.
///
/// # Errors
/// The filter is not valid or selects no exchange.
pub(crate) async fn print_selected_exchanges(
    filter: &str,
    run: Arc<dyn StoredRun>,
    form: RunOutputFormat,
    surroundings: &CliEnvironment,
) -> Result<u8, CliError> {
    let recorded = RecordedRun::load(run, &surroundings.project).await?;
    let all = collect_model_exchanges(&recorded.journal.records, &recorded.prepared.plan).map_err(RunError::from)?;
    let selection = ExchangeFilter::parse(filter)?;
    let selected: Vec<_> = all.iter().filter_map(|one| selection.select_requests(one)).collect();
    let selected_exchanges: Vec<&ModelExchange> = selected.iter().map(|one| &**one).collect();
    if selected_exchanges.is_empty() && !filter.is_empty() {
        return Err(no_selected_messages_error(filter, &all));
    }
    let text = match form {
        RunOutputFormat::Human if selected_exchanges.is_empty() => "the run has sent nothing to a model\n".to_owned(),
        RunOutputFormat::Human => render_full_exchanges(&selected_exchanges, &all, surroundings.streams.out_width()),
        RunOutputFormat::Json => exchanges_to_json(
            &selected_exchanges,
            &FileRecordNumbers::from_records(&recorded.journal.records),
        ),
        RunOutputFormat::Events => {
            let message =
                "--messages needs `--output human` or `--output json`; without --messages, `--output events` works";
            return Err(CliError::usage_error(message));
        }
    };
    surroundings.print_out_in_format(form, &text);
    Ok(exit::SUCCESS)
}

/// Converts the exchanges to a JSON list.
fn exchanges_to_json(chosen: &[&ModelExchange], files: &FileRecordNumbers) -> String {
    let list: Value = chosen.iter().map(|exchange| exchange.to_json(files)).collect();
    format!("{list:#}\n")
}

/// Filter of exchanges by agent, turn and request.
struct ExchangeFilter<'a> {
    /// Name of the agent; empty for all agents.
    agent: &'a str,
    turn: Option<u32>,
    /// Number of the request in its execution, from 1.
    request: Option<u32>,
}

impl<'a> ExchangeFilter<'a> {
    /// Parses `AGENT`, `AGENT@TURN` or `AGENT@TURN#REQUEST`.
    fn parse(filter: &'a str) -> Result<Self, CliError> {
        let number = |text: &str| {
            text.parse().map_err(|_| {
                CliError::usage_error(format!(
                    "--messages takes AGENT, AGENT@TURN or AGENT@TURN#REQUEST, not `{filter}`"
                ))
            })
        };
        let (execution, request) = match filter.rsplit_once('#') {
            Some((execution, request)) => (execution, Some(number(request)?)),
            None => (filter, None),
        };
        let (agent, turn) = match execution.rsplit_once('@') {
            Some((agent, turn)) => (agent, Some(number(turn)?)),
            None => (execution, None),
        };
        Ok(Self { agent, turn, request })
    }

    /// Returns the exchange, reduced to the selected request if the filter names a request. Returns `None` if nothing is selected.
    fn select_requests<'e>(&self, exchange: &'e ModelExchange) -> Option<Cow<'e, ModelExchange>> {
        let within = &exchange.scope;
        let is_selected =
            (self.agent.is_empty() || *within.agent == *self.agent) && self.turn.is_none_or(|turn| within.turn == turn);
        let Some(request) = self.request.filter(|_| is_selected) else {
            return is_selected.then_some(Cow::Borrowed(exchange));
        };
        let mut selected = exchange.clone();
        selected.remembered_messages.clear();
        selected.iterations.retain(|iteration| iteration.number == request);
        (!selected.iterations.is_empty()).then_some(Cow::Owned(selected))
    }
}

/// Returns the error that names the places of all messages, with the numbers of requests if the filter has a number.
fn no_selected_messages_error(filter: &str, all: &[ModelExchange]) -> CliError {
    let mut requests_by_place: Vec<(String, u32)> = Vec::new();
    for exchange in all {
        let place = format!("{}@{}", exchange.scope.agent, exchange.scope.turn);
        let last = exchange.iterations.iter().map(|iteration| iteration.number).max();
        let last = last.unwrap_or_default();
        match requests_by_place.iter_mut().find(|(known, _)| *known == place) {
            Some((_, requests)) => *requests = last.max(*requests),
            None => requests_by_place.push((place, last)),
        }
    }
    let name_place = |(place, requests): &(String, u32)| match (filter.contains('#'), requests) {
        (false, _) => place.clone(),
        (true, 0 | 1) => format!("{place}#1"),
        (true, last) => format!("{place}#1 to #{last}"),
    };
    let known_places: Vec<String> = requests_by_place.iter().map(name_place).collect();
    let there_are = match known_places.is_empty() {
        true => "the run has sent nothing to a model".to_owned(),
        false => format!("there are messages of: {}", known_places.join(", ")),
    };
    CliError::usage_error(format!("no messages of `{filter}`; {there_are}"))
}
