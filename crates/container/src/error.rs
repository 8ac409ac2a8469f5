//! The reasons why a container could not be started.

use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

/// Why a container could not be started, with a hint.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file operation failed.
    #[error("cannot {action} {}: {cause}", .path.display())]
    File {
        /// The attempted action.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// A system call failed.
    #[error("cannot {action}: {}", .cause.desc())]
    System {
        /// The attempted action.
        action: &'static str,
        /// The kernel's error.
        cause: Errno,
    },
    /// There is no location for the state directory.
    #[error(
        "neither HOME nor XDG_DATA_HOME says where containers and images can be kept\n\
         help: set EIGENTIME_STATE to a directory of your own"
    )]
    NoHome,
    /// Another user owns or can write the state directory.
    #[error(
        "{} belongs to another user or can be written by others\n\
         help: set EIGENTIME_STATE to a directory of your own", .0.display()
    )]
    NotOurs(PathBuf),
    /// The kernel refuses to create a user namespace.
    #[error(
        "a container needs a user namespace, and making one was refused ({})\n\
         help: allow them to ordinary users (sysctl user.max_user_namespaces, \
         kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns), or run as root",
        .0.desc()
    )]
    NoUserNamespace(Errno),
    /// The ids cannot be mapped.
    #[error(
        "the ids of a container cannot be mapped: {0}\n\
         help: check that newuidmap and newgidmap are installed (apt-get install uidmap) and that \
         /etc/subuid and /etc/subgid are right"
    )]
    NotMapped(String),
    /// A tool is missing.
    #[error("{tool} is not installed, and {purpose} needs it\nhelp: apt-get install {package}")]
    NoTool {
        /// Its name.
        tool: &'static str,
        /// Its purpose.
        purpose: &'static str,
        /// The distribution's package that contains it.
        package: &'static str,
    },
    /// A tool failed.
    #[error("{what}: {said}")]
    Tool {
        /// Its task.
        what: String,
        /// Its error output.
        said: String,
    },
    /// A directory is not a usable root file system.
    #[error("--rootfs {}: {cause}\nhelp: name a directory that holds a system, such as debootstrap makes", .path.display())]
    NoRootfs {
        /// The path as given.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// The contents of an image are not understood.
    #[error("the image {reference} cannot be used: {reason}")]
    BadImage {
        /// The reference as given.
        reference: String,
        /// The reason.
        reason: String,
    },
    /// There is no such image on this machine.
    #[error("there is no image {0} here\nhelp: `eigentime images` lists the images")]
    NoImage(String),
    /// The beginning of a digest matches several images.
    #[error("the digests of several images begin with {0}\nhelp: write more of the digest")]
    Ambiguous(String),
    /// An image, or its write layer, is in use.
    #[error("{what} is in use by a container\nhelp: {help}")]
    InUse {
        /// The image, or its write layer.
        what: String,
        /// The remedy.
        help: &'static str,
    },
    /// The overlay could not be mounted.
    #[error(
        "cannot mount an overlay over {}: {}\nhelp: the layers are in {}; set EIGENTIME_STATE to a \
         directory on ext4, xfs, btrfs or tmpfs, or use --persist with --rootfs",
        .lower.display(), .cause.desc(), .layers.display()
    )]
    Overlay {
        /// The lower file system.
        lower: PathBuf,
        /// The directory of the layers.
        layers: PathBuf,
        /// The kernel's error.
        cause: Errno,
    },
    /// There is nothing to run.
    #[error(
        "the image has no command, and none was given\nhelp: write one after the options: -- COMMAND"
    )]
    NoCommand,
    /// The user or group is not in the container's tables.
    #[error(
        "user '{asked}': the container's {table} has no '{name}'\nhelp: name one that exists, or a \
         number"
    )]
    UnknownUser {
        /// The request as given.
        asked: String,
        /// The table.
        table: &'static str,
        /// The missing name.
        name: String,
    },
    /// The user or group is not among the available ids.
    #[error(
        "user '{asked}': this user may not use id {id} in a container\nhelp: have an administrator \
         add ranges to /etc/subuid and /etc/subgid (usermod --add-subuids, --add-subgids), or run as \
         root"
    )]
    UnmappedUser {
        /// The request as given.
        asked: String,
        /// The id.
        id: u32,
    },
    /// A limit cannot be set.
    #[error(
        "{option} cannot be set here: {reason}\n\
         help: run as root, or in a control group that is delegated to this user (systemd-run --user \
         --scope -p Delegate=yes), or leave the limit out"
    )]
    NoLimit {
        /// The option that sets it.
        option: &'static str,
        /// The reason.
        reason: String,
    },
    /// The tool that connects a network is missing.
    #[error(
        "--net private needs slirp4netns, which is not installed\n\
         help: apt-get install slirp4netns, or use --net host or --net none"
    )]
    NoSlirp,
    /// The device that connects a network cannot be used.
    #[error(
        "--net private needs /dev/net/tun, which this user cannot use: {0}\n\
         help: chmod 0666 /dev/net/tun, as most distributions have it, or use --net host or --net none"
    )]
    NoTun(io::Error),
    /// The tool that connects a network failed.
    #[error("slirp4netns does not connect the container: {0}")]
    NotConnected(String),
    /// The parent has ended.
    #[error("eigentime was killed before the container was started")]
    ParentGone,
    /// The parent has not connected the network, and reports the reason itself.
    #[error("the container has no network")]
    NoConnection,
    /// A volume's source does not exist.
    #[error("--volume {}: {cause}", .path.display())]
    NoVolume {
        /// The source.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// The program does not exist in the container.
    #[error("cannot run '{0}': there is no such program in the container")]
    NotFound(String),
    /// The program cannot be executed.
    #[error("cannot run '{0}': it is not an executable file in the container")]
    NotExecutable(String),
    /// The bundle could not be generated.
    #[error("cannot describe the container to the runtime: {0}")]
    Bundle(String),
    /// The timeline could not be created.
    #[error(transparent)]
    Timeline(#[from] eigentime_supervisor::Error),
    /// The runtime did not start the program.
    #[error("{} did not start the container; what it says is above", .0.display())]
    NotStarted(PathBuf),
}

impl Error {
    /// For `map_err` on a file operation.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |cause| Self::File { action, path, cause }
    }

    /// For `map_err` on a system call.
    pub(crate) fn system(action: &'static str) -> impl FnOnce(Errno) -> Self {
        move |cause| Self::System { action, cause }
    }

    /// The exit status that `docker run` uses for such a failure.
    #[must_use]
    pub fn exit_status(&self) -> i32 {
        match self {
            Self::NotFound(_) => 127,
            Self::NotExecutable(_) => 126,
            _ => 125,
        }
    }
}
