//! Listens on the loopback interface, and serves each connection on a thread of its own: readers of the page take no time from
//! the thread that drives runs.
//!
//! Invariant: it listens on the loopback interface only.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use ensemble_wire::connections::{ConnectionLimits, ConnectionRequestHandler, serve_connections_forever};
use ensemble_wire::token::AccessToken;

use crate::app::{UiServerSettings, UiServerState};
use crate::route::answer_request;

/// Port that is used unless another one is requested or a process has it.
const DEFAULT_PORT: u16 = 7357;
const CONNECTION_LIMITS: ConnectionLimits = ConnectionLimits {
    admitted: 768,
    waiting: 256,
    head_timeout: Duration::from_secs(30),
};

/// Server of the page that is bound to its address.
pub struct UiServer {
    listener: TcpListener,
    address: SocketAddr,
    token: AccessToken,
    app: Arc<UiServerState>,
}

impl UiServer {
    /// Binds the address. Uses another port if a process has the default one.
    ///
    /// # Errors
    /// The address is not one of the loopback interface, or somebody has the port.
    pub fn bind_address(settings: UiServerSettings) -> io::Result<Self> {
        if !settings.address.is_loopback() {
            let message = format!("{} is not a loopback address, such as 127.0.0.1", settings.address);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let bind = |port| TcpListener::bind((settings.address, port));
        let listener = match settings.port {
            Some(port) => bind(port)?,
            None => bind(DEFAULT_PORT).or_else(|_| bind(0))?,
        };
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self {
            listener,
            address,
            token: settings.token.clone(),
            app: Arc::new(UiServerState::new(settings, address.port())),
        })
    }

    /// Returns the URL with the token, for a browser.
    pub fn link_with_token(&self) -> String {
        format!("{}/#token={}", self.server_origin(), self.token.as_str())
    }

    /// Returns the origin, such as `http://127.0.0.1:7357`.
    pub fn server_origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves on a separate thread until the process exits.
    ///
    /// # Errors
    /// The thread or its runtime cannot be started.
    pub fn serve_on_thread(self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let serve = move || {
            runtime.block_on(async {
                // The listener is registered with the runtime of this thread.
                if let Ok(listener) = tokio::net::TcpListener::from_std(self.listener) {
                    serve_connections_forever(listener, CONNECTION_LIMITS, responder(self.app)).await;
                }
            });
        };
        std::thread::Builder::new().name("page".into()).spawn(serve)?;
        Ok(())
    }
}

/// Creates the function that answers requests.
fn responder(app: Arc<UiServerState>) -> ConnectionRequestHandler {
    Arc::new(move |request| Box::pin(answer_request(Arc::clone(&app), request)))
}
