//! The element is sound, whole in itself, and says what there is to say.

use super::super::{NodeActivity, NodeRunData, NodeShape, PictureNode};
use super::*;

fn draw(picture: &GraphPicture) -> String {
    render_svg(picture).expect("it is small")
}

fn node(name: &str, shape: NodeShape) -> PictureNode {
    PictureNode {
        name: name.to_owned(),
        shape,
        is_stack: false,
        notes: Vec::new(),
        run_data: None,
    }
}

fn arrow(from: usize, to: usize) -> DependencyArrow {
    DependencyArrow {
        from,
        to,
        ending: DependencyTrigger::Success,
        condition: None,
        most: None,
        feedback: false,
        any_of: false,
        start_count: None,
    }
}

fn picture(nodes: Vec<PictureNode>, arrows: Vec<DependencyArrow>) -> GraphPicture {
    GraphPicture {
        title: "team".to_owned(),
        subtitle: None,
        count_unit: ExecutionCountUnit::Run,
        nodes,
        arrows,
    }
}

/// Every element is closed in its turn, and no bare `<` or `&` stands in a text.
fn assert_well_formed(xml: &str) {
    let mut open = Vec::new();
    let mut rest = xml;
    while let Some(start) = rest.find('<') {
        for entity in rest[..start].split('&').skip(1) {
            let name = entity.split(';').next().unwrap_or("");
            assert!(["amp", "lt", "gt", "quot"].contains(&name), "&{entity}");
        }
        let end = start + rest[start..].find('>').expect("a tag that ends");
        let tag = &rest[start + 1..end];
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or("");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn what_a_file_says_is_text() {
    let mut hostile = arrow(0, 1);
    hostile.condition = Some("output.a < 1 && context[\"</svg><script>\"] > '&\u{1}'".to_owned());
    let mut nodes = vec![node("a", NodeShape::Script), node("b", NodeShape::Ensemble)];
    nodes[1].run_data = Some(NodeRunData::Idle {
        why: Some("<b>".to_owned()),
    });
    let drawn = draw(&picture(nodes, vec![hostile]));
    assert_well_formed(&drawn);
    assert!(!drawn.contains("<script") && !drawn.contains("<b>"), "{drawn}");
    assert!(!drawn.contains('\u{1}'));
    assert!(drawn.contains("&lt;/svg&gt;&lt;script&gt;"), "{drawn}");
}

#[test]
fn it_needs_nothing_outside_and_can_stand_beside_another() {
    let drawn = draw(&picture(vec![node("a", NodeShape::Llm)], Vec::new()));
    let outside = drawn.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for word in ["http", "href", "url(", "@import", " id=", "<script"] {
        assert!(!outside.contains(word), "{word}");
    }
    // Every rule is about the picture, none about the page around it.
    for line in SVG_STYLE
        .lines()
        .filter(|line| line.contains('{') && !line.starts_with('@'))
    {
        let selectors = line.split('{').next().unwrap_or("");
        assert!(
            selectors
                .split(',')
                .all(|one| one.trim().starts_with(".ensemble-graph")),
            "{line}"
        );
    }
}

#[test]
fn it_is_told_to_those_who_do_not_see_it() {
    let drawn = draw(&picture(
        vec![node("a", NodeShape::Script), node("b", NodeShape::Input)],
        vec![arrow(0, 1)],
    ));
    assert!(drawn.contains("role=\"img\""));
    assert!(drawn.contains("<title>team: who listens to whom</title>"));
    let described = drawn
        .split("<desc>")
        .nth(1)
        .and_then(|rest| rest.split("</desc>").next());
    assert!(
        described.is_some_and(|text| text.contains("b (input)\n  &lt;-- a\n")),
        "{described:?}"
    );
}

#[test]
fn kinds_and_arrows_are_told_apart() {
    let nodes = [NodeShape::Script, NodeShape::Llm, NodeShape::Input, NodeShape::Ensemble]
        .map(|shape| node(shape.kind_word(), shape))
        .to_vec();
    let mut arrows = vec![arrow(0, 1), arrow(1, 2), arrow(2, 3)];
    arrows[0].feedback = true;
    arrows[1].any_of = true;
    arrows[2].ending = DependencyTrigger::Failure;
    arrows[2].most = Some(2);
    let drawn = draw(&picture(nodes, arrows));
    assert_well_formed(&drawn);
    for kind in ["script", "llm", "input", "ensemble"] {
        assert!(drawn.contains(&format!("class=\"shape {kind}\"")), "{kind}");
        assert!(drawn.contains(&format!(">{kind}</text>")), "{kind}");
    }
    for piece in [
        "<g class=\"arrow feedback\"><title>llm listens to script (feedback)</title>",
        "<g class=\"arrow any-of\"><title>input listens to llm (one of these is enough)</title>",
        "<g class=\"arrow failure\"><title>ensemble listens to input: on failure, at most 2 times</title>",
        ">feedback: not needed before the first execution</text>",
        ">one of these is enough</text>",
        ">listens to failures</text>",
        "<circle class=\"ring\"",
    ] {
        assert!(drawn.contains(piece), "{piece}\n{drawn}");
    }
    assert!(!drawn.contains("in this run"));
}

#[test]
fn a_run_is_laid_over_it() {
    let mut nodes = vec![
        node("a", NodeShape::Script),
        node("b", NodeShape::Llm),
        node("c", NodeShape::Llm),
    ];
    nodes[0].run_data = Some(NodeRunData::Ran {
        executions: 3,
        failed: 1,
        parts: (0, 0),
    });
    nodes[1].run_data = Some(NodeRunData::Ran {
        executions: 1,
        failed: 0,
        parts: (0, 0),
    });
    nodes[2].run_data = Some(NodeRunData::Idle {
        why: Some("waiting for b".to_owned()),
    });
    let mut arrows = vec![arrow(0, 1), arrow(1, 2)];
    arrows[0].start_count = Some(1);
    arrows[1].start_count = Some(0);
    let mut picture = picture(nodes, arrows);
    picture.subtitle = Some("run x: completed".to_owned());
    let drawn = draw(&picture);
    for piece in [
        "<g class=\"agent failed\"><title>a, script, ran 3 times, 1 failed</title>",
        "<g class=\"agent\"><title>b, llm, ran once</title>",
        "<g class=\"agent idle\"><title>c, llm, did not run: waiting for b</title>",
        "<g class=\"arrow started\"><title>b listens to a: started once</title>",
        "<g class=\"arrow idle\"><title>c listens to b</title>",
        ">started once</text>",
        ">run x: completed</text>",
    ] {
        assert!(drawn.contains(piece), "{piece}\n{drawn}");
    }
}

#[test]
fn an_agent_at_work_is_drawn_at_work() {
    let table = [
        (
            NodeActivity::Running,
            0,
            0,
            "<g class=\"agent active\"><title>a, llm, runs now</title>",
        ),
        (
            NodeActivity::Running,
            2,
            1,
            "<g class=\"agent active failed\"><title>a, llm, runs now; ran 2 times before, 1 failed</title>",
        ),
        (
            NodeActivity::Waiting,
            1,
            0,
            "<g class=\"agent waiting\"><title>a, llm, waits for an answer; ran once before</title>",
        ),
        (
            NodeActivity::Stopped,
            0,
            0,
            "<g class=\"agent\"><title>a, llm, was stopped</title>",
        ),
    ];
    for (activity, executions, failed, piece) in table {
        let mut nodes = vec![node("a", NodeShape::Llm), node("b", NodeShape::Llm)];
        nodes[0].run_data = Some(NodeRunData::Unfinished {
            activity,
            executions,
            failed,
        });
        let mut picture = picture(nodes, Vec::new());
        let drawn = draw(&picture);
        assert!(drawn.contains(piece), "{piece}\n{drawn}");
        // A question that no record contains makes an agent wait, but only one at work.
        picture.mark_waiting_agents(&["a", "b"]);
        let drawn = draw(&picture);
        assert_eq!(drawn.matches("<g class=\"agent waiting").count(), 1, "{drawn}");
    }
}

/// Returns the number of an attribute in the first element that begins so.
fn number(drawn: &str, element: &str, of: &str) -> f64 {
    let rest = drawn.split(element).nth(1).expect("the element");
    let rest = rest.split(&format!(" {of}=\"")).nth(1).expect("the attribute");
    let digits = rest.split('"').next().unwrap_or("");
    digits.parse().expect("a number")
}

#[test]
fn there_is_room_for_all_words() {
    let mut arrows = vec![arrow(0, 1), arrow(1, 0)];
    arrows[1].feedback = true;
    let nodes = vec![node("a", NodeShape::Script), node("b", NodeShape::Script)];
    let mut picture = picture(nodes, arrows);
    let narrow = draw(&picture);
    let (width, height) = (number(&narrow, "<svg", "width"), number(&narrow, "<svg", "height"));
    let box_top = number(&narrow, "<rect class=\"shape script\"", "y");
    let heading = number(&narrow, "<text class=\"heading\"", "y");
    assert!(box_top > heading, "{narrow}");
    let legend = "<text class=\"legend\"";
    assert!(number(&narrow, legend, "y") + 4.0 < height, "{narrow}");
    let meaning = words::estimate_text_width("feedback: not needed before the first execution", 6.8);
    assert!(number(&narrow, legend, "x") + meaning < width, "{narrow}");

    picture.title = "a title that is longer than what it is about, by far and for no reason".to_owned();
    let subtitle = "and a subtitle that is longer still than the title, so that it decides how broad the whole thing is, doubtless";
    picture.subtitle = Some(subtitle.to_owned());
    let broad = draw(&picture);
    let width = number(&broad, "<svg", "width");
    assert!(
        PICTURE_MARGIN + words::estimate_text_width(&picture.title, 10.0) < width,
        "{broad}"
    );
    assert!(
        PICTURE_MARGIN + words::estimate_text_width(subtitle, 6.8) < width,
        "{broad}"
    );
    let note = number(&broad, "<text class=\"note\"", "y");
    assert!(number(&broad, "<rect class=\"shape script\"", "y") > note, "{broad}");
}

/// Returns the points of an arrow's head, the tip first, of the arrow with this title.
fn head(drawn: &str, title: &str) -> Vec<(f64, f64)> {
    let rest = drawn
        .split(&format!("<title>{title}</title>"))
        .nth(1)
        .expect("an arrow");
    let data = rest.split("<path class=\"head\" d=\"M").nth(1).expect("a head");
    let points = data.split('"').next().unwrap_or("").trim_end_matches(" Z").split(" L");
    let pixels = |text: &str| text.parse::<f64>().expect("a number");
    points
        .map(|point| point.split_once(',').map(|(x, y)| (pixels(x), pixels(y))).expect("x,y"))
        .collect()
}

#[test]
fn heads_point_at_whoever_listens() {
    let mut arrows = vec![arrow(0, 1), arrow(1, 0)];
    arrows[1].feedback = true;
    let drawn = draw(&picture(
        vec![node("a", NodeShape::Script), node("b", NodeShape::Script)],
        arrows,
    ));
    let down = head(&drawn, "b listens to a");
    let up = head(&drawn, "a listens to b (feedback)");
    assert!(down[1..].iter().all(|corner| corner.1 < down[0].1), "{down:?}");
    assert!(up[1..].iter().all(|corner| corner.1 > up[0].1), "{up:?}");
    assert!(up[0].1 < down[0].1, "{up:?} {down:?}");
}

#[test]
fn a_broad_picture_goes_from_left_to_right() {
    let size = |drawn: &str, of: &str| number(drawn, "<svg", of);
    let nodes = |count: usize| {
        (0..count)
            .map(|at| node(&format!("agent_{at}"), NodeShape::Script))
            .collect()
    };
    let fan = |count: usize| draw(&picture(nodes(count), (1..count).map(|to| arrow(0, to)).collect()));
    let few = fan(4);
    assert!(size(&few, "width") > size(&few, "height"), "{few}");
    let many = fan(30);
    assert!(size(&many, "width") < size(&many, "height") && size(&many, "width") < MAX_DOWNWARD_WIDTH);
    let boxes = many.split("<rect class=\"shape script\"").skip(1);
    let right: Vec<f64> = boxes
        .map(|rest| {
            let rest = format!("<rect{}", rest.split("/>").next().unwrap_or(""));
            let right = number(&rest, "<rect", "x") + number(&rest, "<rect", "width");
            let bottom = number(&rest, "<rect", "y") + number(&rest, "<rect", "height");
            assert!(right < size(&many, "width") && bottom < size(&many, "height"), "{rest}");
            right
        })
        .collect();
    assert!(right[1..].iter().all(|one| *one > right[0]), "{right:?}");
    // What is still longer than broad stays as it is.
    let long = (1..16)
        .map(|to| arrow(0, to))
        .chain((16..40).map(|to| arrow(to - 1, to)));
    let both = draw(&picture(nodes(40), long.collect()));
    assert!(size(&both, "width") > MAX_DOWNWARD_WIDTH && size(&both, "width") < size(&both, "height"));
}

#[test]
fn long_words_are_broken_and_the_whole_is_kept_for_the_pointer() {
    let condition =
        "output.a_name_that_is_longer_than_any_line_can_be == 1 and output.another_one_that_is_long > 2 or 3 > 4";
    assert_eq!(
        words::wrap_text(condition, 30, 3),
        [
            "output.a_name_that_is_longer_",
            "than_any_line_can_be == 1 and",
            "output.another_one_that_is_…",
        ]
    );
    assert_eq!(words::wrap_text("short", 30, 3), ["short"]);
    assert!((words::estimate_text_width("a字", 10.0) - 30.0).abs() < 0.01);
    assert_eq!(words::wrap_text("字字字字字", 4, 2), ["字字", "字…"]);
    let mut long = arrow(0, 1);
    long.condition = Some(condition.to_owned());
    let drawn = draw(&picture(
        vec![node("a", NodeShape::Script), node("b", NodeShape::Script)],
        vec![long],
    ));
    assert!(drawn.contains("if output.a_name_that_is_longer_than_any_line_can_be == 1 and output.another_one_that_is_long &gt; 2 or 3 &gt; 4</title>"));
}
