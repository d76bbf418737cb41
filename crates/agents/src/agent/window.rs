//! The context window of an LLM agent: it selects the messages of the thread for each request.
//!
//! [`ensemble_core::thread::window`] has the rules, without access to the outside. This module adds a tokenizer,
//! scripts that select messages, and a model that writes summaries.

mod summary;
#[cfg(test)]
mod tests;
pub mod tokens;

use std::sync::Arc;

use serde_json::{Value, json};

use self::tokens::TokenCounter;
use super::BoxFuture;
use super::build_error::BuildError;
use super::dialogue::{Window, WindowError, WindowInput, WindowOutput};
use crate::model::{LoadScript, Model, ProfileError, describe};
use crate::sandbox::{Script, ScriptFailure, Variable};
use ensemble_core::thread::Message;
use ensemble_core::thread::window::{Cut, Keep, Limits, Rules, Size, cut, selected};
use ensemble_language::data::Usage;
use ensemble_language::ensemble::{ContextWindow, ModelChoice, Strategy};

/// The context window of one agent.
pub struct AgentWindow {
    rules: Rules,
    how: How,
    counter: Arc<TokenCounter>,
}

enum How {
    /// The rules select the messages.
    Rules,
    /// A script selects the messages.
    Custom { path: String, script: Arc<Script> },
    /// The rules select the messages, and a summary by this model replaces the others.
    Summary(Model),
}

/// The parts from which a context window is built.
pub struct WindowResources<'a> {
    /// The model of the agent.
    pub model: &'a ModelChoice,
    /// The name of the model at its provider.
    pub model_name: &'a str,
    /// Reads scripts.
    pub load: &'a LoadScript,
    /// Connects a model that writes summaries.
    pub connect: &'a dyn Fn(&ModelChoice) -> Result<Model, ProfileError>,
}

/// The input of the window, with the number of tokens of each message.
struct Measured<'a> {
    sending: WindowInput<'a>,
    system: Option<u64>,
    tokens: Vec<u64>,
}

impl AgentWindow {
    /// Compiles the script, or connects the model that writes summaries.
    ///
    /// # Errors
    /// The script or profile does not exist or cannot be used.
    pub fn new(window: &ContextWindow, outside: &WindowResources<'_>) -> Result<Self, BuildError> {
        let turns = |count: std::num::NonZeroU32| usize::try_from(count.get()).unwrap_or(usize::MAX);
        let how = match &window.strategy {
            Strategy::OldestFirst | Strategy::MiddleOut | Strategy::RecentTurnsOnly(_) => How::Rules,
            Strategy::Custom(path) => How::Custom {
                script: compile(path, outside.load)?,
                path: path.clone(),
            },
            Strategy::Summarize(None) => How::Summary((outside.connect)(outside.model)?),
            Strategy::Summarize(Some(profile)) => {
                How::Summary((outside.connect)(&ModelChoice::Profile(profile.clone()))?)
            }
        };
        Ok(Self {
            rules: Rules {
                limits: Limits {
                    max_tokens: window.max_tokens,
                    max_messages: window.max_messages,
                },
                keeps_system: window.preserve_system_message,
                min_recent_turns: turns(window.min_recent_turns),
                keep: match window.strategy {
                    Strategy::MiddleOut => Keep::BothEnds,
                    Strategy::RecentTurnsOnly(count) => Keep::AtMost(turns(count)),
                    Strategy::OldestFirst | Strategy::Custom(_) | Strategy::Summarize(_) => Keep::Latest,
                },
                in_place: Size::default(),
            },
            how,
            counter: Arc::new(TokenCounter::of_model(outside.model_name)),
        })
    }

    /// Does a simulated model write the summaries?
    pub fn is_simulated(&self) -> bool {
        matches!(&self.how, How::Summary(model) if model.is_simulated())
    }

    async fn measured<'a>(&self, mut sending: WindowInput<'a>) -> Measured<'a> {
        let messages = std::mem::take(&mut sending.messages);
        let system = sending.system.map(str::to_owned);
        let counter = Arc::clone(&self.counter);
        let count = move || {
            let tokens = counter.messages(&messages);
            (system.map(|text| counter.text(&text)), tokens, messages)
        };
        let counted = if self.counter.is_estimate() {
            count()
        } else {
            // A tokenizer has work to do, and others speak meanwhile.
            match tokio::task::spawn_blocking(count).await {
                Ok(counted) => counted,
                Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
                Err(_) => std::future::pending().await,
            }
        };
        let (system, tokens, messages) = counted;
        Measured {
            sending: WindowInput { messages, ..sending },
            system,
            tokens,
        }
    }

    async fn fitted(&self, sending: WindowInput<'_>) -> Result<WindowOutput, WindowError> {
        let measured = self.measured(sending).await;
        match &self.how {
            How::Rules => Ok(self.by_rules(measured)),
            How::Custom { path, script } => {
                let fitted = self.by_script(script, measured).await;
                fitted.map_err(|error| WindowError {
                    error: format!("context_window: {path}: {error}"),
                    usage: Usage::default(),
                })
            }
            How::Summary(model) => self.with_summary(model, measured).await,
        }
    }

    fn by_rules(&self, measured: Measured<'_>) -> WindowOutput {
        let cut = measured.cut(&self.rules);
        let dropped = self.note(&measured, &cut.dropped.clone().collect::<Vec<_>>(), !cut.system);
        let mut messages = measured.sending.messages;
        messages.drain(cut.dropped.clone());
        WindowOutput {
            messages,
            drops_system: !cut.system,
            dropped,
            warnings: self.too_much(&cut).into_iter().collect(),
            ..WindowOutput::default()
        }
    }

    async fn by_script(&self, script: &Arc<Script>, measured: Measured<'_>) -> Result<WindowOutput, String> {
        let limits = self.rules.limits;
        if limits != Limits::default() && limits.allow(measured.whole()) {
            return Ok(WindowOutput {
                messages: measured.sending.messages,
                ..WindowOutput::default()
            });
        }
        let json = |value: Value| Variable::Json(Arc::new(value));
        let all: Vec<Value> = measured.sending.messages.iter().map(|message| json!(message)).collect();
        let variables = vec![
            ("messages", json(json!(all))),
            ("tokens", json(json!(measured.tokens))),
            ("system", json(json!(measured.sending.system))),
            ("system_tokens", json(json!(measured.system.unwrap_or_default()))),
            ("max_tokens", json(json!(limits.max_tokens))),
            ("max_messages", json(json!(limits.max_messages))),
            ("min_recent_turns", json(json!(self.rules.min_recent_turns))),
        ];
        let selection = match script.run(variables).await {
            Ok(Value::Array(selection)) => selection,
            Ok(other) => return Err(format!("its last value is not a list of messages but {other}")),
            Err(failure) => return Err(describe(&failure)),
        };
        let kept = selected(&all, &selection, &measured.sending.messages);
        let kept = kept.map_err(|error| format!("its last value is no selection of `messages`: {error}"))?;
        let left_out: Vec<usize> = (0..all.len()).filter(|at| kept.binary_search(at).is_err()).collect();
        let tokens: Vec<u64> = kept.iter().map(|at| measured.tokens[*at]).collect();
        let sent = measured.system_size() + Size::of(&tokens);
        let dropped = self.note(&measured, &left_out, false);
        let mut at = 0..;
        let mut messages = measured.sending.messages;
        messages.retain(|_| at.next().is_some_and(|at| kept.binary_search(&at).is_ok()));
        let too_much = format!(
            "the context window's script keeps {}, and {} are allowed",
            amount(sent),
            most(limits)
        );
        Ok(WindowOutput {
            messages,
            dropped,
            warnings: (!limits.allow(sent)).then_some(too_much).into_iter().collect(),
            ..WindowOutput::default()
        })
    }

    /// The record of dropped messages for the thread; `None` if no message is dropped.
    fn note(&self, measured: &Measured<'_>, left_out: &[usize], drops_system: bool) -> Option<Value> {
        let drops_system = drops_system && measured.system.is_some();
        if left_out.is_empty() && !drops_system {
            return None;
        }
        let tokens: u64 = left_out.iter().map(|at| measured.tokens[*at]).sum();
        let mut note = json!({"messages": left_out.len(), "tokens": tokens});
        if drops_system {
            note["system"] = json!(true);
        }
        if self.counter.is_estimate() {
            note["estimated"] = json!(true);
        }
        Some(note)
    }

    /// The warning if the limits cannot be kept.
    fn too_much(&self, cut: &Cut) -> Option<String> {
        let turns = match self.rules.min_recent_turns {
            1 => "the present turn is".to_owned(),
            count => format!("the {count} latest turns (`min_recent_turns`) are"),
        };
        let instructions = if cut.system {
            ", and so are the instructions"
        } else {
            ""
        };
        (!cut.fits).then(|| {
            let (sent, most) = (amount(cut.sent), most(self.rules.limits));
            format!("the context window is too small: {most} are allowed, {sent} are sent, since {turns} always sent{instructions}")
        })
    }
}

impl Window for AgentWindow {
    fn fit<'a>(&'a self, sending: WindowInput<'a>) -> BoxFuture<'a, Result<WindowOutput, WindowError>> {
        Box::pin(self.fitted(sending))
    }
}

impl Measured<'_> {
    fn cut(&self, rules: &Rules) -> Cut {
        let cut = cut(rules, self.system, &self.sending.messages, &self.tokens);
        Cut {
            // What is not there is not left out.
            system: cut.system || self.system.is_none(),
            ..cut
        }
    }

    fn system_size(&self) -> Size {
        let size = self.system.map(|tokens| Size { tokens, messages: 1 });
        size.unwrap_or_default()
    }

    /// The size of the instructions, if they are always sent.
    fn instructions(&self, rules: &Rules) -> Size {
        match rules.keeps_system {
            true => self.system_size(),
            false => Size::default(),
        }
    }

    fn whole(&self) -> Size {
        self.system_size() + Size::of(&self.tokens)
    }
}

fn compile(path: &str, load: &LoadScript) -> Result<Arc<Script>, BuildError> {
    let failed = |message: String| BuildError::Script {
        path: format!("context_window: {path}"),
        message,
    };
    let text = load(path).map_err(failed)?;
    Script::compile(&text).map_err(|error| failed(describe(&ScriptFailure::Reported(error))))
}

fn amount(size: Size) -> String {
    format!("{} tokens in {} messages", size.tokens, size.messages)
}

fn most(limits: Limits) -> String {
    let tokens = limits.max_tokens.map(|most| format!("{most} tokens"));
    let messages = limits.max_messages.map(|most| format!("{most} messages"));
    let both: Vec<String> = tokens.into_iter().chain(messages).collect();
    format!("at most {}", both.join(" and "))
}

/// An additional message that contains the summary.
fn in_place(text: String) -> Message {
    Message::new(ensemble_core::thread::Role::User, text)
}
