//! Check of the requests that a worker answers: requests of an engine and of other workers, but not of browsers.
//!
//! Invariant: a request that a page of a browser can send is refused before its body is read.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{HOST, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, Request};

/// Check that refuses requests of browsers, before the check of the signature.
#[derive(Debug, Clone)]
pub struct BrowserRequestCheck {
    /// Set if the worker listens only to this machine, so that only names of this machine can lead to the worker.
    is_local: bool,
    /// Host at which other workers find the worker.
    advertised_host: Option<String>,
}

impl BrowserRequestCheck {
    /// Creates the check for a worker that listens at `address` and is advertised at the URL `advertised`.
    pub fn new(address: SocketAddr, advertised: Option<&str>) -> Self {
        let authority = advertised.and_then(|url| url.parse::<hyper::Uri>().ok());
        Self {
            is_local: address.ip().is_loopback(),
            advertised_host: authority.and_then(|url| url.host().map(str::to_owned)),
        }
    }

    /// Returns the reason to refuse the request. Returns `None` if the request is accepted.
    pub fn find_refusal<B>(&self, request: &Request<B>) -> Option<&'static str> {
        if is_from_browser(request.headers()) {
            return Some("a worker does not answer browsers");
        }
        let is_own = !self.is_local || find_host(request).is_some_and(|host| self.is_own_host_name(&host));
        (!is_own).then_some("this worker answers only at an address of its machine")
    }

    /// Returns whether the host is a name of this machine. A page can send requests to any name whose owner directs the name here.
    fn is_own_host_name(&self, host: &str) -> bool {
        let address = host.trim_start_matches('[').trim_end_matches(']');
        host.eq_ignore_ascii_case("localhost")
            || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
            || self
                .advertised_host
                .as_deref()
                .is_some_and(|own| own.eq_ignore_ascii_case(host))
    }
}

/// Returns whether a browser has sent the request. An engine sends none of these headers.
fn is_from_browser(headers: &HeaderMap) -> bool {
    let is_of_browser = |name: &str| name.starts_with("sec-") || name == "referer" || name == "cookie";
    headers.contains_key(ORIGIN) || headers.keys().any(|name| is_of_browser(name.as_str()))
}

/// Returns the host that the request was sent to, without the port. Returns `None` if the host is missing or ambiguous.
fn find_host<B>(request: &Request<B>) -> Option<String> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let header = match (hosts.next(), hosts.next()) {
        (_, Some(_)) => return None,
        (Some(host), None) => Some(host.to_str().ok()?.parse::<Authority>().ok()?),
        (None, None) => None,
    };
    let authority = request.uri().authority().cloned().or(header)?;
    Some(authority.host().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(check: &BrowserRequestCheck, headers: &[(&str, &str)]) -> Option<&'static str> {
        let request = headers.iter().fold(Request::builder(), |request, (name, value)| {
            request.header(*name, *value)
        });
        check.find_refusal(&request.body(()).expect("a request"))
    }

    #[test]
    fn a_browser_is_refused() {
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        for check in [
            BrowserRequestCheck::new(address("127.0.0.1:9080"), None),
            BrowserRequestCheck::new(address("0.0.0.0:9080"), None),
        ] {
            assert_eq!(refusal(&check, &[("host", "127.0.0.1:9080")]), None);
            for header in [
                ("origin", "http://evil.example"),
                ("origin", "null"),
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "no-cors"),
                ("sec-ch-ua", "x"),
                ("referer", "http://evil.example/"),
                ("cookie", "a=b"),
            ] {
                assert!(
                    refusal(&check, &[("host", "127.0.0.1:9080"), header]).is_some(),
                    "{header:?}"
                );
            }
        }
    }

    #[test]
    fn a_worker_of_this_machine_answers_at_names_of_this_machine() {
        let local = BrowserRequestCheck::new(
            "127.0.0.1:9080".parse().expect("an address"),
            Some("http://Worker.internal:9080"),
        );
        for host in [
            "127.0.0.1:9080",
            "localhost:9080",
            "LOCALHOST",
            "[::1]:9080",
            "127.0.0.2",
            "worker.internal:1",
        ] {
            assert_eq!(refusal(&local, &[("host", host)]), None, "{host}");
        }
        for host in [
            "evil.example:9080",
            "127.0.0.1.evil.example",
            "192.168.0.1",
            "localhost.",
            "a b",
            "",
        ] {
            assert!(refusal(&local, &[("host", host)]).is_some(), "{host}");
        }
        assert!(refusal(&local, &[]).is_some(), "no host");
        assert!(refusal(&local, &[("host", "localhost"), ("host", "evil.example")]).is_some());
        // The name of HTTP/2.
        let request = |uri: &str| Request::builder().uri(uri).body(()).expect("a request");
        assert_eq!(local.find_refusal(&request("http://127.0.0.1:9080/discover")), None);
        assert!(
            local
                .find_refusal(&request("http://evil.example:9080/discover"))
                .is_some()
        );
        let public = BrowserRequestCheck::new("0.0.0.0:9080".parse().expect("an address"), None);
        assert_eq!(refusal(&public, &[("host", "worker-3.internal")]), None);
    }
}
