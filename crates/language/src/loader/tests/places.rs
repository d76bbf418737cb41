//! From routes and from text back to the bytes of the source.

use super::{loaded, marked};
use crate::loader::document::{YamlDocument, YamlNode};
use crate::source::{NodePart, Route, RouteLocation, Span};

fn document(text: &str) -> YamlDocument {
    loaded(text).document.expect("YAML")
}

fn slice(document: &YamlDocument, at: &RouteLocation) -> String {
    let span = document.resolve_span(at);
    document.source().text()[span.start..span.end].to_owned()
}

#[test]
fn routes_lead_to_keys_and_values() {
    let text = "\u{feff}näme: &x 'é # no'   # yes\r\nb:\r\n  - !!str 1  # one\r\n  - {k: [1, 2 ] , l: }\r\n  - k:\r\n    - a b\r\n      c\r\n\r\n# end\r\nc: *x\r\n<<: {z: 1}\r\n";
    let document = document(text);
    let rows: &[(Route, &str, &str)] = &[
        (Route::root().with_key("näme"), "näme", "'é # no'"),
        (Route::root().with_key("b").with_index(0), "1", "1"),
        (
            Route::root().with_key("b").with_index(1),
            "{k: [1, 2 ] , l: }",
            "{k: [1, 2 ] , l: }",
        ),
        (Route::root().with_key("b").with_index(1).with_key("k"), "k", "[1, 2 ]"),
        (
            Route::root().with_key("b").with_index(1).with_key("k").with_index(1),
            "2",
            "2",
        ),
        // A value that is left out is shown by its key.
        (Route::root().with_key("b").with_index(1).with_key("l"), "l", "l"),
        (
            Route::root().with_key("b").with_index(2),
            "k:\r\n    - a b\r\n      c",
            "k:\r\n    - a b\r\n      c",
        ),
        (
            Route::root().with_key("b").with_index(2).with_key("k").with_index(0),
            "a b\r\n      c",
            "a b\r\n      c",
        ),
        (Route::root().with_key("c"), "c", "'é # no'"),
        (Route::root().with_key("z"), "z", "1"),
        // What is not there is shown by what is.
        (Route::root().with_key("b").with_index(0).with_key("q"), "1", "1"),
    ];
    for (route, key, value) in rows {
        assert_eq!(
            slice(&document, &route.clone().into_key_location()),
            *key,
            "key of {route}"
        );
        assert_eq!(
            slice(&document, &route.clone().into_value_location()),
            *value,
            "{route}"
        );
    }
}

#[test]
fn collections_end_where_they_end() {
    let text = "a:\n  b: 1\n  c: # nothing\n\n# far\nd: &d # [no\n  e: 1\nf: &f [ 1 ] # x\ng: [h: i ]\nj: {}\n";
    let document = document(text);
    let value = |key: &str| slice(&document, &Route::root().with_key(key).into_value_location());
    assert_eq!(value("a"), "b: 1\n  c");
    assert_eq!(value("d"), "e: 1");
    assert_eq!(value("f"), "[ 1 ]");
    assert_eq!(value("g"), "[h: i ]");
    assert_eq!(value("j"), "{}");
    assert_eq!(
        slice(
            &document,
            &Route::root().with_key("g").with_index(0).into_value_location()
        ),
        "h: i"
    );
}

/// Every word of the text under `k`, found by its place in the text, must be that word in the source.
fn words_map_back(yaml: &str) {
    let document = document(yaml);
    let node = document.root().get("k").expect("k");
    let text = node.string_text().expect("text").clone();
    let mut words = 0;
    let mut from = 0;
    for word in text.split(|c: char| !c.is_alphanumeric()) {
        let start = from;
        from += word.len();
        from += text[from..].chars().next().map_or(0, char::len_utf8);
        if word.is_empty() {
            continue;
        }
        words += 1;
        let at = Route::root()
            .with_key("k")
            .into_text_location(Span::new(start, start + word.len()));
        let written = slice(&document, &at);
        // A word with escapes is written otherwise; which bytes those are is tested below.
        let escaped = written == "\\u00e9t\\x41";
        assert!(
            written == word || escaped,
            "{word} at {start} of {text:?} is {written} in\n{yaml}"
        );
    }
    assert!(words > 1, "{yaml}");
}

#[test]
fn words_of_every_style_map_back() {
    for yaml in [
        "k: plain words in one line",
        "k: plain words\n  over two\n\n  or three lines   # end\nz: 1",
        "k: &a !!str plain words",
        "k: 'single it''s quoted'",
        "k: 'single it''s\n\n  quoted   \n  over lines' # x",
        "k: \"double \\\"quoted\\\" \\u00e9t\\x41 z\\n next\\\\last\"",
        "k: \"double\n  over \\\n  lines\n\n  end\"",
        "k: |\n  literal words\n    indented more\n\n  after a blank\n",
        "k: |2-\n\n\n   first words   \n\n  second words\n\n\nz: 1",
        "k: &a |\n\n  words below\n  an anchor\n",
        "k: >\n  folded words\n  of one line\n\n  and another\n    more indented\n  back\n",
        "k: >-\r\n  folded words\r\n  of one line\r\n\r\n  and another\r\n",
        "k: |\r\n  é à literal\r\n  ü words\r\n",
        "{k: flow plain words, z: 1}",
        "{k: \"flow quoted\", z: 1}",
        "{k: \"flow quoted\nover lines\", z: 1}",
        "k: words words words",
    ] {
        words_map_back(yaml);
    }
}

#[test]
fn escapes_map_to_the_whole_escape() {
    let document = document("k: \"a\\u00e9\\\"b\"\n");
    let at = |start, end| {
        slice(
            &document,
            &Route::root().with_key("k").into_text_location(Span::new(start, end)),
        )
    };
    assert_eq!(at(1, 3), "\\u00e9");
    assert_eq!(at(3, 4), "\\\"");
    assert_eq!(at(0, 5), "a\\u00e9\\\"b");
    assert_eq!(
        (at(5, 5), at(5, 99), at(99, 200)),
        (String::new(), String::new(), String::new())
    );
    assert_eq!(
        document
            .resolve_span(&Route::root().with_key("k").into_text_location(Span::new(5, 5)))
            .start,
        14
    );
}

#[test]
fn a_part_of_a_condition_is_found_in_its_line() {
    let text = "name: e\nagents:\n- {name: a, script: x}\n- name: b\n  script: x\n  dependencies:\n  - agent_name: a\n    condition: >\n      context.get('k')\n      and input\n";
    let loaded = loaded(text);
    let ensemble = loaded.ensemble.as_ref().expect("sound");
    let condition = ensemble.agents[1].dependencies[0]
        .condition
        .as_ref()
        .expect("condition");
    let start = condition.find("input").expect("input");
    let route = ensemble.agents[1].dependencies[0]
        .route_in(&crate::ensemble::Agent::route_at(1))
        .with_key("condition");
    let finding = crate::diagnostic::Finding::new_error(
        crate::diagnostic::FindingCode("E999"),
        route.into_text_location(Span::new(start, start + 5)),
        "unknown",
    );
    let diagnostics = loaded.diagnostics_with(&[finding]);
    assert_eq!(marked(&diagnostics[0]), "input");
    let place = diagnostics[0].source.line_column(diagnostics[0].span.start);
    assert_eq!((place.line, place.column), (10, 11));
}

#[test]
fn places_of_the_source_need_no_document() {
    let loaded = loaded("a: [\n");
    assert!(loaded.document.is_none());
    let diagnostics = loaded.diagnostics();
    assert!(matches!(loaded.findings[0].at.part, NodePart::Source(_)));
    assert_eq!(diagnostics[0].span.start, 4);
}

#[test]
fn columns_count_characters() {
    let text = "\u{feff}# é\r\nname: é\r\nagents: [{name: é, script: x}] # ü\r\n";
    let diagnostics = loaded(text).diagnostics();
    let places: Vec<_> = diagnostics
        .iter()
        .map(|it| it.source.line_column(it.span.start))
        .collect();
    let places: Vec<_> = places.iter().map(|place| (place.line, place.column)).collect();
    assert_eq!(places, [(2, 7), (3, 17)]);
    assert_eq!((marked(&diagnostics[0]), marked(&diagnostics[1])), ("é", "é"));
}

#[test]
fn spans_nest() {
    fn inside(node: &YamlNode, outer: Span) {
        assert!(
            node.span.start <= node.span.end && outer.start <= node.span.start,
            "{node:?} in {outer:?}"
        );
        assert!(node.span.end <= outer.end, "{node:?} in {outer:?}");
        for item in node.items().unwrap_or_default() {
            inside(item, node.span);
        }
        if let crate::loader::document::YamlContent::Mapping(entries) = &node.content {
            for entry in entries {
                assert!(
                    entry.key_span.start >= node.span.start && entry.key_span.end <= node.span.end,
                    "{entry:?}"
                );
                inside(&entry.value, node.span);
            }
        }
    }
    for text in super::valid::TEXTS {
        if !text.contains('*') {
            inside(document(text).root(), Span::new(0, text.len()));
        }
    }
}
