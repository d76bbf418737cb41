//! The environment of runs: variables, clock, randomness, watchdog and operator.
//!
//! Invariant: only `RunHost::from_system` and `Project::from_process` read the environment and the clock of the process.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use chrono::{DateTime, Utc};
use ensemble_core::executor::WallClock;
use ensemble_core::operator::{Operator, UnattendedOperator};
use ensemble_core::secrets::Secrets;
use ensemble_language::ensemble::{RIGHTS_VARIABLES, carries_rights};
use ensemble_models::ModelNetwork;
use ensemble_process::{ProcessWatchdog, ProgramInvocation};

use crate::drive::client_servers::ClientServers;

/// A function that reads an environment variable.
type EnvironmentReader = dyn Fn(&str) -> Option<String> + Send + Sync;
/// A function that returns the current time.
type ClockReader = dyn Fn() -> DateTime<Utc> + Send + Sync;
/// A function that returns a random number, at least 0 and less than 1.
type RandomSource = dyn Fn() -> f64 + Send + Sync;

/// The environment of runs: variables, clock, randomness, helper programs, model network and operator. The run layer accesses all of these
/// only through the host.
#[derive(Clone)]
pub struct RunHost {
    variables: Arc<EnvironmentReader>,
    now: Arc<ClockReader>,
    random: Arc<RandomSource>,
    watchdog: WatchdogChoice,
    sandbox_helper: Option<ProgramInvocation>,
    simulated_acp: Option<ProgramInvocation>,
    /// The access to models that all runs share.
    network: Option<ModelNetwork>,
    operator: OperatorSource,
    /// The MCP servers for runs whose options contain no servers.
    client_servers: Arc<ClientServers>,
    /// The variables with rights of the user that this program adds to the known ones.
    private_variables: Arc<[String]>,
    /// The values that no record and no client receives, such as the token of a server.
    secret_values: Arc<[String]>,
}

/// The watchdog of a run.
#[derive(Debug, Clone)]
enum WatchdogChoice {
    /// The run has no watchdog.
    None,
    /// The run starts a watchdog with this command.
    EachRun(ProgramInvocation),
    /// The run uses the watchdog of all runs.
    Shared(Arc<ProcessWatchdog>),
}

/// The operator of a run.
#[derive(Clone)]
enum OperatorSource {
    /// The holder of the run's handle answers.
    Handle,
    /// This operator answers.
    Operator(Arc<dyn Operator>),
}

impl RunHost {
    /// Creates a host with the environment, the clock and the randomness of this process. The host has no watchdog, and the holder of a
    /// run's handle answers questions.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one door to the process's environment and clock"
    )]
    pub fn from_system() -> Self {
        Self {
            variables: Arc::new(|name| std::env::var(name).ok()),
            // `Utc::now` panics if the clock is before 1970.
            now: Arc::new(|| SystemTime::now().into()),
            random: Arc::new(fastrand::f64),
            watchdog: WatchdogChoice::None,
            sandbox_helper: None,
            simulated_acp: None,
            network: None,
            operator: OperatorSource::Handle,
            client_servers: Arc::default(),
            private_variables: Arc::default(),
            secret_values: Arc::default(),
        }
    }

    /// Reads variables of the environment with this function.
    #[must_use]
    pub fn with_environment(self, variables: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self {
            variables: Arc::new(variables),
            ..self
        }
    }

    /// Reads the current time with this function.
    #[must_use]
    pub fn with_clock(self, now: impl Fn() -> DateTime<Utc> + Send + Sync + 'static) -> Self {
        Self {
            now: Arc::new(now),
            ..self
        }
    }

    /// Generates random numbers with this function. They must be at least 0 and less than 1.
    #[must_use]
    pub fn with_randomness(self, random: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self {
            random: Arc::new(random),
            ..self
        }
    }

    /// Starts a process with each run that kills the run's child processes if this process is killed. The command must call
    /// [`run_watchdog`](ensemble_process::run_watchdog).
    #[must_use]
    pub fn with_watchdog(self, command: Option<ProgramInvocation>) -> Self {
        Self {
            watchdog: command.map_or(WatchdogChoice::None, WatchdogChoice::EachRun),
            ..self
        }
    }

    /// Starts one process for all runs of this host that kills their child processes if this process is killed. The
    /// command must call [`run_watchdog`](ensemble_process::run_watchdog).
    #[must_use]
    pub fn with_shared_watchdog(self, command: Option<ProgramInvocation>) -> Self {
        let shared = |command| WatchdogChoice::Shared(Arc::new(ProcessWatchdog::new(command)));
        Self {
            watchdog: command.map_or(WatchdogChoice::None, shared),
            ..self
        }
    }

    /// Starts processes that have a `sandbox` through this command, which must call
    /// [`run_sandbox_helper`](ensemble_process::confine::run_sandbox_helper) with the arguments that follow its own. Without a command,
    /// ensembles with a `sandbox` do not run.
    #[must_use]
    pub fn with_sandbox_helper(self, command: Option<ProgramInvocation>) -> Self {
        Self {
            sandbox_helper: command,
            ..self
        }
    }

    /// Starts the built-in external agent (`acp: simulated`) with this command, which must call
    /// [`serve_simulated_agent`](ensemble_agents::agent::acp::serve_simulated_agent). Without a command, the agent is not available.
    #[must_use]
    pub fn with_simulated_acp(self, command: Option<ProgramInvocation>) -> Self {
        Self {
            simulated_acp: command,
            ..self
        }
    }

    /// Sends questions to this operator instead of the holder of a run's handle.
    #[must_use]
    pub fn with_operator(self, operator: Arc<dyn Operator>) -> Self {
        Self {
            operator: OperatorSource::Operator(operator),
            ..self
        }
    }

    /// Sends questions to no operator: a run with an open question ends as `waiting_for_input`.
    #[must_use]
    pub fn without_operator(self) -> Self {
        self.with_operator(Arc::new(UnattendedOperator))
    }

    /// Sends questions to no operator unless the host has an operator, because no caller holds a handle of the run.
    pub(crate) fn without_handle_as_operator(self) -> Self {
        match self.operator {
            OperatorSource::Handle => self.without_operator(),
            OperatorSource::Operator(_) => self,
        }
    }

    /// Uses these MCP servers for runs whose options contain no servers.
    #[must_use]
    pub fn with_default_client_servers(self, servers: ClientServers) -> Self {
        Self {
            client_servers: Arc::new(servers),
            ..self
        }
    }

    /// Shares one model network between all runs: rate limits, pauses and connections.
    #[must_use]
    pub fn with_shared_model_network(self) -> Self {
        let network = Some(self.model_network());
        Self { network, ..self }
    }

    /// Withholds the token of a server, and `variable`, which contains the token, from child processes and models.
    #[must_use]
    pub fn with_server_token(self, token: &str, variable: Option<&str>) -> Self {
        let secret_values = self.secret_values.iter().map(String::as_str).chain([token]);
        let private_variables = self.private_variables.iter().map(String::as_str).chain(variable);
        let host = Self {
            secret_values: secret_values.map(str::to_owned).collect(),
            private_variables: private_variables.map(str::to_owned).collect(),
            network: None,
            ..self.clone()
        };
        match self.network {
            Some(_) => host.with_shared_model_network(),
            None => host,
        }
    }

    /// Returns the variable of the environment. Returns `None` for a variable that grants rights of the user.
    pub fn read_variable(&self, name: &str) -> Option<String> {
        if self.is_private_variable(name) {
            return None;
        }
        (self.variables)(name)
    }

    /// Returns whether the variable grants rights of the user. No file can use such a variable.
    pub(crate) fn is_private_variable(&self, name: &str) -> bool {
        carries_rights(name) || self.private_variables.iter().any(|private| private == name)
    }

    /// Adds the tokens of this program to the secrets of a run, and withholds their variables from child processes.
    pub(crate) fn register_secrets(&self, secrets: &Secrets) {
        secrets.add_secrets(self.secret_values.iter().map(String::as_str));
        for variable in self.private_variables.iter() {
            secrets.withhold_from_children(variable);
        }
        let variables = self
            .private_variables
            .iter()
            .map(String::as_str)
            .chain(RIGHTS_VARIABLES);
        let values: Vec<String> = variables.filter_map(|variable| (self.variables)(variable)).collect();
        secrets.add_secrets(values.iter().map(String::as_str));
    }

    /// Returns a random number, at least 0 and less than 1.
    pub fn random_number(&self) -> f64 {
        (self.random)()
    }

    /// Returns the watchdog of a new run: none, a new one that starts with the first child process, or the shared one.
    pub(crate) fn watchdog_for_new_run(&self) -> Option<Arc<ProcessWatchdog>> {
        match &self.watchdog {
            WatchdogChoice::None => None,
            WatchdogChoice::EachRun(command) => Some(Arc::new(ProcessWatchdog::new(command.clone()))),
            WatchdogChoice::Shared(watchdog) => Some(Arc::clone(watchdog)),
        }
    }

    /// Returns the command that starts processes with a `sandbox`. Returns `None` if such processes cannot run.
    pub(crate) fn sandbox_helper_command(&self) -> Option<&ProgramInvocation> {
        self.sandbox_helper.as_ref()
    }

    /// Returns the command of the built-in external agent. Returns `None` if the agent is not available.
    pub(crate) fn simulated_acp_command(&self) -> Option<&ProgramInvocation> {
        self.simulated_acp.as_ref()
    }

    /// Returns the MCP servers for runs whose options contain no servers.
    pub(crate) fn default_client_servers(&self) -> &Arc<ClientServers> {
        &self.client_servers
    }

    /// Returns the operator. Returns `None` if the holder of the run's handle answers.
    pub(crate) fn operator(&self) -> Option<Arc<dyn Operator>> {
        match &self.operator {
            OperatorSource::Handle => None,
            OperatorSource::Operator(operator) => Some(Arc::clone(operator)),
        }
    }

    /// Returns the shared model network, or a new one with the environment, clock and randomness of this host.
    pub fn model_network(&self) -> ModelNetwork {
        if let Some(shared) = &self.network {
            return shared.clone();
        }
        let (host, now, random) = (self.clone(), self.now.clone(), self.random.clone());
        ModelNetwork::new(move |name| host.read_variable(name), move || now(), move || random())
    }
}

impl Default for RunHost {
    fn default() -> Self {
        Self::from_system()
    }
}

impl WallClock for RunHost {
    fn now(&self) -> DateTime<Utc> {
        // As exactly as a journal keeps it, so that a run and its record tell the same.
        let at = (self.now)();
        let micros = at.timestamp_subsec_micros();
        DateTime::from_timestamp(at.timestamp(), micros * 1_000).unwrap_or(at)
    }
}

impl fmt::Debug for RunHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("watchdog", &self.watchdog)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_of_a_server_is_for_nobody() {
        let host = RunHost::from_system()
            .with_environment(|name| Some(format!("value-of-{name}")))
            .with_shared_model_network()
            .with_server_token("token-0123456789", Some("MY_TOKEN"));
        for (name, is_private) in [
            ("MY_TOKEN", true),
            ("ENSEMBLE_TRUST", true),
            ("ENSEMBLE_UI_TOKEN", true),
            ("HOME", false),
        ] {
            assert_eq!(host.read_variable(name).is_none(), is_private, "{name}");
        }
        let secrets = Secrets::default();
        host.register_secrets(&secrets);
        assert!(secrets.withheld_variables().contains("MY_TOKEN"));
        for text in ["token-0123456789", "value-of-MY_TOKEN", "value-of-ENSEMBLE_UI_TOKEN"] {
            assert_eq!(secrets.redact(text), "[secret]");
        }
    }
}
