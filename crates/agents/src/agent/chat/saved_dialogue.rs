//! The options of a dialogue in its threads, from which another program continues a saved thread.

use serde_json::{Map, Value, json};

use super::Dialogue;
use ensemble_core::thread::Thread;
use ensemble_language::ensemble::ModelProfile;
use ensemble_language::profiles::ProfileError;
use ensemble_models::{Model, ModelNetwork};

impl Dialogue {
    /// Converts the options that a thread stores to JSON: the model, its parameters and the maximum number of requests.
    ///
    /// Leaves out addresses, key names, headers, tools and context windows.
    pub(super) fn stored_options_to_json(&self) -> Value {
        let mut options = Map::new();
        if let Some(link) = self.model.profiles().next() {
            let profile = &link.profile;
            let model = match profile.model.is_empty() {
                true => profile.provider.to_string(),
                false => format!("{}/{}", profile.provider, profile.model),
            };
            let stated = [
                ("model", Some(json!(model))),
                ("temperature", profile.temperature.map(|number| json!(number))),
                ("top_p", profile.top_p.map(|number| json!(number))),
                ("max_tokens", profile.max_tokens.map(|number| json!(number))),
                ("seed", profile.seed.map(|number| json!(number))),
            ];
            options.extend(
                stated
                    .into_iter()
                    .filter_map(|(key, value)| Some((key.to_owned(), value?))),
            );
        }
        options.insert("max_iterations".to_owned(), json!(self.max_iterations));
        Value::Object(options)
    }

    /// Creates the dialogue with which a saved thread continues: with the model, the parameters and the instructions that
    /// the thread states. A thread contains no tools, context window, address or key: the caller adds the tools and the
    /// window, and the model is asked at the usual address of its provider, with the provider's usual key in `network`.
    ///
    /// ```
    /// use ensemble_agents::agent::chat::{Dialogue, Thread};
    /// use ensemble_models::ModelNetwork;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let dialogue = Dialogue::with_simulated_replies(["Sunny."]).with_system("You know the weather.");
    /// let saved = dialogue.say(Thread::default(), "Paris today?").await?.thread.to_json();
    ///
    /// // Another program, next week:
    /// let thread = Thread::from_json(&saved)?;
    /// let dialogue = Dialogue::from_thread(&thread, &ModelNetwork::from_process())?;
    /// let tomorrow = dialogue.say(thread, "And tomorrow?").await?;
    /// assert_eq!(tomorrow.thread.instructions(), Some("You know the weather."));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The thread states no model, or a model that does not exist, or the key of its provider is missing.
    pub fn from_thread(thread: &Thread, network: &ModelNetwork) -> Result<Self, ProfileError> {
        let options = thread.options().unwrap_or(&Value::Null);
        let name = options["model"].as_str().unwrap_or_default();
        let named_model = Model::from_name(name, network)?;
        let named_profile = named_model
            .profiles()
            .next()
            .map(|link| ModelProfile::clone(&link.profile));
        let model = Model::from_profile_with_network(
            ModelProfile {
                temperature: options["temperature"].as_f64(),
                top_p: options["top_p"].as_f64(),
                max_tokens: options["max_tokens"].as_u64(),
                seed: options["seed"].as_i64(),
                ..named_profile.unwrap_or_default()
            },
            network,
        )?;
        let dialogue = Self {
            system: thread.instructions().map(str::to_owned),
            ..Self::new(model)
        };
        let max_iterations = options["max_iterations"].as_u64();
        Ok(match max_iterations.and_then(|number| u32::try_from(number).ok()) {
            Some(max_iterations) => dialogue.with_max_iterations(max_iterations),
            None => dialogue,
        })
    }
}
