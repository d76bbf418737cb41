//! The messages between an agent and its models, in collapsed blocks.

use super::markup::{escape_html, render_text_block};
use crate::report::story::entries::{ExchangeEntry, exchange_title, format_exchange_counts, list_exchange_entries};
use ensemble_history::story::ModelExchange;

/// Renders the exchanges of one execution, or an empty text. `all` are the exchanges of the run.
pub(super) fn render_exchanges(exchanges: &[&ModelExchange], all: &[ModelExchange]) -> String {
    if exchanges.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "<details class=\"exchanges\"><summary>{}</summary>\n",
        format_exchange_counts(exchanges)
    );
    for exchange in exchanges {
        if let Some(title) = exchange_title(exchange, exchanges.len(), all) {
            text.push_str(&format!("<h5>{}</h5>\n", escape_html(&title)));
        }
        text.extend(list_exchange_entries(exchange, false).iter().map(render_entry));
    }
    text + "</details>\n"
}

/// Renders an entry of an exchange.
fn render_entry(entry: &ExchangeEntry) -> String {
    let line = |class: &str, text: &str| format!("<p class=\"{class}\">{}</p>\n", escape_html(text));
    match entry {
        ExchangeEntry::Request(about) => line("label request", about),
        ExchangeEntry::Message { who, text } => line("label", who) + render_text_block(text, "text").as_str(),
        ExchangeEntry::Note(text) => line("label", text),
        ExchangeEntry::ToolCall { name, arguments } => {
            line("label", &format!("→ {name}")) + render_text_block(arguments, "json").as_str()
        }
        ExchangeEntry::ToolResult { name, result } => {
            line("label", &format!("← {name}")) + render_text_block(result, "text").as_str()
        }
        ExchangeEntry::ToolError { name, error } => {
            line("failure", &format!("← {name}: error")) + render_text_block(error, "text failure").as_str()
        }
        ExchangeEntry::UnfinishedCall(name) => line("label", &format!("← {name}: not ended")),
        ExchangeEntry::ReplyRejected(errors) => {
            line("warning", "sent back") + render_text_block(errors, "text").as_str()
        }
        ExchangeEntry::RequestStopped => line("warning", "stopped before the reply was complete"),
        ExchangeEntry::AttemptFailed { kind, error } => {
            line("failure", &format!("failed ({kind})")) + render_text_block(error, "text failure").as_str()
        }
    }
}
