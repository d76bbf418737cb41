//! A text that arrives in pieces, without its secrets.
//!
//! Invariant: a piece that was handed out contains no beginning of a secret that a later piece could complete.

use super::Secrets;

/// Stream of text whose secrets are redacted. A possible beginning of a secret is delayed until the next piece.
#[derive(Debug, Default)]
pub struct RedactingStream {
    secrets: Secrets,
    delayed: String,
}

impl RedactingStream {
    /// Creates a stream that redacts these secrets.
    pub fn new(secrets: Secrets) -> Self {
        Self {
            secrets,
            delayed: String::new(),
        }
    }

    /// Adds a piece. Returns the redacted text that can be shown now, and delays a possible beginning of a secret.
    pub fn push_piece(&mut self, piece: &str) -> String {
        let mut text = std::mem::take(&mut self.delayed);
        text.push_str(piece);
        let (shown, delayed) = self.secrets.split_at_possible_secret(&text);
        self.delayed = delayed;
        shown
    }

    /// Returns the delayed text, redacted, at the end of the stream.
    pub fn finish(&mut self) -> String {
        self.secrets.redact(std::mem::take(&mut self.delayed)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_pieces_is_never_shown_and_other_text_is_not_delayed() {
        let secrets = Secrets::default();
        secrets.add_secret("sk-0123456789");
        let text = "It is sk-0123456789 and sk-other é, sk-sk-0123456789; s";
        let cuts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        for (first, second) in cuts
            .iter()
            .flat_map(|one| cuts.iter().filter(move |two| *two >= one).map(move |two| (*one, *two)))
        {
            let mut stream = RedactingStream::new(secrets.clone());
            let mut shown = String::new();
            for piece in [&text[..first], &text[first..second], &text[second..]] {
                shown.push_str(&stream.push_piece(piece));
            }
            shown.push_str(&stream.finish());
            assert_eq!(
                shown, "It is [secret] and sk-other é, sk-[secret]; s",
                "{first} {second}"
            );
        }
        let mut stream = RedactingStream::new(secrets);
        assert_eq!(stream.push_piece("two s"), "two ");
        assert_eq!(stream.push_piece("o"), "so");
    }
}
