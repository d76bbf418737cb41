//! Admin interface of the engine, for the calls that the engine has paused.
//!
//! The engine pauses a call if an operator asks for a pause, or if the retry policy of the deployment ends with a pause. The
//! ingress does not distinguish a paused run from a running one.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use ensemble_core::store::RunId;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::client::innermost_cause;
use crate::client_error::EngineClientError;
use crate::protocol::{EXECUTIONS, RUNS};

/// Default port of the admin interface.
const DEFAULT_ADMIN_PORT: u16 = 9070;
/// Time limit for a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of levels of calls inside a run: a nested run adds one level.
const MAX_CALL_DEPTH: usize = 16;
/// Maximum number of paused calls that are read.
const MAX_PAUSED_CALLS: usize = 10_000;
/// Maximum number of calls that one query names.
const MAX_QUERIED_CALLS: usize = 500;

/// Client of the admin interface of an engine.
#[derive(Debug, Clone)]
pub struct EngineAdminClient {
    url: String,
    http: reqwest::Client,
}

/// Call that the engine has paused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PausedCall {
    /// Id of the call on the engine.
    pub id: String,
    /// Error of the last attempt, if there was one.
    pub failure: Option<String>,
}

/// Row of the engine's table of calls.
#[derive(Debug, Deserialize)]
struct CallRow {
    id: String,
    #[serde(default)]
    target_service_name: String,
    #[serde(default)]
    target_service_key: Option<String>,
    #[serde(default)]
    target_handler_name: Option<String>,
    #[serde(default)]
    invoked_by_id: Option<String>,
    #[serde(default)]
    last_failure: Option<String>,
}

/// Reply of the engine to a query of its table of calls.
#[derive(Debug, Deserialize)]
struct CallQueryReply {
    rows: Vec<CallRow>,
}

impl EngineAdminClient {
    /// Creates a client for the admin address. Without an address, uses port 9070 of the host of the ingress.
    ///
    /// # Errors
    /// The text is not a URL, or no HTTP client can be built.
    pub fn from_urls(admin: Option<&str>, ingress: &str) -> Result<Self, EngineClientError> {
        let given = admin.unwrap_or(ingress);
        let wrong = |reason: String| EngineClientError::Address {
            url: given.to_owned(),
            reason,
        };
        let mut url = reqwest::Url::parse(given).map_err(|error| wrong(error.to_string()))?;
        if admin.is_none() {
            url.set_path("");
            url.set_query(None);
            let _no_host = url.set_port(Some(DEFAULT_ADMIN_PORT));
        }
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("it must begin with http:// or https://".to_owned()));
        }
        Ok(Self {
            url: url.as_str().trim_end_matches('/').to_owned(),
            http: ensemble_models::build_http_client().map_err(wrong)?,
        })
    }

    /// Returns the address of the admin interface.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Lists the paused calls, by the outermost run that they belong to.
    ///
    /// # Errors
    /// The engine cannot be reached or refuses the request.
    pub async fn list_paused_calls_by_run(&self) -> Result<BTreeMap<RunId, Vec<PausedCall>>, EngineClientError> {
        let of_ours = format!("target_service_name IN ('{RUNS}', '{EXECUTIONS}')");
        let mut rows = self
            .query_call_rows(&format!("{of_ours} AND status = 'paused' LIMIT {MAX_PAUSED_CALLS}"))
            .await?;
        let paused: Vec<(String, Option<String>)> = rows
            .iter()
            .map(|row| (row.id.clone(), row.last_failure.clone()))
            .collect();
        let mut calls: HashMap<String, CallRow> = HashMap::new();
        for _ in 0..MAX_CALL_DEPTH {
            let callers = rows.iter().filter_map(|row| row.invoked_by_id.clone());
            let mut callers: Vec<String> = callers.filter(|id| is_call_id(id)).collect();
            calls.extend(rows.into_iter().map(|row| (row.id.clone(), row)));
            callers.retain(|id| !calls.contains_key(id));
            callers.sort_unstable();
            callers.dedup();
            if callers.is_empty() {
                break;
            }
            rows = Vec::new();
            for some in callers.chunks(MAX_QUERIED_CALLS) {
                rows.extend(
                    self.query_call_rows(&format!("id IN ('{}')", some.join("', '")))
                        .await?,
                );
            }
        }
        let mut by_run: BTreeMap<RunId, Vec<PausedCall>> = BTreeMap::new();
        for (id, failure) in paused {
            if let Some(run) = find_outermost_run(&calls, &id) {
                by_run.entry(run).or_default().push(PausedCall { id, failure });
            }
        }
        Ok(by_run)
    }

    /// Resumes the paused calls.
    ///
    /// # Errors
    /// The engine cannot be reached or refuses the request.
    pub async fn resume_calls(&self, calls: &[PausedCall]) -> Result<(), EngineClientError> {
        for call in calls.iter().filter(|call| is_call_id(&call.id)) {
            let request = self.http.patch(format!("{}/invocations/{}/resume", self.url, call.id));
            match self.send_and_read_text(request).await {
                // Another client has resumed the call.
                Ok(_) | Err(EngineClientError::RequestRefused { status: 409, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Queries the rows of the engine's table of calls that match the SQL condition.
    async fn query_call_rows(&self, condition: &str) -> Result<Vec<CallRow>, EngineClientError> {
        let query = format!(
            "SELECT id, target_service_name, target_service_key, target_handler_name, invoked_by_id, last_failure FROM \
             sys_invocation WHERE {condition}"
        );
        let request = self.http.post(format!("{}/query", self.url));
        let request = request.header("accept", "application/json");
        let request = request.header("content-type", "application/json");
        let text = self
            .send_and_read_text(request.body(json!({"query": query}).to_string()))
            .await?;
        let reply: CallQueryReply = serde_json::from_str(&text).map_err(|error| EngineClientError::Content {
            url: self.url.clone(),
            reason: error.to_string(),
        })?;
        Ok(reply.rows)
    }

    /// Sends the request and returns the text of a successful response.
    async fn send_and_read_text(&self, request: reqwest::RequestBuilder) -> Result<String, EngineClientError> {
        let unreachable = |error: &reqwest::Error| EngineClientError::Unreachable {
            url: self.url.clone(),
            reason: innermost_cause(error),
        };
        let response = request
            .timeout(RESPONSE_TIMEOUT)
            .send()
            .await
            .map_err(|error| unreachable(&error))?;
        let status = response.status();
        let text = response.text().await.map_err(|error| unreachable(&error))?;
        if status.is_success() {
            return Ok(text);
        }
        let message = serde_json::from_str::<Value>(&text).ok();
        let message = message.and_then(|value| value["message"].as_str().map(str::to_owned));
        Err(EngineClientError::RequestRefused {
            url: self.url.clone(),
            status: status.as_u16(),
            message: message.unwrap_or(text),
        })
    }
}

/// Returns whether the text is a valid id of a call, which has no other meaning in a query or in an address.
fn is_call_id(id: &str) -> bool {
    id.starts_with("inv_") && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Returns the outermost run that the call belongs to. Returns `None` if the call belongs to no known run.
fn find_outermost_run(calls: &HashMap<String, CallRow>, id: &str) -> Option<RunId> {
    let (mut call, mut run) = (calls.get(id), None);
    for _ in 0..=MAX_CALL_DEPTH {
        let Some(row) = call else { break };
        if row.target_service_name == RUNS && row.target_handler_name.as_deref() == Some("run") {
            run = row.target_service_key.as_deref().or(run);
        }
        call = row.invoked_by_id.as_ref().and_then(|caller| calls.get(caller));
    }
    RunId::parse(run?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paused_call_belongs_to_the_outermost_run() {
        let row = |id: &str, service: &str, key: Option<&str>, caller: Option<&str>| CallRow {
            id: id.to_owned(),
            target_service_name: service.to_owned(),
            target_service_key: key.map(str::to_owned),
            target_handler_name: Some(if service == RUNS { "run" } else { "perform" }.to_owned()),
            invoked_by_id: caller.map(str::to_owned),
            last_failure: None,
        };
        let outer = "aaaa-20261123-080000000";
        let rows = [
            row("inv_1", RUNS, Some(outer), None),
            row("inv_2", RUNS, Some("aaaa-20261123-080000000/sub/x-1-1"), Some("inv_1")),
            row("inv_3", EXECUTIONS, None, Some("inv_2")),
            row("inv_4", EXECUTIONS, None, Some("inv_5")),
            row("inv_5", EXECUTIONS, None, Some("inv_4")),
        ];
        let calls: HashMap<String, CallRow> = rows.into_iter().map(|row| (row.id.clone(), row)).collect();
        for call in ["inv_1", "inv_2", "inv_3"] {
            assert_eq!(find_outermost_run(&calls, call), Some(RunId::new(outer)), "{call}");
        }
        assert_eq!(
            find_outermost_run(&calls, "inv_4"),
            None,
            "a circle of a false engine ends"
        );
    }

    #[test]
    fn the_admin_interface_is_at_the_host_of_the_ingress() {
        let url = |admin, ingress| EngineAdminClient::from_urls(admin, ingress).map(|admin| admin.url().to_owned());
        assert_eq!(
            url(None, "http://10.0.0.7:8080/").expect("a URL"),
            "http://10.0.0.7:9070"
        );
        assert_eq!(
            url(Some("http://admin:1/"), "http://a:8080").expect("a URL"),
            "http://admin:1"
        );
        url(Some("ftp://a"), "http://a:8080").expect_err("another scheme");
    }

    #[test]
    fn only_ids_of_calls_stand_in_queries_and_addresses() {
        for (id, is_one) in [
            ("inv_1aZ", true),
            ("inv_'; --", false),
            ("inv_/../x", false),
            ("x", false),
        ] {
            assert_eq!(is_call_id(id), is_one, "{id}");
        }
    }
}
