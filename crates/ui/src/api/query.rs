//! The query of a request.

use std::collections::HashMap;
use std::str::FromStr;

use crate::reply::ApiFailure;

/// The query of a request, by name.
pub(crate) struct RequestQuery(HashMap<String, String>);

impl RequestQuery {
    pub(crate) fn parse(query: &str) -> Self {
        Self(url::form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// Returns a value that must be there.
    pub(crate) fn required_text(&self, name: &str) -> Result<&str, ApiFailure> {
        let value = self.0.get(name);
        value
            .map(String::as_str)
            .ok_or_else(|| ApiFailure::bad_request(format!("`{name}` is missing")))
    }

    /// Returns a number that must be there.
    pub(crate) fn required_number<N: FromStr>(&self, name: &str) -> Result<N, ApiFailure> {
        let parsed = self.required_text(name)?.parse();
        parsed.map_err(|_| ApiFailure::bad_request(format!("`{name}` is not a number")))
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}
