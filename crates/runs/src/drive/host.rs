//! What a program that holds runs hands in: the environment, the clock, randomness, the watchdog, and who is asked.
//!
//! Invariant: only `Host::system` and `Project::of_process` read the environment and the clock of the process.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use chrono::{DateTime, Utc};
use ensemble_core::executor::Clock;
use ensemble_core::operator::{Operator, Unattended};
use ensemble_models::Network;
use ensemble_process::Invocation;

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
    watchdog: Option<Invocation>,
    sandbox_helper: Option<Invocation>,
    simulated_acp: Option<Invocation>,
    /// The access to models that all runs share.
    network: Option<Network>,
    operator: Attendance,
    /// Servers of tools for runs that are given none.
    client_servers: Arc<ClientServers>,
}

/// The operator of a run.
#[derive(Clone)]
enum Attendance {
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
    pub fn system() -> Self {
        Self {
            variables: Arc::new(|name| std::env::var(name).ok()),
            // `Utc::now` panics if the clock is before 1970.
            now: Arc::new(|| SystemTime::now().into()),
            random: Arc::new(fastrand::f64),
            watchdog: None,
            sandbox_helper: None,
            simulated_acp: None,
            network: None,
            operator: Attendance::Handle,
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
    pub fn with_watchdog(self, command: Option<Invocation>) -> Self {
        Self {
            watchdog: command,
            ..self
        }
    }

    /// Starts processes that have a `sandbox` through this command. It has to call
    /// [`run_sandbox_helper`](ensemble_process::confine::run_sandbox_helper) with the arguments that follow
    /// its own. Without it an ensemble with a `sandbox` does not run.
    #[must_use]
    pub fn with_sandbox_helper(self, command: Option<Invocation>) -> Self {
        Self {
            sandbox_helper: command,
            ..self
        }
    }

    /// Starts the built-in external agent (`acp: simulated`) by this command. It has to call
    /// [`run_simulated`](ensemble_agents::agent::acp::run_simulated). Without it there is none.
    #[must_use]
    pub fn with_simulated_acp(self, command: Option<Invocation>) -> Self {
        Self {
            simulated_acp: command,
            ..self
        }
    }

    /// Asks this operator, and not the holder of a run's handle.
    #[must_use]
    pub fn with_operator(self, operator: Arc<dyn Operator>) -> Self {
        Self {
            operator: Attendance::Operator(operator),
            ..self
        }
    }

    /// Asks nobody: a run with an open question ends as `waiting_for_input`.
    #[must_use]
    pub fn unattended(self) -> Self {
        self.with_operator(Arc::new(Unattended))
    }

    /// With its operator, if it has one; else nobody is asked, since nobody holds a handle.
    pub(crate) fn attended_or_unattended(self) -> Self {
        match self.operator {
            Attendance::Handle => self.unattended(),
            Attendance::Operator(_) => self,
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
    pub fn sharing_models(self) -> Self {
        let network = Some(self.network());
        Self { network, ..self }
    }

    /// The variable of the environment.
    pub fn variable(&self, name: &str) -> Option<String> {
        (self.variables)(name)
    }

    /// A random number, at least 0 and less than 1.
    pub fn random(&self) -> f64 {
        (self.random)()
    }

    pub(crate) fn watchdog(&self) -> Option<&Invocation> {
        self.watchdog.as_ref()
    }

    pub(crate) fn sandbox_helper(&self) -> Option<&Invocation> {
        self.sandbox_helper.as_ref()
    }

    pub(crate) fn simulated_acp(&self) -> Option<&Invocation> {
        self.simulated_acp.as_ref()
    }

    /// The servers of tools for runs whose options name none.
    pub(crate) fn client_servers(&self) -> &Arc<ClientServers> {
        &self.client_servers
    }

    /// The operator; `None`: whoever holds the run's handle.
    pub(crate) fn operator(&self) -> Option<Arc<dyn Operator>> {
        match &self.operator {
            Attendance::Handle => None,
            Attendance::Operator(operator) => Some(Arc::clone(operator)),
        }
    }

    /// The way to models, with this environment, clock and randomness.
    pub fn network(&self) -> Network {
        if let Some(shared) = &self.network {
            return shared.clone();
        }
        let (variables, now, random) = (self.variables.clone(), self.now.clone(), self.random.clone());
        Network::new(move |name| variables(name), move || now(), move || random())
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::system()
    }
}

impl Clock for Host {
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
