//! Commands that serve other programs and the page in the browser.

pub(super) mod acp;
pub(super) mod lsp;
pub(super) mod mcp;
pub(super) mod ui;
