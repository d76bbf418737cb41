//! The check of numbers in tables, whose digits a JSON value must keep.

/// Formats the error message about a number whose digits would be lost.
pub(super) fn inexact_number_message(text: &str) -> String {
    format!("the number `{text}` has too many digits to be kept; use a string")
}

/// Finds the first number in a JSON text that a JSON value cannot represent with all digits.
pub(super) fn find_inexact_number(json: &str) -> Option<&str> {
    let is_in_number = |character: char| character.is_ascii_digit() || "+-.eE".contains(character);
    let mut rest = json;
    loop {
        let start = rest.find(|character: char| character.is_ascii_digit() || "-\"".contains(character))?;
        rest = &rest[start..];
        if rest.starts_with('"') {
            rest = skip_string(rest);
            continue;
        }
        let end = rest.find(|character: char| !is_in_number(character));
        let (number, after) = rest.split_at(end.unwrap_or(rest.len()));
        if !is_exact_number(number) {
            return Some(number);
        }
        rest = after;
    }
}

/// Returns the text after the JSON string at the start of this text.
fn skip_string(json: &str) -> &str {
    let mut is_escaped = false;
    let end = json[1..].find(|character: char| {
        let is_end = character == '"' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        is_end
    });
    end.map_or("", |end| &json[end + 2..])
}

/// Returns whether a JSON value keeps all digits of this number.
fn is_exact_number(text: &str) -> bool {
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

    #[test]
    fn numbers_are_found_wherever_they_are() {
        let long = "12345678901234567890123";
        for json in [
            long.to_owned(),
            format!(" {long} "),
            format!("[true, -7, {{\"a\\\"1\": {long}}}]"),
        ] {
            assert_eq!(find_inexact_number(&json), Some(long), "{json}");
        }
        for json in [
            "\"12345678901234567890123\"",
            "{\"12345678901234567890123\": [1, 2.5e3]}",
            "null",
            "",
        ] {
            assert_eq!(find_inexact_number(json), None, "{json}");
        }
    }
}
