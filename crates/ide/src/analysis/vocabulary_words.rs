//! The words of templates that belong to no table of the language.

/// The keys of `request` in templates.
pub(super) const REQUEST_KEYS: [&str; 3] = ["from", "parameters", "priority"];

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ensemble_language::data::AgentRequest;
    use ensemble_language::template::{Template, TemplateScope};

    use super::*;

    #[test]
    fn the_keys_of_a_request_are_those_that_a_template_reads() {
        let template = Template::compile("{{ request | list | sort | join(' ') }}").expect("a template");
        let request = AgentRequest {
            from: "a".into(),
            parameters: serde_json::json!({}),
            priority: 1,
        };
        let scope = TemplateScope {
            request: Some(Arc::new(request)),
            ..TemplateScope::default()
        };
        assert_eq!(template.render(&scope).expect("a text"), REQUEST_KEYS.join(" "));
    }
}
