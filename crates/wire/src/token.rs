//! The secret that a client of the server must know.
//!
//! Invariant: it is never shown by `Debug`, and a comparison tells nothing of it by its time.

use std::fmt;
use std::io;

/// The secret that a client of the server must know.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(String);

/// The fewest characters of a token that is given.
const MIN_TOKEN_LENGTH: usize = 16;

impl AccessToken {
    /// Creates a token of 256 random bits from the operating system.
    ///
    /// # Errors
    /// The operating system has none.
    pub fn generate() -> io::Result<Self> {
        let mut bytes = [0; 32];
        getrandom::getrandom(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Makes a token of a text that cookies and headers may contain.
    ///
    /// # Errors
    /// It has fewer than 16 characters, or others than ASCII letters, digits, `-` and `_`. The error says so.
    pub fn parse_for_cookie(text: &str) -> Result<Self, &'static str> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if text.len() < MIN_TOKEN_LENGTH {
            return Err("the token has fewer than 16 characters");
        }
        match text.bytes().all(is_plain) {
            true => Ok(Self(text.to_owned())),
            false => Err("the token has characters other than letters, digits, `-` and `_`"),
        }
    }

    /// Makes a token of a text that headers may contain.
    ///
    /// # Errors
    /// It has fewer than 16 characters, or others than visible ASCII. The error says so.
    pub fn parse_for_header(text: &str) -> Result<Self, &'static str> {
        if text.len() >= MIN_TOKEN_LENGTH && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Ok(Self(text.to_owned()));
        }
        Err("at least 16 visible ASCII characters are needed")
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether this is the token. The time that the answer takes tells nothing of the token.
    pub fn matches_text(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let differences = own.iter().zip(given).fold(0, |sum, (one, other)| sum | (one ^ other));
        own.len() == given.len() && differences == 0
    }
}

/// Without the secret.
impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_only_itself() {
        let token = AccessToken::parse_for_cookie("abcdefghijklmnop").expect("it is long enough");
        assert!(token.matches_text("abcdefghijklmnop"));
        for other in [
            "",
            "abcdefghijklmno",
            "abcdefghijklmnopq",
            "abcdefghijklmnoP",
            "bbcdefghijklmnop",
        ] {
            assert!(!token.matches_text(other), "{other}");
        }
        assert!(
            AccessToken::parse_for_cookie("short").is_err()
                && AccessToken::parse_for_cookie("abcdefghijklmno;p").is_err()
        );
        let (one, other) = (
            AccessToken::generate().expect("random"),
            AccessToken::generate().expect("random"),
        );
        assert!(one != other && one.as_str().len() == 64 && AccessToken::parse_for_cookie(one.as_str()).is_ok());
        assert_eq!(format!("{one:?}"), "Token");
    }
}
