//! One reply on disk, with the request that it answers.

use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{ModelReply, ModelRequest, RequestTokens};
use ensemble_core::thread::{Message, Reasoning, StopReason, ToolCall};
use ensemble_language::data::sha256_of_text;
use ensemble_scripts::regular_files::read_text;

/// The largest file that is read, in bytes: 256 MiB.
const MAX_ENTRY_BYTES: u64 = 256 << 20;
/// Version of the file format. Files of other versions are not read.
const ENTRY_FORMAT_VERSION: u32 = 1;

/// Cached reply with its request and key.
#[derive(Debug)]
pub(super) struct CacheEntry {
    /// The digest of the request.
    pub(super) key: String,
    /// What was asked.
    pub(super) request: Value,
    /// Which request of its agent it was in its run.
    pub(super) request_number: u64,
    /// What was answered.
    pub(super) reply: ModelReply,
}

/// Error in loading an entry: missing, damaged or unreadable.
#[derive(Debug)]
pub(super) enum CacheEntryError {
    /// There is no file.
    Missing,
    /// There is one that is no entry.
    Damaged(String),
    /// Files cannot be read there at all.
    Unreadable(String),
}

/// JSON form of an entry.
#[derive(Serialize, Deserialize)]
struct CacheEntryJson {
    version: u32,
    key: String,
    request_number: u64,
    request: Value,
    reply: CachedReplyJson,
}

/// JSON form of the reply in an entry.
#[derive(Serialize, Deserialize)]
struct CachedReplyJson {
    text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reasoning: Option<Reasoning>,
    stop_reason: StopReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refusal: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<CachedTokensJson>,
}

/// JSON form of the token counts in an entry.
#[derive(Serialize, Deserialize)]
struct CachedTokensJson {
    input: u64,
    #[serde(default)]
    cached: u64,
    output: u64,
}

impl CacheEntry {
    /// Creates an entry. The key is the digest of the request.
    pub(super) fn new(request: Value, request_number: u64, reply: &ModelReply) -> Self {
        Self {
            key: sha256_of_text(&request.to_string()),
            request,
            request_number,
            reply: reply.clone(),
        }
    }

    /// Loads an entry and checks its format version.
    pub(super) fn load(path: &Path) -> Result<Self, CacheEntryError> {
        let text = read_text(path, MAX_ENTRY_BYTES).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => CacheEntryError::Missing,
            io::ErrorKind::InvalidData => CacheEntryError::Damaged(error.to_string()),
            _ => CacheEntryError::Unreadable(error.to_string()),
        })?;
        let damaged = |error: serde_json::Error| CacheEntryError::Damaged(error.to_string());
        let document: Value = serde_json::from_str(&text).map_err(damaged)?;
        if document["version"] != ENTRY_FORMAT_VERSION {
            let version = &document["version"];
            return Err(CacheEntryError::Damaged(format!(
                "its version is {version}; expected {ENTRY_FORMAT_VERSION}"
            )));
        }
        let file: CacheEntryJson = serde_json::from_value(document).map_err(damaged)?;
        Ok(Self {
            key: file.key,
            request: file.request,
            request_number: file.request_number,
            reply: ModelReply {
                tool_calls: file.reply.tool_calls,
                reasoning: file.reply.reasoning,
                stop_reason: file.reply.stop_reason,
                refusal: file.reply.refusal,
                tokens: file
                    .reply
                    .tokens
                    .map(|CachedTokensJson { input, cached, output }| RequestTokens { input, cached, output }),
                ..ModelReply::from_text(file.reply.text)
            },
        })
    }

    /// Writes the entry atomically, so that a concurrent reader finds the whole file or none. Follows no links below `root`.
    pub(super) fn save_atomically(&self, path: &Path, root: &Path) -> io::Result<()> {
        let reply = self.reply.clone();
        let file = CacheEntryJson {
            version: ENTRY_FORMAT_VERSION,
            key: self.key.clone(),
            request_number: self.request_number,
            request: self.request.clone(),
            reply: CachedReplyJson {
                text: reply.text,
                tool_calls: reply.tool_calls,
                reasoning: reply.reasoning,
                stop_reason: reply.stop_reason,
                refusal: reply.refusal,
                tokens: reply
                    .tokens
                    .map(|RequestTokens { input, cached, output }| CachedTokensJson { input, cached, output }),
            },
        };
        let mut text = serde_json::to_string_pretty(&file)?;
        text.push('\n');
        let folder = path.parent().unwrap_or(Path::new("."));
        check_no_symbolic_links(folder, root)?;
        create_private_folders(folder)?;
        // Another process can have made a link meanwhile.
        check_no_symbolic_links(folder, root)?;
        let beside = path.with_extension(format!("{}.tmp", std::process::id()));
        let _ = std::fs::remove_file(&beside);
        let mut temporary_file = private_file_options().open(&beside)?;
        let end = temporary_file
            .write_all(text.as_bytes())
            .and_then(|()| std::fs::rename(&beside, path));
        if end.is_err() {
            // What is left of it is of no use to anybody.
            let _ = std::fs::remove_file(&beside);
        }
        end
    }
}

/// Fails if the folder, or a folder between it and the root, is a link.
fn check_no_symbolic_links(folder: &Path, root: &Path) -> io::Result<()> {
    let mut below = folder.ancestors().take_while(|folder| *folder != root);
    match below.find(|folder| folder.is_symlink()) {
        Some(link) => Err(io::Error::other(format!(
            "{} is a symbolic link, and links are not followed here",
            link.display()
        ))),
        None => Ok(()),
    }
}

/// Returns the options for a new file that only the user can read.
fn private_file_options() -> std::fs::OpenOptions {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates the folder and its missing parents, accessible only to the user.
fn create_private_folders(path: &Path) -> io::Result<()> {
    let mut folders = std::fs::DirBuilder::new();
    folders.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folders, 0o700);
    folders.create(path)
}

/// Converts the parts of a request on which its reply depends to JSON. Leaves out secrets and values that change, such as times.
pub(super) fn request_to_cache_json(request: &ModelRequest) -> Value {
    let profile = &request.profile;
    let mut map = Map::new();
    let mut put = |key: &str, value: Value| {
        if !value.is_null() {
            map.insert(key.to_owned(), value);
        }
    };
    put("provider", json!(profile.provider));
    put("model", json!(profile.model));
    put(
        "base_url",
        json!(profile.base_url.as_deref().map(strip_login_and_query)),
    );
    put("temperature", json!(profile.temperature));
    put("top_p", json!(profile.top_p));
    put("max_tokens", json!(profile.max_tokens));
    put("seed", json!(profile.seed));
    if !profile.options.is_empty() {
        put("options", json!(profile.options));
    }
    put(
        "messages",
        request.messages.iter().map(message_to_json_without_durations).collect(),
    );
    let tool = |tool: &crate::ToolSpec| json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
    let tools: Vec<Value> = request.tools.iter().map(tool).collect();
    put("tools", if tools.is_empty() { Value::Null } else { tools.into() });
    put("output_schema", json!(request.output_schema));
    Value::Object(map)
}

/// Converts a message to JSON without durations.
fn message_to_json_without_durations(message: &Message) -> Value {
    let mut message = message.to_json_without_bytes();
    for call in message["tool_calls"].as_array_mut().into_iter().flatten() {
        if let Some(call) = call.as_object_mut() {
            call.shift_remove("duration");
        }
    }
    message
}

/// Removes user, password and query from the URL.
fn strip_login_and_query(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = host.rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}{path}")
        }
        None => url.to_owned(),
    }
}

/// Lists the paths at which two requests differ.
pub(super) fn list_different_paths(one: &Value, other: &Value) -> Vec<String> {
    let mut places = Vec::new();
    collect_different_paths(one, other, "", &mut places);
    places
}

/// Adds the paths below `at` at which two values differ.
fn collect_different_paths(one: &Value, other: &Value, at: &str, places: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let only_there = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(only_there) {
                let place = if at.is_empty() {
                    key.clone()
                } else {
                    format!("{at}.{key}")
                };
                collect_different_paths(&one[key], &other[key], &place, places);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for index in 0..a.len().max(b.len()) {
                let item = |list: &[Value]| list.get(index).cloned().unwrap_or_default();
                collect_different_paths(&item(a), &item(b), &format!("{at}[{index}]"), places);
            }
        }
        _ if one != other => places.push(at.to_owned()),
        _ => {}
    }
}
