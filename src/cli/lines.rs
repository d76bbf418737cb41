//! Lines of standard input, read one at a time, only on demand.

use std::sync::{Arc, mpsc};

use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Standard input, shared by all readers.
#[derive(Clone, Default)]
pub(super) struct Lines(Arc<Mutex<Option<Reader>>>);

struct Reader {
    wanted: mpsc::Sender<()>,
    typed: UnboundedReceiver<String>,
    /// A line was requested and has not arrived.
    pending: bool,
}

impl Lines {
    /// The next line, without its line break; `None` at the end of the input. Requests are answered in order.
    /// If the future is dropped, the line stays available for the next request.
    pub(super) async fn next(&self) -> Option<String> {
        let mut reader = self.0.lock().await;
        reader.get_or_insert_with(Reader::open).next().await
    }
}

impl Reader {
    /// Starts the reading thread. It reads only on request, so that no input is taken from later readers.
    fn open() -> Self {
        let (wanted, asked) = mpsc::channel::<()>();
        let (sender, typed) = unbounded_channel();
        std::thread::spawn(move || {
            while asked.recv().is_ok() {
                let mut line = String::new();
                match std::io::stdin().read_line(&mut line) {
                    Ok(1..) if sender.send(line).is_ok() => {}
                    _ => return,
                }
            }
        });
        Self {
            wanted,
            typed,
            pending: false,
        }
    }

    async fn next(&mut self) -> Option<String> {
        if !self.pending && self.wanted.send(()).is_err() {
            return None;
        }
        self.pending = true;
        let line = self.typed.recv().await?;
        self.pending = false;
        Some(line.trim_end_matches(['\n', '\r']).to_owned())
    }
}
