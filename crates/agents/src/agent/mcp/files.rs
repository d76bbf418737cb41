//! The images and PDFs of an answer, which go to the model beside its text.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::agent::attachments::attachment_from_bytes;
use ensemble_core::thread::Attachment;

/// The maximum size of the files of one result, in bytes: 5 MiB.
const MAX_RESULT_FILE_BYTES: u64 = 5 << 20;

/// Files of one tool result, in order.
#[derive(Debug, Default)]
pub(crate) struct ResultFiles(pub(crate) Vec<Attachment>);

impl ResultFiles {
    /// Adds a file, and returns the text that refers to it. Only describes files that are too large or that no model accepts.
    pub(crate) fn add_or_describe_file(&mut self, what: &str, mime_type: Option<&str>, data: &str) -> String {
        let plain = || describe_unshown_content(what, mime_type, Some(base64_decoded_length(data)));
        let used_bytes: u64 = self.0.iter().map(|file| file.size).sum();
        // Base64 may have line breaks, and is looked at only if it can fit.
        let text: String = match data.len() as u64 > 2 * MAX_RESULT_FILE_BYTES {
            true => return too_large_text(what, mime_type, data),
            false => data.split_ascii_whitespace().collect(),
        };
        let Ok(decoded) = BASE64_STANDARD.decode(text) else {
            return plain();
        };
        let name = format!("file-{}", self.0.len() + 1);
        let Some(file) = attachment_from_bytes(&name, &decoded).filter(|file| !file.is_text()) else {
            return plain();
        };
        if used_bytes + file.size > MAX_RESULT_FILE_BYTES {
            return too_large_text(what, mime_type, data);
        }
        let ending = file.mime_type.rsplit('/').next().unwrap_or_default();
        let file = Attachment {
            name: format!("{name}.{ending}").into(),
            ..file
        };
        let words = format!(
            "[{what}, {}, {} bytes, attached as {}]",
            file.mime_type, file.size, file.name
        );
        self.0.push(file);
        words
    }
}

/// Describes a file that is too large.
fn too_large_text(what: &str, mime_type: Option<&str>, data: &str) -> String {
    let kind = mime_type.map(|kind| format!(", {kind}")).unwrap_or_default();
    format!(
        "[{what}{kind}, {} bytes, not shown: the files of a result are limited to {} MiB in total]",
        base64_decoded_length(data),
        MAX_RESULT_FILE_BYTES >> 20
    )
}

/// Describes content that cannot be shown, with its type and size.
pub(crate) fn describe_unshown_content(what: &str, mime_type: Option<&str>, bytes: Option<usize>) -> String {
    let kind = mime_type.map(|kind| format!(", {kind}")).unwrap_or_default();
    let size = bytes.map(|bytes| format!(", {bytes} bytes")).unwrap_or_default();
    format!("[{what}{kind}{size}, which cannot be shown here]")
}

/// Returns the number of bytes of Base64 data.
pub(crate) fn base64_decoded_length(data: &str) -> usize {
    data.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_and_documents_are_taken_and_the_rest_is_described() {
        let encoded = |bytes: &[u8]| BASE64_STANDARD.encode(bytes);
        let mut files = ResultFiles::default();
        let table: [(&[u8], &str); 5] = [
            (b"GIF89a..", "[an image, image/gif, 8 bytes, attached as file-1.gif]"),
            (b"\0\x01", "[an image, image/png, 2 bytes, which cannot be shown here]"),
            (b"text", "[an image, image/png, 4 bytes, which cannot be shown here]"),
            (
                b"%PDF-1.7",
                "[an image, application/pdf, 8 bytes, attached as file-2.pdf]",
            ),
            (
                &[b"GIF89a".as_slice(), &[0; 5 << 20]].concat(),
                "[an image, image/png, 5242886 bytes, not shown: the files of a result are limited to 5 MiB in total]",
            ),
        ];
        for (bytes, expected) in table {
            assert_eq!(
                files.add_or_describe_file("an image", Some("image/png"), &encoded(bytes)),
                expected
            );
        }
        let broken = "[an image, image/png, 3 bytes, which cannot be shown here]";
        assert_eq!(
            files.add_or_describe_file("an image", Some("image/png"), "?AAA"),
            broken
        );
        let lines = files.add_or_describe_file("an image", None, "R0lG\nODlh\n");
        assert_eq!(lines, "[an image, image/gif, 6 bytes, attached as file-3.gif]");
        let most = files.add_or_describe_file("an image", Some("a/b"), &"A".repeat(11 << 20));
        assert!(most.contains("not shown"), "{most}");
        assert_eq!(files.0.len(), 3);
    }
}
