//! Texts that llm-orc uses unchanged, and that are templates in this language.

use ensemble_language::template::contains_tag_start;

/// Converts the text to a template that renders to the text.
pub(super) fn escape_as_template(text: &str) -> String {
    if !contains_tag_start(text) {
        return text.to_owned();
    }
    if !text.contains("endraw") {
        return format!("{{% raw %}}{text}{{% endraw %}}");
    }
    let mut template = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        template.push_str(&rest[..at]);
        template.push_str("{{ '{' }}");
        rest = &rest[at + 1..];
    }
    template + rest
}

#[cfg(test)]
mod tests {
    use super::escape_as_template;

    #[test]
    fn a_text_renders_to_itself() {
        for text in [
            "plain",
            "{{ x }} and {% if %} {# no #}",
            "{% endraw %}{{",
            "a { b } c",
            "{",
            "{{{{ endraw",
        ] {
            let environment = minijinja::Environment::new();
            let rendered = environment
                .render_str(&escape_as_template(text), ())
                .expect("a template");
            assert_eq!(rendered, text);
        }
        assert_eq!(escape_as_template("a { b } c"), "a { b } c");
    }
}
