//! The addresses of files.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use lsp_types::Uri;
use url::Url;

/// Converts a URI to a path. A text without a file gets a path in `folder` at which there is no file.
pub(super) fn path_from_uri(uri: &Uri, folder: &Path) -> PathBuf {
    let url = Url::parse(uri.as_str()).ok();
    let path = url.as_ref().filter(|url| url.scheme() == "file");
    let path = path.and_then(|url| url.to_file_path().ok());
    path.unwrap_or_else(|| folder.join("<untitled>"))
}

/// Returns the address of a file.
pub(super) fn uri_from_path(path: &Path) -> Option<Uri> {
    Uri::from_str(Url::from_file_path(path).ok()?.as_str()).ok()
}
