//! Checks of sandbox paths that do not exist.

use std::path::Path;

use ensemble_language::diagnostic::Finding;
use ensemble_language::ensemble::{Agent, Ensemble, McpServer, SandboxSpec, ToolDefinition, ToolKind};
use ensemble_language::loader::codes;
use ensemble_language::source::Route;

use ensemble_process::confine::resolve_rule_path;

/// Returns warnings about the paths in `read` and `write` that do not exist. `is_examined` selects the paths to check.
pub(super) fn check_sandbox_paths(
    ensemble: &Ensemble,
    folder: &Path,
    is_examined: &dyn Fn(&Path) -> bool,
) -> Vec<Finding> {
    let of_agents = ensemble.agents.iter().enumerate().map(|(at, agent)| {
        let route = Agent::route_at(at).with_key("sandbox");
        (route, agent.sandbox.as_deref())
    });
    let of_tools = ensemble.tools.iter().map(|(name, tool)| match &tool.kind {
        ToolKind::Mcp(McpServer::Command { sandbox, .. }) => (
            ToolDefinition::route_for(name).with_key("mcp").with_key("sandbox"),
            sandbox.as_deref(),
        ),
        ToolKind::Script { sandbox, .. } => (ToolDefinition::route_for(name).with_key("sandbox"), sandbox.as_deref()),
        _ => (ToolDefinition::route_for(name), None),
    });
    let all = of_agents.chain(of_tools);
    all.filter_map(|(route, sandbox)| Some((route, sandbox?)))
        .flat_map(|(route, sandbox)| missing_path_findings(&route, sandbox, folder, is_examined))
        .collect()
}

/// Returns the warnings about missing paths of one sandbox.
fn missing_path_findings(
    route: &Route,
    sandbox: &SandboxSpec,
    folder: &Path,
    is_examined: &dyn Fn(&Path) -> bool,
) -> Vec<Finding> {
    let lists = [("read", &sandbox.read), ("write", &sandbox.write)];
    let paths = lists.into_iter().flat_map(|(key, paths)| {
        let route = route.with_key(key);
        let with_location = |(at, path)| (route.with_index(at).into_value_location(), path);
        paths.iter().enumerate().map(with_location).collect::<Vec<_>>()
    });
    // The home folder is that of who runs it.
    let missing_paths = paths.filter(|(_, path)| {
        let resolved = resolve_rule_path(path, folder, None);
        !path.starts_with('~') && is_examined(&resolved) && !resolved.exists()
    });
    missing_paths
        .map(|(at, path)| {
            let finding = Finding::new_warning(codes::SANDBOX_PATH, at, format!("there is no `{path}`"));
            finding.with_help(
                "create it before the run, or correct the path; it is relative to the folder of the ensemble",
            )
        })
        .collect()
}
