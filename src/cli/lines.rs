//! Lines of standard input, read one at a time, when somebody wants one.

use std::sync::{Arc, mpsc};

use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Standard input, shared by all who ask.
#[derive(Clone, Default)]
pub(super) struct Lines(Arc<Mutex<Option<Reader>>>);

struct Reader {
    wanted: mpsc::Sender<()>,
    typed: UnboundedReceiver<String>,
    /// A line was asked for and has not come.
    pending: bool,
}

impl Lines {
    /// The next line, without its end; nothing at the end of the input. One who asks waits for whoever asked before.
    /// If the future is dropped, the line is there for whoever asks next.
    pub(super) async fn next(&self) -> Option<String> {
        let mut reader = self.0.lock().await;
        reader.get_or_insert_with(Reader::open).next().await
    }
}

impl Reader {
    /// Starts the thread that reads. It reads only when asked to, so that nothing is taken from who comes after.
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
