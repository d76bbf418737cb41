//! Listens on the loopback interface, and serves each connection on a thread of its own: readers of the page take no time from
//! the thread that drives runs.
//!
//! Invariant: it listens on the loopback interface only.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;

use crate::app::{App, Settings};
use crate::route::answer;
use crate::token::Token;

/// The port, unless another is asked for or somebody has it.
const PORT: u16 = 7357;
/// Most connections at a time.
const CONNECTIONS: usize = 1024;
/// The time in which a client must send the head of a request.
const HEAD: Duration = Duration::from_secs(30);

/// A server that has its address.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    token: Token,
    app: Arc<App>,
}

impl Server {
    /// Takes the address.
    ///
    /// # Errors
    /// The address is not one of the loopback interface, or somebody has the port.
    pub fn bind(settings: Settings) -> io::Result<Self> {
        if !settings.address.is_loopback() {
            let message = format!("{} is not an address of this machine alone", settings.address);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let bind = |port| TcpListener::bind((settings.address, port));
        let listener = match settings.port {
            Some(port) => bind(port)?,
            None => bind(PORT).or_else(|_| bind(0))?,
        };
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(Self {
            listener,
            address,
            token: settings.token.clone(),
            app: Arc::new(App::new(settings, address.port())),
        })
    }

    /// The address with the token, for a browser.
    pub fn link(&self) -> String {
        format!("{}/#token={}", self.origin(), self.token.as_str())
    }

    /// The address, such as `http://127.0.0.1:7357`.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Serves on a thread of its own, as long as the process lives.
    ///
    /// # Errors
    /// The thread or its runtime cannot be started.
    pub fn serve(self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let serve = move || {
            runtime.block_on(async {
                // The listener is registered with the runtime of this thread.
                if let Ok(listener) = tokio::net::TcpListener::from_std(self.listener) {
                    accept(listener, self.app).await;
                }
            });
        };
        std::thread::Builder::new().name("page".into()).spawn(serve)?;
        Ok(())
    }
}

async fn accept(listener: tokio::net::TcpListener, app: Arc<App>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let Ok((stream, _)) = listener.accept().await else {
            // Too many open files, for example: others may end.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let app = Arc::clone(&app);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let app = Arc::clone(&app);
                async move { Ok::<_, Infallible>(answer(app, request).await) }
            });
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD);
            // A client that is gone is no error.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
            drop(place);
        });
    }
}
