//! A dialogue with a context window.

use std::sync::Arc;

use super::{Dialogue, MessageSelector, TextTokenizer};
use crate::agent::build_error::RunnerBuildError;
use crate::agent::window::{AgentWindow, AgentWindowOptions, input_token_limit};
use ensemble_language::ensemble::{ContextWindow, ModelChoice};
use ensemble_models::Model;

impl Dialogue {
    /// Sets a context window, which selects the messages of a long thread to send. The thread itself stays complete.
    ///
    /// `WindowStrategy::Summarize` asks the model of this dialogue or the named model (`PROVIDER/MODEL`). Scripts are not supported;
    /// [`with_window`](Self::with_window) accepts other implementations of [`MessageSelector`].
    ///
    /// ```
    /// use ensemble_agents::agent::chat::{ContextWindow, Dialogue, WindowStrategy, Thread};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let dialogue = Dialogue::with_simulated_replies(["One.", "Two.", "Three."]).with_context_window(ContextWindow {
    ///     max_messages: Some(3),
    ///     min_recent_turns: 1.try_into()?,
    ///     strategy: WindowStrategy::OldestFirst,
    ///     ..ContextWindow::default()
    /// })?;
    /// let all = dialogue.say_all(Thread::default(), ["1?", "2?", "3?"]).await?;
    /// let last = &all[2].thread;
    /// assert_eq!(last.to_messages().len(), 6, "the thread is whole");
    /// assert_eq!(last.iterations()[2].metadata["dropped"]["messages"], 2, "the first question and its answer");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The strategy needs a script or a model that cannot be used.
    pub fn with_context_window(self, window: ContextWindow) -> Result<Self, RunnerBuildError> {
        self.with_window_and_tokenizer(window, None)
    }

    /// Sets a context window whose tokens are counted by a tokenizer of the caller.
    ///
    /// ```
    /// use ensemble_agents::agent::chat::{ContextWindow, Dialogue, Thread};
    /// use std::sync::Arc;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let words = Arc::new(|text: &str| text.split_whitespace().count() as u64);
    /// let window = ContextWindow { max_tokens: Some(5), min_recent_turns: 1.try_into()?, ..ContextWindow::default() };
    /// let dialogue = Dialogue::with_simulated_replies(["One two three.", "Four."]).with_tokenized_window(window, words)?;
    /// let all = dialogue.say_all(Thread::default(), ["And now?", "And then?"]).await?;
    /// assert_eq!(all[1].thread.iterations()[1].metadata["dropped"]["messages"], 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The strategy needs a script or a model that cannot be used.
    pub fn with_tokenized_window(
        self,
        window: ContextWindow,
        tokenizer: Arc<dyn TextTokenizer>,
    ) -> Result<Self, RunnerBuildError> {
        self.with_window_and_tokenizer(window, Some(tokenizer))
    }

    /// Builds the window with the model and the token limit of this dialogue.
    fn with_window_and_tokenizer(
        self,
        window: ContextWindow,
        tokenizer: Option<Arc<dyn TextTokenizer>>,
    ) -> Result<Self, RunnerBuildError> {
        let own_model = ModelChoice::Profile("".into());
        let model = self.model.profiles().next().map(|link| Arc::clone(&link.profile.model));
        let outside = AgentWindowOptions {
            tokenizer,
            model: &own_model,
            model_name: model.as_deref().unwrap_or_default(),
            max_tokens: self
                .model
                .profiles()
                .next()
                .and_then(|link| input_token_limit(&link.profile)),
            load: &|_| Err("a dialogue without an ensemble has no scripts; implement `Window`".to_owned()),
            connect: &|choice| match choice {
                ModelChoice::Profile(name) if *choice != own_model => Model::from_name(name, self.model.network()),
                _ => Ok(self.model.clone()),
            },
        };
        let window = AgentWindow::new(&window, &outside)?;
        Ok(self.with_window(Some(Arc::new(window))))
    }

    /// Sets a custom implementation of a context window. `None` removes the window.
    #[must_use]
    pub fn with_window(self, window: Option<Arc<dyn MessageSelector>>) -> Self {
        Self { window, ..self }
    }
}
