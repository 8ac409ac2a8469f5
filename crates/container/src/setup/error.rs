//! The reasons why an entry could not be added or removed.

use std::io;
use std::path::PathBuf;

/// Why an entry was not added or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine's file cannot be read.
    #[error("cannot read {file}: {cause}{}", way_out(cause))]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A symbolic link in place of the file points to nothing.
    #[error(
        "{0} is a symbolic link that points to a file that does not exist\nhelp: remove the link, or make that file"
    )]
    Dangling(PathBuf),
    /// No entry can be added to the file's contents.
    #[error("{file}{cause}")]
    Unusable {
        /// The file.
        file: PathBuf,
        /// The reason.
        cause: Unusable,
    },
    /// The format of a new file depends on the version of the engine, which is unknown.
    #[error(
        "cannot tell which version of {0} is installed, which decides the format of its new file\n\
         help: install it first, or make the file: `{0} config default` prints one"
    )]
    UnknownVersion(&'static str),
    /// The name of a file has bytes that the engine's file cannot contain.
    #[error("the name of {0} is not UTF-8, as the engine's file has to be")]
    NoText(PathBuf),
    /// The file has changed since it was read.
    #[error("{0} was changed meanwhile, so nothing was written\nhelp: try again")]
    Changed(PathBuf),
    /// A file could not be written.
    #[error("cannot {what} {file}: {cause}{}", way_out(cause))]
    NotWritten {
        /// The attempted action.
        what: &'static str,
        /// The file.
        file: PathBuf,
        /// The kernel's error.
        cause: io::Error,
    },
}

fn way_out(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::PermissionDenied => "\nhelp: do it as root (sudo eigentime setup ...)",
        io::ErrorKind::ReadOnlyFilesystem => "\nhelp: name a file elsewhere by --config",
        _ => "",
    }
}

/// Why a text cannot contain an entry.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It is not in the expected format.
    #[error(
        ", line {line}, column {column}: {what}\nhelp: correct that first; nothing was written"
    )]
    Malformed {
        /// The line, from 1.
        line: usize,
        /// The character in it, from 1.
        column: usize,
        /// What is expected, or wrong.
        what: String,
    },
    /// There is something else in place of the entries.
    #[error(": `{0}` is not a table of settings\nhelp: correct that first; nothing was written")]
    NoTable(String),
    /// The entry should be removed, but the engine would look for it.
    #[error(
        ": eigentime is the default runtime there, and {0} would not find it\n\
         help: name another default first; nothing was written"
    )]
    Default(&'static str),
    /// The version of the file is newer than this command knows, or not a version.
    #[error(
        " says version = {found}, and {newest} is the newest that is known here\n\
         help: add the entry by hand; nothing was written"
    )]
    Version {
        /// The version in the file.
        found: String,
        /// The newest known version.
        newest: i64,
    },
}
