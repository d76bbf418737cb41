//! The messages between an agent and its models, folded away.

use super::markup::{block, escaped};
use crate::report::story::entries::{Entry, counts, entries, title};
use ensemble_history::story::ModelExchange;

/// The exchanges of one execution; nothing if there are none. `all`: those of the run.
pub(super) fn folded(exchanges: &[&ModelExchange], all: &[ModelExchange]) -> String {
    if exchanges.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "<details class=\"exchanges\"><summary>{}</summary>\n",
        counts(exchanges)
    );
    for exchange in exchanges {
        if let Some(title) = title(exchange, exchanges.len(), all) {
            text.push_str(&format!("<h5>{}</h5>\n", escaped(&title)));
        }
        text.extend(entries(exchange, false).iter().map(entry));
    }
    text + "</details>\n"
}

fn entry(entry: &Entry) -> String {
    let line = |class: &str, text: &str| format!("<p class=\"{class}\">{}</p>\n", escaped(text));
    match entry {
        Entry::Request(about) => line("label request", about),
        Entry::Said { who, text } => line("label", who) + block(text, "text").as_str(),
        Entry::Note(text) => line("label", text),
        Entry::Called { name, arguments } => line("label", &format!("→ {name}")) + block(arguments, "json").as_str(),
        Entry::Returned { name, result } => line("label", &format!("← {name}")) + block(result, "text").as_str(),
        Entry::Erred { name, error } => {
            line("failure", &format!("← {name}: error")) + block(error, "text failure").as_str()
        }
        Entry::NotEnded(name) => line("label", &format!("← {name}: not ended")),
        Entry::SentBack(errors) => line("warning", "sent back") + block(errors, "text").as_str(),
        Entry::Stopped => line("warning", "stopped before the reply was complete"),
        Entry::Failed { kind, error } => {
            line("failure", &format!("failed ({kind})")) + block(error, "text failure").as_str()
        }
    }
}
