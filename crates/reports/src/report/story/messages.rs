//! The complete messages between the agents of a run and their models.

use super::entries::{ExchangeEntry, list_exchange_circumstances, list_exchange_entries, visible_part_key};
use super::shared_lines::OUTPUT_INDENT;
use crate::report::format::{BAD, CAUTION, DIM, NAME, TURN};
use crate::report::wrap::LineWidth;
use ensemble_history::story::ModelExchange;

/// Renders the chosen exchanges completely. `all` are the exchanges of the run.
pub fn render_full_exchanges(chosen: &[&ModelExchange], all: &[ModelExchange], width: LineWidth) -> String {
    chosen
        .iter()
        .map(|exchange| render_exchange(exchange, all, width))
        .collect()
}

/// Renders an exchange with its title.
fn render_exchange(exchange: &ModelExchange, all: &[ModelExchange], width: LineWidth) -> String {
    let within = &exchange.scope;
    let key = visible_part_key(exchange)
        .map(|key| format!("[{key}]"))
        .unwrap_or_default();
    let about: String = list_exchange_circumstances(exchange, all)
        .iter()
        .map(|about| format!(" · {about}"))
        .collect();
    let title = format!(
        "\n{TURN}turn {}{TURN:#}  {NAME}{}{key}{NAME:#} #{}{about}\n",
        within.turn, within.agent, within.execution
    );
    let lines: String = list_exchange_entries(exchange, true)
        .iter()
        .map(|one| render_entry(one, width))
        .collect();
    title + lines.as_str()
}

/// Renders an entry of an exchange.
fn render_entry(entry: &ExchangeEntry, width: LineWidth) -> String {
    let line = |text: &str, indent: usize| width.wrap_block(text, indent);
    match entry {
        ExchangeEntry::Request(about) => format!("  {DIM}{about}{DIM:#}\n"),
        ExchangeEntry::Message { who, text } => format!("    {NAME}{who}{NAME:#}\n{}", line(text, OUTPUT_INDENT + 2)),
        ExchangeEntry::Note(text) => line(&format!("{DIM}{text}{DIM:#}"), OUTPUT_INDENT),
        ExchangeEntry::ToolCall { name, arguments } => line(&format!("→ {name} {arguments}"), OUTPUT_INDENT),
        ExchangeEntry::ToolResult { name, result } => line(&format!("← {name}: {result}"), OUTPUT_INDENT),
        ExchangeEntry::ToolError { name, error } => {
            line(&format!("← {name}: {BAD}error{BAD:#}: {error}"), OUTPUT_INDENT)
        }
        ExchangeEntry::UnfinishedCall(name) => line(&format!("← {name}: not ended"), OUTPUT_INDENT),
        ExchangeEntry::ReplyRejected(errors) => {
            line(&format!("{CAUTION}sent back:{CAUTION:#} {errors}"), OUTPUT_INDENT)
        }
        ExchangeEntry::RequestStopped => line(
            &format!("{CAUTION}stopped before the reply was complete{CAUTION:#}"),
            OUTPUT_INDENT,
        ),
        ExchangeEntry::AttemptFailed { kind, error } => line(&format!("{BAD}failed{BAD:#} ({kind}): {error}"), 2),
    }
}
