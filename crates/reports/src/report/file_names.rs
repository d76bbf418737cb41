//! File names in machine-readable formats: relative to the current folder, with forward slashes.
//!
//! A code hosting site finds annotations by the path in the repository, so `./a.yaml` and `/home/me/repo/a.yaml` must
//! both become `a.yaml`.

use std::path::{Component, Path};

/// Returns the name of a source relative to `folder`. A file outside of the folder keeps its full path.
pub(super) fn relative_path(name: &str, folder: &Path) -> String {
    let path = Path::new(name);
    let path = path.strip_prefix(folder).unwrap_or(path);
    let mut parts = Vec::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::RootDir => parts.push(String::new()),
            other => parts.push(other.as_os_str().to_string_lossy().into_owned()),
        }
    }
    parts.join("/")
}

/// Returns the name of a source as a URI: relative to `folder`, or `file:` with a full path.
pub(super) fn relative_uri(name: &str, folder: &Path) -> String {
    let path = relative_path(name, folder);
    let mut uri = if path.starts_with('/') {
        "file://".to_owned()
    } else {
        String::new()
    };
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_seen_from_the_folder() {
        let folder = Path::new("/repo");
        let rows = [
            ("a.yaml", "a.yaml", "a.yaml"),
            ("./e/a.yaml", "e/a.yaml", "e/a.yaml"),
            ("/repo/e/a.yaml", "e/a.yaml", "e/a.yaml"),
            ("/other/a.yaml", "/other/a.yaml", "file:///other/a.yaml"),
            ("../a.yaml", "../a.yaml", "../a.yaml"),
            ("é b:1.yaml", "é b:1.yaml", "%C3%A9%20b%3A1.yaml"),
            ("<stdin>", "<stdin>", "%3Cstdin%3E"),
        ];
        for (name, path, encoded) in rows {
            assert_eq!(
                (
                    relative_path(name, folder).as_str(),
                    relative_uri(name, folder).as_str()
                ),
                (path, encoded)
            );
        }
    }
}
