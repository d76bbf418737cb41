//! The files of the page. They are in the program, and nothing comes from elsewhere.
//!
//! Invariant: texts become text nodes, never markup.

use crate::reply::{UiReply, page_file_reply};

const SCRIPT_CONTENT_TYPE: &str = "text/javascript; charset=utf-8";
const STYLE_CONTENT_TYPE: &str = "text/css; charset=utf-8";

/// Finds the embedded file of the page at this path.
pub(crate) fn find_page_file(path: &str) -> Option<UiReply> {
    let (content_type, text) = match path {
        "/" => ("text/html; charset=utf-8", include_str!("page/index.html")),
        "/style.css" => (STYLE_CONTENT_TYPE, include_str!("page/style.css")),
        "/graph.css" => (STYLE_CONTENT_TYPE, ensemble_reports::report::graph::SVG_STYLE),
        "/main.js" => (SCRIPT_CONTENT_TYPE, include_str!("page/main.js")),
        "/base.js" => (SCRIPT_CONTENT_TYPE, include_str!("page/base.js")),
        "/list.js" => (SCRIPT_CONTENT_TYPE, include_str!("page/list.js")),
        "/run.js" => (SCRIPT_CONTENT_TYPE, include_str!("page/run.js")),
        "/rows.js" => (SCRIPT_CONTENT_TYPE, include_str!("page/rows.js")),
        "/detail.js" => (SCRIPT_CONTENT_TYPE, include_str!("page/detail.js")),
        "/graph.js" => (SCRIPT_CONTENT_TYPE, include_str!("page/graph.js")),
        "/canvas.js" => (SCRIPT_CONTENT_TYPE, include_str!("page/canvas.js")),
        "/form.js" => (SCRIPT_CONTENT_TYPE, include_str!("page/form.js")),
        "/named.js" => (SCRIPT_CONTENT_TYPE, include_str!("page/named.js")),
        "/signature.js" => (SCRIPT_CONTENT_TYPE, include_str!("page/signature.js")),
        "/talk.js" => (SCRIPT_CONTENT_TYPE, include_str!("page/talk.js")),
        "/act.js" => (SCRIPT_CONTENT_TYPE, include_str!("page/act.js")),
        "/start.js" => (SCRIPT_CONTENT_TYPE, include_str!("page/start.js")),
        "/edit.js" => (SCRIPT_CONTENT_TYPE, include_str!("page/edit.js")),
        "/editor.js" => (SCRIPT_CONTENT_TYPE, include_str!("page/editor.js")),
        "/highlight.js" => (SCRIPT_CONTENT_TYPE, include_str!("page/highlight.js")),
        "/panel.js" => (SCRIPT_CONTENT_TYPE, include_str!("page/panel.js")),
        "/icon.svg" => ("image/svg+xml", include_str!("page/icon.svg")),
        _ => return None,
    };
    Some(page_file_reply(content_type, text))
}
