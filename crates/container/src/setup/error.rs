//! What can stop an entry from being added or taken out.

use std::io;
use std::path::PathBuf;

/// Why an entry was neither added nor taken out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine's file cannot be read.
    #[error("cannot read {file}: {cause}{}", way_out(cause))]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the kernel says.
        cause: io::Error,
    },
    /// A symbolic link is in the file's place, and nothing is where it leads.
    #[error(
        "{0} is a symbolic link that points to a file that does not exist\nhelp: remove the link, or make that file"
    )]
    Dangling(PathBuf),
    /// There is something in the file that no entry can be added to.
    #[error("{file}{cause}")]
    Unusable {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        cause: Unusable,
    },
    /// What a new file has to look like depends on the version of the engine, which is
    /// not known.
    #[error(
        "cannot tell which version of {0} is installed, which decides the format of its new file\n\
         help: install it first, or make the file: `{0} config default` prints one"
    )]
    UnknownVersion(&'static str),
    /// The name of a file has bytes in it that the engine's file cannot hold.
    #[error("the name of {0} is not UTF-8, as the engine's file has to be")]
    NoText(PathBuf),
    /// The file has changed since it was read.
    #[error("{0} was changed meanwhile, so nothing was written\nhelp: try again")]
    Changed(PathBuf),
    /// Something could not be written.
    #[error("cannot {what} {file}: {cause}{}", way_out(cause))]
    NotWritten {
        /// What was to be done.
        what: &'static str,
        /// The file.
        file: PathBuf,
        /// What the kernel says.
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

/// Why a text can have no entry.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It is not in the form that it should be in.
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
    /// There is something else where the entries are to be.
    #[error(": `{0}` is not a table of settings\nhelp: correct that first; nothing was written")]
    NoTable(String),
    /// The entry is to be taken out, and the engine would look for it.
    #[error(
        ": eigentime is the default runtime there, and {0} would not find it\n\
         help: name another default first; nothing was written"
    )]
    Default(&'static str),
    /// A form of the file that is newer than this command, or none at all.
    #[error(
        " says version = {found}, and {newest} is the newest that is known here\n\
         help: add the entry by hand; nothing was written"
    )]
    Version {
        /// What the file says.
        found: String,
        /// The newest form that is known.
        newest: i64,
    },
}
