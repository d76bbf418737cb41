//! What a program that holds runs hands in: the environment, the clock, randomness, the watchdog, and who is asked.
//!
//! Invariant: only `Host::from_system` and `Project::from_process` read the environment and the clock of the process.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use chrono::{DateTime, Utc};
use ensemble_core::executor::WallClock;
use ensemble_core::operator::{Operator, UnattendedOperator};
use ensemble_models::ModelNetwork;
use ensemble_process::{ProgramInvocation, carries_right};

use crate::drive::client_servers::ClientServers;

/// Reads a variable of the environment.
type Variables = dyn Fn(&str) -> Option<String> + Send + Sync;
/// Tells the time.
type Now = dyn Fn() -> DateTime<Utc> + Send + Sync;
/// A number from 0 to 1, exclusive.
type Random = dyn Fn() -> f64 + Send + Sync;

/// The world around runs. Nothing in the run layer reads the environment, the clock or randomness from elsewhere.
#[derive(Clone)]
pub struct Host {
    variables: Arc<Variables>,
    now: Arc<Now>,
    random: Arc<Random>,
    watchdog: Option<ProgramInvocation>,
    sandbox_helper: Option<ProgramInvocation>,
    simulated_acp: Option<ProgramInvocation>,
    /// The access to models that all runs share.
    network: Option<ModelNetwork>,
    operator: OperatorChoice,
    /// Servers of tools for runs that are given none.
    client_servers: Arc<ClientServers>,
}

/// The operator of a run.
#[derive(Clone)]
enum OperatorChoice {
    /// Whoever holds the handle of the run.
    Handle,
    /// This operator.
    Operator(Arc<dyn Operator>),
}

impl Host {
    /// The process's own environment, clock and randomness. There is no watchdog, and whoever holds the handle of a
    /// run answers its questions.
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
            watchdog: None,
            sandbox_helper: None,
            simulated_acp: None,
            network: None,
            operator: OperatorChoice::Handle,
            client_servers: Arc::default(),
        }
    }

    /// Reads variables of the environment with this function.
    #[must_use]
    pub fn with_variables(self, variables: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self {
            variables: Arc::new(variables),
            ..self
        }
    }

    /// Tells the time with this function.
    #[must_use]
    pub fn with_clock(self, now: impl Fn() -> DateTime<Utc> + Send + Sync + 'static) -> Self {
        Self {
            now: Arc::new(now),
            ..self
        }
    }

    /// Draws random numbers (at least 0, less than 1) with this function.
    #[must_use]
    pub fn with_randomness(self, random: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self {
            random: Arc::new(random),
            ..self
        }
    }

    /// Starts a process beside each run that kills the run's child processes should this process be killed. The
    /// command has to call [`run_watchdog`](ensemble_process::run_watchdog).
    #[must_use]
    pub fn with_watchdog(self, command: Option<ProgramInvocation>) -> Self {
        Self {
            watchdog: command,
            ..self
        }
    }

    /// Starts processes that have a `sandbox` through this command. It has to call
    /// [`run_sandbox_helper`](ensemble_process::confine::run_sandbox_helper) with the arguments that follow
    /// its own. Without it an ensemble with a `sandbox` does not run.
    #[must_use]
    pub fn with_sandbox_helper(self, command: Option<ProgramInvocation>) -> Self {
        Self {
            sandbox_helper: command,
            ..self
        }
    }

    /// Starts the built-in external agent (`acp: simulated`) by this command. It has to call
    /// [`serve_simulated_agent`](ensemble_agents::agent::acp::serve_simulated_agent). Without it there is none.
    #[must_use]
    pub fn with_simulated_acp(self, command: Option<ProgramInvocation>) -> Self {
        Self {
            simulated_acp: command,
            ..self
        }
    }

    /// Asks this operator, and not the holder of a run's handle.
    #[must_use]
    pub fn with_operator(self, operator: Arc<dyn Operator>) -> Self {
        Self {
            operator: OperatorChoice::Operator(operator),
            ..self
        }
    }

    /// Asks nobody: a run with an open question ends as `waiting_for_input`.
    #[must_use]
    pub fn without_operator(self) -> Self {
        self.with_operator(Arc::new(UnattendedOperator))
    }

    /// With its operator, if it has one; else nobody is asked, since nobody holds a handle.
    pub(crate) fn or_without_operator(self) -> Self {
        match self.operator {
            OperatorChoice::Handle => self.without_operator(),
            OperatorChoice::Operator(_) => self,
        }
    }

    /// With these servers of tools for runs whose options name none.
    #[must_use]
    pub fn with_client_servers(self, servers: ClientServers) -> Self {
        Self {
            client_servers: Arc::new(servers),
            ..self
        }
    }

    /// Gives all runs one access to models: they share rate limits, pauses and connections.
    #[must_use]
    pub fn with_shared_models(self) -> Self {
        let network = Some(self.model_network());
        Self { network, ..self }
    }

    /// Returns the variable of the environment, for ensembles and profiles: none that carries a right over this program.
    pub fn read_variable(&self, name: &str) -> Option<String> {
        (!carries_right(name)).then(|| (self.variables)(name))?
    }

    /// Returns a random number, at least 0 and less than 1.
    pub fn random_number(&self) -> f64 {
        (self.random)()
    }

    pub(crate) fn watchdog(&self) -> Option<&ProgramInvocation> {
        self.watchdog.as_ref()
    }

    pub(crate) fn sandbox_helper(&self) -> Option<&ProgramInvocation> {
        self.sandbox_helper.as_ref()
    }

    pub(crate) fn simulated_acp(&self) -> Option<&ProgramInvocation> {
        self.simulated_acp.as_ref()
    }

    /// Returns the servers of tools for runs whose options name none.
    pub(crate) fn client_servers(&self) -> &Arc<ClientServers> {
        &self.client_servers
    }

    /// Returns the operator; `None`: whoever holds the run's handle.
    pub(crate) fn operator(&self) -> Option<Arc<dyn Operator>> {
        match &self.operator {
            OperatorChoice::Handle => None,
            OperatorChoice::Operator(operator) => Some(Arc::clone(operator)),
        }
    }

    /// Returns the way to models, with this environment, clock and randomness.
    pub fn model_network(&self) -> ModelNetwork {
        if let Some(shared) = &self.network {
            return shared.clone();
        }
        let (variables, now, random) = (self.variables.clone(), self.now.clone(), self.random.clone());
        let read = move |name: &str| (!carries_right(name)).then(|| variables(name))?;
        ModelNetwork::new(read, move || now(), move || random())
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::from_system()
    }
}

impl WallClock for Host {
    fn now(&self) -> DateTime<Utc> {
        // As exactly as a journal keeps it, so that a run and its record tell the same.
        let at = (self.now)();
        let micros = at.timestamp_subsec_micros();
        DateTime::from_timestamp(at.timestamp(), micros * 1_000).unwrap_or(at)
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("watchdog", &self.watchdog)
            .finish_non_exhaustive()
    }
}
