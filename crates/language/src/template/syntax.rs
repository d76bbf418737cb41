//! The tags of a template: where they begin and end.
//!
//! This is the only scanner of tags. What is inside of a tag is read by MiniJinja's own lexer and parser.

use crate::source::Span;

/// The kinds of tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateTagKind {
    /// `{{ … }}`
    Output,
    /// `{% … %}`
    Block,
}

/// A tag of a template, with the span between its braces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TemplateTag {
    /// The kind.
    pub kind: TemplateTagKind,
    /// The bytes between the braces.
    pub inner_span: Span,
    /// Whether the tag has an end. A tag without an end reaches to the end of the text.
    pub is_closed: bool,
}

/// Returns whether the text contains `{{`, `{%` or `{#`.
pub fn contains_tag_start(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark))
}

/// Iterates over the tags of a text in order, without comments and the content of `raw` blocks.
pub fn iter_tags(text: &str) -> impl Iterator<Item = TemplateTag> + use<'_> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let open = at + text.get(at..)?.find('{')?;
            let inside = open + 2;
            let kind = match text.as_bytes().get(open + 1) {
                Some(b'{') => TemplateTagKind::Output,
                Some(b'%') => TemplateTagKind::Block,
                Some(b'#') => {
                    at = text[inside..].find("#}").map_or(text.len(), |end| inside + end + 2);
                    continue;
                }
                _ => {
                    at = open + 1;
                    continue;
                }
            };
            let end = find_tag_end(&text[inside..], kind).map(|end| inside + end);
            let tag = TemplateTag {
                kind,
                inner_span: Span::new(inside, end.unwrap_or(text.len())),
                is_closed: end.is_some(),
            };
            at = end.map_or(text.len(), |end| end + 2);
            let words = text[tag.inner_span.start..tag.inner_span.end].trim_matches(['-', '+', ' ', '\t', '\n', '\r']);
            if kind == TemplateTagKind::Block && words == "raw" {
                at = text[at..].find("endraw").map_or(text.len(), |end| at + end);
                continue;
            }
            return Some(tag);
        }
    })
}

/// Returns the position of the first closing braces outside of strings, or else of the first closing braces.
fn find_tag_end(inside: &str, kind: TemplateTagKind) -> Option<usize> {
    let close = match kind {
        TemplateTagKind::Output => "}}",
        TemplateTagKind::Block => "%}",
    };
    let first = inside.find(close)?;
    if !inside[..first].contains(['"', '\'']) {
        return Some(first);
    }
    let mut quote = None;
    let mut characters = inside.char_indices();
    while let Some((at, c)) = characters.next() {
        match quote {
            Some(_) if c == '\\' => drop(characters.next()),
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if inside[at..].starts_with(close) => return Some(at),
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None => {}
        }
    }
    Some(first)
}

#[cfg(test)]
mod tests {
    use minijinja::machinery::{Token, tokenize};
    use minijinja::syntax::SyntaxConfig;
    use proptest::prelude::*;

    use super::*;

    fn inside(text: &str) -> Vec<&str> {
        iter_tags(text)
            .map(|tag| &text[tag.inner_span.start..tag.inner_span.end])
            .collect()
    }

    #[test]
    fn tags_are_found_and_comments_and_raw_blocks_are_not() {
        let table: [(&str, &[&str]); 10] = [
            ("a {{ b }} c {%- if d -%}e{% endif %}", &[" b ", "- if d -", " endif "]),
            ("{# {{ a }} #}{{ b }}", &[" b "]),
            ("{% raw %}{{ a }}{% endraw %}{{ b }}", &[" b "]),
            ("{%- raw -%}{{ a }}", &[]),
            ("{{ \"}}\" }}x", &[" \"}}\" "]),
            ("{{ '%}' }}{% if '%}' %}", &[" '%}' ", " if '%}' "]),
            ("{{ a['x }} {{ b }}", &[" a['x ", " b "]),
            ("{ {{ a", &[" a"]),
            ("{a} {", &[]),
            ("é{{é}}", &["é"]),
        ];
        for (text, expected) in table {
            assert_eq!(inside(text), expected, "{text}");
        }
        assert!(iter_tags("{{ a").all(|tag| !tag.is_closed));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn tags_are_those_of_the_lexer(
            parts in prop::collection::vec(prop_oneof![
                Just("{{ a }}"), Just("{{- b.c -}}"), Just("{% if x %}"), Just("{% endif %}"), Just("{# {{ c }} #}"),
                Just("{% raw %}{{ r }}{% endraw %}"), Just("{{ 'x}}' }}"), Just("{% set a = \"%}\" %}"), Just("{ "),
                Just("}} "), Just("%} "), Just("text\n"), Just("é"),
            ], 0..6),
        ) {
            let text = parts.concat();
            let mut expected = Vec::new();
            let mut start = None;
            for (token, span) in tokenize(&text, false, SyntaxConfig::default()).map_while(Result::ok) {
                match token {
                    Token::VariableStart | Token::BlockStart => start = Some(span.start_offset as usize + 2),
                    Token::VariableEnd | Token::BlockEnd => expected.extend(start.take()),
                    _ => {}
                }
            }
            // The lexer has no tags for a raw block; its end is a tag here only without its braces.
            let found: Vec<usize> = iter_tags(&text).map(|tag| tag.inner_span.start).collect();
            prop_assert_eq!(found, expected, "{}", text);
        }
    }
}
