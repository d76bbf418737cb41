//! The pause that a provider asks for, in each of the ways in which providers say it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::StatusCode;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use serde_json::Value;

use crate::{ReportedLimit, ReportedLimitUnit};

/// Names of the headers that report one limit.
struct LimitHeaderNames {
    limit: &'static str,
    remaining: &'static str,
    reset: &'static str,
    unit: ReportedLimitUnit,
}

/// Returns the headers of a limit of OpenAI and of servers with its API, or of Anthropic.
macro_rules! limit_headers {
    (openai $what:literal, $unit:ident) => {
        LimitHeaderNames {
            limit: concat!("x-ratelimit-limit", $what),
            remaining: concat!("x-ratelimit-remaining", $what),
            reset: concat!("x-ratelimit-reset", $what),
            unit: ReportedLimitUnit::$unit,
        }
    };
    (anthropic $what:literal, $unit:ident) => {
        LimitHeaderNames {
            limit: concat!("anthropic-ratelimit-", $what, "-limit"),
            remaining: concat!("anthropic-ratelimit-", $what, "-remaining"),
            reset: concat!("anthropic-ratelimit-", $what, "-reset"),
            unit: ReportedLimitUnit::$unit,
        }
    };
}

/// The headers of all limits that providers state.
const KNOWN_LIMIT_HEADERS: [LimitHeaderNames; 8] = [
    limit_headers!(openai "-requests", Requests),
    limit_headers!(openai "-tokens", Tokens),
    limit_headers!(openai "", Requests),
    limit_headers!(anthropic "requests", Requests),
    limit_headers!(anthropic "tokens", Tokens),
    limit_headers!(anthropic "input-tokens", Tokens),
    limit_headers!(anthropic "output-tokens", OutputTokens),
    // The draft of a standard.
    LimitHeaderNames {
        limit: "ratelimit-limit",
        remaining: "ratelimit-remaining",
        reset: "ratelimit-reset",
        unit: ReportedLimitUnit::Requests,
    },
];

/// Parses the account limits that a response reports. A quota refusal of Gemini reports a used-up limit.
pub(crate) fn parse_reported_limits(headers: &HeaderMap, body: &str, now: DateTime<Utc>) -> Vec<ReportedLimit> {
    let number = |name: &str| header_text(headers, name)?.parse().ok();
    let mut limits: Vec<ReportedLimit> = KNOWN_LIMIT_HEADERS
        .iter()
        .filter_map(|header| {
            Some(ReportedLimit {
                name: header.remaining,
                unit: header.unit,
                limit: number(header.limit),
                remaining: number(header.remaining)?,
                resets_in: parse_duration_or_time(header_text(headers, header.reset)?, now)?,
            })
        })
        .collect();
    if let Some(pause) = parse_gemini_retry_delay(body) {
        limits.push(ReportedLimit {
            name: "retryDelay",
            unit: ReportedLimitUnit::Requests,
            limit: None,
            remaining: 0,
            resets_in: pause,
        });
    }
    limits
}

/// Returns the pause before the next request that the response requests, if any.
pub(crate) fn requested_pause(
    status: StatusCode,
    headers: &HeaderMap,
    body: &str,
    now: DateTime<Utc>,
) -> Option<Duration> {
    let is_limit = matches!(status.as_u16(), 429 | 503);
    parse_retry_after(headers, now).or_else(|| parse_exhausted_limit_reset(headers, body, now).filter(|_| is_limit))
}

/// Returns the trimmed value of a header.
fn header_text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

/// Parses the `retry-after` headers: milliseconds, seconds or a date.
fn parse_retry_after(headers: &HeaderMap, now: DateTime<Utc>) -> Option<Duration> {
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| (0.0..1e9).contains(number));
    if let Some(milliseconds) = header_text(headers, "retry-after-ms").and_then(number) {
        return Some(Duration::from_secs_f64(milliseconds / 1000.0));
    }
    let header_value = header_text(headers, RETRY_AFTER.as_str())?;
    if let Some(seconds) = number(header_value) {
        return Some(Duration::from_secs_f64(seconds));
    }
    let date = |text: &str| DateTime::parse_from_rfc2822(text).ok();
    let since = header_text(headers, DATE.as_str())
        .and_then(date)
        .map_or(now, |date| date.to_utc());
    Some((date(header_value)?.to_utc() - since).to_std().unwrap_or_default())
}

/// Parses the time until a used-up limit is reset, from the body (Gemini) or the headers.
fn parse_exhausted_limit_reset(headers: &HeaderMap, body: &str, now: DateTime<Utc>) -> Option<Duration> {
    if let Some(delay) = parse_gemini_retry_delay(body) {
        return Some(delay);
    }
    let resets = KNOWN_LIMIT_HEADERS.iter().filter_map(|header| {
        let is_used_up = header_text(headers, header.remaining).is_none_or(|left| left == "0");
        parse_duration_or_time(header_text(headers, header.reset).filter(|_| is_used_up)?, now)
    });
    resets.max()
}

/// Parses the pause in the body of a refusal by Gemini.
fn parse_gemini_retry_delay(body: &str) -> Option<Duration> {
    let value: Value = serde_json::from_str(body).unwrap_or_default();
    let value = value.get(0).unwrap_or(&value);
    let mut details = value["error"]["details"].as_array().into_iter().flatten();
    parse_duration(details.find_map(|detail| detail["retryDelay"].as_str())?)
}

/// Parses a duration or a time: `6m0s`, `20ms`, `1.5`, seconds or milliseconds since 1970, or a date.
fn parse_duration_or_time(text: &str, now: DateTime<Utc>) -> Option<Duration> {
    if let Ok(date) = DateTime::parse_from_rfc3339(text) {
        return Some((date.to_utc() - now).to_std().unwrap_or_default());
    }
    let Ok(number) = text.parse::<f64>() else {
        return parse_duration(text);
    };
    let since_1970 = match number {
        number if number > 1e11 => number / 1000.0,
        number if number > 1e8 => number,
        seconds => return Duration::try_from_secs_f64(seconds).ok(),
    };
    let seconds = since_1970 - now.timestamp_millis() as f64 / 1000.0;
    Some(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// Parses a duration such as `1h2m3.5s` or `20ms`.
fn parse_duration(text: &str) -> Option<Duration> {
    let mut seconds = 0.0;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let unit = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        let of_unit = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * of_unit;
        rest = after;
    }
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Headers, by name.
    type Rows<'a> = &'a [(&'static str, &'a str)];

    #[test]
    fn every_way_to_say_how_long_to_wait_is_understood() {
        let gemini =
            r#"{"error": {"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "27s"}]}}"#;
        let rows: [(Rows<'_>, &str, Option<f64>); 9] = [
            (&[], gemini, Some(27.0)),
            (&[("retry-after", "3")], gemini, Some(3.0)),
            (&[("x-ratelimit-reset-requests", "1m0.5s")], "", Some(60.5)),
            (
                &[
                    ("x-ratelimit-reset-requests", "20ms"),
                    ("x-ratelimit-remaining-requests", "0"),
                    ("x-ratelimit-reset-tokens", "6m0s"),
                    ("x-ratelimit-remaining-tokens", "100"),
                ],
                "",
                Some(0.02),
            ),
            (
                &[("anthropic-ratelimit-requests-reset", "1970-01-01T00:00:09Z")],
                "",
                Some(9.0),
            ),
            (&[("x-ratelimit-reset", "4")], "", Some(4.0)),
            (&[("x-ratelimit-reset", "1741305600000")], "", Some(1_741_305_600.0)),
            (&[("x-ratelimit-reset-requests", "soon")], "", None),
            (&[], "{}", None),
        ];
        for (rows, body, expected) in rows {
            let one =
                |(name, value): &(&'static str, &str)| (name.parse().expect("a name"), value.parse().expect("a value"));
            let headers: HeaderMap = rows.iter().map(one).collect();
            let told = |status| requested_pause(status, &headers, body, DateTime::UNIX_EPOCH);
            let found = told(StatusCode::TOO_MANY_REQUESTS);
            assert_eq!(found.map(|pause| pause.as_secs_f64()), expected, "{rows:?} {body}");
            let limits = parse_reported_limits(&headers, body, DateTime::UNIX_EPOCH);
            let used_up = limits.iter().filter(|limit| limit.remaining == 0).count();
            let states_used_up = body.contains("retryDelay") || rows.iter().any(|(_, value)| *value == "0");
            assert_eq!(used_up, usize::from(states_used_up), "{rows:?} {body}");
            let is_always = headers.contains_key("retry-after");
            assert_eq!(told(StatusCode::BAD_GATEWAY).is_some(), is_always, "{rows:?}");
        }
    }
}
