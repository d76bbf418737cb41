//! What the models of a run were sent and what they replied, whole.

use super::entries::{Entry, circumstances, entries, part};
use super::lines::INDENT;
use crate::report::format::{BAD, CAUTION, DIM, NAME, TURN};
use crate::report::wrap::LineWidth;
use ensemble_history::story::ModelExchange;

/// The chosen exchanges of all exchanges of a run, without any cut.
pub fn messages(chosen: &[&ModelExchange], all: &[ModelExchange], width: LineWidth) -> String {
    chosen.iter().map(|exchange| shown(exchange, all, width)).collect()
}

fn shown(exchange: &ModelExchange, all: &[ModelExchange], width: LineWidth) -> String {
    let within = &exchange.within;
    let key = part(exchange).map(|key| format!("[{key}]")).unwrap_or_default();
    let about: String = circumstances(exchange, all)
        .iter()
        .map(|about| format!(" · {about}"))
        .collect();
    let title = format!(
        "\n{TURN}turn {}{TURN:#}  {NAME}{}{key}{NAME:#} #{}{about}\n",
        within.turn, within.agent, within.execution
    );
    let lines: String = entries(exchange, true).iter().map(|one| entry(one, width)).collect();
    title + lines.as_str()
}

fn entry(entry: &Entry, width: LineWidth) -> String {
    let line = |text: &str, indent: usize| width.block(text, indent);
    match entry {
        Entry::Request(about) => format!("  {DIM}{about}{DIM:#}\n"),
        Entry::Said { who, text } => format!("    {NAME}{who}{NAME:#}\n{}", line(text, INDENT + 2)),
        Entry::Note(text) => line(&format!("{DIM}{text}{DIM:#}"), INDENT),
        Entry::Called { name, arguments } => line(&format!("→ {name} {arguments}"), INDENT),
        Entry::Returned { name, result } => line(&format!("← {name}: {result}"), INDENT),
        Entry::Erred { name, error } => line(&format!("← {name}: {BAD}error{BAD:#}: {error}"), INDENT),
        Entry::NotEnded(name) => line(&format!("← {name}: not ended"), INDENT),
        Entry::SentBack(errors) => line(&format!("{CAUTION}sent back:{CAUTION:#} {errors}"), INDENT),
        Entry::Stopped => line(
            &format!("{CAUTION}stopped before the reply was complete{CAUTION:#}"),
            INDENT,
        ),
        Entry::Failed { kind, error } => line(&format!("{BAD}failed{BAD:#} ({kind}): {error}"), 2),
    }
}
