//! What the command line says of containers.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use eigentime_container::host::limits::{Cpus, Memory, parse_cpus, parse_memory};
use eigentime_container::host::network::Network;
use eigentime_container::image::reference::Reference;
use eigentime_container::spec::bundle::Volume;
use eigentime_supervisor::registry::Name;

/// Options of `eigentime run` that put the program into a container.
#[derive(Debug, Args)]
#[command(next_help_heading = "Containers")]
pub struct ContainerOptions {
    /// Run the program in a container whose file system is this directory
    #[arg(long, value_name = "DIR", group = "system", conflicts_with = "debuggable")]
    pub rootfs: Option<PathBuf>,

    /// Run the program, or the image's own, in a container of this image: HOST/NAME:TAG in a
    /// registry, oci:DIR[:TAG], docker-archive:FILE[:TAG] or oci-archive:FILE[:TAG]
    #[arg(long, value_name = "REF", group = "system", conflicts_with = "debuggable")]
    pub image: Option<Reference>,

    /// Discard what the container writes when it ends; the default
    #[arg(long, requires = "system", conflicts_with = "persist")]
    pub overlay: bool,

    /// Keep what the container writes: in DIR, or in a layer that belongs to the image
    #[arg(long, requires = "system")]
    pub persist: bool,

    /// The network: the host's, none, or one of its own that leads out
    #[arg(long, value_name = "NET", value_enum, requires = "system")]
    pub net: Option<NetworkName>,

    /// The host name in the container; else its name
    #[arg(long, value_name = "NAME", value_parser = parse_hostname, requires = "system")]
    pub hostname: Option<String>,

    /// Show SRC of the host at DST in the container; with :ro it can only be read
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

    /// Start with this in place of the image's entry point
    #[arg(long, value_name = "PROGRAM", requires = "system")]
    pub entrypoint: Option<String>,

    /// Call the container so, for `eigentime ctl`
    #[arg(long, value_name = "NAME", requires = "system")]
    pub name: Option<Name>,

    /// The OCI runtime; else the first of runc, crun and youki on PATH
    #[arg(long, value_name = "PATH|NAME", requires = "system")]
    pub runtime: Option<String>,
}

/// What network a container has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NetworkName {
    /// The host's
    Host,
    /// One of its own that leads nowhere; the default
    None,
    /// One of its own that leads out
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

fn parse_hostname(text: &str) -> Result<String, String> {
    /// The kernel's limit (`sethostname(2)`).
    const LONGEST: usize = 64;
    let fits = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
    match !text.is_empty() && text.len() <= LONGEST && text.chars().all(fits) {
        true => Ok(text.to_owned()),
        false => Err("a host name has 1 to 64 letters, digits, '.', '_' and '-'".to_owned()),
    }
}

pub fn parse_volume(text: &str) -> Result<Volume, String> {
    let parts: Vec<_> = text.split(':').collect();
    let (source, destination, read_only) = match parts.as_slice() {
        [source, destination] | [source, destination, "rw"] => (source, destination, false),
        [source, destination, "ro"] => (source, destination, true),
        _ => return Err("it is no volume: write SRC:DST or SRC:DST:ro".to_owned()),
    };
    if source.is_empty() {
        return Err("it names no file of the host: write SRC:DST or SRC:DST:ro".to_owned());
    }
    let source = std::path::absolute(source).map_err(|error| error.to_string())?;
    Ok(Volume { source, destination: parse_inside(destination)?.into(), read_only })
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it is no variable: write NAME=VALUE".to_owned()),
    }
}

fn parse_inside(text: &str) -> Result<String, String> {
    match Path::new(text).is_absolute() {
        true => Ok(text.to_owned()),
        false => Err(format!("'{text}' does not start with '/', as paths in a container do")),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_are_read() {
        let volume = parse_volume("/a:/b:ro").unwrap();
        assert_eq!((volume.source, volume.destination), ("/a".into(), "/b".into()));
        assert!(volume.read_only);
        assert!(!parse_volume("/a:/b").unwrap().read_only);
        assert!(parse_volume("a:/b").unwrap().source.is_absolute());
        for text in ["", "/a", ":/b", "/a:b", "/a:/b:rx", "/a:/b:ro:ro"] {
            assert!(parse_volume(text).is_err(), "{text}");
        }
    }

    #[test]
    fn variables_have_names() {
        assert_eq!(parse_variable("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert!(parse_variable("A").is_err() && parse_variable("=b").is_err());
    }

    #[test]
    fn host_names_are_the_kernels() {
        assert!(parse_hostname("web-1.example").is_ok());
        for text in ["", "a b", "a\nb", &"x".repeat(65)] {
            assert!(parse_hostname(text).is_err(), "{text}");
        }
    }
}
