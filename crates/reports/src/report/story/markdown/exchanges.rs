//! The messages between an agent and its models, folded away.

use super::{fenced, inline};
use crate::report::story::entries::{Entry, counts, entries, title};
use ensemble_history::story::ModelExchange;

/// The exchanges of one execution; nothing if there are none. `all`: those of the run.
pub(super) fn folded(exchanges: &[&ModelExchange], all: &[ModelExchange]) -> String {
    if exchanges.is_empty() {
        return String::new();
    }
    let mut text = format!("<details><summary>{}</summary>\n\n", counts(exchanges));
    for exchange in exchanges {
        if let Some(title) = title(exchange, exchanges.len(), all) {
            text.push_str(&format!("**{}**\n\n", inline(&title)));
        }
        text.extend(entries(exchange, false).iter().map(entry));
    }
    text + "</details>\n\n"
}

fn entry(entry: &Entry) -> String {
    let line = |text: &str| format!("{}\n\n", inline(text));
    match entry {
        Entry::Request(about) => format!("*{}*\n\n", inline(about)),
        Entry::Said { who, text } => line(who) + fenced(text, "text").as_str(),
        Entry::Note(text) => line(text),
        Entry::Called { name, arguments } => line(&format!("→ {name}")) + fenced(arguments, "json").as_str(),
        Entry::Returned { name, result } => line(&format!("← {name}")) + fenced(result, "text").as_str(),
        Entry::Erred { name, error } => line(&format!("← {name}: error")) + fenced(error, "text").as_str(),
        Entry::NotEnded(name) => line(&format!("← {name}: not ended")),
        Entry::SentBack(errors) => line("sent back:") + fenced(errors, "text").as_str(),
        Entry::Stopped => line("stopped before the reply was complete"),
        Entry::Failed { kind, error } => line(&format!("failed ({kind}):")) + fenced(error, "text").as_str(),
    }
}
