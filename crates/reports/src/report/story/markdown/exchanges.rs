//! The messages between an agent and its models, in collapsed blocks.

use super::{escape_markdown_inline, render_code_block};
use crate::report::story::entries::{ExchangeEntry, exchange_title, format_exchange_counts, list_exchange_entries};
use ensemble_history::story::ModelExchange;

/// Renders the exchanges of one execution, or an empty text. `all` are the exchanges of the run.
pub(super) fn render_exchanges(exchanges: &[&ModelExchange], all: &[ModelExchange]) -> String {
    if exchanges.is_empty() {
        return String::new();
    }
    let mut text = format!("<details><summary>{}</summary>\n\n", format_exchange_counts(exchanges));
    for exchange in exchanges {
        if let Some(title) = exchange_title(exchange, exchanges.len(), all) {
            text.push_str(&format!("**{}**\n\n", escape_markdown_inline(&title)));
        }
        text.extend(list_exchange_entries(exchange, false).iter().map(render_entry));
    }
    text + "</details>\n\n"
}

/// Renders an entry of an exchange.
fn render_entry(entry: &ExchangeEntry) -> String {
    let line = |text: &str| format!("{}\n\n", escape_markdown_inline(text));
    match entry {
        ExchangeEntry::Request(about) => format!("*{}*\n\n", escape_markdown_inline(about)),
        ExchangeEntry::Message { who, text } => line(who) + render_code_block(text, "text").as_str(),
        ExchangeEntry::Note(text) => line(text),
        ExchangeEntry::ToolCall { name, arguments } => {
            line(&format!("→ {name}")) + render_code_block(arguments, "json").as_str()
        }
        ExchangeEntry::ToolResult { name, result } => {
            line(&format!("← {name}")) + render_code_block(result, "text").as_str()
        }
        ExchangeEntry::ToolError { name, error } => {
            line(&format!("← {name}: error")) + render_code_block(error, "text").as_str()
        }
        ExchangeEntry::UnfinishedCall(name) => line(&format!("← {name}: not ended")),
        ExchangeEntry::ReplyRejected(errors) => line("sent back:") + render_code_block(errors, "text").as_str(),
        ExchangeEntry::RequestStopped => line("stopped before the reply was complete"),
        ExchangeEntry::AttemptFailed { kind, error } => {
            line(&format!("failed ({kind}):")) + render_code_block(error, "text").as_str()
        }
    }
}
