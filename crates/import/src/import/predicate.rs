//! `when` and `until`: `${agent.key}`, or `${agent.key} == literal`.

use ensemble_language::condition::Condition;
use ensemble_language::names::is_script_member_name;

/// Predicate of llm-orc: a path in an output, and an optional value for the comparison.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GuardPredicate {
    /// The name before the first dot.
    pub(super) head: String,
    /// The other keys.
    path: Vec<String>,
    /// The value for the comparison, in the syntax of conditions.
    literal: Option<String>,
}

impl GuardPredicate {
    /// Parses a predicate. Returns `None` for another kind of comparison.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (left, literal) = match text.split_once("==") {
            Some((left, right)) => (left.trim(), Some(convert_compared_literal(right.trim())?)),
            None => (text.trim(), None),
        };
        let inner = left.strip_prefix("${")?.strip_suffix('}')?;
        let mut parts = inner.split('.').map(str::to_owned);
        let head = parts.next().filter(|head| !head.is_empty())?;
        let path: Vec<String> = parts.collect();
        let sound = path
            .iter()
            .all(|part| !part.is_empty() && !part.contains(['{', '}', '$']));
        sound.then_some(Self { head, path, literal })
    }

    /// Returns the condition on the output of the agent that the first name denotes. Returns `None` without a key.
    pub(super) fn to_condition_without_agent(&self) -> Option<String> {
        if self.path.is_empty() {
            return None;
        }
        self.render_condition_on_path(&self.path)
    }

    /// Returns the condition on an output in which the first name is a key.
    pub(super) fn to_condition_with_all_keys(&self) -> Option<String> {
        let mut path = vec![self.head.clone()];
        path.extend(self.path.iter().cloned());
        self.render_condition_on_path(&path)
    }

    /// Renders the condition on this path. Returns `None` if the condition has a syntax error.
    fn render_condition_on_path(&self, path: &[String]) -> Option<String> {
        let mut text = "output".to_owned();
        for (at, part) in path.iter().enumerate() {
            let word = is_script_member_name(part) && Condition::check_syntax(&format!("output.{part}")).is_ok();
            let quiet = if at == 0 { "" } else { "?" };
            text.push_str(&match word {
                true => format!("{quiet}.{part}"),
                false => format!("{quiet}[{}]", quote_condition_literal(part)),
            });
        }
        if let Some(literal) = &self.literal {
            text = format!("{text} == {literal}");
        }
        Condition::check_syntax(&text).is_ok().then_some(text)
    }
}

/// Converts the compared value to a literal of conditions. Returns `None` for an empty or computed value.
fn convert_compared_literal(text: &str) -> Option<String> {
    match text {
        "" => None,
        text if text.contains("${") => None,
        "true" => Some("True".to_owned()),
        "false" => Some("False".to_owned()),
        text if text.parse::<f64>().is_ok_and(f64::is_finite) && !text.starts_with('+') => Some(text.to_owned()),
        text => {
            let bare = ['"', '\''].iter().find_map(|quote| {
                let inner = text.strip_prefix(*quote)?.strip_suffix(*quote)?;
                Some(inner)
            });
            Some(quote_condition_literal(bare.unwrap_or(text)))
        }
    }
}

/// Renders the text as a string literal of conditions.
fn quote_condition_literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use super::GuardPredicate;

    #[test]
    fn predicates_become_conditions() {
        for (text, head, condition) in [
            ("${gate.ok}", "gate", Some("output.ok")),
            (" ${gate.ok} == false ", "gate", Some("output.ok == False")),
            ("${gate.a.b} == 'x y'", "gate", Some("output.a?.b == 'x y'")),
            ("${gate.kind} == build", "gate", Some("output.kind == 'build'")),
            ("${gate.n} == 3", "gate", Some("output.n == 3")),
            ("${gate.ok} == true", "gate", Some("output.ok == True")),
            ("${my-gate.is-ok}", "my-gate", Some("output['is-ok']")),
            ("${gate}", "gate", None),
        ] {
            let predicate = GuardPredicate::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(
                (
                    predicate.head.as_str(),
                    predicate.to_condition_without_agent().as_deref()
                ),
                (head, condition),
                "{text}"
            );
        }
        for text in [
            "gate.ok",
            "${gate.ok} == ${other.ok}",
            "${gate.ok} ==",
            "",
            "${}",
            "${a..b}",
        ] {
            assert_eq!(GuardPredicate::parse(text), None, "{text}");
        }
        let until = GuardPredicate::parse("${diagnostics.accept}").expect("a predicate");
        assert_eq!(
            until.to_condition_with_all_keys().as_deref(),
            Some("output.diagnostics?.accept")
        );
    }
}
