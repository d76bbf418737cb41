//! The query of a request.

use std::collections::HashMap;
use std::str::FromStr;

use crate::reply::Failure;

/// The query of a request, by name.
pub(crate) struct Query(HashMap<String, String>);

impl Query {
    pub(crate) fn of(query: &str) -> Self {
        Self(url::form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// A value that must be there.
    pub(crate) fn text(&self, name: &str) -> Result<&str, Failure> {
        let value = self.0.get(name);
        value
            .map(String::as_str)
            .ok_or_else(|| Failure::wrong(format!("`{name}` is missing")))
    }

    /// A number that must be there.
    pub(crate) fn number<N: FromStr>(&self, name: &str) -> Result<N, Failure> {
        let parsed = self.text(name)?.parse();
        parsed.map_err(|_| Failure::wrong(format!("`{name}` is no number")))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}
