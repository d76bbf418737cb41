//! Models that use the environment variables, the clock and the random numbers of this process.

use super::Dialogue;
use ensemble_language::ensemble::ModelProfile;
use ensemble_language::profiles::ProfileError;
use ensemble_models::{Model, ModelNetwork};

impl Dialogue {
    /// Creates a dialogue with the model of this name: `PROVIDER/MODEL` or `simulated`. Reads the key from the environment.
    ///
    /// For other sources of the key, use `Dialogue::new(Model::from_name(name, &network)?)`.
    ///
    /// ```
    /// use ensemble_agents::agent::chat::Dialogue;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let dialogue = Dialogue::with_model("ollama/llama3.2:1b")?;
    /// # assert!(!dialogue.model().is_simulated());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The name is none, the provider does not exist, or its key is not in the environment.
    pub fn with_model(name: &str) -> Result<Self, ProfileError> {
        Model::from_name(name, &ModelNetwork::from_process()).map(Self::new)
    }

    /// Creates a dialogue with the model of a profile. Ignores the `fallback` of the profile, because no other profile is known.
    ///
    /// # Errors
    /// The provider does not exist, or its key is not in the environment.
    pub fn with_profile(profile: ModelProfile) -> Result<Self, ProfileError> {
        let model = Model::from_profile_with_network(profile, &ModelNetwork::from_process())?;
        model.check_any_profile_has_key()?;
        Ok(Self::new(model))
    }
}
