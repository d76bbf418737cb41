//! The models that a run of an ensemble can ask, and their prices.

use crate::source::RouteLocation;

/// The models that a run of an ensemble can ask, also in nested ensembles, by whether their use counts for `max_cost`.
#[derive(Debug, Clone, Default)]
pub struct ModelCosts {
    /// Whether a model has a price, or can report its costs.
    pub(super) has_price: bool,
    /// Whether the built-in simulated model takes part, which has no price and costs nothing.
    pub(super) has_free_model: bool,
    pub(super) unpriced: Vec<UnpricedModel>,
    /// Whether external agents, or nested ensembles whose models are not known, have costs of their own.
    pub(super) has_other_costs: bool,
}

impl ModelCosts {
    /// Returns whether a run can ask a model whose price is missing.
    pub(super) fn asks_models(&self) -> bool {
        self.has_free_model || !self.unpriced.is_empty()
    }
}

/// A model without a price.
#[derive(Debug, Clone)]
pub(super) struct UnpricedModel {
    /// The model, for messages.
    pub(super) model: String,
    /// The nested ensemble that uses the model.
    pub(super) nested: Option<String>,
    /// The place where the outermost ensemble names the model or the nested ensemble.
    pub(super) place: RouteLocation,
}
