//! Proxies of the environment: a request over plain HTTP goes through none.

use crate::support::server::{Server, answer, says};
use crate::support::{Outcome, Running, Workspace};

/// Runs the program with a proxy in every variable.
fn run(workspace: &Workspace, proxy: &str, variables: &[(&str, &str)], arguments: &[&str]) -> Outcome {
    let mut command = workspace.command(arguments);
    for name in [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
    ] {
        command.env(name, proxy);
    }
    command.envs(variables.iter().copied());
    Running(command.spawn().expect("the program starts")).finish()
}

#[test]
fn plain_http_goes_through_no_proxy() {
    let proxy = Server::new(|_, _| answer("502 Bad Gateway", &[], "a proxy"));
    let server = Server::new(|_, _| says("here I am"));
    let workspace = Workspace::new();
    workspace.write(
        "model.yaml",
        format!(
            "name: m\nmodel_profiles: {{p: {{provider: openai, model: m, base_url: {}/v1}}}}\nagents: [{{name: a, model_profile: p, \
             prompt: go}}]\n",
            server.url()
        ),
    );
    workspace.write(
        "tool.yaml",
        format!(
            "name: t\ntools: {{h: {{mcp: {{url: {}/mcp, headers: {{X: {{env: TOKEN}}}}}}, permission: allow}}}}\nagents: [{{name: a, tool: h.x}}]\n",
            server.url()
        ),
    );
    workspace.write("script.yaml", "name: s\nagents: [{name: a, script: echo a}]\n");
    let url = server.url();
    let variables = [
        ("TOKEN", "token-0123456789"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x=secret-0123456789"),
    ];
    run(&workspace, &proxy.url(), &variables, &["run", "model.yaml"]).expect_code(0);
    for (arguments, wanted) in [
        (&["run", "tool.yaml"][..], "/mcp"),
        (&["run", "script.yaml", "--otlp"], "/v1/traces"),
        (&["run", "script.yaml", "--engine", url.as_str()], "/"),
    ] {
        let before = server.asked().len();
        let _ends_somehow = run(&workspace, &proxy.url(), &variables, arguments);
        let asked = server.asked();
        assert!(asked.len() > before, "{arguments:?} reaches the server");
        assert!(
            asked[before].line().contains(wanted),
            "{arguments:?}: {}",
            asked[before].line()
        );
    }
    assert_eq!(proxy.asked().len(), 0, "no request goes through the proxy");
}

#[test]
fn encrypted_requests_go_through_the_proxy_as_a_tunnel() {
    let proxy = Server::new(|_, _| answer("502 Bad Gateway", &[], "a proxy"));
    let workspace = Workspace::new();
    workspace.write(
        "model.yaml",
        "name: m\nmodel_profiles: {p: {provider: openai, model: m, base_url: 'https://somewhere.invalid/v1', api_key_env: TOKEN}}\n\
         agents: [{name: a, model_profile: p, prompt: go}]\n",
    );
    let variables = [("TOKEN", "token-0123456789")];
    run(&workspace, &proxy.url(), &variables, &["run", "model.yaml"]).expect_code(1);
    let asked = proxy.asked();
    assert!(!asked.is_empty(), "the proxy is asked");
    for request in &asked {
        assert!(
            request.line().starts_with("CONNECT somewhere.invalid:443"),
            "{}",
            request.line()
        );
        assert!(
            request.header("authorization").is_none(),
            "the key is inside the tunnel"
        );
    }
}
