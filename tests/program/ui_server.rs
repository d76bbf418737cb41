//! The server of the page: beside a run, at its end, and where it may listen.

#![expect(clippy::disallowed_methods, reason = "tests look at files")]

use super::ui::{asking, workspace};
use crate::support::page::{Page, TOKEN};
use crate::support::{Workspace, eventually};

#[test]
fn a_run_beside_its_page_asks_there_and_ends_with_ctrl_c() {
    let workspace = workspace();
    let mut command = workspace.command(["run", "gate", "--ui", "--port", "0", "--quiet"]);
    let running = command
        .env("ENSEMBLE_UI_TOKEN", TOKEN)
        .stderr(std::process::Stdio::from(
            std::fs::File::create(workspace.path().join("said")).expect("a file"),
        ));
    let running = crate::support::Running(running.spawn().expect("the program starts"));
    let link = eventually("the address", || {
        let said = std::fs::read_to_string(workspace.path().join("said")).ok()?;
        Some(
            said.lines()
                .find_map(|line| line.strip_prefix("watch the run: "))?
                .to_owned(),
        )
    });
    let (origin, run) = link.split_once("/#token=").expect("an address");
    let run = run
        .strip_prefix(TOKEN)
        .and_then(|rest| rest.strip_prefix("&run="))
        .expect("the run")
        .to_owned();
    let port: u16 = origin
        .rsplit_once(':')
        .and_then(|(_, port)| port.parse().ok())
        .expect("a port");
    let page = Page {
        server: running,
        link: link.clone(),
        port,
    };
    page.follow(&run)
        .until(|_, data| data["head"]["waiting"]["questions"][0]["agent"] == "editor");
    page.answer(&run, "yes");
    page.follow(&run).until_outcome("completed");
    eventually("the end of the run", || {
        workspace.read("said").contains("stays until Ctrl-C").then_some(())
    });
    page.server.signal("INT");
    eventually("the end of the server", || (!page.server.is_alive()).then_some(()));
}

#[test]
fn the_end_of_the_server_stops_its_runs_so_that_they_can_be_resumed() {
    let workspace = workspace();
    let page = Page::start(&workspace);
    asking(&page);
    page.server.signal("INT");
    eventually("the end of the server", || (!page.server.is_alive()).then_some(()));
    let last = workspace.journal().pop().expect("a record");
    assert_eq!(last["data"]["completion_reason"], "cancelled", "{last}");
}

#[test]
fn addresses_and_tokens_that_would_open_the_server_are_refused() {
    let workspace = Workspace::new();
    let open = workspace
        .run(["ui", "--address", "0.0.0.0", "--port", "0"])
        .expect_code(2);
    assert!(
        open.stderr
            .contains("0.0.0.0 is not a loopback address, such as 127.0.0.1"),
        "{}",
        open.stderr
    );
    let mut command = workspace.command(["ui", "--port", "0"]);
    let short = crate::support::Running(command.env("ENSEMBLE_UI_TOKEN", "short").spawn().expect("it starts")).finish();
    let short = short.expect_code(2);
    assert!(
        short.stderr.contains("the token has fewer than 16 characters"),
        "{}",
        short.stderr
    );
}
