//! The files that a permitted call may read or write without another request.
//!
//! Invariant: a permission covers what was shown, once. A write has the text of a diff that was shown, and replaces the text
//! that this diff removed; a permission to read covers no write.

use std::path::PathBuf;

/// Permission for one read or one write of a file whose content was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FilePermission {
    /// One read of the file.
    Read(PathBuf),
    /// One write of the file, with the digests of its text before and after.
    Write {
        path: PathBuf,
        before: String,
        after: String,
    },
}

/// Unused file permissions of the calls that have not ended. Each permits one read or one write.
#[derive(Debug, Default)]
pub(super) struct OneTimeFilePermissions(Vec<(String, FilePermission)>);

impl OneTimeFilePermissions {
    /// Adds the file permissions of a call.
    pub(super) fn add_call(&mut self, call: &str, files: Vec<FilePermission>) {
        self.0.extend(files.into_iter().map(|file| (call.to_owned(), file)));
    }

    /// Removes the file permissions of a call that has ended.
    pub(super) fn remove_call_permissions(&mut self, call: &str) {
        self.0.retain(|(of, _)| of != call);
    }

    /// Removes the permission for this access. Returns whether there was one.
    pub(super) fn use_permission(&mut self, wanted: &FilePermission) -> bool {
        let position = self.0.iter().position(|(_, file)| file == wanted);
        position.map(|at| self.0.swap_remove(at)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &str, after: &str) -> FilePermission {
        FilePermission::Write {
            path: path.into(),
            before: "0".to_owned(),
            after: after.to_owned(),
        }
    }

    #[test]
    fn a_permission_covers_what_was_shown_once() {
        let mut files = OneTimeFilePermissions::default();
        files.add_call("c", vec![write("a", "1"), FilePermission::Read("b".into())]);
        for other in [
            write("a", "2"),
            write("b", "1"),
            FilePermission::Read("a".into()),
            FilePermission::Write {
                path: "a".into(),
                before: "9".to_owned(),
                after: "1".to_owned(),
            },
        ] {
            assert!(!files.use_permission(&other), "{other:?}");
        }
        assert!(files.use_permission(&write("a", "1")));
        assert!(!files.use_permission(&write("a", "1")), "once");
        files.remove_call_permissions("c");
        assert!(
            !files.use_permission(&FilePermission::Read("b".into())),
            "the call has ended"
        );
    }
}
