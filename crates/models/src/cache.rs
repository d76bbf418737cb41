//! A cache of replies on disk: a request is not made twice, and with a complete cache no request is made.
//!
//! The cache is a decorator of a provider. An entry is a JSON file in the folder of the agent, with the whole request
//! and the reply, so that people can read and commit it. It contains no keys and no headers.
//!
//! **Repeated requests.** An agent that makes the same request twice in a run expects two replies (sampling). So each
//! repetition has its own entry. An entry with the number of the request is preferred, so that a resumed run finds the
//! same entries as an uninterrupted run. Otherwise the entries are used in order, so that a different number of retries
//! does not change the replies.
//!
//! Failures are not stored. An unreadable entry counts as missing, and a failed write is a warning.

#![expect(clippy::disallowed_methods, reason = "the cache is files")]

mod entry;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use self::entry::{CacheEntry, CacheEntryError, list_different_paths};
use super::request::tool_files;
use super::{
    BoxFuture, Model, ModelError, ModelProvider, ModelReply, ModelRequest, ReplyPiece, ReplyPieceCallback,
    move_schema_to_messages,
};
use ensemble_core::secrets::Secrets;
use ensemble_language::data::sha256_of_text;
use ensemble_language::ensemble::SIMULATED_PROVIDER;

/// Number of digest characters in the file name of an entry. The entry itself contains the whole digest.
const DIGEST_PREFIX_LENGTH: usize = 16;

/// Folder with cached replies of models.
#[derive(Debug, Clone)]
pub struct ReplyCache {
    folder: PathBuf,
    /// Below this folder nothing is written through links.
    root: PathBuf,
    is_read_only: bool,
}

impl ReplyCache {
    /// Opens a cache folder to which replies are added. The folder is created with the first reply.
    ///
    /// # Errors
    /// The path exists and is not a readable folder.
    pub fn open_read_write(folder: PathBuf) -> io::Result<Self> {
        match std::fs::read_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(Self {
                root: folder.clone(),
                folder,
                is_read_only: false,
            }),
        }
    }

    /// Opens a cache folder that answers all requests, without a provider.
    ///
    /// # Errors
    /// The folder does not exist.
    pub fn open_read_only(folder: PathBuf) -> io::Result<Self> {
        std::fs::read_dir(&folder)?;
        Ok(Self {
            root: folder.clone(),
            folder,
            is_read_only: true,
        })
    }

    /// Returns the cache for the agents of the nested ensemble of this agent.
    #[must_use]
    pub fn for_nested_ensemble(&self, agent: &str) -> Self {
        Self {
            folder: self.folder.join(agent_folder_name(agent)),
            root: self.root.clone(),
            is_read_only: self.is_read_only,
        }
    }
}

impl Model {
    /// Adds a cache in front of the providers, except simulated ones, which cost nothing.
    #[must_use]
    pub fn with_cache(mut self, cache: &ReplyCache) -> Self {
        let secrets = self.network().secrets().clone();
        let links = self.links.iter_mut();
        for (_, provider) in links.filter(|(link, _)| *link.profile.provider != *SIMULATED_PROVIDER) {
            *provider = Arc::new(CachingProvider::new(
                Arc::clone(provider),
                cache.clone(),
                secrets.clone(),
            ));
        }
        self
    }
}

/// Provider behind a cache. Each entry answers only one request of a run.
struct CachingProvider {
    inner: Arc<dyn ModelProvider>,
    cache: ReplyCache,
    secrets: Secrets,
    /// The entries that were already used.
    used_entries: Mutex<HashSet<PathBuf>>,
}

/// Result of a search in the cache: a reply, or the path of the missing entry.
enum CacheLookupResult {
    Reply(PathBuf, Box<ModelReply>),
    /// There is no entry; a reply would be stored at this path.
    Missing(PathBuf),
}

impl CachingProvider {
    /// Wraps the provider. Requests are redacted with `secrets`.
    fn new(inner: Arc<dyn ModelProvider>, cache: ReplyCache, secrets: Secrets) -> Self {
        Self {
            inner,
            cache,
            secrets,
            used_entries: Mutex::default(),
        }
    }

    /// Answers the request from the cache. Otherwise asks the provider and stores the reply, unless the cache is read-only.
    async fn answer_from_cache_or_provider(
        &self,
        request: ModelRequest,
        on_piece: &ReplyPieceCallback<'_>,
    ) -> Result<ModelReply, ModelError> {
        let mut warnings = Vec::new();
        let lookup = self.find_unused_reply(&request, &mut warnings);
        let place = match (lookup, self.find_reply_to_reduced_request(&request)) {
            (CacheLookupResult::Reply(path, reply), _) | (CacheLookupResult::Missing(_), Some((path, reply))) => {
                self.lock_used_entries().insert(path);
                if let Some(reasoning) = &reply.reasoning {
                    on_piece(ReplyPiece::Reasoning(&reasoning.to_text()));
                }
                on_piece(ReplyPiece::Text(&reply.text));
                return Ok(ModelReply {
                    cached: true,
                    warnings,
                    ..*reply
                });
            }
            (CacheLookupResult::Missing(_), None) if self.cache.is_read_only => {
                warnings.push(self.missing_reply_message(&request));
                return Err(ModelError::new_fatal(warnings.join("; ")));
            }
            (CacheLookupResult::Missing(place), None) => place,
        };
        let entry = (self.redacted_request_json(&request), request.request_number);
        let mut reply = self.inner.complete_request(request, on_piece).await?;
        let entry = CacheEntry::new(entry.0, entry.1, &reply);
        match entry.save_atomically(&place, &self.cache.root) {
            Ok(()) => drop(self.lock_used_entries().insert(place)),
            Err(error) => warnings.push(format!("{} cannot be written: {error}", place.display())),
        }
        reply.warnings.append(&mut warnings);
        Ok(reply)
    }

    /// Finds an unused entry for the request, preferably with the same request number. Adds warnings about damaged entries.
    fn find_unused_reply(&self, request: &ModelRequest, warnings: &mut Vec<String>) -> CacheLookupResult {
        let key = sha256_of_text(&self.redacted_request_json(request).to_string());
        let used = self.lock_used_entries();
        let mut fallback = None;
        let mut vacant = None;
        for path in (1..).map(|n| {
            self.agent_folder(request)
                .join(format!("{}-{n}.json", &key[..DIGEST_PREFIX_LENGTH]))
        }) {
            match CacheEntry::load(&path) {
                Ok(entry) if entry.key != key => continue,
                Ok(_) if used.contains(&path) => continue,
                Ok(entry) if entry.request_number == request.request_number => {
                    return CacheLookupResult::Reply(path, Box::new(entry.reply));
                }
                Ok(entry) => {
                    fallback = fallback.or_else(|| Some(CacheLookupResult::Reply(path, Box::new(entry.reply))))
                }
                Err(CacheEntryError::Missing) => {
                    vacant = vacant.or(Some(path));
                    break;
                }
                Err(CacheEntryError::Damaged(error)) => {
                    warnings.push(format!("{} cannot be used: {error}", path.display()));
                    vacant = vacant.or(Some(path));
                }
                Err(CacheEntryError::Unreadable(error)) => {
                    warnings.push(format!("{} cannot be read: {error}", path.display()));
                    vacant = vacant.or(Some(path));
                    break;
                }
            }
        }
        fallback.unwrap_or_else(|| CacheLookupResult::Missing(vacant.unwrap_or_default()))
    }

    /// Finds the reply to the request without the schema or files, because the provider may have refused them in the recorded run.
    fn find_reply_to_reduced_request(&self, request: &ModelRequest) -> Option<(PathBuf, Box<ModelReply>)> {
        if !self.cache.is_read_only {
            return None;
        }
        self.find_reply_without_native_schema(request).or_else(|| {
            let has_files = tool_files::has_tool_files(&request.messages);
            let in_words = has_files.then(|| tool_files::with_described_tool_files(request.clone()))?;
            self.find_reply_ignoring_warnings(&in_words)
                .or_else(|| self.find_reply_without_native_schema(&in_words))
        })
    }

    /// Finds the reply to the request with the schema in the prompt, or without a schema.
    fn find_reply_without_native_schema(&self, request: &ModelRequest) -> Option<(PathBuf, Box<ModelReply>)> {
        request.output_schema.as_ref()?;
        let in_words = move_schema_to_messages(request.clone());
        // Earlier versions did not tell the model the schema in words.
        let untold = ModelRequest {
            output_schema: None,
            ..request.clone()
        };
        [in_words, untold]
            .iter()
            .find_map(|request| self.find_reply_ignoring_warnings(request))
    }

    /// Finds the reply to the request, and ignores warnings.
    fn find_reply_ignoring_warnings(&self, request: &ModelRequest) -> Option<(PathBuf, Box<ModelReply>)> {
        match self.find_unused_reply(request, &mut Vec::new()) {
            CacheLookupResult::Reply(path, reply) => Some((path, reply)),
            CacheLookupResult::Missing(_) => None,
        }
    }

    /// Renders the error about a missing reply, with the differences to the most similar request.
    fn missing_reply_message(&self, request: &ModelRequest) -> String {
        let folder = self.agent_folder(request);
        let miss_message = format!(
            "the cache has no reply to request {} of `{}`",
            request.request_number, request.agent_name
        );
        let request_json = self.redacted_request_json(request);
        let entries = std::fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok);
        let compared = entries.filter_map(|file| {
            let entry = CacheEntry::load(&file.path()).ok()?;
            let distance = entry.request_number.abs_diff(request.request_number);
            Some((
                list_different_paths(&entry.request, &request_json),
                distance,
                file.path(),
            ))
        });
        let nearest = compared.min_by_key(|(differences, distance, path)| (differences.len(), *distance, path.clone()));
        match nearest {
            None => format!(
                "{miss_message}: there is no reply to this agent in {}",
                self.cache.folder.display()
            ),
            Some((differences, _, path)) if differences.is_empty() => {
                format!(
                    "{miss_message}: {} was already used for the same request",
                    path.display()
                )
            }
            Some((differences, _, path)) => {
                let first_differences: Vec<String> =
                    differences.iter().take(3).map(|place| format!("`{place}`")).collect();
                let more = if differences.len() > first_differences.len() {
                    " and more"
                } else {
                    ""
                };
                format!(
                    "{miss_message}: the most similar request, {}, differs in {}{more}",
                    path.display(),
                    first_differences.join(", ")
                )
            }
        }
    }

    /// Converts the parts of a request on which its reply depends to JSON, without secrets.
    fn redacted_request_json(&self, request: &ModelRequest) -> Value {
        let mut request_json = entry::request_to_cache_json(request);
        self.secrets.redact_value(&mut request_json);
        request_json
    }

    /// Returns the folder with the entries of the agent.
    fn agent_folder(&self, request: &ModelRequest) -> PathBuf {
        self.cache.folder.join(agent_folder_name(&request.agent_name))
    }

    /// Locks the used entries, also after a panic in another thread.
    fn lock_used_entries(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.used_entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ModelProvider for CachingProvider {
    fn complete_request<'a>(
        &'a self,
        request: ModelRequest,
        on_piece: &'a ReplyPieceCallback<'a>,
    ) -> BoxFuture<'a, Result<ModelReply, ModelError>> {
        Box::pin(self.answer_from_cache_or_provider(request, on_piece))
    }

    fn enforces_own_limits(&self) -> bool {
        self.inner.enforces_own_limits()
    }
}

/// Converts the name of an agent to a valid folder name.
fn agent_folder_name(agent: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let name: String = agent.chars().map(|c| if plain(c) { c } else { '_' }).collect();
    if Path::new(&name).file_name().is_some() {
        name
    } else {
        "_".to_owned()
    }
}
