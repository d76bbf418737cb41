//! A record of all effects of the file store on the disk, for a test that omits effects without a sync.
//!
//! Only builds for tests record effects.

/// An effect on the disk that tests record.
#[cfg_attr(
    not(debug_assertions),
    expect(dead_code, reason = "only tests look at what is noted")
)]
#[derive(Debug, Clone, Copy)]
pub(crate) enum RecordedDiskEffect<'a> {
    /// A folder was made.
    Folder,
    /// An empty file was made.
    File,
    /// These bytes were added to the end of a file.
    Append(&'a [u8]),
    /// A file was cut to this length.
    Cut(u64),
    /// The content of a file, or the entries of a folder, are on the disk.
    Sync,
    /// A file got this name in its folder.
    Rename(&'a str),
    /// An entry was removed.
    Remove,
}

#[cfg(debug_assertions)]
mod recorded {
    use std::fs::File;
    use std::io::{self, Write};
    use std::path::Path;
    use std::sync::OnceLock;

    use serde_json::{Value, json};

    use super::RecordedDiskEffect;

    static RECORD: OnceLock<File> = OnceLock::new();

    /// Records every later effect as a line of JSON in this file. Only the first call has an effect.
    ///
    /// # Errors
    ///
    /// The file cannot be created.
    #[expect(clippy::disallowed_methods, reason = "a record for tests is a file")]
    pub fn start_recording_effects(path: &Path) -> io::Result<()> {
        let file = File::options().append(true).create(true).open(path)?;
        // The first one counts.
        let _ = RECORD.set(file);
        Ok(())
    }

    /// Appends the effect on this path to the record, if effects are recorded.
    pub(crate) fn record_disk_effect(path: &Path, effect: RecordedDiskEffect<'_>) {
        let Some(mut file) = RECORD.get() else { return };
        let (name, value) = match effect {
            RecordedDiskEffect::Folder => ("folder", Value::Null),
            RecordedDiskEffect::File => ("file", Value::Null),
            RecordedDiskEffect::Append(bytes) => ("append", String::from_utf8_lossy(bytes).into()),
            RecordedDiskEffect::Cut(length) => ("cut", length.into()),
            RecordedDiskEffect::Sync => ("sync", Value::Null),
            RecordedDiskEffect::Rename(name) => ("rename", name.into()),
            RecordedDiskEffect::Remove => ("remove", Value::Null),
        };
        let mut line = json!({"effect": name, "path": path, "value": value}).to_string();
        line.push('\n');
        file.write_all(line.as_bytes()).expect("the record can be written");
    }
}

#[cfg(debug_assertions)]
pub(crate) use recorded::record_disk_effect;
#[cfg(debug_assertions)]
pub use recorded::start_recording_effects;

#[cfg(not(debug_assertions))]
#[inline(always)]
pub(crate) fn record_disk_effect(_path: &std::path::Path, _effect: RecordedDiskEffect<'_>) {}
