//! The stored results of a study: a folder with a manifest and tables.
//!
//! - `folder`: started, continued, finished; merged.
//! - `manifest`: what was measured where, by what, and with what result.
//! - `rows`: the tables' columns, and the conversion of records to rows.
//! - `tables`: Parquet files.
//! - `journal`: the steps already done.
//! - `documentation`: the generated documentation.

#[cfg(any(test, feature = "schema"))]
pub mod documentation;
pub mod folder;
pub mod journal;
pub mod manifest;
pub mod rows;
pub mod tables;
