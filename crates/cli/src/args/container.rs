//! Options for containers.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use eigentime_container::host::limits::{Cpus, Memory, parse_cpus, parse_memory};
use eigentime_container::host::network::Network;
use eigentime_container::image::reference::Reference;
use eigentime_container::spec::bundle::Volume;
use eigentime_supervisor::registry::Name;

use crate::values::{parse_hostname, parse_inside, parse_variable, parse_volume};

/// Options of `eigentime run` that put the program into a container.
#[derive(Debug, Args)]
#[command(next_help_heading = "Containers")]
pub struct ContainerOptions {
    /// Run the program in a container whose file system is this directory
    #[arg(long, value_name = "DIR", group = "system", conflicts_with = "keep_running")]
    pub rootfs: Option<PathBuf>,

    /// Run the program, or the image's own, in a container of this image: HOST/NAME:TAG in a
    /// registry, oci:DIR[:TAG], docker-archive:FILE[:TAG] or oci-archive:FILE[:TAG]
    #[arg(long, value_name = "REF", group = "system", conflicts_with = "keep_running")]
    pub image: Option<Reference>,

    /// When the container ends, discard what it has written; the default
    #[arg(long, requires = "system", conflicts_with = "persist")]
    pub overlay: bool,

    /// Keep what the container writes: in DIR, or in a layer that belongs to the image
    #[arg(long, requires = "system")]
    pub persist: bool,

    /// The container's network
    #[arg(long, value_name = "NET", value_enum, requires = "system")]
    pub net: Option<NetworkName>,

    /// The host name in the container [default: the container's name]
    #[arg(long, value_name = "NAME", value_parser = parse_hostname, requires = "system")]
    pub hostname: Option<String>,

    /// Mount SRC of the host at DST in the container; with :ro, read-only
    #[arg(long, value_name = "SRC:DST[:ro]", value_parser = parse_volume, requires = "system")]
    pub volume: Vec<Volume>,

    /// Set a variable of the program's environment
    #[arg(long, value_name = "K=V", value_parser = parse_variable, requires = "system")]
    pub env: Vec<(String, String)>,

    /// Start the program in this directory
    #[arg(long, value_name = "DIR", value_parser = parse_inside, requires = "system")]
    pub workdir: Option<String>,

    /// Run the program as this user, by name or number
    #[arg(long, value_name = "USER[:GROUP]", requires = "system")]
    pub user: Option<String>,

    /// Let the container use no more memory than this: 512m, 2g
    #[arg(long, value_name = "SIZE", value_parser = parse_memory, requires = "system")]
    pub memory: Option<Memory>,

    /// Let the container use no more processors than this: 2, 0.5
    #[arg(long, value_name = "N", value_parser = parse_cpus, requires = "system")]
    pub cpus: Option<Cpus>,

    /// Run this instead of the image's entry point
    #[arg(long, value_name = "PROGRAM", requires = "system")]
    pub entrypoint: Option<String>,

    /// The name of the container, for `eigentime ctl`
    #[arg(long, value_name = "NAME", requires = "system")]
    pub name: Option<Name>,

    /// The OCI runtime [default: the first of runc, crun and youki on PATH]
    #[arg(long, value_name = "PATH|NAME", requires = "system")]
    pub runtime: Option<String>,
}

/// The network of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NetworkName {
    /// The host's
    Host,
    /// A network of its own without any connection; the default
    None,
    /// A network of its own with access to outside networks
    Private,
}

impl From<NetworkName> for Network {
    fn from(name: NetworkName) -> Self {
        match name {
            NetworkName::Host => Self::Host,
            NetworkName::None => Self::None,
            NetworkName::Private => Self::Private,
        }
    }
}

/// Options of `eigentime images`.
#[derive(Debug, Args)]
pub struct ImagesOptions {
    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// What to do.
    #[command(subcommand)]
    pub action: Option<ImagesAction>,
}

/// What to do with images.
#[derive(Debug, Subcommand)]
pub enum ImagesAction {
    /// Remove images, with what was written to them with --persist
    Rm {
        /// References, digests, or beginnings of digests
        #[arg(value_name = "REF|DIGEST", required_unless_present = "all")]
        images: Vec<String>,
        /// Remove all of them
        #[arg(long, conflicts_with = "images")]
        all: bool,
    },
}
