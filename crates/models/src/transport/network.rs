//! The access of providers to the outside: environment variables, the time, random numbers, and a shared HTTP client.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::OnceCell;

use crate::policy::pace::ProviderPace;
use crate::policy::quirks::ModelQuirks;
use crate::transport::http_client::build_http_client;
use ensemble_core::secrets::Secrets;
use ensemble_language::ensemble::ModelProfile;

/// Function that reads an environment variable.
pub type EnvironmentLookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// The maximum number of changes of paces that are kept for a front end.
const MAX_PACE_CHANGES: usize = 100;

/// Access to providers: environment, clock and HTTP client. Clones share one client, which is built at its first use.
#[derive(Clone)]
pub struct ModelNetwork(Arc<SharedNetworkState>);

/// Shared state of a network: the client, and the facts learned about each model.
struct SharedNetworkState {
    environment: Box<EnvironmentLookup>,
    now: Box<dyn Fn() -> DateTime<Utc> + Send + Sync>,
    random_number: Box<dyn Fn() -> f64 + Send + Sync>,
    secrets: Secrets,
    client: OnceCell<Result<reqwest::Client, String>>,
    /// By address and model.
    quirks: Mutex<HashMap<String, ModelQuirks>>,
    /// By name and target of the profile.
    paces: Mutex<HashMap<String, Arc<ProviderPace>>>,
    /// By address and model, the estimated tokens of the largest request that is known to fit.
    token_limits: Mutex<HashMap<String, u64>>,
    /// The latest changes of paces that [`ModelNetwork::take_pace_changes`] has not returned.
    pace_changes: Mutex<VecDeque<String>>,
}

impl ModelNetwork {
    /// Creates a network. `environment` supplies keys at each request, `now` the time, and `chance` numbers from 0 to 1 for random pauses.
    pub fn new(
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        now: impl Fn() -> DateTime<Utc> + Send + Sync + 'static,
        chance: impl Fn() -> f64 + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(SharedNetworkState {
            environment: Box::new(environment),
            now: Box::new(now),
            random_number: Box::new(chance),
            secrets: Secrets::default(),
            client: OnceCell::new(),
            quirks: Mutex::default(),
            paces: Mutex::default(),
            token_limits: Mutex::default(),
            pace_changes: Mutex::default(),
        }))
    }

    /// Returns the secrets that no reply can contain: keys, values of requests, and values that the owner has added.
    pub fn secrets(&self) -> &Secrets {
        &self.0.secrets
    }

    /// Reads the environment variable. Returns `None` if it is blank.
    pub(crate) fn read_variable(&self, name: &str) -> Option<String> {
        let value = (self.0.environment)(name)?;
        Some(value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    pub(crate) fn current_time(&self) -> DateTime<Utc> {
        (self.0.now)()
    }

    /// Changes the pause randomly by up to a quarter, so that many clients do not retry at the same time.
    pub(crate) fn with_jitter(&self, pause: Duration) -> Duration {
        pause.mul_f64(0.75 + 0.5 * (self.0.random_number)().clamp(0.0, 1.0))
    }

    /// Locks the learned quirks of all models.
    pub(crate) fn lock_quirks(&self) -> MutexGuard<'_, HashMap<String, ModelQuirks>> {
        self.0.quirks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether this model refused an output schema before.
    pub(crate) fn refuses_schema(&self, profile: &ModelProfile) -> bool {
        let quirks = self.lock_quirks();
        quirks
            .get(&model_and_address_key(profile))
            .is_some_and(|known| known.schema_in_words)
    }

    /// Records that the model refused an output schema.
    pub(crate) fn record_schema_refusal(&self, profile: &ModelProfile) {
        self.lock_quirks()
            .entry(model_and_address_key(profile))
            .or_default()
            .schema_in_words = true;
    }

    /// Returns whether this model refused all files before.
    pub(crate) fn refuses_files(&self, profile: &ModelProfile) -> bool {
        let quirks = self.lock_quirks();
        quirks
            .get(&model_and_address_key(profile))
            .is_some_and(|known| known.files_in_words)
    }

    /// Records that the model accepts no files.
    pub(crate) fn record_files_refusal(&self, profile: &ModelProfile) {
        self.lock_quirks()
            .entry(model_and_address_key(profile))
            .or_default()
            .files_in_words = true;
    }

    /// Returns the limit of estimated request tokens for this model that an earlier refusal has shown.
    pub(crate) fn learned_token_limit(&self, profile: &ModelProfile) -> Option<u64> {
        self.lock_token_limits().get(&model_and_address_key(profile)).copied()
    }

    /// Records the estimated tokens of an accepted request, after a longer one was refused.
    pub(crate) fn record_accepted_tokens(&self, profile: &ModelProfile, accepted: u64) {
        self.lock_token_limits()
            .insert(model_and_address_key(profile), accepted);
    }

    /// Locks the token limits, also after a panic in another thread.
    fn lock_token_limits(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.0.token_limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the start or the end of a slowdown, for front ends.
    pub(crate) fn record_pace_change(&self, text: &str) {
        let mut changes = self.lock_pace_changes();
        if changes.len() == MAX_PACE_CHANGES {
            changes.pop_front();
        }
        changes.push_back(text.to_owned());
    }

    /// Takes the latest starts and ends of slowdowns, for front ends with many runs.
    pub fn take_pace_changes(&self) -> Vec<String> {
        std::mem::take(&mut *self.lock_pace_changes()).into()
    }

    /// Locks the changes, also after a panic in another thread.
    fn lock_pace_changes(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.pace_changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the shared pace of all requests with this profile.
    pub(crate) fn shared_pace_for_profile(&self, name: &str, profile: &ModelProfile) -> Arc<ProviderPace> {
        let limits = profile.rate_limit.unwrap_or_default();
        let key = format!("{name} {} {limits:?}", model_and_address_key(profile));
        let mut paces = self.0.paces.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(paces.entry(key).or_insert_with(|| Arc::new(ProviderPace::new(limits))))
    }

    /// Returns the shared HTTP client. Builds it on another thread at the first call, because reading certificates takes time.
    ///
    /// # Errors
    /// It cannot be built.
    pub async fn get_or_build_client(&self) -> Result<&reqwest::Client, String> {
        let build = || async {
            let built = tokio::task::spawn_blocking(build_http_client).await;
            built.unwrap_or_else(|error| Err(error.to_string()))
        };
        self.0.client.get_or_init(build).await.as_ref().map_err(Clone::clone)
    }
}

/// Returns the key of the model and address of a profile.
fn model_and_address_key(profile: &ModelProfile) -> String {
    format!("{} {} {:?}", profile.provider, profile.model, profile.base_url)
}

/// Without environment variables, so there are no keys. Pauses are not random.
impl Default for ModelNetwork {
    fn default() -> Self {
        Self::new(|_| None, || DateTime::UNIX_EPOCH, || 0.5)
    }
}

/// Does not show the environment variables.
impl fmt::Debug for ModelNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Network")
    }
}
