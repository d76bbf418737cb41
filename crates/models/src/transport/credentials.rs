//! The secrets of a request: reading them from the environment, and removing them from all output.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::{ModelNetwork, ReplyPiece, ReplyPieceCallback};
use ensemble_core::secrets::{RedactingStream, Secrets};
use ensemble_language::ensemble::{ConfiguredHeader, HttpProvider, ModelProfile};

/// Key and headers for the requests of a profile.
pub(crate) struct ProviderCredentials {
    pub(crate) key: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
    secrets: Secrets,
    /// Does a header have a value of the environment?
    has_values: bool,
}

/// Returns the environment variable of the key. Returns `None` if no key is sent.
///
/// The variable of the provider is used only for the address of the provider, not for another `base_url`.
pub fn api_key_variable<'p>(profile: &'p ModelProfile, provider: &HttpProvider) -> Option<&'p str> {
    let provider_variable = provider.api_key_env.filter(|_| profile.base_url.is_none());
    profile.api_key_env.as_deref().or(provider_variable)
}

impl ProviderCredentials {
    /// Reads the credentials from the environment, and registers them as secrets. The error names the missing variable.
    pub(crate) fn from_environment(
        profile: &ModelProfile,
        provider: &HttpProvider,
        network: &ModelNetwork,
    ) -> Result<Self, String> {
        let secret = |name: &str, what: &str| {
            let value = network.read_variable(name);
            let value = value.ok_or_else(|| format!("{what}: set the environment variable {name}"))?;
            network.secrets().add_secret(&value);
            Ok::<_, String>(value)
        };
        let key = api_key_variable(profile, provider)
            .map(|name| secret(name, &format!("there is no key for {}", provider.name)))
            .transpose()?;
        let header = |(name, text): &(String, ConfiguredHeader)| {
            let value = match text {
                ConfiguredHeader::Text(text) => text.clone(),
                ConfiguredHeader::Env(variable) => secret(variable, &format!("the header `{name}` has no value"))?,
            };
            Ok::<_, String>((name.clone(), value))
        };
        let headers = profile.headers.iter().map(header).collect::<Result<_, _>>()?;
        let is_value = |(_, text): &(String, ConfiguredHeader)| matches!(text, ConfiguredHeader::Env(_));
        Ok(Self {
            key,
            headers,
            secrets: network.secrets().clone(),
            has_values: profile.headers.iter().any(is_value),
        })
    }

    /// Returns whether requests contain a key or a value of the environment.
    pub(crate) fn contain_secrets(&self) -> bool {
        self.key.is_some() || self.has_values
    }

    /// Redacts all secrets in the text.
    pub(crate) fn redact(&self, text: String) -> String {
        self.secrets.redact(text).into_owned()
    }

    /// Redacts all secrets in the text, also if secrets are cut off at its start or end.
    pub(crate) fn redact_fragment(&self, text: &str) -> String {
        self.secrets.redact_fragment(text)
    }

    /// Redacts all secrets in the value.
    pub(crate) fn redact_value(&self, value: &mut Value) {
        self.secrets.redact_value(value);
    }
}

/// Index of the text stream in a filter.
const TEXT_STREAM: usize = 0;
const REASONING_STREAM: usize = 1;

/// Filter that redacts secrets in the pieces of a streamed reply.
pub(crate) struct SecretPieceFilter<'a> {
    credentials: &'a ProviderCredentials,
    on_piece: &'a ReplyPieceCallback<'a>,
    /// The text, and the reasoning.
    streams: Mutex<[RedactingStream; 2]>,
    /// The text has begun; reasoning after it is not shown while it arrives.
    has_text: AtomicBool,
}

impl<'a> SecretPieceFilter<'a> {
    /// Creates a filter in front of the callback.
    pub(crate) fn new(credentials: &'a ProviderCredentials, on_piece: &'a ReplyPieceCallback<'a>) -> Self {
        Self {
            credentials,
            on_piece,
            streams: Mutex::new(
                [TEXT_STREAM, REASONING_STREAM].map(|_| RedactingStream::new(credentials.secrets.clone())),
            ),
            has_text: AtomicBool::default(),
        }
    }

    /// Redacts the piece, holds back a possible start of a secret, and passes the rest to the callback.
    pub(crate) fn push_piece(&self, piece: ReplyPiece<'_>) {
        if self.credentials.secrets.is_empty() {
            return (self.on_piece)(piece);
        }
        let (at, piece) = match piece {
            ReplyPiece::Text(text) => (TEXT_STREAM, text),
            ReplyPiece::Reasoning(text) => (REASONING_STREAM, text),
        };
        match at {
            TEXT_STREAM if !self.has_text.swap(true, Ordering::Relaxed) => self.send_held_text(REASONING_STREAM),
            // What was released could be the beginning of a secret that goes on here.
            REASONING_STREAM if self.has_text.load(Ordering::Relaxed) => return,
            _ => {}
        }
        let mut streams = self.lock_streams();
        let text = streams[at].push_piece(piece);
        self.send_piece(at, &text);
    }

    /// Sends the held-back text at the end of the reply.
    pub(crate) fn flush_held_text(&self) {
        self.send_held_text(REASONING_STREAM);
        self.send_held_text(TEXT_STREAM);
    }

    /// Sends the held-back text of one stream.
    fn send_held_text(&self, at: usize) {
        let held_text = self.lock_streams()[at].finish();
        self.send_piece(at, &held_text);
    }

    /// Passes a non-empty piece to the callback.
    fn send_piece(&self, at: usize, text: &str) {
        if !text.is_empty() {
            (self.on_piece)(match at {
                TEXT_STREAM => ReplyPiece::Text(text),
                _ => ReplyPiece::Reasoning(text),
            });
        }
    }

    /// Locks the streams, also after a panic in another thread.
    fn lock_streams(&self) -> MutexGuard<'_, [RedactingStream; 2]> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does not show the secrets.
impl fmt::Debug for ProviderCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-0123456789";

    fn network() -> ModelNetwork {
        let variable = |name: &str| match name {
            "OPENAI_API_KEY" | "OTHER" => Some(format!("{name} {KEY}")),
            "SHORT" => Some("none".to_owned()),
            "BLANK" => Some("  ".to_owned()),
            _ => None,
        };
        ModelNetwork::new(variable, || chrono::DateTime::UNIX_EPOCH, || 0.5)
    }

    fn profile(base_url: Option<&str>, api_key_env: Option<&str>) -> ModelProfile {
        ModelProfile {
            base_url: base_url.map(Into::into),
            api_key_env: api_key_env.map(Into::into),
            ..ModelProfile::default()
        }
    }

    fn key(base_url: Option<&str>, api_key_env: Option<&str>) -> Result<Option<String>, String> {
        let openai = HttpProvider::find_by_name("openai").expect("is known");
        ProviderCredentials::from_environment(&profile(base_url, api_key_env), openai, &network())
            .map(|given| given.key)
    }

    #[test]
    fn another_address_never_gets_the_providers_own_key() {
        let own = format!("OPENAI_API_KEY {KEY}");
        assert_eq!(key(None, None), Ok(Some(own)));
        assert_eq!(key(Some("http://localhost:1"), None), Ok(None));
        let named = format!("OTHER {KEY}");
        assert_eq!(key(Some("http://localhost:1"), Some("OTHER")), Ok(Some(named)));
        for missing in ["MISSING", "BLANK"] {
            assert_eq!(
                key(None, Some(missing)),
                Err(format!(
                    "there is no key for openai: set the environment variable {missing}"
                ))
            );
        }
    }

    #[test]
    fn secrets_are_struck_out_and_shown_nowhere() {
        let headers = vec![("X-Own".to_owned(), ConfiguredHeader::Env("OTHER".into()))];
        let profile = ModelProfile {
            headers,
            ..profile(None, Some("SHORT"))
        };
        let openai = HttpProvider::find_by_name("openai").expect("is known");
        let given = ProviderCredentials::from_environment(&profile, openai, &network()).expect("all there");
        assert_eq!(given.headers, [("X-Own".to_owned(), format!("OTHER {KEY}"))]);
        let told = format!("wrong key {KEY}, and none of them");
        assert_eq!(given.redact(told), "wrong key [secret], and none of them");
        assert_eq!(given.redact("none".to_owned()), "none");
        assert_eq!(format!("{given:?} {:?}", network()), "Credentials Network");
    }

    fn text_of(piece: ReplyPiece<'_>) -> &str {
        match piece {
            ReplyPiece::Text(text) | ReplyPiece::Reasoning(text) => text,
        }
    }

    #[test]
    fn a_secret_in_pieces_is_never_heard() {
        let openai = HttpProvider::find_by_name("openai").expect("is known");
        let given = ProviderCredentials::from_environment(&profile(None, None), openai, &network()).expect("all there");
        let said = format!("It is {KEY} and sk-other, sk-{KEY}; s");
        for (first, second) in (0..=said.len()).flat_map(|one| (one..=said.len()).map(move |two| (one, two))) {
            let heard = Mutex::new(String::new());
            let on_piece = |piece: ReplyPiece<'_>| heard.lock().expect("one thread").push_str(text_of(piece));
            let filter = SecretPieceFilter::new(&given, &on_piece);
            for piece in [&said[..first], &said[first..second], &said[second..]] {
                filter.push_piece(ReplyPiece::Text(piece));
            }
            filter.flush_held_text();
            let expected = "It is [secret] and sk-other, sk-[secret]; s";
            assert_eq!(*heard.lock().expect("one thread"), expected, "{first} {second}");
        }
    }

    #[test]
    fn what_cannot_be_a_secret_is_heard_at_once() {
        let openai = HttpProvider::find_by_name("openai").expect("is known");
        let given = ProviderCredentials::from_environment(&profile(None, None), openai, &network()).expect("all there");
        let pieces = Mutex::new(Vec::new());
        let on_piece = |piece: ReplyPiece<'_>| pieces.lock().expect("one thread").push(text_of(piece).to_owned());
        let filter = SecretPieceFilter::new(&given, &on_piece);
        ["one ", "two s", "k ", "three"]
            .iter()
            .for_each(|piece| filter.push_piece(ReplyPiece::Text(piece)));
        assert_eq!(*pieces.lock().expect("one thread"), ["one ", "two ", "sk ", "three"]);
    }

    #[test]
    fn a_secret_in_the_reasoning_is_never_heard() {
        let openai = HttpProvider::find_by_name("openai").expect("is known");
        let given = ProviderCredentials::from_environment(&profile(None, None), openai, &network()).expect("all there");
        for at in 0..=KEY.len() {
            let heard = Mutex::new(String::new());
            let on_piece = |piece: ReplyPiece<'_>| heard.lock().expect("one thread").push_str(text_of(piece));
            let filter = SecretPieceFilter::new(&given, &on_piece);
            let (first, second) = KEY.split_at(at);
            filter.push_piece(ReplyPiece::Reasoning(first));
            filter.push_piece(ReplyPiece::Reasoning(second));
            filter.push_piece(ReplyPiece::Reasoning(first));
            filter.push_piece(ReplyPiece::Text("; said"));
            filter.push_piece(ReplyPiece::Reasoning(second));
            filter.flush_held_text();
            let heard = heard.lock().expect("one thread");
            assert!(
                heard.starts_with("[secret]") && heard.ends_with("; said"),
                "{at}: {heard}"
            );
        }
    }
}
