//! Secret token that a client of a server must send.
//!
//! Invariant: `Debug` never shows the token, and the time of a comparison reveals nothing about the token.

use std::fmt;
use std::io;

/// Secret token that a client of a server must send.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(String);

/// Minimum number of characters of a configured token.
const MIN_TOKEN_LENGTH: usize = 16;

impl AccessToken {
    /// Generates a token of 256 random bits from the operating system.
    ///
    /// # Errors
    /// The operating system returns no random bits.
    pub fn generate() -> io::Result<Self> {
        let mut bytes = [0; 32];
        getrandom::getrandom(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Parses a token that cookies and headers can contain.
    ///
    /// # Errors
    /// The text has fewer than 16 characters, or characters other than ASCII letters, digits, `-` and `_`.
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

    /// Parses a token that headers can contain, but cookies might not.
    ///
    /// # Errors
    /// The text has fewer than 16 characters, or invisible or non-ASCII characters.
    pub fn parse_for_header(text: &str) -> Result<Self, &'static str> {
        if text.len() >= MIN_TOKEN_LENGTH && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Ok(Self(text.to_owned()));
        }
        Err("at least 16 visible ASCII characters are needed")
    }

    /// Returns the text of the token.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the text is the token, in a time that reveals nothing about the token.
    pub fn matches_text(&self, given: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), given.as_bytes());
        let differences = own.iter().zip(given).fold(0, |sum, (one, other)| sum | (one ^ other));
        own.len() == given.len() && differences == 0
    }
}

/// Formats the token without the secret.
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
