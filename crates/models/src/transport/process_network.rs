//! A network with the environment variables, the clock and the random numbers of this process.

#![expect(
    clippy::disallowed_methods,
    reason = "this module reads the process, and only the feature `process` contains it"
)]

use std::time::SystemTime;

use crate::ModelNetwork;

impl ModelNetwork {
    /// Creates a network with the environment variables, the clock and the random numbers of this process.
    pub fn from_process() -> Self {
        Self::new(
            |name| std::env::var(name).ok(),
            || SystemTime::now().into(),
            fastrand::f64,
        )
    }
}
