//! Guard of a local server, which checks the `Host` and the `Origin` of a request, and the token.
//!
//! Invariant: every request is checked for `Host`, `Origin` and token, except requests for the files of the page.

use hyper::header::{AUTHORIZATION, COOKIE, HOST, HeaderMap, HeaderName, ORIGIN};
use hyper::{Method, StatusCode};

use crate::token::AccessToken;

/// Guard that checks the server name, the page and the token of requests.
#[derive(Debug)]
pub struct RequestGuard {
    token: AccessToken,
    /// Accepted values of `Host`. Another value means that a foreign domain name leads to this server.
    hosts: [String; 3],
    /// Name of the cookie. It contains the port, because all ports share cookies.
    cookie: String,
}

/// Refusal of a request, as a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardRefusal {
    /// Status of the response.
    pub status: StatusCode,
    /// Error code for programs.
    pub code: &'static str,
    /// Message for people.
    pub message: &'static str,
}

const HOST_REFUSAL: GuardRefusal = GuardRefusal {
    status: StatusCode::FORBIDDEN,
    code: "wrong_host",
    message: "this server answers requests only at its own address",
};
const ORIGIN_REFUSAL: GuardRefusal = GuardRefusal {
    status: StatusCode::FORBIDDEN,
    code: "wrong_origin",
    message: "requests from other pages are not allowed",
};
const TOKEN_REFUSAL: GuardRefusal = GuardRefusal {
    status: StatusCode::UNAUTHORIZED,
    code: "no_token",
    message: "the token is missing or wrong: use the address or the token that the program has printed",
};

impl GuardRefusal {
    /// Refusal of a request while too many other requests are being served.
    pub(crate) const BUSY: Self = Self {
        status: StatusCode::SERVICE_UNAVAILABLE,
        code: "busy",
        message: "too many requests are under way; try again later",
    };
}

impl RequestGuard {
    /// Creates the guard of a server on a local port.
    pub fn new(token: AccessToken, port: u16) -> Self {
        Self {
            token,
            hosts: ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}")),
            cookie: format!("ensemble-{port}"),
        }
    }

    /// Refuses a request for another server name, which a foreign page can send here by its own domain.
    pub fn check_host(&self, headers: &HeaderMap) -> Result<(), GuardRefusal> {
        let host = find_unique_header(headers, &HOST).ok_or(HOST_REFUSAL)?;
        let is_own = self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host));
        if is_own { Ok(()) } else { Err(HOST_REFUSAL) }
    }

    /// Refuses a request without the token in its `Authorization` header.
    pub fn check_bearer_token(&self, headers: &HeaderMap) -> Result<(), GuardRefusal> {
        match self.has_bearer_token(headers) {
            true => Ok(()),
            false => Err(TOKEN_REFUSAL),
        }
    }

    /// Refuses a request from another page, and a request without the token. A request that changes something and has its token in a
    /// cookie must name the page as its origin.
    pub fn check_origin_and_token(&self, method: &Method, headers: &HeaderMap) -> Result<(), GuardRefusal> {
        self.check_origin(headers)?;
        if self.has_bearer_token(headers) {
            return Ok(());
        }
        if !self.has_token_cookie(headers) {
            return Err(TOKEN_REFUSAL);
        }
        match *method == Method::GET || headers.contains_key(ORIGIN) {
            true => Ok(()),
            false => Err(ORIGIN_REFUSAL),
        }
    }

    /// Refuses a request that another page sends.
    pub fn check_origin(&self, headers: &HeaderMap) -> Result<(), GuardRefusal> {
        let site = headers.get(HeaderName::from_static("sec-fetch-site"));
        if site.is_some_and(|site| site != "same-origin" && site != "none") {
            return Err(ORIGIN_REFUSAL);
        }
        if !headers.contains_key(ORIGIN) {
            return Ok(());
        }
        let origin = find_unique_header(headers, &ORIGIN).and_then(|origin| origin.strip_prefix("http://"));
        match origin.is_some_and(|origin| find_unique_header(headers, &HOST) == Some(origin)) {
            true => Ok(()),
            false => Err(ORIGIN_REFUSAL),
        }
    }

    /// Returns the cookie if the text is the token. Scripts cannot read the cookie, and other sites cannot send the cookie.
    pub fn cookie_for_valid_token(&self, token: &str) -> Result<String, GuardRefusal> {
        match self.token.matches_text(token) {
            true => Ok(format!("{}={token}; Path=/; HttpOnly; SameSite=Strict", self.cookie)),
            false => Err(TOKEN_REFUSAL),
        }
    }

    /// Returns whether the `Authorization` header contains the token.
    fn has_bearer_token(&self, headers: &HeaderMap) -> bool {
        let scheme_and_token = find_unique_header(headers, &AUTHORIZATION).and_then(|value| value.split_once(' '));
        scheme_and_token.is_some_and(|(scheme, token)| {
            scheme.eq_ignore_ascii_case("bearer") && self.token.matches_text(token.trim())
        })
    }

    /// Returns whether a cookie contains the token.
    fn has_token_cookie(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies
            .flat_map(|cookies| cookies.split(';'))
            .filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, value)| name == self.cookie && self.token.matches_text(value))
    }
}

/// Returns the value of a header that appears exactly once.
fn find_unique_header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    const TOKEN: &str = "abcdefghijklmnop";

    fn guard() -> RequestGuard {
        RequestGuard::new(AccessToken::parse_for_cookie(TOKEN).expect("it is long enough"), 80)
    }

    fn headers(lines: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(": ").expect("a header");
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
            headers.append(name, HeaderValue::from_str(value).expect("a value"));
        }
        headers
    }

    #[test]
    fn only_its_own_addresses() {
        for (lines, is_own) in [
            (&["host: 127.0.0.1:80"][..], true),
            (&["host: LOCALHOST:80"], true),
            (&["host: [::1]:80"], true),
            (&["host: 127.0.0.1:81"], false),
            (&["host: evil.example"], false),
            (&["host: evil.example:80"], false),
            (&["host: 127.0.0.1:80", "host: evil.example"], false),
            (&[], false),
        ] {
            assert_eq!(guard().check_host(&headers(lines)).is_ok(), is_own, "{lines:?}");
        }
    }

    #[test]
    fn a_client_knows_the_token_and_is_the_page_itself() {
        let cookie = "cookie: a=b; ensemble-80=abcdefghijklmnop";
        let (host, own) = ("host: localhost:80", "origin: http://localhost:80");
        let bearer = "authorization: Bearer abcdefghijklmnop";
        for (method, lines, status) in [
            (Method::GET, &[host, cookie][..], 200),
            (Method::GET, &[host, bearer], 200),
            (Method::POST, &[host, bearer], 200),
            (Method::POST, &[host, cookie, own], 200),
            (Method::POST, &[host, cookie], 403),
            (Method::GET, &[host], 401),
            (Method::GET, &[host, "cookie: ensemble-80=abcdefghijklmnoX"], 401),
            (Method::GET, &[host, "cookie: ensemble-81=abcdefghijklmnop"], 401),
            (Method::GET, &[host, "authorization: Basic abcdefghijklmnop"], 401),
            (Method::GET, &[host, cookie, "origin: http://127.0.0.1:80"], 403),
            (Method::GET, &[host, cookie, "origin: https://localhost:80"], 403),
            (Method::GET, &[host, cookie, "origin: null"], 403),
            (Method::GET, &[host, bearer, "origin: http://evil.example"], 403),
            (Method::GET, &[host, cookie, own, "origin: http://evil.example"], 403),
            (Method::GET, &[host, cookie, "sec-fetch-site: same-origin"], 200),
            (Method::GET, &[host, cookie, "sec-fetch-site: none"], 200),
            (Method::GET, &[host, cookie, "sec-fetch-site: same-site"], 403),
            (Method::GET, &[host, cookie, "sec-fetch-site: cross-site"], 403),
        ] {
            let found = guard().check_origin_and_token(&method, &headers(lines));
            let found = found.map_or_else(|refusal| refusal.status.as_u16(), |()| 200);
            assert_eq!(found, status, "{method} {lines:?}");
        }
    }

    #[test]
    fn the_cookie_is_only_for_the_token() {
        let cookie = guard().cookie_for_valid_token(TOKEN).expect("the token");
        assert_eq!(
            cookie,
            "ensemble-80=abcdefghijklmnop; Path=/; HttpOnly; SameSite=Strict"
        );
        assert!(guard().cookie_for_valid_token("abcdefghijklmnoX").is_err());
    }
}
