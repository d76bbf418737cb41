//! The one home of HTTP clients: for models, MCP servers, collectors and engines.
//!
//! Invariant: a request to this machine goes through no proxy. A request over `https://` goes through a proxy as a tunnel
//! (`CONNECT`). So a key, which is sent over `http://` only to this machine, is never sent to a proxy.

use std::time::Duration;

use reqwest::{ClientBuilder, NoProxy, Proxy};

/// Time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Variables with the proxy for `http://`, in order of precedence.
const HTTP_PROXY_VARIABLES: [&str; 4] = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];

/// Variables with the proxy for `https://`, in order of precedence.
const HTTPS_PROXY_VARIABLES: [&str; 4] = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];

/// The variables with the hosts that are reached without a proxy.
const NO_PROXY_VARIABLES: [&str; 2] = ["no_proxy", "NO_PROXY"];

/// Hosts of this machine, which never need a proxy.
const DIRECT_HOSTS: &str = "localhost,127.0.0.0/8,::1";

/// Builds an HTTP client that uses the proxies of the environment and follows no redirects.
///
/// # Errors
/// The client cannot be made: the text says why.
pub fn build_http_client() -> Result<reqwest::Client, String> {
    let client = client_builder_with_environment_proxies()?.build();
    client.map_err(|error| format!("cannot create the HTTP client: {error}"))
}

/// Returns a builder of a client that follows no redirections, and uses the proxies of the environment for other machines.
///
/// # Errors
/// The variable of a proxy contains no address.
/// Creates a client builder with the proxies of the environment, without redirects.
#[expect(
    clippy::disallowed_methods,
    reason = "proxies are a matter of the machine, so they are read here and not from a run"
)]
pub fn client_builder_with_environment_proxies() -> Result<ClientBuilder, String> {
    client_builder_from_variables(&|name| std::env::var(name).ok())
}

/// Function that creates a proxy with this address for one scheme.
type ProxyConstructor = fn(&str) -> reqwest::Result<Proxy>;

/// Creates a client builder with the proxies in these variables. `variable` reads a variable.
fn client_builder_from_variables(variable: &dyn Fn(&str) -> Option<String>) -> Result<ClientBuilder, String> {
    // Somebody else in this process may have chosen one already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("ensemble/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        // A key must not follow a redirection to somebody else.
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy();
    let find = |names: &[&'static str]| {
        let set = names.iter().find_map(|name| Some((*name, variable(name)?)));
        set.filter(|(_, value)| !value.trim().is_empty())
    };
    let others = find(&NO_PROXY_VARIABLES).map(|(_, hosts)| format!(",{hosts}"));
    let direct_hosts = format!("{DIRECT_HOSTS}{}", others.unwrap_or_default());
    let schemes: [(_, ProxyConstructor); 2] = [
        (&HTTP_PROXY_VARIABLES, |address| Proxy::http(address)),
        (&HTTPS_PROXY_VARIABLES, |address| Proxy::https(address)),
    ];
    for (names, build_proxy) in schemes {
        if let Some((name, address)) = find(names) {
            // The address may contain a password, so it is not shown.
            let proxy = build_proxy(address.trim()).map_err(|_| format!("{name} is not the address of a proxy"))?;
            builder = builder.proxy(proxy.no_proxy(NoProxy::from_string(&direct_hosts)));
        }
    }
    Ok(builder)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A server that answers every connection with `204`, and counts them.
    async fn counting_server() -> (u16, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let count = Arc::<AtomicUsize>::default();
        let counted = count.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let mut request = [0; 1024];
                let _ended = stream.read(&mut request).await;
                let _ended = stream
                    .write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
                    .await;
            }
        });
        (port, count)
    }

    #[tokio::test]
    async fn requests_to_this_machine_go_through_no_proxy() {
        let (proxy, through) = counting_server().await;
        let (server, reached) = counting_server().await;
        let elsewhere = |scheme: &str| format!("{scheme}://somewhere.invalid:{server}/");
        let both = ["http", "https", "all"];
        let rows: [(String, &str, &[&str], usize); 9] = [
            (format!("http://127.0.0.1:{server}/"), "", &[], 1),
            (format!("http://127.9.8.7:{server}/"), "", &[], 0),
            (format!("http://localhost:{server}/"), "", &[], 1),
            (format!("http://[::1]:{server}/"), "", &[], 0),
            (format!("https://127.0.0.1:{server}/"), "", &[], 1),
            (elsewhere("http"), "", &["http", "all"], 1),
            (elsewhere("https"), "", &["https", "all"], 1),
            (elsewhere("https"), "somewhere.invalid", &[], 1),
            (elsewhere("https"), "other.invalid", &["https", "all"], 1),
        ];
        for name in both
            .iter()
            .flat_map(|name| [format!("{name}_proxy"), format!("{}_PROXY", name.to_uppercase())])
        {
            let kind = name.to_lowercase();
            for (url, no_proxy, proxied_by, direct) in &rows {
                through.store(0, Ordering::SeqCst);
                reached.store(0, Ordering::SeqCst);
                let variable = |wanted: &str| match wanted {
                    "NO_PROXY" => Some((*no_proxy).to_owned()),
                    _ => (wanted == name).then(|| format!("http://127.0.0.1:{proxy}")),
                };
                let builder = client_builder_from_variables(&variable).expect("an address");
                let here = std::net::SocketAddr::from(([127, 0, 0, 1], server));
                let client = builder.resolve("somewhere.invalid", here).build().expect("a client");
                let _refused_or_not = client.get(url).send().await;
                let is_proxied = proxied_by.iter().any(|by| kind == format!("{by}_proxy"));
                let expected = if is_proxied { (1, 0) } else { (0, *direct) };
                let found = (
                    through.load(Ordering::SeqCst).min(1),
                    reached.load(Ordering::SeqCst).min(1),
                );
                assert_eq!(found, expected, "{name} {url} {no_proxy}");
            }
        }
        let wrong =
            client_builder_from_variables(&|name| (name == "ALL_PROXY").then(|| "user:pass1word@:x".to_owned()));
        let error = wrong.expect_err("no address");
        assert_eq!(error, "ALL_PROXY is not the address of a proxy");
    }
}
