//! What people and programs are shown. Only this room turns findings and results into text.

pub mod diagnostics;
