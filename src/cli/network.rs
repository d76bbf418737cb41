//! The way to providers of models: keys from the environment, the clock, chance.

use chrono::Utc;

use ensemble_agents::model::Network;

/// For one run; everything in it shares the connections.
pub(super) fn network() -> Network {
    Network::new(|name| std::env::var(name).ok(), Utc::now, fastrand::f64)
}
