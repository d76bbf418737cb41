//! The program together with published programs of others, which `tests/install.sh` installs; without them a test says that it was skipped.

#[expect(dead_code, reason = "this program uses a part of the harness")]
mod support;

mod counterparts {
    mod acp;
    mod browser;
    mod designer;
    mod editor;
    mod fakellm;
    mod lsp;
    mod lsp_editors;
    mod mcp;
    mod mcp_clients;
    mod mock_providers;
    mod otlp;
    #[cfg(unix)]
    mod shells;
}
