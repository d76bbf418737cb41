//! Commands that serve the page in the browser.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

/// `ensemble ui`.
#[derive(Debug, Args)]
pub(crate) struct UiArgs {
    /// Where the page is.
    #[command(flatten)]
    pub place: PageArgs,
    /// Read the servers of tools with `mcp: client` from a JSON file such as `.mcp.json`: {"mcpServers": {NAME: ...}}
    #[arg(long, value_name = "FILE")]
    pub mcp_config: Option<PathBuf>,
}

/// The address of the page.
#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    /// The port of the page (0: any that is free); default: 7357, or any if another program has it
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// The address of the page: 127.0.0.1 or ::1
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub address: IpAddr,
}
