//! Draws a small graph of agents as Mermaid and as SVG.

use ensemble_reports::report::graph::{
    DependencyArrow, DependencyTrigger, ExecutionCountUnit, GraphPicture, NodeShape, PictureNode, render_mermaid,
    render_svg,
};

fn agent(name: &str, shape: NodeShape) -> PictureNode {
    PictureNode {
        name: name.to_owned(),
        shape,
        is_stack: false,
        notes: Vec::new(),
        run_data: None,
    }
}

fn arrow(from: usize, to: usize, condition: Option<&str>) -> DependencyArrow {
    DependencyArrow {
        from,
        to,
        ending: DependencyTrigger::Success,
        condition: condition.map(str::to_owned),
        most: None,
        feedback: condition.is_some(),
        any_of: false,
        start_count: None,
    }
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() {
    let picture = GraphPicture {
        title: "review".to_owned(),
        subtitle: None,
        count_unit: ExecutionCountUnit::Run,
        nodes: vec![agent("writer", NodeShape::Llm), agent("reviewer", NodeShape::Input)],
        arrows: vec![arrow(0, 1, None), arrow(1, 0, Some("not output.approved"))],
    };
    let drawn = render_mermaid(&picture);
    println!("{drawn}\n{}", render_svg(&picture).expect("it is small"));
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
    assert!(render_svg(&picture).is_ok_and(|drawn| drawn.contains("not output.approved")));
}
