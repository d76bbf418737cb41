//! Whatever the text, the loader comes back with an answer.

use proptest::prelude::*;

use super::loaded;
use super::valid::TEXTS;
use crate::source::{NodePart, Span};

/// Reads a text and shows all that is said about it; places must lie in the text.
fn survives(text: &str) {
    let loaded = loaded(text);
    assert_eq!(
        loaded.ensemble.is_some(),
        loaded
            .findings
            .iter()
            .all(|it| it.severity != crate::diagnostic::FindingSeverity::Error)
    );
    for diagnostic in loaded.diagnostics() {
        let spans = diagnostic.related.iter().map(|one| one.span).chain([diagnostic.span]);
        for span in spans {
            assert!(span.start <= span.end, "{span:?} {text:?}");
            assert!(text.get(span.start..span.end).is_some(), "{span:?} {text:?}");
        }
    }
    if let (Some(document), Some(ensemble)) = (&loaded.document, &loaded.ensemble) {
        let _ = crate::check::check_ensemble(ensemble);
        for (index, agent) in ensemble.agents.iter().enumerate() {
            for edge in &agent.dependencies {
                let route = edge
                    .route_in(&crate::ensemble::Agent::route_at(index))
                    .with_key("condition");
                let length = edge.condition.as_deref().map_or(0, str::len);
                for end in 0..=length {
                    let at = crate::source::RouteLocation {
                        route: route.clone(),
                        part: NodePart::Text(Span::new(end / 2, end)),
                    };
                    let span = document.resolve_span(&at);
                    assert!(text.get(span.start..span.end).is_some(), "{span:?} {text:?}");
                }
            }
        }
    }
}

/// What YAML is made of, so that arbitrary texts come near to being some.
fn yamlish() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        Just("name: e\n"),
        Just("agents:\n"),
        Just("- name: a\n"),
        Just("  script: x\n"),
        Just("  "),
        Just("\n"),
        Just("- "),
        Just(": "),
        Just("? "),
        Just("["),
        Just("]"),
        Just("{"),
        Just("}"),
        Just(","),
        Just("&a "),
        Just("*a"),
        Just("<<: "),
        Just("!!str "),
        Just("!x "),
        Just("|\n"),
        Just(">-\n"),
        Just("'"),
        Just("\""),
        Just("\\"),
        Just("#"),
        Just(" # é\n"),
        Just("\t"),
        Just("\r\n"),
        Just("\r"),
        Just("---\n"),
        Just("...\n"),
        Just("%YAML 1.2\n"),
        Just("\u{feff}"),
        Just("é"),
        Just("😀"),
        Just("\0"),
        Just("\u{85}"),
        Just("\u{2028}"),
        Just("3"),
        Just("null"),
        Just("true"),
        Just("word"),
        Just("|2\n"),
        Just("\\u00e9"),
        Just("depends_on: [a]\n"),
    ];
    prop::collection::vec(token, 0..60).prop_map(|tokens| tokens.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(text in "\\PC*") {
        survives(&text);
    }

    #[test]
    fn texts_made_of_yaml(text in yamlish()) {
        survives(&text);
    }

    #[test]
    fn sound_texts_with_something_put_in(which in 0..TEXTS.len(), at in any::<prop::sample::Index>(), cut in 0..4_usize, put in yamlish()) {
        let text = TEXTS[which];
        let from = text.floor_char_boundary(at.index(text.len()));
        let to = text.floor_char_boundary((from + cut).min(text.len())).max(from);
        survives(&format!("{}{put}{}", &text[..from], &text[to..]));
    }
}

#[test]
fn every_beginning_of_a_sound_text() {
    for text in TEXTS {
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            survives(&text[..end]);
        }
    }
}
