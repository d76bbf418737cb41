//! `attachments` of an LLM agent: files that are sent with its prompt.

use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use sha2::Digest as _;

use super::build_error::{RunnerBuildError, compile_optional_template};
use ensemble_core::thread::Attachment;
use ensemble_language::template::{Template, TemplateScope};
use ensemble_process::program::ScriptFolders;
use ensemble_scripts::regular_files;
use ensemble_scripts::template_worker;

/// The maximum size of all attachments of one execution, in bytes: 20 MiB.
pub const MAX_ATTACHMENT_BYTES: u64 = 20 << 20;

/// Compiled paths of attachments, with the folders that must contain the files.
pub(super) struct AttachmentTemplates {
    paths: Vec<(String, Option<Template>)>,
    places: Option<ScriptFolders>,
}

impl AttachmentTemplates {
    /// Compiles the paths that contain templates.
    ///
    /// # Errors
    /// A path is not a template.
    pub(super) fn compile_paths(paths: &[String], places: Option<ScriptFolders>) -> Result<Self, RunnerBuildError> {
        let compile = |(at, path): (usize, &String)| {
            let is_template = path.contains('{');
            let template = Some(path.as_str()).filter(|_| is_template);
            Ok((
                path.clone(),
                compile_optional_template(&format!("attachments[{at}]"), template)?,
            ))
        };
        let paths = paths.iter().enumerate().map(compile);
        Ok(Self {
            paths: paths.collect::<Result<_, RunnerBuildError>>()?,
            places,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Renders the paths and resolves the files of an execution, in order.
    ///
    /// Files from a template must be inside the folder of the ensemble or the project root.
    pub(super) async fn resolve_files(&self, scope: &TemplateScope) -> Result<Vec<AttachmentSource>, String> {
        let places = self.places.as_ref().ok_or("attachments need an ensemble file")?;
        let mut files = Vec::new();
        for (at, (path, template)) in self.paths.iter().enumerate() {
            let Some(template) = template else {
                files.push(AttachmentSource::resolve(path, places, false));
                continue;
            };
            let value = template_worker::render_value_async(template, scope)
                .await
                .map_err(|error| format!("attachments[{at}]: {error}"))?;
            for path in
                parse_attachment_paths(&value).ok_or_else(|| format!("attachments[{at}]: {value} is not a path"))?
            {
                files.push(AttachmentSource::resolve(&path, places, true));
            }
        }
        Ok(files)
    }
}

/// Parses the value of a template: a text or a list of texts. Skips empty texts. Returns `None` for other values.
fn parse_attachment_paths(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Null => Some(Vec::new()),
        Value::String(path) if path.trim().is_empty() => Some(Vec::new()),
        Value::String(path) => Some(vec![path.trim().to_owned()]),
        Value::Array(items) => {
            let lists: Option<Vec<Vec<String>>> = items.iter().map(parse_attachment_paths).collect();
            Some(lists?.concat())
        }
        _ => None,
    }
}

/// File to attach, with the folders that must contain it.
pub(super) struct AttachmentSource {
    name: String,
    path: PathBuf,
    /// The folders of which one must contain the file; empty: it may be anywhere.
    allowed_folders: Vec<PathBuf>,
}

impl AttachmentSource {
    /// Resolves the name to a path. `is_bound` requires the file to be inside the ensemble folder or the project.
    fn resolve(name: &str, places: &ScriptFolders, is_bound: bool) -> Self {
        let folders = [&places.ensemble_dir, &places.project_root];
        Self {
            name: name.to_owned(),
            path: places.attachment_path(name),
            allowed_folders: folders.into_iter().filter(|_| is_bound).cloned().collect(),
        }
    }

    /// Reads the file as an attachment, up to `left` bytes. Refuses files outside of the allowed folders.
    fn read_attachment(&self, left: u64) -> Result<Attachment, String> {
        let failed = |error: std::io::Error| error.to_string();
        let path = self.path.canonicalize().map_err(failed)?;
        let is_within = |folder: &PathBuf| folder.canonicalize().is_ok_and(|folder| path.starts_with(folder));
        if !self.allowed_folders.is_empty() && !self.allowed_folders.iter().any(is_within) {
            return Err("it is outside the project; a path from a template must be inside".to_owned());
        }
        let bytes = read_with_limit(&path, left)?;
        attachment_from_bytes(&self.name, &bytes)
            .ok_or_else(|| "it is not an image (png, jpeg, gif, webp), a PDF or a text in UTF-8".to_owned())
    }
}

/// Creates an attachment with this name. Returns `None` if no model accepts the type of the bytes.
pub(super) fn attachment_from_bytes(name: &str, bytes: &[u8]) -> Option<Attachment> {
    let hex: String = sha2::Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Some(Attachment {
        name: name.into(),
        mime_type: detect_mime_type(bytes)?.into(),
        size: bytes.len() as u64,
        sha256: hex.into(),
        data: BASE64_STANDARD.encode(bytes).into(),
    })
}

/// Reads the files, up to the total size limit.
///
/// # Errors
/// A file cannot be sent; the message names it.
pub(super) fn read_attachments(files: &[AttachmentSource]) -> Result<Vec<Attachment>, String> {
    let mut bytes_left = MAX_ATTACHMENT_BYTES;
    let mut read = Vec::new();
    for file in files {
        let attachment = file
            .read_attachment(bytes_left)
            .map_err(|error| format!("the attachment `{}` cannot be sent: {error}", file.name))?;
        bytes_left -= attachment.size;
        read.push(attachment);
    }
    Ok(read)
}

/// Reads a regular file of at most `most` bytes.
fn read_with_limit(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| error.to_string();
    let mut bytes = Vec::new();
    let file = regular_files::open_regular_file(path).map_err(failed)?;
    file.take(most + 1).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 > most {
        true => Err(format!(
            "the attachments of an execution are limited to {} MiB in total",
            MAX_ATTACHMENT_BYTES >> 20
        )),
        false => Ok(bytes),
    }
}

/// Detects the type of a file by its first bytes. Returns `None` for types that no model accepts.
fn detect_mime_type(bytes: &[u8]) -> Option<&'static str> {
    const STARTS: [(&[u8], &str); 5] = [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
        (b"%PDF-", "application/pdf"),
    ];
    if let Some((_, mime_type)) = STARTS.iter().find(|(start, _)| bytes.starts_with(start)) {
        return Some(mime_type);
    }
    if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        return Some("image/webp");
    }
    let is_text = !bytes.contains(&0) && std::str::from_utf8(bytes).is_ok();
    is_text.then_some("text/plain")
}

/// Reads the files on a blocking thread.
pub(super) async fn load_attachments(files: Vec<AttachmentSource>) -> Result<Vec<Attachment>, String> {
    match tokio::task::spawn_blocking(move || read_attachments(&files)).await {
        Ok(read) => read,
        Err(join_error) if join_error.is_panic() => std::panic::resume_unwind(join_error.into_panic()),
        Err(_) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_first_bytes() {
        let table: [(&[u8], Option<&str>); 9] = [
            (b"\x89PNG\r\n\x1a\nrest", Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a..", Some("image/gif")),
            (b"RIFF....WEBPVP8 ", Some("image/webp")),
            (b"%PDF-1.7", Some("application/pdf")),
            (b"name,age\n", Some("text/plain")),
            (b"", Some("text/plain")),
            (b"RIFF....WAVE\0", None),
            (b"\x7fELF\0", None),
        ];
        for (bytes, expected) in table {
            assert_eq!(detect_mime_type(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_template_gives_one_path_or_several_or_none() {
        let table = [
            (serde_json::json!("a.png"), Some(vec!["a.png"])),
            (serde_json::json!(["a.png", " b.png\n"]), Some(vec!["a.png", "b.png"])),
            (serde_json::json!(""), Some(vec![])),
            (Value::Null, Some(vec![])),
            (serde_json::json!(7), None),
        ];
        for (value, expected) in table {
            let expected = expected.map(|paths| paths.into_iter().map(str::to_owned).collect());
            assert_eq!(parse_attachment_paths(&value), expected, "{value}");
        }
    }
}
