//! What is kept of a study: a folder with a manifest and tables.
//!
//! - `folder`: begun, continued, finished; several made one.
//! - `manifest`: what was measured where, by whom and with what outcome.
//! - `rows`: the tables' columns, and how records become rows.
//! - `tables`: Parquet files.
//! - `journal`: what is done already.
//! - `documentation`: what is documented of it, by itself.

#[cfg(any(test, feature = "schema"))]
pub mod documentation;
pub mod folder;
pub mod journal;
pub mod manifest;
pub mod rows;
pub mod tables;
