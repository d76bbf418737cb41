//! Threads in files.
//!
//! This module reads and writes files. Invariant: a thread that is saved replaces the file in one step, so a crash leaves the old
//! thread or the new one.

#![expect(clippy::disallowed_methods, reason = "this room reads and writes saved threads")]

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ensemble_core::thread::{SavedThreadError, Thread};

/// Methods of a [`Thread`] that read and write files.
///
/// ```
/// use ensemble_agents::agent::chat::{Dialogue, Thread, ThreadFile};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = std::env::temp_dir().join(format!("ensemble-thread-{}.json", std::process::id()));
/// let dialogue = Dialogue::with_simulated_replies(["Sunny.", "Rain."]);
/// dialogue.say(Thread::default(), "Paris today?").await?.thread.save(&path)?;
///
/// let tomorrow = dialogue.say(Thread::load(&path)?, "And tomorrow?").await?;
/// assert_eq!(tomorrow.thread.iterations().len(), 2);
/// # std::fs::remove_file(&path)?;
/// # Ok(())
/// # }
/// ```
pub trait ThreadFile: Sized {
    /// Writes the thread to the file, as [`Thread::to_json`] does. Only the owner of a new file can read it.
    ///
    /// # Errors
    /// The file cannot be written.
    fn save(&self, path: impl AsRef<Path>) -> Result<(), ThreadFileError>;

    /// Loads a thread that [`save`](ThreadFile::save) has written.
    ///
    /// # Errors
    /// The file cannot be read, or is not a saved thread.
    fn load(path: impl AsRef<Path>) -> Result<Self, ThreadFileError>;
}

/// Error in reading or writing a thread file.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum ThreadFileError {
    /// The file cannot be read or written.
    #[error("cannot {action} `{}`: {source}", path.display())]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file is not a saved thread.
    #[error("`{}`: {source}", path.display())]
    Thread {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: SavedThreadError,
    },
}

impl ThreadFile for Thread {
    fn save(&self, path: impl AsRef<Path>) -> Result<(), ThreadFileError> {
        let path = path.as_ref();
        replace_file_atomically(path, &self.to_json()).map_err(|source| ThreadFileError::File {
            action: "write",
            path: path.to_owned(),
            source,
        })
    }

    fn load(path: impl AsRef<Path>) -> Result<Self, ThreadFileError> {
        let path = path.as_ref();
        let text = fs::read_to_string(path).map_err(|source| ThreadFileError::File {
            action: "read",
            path: path.to_owned(),
            source,
        })?;
        Self::from_json(&text).map_err(|source| ThreadFileError::Thread {
            path: path.to_owned(),
            source,
        })
    }
}

/// Writes the text to a new file beside the path, and renames it to the path.
fn replace_file_atomically(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = path.with_file_name(name);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(&new).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    let replaced = written.and_then(|()| fs::rename(&new, path));
    if replaced.is_err() {
        let _ = fs::remove_file(&new);
    }
    replaced
}
