//! The parts of a structured secret that are secret: those whose names say so, and those that are no ordinary words.
//!
//! Invariant: a part that is left out is a text of a few words, which would damage every text that contains them.

/// Words in the names of variables, headers and options whose values are secrets.
const SECRET_NAME_PARTS: [&str; 9] = [
    "key",
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "auth",
    "cookie",
];

/// Short words that mark a secret if they are a whole word of the name of a part: `Pwd=…`, `DB_PASS=…`, `sig=…`.
const SECRET_NAME_WORDS: [&str; 6] = ["pwd", "pass", "pw", "pin", "sig", "signature"];

/// Names of authentication schemes before a secret in a header.
const AUTH_SCHEMES: [&str; 8] = [
    "bearer",
    "basic",
    "token",
    "apikey",
    "api-key",
    "digest",
    "negotiate",
    "key",
];

/// Largest number of words of an ordinary text that is not an address. More words can be a passphrase.
const MAX_ORDINARY_WORDS: usize = 3;

/// The maximum number of letters of an ordinary word.
const MAX_WORD_LETTERS: usize = 24;

/// Words of fewer letters are not examined letter by letter.
const MIN_EXAMINED_LETTERS: usize = 8;

/// The maximum number of consonants in a row in an ordinary word.
const MAX_CONSECUTIVE_CONSONANTS: usize = 4;

/// The maximum number of digits of an ordinary number, such as that of a port.
const MAX_NUMBER_DIGITS: usize = 5;

/// The maximum number of digits at the end of an ordinary word: `oauth2`, `db01`.
const MAX_FINAL_DIGITS: usize = 2;

/// Returns whether the name of a variable, a header or an option is a name of a secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAME_PARTS.iter().any(|word| name.contains(word))
}

/// Returns whether the name of a part of a secret is a name of a secret.
pub(super) fn is_secret_part_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    is_secret_name(&name) || words.any(|word| SECRET_NAME_WORDS.contains(&word))
}

/// Returns whether the word is an authentication scheme, such as `bearer`.
pub(super) fn is_auth_scheme(word: &str) -> bool {
    AUTH_SCHEMES.contains(&word.to_ascii_lowercase().as_str())
}

/// Returns whether the text is a few ordinary words and short numbers, or an address of such words.
pub(super) fn is_ordinary_text(text: &str) -> bool {
    let is_between_words = |c: char| matches!(c, ' ' | '_' | '-');
    let is_joint = |c: char| is_between_words(c) || matches!(c, '.' | ':' | '/' | ',');
    let mut parts = text.split(is_joint).filter(|part| !part.is_empty());
    let is_short = || text.split(is_between_words).nth(MAX_ORDINARY_WORDS).is_none();
    parts.all(is_ordinary_word) && (text.contains("://") || is_short())
}

/// Returns whether the word is a short number, or pronounceable letters with few digits after them.
fn is_ordinary_word(word: &str) -> bool {
    let letters = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = word.len() - letters.len();
    match letters.is_empty() {
        true => digits <= MAX_NUMBER_DIGITS,
        false => digits <= MAX_FINAL_DIGITS && is_natural_spelling(letters),
    }
}

/// Returns whether a person would write these letters: in one case or with capitals at the starts of words, and with vowels.
fn is_natural_spelling(letters: &str) -> bool {
    if letters.len() > MAX_WORD_LETTERS || !letters.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return false;
    }
    let is_upper = |byte: u8| byte.is_ascii_uppercase();
    let is_one_case = letters.bytes().all(is_upper) || !letters.bytes().any(is_upper);
    let begins_words = || {
        let bytes = letters.as_bytes();
        let capitals = bytes.iter().enumerate().filter(|(_, byte)| is_upper(**byte));
        capitals.map(|(at, _)| at).all(|at| {
            let word = &bytes[at + 1..];
            word.len() >= 2 && word[..2].iter().all(u8::is_ascii_lowercase)
        })
    };
    if !is_one_case && !begins_words() {
        return false;
    }
    let is_vowel = |c: char| matches!(c.to_ascii_lowercase(), 'a' | 'e' | 'i' | 'o' | 'u' | 'y');
    let longest = letters.split(is_vowel).map(str::len).max().unwrap_or_default();
    letters.len() < MIN_EXAMINED_LETTERS || longest <= MAX_CONSECUTIVE_CONSONANTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_ordinary_and_keys_are_not() {
        for text in [
            "production",
            "Production",
            "PRODUCTION",
            "myDatabase",
            "service_account",
            "db.internal.example.com",
            "tcp:server.database.windows.net,1433",
            "https://www.googleapis.com/oauth2/v1/certs",
            "kubernetes",
            "read write",
        ] {
            assert!(is_ordinary_text(text), "{text}");
        }
        for text in [
            "s3cret-0123456789",
            "a1b2c3d4",
            "550e8400-e29b-41d4-a716-446655440000",
            "aBcDeFgHiJkL",
            "qwrtpsdfgh",
            "1234567890",
            "ghp_0123456789abcdef",
            "quo\"ted\\and",
            "correct horse battery staple",
            "https://hooks.example.com/services/T01AB2CD3/xyz",
            "QWxhZGRpbjpvcGVuIHNlc2FtZQ==",
            "é😀é😀",
        ] {
            assert!(!is_ordinary_text(text), "{text}");
        }
        for (name, is_secret) in [
            ("Password", true),
            ("Pwd", true),
            ("DB_PASS", true),
            ("AccountKey", true),
            ("private_key", true),
            ("sig", true),
            ("Database", false),
            ("compass", false),
            ("Server", false),
        ] {
            assert_eq!(is_secret_part_name(name), is_secret, "{name}");
        }
    }
}
