//! Draws a small graph of agents as Mermaid and as SVG.

use ensemble_reports::report::graph::{Arrow, CountedIn, Ending, Node, Picture, Shape, mermaid, svg};

fn agent(name: &str, shape: Shape) -> Node {
    Node {
        name: name.to_owned(),
        shape,
        is_stack: false,
        notes: Vec::new(),
        run_data: None,
    }
}

fn arrow(from: usize, to: usize, condition: Option<&str>) -> Arrow {
    Arrow {
        from,
        to,
        ending: Ending::Success,
        condition: condition.map(str::to_owned),
        most: None,
        feedback: condition.is_some(),
        any_of: false,
        started: None,
    }
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() {
    let picture = Picture {
        title: "review".to_owned(),
        subtitle: None,
        counted_in: CountedIn::Run,
        nodes: vec![agent("writer", Shape::Llm), agent("reviewer", Shape::Input)],
        arrows: vec![arrow(0, 1, None), arrow(1, 0, Some("not output.approved"))],
    };
    let drawn = mermaid(&picture);
    println!("{drawn}\n{}", svg(&picture));
    let expected = r#"---
title: "review"
---
flowchart TD
    n0(["writer<br/>llm"])
    n1[/"reviewer<br/>input"/]
    n0 --> n1
    n1 -.->|"if not output.approved"| n0
"#;
    assert_eq!(drawn, expected);
    assert!(svg(&picture).contains("not output.approved"));
}
