//! Numbers in tables: those that a value keeps with all their digits.

/// Returns the message about a number that would be changed.
pub(super) fn inexact_number_message(text: &str) -> String {
    format!("the number `{text}` has too many digits to be kept; use a string")
}

/// Returns whether a number in JSON keeps all its digits as a value.
pub(super) fn is_exact_number(text: &str) -> bool {
    let text = text.trim();
    if text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok() {
        return true;
    }
    let digits = |text: &str| {
        let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
        let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
        digits.trim_start_matches('0').trim_end_matches('0').to_owned()
    };
    text.parse::<f64>()
        .is_ok_and(|number| digits(&format!("{number:e}")) == digits(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_if_they_keep_their_digits() {
        for text in [
            "0",
            "-7",
            "1e5",
            "1.50",
            "0.1",
            "18446744073709551615",
            "123456789012345.6",
            "1e300",
        ] {
            assert!(is_exact_number(text), "{text}");
        }
        for text in ["12345678901234567890123", "0.12345678901234567890", "1e999"] {
            assert!(!is_exact_number(text), "{text}");
        }
    }
}
