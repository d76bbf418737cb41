//! Proxies of the environment: a request to this machine goes through none.

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
fn requests_to_this_machine_go_through_no_proxy() {
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
    let engine = Server::new(|_, _| answer("403 Forbidden", &[], "no"));
    let engine_url = engine.url();
    for (arguments, server, wanted) in [
        (&["run", "tool.yaml"][..], &server, "/mcp"),
        (&["run", "script.yaml", "--otlp"], &server, "/v1/traces"),
        (
            &["run", "script.yaml", "--input", "x", "--on", engine_url.as_str()],
            &engine,
            "/",
        ),
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

/// `0.0.0.0` reaches this machine, but is no address of it: a request is one to another machine.
#[test]
fn no_header_of_a_collector_is_sent_over_plain_http_to_another_machine() {
    let proxy = Server::new(|_, _| answer("502 Bad Gateway", &[], "a proxy"));
    let server = Server::new(|_, _| says("here I am"));
    let url = server.url().replace("127.0.0.1", "0.0.0.0");
    let workspace = Workspace::new();
    workspace.write("script.yaml", "name: s\nagents: [{name: a, script: echo a}]\n");
    let collector = ("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str());
    let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "x=secret-0123456789");
    let arguments = ["run", "script.yaml", "--otlp"];
    let told = run(&workspace, &proxy.url(), &[collector, headers], &arguments);
    assert!(told.stderr.contains("only over `https://`"), "{told:?}");
    assert_eq!(server.asked().len() + proxy.asked().len(), 0, "nothing is sent");
    // Without a header, the spans are sent.
    run(&workspace, &proxy.url(), &[collector], &arguments).expect_code(0);
    assert!(server.asked().len() + proxy.asked().len() > 0);
}
