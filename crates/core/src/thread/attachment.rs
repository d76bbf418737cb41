//! Files that are sent with a message.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// File that is sent with a user message or with the result of a tool. The value contains the bytes, so the file is not read again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The path, as the ensemble says it; a name within the result of a tool.
    pub name: Arc<str>,
    /// `image/png`, `image/jpeg`, `image/gif`, `image/webp`, `application/pdf` or `text/plain`.
    pub mime_type: Arc<str>,
    /// The number of bytes.
    pub size: u64,
    /// The SHA-256 of the bytes, in hex.
    pub sha256: Arc<str>,
    /// The bytes, in base64.
    pub data: Arc<str>,
}

impl Attachment {
    /// Returns whether the attachment is an image.
    pub fn is_image(&self) -> bool {
        self.mime_type.starts_with("image/")
    }

    /// Returns whether the attachment is a text.
    pub fn is_text(&self) -> bool {
        self.mime_type.starts_with("text/")
    }

    /// Returns a description of the file as JSON: `{name, mime_type, size, sha256}`.
    pub fn to_json_without_bytes(&self) -> serde_json::Value {
        serde_json::json!({
            "name": self.name,
            "mime_type": self.mime_type,
            "size": self.size,
            "sha256": self.sha256,
        })
    }
}
