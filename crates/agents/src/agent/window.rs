//! The context window of an LLM agent: it selects the messages of the thread for each request.
//!
//! [`ensemble_core::thread::window`] has the rules, without access to the outside. This module adds a tokenizer,
//! scripts that select messages, and a model that writes summaries.

mod custom;
mod shorten;
mod summary;
#[cfg(test)]
mod tests;
pub mod tokens;

use std::sync::Arc;

use serde_json::{Value, json};

use self::shorten::shortened;
use self::tokens::TokenCounter;
use super::BoxFuture;
use super::build_error::BuildError;
use super::chat::{Window, WindowError, WindowInput, WindowOutput};
use ensemble_core::thread::Message;
use ensemble_core::thread::window::{Keep, Limits, Rules, Size, Whole, cut};
use ensemble_language::ensemble::{ContextWindow, ModelChoice, Profile, Strategy};
use ensemble_language::profiles::ProfileError;
use ensemble_models::{LoadScript, Model, describe};
use ensemble_scripts::{Script, ScriptFailure};

/// The context window of one agent.
pub struct AgentWindow {
    rules: Rules,
    how: How,
    counter: Arc<TokenCounter>,
    /// Has the window no limit of its own? Then its strategy always applies.
    always: bool,
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
    /// The number of tokens of a request if the window does not say it; see [`room`].
    pub max_tokens: Option<u64>,
    /// Reads scripts.
    pub load: &'a LoadScript,
    /// Connects a model that writes summaries.
    pub connect: &'a dyn Fn(&ModelChoice) -> Result<Model, ProfileError>,
}

/// The number of tokens that a request to the model of this profile may have: its `context_window`, less the tokens of
/// the reply if the profile limits them.
pub fn room(profile: &Profile) -> Option<u64> {
    let whole = profile.context_window?;
    let reply = profile.max_tokens.filter(|reply| *reply < whole);
    Some(whole - reply.unwrap_or_default())
}

/// The window of an agent without `context_window` whose profile says how much the model can process.
pub fn of_model() -> ContextWindow {
    ContextWindow {
        min_recent_turns: std::num::NonZeroU32::MIN,
        ..ContextWindow::default()
    }
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
        let always = window.max_tokens.is_none() && window.max_messages.is_none();
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
                    max_tokens: window.max_tokens.or(outside.max_tokens),
                    max_messages: window.max_messages,
                },
                keeps_system: window.preserve_system_message,
                min_recent_turns: turns(window.min_recent_turns),
                keep: match window.strategy {
                    Strategy::MiddleOut => Keep::BothEnds,
                    Strategy::RecentTurnsOnly(count) if always => Keep::Always(turns(count)),
                    Strategy::RecentTurnsOnly(count) => Keep::AtMost(turns(count)),
                    Strategy::OldestFirst | Strategy::Custom(_) | Strategy::Summarize(_) => Keep::Latest,
                },
                in_place: Size::default(),
            },
            how,
            always,
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
                })
            }
            How::Summary(model) => self.with_summary(model, measured).await,
        }
    }

    fn by_rules(&self, measured: Measured<'_>) -> WindowOutput {
        let cut = cut(&self.rules, &measured.whole());
        let dropped = self.note(&measured, &cut.dropped, !cut.system);
        let mut at = 0..;
        let mut messages = measured.sending.messages;
        messages.retain(|_| at.next().is_some_and(|at| cut.dropped.binary_search(&at).is_err()));
        let sent = Sent {
            messages,
            size: cut.sent,
            system: cut.system,
        };
        self.output(sent, dropped, measured.system.is_some())
    }

    /// The output; if it is too large, with shortened tool results, or with a warning.
    fn output(&self, sent: Sent, dropped: Option<Value>, has_system: bool) -> WindowOutput {
        let limits = self.rules.limits;
        let (mut messages, mut size) = (sent.messages, sent.size);
        let mut warnings = Vec::new();
        let mut dropped = dropped;
        if let Some(most) = limits.max_tokens.filter(|most| size.tokens > *most) {
            let shortened = shortened(&self.counter, &mut messages, size.tokens - most);
            size.tokens = size.tokens.saturating_sub(shortened.tokens);
            if !shortened.tools.is_empty() {
                let note = dropped.get_or_insert_with(|| self.nothing_dropped());
                note["shortened"] = json!(shortened.tools.len());
                note["shortened_tokens"] = json!(shortened.tokens);
            }
            let tell = |tool: &String| {
                format!(
                    "the context window is too small for a result of the tool `{tool}`: only its beginning and its end are sent"
                )
            };
            warnings.extend(shortened.tools.iter().map(tell));
            warnings.dedup();
        }
        if !limits.allow(size) {
            warnings.push(self.too_much(size, sent.system));
        }
        WindowOutput {
            messages,
            drops_system: has_system && !sent.system,
            dropped,
            warnings,
            ..WindowOutput::default()
        }
    }

    /// The record of dropped messages for the thread; `None` if no message is dropped.
    fn note(&self, measured: &Measured<'_>, left_out: &[usize], drops_system: bool) -> Option<Value> {
        let drops_system = drops_system && measured.system.is_some();
        if left_out.is_empty() && !drops_system {
            return None;
        }
        let size = measured.whole().size(left_out.iter().copied());
        Some(self.note_of(size, drops_system))
    }

    fn nothing_dropped(&self) -> Value {
        self.note_of(Size::default(), false)
    }

    fn note_of(&self, size: Size, drops_system: bool) -> Value {
        let mut note = json!({"messages": size.messages, "tokens": size.tokens});
        if drops_system {
            note["system"] = json!(true);
        }
        if self.counter.is_estimate() {
            note["estimated"] = json!(true);
        }
        note
    }

    /// The warning if the limits cannot be kept.
    fn too_much(&self, sent: Size, system: bool) -> String {
        let turns = match self.rules.min_recent_turns {
            1 => "the task and the latest messages are".to_owned(),
            count => format!("the {count} latest turns (`min_recent_turns`) are"),
        };
        let instructions = if system { ", and so are the instructions" } else { "" };
        let (sent, most) = (amount(sent), most(self.rules.limits));
        format!(
            "the context window is too small: {most} are allowed, {sent} are sent, since {turns} always sent{instructions}"
        )
    }
}

/// The messages of a request.
struct Sent {
    messages: Vec<Message>,
    /// Its size, including the instructions.
    size: Size,
    /// Are the instructions sent?
    system: bool,
}

impl Window for AgentWindow {
    fn fit<'a>(&'a self, sending: WindowInput<'a>) -> BoxFuture<'a, Result<WindowOutput, WindowError>> {
        Box::pin(self.fitted(sending))
    }

    fn min_recent_turns(&self) -> usize {
        self.rules.min_recent_turns
    }
}

impl Measured<'_> {
    fn whole(&self) -> Whole<'_> {
        Whole {
            system: self.system,
            messages: &self.sending.messages,
            tokens: &self.tokens,
            task: self.sending.task,
        }
    }

    /// The size of the instructions, if they are always sent.
    fn instructions(&self, rules: &Rules) -> Size {
        match rules.keeps_system {
            true => self.whole().system_size(),
            false => Size::default(),
        }
    }

    /// The size of everything.
    fn size(&self) -> Size {
        let whole = self.whole();
        whole.system_size() + whole.size(0..self.tokens.len())
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
