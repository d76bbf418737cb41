//! Tables of the agents that are exhausted at the end of a run.
