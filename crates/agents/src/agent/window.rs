//! The context window of an LLM agent: it selects the messages of the thread for each request.
//!
//! [`ensemble_core::thread::window`] has the rules, without access to the outside. This module adds a tokenizer,
//! scripts that select messages, and a model that writes summaries.

mod custom;
mod known_sizes;
mod shorten;
mod summary;
#[cfg(test)]
mod tests;
pub mod tokens;

use std::sync::Arc;

use serde_json::{Value, json};

use self::known_sizes::ThreadSizeCache;
use self::shorten::shorten_results;
use self::tokens::TokenCounter;
use super::BoxFuture;
use super::build_error::RunnerBuildError;
use super::chat::{MessageSelector, UnsentIterations, WindowError, WindowInput, WindowOutput};
use ensemble_core::thread::window::{
    ThreadSize, TrimInput, TrimRules, TurnRetention, WindowLimits, select_messages_to_send,
};
use ensemble_core::thread::{Message, MessageRole, TextTokenizer, Thread, ThreadIteration};
use ensemble_language::ensemble::{ContextWindow, ModelChoice, ModelProfile, WindowStrategy};
use ensemble_language::profiles::ProfileError;
use ensemble_models::{Model, ScriptLoader, describe_script_failure};
use ensemble_scripts::Script;

/// Context window of one agent.
pub struct AgentWindow {
    rules: TrimRules,
    how: MessageSelectionMethod,
    counter: Arc<TokenCounter>,
    /// The sizes of the beginnings of threads.
    known_sizes: ThreadSizeCache,
    /// Has the window no limit of its own? Then its strategy always applies.
    always: bool,
}

/// Method of selecting messages: rules, a script, or summaries by a model.
enum MessageSelectionMethod {
    /// The rules select the messages.
    Rules,
    /// A script selects the messages.
    Custom { path: String, script: Arc<Script> },
    /// The rules select the messages, and a summary by this model replaces the others.
    Summary(Model),
}

/// Model, tokenizer and loaders from which a context window is built.
pub struct AgentWindowOptions<'a> {
    /// The model of the agent.
    pub model: &'a ModelChoice,
    /// The name of the model at its provider.
    pub model_name: &'a str,
    /// The number of tokens of a request if the window does not say it; see [`input_token_limit`].
    pub max_tokens: Option<u64>,
    /// The tokenizer that counts instead of the program's own, if there is one.
    pub tokenizer: Option<Arc<dyn TextTokenizer>>,
    /// Reads scripts.
    pub load: &'a ScriptLoader,
    /// Connects a model that writes summaries.
    pub connect: &'a dyn Fn(&ModelChoice) -> Result<Model, ProfileError>,
}

/// Returns the maximum number of tokens of a request: the `context_window` of the profile, minus its limit for replies.
pub fn input_token_limit(profile: &ModelProfile) -> Option<u64> {
    let window_size = profile.context_window?;
    let reply = profile.max_tokens.filter(|reply| *reply < window_size);
    Some(window_size - reply.unwrap_or_default())
}

/// Returns the window of an agent without `context_window` whose profile has a token limit.
pub fn token_limit_window() -> ContextWindow {
    ContextWindow {
        min_recent_turns: std::num::NonZeroU32::MIN,
        ..ContextWindow::default()
    }
}

/// Input of the window with its token counts.
struct MeasuredInput<'a> {
    sending: WindowInput<'a>,
    system: Option<u64>,
    tokens: Vec<u64>,
}

impl AgentWindow {
    /// Compiles the script of the window, or connects the model that writes summaries.
    ///
    /// # Errors
    /// The script or profile does not exist or cannot be used.
    pub fn new(window: &ContextWindow, outside: &AgentWindowOptions<'_>) -> Result<Self, RunnerBuildError> {
        let always = window.max_tokens.is_none() && window.max_messages.is_none();
        let turns = |count: std::num::NonZeroU32| usize::try_from(count.get()).unwrap_or(usize::MAX);
        let selection_method = match &window.strategy {
            WindowStrategy::OldestFirst | WindowStrategy::MiddleOut | WindowStrategy::RecentTurnsOnly(_) => {
                MessageSelectionMethod::Rules
            }
            WindowStrategy::Custom(path) => MessageSelectionMethod::Custom {
                script: load_script(path, outside.load)?,
                path: path.clone(),
            },
            WindowStrategy::Summarize(None) => MessageSelectionMethod::Summary((outside.connect)(outside.model)?),
            WindowStrategy::Summarize(Some(profile)) => {
                MessageSelectionMethod::Summary((outside.connect)(&ModelChoice::Profile(profile.clone()))?)
            }
        };
        Ok(Self {
            rules: TrimRules {
                limits: WindowLimits {
                    max_tokens: window.max_tokens.or(outside.max_tokens),
                    max_messages: window.max_messages,
                },
                keeps_system: window.preserve_system_message,
                min_recent_turns: turns(window.min_recent_turns),
                keep: match window.strategy {
                    WindowStrategy::MiddleOut => TurnRetention::BothEnds,
                    WindowStrategy::RecentTurnsOnly(count) if always => TurnRetention::Always(turns(count)),
                    WindowStrategy::RecentTurnsOnly(count) => TurnRetention::AtMost(turns(count)),
                    WindowStrategy::OldestFirst | WindowStrategy::Custom(_) | WindowStrategy::Summarize(_) => {
                        TurnRetention::Latest
                    }
                },
                in_place: ThreadSize::default(),
            },
            how: selection_method,
            always,
            known_sizes: ThreadSizeCache::default(),
            counter: Arc::new(match &outside.tokenizer {
                Some(tokenizer) => TokenCounter::with_tokenizer(Arc::clone(tokenizer)),
                None => TokenCounter::for_model(outside.model_name),
            }),
        })
    }

    /// Returns whether a simulated model writes the summaries.
    pub fn has_simulated_summarizer(&self) -> bool {
        matches!(&self.how, MessageSelectionMethod::Summary(model) if model.is_simulated())
    }

    /// Counts the tokens of the system prompt and of each message.
    async fn measure_input<'a>(&self, mut sending: WindowInput<'a>) -> MeasuredInput<'a> {
        let messages = std::mem::take(&mut sending.messages);
        let system = sending.system.map(str::to_owned);
        let count = move |counter: &TokenCounter| {
            let tokens = counter.count_each_message(&messages);
            (system.map(|text| counter.count_text(&text)), tokens, messages)
        };
        let (system, tokens, messages) = self.count_on_worker(count).await;
        MeasuredInput {
            sending: WindowInput { messages, ..sending },
            system,
            tokens,
        }
    }

    /// Runs the counting function. Uses a worker thread if a tokenizer counts, because that is slow.
    async fn count_on_worker<T: Send + 'static>(&self, count: impl FnOnce(&TokenCounter) -> T + Send + 'static) -> T {
        if self.counter.is_estimate() {
            return count(&self.counter);
        }
        let counter = Arc::clone(&self.counter);
        match tokio::task::spawn_blocking(move || count(&counter)).await {
            Ok(counted) => counted,
            Err(join_error) if join_error.is_panic() => std::panic::resume_unwind(join_error.into_panic()),
            Err(_) => std::future::pending().await,
        }
    }

    /// Selects the messages by the method of the window.
    async fn select_messages_to_fit(&self, sending: WindowInput<'_>) -> Result<WindowOutput, WindowError> {
        let measured = self.measure_input(sending).await;
        match &self.how {
            MessageSelectionMethod::Rules => Ok(self.select_by_rules(measured)),
            MessageSelectionMethod::Custom { path, script } => {
                let fitted = self.select_by_script((path, script), measured).await;
                fitted.map_err(|error| WindowError {
                    error: format!("context_window: {error}"),
                })
            }
            MessageSelectionMethod::Summary(model) => self.select_with_summary(model, measured).await,
        }
    }

    /// Drops the oldest messages by the rules, and builds the output.
    fn select_by_rules(&self, measured: MeasuredInput<'_>) -> WindowOutput {
        let cut = select_messages_to_send(&self.rules, &measured.to_thread());
        let dropped = self.dropped_note(&measured, &cut.dropped, !cut.system);
        let mut at = 0..;
        let mut messages = measured.sending.messages;
        messages.retain(|_| at.next().is_some_and(|at| cut.dropped.binary_search(&at).is_err()));
        let sent_messages = SentMessages {
            messages,
            size: cut.sent,
            system: cut.system,
        };
        self.build_output(sent_messages, dropped, measured.system.is_some())
    }

    /// Builds the output. If it is too large, shortens tool results, or adds a warning.
    fn build_output(&self, sent: SentMessages, dropped: Option<Value>, has_system: bool) -> WindowOutput {
        let limits = self.rules.limits;
        let (mut messages, mut size) = (sent.messages, sent.size);
        let mut warnings = Vec::new();
        let mut dropped = dropped;
        if let Some(max_tokens) = limits.max_tokens.filter(|most| size.tokens > *most) {
            let shortened = shorten_results(&self.counter, &mut messages, size.tokens - max_tokens);
            size.tokens = size.tokens.saturating_sub(shortened.tokens);
            if !shortened.tools.is_empty() {
                let note = dropped.get_or_insert_with(|| self.empty_dropped_note());
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
        if !limits.allows_size(size) {
            warnings.push(self.too_large_warning(size, sent.system));
        }
        WindowOutput {
            messages,
            drops_system: has_system && !sent.system,
            dropped,
            warnings,
        }
    }

    /// Creates the note about dropped messages for the thread. Returns `None` if no message is dropped.
    fn dropped_note(&self, measured: &MeasuredInput<'_>, left_out: &[usize], drops_system: bool) -> Option<Value> {
        let drops_system = drops_system && measured.system.is_some();
        let unsent = measured.sending.unsent;
        if left_out.is_empty() && !drops_system && unsent.iterations == 0 {
            return None;
        }
        let size = unsent.size + measured.to_thread().sum_sizes(left_out.iter().copied());
        Some(self.size_note(size, drops_system))
    }

    /// Creates a note without dropped messages.
    fn empty_dropped_note(&self) -> Value {
        self.size_note(ThreadSize::default(), false)
    }

    /// Creates a note with the number of messages and tokens, and whether the tokens are estimated.
    fn size_note(&self, size: ThreadSize, drops_system: bool) -> Value {
        let mut note = json!({"messages": size.messages, "tokens": size.tokens});
        if drops_system {
            note["system"] = json!(true);
        }
        if self.counter.is_estimate() {
            note["estimated"] = json!(true);
        }
        note
    }

    /// Renders the warning that the limits cannot be met.
    fn too_large_warning(&self, sent: ThreadSize, system: bool) -> String {
        let turns = match self.rules.min_recent_turns {
            1 => "the task and the latest messages are".to_owned(),
            count => format!("the {count} latest turns (`min_recent_turns`) are"),
        };
        let instructions = if system { ", and so are the instructions" } else { "" };
        let (sent, most) = (format_thread_size(sent), format_limits(self.rules.limits));
        format!(
            "the context window is too small: {most} are allowed, but {sent} are sent, because {turns} always sent{instructions}"
        )
    }
}

/// Messages to send, with their size.
struct SentMessages {
    messages: Vec<Message>,
    /// Its size, including the instructions.
    size: ThreadSize,
    /// Are the instructions sent?
    system: bool,
}

impl MessageSelector for AgentWindow {
    fn select_messages<'a>(&'a self, sending: WindowInput<'a>) -> BoxFuture<'a, Result<WindowOutput, WindowError>> {
        Box::pin(self.select_messages_to_fit(sending))
    }

    fn find_unsent_iterations<'a>(&'a self, thread: &'a Thread, earlier: usize) -> BoxFuture<'a, UnsentIterations> {
        Box::pin(async move {
            let Some(iterations) = self.count_unsent_iterations(thread).filter(|count| *count > 0) else {
                return UnsentIterations::default();
            };
            if !self.counter.is_estimate() {
                // The counter keeps the counts, so nothing is counted below.
                let messages = self.known_sizes.list_unmeasured_messages(thread, iterations);
                self.count_on_worker(move |counter| counter.count_each_message(&messages))
                    .await;
            }
            let unsent = self.known_sizes.measure_beginning(thread, iterations, &self.counter);
            // The task and what follows it are always examined.
            match unsent.messages <= earlier {
                true => unsent,
                false => UnsentIterations::default(),
            }
        })
    }

    fn min_recent_turns(&self) -> usize {
        self.rules.min_recent_turns
    }
}

impl AgentWindow {
    /// Counts the oldest iterations that the rules drop from every request. Returns `None` if older messages can still be sent.
    fn count_unsent_iterations(&self, thread: &Thread) -> Option<usize> {
        let is_latest = matches!(self.how, MessageSelectionMethod::Rules) && self.rules.keep != TurnRetention::BothEnds;
        // Instructions that can be left out are left out before the oldest turn.
        if !is_latest || !self.rules.keeps_system {
            return None;
        }
        let max_turns = match self.rules.keep {
            TurnRetention::Always(count) => Some(count.max(self.rules.min_recent_turns)),
            _ => None,
        };
        let limits = self.rules.limits;
        let (mut messages, mut tokens, mut turns) = (0_u64, 0_u64, 0);
        let iterations = thread.iterations();
        let latest = iterations.iter().enumerate().rev();
        for (at, iteration) in latest {
            let is_full = limits.max_messages.is_some_and(|most| messages > most)
                || limits.max_tokens.is_some_and(|most| tokens > most)
                || max_turns.is_some_and(|most| turns > most);
            if is_full && turns > self.rules.min_recent_turns && is_turn_start(iterations, at + 1) {
                return Some(at + 1);
            }
            messages += (iteration.messages.len() + iteration.tool_calls.len()) as u64;
            tokens += self.min_iteration_tokens(iteration);
            turns += usize::from(is_turn_start(iterations, at));
        }
        Some(0)
    }

    /// Returns a lower bound for the tokens of the iteration.
    fn min_iteration_tokens(&self, iteration: &ThreadIteration) -> u64 {
        match self.counter.is_estimate() {
            true => self
                .counter
                .count_each_message(&iteration.to_messages())
                .into_iter()
                .sum(),
            false => self.counter.min_message_tokens() * iteration.messages.len() as u64,
        }
    }
}

/// Returns whether the iteration at this index starts with a user message.
fn is_turn_start(iterations: &[ThreadIteration], at: usize) -> bool {
    let first = iterations.get(at).and_then(|iteration| iteration.messages.first());
    first.is_some_and(|first| first.role == MessageRole::User)
}

impl MeasuredInput<'_> {
    /// Wraps the messages and their token counts for trimming.
    fn to_thread(&self) -> TrimInput<'_> {
        TrimInput {
            system: self.system,
            messages: &self.sending.messages,
            tokens: &self.tokens,
            task: self.sending.task,
        }
    }

    /// Returns the size of the system prompt if the rules always keep it, otherwise an empty size.
    fn kept_system_size(&self, rules: &TrimRules) -> ThreadSize {
        match rules.keeps_system {
            true => self.to_thread().system_prompt_size(),
            false => ThreadSize::default(),
        }
    }

    /// Returns the size of the system prompt and all messages.
    fn total_size(&self) -> ThreadSize {
        let thread = self.to_thread();
        thread.system_prompt_size() + thread.sum_sizes(0..self.tokens.len())
    }
}

/// Loads and compiles the script of the window.
fn load_script(path: &str, load: &ScriptLoader) -> Result<Arc<Script>, RunnerBuildError> {
    let failed = |message: String| RunnerBuildError::Script {
        path: format!("context_window: {path}"),
        message,
    };
    let text = load(path).map_err(failed)?;
    Script::compile(&text)
        .map_err(|error| RunnerBuildError::from_script_error(&format!("context_window: {path}"), error))
}

/// Formats the tokens and messages of a size.
fn format_thread_size(size: ThreadSize) -> String {
    format!("{} tokens in {} messages", size.tokens, size.messages)
}

/// Formats the limits as "at most N tokens and N messages".
fn format_limits(limits: WindowLimits) -> String {
    let tokens = limits.max_tokens.map(|most| format!("{most} tokens"));
    let messages = limits.max_messages.map(|most| format!("{most} messages"));
    let limit_texts: Vec<String> = tokens.into_iter().chain(messages).collect();
    format!("at most {}", limit_texts.join(" and "))
}

/// Creates the user message that contains the summary.
fn summary_message(text: String) -> Message {
    Message::new(ensemble_core::thread::MessageRole::User, text)
}
