//! The query of a request.

use std::collections::HashMap;
use std::str::FromStr;

use crate::reply::ApiFailure;

/// Query parameters of a request, by name.
pub(crate) struct RequestQuery(HashMap<String, String>);

impl RequestQuery {
    /// Parses the query of a URL.
    pub(crate) fn parse(query: &str) -> Self {
        Self(url::form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// Returns the text of a parameter. Fails if it is missing.
    pub(crate) fn required_text(&self, name: &str) -> Result<&str, ApiFailure> {
        let value = self.0.get(name);
        value
            .map(String::as_str)
            .ok_or_else(|| ApiFailure::bad_request(format!("`{name}` is missing")))
    }

    /// Parses the number of a parameter. Fails if it is missing or not a number.
    pub(crate) fn required_number<N: FromStr>(&self, name: &str) -> Result<N, ApiFailure> {
        let parsed = self.required_text(name)?.parse();
        parsed.map_err(|_| ApiFailure::bad_request(format!("`{name}` is not a number")))
    }

    /// Returns whether the parameter is present.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}
