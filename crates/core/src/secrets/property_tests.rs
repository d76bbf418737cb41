//! Random secrets, written as programs write them, in texts and events.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::sensitivity::is_ordinary_text;
use super::{REDACTED_TEXT, Secrets};
use crate::conversation::Event;

/// A secret, and the texts in it that nobody may see.
#[derive(Debug, Clone)]
struct RandomSecret {
    value: String,
    parts: Vec<String>,
}

impl RandomSecret {
    fn plain(value: String) -> Self {
        Self {
            parts: vec![value.clone()],
            value,
        }
    }
}

fn word() -> impl Strategy<Value = String> {
    "[A-Za-z0-9]{12,40}"
}

/// Texts with all that is quoted and escaped somewhere.
fn odd_text() -> impl Strategy<Value = String> {
    r#"[a-zA-Z0-9"'\\/<>&%+=é😀€@#-]{4,20}[a-z0-9]{8}"#
}

/// A word that is no ordinary one.
fn random_word() -> impl Strategy<Value = String> {
    word().prop_filter("it looks ordinary", |word| !is_ordinary_text(word))
}

fn secret() -> impl Strategy<Value = RandomSecret> {
    let pem = proptest::collection::vec("[A-Za-z0-9+/]{64}", 2..5).prop_map(|lines| RandomSecret {
        value: format!("-----BEGIN X KEY-----\n{}\n-----END X KEY-----\n", lines.join("\n")),
        parts: lines,
    });
    let structured = (random_word(), odd_text(), 10_000_000..u64::MAX).prop_map(|(one, two, number)| RandomSecret {
        value: json!({"type": one, "inside": {"private_key": [two]}, "count": number}).to_string(),
        parts: vec![one, two, number.to_string()],
    });
    let encoded = word().prop_map(|word| RandomSecret {
        value: STANDARD.encode(&word),
        parts: vec![STANDARD.encode(&word), word],
    });
    let lines = (random_word(), odd_text()).prop_map(|(one, two)| RandomSecret {
        value: format!("FIRST={one}\nSECOND_KEY='{two}'"),
        parts: vec![one, two],
    });
    let address = word().prop_map(|word| RandomSecret {
        value: format!("postgres://me:{word}@host/db"),
        parts: vec![word],
    });
    prop_oneof![
        word().prop_map(RandomSecret::plain),
        odd_text().prop_map(RandomSecret::plain),
        (10_000_000..u64::MAX).prop_map(|number| RandomSecret::plain(number.to_string())),
        ("[0+]0{0,3}", 10_000_000..u32::MAX, "(\\.0)?").prop_map(|(zeros, number, decimals)| RandomSecret {
            value: format!("{zeros}{number}{decimals}"),
            parts: vec![number.to_string()],
        }),
        word().prop_map(|word| RandomSecret {
            value: format!("Bearer {word}"),
            parts: vec![word],
        }),
        pem,
        structured,
        encoded,
        lines,
        address,
    ]
}

/// The ways in which programs write a text into another one.
const FORMS: usize = 16;

fn write_in_form(text: &str, form: usize) -> String {
    let quote = |text: &str| Value::from(text).to_string();
    let percent = |text: &str, plain: &[u8]| -> String {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || plain.contains(&byte);
        let write = |byte: u8| match is_plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        };
        text.bytes().map(write).collect()
    };
    match form {
        0 => text.to_owned(),
        1 => quote(text),
        2 => quote(&quote(text)),
        3 => quote(&json!({"a": quote(text)}).to_string()),
        4 => percent(text, b"-_.~"),
        5 => percent(text, b"-_.!~*'()/").replace("%20", "+"),
        6 => percent(&percent(text, b"-_.~"), b"-_.~"),
        7 => STANDARD.encode(format!("u:{text}")),
        8 => URL_SAFE_NO_PAD.encode(format!("{text};")),
        9 => text.bytes().map(|byte| format!("{byte:02X}")).collect(),
        10 => text
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('"', "&quot;"),
        11 => {
            let write = |unit: u16| match u8::try_from(unit)
                .is_ok_and(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
            {
                true => char::from_u32(u32::from(unit)).map(String::from).unwrap_or_default(),
                false => format!("\\u{unit:04x}"),
            };
            text.encode_utf16().map(write).collect()
        }
        12 => format!("{text:?}"),
        13 => break_lines(&STANDARD.encode(format!("a long text before it {text}")), 76, "\r\n"),
        14 => break_lines(&STANDARD.encode(text), 20, "\n  "),
        _ => quote(&break_lines(&URL_SAFE_NO_PAD.encode(format!("u:{text}")), 31, "\n")),
    }
}

fn break_lines(digits: &str, width: usize, line_end: &str) -> String {
    let lines = digits.as_bytes().chunks(width).map(String::from_utf8_lossy);
    lines.collect::<Vec<_>>().join(line_end)
}

/// Asserts that the text contains the secret in no form.
fn assert_hidden(text: &str, part: &str) {
    for form in 0..FORMS {
        let written = write_in_form(part, form);
        // The first and the last digits depend on what stands around.
        let inner = match form {
            7 | 8 if written.len() > 12 => &written[4..written.len() - 4],
            13 if written.len() > 44 => &written[32..written.len() - 4],
            14 | 15 if written.len() > 12 => &written[4..written.len() - 4],
            _ => written.as_str(),
        };
        assert!(!text.contains(inner), "form {form}: {inner}: {text}");
    }
}

fn execution_finished(text: &str, value: &Value) -> Event {
    let event = json!({"event": "execution_finished", "data": {
        "turn": 1, "agent": "a", "execution": 1, "attempt": 1, "execution_time": 0.5, "stderr": text, "warnings": [text],
        "output": {"said": text, "value": value, "nested": {"list": [text, 1]}},
        "exchange": [{"number": 1, "messages": [{"role": "user", "content": text}],
            "tool_calls": [{"id": "c", "name": "t", "arguments": {"a": text}, "result": text, "duration": 0.0}]}],
    }});
    serde_json::from_value(event).expect("an event")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_secret_leaves_in_no_form(secret in secret(), form in 0..FORMS, around in "[ a-z:,]{0,9}") {
        let secrets = Secrets::default();
        secrets.add_secret(&secret.value);
        for part in secret.parts.iter().chain([&secret.value]) {
            let text = format!("{around}{}{around}", write_in_form(part, form));
            let said = secrets.redact(text.as_str()).into_owned();
            assert_hidden(&said, part);
            prop_assert!(said.contains(REDACTED_TEXT));
            // What stands around stays.
            prop_assert!(said.starts_with(around.as_str()) && said.ends_with(around.as_str()), "{said}");
            let number: Value = serde_json::from_str(part).unwrap_or(Value::Null);
            let event = secrets.redact_event(execution_finished(&text, &number)).expect("an event");
            assert_hidden(&serde_json::to_string(&event).expect("JSON"), part);
        }
    }

    #[test]
    fn a_secret_in_pieces_leaves_in_no_form(secret in secret(), form in 0..FORMS, cuts in proptest::collection::vec(0_usize..400, 3)) {
        let secrets = Secrets::default();
        secrets.add_secret(&secret.value);
        // The escapes of HTML and of rare programs are undone in whole texts only.
        prop_assume!(!matches!(form, 3 | 5 | 6 | 10 | 11 | 12 | 15));
        let text = format!("before {} after", write_in_form(&secret.value, form));
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| text.floor_char_boundary(*cut)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let (mut said, mut held) = (String::new(), String::new());
        for piece in cuts.windows(2) {
            held.push_str(&text[piece[0]..piece[1]]);
            let (shown, rest) = secrets.split_at_possible_secret(&held);
            said.push_str(&shown);
            held = rest;
        }
        said.push_str(&secrets.redact(held));
        assert_hidden(&said, &secret.value);
        prop_assert!(said.starts_with("before "), "{said}");
    }

    #[test]
    fn the_end_of_a_text_tells_no_rest_of_a_secret(secret in odd_text(), cut in 0_usize..28) {
        let secrets = Secrets::default();
        secrets.add_secret(&secret);
        let cut = secret.floor_char_boundary(cut.min(secret.len()));
        let said = secrets.redact_fragment(&format!("{} is the end, the start is {}", &secret[cut..], &secret[..cut]));
        if secret.len() - cut >= 6 {
            prop_assert!(!said.contains(&secret[cut..]), "{said}");
        }
        if cut >= 6 {
            prop_assert!(!said.contains(&secret[..cut]), "{said}");
        }
    }
}

#[test]
fn the_output_that_is_the_secret_shows_no_member_of_it() {
    let secrets = Secrets::default();
    secrets.add_secret(r#"{"user": "bob", "pin": 1234}"#);
    let mut output = json!({"user": "bob", "pin": 1234});
    let mut outer = json!({"a": [output.clone()], "pin": 1234});
    secrets.redact_map(output.as_object_mut().expect("an object"));
    assert_eq!(output, json!({"user": REDACTED_TEXT, "pin": REDACTED_TEXT}));
    secrets.redact_value(&mut outer);
    assert_eq!(outer, json!({"a": [REDACTED_TEXT], "pin": 1234}));
}

/// A context is a map. If all of it is a secret, its members are replaced, so that the event stays one.
#[test]
fn an_event_whose_context_is_the_secret_shows_nothing_of_it() {
    let secrets = Secrets::default();
    secrets.add_secret(r#"{"user": "bob", "pin": {"old": [1234, null]}}"#);
    let started = |inputs: Value| {
        let event = json!({"event": "run_started", "data": {
            "format": 1, "run_id": "r", "ensemble": "e", "ensemble_file": "e.yaml", "ensemble_digest": "d",
            "project_root": "/", "input": "bob", "program": "1", "inputs": inputs,
        }});
        serde_json::from_value::<Event>(event).expect("an event")
    };
    let event = started(json!({"user": "bob", "pin": {"old": [1234, null]}}));
    let expected = started(json!({"user": REDACTED_TEXT, "pin": {"old": [REDACTED_TEXT, null]}}));
    assert_eq!(secrets.redact_event(event), Ok(expected));
}

#[test]
fn a_number_is_secret_without_its_zeros() {
    let secrets = Secrets::default();
    secrets.add_secrets(["0012345678", "+4912345678", "87654321.0"]);
    let mut value = json!({"a": 12_345_678, "b": 4_912_345_678_u64, "c": 87_654_321, "d": 87_654_321.0, "e": 12_345});
    secrets.redact_value(&mut value);
    assert_eq!(
        value,
        json!({"a": REDACTED_TEXT, "b": REDACTED_TEXT, "c": REDACTED_TEXT, "d": REDACTED_TEXT, "e": 12_345})
    );
}

#[test]
fn base64_in_lines_is_found_as_one_text() {
    let secrets = Secrets::default();
    let secret: String = (1..40_u64).map(|number| format!("{:x}-", number * 7919)).collect();
    secrets.add_secret(&secret);
    let lines = break_lines(&STANDARD.encode(format!("user:{secret}")), 76, "\n");
    let shown = secrets.redact(format!("before\n{lines}\nafter"));
    assert!(shown.starts_with("before\n") && shown.ends_with("\nafter"), "{shown}");
    assert!(shown.len() < 50, "{shown}");
    // A piece ends with a line.
    let (first, second) = lines.split_at(77);
    let (shown, held) = secrets.split_at_possible_secret(&format!("before\n{first}"));
    let rest = secrets.redact(format!("{held}{second}"));
    assert!(shown.len() + rest.len() < 50, "{shown}{rest}");
    // A fragment begins with the rest of a secret.
    let shown = secrets.redact_fragment(&format!("{}\nafter", &lines[40..]));
    assert!(shown.len() < 30 && shown.ends_with("\nafter"), "{shown}");
}

#[test]
fn numbers_are_secret_as_numbers_and_as_texts() {
    let secrets = Secrets::default();
    secrets.add_secret("4929123456781234");
    let mut value = json!({"card": 4_929_123_456_781_234_u64, "text": "4929123456781234", "other": 4929});
    secrets.redact_value(&mut value);
    assert_eq!(
        value,
        json!({"card": REDACTED_TEXT, "text": REDACTED_TEXT, "other": 4929})
    );
}
