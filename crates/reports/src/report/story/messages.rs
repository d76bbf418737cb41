//! What the models of a run were sent and what they replied, whole.

use super::lines::INDENT;
use crate::report::format::{BAD, CAUTION, DIM, NAME, TURN, count, kind_of};
use crate::report::wrap::LineWidth;
use crate::story::{ExchangeEnd, ModelExchange};
use ensemble_core::thread::{Iteration, Message, Role, ToolCall, ToolEnd};

/// All of these exchanges, without any cut.
pub fn messages(exchanges: &[ModelExchange], width: LineWidth) -> String {
    let mut text = String::new();
    for exchange in exchanges {
        let printer = Printer { exchanges, width };
        text.push_str(&printer.exchange(exchange));
    }
    text
}

struct Printer<'a> {
    exchanges: &'a [ModelExchange],
    width: LineWidth,
}

impl Printer<'_> {
    fn exchange(&self, exchange: &ModelExchange) -> String {
        let within = &exchange.within;
        let part = within.part.as_ref().map(|key| format!("[{key}]")).unwrap_or_default();
        let inside = within
            .inside
            .last()
            .map(|call| self.inside(exchange, call))
            .unwrap_or_default();
        let attempt = match within.attempt {
            1 => String::new(),
            attempt => format!(" · attempt {attempt}"),
        };
        let mut text = format!(
            "\n{TURN}turn {}{TURN:#}  {NAME}{}{part}{NAME:#} #{}{attempt}{inside}\n",
            within.turn, within.agent, within.execution
        );
        if !exchange.remembered.is_empty() {
            let messages = count(exchange.remembered.len() as u64, "message");
            text.push_str(&format!(
                "  {DIM}{messages} of earlier executions were sent before these:{DIM:#}\n"
            ));
            for message in &exchange.remembered {
                text.push_str(&self.message(message, "earlier "));
            }
        }
        for (number, iteration) in (1_u32..).zip(&exchange.iterations) {
            text.push_str(&self.iteration(number, iteration));
        }
        text.push_str(&match &exchange.end {
            ExchangeEnd::Succeeded => String::new(),
            ExchangeEnd::Open => format!("  {DIM}the execution goes on, or was cut short here{DIM:#}\n"),
            ExchangeEnd::Failed { failure } => {
                let kind = kind_of(failure.kind);
                let failed = format!("{BAD}failed{BAD:#} ({kind}): {}", failure.error);
                self.width.block(&failed, 2)
            }
        });
        text
    }

    /// The call that contains the agent, with the name of its tool.
    fn inside(&self, exchange: &ModelExchange, call: &str) -> String {
        let around = &exchange.within.inside[..exchange.within.inside.len() - 1];
        let is_around = |other: &&ModelExchange| {
            other.within.inside == around
                && (other.within.turn, &other.within.agent, &other.within.part)
                    == (exchange.within.turn, &exchange.within.agent, &exchange.within.part)
        };
        let calls = self.exchanges.iter().filter(is_around);
        let mut calls = calls
            .flat_map(|other| &other.iterations)
            .flat_map(|one| &one.tool_calls);
        match calls.find(|known| known.id == call) {
            Some(known) => format!(" · inside the call of {}", known.name),
            None => format!(" · inside call {call}"),
        }
    }

    fn iteration(&self, number: u32, iteration: &Iteration) -> String {
        let noted = |key: &str| iteration.metadata.get(key);
        let word = |key: &str| noted(key).and_then(serde_json::Value::as_str);
        let mut about = vec![format!("request {number}")];
        about.extend(word("model").map(|model| model.trim_end_matches('/').to_owned()));
        about.extend(word("stop_reason").map(|reason| reason.replace('_', " ")));
        if let Some(usage) = noted("usage") {
            let tokens = |key: &str| usage[key].as_u64().unwrap_or_default();
            about.push(format!(
                "{} tokens in, {} out",
                tokens("input_tokens"),
                tokens("output_tokens")
            ));
        }
        let mut text = format!("  {DIM}{}{DIM:#}\n", about.join(" · "));
        if let Some(system) = word("system_prompt") {
            text.push_str(&self.said("system", system));
        }
        if let Some(dropped) = noted("dropped") {
            let told = format!("{DIM}{}{DIM:#}", crate::report::context_window::told(dropped));
            text.push_str(&self.width.block(&told, INDENT));
        }
        for message in &iteration.messages {
            text.push_str(&self.message(message, ""));
        }
        for call in &iteration.tool_calls {
            text.push_str(&self.call(call));
        }
        if let Some(errors) = word("rejected") {
            let told = format!("{CAUTION}sent back:{CAUTION:#} {errors}");
            text.push_str(&self.width.block(&told, INDENT));
        }
        if noted("stopped").is_some() {
            let told = format!("{CAUTION}stopped before the reply was complete{CAUTION:#}");
            text.push_str(&self.width.block(&told, INDENT));
        }
        text
    }

    fn message(&self, message: &Message, which: &str) -> String {
        let role = match message.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        let mut text = String::new();
        if let Some(reasoning) = &message.reasoning {
            text.push_str(&self.said("reasoning", &reasoning.to_text()));
        }
        let has_only_calls = message.role == Role::Assistant && message.content.is_empty();
        if !has_only_calls {
            text.push_str(&self.said(&format!("{which}{role}"), &message.content));
        }
        for file in &message.attachments {
            let told = format!(
                "{DIM}file {} ({}, {} bytes){DIM:#}",
                file.name, file.mime_type, file.size
            );
            text.push_str(&self.width.block(&told, INDENT));
        }
        for call in &message.tool_calls {
            text.push_str(&self.call(call));
        }
        text
    }

    fn said(&self, who: &str, content: &str) -> String {
        let who = format!("    {NAME}{who}{NAME:#}\n");
        format!("{who}{}", self.width.block(&visible(content), INDENT + 2))
    }

    fn call(&self, call: &ToolCall) -> String {
        let called = format!("→ {} {}", call.name, call.arguments);
        let ended = match &call.end {
            Some(ToolEnd::Error(error)) => format!("← {}: {BAD}error{BAD:#}: {}", call.name, visible(error)),
            Some(ToolEnd::Result(_)) => format!("← {}: {}", call.name, visible(&call.told())),
            None => format!("← {}: not ended", call.name),
        };
        let text = format!("{}\n{ended}", visible(&called));
        self.width.block(&text, INDENT)
    }
}

/// The text with its control characters made visible, except line breaks and tabs.
fn visible(text: &str) -> String {
    let shown = |character: char| match character {
        '\n' | '\t' => character,
        '\u{0}'..='\u{1f}' => char::from_u32(0x2400 + u32::from(character)).unwrap_or('\u{fffd}'),
        other if other.is_control() => '\u{fffd}',
        other => other,
    };
    text.chars().map(shown).collect()
}
