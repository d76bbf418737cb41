//! The files of a project, without running them: ensembles by name, configurations, trust, findings and plans.
//!
//! - [`Project`] is the folder from which a caller sees a project; it resolves the names of ensembles.
//! - [`check::EnsembleFolder`] gives checks the files around an ensemble; [`prepare::check_loaded_ensemble`] returns all findings.
//! - [`catalogue::list_named_ensembles`] lists the ensembles that can be named.
//! - [`prepare::prepare_file`] loads, checks and compiles an ensemble; [`nested::load_with_nested`] includes the ensembles that it names.
//! - [`config`] reads model profiles from configurations; [`Trust`] says which files may use keys and values of the environment.
//! - [`atomic_write`] replaces the texts of files.
//!
//! Invariant: no model is asked, no connection is opened, and no program of a project is started. The only programs that are started are the
//! parsers of `validate --check-scripts`.

pub mod atomic_write;
pub mod catalogue;
pub mod check;
pub mod config;
pub mod error;
pub mod mcp_config;
pub mod nested;
mod open_folder;
mod owner;
pub mod prepare;
pub mod project;
pub mod review;
pub mod trust;

pub use error::ProjectError;
pub use owner::ForeignFile;
pub use prepare::PreparedEnsemble;
pub use project::Project;
pub use trust::{IgnoredContent, Trust};
