//! The program as the built-in external agent (`acp: simulated`): an internal command that the help does not show.

use ensemble_agents::agent::acp::{SIMULATED_CONFIG, serve_simulated_agent};
use ensemble_process::ProgramInvocation;

/// The name of the internal command.
const COMMAND: &str = "__acp";

/// Returns the command that starts the simulated agent: this program with the internal command.
/// Returns `None` if the path of this program is unknown.
pub(crate) fn simulated_agent_command() -> Option<ProgramInvocation> {
    let program = std::env::current_exe().ok()?;
    Some(ProgramInvocation {
        program,
        arguments: vec![COMMAND.into()],
    })
}

/// Returns whether this process was started as the simulated agent.
pub(crate) fn is_started_as_simulated_agent() -> bool {
    std::env::args_os().skip(1).eq([COMMAND])
}

/// Serves the parent run as its simulated agent, over standard input and output. Returns when the input ends.
pub(crate) fn serve_as_simulated_agent() {
    let config = std::env::var(SIMULATED_CONFIG).unwrap_or_default();
    serve_simulated_agent(std::io::BufReader::new(std::io::stdin()), std::io::stdout(), &config);
}
