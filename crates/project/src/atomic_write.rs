//! Replacement of the text of files as a whole, and creation of files.
//!
//! The new text is written next to the file and replaces the file by a rename, so that an interruption leaves the old or the new text. A link
//! stays a link, and the permissions stay. Of several files, all are replaced or none, unless the process is killed between two renames.
//!
//! Invariant: a file whose text is not the expected text stays, and then the other files stay as well. An interruption leaves the old or
//! the new text of a file. A link that is created after a path was resolved cannot redirect a write.

#![expect(clippy::disallowed_methods, reason = "files of the user are written here")]

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::open_folder::LinkFreeFolder;

/// Error in the replacement of a file. The file is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileReplaceError {
    /// The text differs from the text that the caller has read.
    #[error("it has changed since it was read")]
    Changed,
    /// The file must not be written.
    #[error("it is read-only")]
    ReadOnly,
    /// The operating system refuses the replacement.
    #[error("{0}")]
    Refused(String),
}

impl From<io::Error> for FileReplaceError {
    fn from(error: io::Error) -> Self {
        Self::Refused(error.to_string())
    }
}

/// File with its old text and its new text.
#[derive(Debug, Clone, Copy)]
pub struct FileReplacement<'t> {
    /// Path of the file.
    pub path: &'t Path,
    /// Text that the caller has read.
    pub old_text: &'t str,
    /// New text.
    pub new_text: &'t str,
}

/// Error in the replacement of several files. No file is replaced, except those in `replaced_files`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesReplaceError {
    /// Index of the file that caused the error.
    pub at: usize,
    /// Error of this file.
    pub error: FileReplaceError,
    /// Indices of files that keep their new texts, because their old texts could not be restored.
    pub replaced_files: Vec<usize>,
}

/// Replaces the text `before` of a file by `after`.
///
/// # Errors
/// The file cannot be written, or its text differs from `before`.
pub fn replace_file_if_unchanged(path: &Path, before: &str, after: &str) -> Result<(), FileReplaceError> {
    let file = FileReplacement {
        path,
        old_text: before,
        new_text: after,
    };
    stage_and_rename_all(None, &[file], &mut LinkFreeFolder::rename_entry).map_err(|none| none.error)
}

/// Replaces the texts of several files inside the folder `root`, or none of them. A path can contain links that lead to another
/// place inside `root`. A link that is created meanwhile is not followed.
///
/// All texts are on the disk before the first replacement, so that one rename for each file remains. If a rename fails, the old
/// texts of the earlier files are restored.
///
/// # Errors
/// A file is outside of the folder or cannot be written, or its text differs from the old text.
pub fn replace_files_if_unchanged(root: &Path, files: &[FileReplacement<'_>]) -> Result<(), FilesReplaceError> {
    stage_and_rename_all(Some(root), files, &mut LinkFreeFolder::rename_entry)
}

/// Function that renames a file within its folder.
type RenameInFolder<'r> = &'r mut dyn FnMut(&LinkFreeFolder, &OsStr, &OsStr) -> io::Result<()>;

/// Stages all texts, checks that no file has changed, and renames all files. Restores the old texts if a rename fails.
/// If `root` is set, all files must be inside of this folder.
fn stage_and_rename_all(
    root: Option<&Path>,
    files: &[FileReplacement<'_>],
    rename: RenameInFolder<'_>,
) -> Result<(), FilesReplaceError> {
    let none = |(at, why)| FilesReplaceError {
        at,
        error: why,
        replaced_files: Vec::new(),
    };
    let numbered = || files.iter().enumerate();
    let staged_results = numbered()
        .map(|(at, file)| StagedFile::stage_replacement(root, file, files.len() > 1).map_err(|why| (at, why)));
    let staged_files = staged_results.collect::<Result<Vec<_>, _>>().map_err(none)?;
    for (at, file) in numbered() {
        staged_files[at].check_unchanged(file).map_err(|why| none((at, why)))?;
    }
    for (at, file) in numbered() {
        let staged_file = &staged_files[at];
        let rename_result = staged_file
            .check_unchanged(file)
            .and_then(|()| Ok(rename(&staged_file.folder, &staged_file.new, &staged_file.target)?));
        if let Err(error) = rename_result {
            let unrestored_indices =
                (0..at).filter(|before| !staged_files[*before].restore_old_text(&files[*before], rename));
            let replaced_files = unrestored_indices.collect();
            return Err(FilesReplaceError {
                at,
                error,
                replaced_files,
            });
        }
    }
    Ok(())
}

/// New text of a file in a temporary file next to the file, and its old text. Temporary files are removed on drop.
struct StagedFile {
    /// Folder of all three files, which stays the same folder even if its path changes.
    folder: LinkFreeFolder,
    target: OsString,
    new: OsString,
    old: Option<OsString>,
}

impl StagedFile {
    /// Writes the new text, and with `keeps_old` the old text, to temporary files next to the file.
    fn stage_replacement(
        root: Option<&Path>,
        file: &FileReplacement<'_>,
        keeps_old: bool,
    ) -> Result<Self, FileReplaceError> {
        let path = file.path.canonicalize()?;
        if let Some(root) = root {
            check_inside(root, &path)?;
        }
        let in_no_folder = || FileReplaceError::Refused("its path has no folder".to_owned());
        let folder = LinkFreeFolder::open_without_links(path.parent().ok_or_else(in_no_folder)?)?;
        let target = path.file_name().ok_or_else(in_no_folder)?.to_owned();
        let permissions = folder.open_file(&target)?.metadata()?.permissions();
        if permissions.readonly() {
            return Err(FileReplaceError::ReadOnly);
        }
        let shown_name = target.to_string_lossy();
        let beside = |end: &str| OsString::from(format!(".{shown_name}.{}.{end}", std::process::id()));
        let (new, old) = (beside("fix"), keeps_old.then(|| beside("old")));
        write_synced_file(&folder, &new, file.new_text, &permissions)?;
        let mut staged_file = Self {
            folder,
            target,
            new,
            old: None,
        };
        if let Some(old) = old {
            write_synced_file(&staged_file.folder, &old, file.old_text, &permissions)?;
            staged_file.old = Some(old);
        }
        Ok(staged_file)
    }

    /// Checks that the text of the file is still the text that the caller has read.
    fn check_unchanged(&self, file: &FileReplacement<'_>) -> Result<(), FileReplaceError> {
        match self.folder.read_file(&self.target)? == file.old_text.as_bytes() {
            true => Ok(()),
            false => Err(FileReplaceError::Changed),
        }
    }

    /// Restores the old text if the file has the new text. Returns `false` if the file still has the new text.
    fn restore_old_text(&self, file: &FileReplacement<'_>, rename: RenameInFolder<'_>) -> bool {
        let text = self.folder.read_file(&self.target);
        let is_new = text.is_ok_and(|text| text == file.new_text.as_bytes());
        let old = self.old.as_ref().filter(|_| is_new);
        old.is_none_or(|old| rename(&self.folder, old, &self.target).is_ok())
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        for name in self.old.iter().chain([&self.new]) {
            // Whatever was renamed is not there any more.
            let _ = self.folder.remove_file(name);
        }
    }
}

/// Checks that a path without links is inside the folder.
fn check_inside(root: &Path, path: &Path) -> io::Result<()> {
    match path.starts_with(root.canonicalize()?) {
        true => Ok(()),
        false => Err(io::Error::other("it is outside of the folder")),
    }
}

/// Writes a new file, and creates the folders above.
///
/// # Errors
/// The file exists, or the operating system refuses the file. Nothing remains of the file then.
pub fn create_file(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = LinkFreeFolder::open_without_links(&folder.unwrap_or(Path::new(".")).canonicalize()?)?;
    fill_or_remove_file(&folder, name, &folder.create_file(name)?, text)
}

/// Writes new files inside the folder `root` in this order, or none of them. A link that is created meanwhile is not followed.
///
/// # Errors
/// See [`create_file`]; or a file is outside of the folder. The error contains the index of the file. Created folders stay.
pub fn create_files(root: &Path, files: &[(PathBuf, &str)]) -> Result<(), (usize, io::Error)> {
    let mut created: Vec<(LinkFreeFolder, &OsStr)> = Vec::new();
    for (at, (path, text)) in files.iter().enumerate() {
        match create_file_inside(root, path, text) {
            Ok(file) => created.push(file),
            Err(error) => {
                for (folder, name) in created {
                    let _ = folder.remove_file(name);
                }
                return Err((at, error));
            }
        }
    }
    Ok(())
}

/// Writes a new file inside the folder `root`, and creates missing folders. Returns the open folder and the name of the file.
fn create_file_inside<'p>(root: &Path, path: &'p Path, text: &str) -> io::Result<(LinkFreeFolder, &'p OsStr)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut missing: Vec<&OsStr> = Vec::new();
    let mut nearest = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    while nearest.symlink_metadata().is_err() {
        missing.push(nearest.file_name().ok_or(io::ErrorKind::InvalidInput)?);
        nearest = nearest.parent().ok_or(io::ErrorKind::InvalidInput)?;
    }
    let nearest = nearest.canonicalize()?;
    check_inside(root, &nearest)?;
    let mut folder = LinkFreeFolder::open_without_links(&nearest)?;
    for name in missing.into_iter().rev() {
        folder = folder.open_or_create_child(name)?;
    }
    fill_or_remove_file(&folder, name, &folder.create_file(name)?, text)?;
    Ok((folder, name))
}

/// Writes the text into a new file. Removes the file if the write fails.
fn fill_or_remove_file(folder: &LinkFreeFolder, name: &OsStr, mut file: &File, text: &str) -> io::Result<()> {
    let write_result = file.write_all(text.as_bytes());
    write_result.inspect_err(|_| drop(folder.remove_file(name)))
}

/// Writes a new file with these permissions, and waits until the text is on the disk. Removes the file after an error.
fn write_synced_file(folder: &LinkFreeFolder, name: &OsStr, text: &str, permissions: &Permissions) -> io::Result<()> {
    let file = folder.create_file(name)?;
    fill_or_remove_file(folder, name, &file, text)?;
    let finished = file.set_permissions(permissions.clone()).and_then(|()| file.sync_all());
    finished.inspect_err(|_| drop(folder.remove_file(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_changed_meanwhile_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.yaml");
        std::fs::write(&path, "theirs").expect("written");
        assert_eq!(
            replace_file_if_unchanged(&path, "old", "new"),
            Err(FileReplaceError::Changed)
        );
        assert_eq!(std::fs::read_to_string(&path).expect("text"), "theirs");
        replace_file_if_unchanged(&path, "theirs", "new").expect("written");
        assert_eq!(std::fs::read_to_string(&path).expect("text"), "new");
        let left = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 1, "nothing is left beside it");
    }

    #[test]
    fn files_are_created_all_or_none_and_never_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let [one, two, three] = ["in/1", "in/2", "3"].map(|name| folder.path().join(name));
        std::fs::write(&three, "theirs").expect("written");
        let all = [(one.clone(), "one"), (two.clone(), "two"), (three.clone(), "three")];
        let (at, error) = create_files(folder.path(), &all).expect_err("one is there");
        assert_eq!((at, error.kind()), (2, std::io::ErrorKind::AlreadyExists));
        assert!(!one.exists() && !two.exists());
        assert_eq!(std::fs::read_to_string(&three).expect("text"), "theirs");
        std::fs::remove_file(&three).expect("removed");
        // A link that leads nowhere is not followed.
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("nowhere", &three).expect("a link");
            assert_eq!(create_files(folder.path(), &all).expect_err("one is there").0, 2);
            assert!(!folder.path().join("nowhere").exists());
            std::fs::remove_file(&three).expect("removed");
        }
        create_files(folder.path(), &all).expect("written");
        assert_eq!(std::fs::read_to_string(&two).expect("text"), "two");
    }

    #[test]
    fn a_folder_that_becomes_a_link_leads_no_write_outside() {
        let folder = tempfile::tempdir().expect("a folder");
        let [root, outside] = ["root", "outside"].map(|name| folder.path().join(name));
        std::fs::create_dir_all(root.join("in")).expect("a folder");
        std::fs::create_dir(&outside).expect("a folder");
        for place in [root.join("in"), outside.clone()] {
            std::fs::write(place.join("x.yaml"), "old").expect("written");
        }
        let text = |path: PathBuf| std::fs::read_to_string(path).expect("text");
        let path = root.join("in/x.yaml");
        let replacement = [FileReplacement {
            path: &path,
            old_text: "old",
            new_text: "new",
        }];
        // Between the last check and the rename, the folder is replaced by a link.
        let result = stage_and_rename_all(Some(&root), &replacement, &mut |folder, from, to| {
            std::fs::rename(root.join("in"), root.join("moved"))?;
            std::os::unix::fs::symlink(&outside, root.join("in"))?;
            folder.rename_entry(from, to)
        });
        assert_eq!(result, Ok(()));
        assert_eq!(text(outside.join("x.yaml")), "old");
        assert_eq!(text(root.join("moved/x.yaml")), "new");
        // The link is there from the beginning.
        let error = replace_files_if_unchanged(&root, &replacement)
            .expect_err("it leads outside")
            .error;
        assert_eq!(
            error,
            FileReplaceError::Refused("it is outside of the folder".to_owned())
        );
        let (_, error) = create_files(&root, &[(root.join("in/new/y.yaml"), "new")]).expect_err("it leads outside");
        assert_eq!(error.to_string(), "it is outside of the folder");
        assert_eq!(
            std::fs::read_dir(&outside).expect("a folder").count(),
            1,
            "nothing is new there"
        );
        // A link that leads to another place inside is followed.
        std::os::unix::fs::symlink("moved", root.join("inside")).expect("a link");
        create_files(&root, &[(root.join("inside/new/y.yaml"), "new")]).expect("it is inside");
        assert_eq!(text(root.join("moved/new/y.yaml")), "new");
    }

    /// Files that contain `1`, `2`, …, and what `place_all` comes to if the renames with these numbers fail.
    fn placed(
        files: usize,
        failing: &[usize],
        change: impl FnOnce(&Path),
    ) -> (Result<(), FilesReplaceError>, Vec<String>) {
        let folder = tempfile::tempdir().expect("a folder");
        let paths: Vec<PathBuf> = (1..=files).map(|at| folder.path().join(format!("{at}.yaml"))).collect();
        let texts: Vec<(String, String)> = (1..=files).map(|at| (at.to_string(), format!("new {at}"))).collect();
        for (path, (text, _)) in paths.iter().zip(&texts) {
            std::fs::write(path, text).expect("written");
        }
        change(folder.path());
        let of = |(path, (before, after)): (&'_ PathBuf, &'_ (String, String))| {
            (path.clone(), before.clone(), after.clone())
        };
        let owned: Vec<_> = paths.iter().zip(&texts).map(of).collect();
        let all: Vec<FileReplacement<'_>> = owned
            .iter()
            .map(|(path, before, after)| FileReplacement {
                path,
                old_text: before,
                new_text: after,
            })
            .collect();
        let mut count = 0;
        let result = stage_and_rename_all(Some(folder.path()), &all, &mut |folder, from, to| {
            count += 1;
            match failing.contains(&count) {
                true => Err(std::io::Error::other("no")),
                false => folder.rename_entry(from, to),
            }
        });
        let left = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, files, "nothing is left beside them");
        let text = |path: &PathBuf| std::fs::read_to_string(path).unwrap_or_else(|_| "a folder".to_owned());
        (result, paths.iter().map(text).collect())
    }

    #[test]
    fn all_files_are_replaced_or_none() {
        let refused = |at, left: &[usize]| {
            let why = FileReplaceError::Refused("no".to_owned());
            Err(FilesReplaceError {
                at,
                error: why,
                replaced_files: left.to_vec(),
            })
        };
        let none = |_: &Path| {};
        assert_eq!(
            placed(3, &[], none),
            (Ok(()), ["new 1", "new 2", "new 3"].map(str::to_owned).to_vec())
        );
        for failing in 1..=3 {
            let (result, texts) = placed(3, &[failing], none);
            assert_eq!(result, refused(failing - 1, &[]));
            assert_eq!(texts, ["1", "2", "3"], "rename {failing}");
        }
        let (result, texts) = placed(3, &[3, 4], none);
        assert_eq!(
            (result, texts),
            (refused(2, &[0]), ["new 1", "2", "3"].map(str::to_owned).to_vec())
        );
    }

    #[test]
    fn what_is_in_the_way_of_the_last_file_is_seen_before_the_first_one_is_replaced() {
        let changed = |folder: &Path| std::fs::write(folder.join("3.yaml"), "theirs").expect("written");
        let (result, texts) = placed(3, &[1], changed);
        assert_eq!(result.expect_err("it was changed").error, FileReplaceError::Changed);
        assert_eq!(texts, ["1", "2", "theirs"]);
        let folder = |folder: &Path| {
            std::fs::remove_file(folder.join("3.yaml")).expect("removed");
            std::fs::create_dir(folder.join("3.yaml")).expect("a folder");
        };
        let (result, texts) = placed(3, &[1], folder);
        assert!(
            matches!(
                result,
                Err(FilesReplaceError {
                    at: 2,
                    error: FileReplaceError::Refused(_),
                    ..
                })
            ),
            "{result:?}"
        );
        assert_eq!(texts, ["1", "2", "a folder"]);
    }
}
