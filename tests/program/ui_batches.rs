//! The batches of the page.

use super::ui::workspace;
use crate::support::page::Page;
use serde_json::json;

#[test]
fn batches_are_listed_with_their_rows() {
    let workspace = workspace();
    workspace.write("rows.jsonl", "{\"input\": \"a\"}\n{\"input\": \"b\"}\n");
    workspace.run(["batch", "gate", "--data", "rows.jsonl"]).expect_code(3);
    let page = Page::start(&workspace);
    let batch = &page.get("/api/batches")["batches"][0];
    assert_eq!(
        (&batch["batch"], &batch["ensemble"]),
        (&json!("gate-rows"), &json!("gate"))
    );
    assert_eq!(
        (&batch["rows"], &batch["waiting_for"]),
        (&json!(2), &json!({"editor": 2}))
    );
    assert_eq!(batch["state"], "idle");
    let rows = page.get("/api/batch?name=gate-rows");
    let row = &rows["runs"][1];
    assert_eq!((&row["row"], &row["standing"]), (&json!(2), &json!("waiting")));
    assert_eq!(row["questions"][0]["prompt"], "Print it?");
    // The run of a row is a run like others.
    let run = row["run"].as_str().expect("an id");
    assert_eq!(page.get(&format!("/api/run?id={run}"))["id"], *run);
}
